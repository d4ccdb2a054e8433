#include "app/completion.h"

#include <string.h>

#include "app/subcommands.h"
#include "config/options.h"

static bool is_path(const struct option_row *row)
{
    return row->type == OPTION_PATH || row->type == OPTION_PATHS || row->type == OPTION_DRAFT ||
           option_id(row) == OPT_SYSTEM;
}

static void pattern(const struct option_row *row, struct buf *out)
{
    buf_printf(out, "--%s", row->name);
    if (row->letter) buf_printf(out, "|-%c", row->letter);
}

/* Appends compgen over the words of a row that work today, "[:N]" left out. */
static void words(const struct option_row *row, struct buf *out)
{
    const char *list = row->built && *row->built ? row->built : row->words, *w;
    size_t len;
    buf_puts(out, "$(compgen -W \"");
    for (size_t i = 0; (w = option_word(list, i, &len)); i++) {
        const char *bracket = memchr(w, '[', len);
        if (i) buf_putc(out, ' ');
        buf_append(out, w, bracket ? (size_t)(bracket - w) : len);
    }
    buf_puts(out, "\" -- \"$current\")");
}

/* One case per option that takes a value: its words, files, or nothing. */
static void value_cases(struct buf *out)
{
    buf_puts(out, "    case $previous in\n    ");
    const char *bar = "";
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!is_path(row) || row->words) continue;
        buf_puts(out, bar);
        pattern(row, out);
        bar = "|";
    }
    buf_puts(out, "|--context)\n"
                  "        _hearth_files; return ;;\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->type == OPTION_BOOL || (is_path(row) && !row->words)) continue;
        buf_puts(out, "    ");
        pattern(row, out);
        buf_puts(out, ")\n");
        if (option_id(row) == OPT_PROFILE) {
            buf_puts(out, "        COMPREPLY=($(compgen -W \"$(_hearth_profiles)\" -- "
                          "\"$current\")); return ;;\n");
        } else if (row->words) {
            buf_puts(out, is_path(row) ? "        _hearth_files; COMPREPLY+=("
                                       : "        COMPREPLY=(");
            words(row, out);
            buf_puts(out, "); return ;;\n");
        } else {
            buf_puts(out, "        return ;;\n");
        }
    }
    buf_puts(out, "    esac\n");
}

/* The --words in a usage line. */
static void options_in(const char *usage, struct buf *out)
{
    for (const char *p = usage; (p = strstr(p, "--"));) {
        size_t n = strspn(p, "-abcdefghijklmnopqrstuvwxyz");
        buf_putc(out, ' ');
        buf_append(out, p, n);
        p += n;
    }
}

/* What stands after a subcommand: its words, its options. */
static void subcommand_cases(struct buf *out)
{
    struct buf engine = {0};
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_ENGINE) buf_printf(&engine, " --%s", row->name);
    }
    buf_puts(out, "    case ${COMP_WORDS[1]} in\n");
    const struct subcommand *s;
    const char *open = NULL;
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (!s->run) continue;
        if (!open || strcmp(open, s->name) != 0) {
            if (open) buf_puts(out, "        esac\n        _hearth_files; return ;;\n");
            buf_printf(out, "    %s)\n", s->name);
            if (s->what) {
                buf_puts(out, "        if ((COMP_CWORD == 2)); then\n"
                              "            COMPREPLY=($(compgen -W \"");
                const struct subcommand *t;
                for (size_t j = 0; (t = subcommand_at(j)); j++)
                    if (t->run && t->what && strcmp(t->name, s->name) == 0)
                        buf_printf(out, "%s ", t->what);
                buf_puts(out, "\" -- \"$current\")); return\n        fi\n");
            }
            buf_printf(out, "        case $current,%s in\n", s->what ? "${COMP_WORDS[2]}" : "");
            open = s->name;
        }
        buf_printf(out, "        -*,%s) COMPREPLY=($(compgen -W \"", s->what ? s->what : "");
        struct buf own = {0};
        options_in(s->args, &own);
        buf_printf(out, "%s%s\" -- \"$current\")); return ;;\n", buf_str(&own),
                   buf_str(&engine));
        buf_free(&own);
    }
    if (open) buf_puts(out, "        esac\n        _hearth_files; return ;;\n");
    buf_puts(out, "    esac\n");
    buf_free(&engine);
}

void completion_bash(struct buf *out)
{
    buf_puts(
        out,
        "# bash completion for hearth, made by: hearth --completion bash\n"
        "_hearth_files() {\n"
        "    local IFS=$'\\n'\n"
        "    compopt -o filenames 2>/dev/null\n"
        "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
        "}\n"
        "_hearth_profiles() {\n"
        "    sed -n "
        "'s/^[[:space:]]*\\[[[:space:]]*profile[[:space:]]\\{1,\\}\\([A-Za-z0-9._-]*\\).*/\\1/"
        "p' \\\n"
        "        \"${XDG_CONFIG_HOME:-$HOME/.config}/hearth/hearth.ini\" 2>/dev/null\n"
        "}\n"
        "_hearth() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    # --option=value is three words to bash.\n"
        "    if [[ $current == = ]]; then current=\n"
        "    elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
        "    COMPREPLY=()\n");
    value_cases(out);
    subcommand_cases(out);
    buf_puts(out, "    if [[ $current == -* ]]; then\n        COMPREPLY=($(compgen -W \"");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->flags & OPTION_HIDDEN) continue;
        buf_printf(out, " --%s", row->name);
        if (row->letter) buf_printf(out, " -%c", row->letter);
    }
    buf_puts(out, "\" -- \"$current\"))\n"
                  "    elif ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W \"");
    const struct subcommand *s;
    const char *last = "";
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (!s->run || strcmp(last, s->name) == 0) continue;
        buf_printf(out, " %s", s->name);
        last = s->name;
    }
    buf_puts(out, "\" -- \"$current\"))\n    fi\n}\ncomplete -F _hearth hearth\n");
}
