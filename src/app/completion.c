/* Completion for bash: one function, and a case per option that takes a value and per
 * subcommand. */
#include "app/completion.h"

#include "app/completion_table.h"

/* The end of a case: what to offer behind an option of this kind. */
static void put_value(const struct completion_option *o, struct buf *out)
{
    switch (o->kind) {
    case VALUE_FILE: buf_puts(out, "_hearth_files; "); break;
    case VALUE_MODEL: buf_puts(out, "_hearth_files; _hearth_models; "); break;
    case VALUE_FILE_OR_WORDS:
        buf_printf(out, "_hearth_files; COMPREPLY+=($(compgen -W \"%s\" -- \"$current\")); ",
                   o->words);
        break;
    case VALUE_WORDS: buf_printf(out, "_hearth_words \"%s\"; ", o->words); break;
    case VALUE_PROFILE: buf_puts(out, "_hearth_words \"$(_hearth_profiles)\"; "); break;
    case VALUE_SESSION: buf_puts(out, "_hearth_sessions; "); break;
    case VALUE_NONE:
    case VALUE_OTHER: break;
    }
    buf_puts(out, "return ;;\n");
}

/* One case per option that takes a value; of a subcommand only its own. */
static void value_cases(const struct subcommand *s, struct buf *out)
{
    struct completion_option o;
    for (size_t i = 0; completion_option_at(s, i, &o); i++) {
        if (o.kind == VALUE_NONE || (s && !o.is_own)) continue;
        if (s)
            buf_printf(out, "    %s,%s,--%s) ", s->name, s->what ? s->what : "*", o.name);
        else
            buf_printf(out, "    *,--%s", o.name);
        if (!s && o.letter) buf_printf(out, "|*,-%c", o.letter);
        if (!s) buf_puts(out, ") ");
        put_value(&o, out);
    }
}

static void put_options(const struct subcommand *s, struct buf *out)
{
    struct completion_option o;
    buf_puts(out, "_hearth_words \"");
    for (size_t i = 0; completion_option_at(s, i, &o); i++) {
        buf_printf(out, "%s--%s", i ? " " : "", o.name);
        if (o.letter) buf_printf(out, " -%c", o.letter);
    }
    buf_puts(out, "\"");
}

/* What stands after a subcommand: its words, its options, files or conversations. */
static void subcommand_cases(struct buf *out)
{
    const struct subcommand *s;
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (s->what && completion_is_first(i)) {
            buf_printf(out, "    %s,2,*) _hearth_words \"", s->name);
            completion_names(s->name, out);
            buf_puts(out, "\"; return ;;\n");
        }
        buf_printf(out, "    %s,*,%s)\n        if [[ $current == -* ]]; then ", s->name,
                   s->what ? s->what : "*");
        put_options(s, out);
        if (s->behind == BEHIND_FILE) buf_puts(out, "\n        else _hearth_files");
        if (s->behind == BEHIND_SESSION) buf_puts(out, "\n        else _hearth_sessions");
        buf_puts(out, "; fi\n        return ;;\n");
    }
}

void completion_bash(struct buf *out)
{
    const struct subcommand *s;
    buf_puts(
        out,
        "# bash completion for hearth, made by: hearth --completion bash\n"
        "_hearth_words() {\n"
        "    COMPREPLY=($(compgen -W \"$1\" -- \"$current\"))\n"
        "}\n"
        "_hearth_files() {\n"
        "    ((at == COMP_CWORD)) || return # behind a colon bash gives only a part of the "
        "word\n"
        "    local IFS=$'\\n'\n"
        "    compopt -o filenames 2>/dev/null\n"
        "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
        "}\n"
        "# A colon ends a word of bash: only what is behind the last one is replaced.\n"
        "_hearth_models() {\n"
        "    local name behind= typed=${COMP_LINE:0:COMP_POINT}\n"
        "    typed=${typed##*[[:blank:]=]}\n"
        "    if [[ $typed == [\\\"\\']* ]]; then typed=${typed:1}\n"
        "    elif [[ $typed == *\\\\:* ]]; then typed=${typed//\\\\:/:} # Tab has written it\n"
        "    elif [[ $COMP_WORDBREAKS == *:* ]]; then behind=${typed%\"${typed##*:}\"}; fi\n"
        "    while read -r name; do\n"
        "        [[ $name == \"$typed\"* ]] && COMPREPLY+=(\"${name#\"$behind\"}\")\n"
        "    done < <(hearth models --json 2>/dev/null |\n"
        "        sed -n 's/^{\"name\":\"\\([^\"\\\\]*\\)\".*/\\1/p')\n"
        "}\n"
        "_hearth_profiles() {\n"
        "    sed -n "
        "'s/^[[:space:]]*\\[[[:space:]]*profile[[:space:]]\\{1,\\}\\([A-Za-z0-9._-]*\\).*/\\1/"
        "p' \\\n"
        "        \"${XDG_CONFIG_HOME:-$HOME/.config}/hearth/hearth.ini\" 2>/dev/null\n"
        "}\n"
        "_hearth_sessions() {\n"
        "    local name quoted typed=${current#[\\\"\\']}\n"
        "    for name in \"${XDG_STATE_HOME:-$HOME/.local/state}\"/hearth/sessions/*.session; "
        "do\n"
        "        name=${name##*/}\n"
        "        name=${name%.session}\n"
        "        [[ $name == '*' ]] && continue\n"
        "        # What is typed has its blanks behind backslashes or the word in quotes.\n"
        "        printf -v quoted %q \"$name\"\n"
        "        [[ $typed != \"$current\" ]] && quoted=$name\n"
        "        [[ $quoted == \"$typed\"* ]] && COMPREPLY+=(\"$quoted\")\n"
        "    done\n"
        "}\n"
        "_hearth() {\n"
        "    local at=$COMP_CWORD current=${COMP_WORDS[COMP_CWORD]} previous\n"
        "    # A name with a colon is three words to bash, or two while nothing is behind it.\n"
        "    while ((at > 1)) && [[ ${COMP_WORDS[at]} == : || ${COMP_WORDS[at-1]} == : ]]; do\n"
        "        ((at--))\n"
        "    done\n"
        "    previous=${COMP_WORDS[at-1]}\n"
        "    # --option=value is three, too.\n"
        "    if [[ $current == = ]]; then current=\n"
        "    elif [[ $previous == = ]]; then previous=${COMP_WORDS[at-2]}; fi\n"
        "    COMPREPLY=()\n"
        "    case ${COMP_WORDS[1]-},${COMP_WORDS[2]-},$previous in\n");
    for (size_t i = 0; (s = subcommand_at(i)); i++)
        value_cases(s, out);
    value_cases(NULL, out);
    buf_puts(out, "    esac\n    case ${COMP_WORDS[1]-},$at,${COMP_WORDS[2]-} in\n"
                  "    run,2,*) _hearth_models; return ;;\n");
    subcommand_cases(out);
    buf_puts(out, "    esac\n    if [[ $current == -* ]]; then ");
    put_options(NULL, out);
    buf_puts(out, "\n    elif ((COMP_CWORD == 1)); then _hearth_words \"");
    completion_names(NULL, out);
    buf_puts(out, " run\"; fi\n}\ncomplete -F _hearth hearth\n");
}
