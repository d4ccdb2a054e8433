/* Completion for zsh and fish: unlike bash, both ask for rows, which the tables are. */
#include "app/completion.h"

#include <string.h>

#include "app/subcommands.h"
#include "config/options.h"

/* What can stand behind an option. */
enum value_kind { VALUE_NONE, VALUE_FILE, VALUE_WORDS, VALUE_OTHER };

static enum value_kind kind_of(const struct option_row *row)
{
    if (row->type == OPTION_BOOL) return VALUE_NONE;
    if (row->type == OPTION_PATH || row->type == OPTION_PATHS || option_id(row) == OPT_DRAFT ||
        option_id(row) == OPT_SYSTEM)
        return VALUE_FILE;
    return row->words ? VALUE_WORDS : VALUE_OTHER;
}

/* Appends the words of a row that work today between blanks, "[:N]" left out. */
static void put_words(const struct option_row *row, struct buf *out)
{
    const char *list = row->built && *row->built ? row->built : row->words, *w;
    size_t len;
    for (size_t i = 0; (w = option_word(list, i, &len)); i++) {
        const char *bracket = memchr(w, '[', len);
        if (i) buf_putc(out, ' ');
        buf_append(out, w, bracket ? (size_t)(bracket - w) : len);
    }
}

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

/* --- zsh ---------------------------------------------------------------------------------- */

static void zsh_option(const struct option_row *row, struct buf *out)
{
    enum value_kind kind = kind_of(row);
    const char *end = kind == VALUE_NONE ? "" : "=";
    bool list =
        row->type == OPTION_PATHS || row->type == OPTION_STRINGS || row->type == OPTION_BIASES;
    buf_puts(out, "        ");
    if (list)
        buf_puts(out, "'*'");
    else if (row->letter)
        buf_printf(out, "'(-%c --%s)'", row->letter, row->name);
    if (row->letter)
        buf_printf(out, "{-%c%s,--%s%s}'[", row->letter, kind == VALUE_NONE ? "" : "+",
                   row->name, end);
    else
        buf_printf(out, "'--%s%s[", row->name, end);
    put_quoted(row->help, "[]:", "'\\''", out);
    buf_putc(out, ']');
    if (kind != VALUE_NONE) buf_printf(out, ":%s:", row->arg);
    if (kind == VALUE_FILE) buf_puts(out, "_files");
    if (kind == VALUE_WORDS) {
        buf_putc(out, '(');
        put_words(row, out);
        buf_putc(out, ')');
    }
    buf_puts(out, "' \\\n");
}

/* "'bench:how fast a model runs here'", or of the words behind a name. */
static void zsh_words(const char *name, struct buf *out)
{
    const struct subcommand *s;
    const char *last = "";
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (!s->run || (name && (!s->what || strcmp(name, s->name) != 0))) continue;
        const char *word = name ? s->what : s->name;
        if (strcmp(last, word) == 0) continue;
        last = word;
        buf_printf(out, " '%s:", word);
        put_quoted(s->help, ":", "'\\''", out);
        buf_putc(out, '\'');
    }
}

void completion_zsh(struct buf *out)
{
    const struct subcommand *s;
    const char *last = "";
    buf_puts(out,
             "#compdef hearth\n# zsh completion for hearth, made by: hearth --completion zsh\n"
             "_hearth() {\n    local -a words_of\n"
             "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n        words_of=(");
    zsh_words(NULL, out);
    buf_puts(out, " )\n        _describe subcommand words_of\n        return\n    fi\n"
                  "    case $words[2] in\n");
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (!s->run || strcmp(last, s->name) == 0) continue;
        last = s->name;
        buf_printf(out, "    %s)\n", s->name);
        if (s->what) {
            buf_puts(out, "        if (( CURRENT == 3 )); then\n            words_of=(");
            zsh_words(s->name, out);
            buf_puts(
                out,
                " )\n            _describe word words_of\n            return\n        fi\n");
        }
        buf_puts(out, "        _files\n        return ;;\n");
    }
    buf_puts(out, "    esac\n    _arguments -s -S \\\n");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!(row->flags & OPTION_HIDDEN)) zsh_option(row, out);
    }
    buf_puts(out, "        && return\n}\n_hearth \"$@\"\n");
}

/* --- fish --------------------------------------------------------------------------------- */

static void fish_option(const struct option_row *row, struct buf *out)
{
    enum value_kind kind = kind_of(row);
    buf_printf(out, "complete -c hearth -l %s", row->name);
    if (row->letter) buf_printf(out, " -s %c", row->letter);
    if (kind == VALUE_NONE) buf_puts(out, " -f");
    if (kind == VALUE_FILE) buf_puts(out, " -r -F");
    if (kind == VALUE_WORDS || kind == VALUE_OTHER) buf_puts(out, " -x");
    if (row->words) {
        buf_puts(out, " -a '");
        put_words(row, out);
        buf_putc(out, '\'');
    }
    buf_puts(out, " -d '");
    put_quoted(row->help, "\\", "\\'", out);
    buf_puts(out, "'\n");
}

void completion_fish(struct buf *out)
{
    const struct subcommand *s;
    const char *last = "";
    buf_puts(out, "# fish completion for hearth, made by: hearth --completion fish\n"
                  "complete -c hearth -f\n");
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (!s->run) continue;
        if (strcmp(last, s->name) != 0) {
            buf_printf(out, "complete -c hearth -n __fish_use_subcommand -a %s -d '", s->name);
            put_quoted(s->what ? "" : s->help, "\\", "\\'", out);
            buf_printf(out, "'\ncomplete -c hearth -n '__fish_seen_subcommand_from %s' -F\n",
                       s->name);
        }
        last = s->name;
        if (!s->what) continue;
        buf_printf(out,
                   "complete -c hearth -n '__fish_seen_subcommand_from %s; and "
                   "test (count (commandline -opc)) -eq 2' -f -a %s -d '",
                   s->name, s->what);
        put_quoted(s->help, "\\", "\\'", out);
        buf_puts(out, "'\n");
    }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (!(row->flags & OPTION_HIDDEN)) fish_option(row, out);
    }
}
