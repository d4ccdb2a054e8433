/* Completion for zsh and fish: unlike bash, both ask for rows, which the tables are. */
#include "app/completion.h"

#include <string.h>

#include "app/completion_table.h"

/* Appends text inside single quotes of a shell, with a backslash before each of `marks`. */
static void put_quoted(const char *text, const char *marks, const char *quote, struct buf *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            buf_puts(out, quote);
        else if (strchr(marks, *text))
            buf_printf(out, "\\%c", *text);
        else
            buf_putc(out, *text);
    }
}

/* "hearth run NAME" is no subcommand but the chat, as ollama's users ask for it (foreign.h). */
#define RUN_ABOUT "chat with a model by its name"

/* --- zsh ---------------------------------------------------------------------------------- */

static void zsh_option(const struct completion_option *o, struct buf *out)
{
    const char *end = o->kind == VALUE_NONE ? "" : "=";
    if (o->repeats)
        buf_puts(out, "'*'");
    else if (o->letter)
        buf_printf(out, "'(-%c --%s)'", o->letter, o->name);
    if (o->letter)
        buf_printf(out, "{-%c%s,--%s%s}'[", o->letter, o->kind == VALUE_NONE ? "" : "+",
                   o->name, end);
    else
        buf_printf(out, "'--%s%s[", o->name, end);
    put_quoted(o->help, "[]:", "'\\''", out);
    buf_putc(out, ']');
    if (o->kind != VALUE_NONE) {
        buf_putc(out, ':');
        put_quoted(o->arg, ":", "'\\''", out);
        buf_putc(out, ':');
    }
    switch (o->kind) {
    case VALUE_FILE: buf_puts(out, "_files"); break;
    case VALUE_MODEL: buf_puts(out, "{ _hearth_models; _files }"); break;
    case VALUE_FILE_OR_WORDS: buf_printf(out, "{ compadd -- %s; _files }", o->words); break;
    case VALUE_WORDS: buf_printf(out, "(%s)", o->words); break;
    case VALUE_PROFILE: buf_puts(out, "_hearth_profiles"); break;
    case VALUE_SESSION: buf_puts(out, "_hearth_sessions"); break;
    case VALUE_NONE:
    case VALUE_OTHER: break;
    }
    buf_putc(out, '\'');
}

/* All that can stand behind a subcommand, or behind hearth itself if s is NULL. */
static void zsh_arguments(const struct subcommand *s, const char *indent, struct buf *out)
{
    struct completion_option o;
    buf_puts(out, "_arguments -s -S");
    for (size_t i = 0; completion_option_at(s, i, &o); i++) {
        buf_printf(out, " \\\n%s    ", indent);
        zsh_option(&o, out);
    }
    if (s && s->behind == BEHIND_FILE) buf_printf(out, " \\\n%s    '*:FILE:_files'", indent);
    if (s && s->behind == BEHIND_SESSION)
        buf_printf(out, " \\\n%s    '*:NAME:_hearth_sessions'", indent);
    buf_putc(out, '\n');
}

/* "'bench:how fast a model runs here'", or of the words behind a name. */
static void zsh_words(const char *name, struct buf *out)
{
    const struct subcommand *s;
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (name ? strcmp(name, s->name) != 0 : !completion_is_first(i)) continue;
        struct buf about = {0};
        if (name)
            buf_puts(&about, s->help);
        else
            completion_about(s, &about);
        buf_printf(out, " '%s:", name ? s->what : s->name);
        put_quoted(buf_str(&about), ":", "'\\''", out);
        buf_putc(out, '\'');
        buf_free(&about);
    }
}

static void zsh_subcommand(size_t i, struct buf *out)
{
    const struct subcommand *s = subcommand_at(i), *next;
    const char *indent = s->what ? "            " : "        ";
    if (completion_is_first(i)) {
        buf_printf(out, "    %s)\n", s->name);
        if (s->what) {
            buf_puts(out, "        if (( CURRENT == 3 )); then\n            words_of=(");
            zsh_words(s->name, out);
            buf_puts(out, " )\n            _describe word words_of\n            return\n"
                          "        fi\n        case $words[3] in\n");
        }
    }
    if (s->what) buf_printf(out, "        %s)\n", s->what);
    buf_printf(out, "%sshift %d words; (( CURRENT -= %d ))\n%s", indent, s->what ? 2 : 1,
               s->what ? 2 : 1, indent);
    zsh_arguments(s, indent, out);
    if (s->what) buf_printf(out, "%s;;\n", indent);
    next = subcommand_at(i + 1);
    if (next && !completion_is_first(i + 1)) return;
    if (s->what) buf_puts(out, "        esac\n");
    buf_puts(out, "        return ;;\n");
}

void completion_zsh(struct buf *out)
{
    buf_puts(
        out,
        "#compdef hearth\n# zsh completion for hearth, made by: hearth --completion zsh\n"
        "_hearth_models() {\n"
        "    local -a names\n"
        "    names=(${(f)\"$(hearth models --json 2>/dev/null |\n"
        "        sed -n 's/^{\"name\":\"\\([^\"\\\\]*\\)\".*/\\1/p')\"})\n"
        "    compadd \"$@\" -a names\n"
        "}\n"
        "_hearth_profiles() {\n"
        "    local -a names\n"
        "    names=(${(f)\"$(sed -n "
        "'s/^[[:space:]]*\\[[[:space:]]*profile[[:space:]]\\{1,\\}\\([A-Za-z0-9._-]*\\).*/\\1/"
        "p' \\\n"
        "        ${XDG_CONFIG_HOME:-$HOME/.config}/hearth/hearth.ini 2>/dev/null)\"})\n"
        "    compadd \"$@\" -a names\n"
        "}\n"
        "_hearth_sessions() {\n"
        "    local -a names\n"
        "    names=(${XDG_STATE_HOME:-$HOME/.local/state}/hearth/sessions/*.session(N:t:r))\n"
        "    compadd \"$@\" -a names\n"
        "}\n"
        "_hearth() {\n    local -a words_of\n"
        "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n        words_of=(");
    zsh_words(NULL, out);
    buf_puts(out, " 'run:" RUN_ABOUT "' )\n        _describe subcommand words_of\n"
                  "        return\n    fi\n    case $words[2] in\n"
                  "    run)\n        if (( CURRENT == 3 )); then _hearth_models; return; fi\n"
                  "        shift 2 words; (( CURRENT -= 2 )) ;;\n");
    for (size_t i = 0; subcommand_at(i); i++)
        zsh_subcommand(i, out);
    buf_puts(out, "    esac\n    ");
    zsh_arguments(NULL, "    ", out);
    /* From $fpath this is what _hearth does when it is first called; sourced, it is not called.
     */
    buf_puts(out, "}\nif [ \"$funcstack[1]\" = _hearth ]; then\n    _hearth \"$@\"\n"
                  "elif (( $+functions[compdef] )); then\n    compdef _hearth hearth\nfi\n");
}

/* --- fish --------------------------------------------------------------------------------- */

/* "__hearth_in 'inspect' 'tokens'": whether the line begins so; of the chat, that it does not.
 */
static void fish_where(const struct subcommand *s, struct buf *out)
{
    if (!s)
        buf_puts(out, "complete -c hearth -n __hearth_chat");
    else
        buf_printf(out, "complete -c hearth -n '__hearth_in %s%s%s'", s->name,
                   s->what ? " " : "", s->what ? s->what : "");
}

static void fish_about(const char *text, struct buf *out)
{
    if (*text) {
        buf_puts(out, " -d '");
        put_quoted(text, "\\", "\\'", out);
        buf_putc(out, '\'');
    }
    buf_putc(out, '\n');
}

static void fish_option(const struct subcommand *s, const struct completion_option *o,
                        struct buf *out)
{
    fish_where(s, out);
    buf_printf(out, " -l %s", o->name);
    if (o->letter) buf_printf(out, " -s %c", o->letter);
    switch (o->kind) {
    case VALUE_NONE: buf_puts(out, " -f"); break;
    case VALUE_FILE: buf_puts(out, " -r -F"); break;
    case VALUE_MODEL: buf_puts(out, " -r -F -a '(__hearth_models)'"); break;
    case VALUE_FILE_OR_WORDS: buf_printf(out, " -r -F -a '%s'", o->words); break;
    case VALUE_WORDS: buf_printf(out, " -x -a '%s'", o->words); break;
    case VALUE_PROFILE: buf_puts(out, " -x -a '(__hearth_profiles)'"); break;
    case VALUE_SESSION: buf_puts(out, " -x -a '(__hearth_sessions)'"); break;
    case VALUE_OTHER: buf_puts(out, " -x"); break;
    }
    fish_about(o->help, out);
}

static void fish_options(const struct subcommand *s, struct buf *out)
{
    struct completion_option o;
    for (size_t i = 0; completion_option_at(s, i, &o); i++)
        fish_option(s, &o, out);
}

static void fish_subcommand(size_t i, struct buf *out)
{
    const struct subcommand *s = subcommand_at(i);
    if (completion_is_first(i)) {
        struct buf about = {0};
        completion_about(s, &about);
        buf_printf(out, "complete -c hearth -n __hearth_first -a %s", s->name);
        fish_about(buf_str(&about), out);
        buf_free(&about);
    }
    if (s->what) {
        buf_printf(out, "complete -c hearth -n '__hearth_second %s' -a %s", s->name, s->what);
        fish_about(s->help, out);
    }
    if (s->behind != BEHIND_NOTHING) {
        fish_where(s, out);
        buf_puts(out, s->behind == BEHIND_FILE ? " -F\n" : " -a '(__hearth_sessions)'\n");
    }
    fish_options(s, out);
}

void completion_fish(struct buf *out)
{
    buf_puts(out,
             "# fish completion for hearth, made by: hearth --completion fish\n"
             "function __hearth_in\n"
             "    set -l words (commandline -opc)\n"
             "    set -l last (math 1 + (count $argv))\n"
             "    test (count $words) -ge $last; and test \"$words[2..$last]\" = \"$argv\"\n"
             "end\n"
             "function __hearth_first\n"
             "    test (count (commandline -opc)) -eq 1\n"
             "end\n"
             "function __hearth_second\n"
             "    test (count (commandline -opc)) -eq 2; and __hearth_in $argv\n"
             "end\n"
             "function __hearth_chat\n"
             "    set -l words (commandline -opc)\n"
             "    not contains -- \"$words[2]\" ");
    completion_names(NULL, out);
    buf_puts(out, "\nend\n"
                  "function __hearth_models\n"
                  "    command -q hearth; or return\n"
                  "    hearth models --json 2>/dev/null |\n"
                  "        string match -rg '^\\{\"name\":\"([^\"\\\\\\\\]*)\"'\n"
                  "end\n"
                  "function __hearth_profiles\n"
                  "    set -l folder $XDG_CONFIG_HOME\n"
                  "    test -n \"$folder\"; or set folder ~/.config\n"
                  "    test -r $folder/hearth/hearth.ini; or return\n"
                  "    string match -rg '^\\s*\\[\\s*profile\\s+([A-Za-z0-9._-]*)' "
                  "<$folder/hearth/hearth.ini\n"
                  "end\n"
                  "function __hearth_sessions\n"
                  "    set -l folder $XDG_STATE_HOME\n"
                  "    test -n \"$folder\"; or set folder ~/.local/state\n"
                  "    for file in $folder/hearth/sessions/*.session\n"
                  "        string match -rg '([^/]*)\\.session$' $file\n"
                  "    end\n"
                  "end\n"
                  "complete -c hearth -f\n"
                  "complete -c hearth -n __hearth_first -a run -d '" RUN_ABOUT "'\n"
                  "complete -c hearth -n '__hearth_second run' -a '(__hearth_models)'\n");
    for (size_t i = 0; subcommand_at(i); i++)
        fish_subcommand(i, out);
    fish_options(NULL, out);
}
