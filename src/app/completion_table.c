#include "app/completion_table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config/options.h"

/* --- The rows of the option table --------------------------------------------------------- */

/* The words of a row between blanks, "[:N]" left out. */
static void copy_words(const struct option_row *row, char *out, size_t cap)
{
    const char *w;
    size_t len, at = 0;
    for (size_t i = 0; (w = option_word(row->words, i, &len)); i++) {
        const char *bracket = memchr(w, '[', len);
        if (bracket) len = (size_t)(bracket - w);
        at += (size_t)snprintf(out + at, cap - at, "%s%.*s", i ? " " : "", (int)len, w);
        assert(at < cap); /* room for the longest row of the table */
    }
}

static enum value_kind kind_of(const struct option_row *row)
{
    enum option_id id = option_id(row);
    if (row->type == OPTION_BOOL) return VALUE_NONE;
    if (id == OPT_PROFILE) return VALUE_PROFILE;
    if (id == OPT_SESSION) return VALUE_SESSION;
    if (id == OPT_MODEL) return VALUE_MODEL;
    if (row->type == OPTION_PATH || row->type == OPTION_PATHS || row->type == OPTION_DRAFT ||
        id == OPT_SYSTEM)
        return row->words ? VALUE_FILE_OR_WORDS : VALUE_FILE;
    return row->words ? VALUE_WORDS : VALUE_OTHER;
}

static void from_row(const struct option_row *row, struct completion_option *out)
{
    *out = (struct completion_option){.letter = row->letter,
                                      .kind = kind_of(row),
                                      .repeats = row->type == OPTION_PATHS ||
                                                 row->type == OPTION_STRINGS ||
                                                 row->type == OPTION_BIASES,
                                      .help = row->help};
    snprintf(out->name, sizeof out->name, "%s", row->name);
    snprintf(out->arg, sizeof out->arg, "%s", row->arg ? row->arg : "");
    if (row->words) copy_words(row, out->words, sizeof out->words);
}

/* --- A subcommand's own options ----------------------------------------------------------- */

/* What stands behind an option whose value has this name: FILE is a file, words in small
 * letters are all that can be said, anything else is nothing to offer. */
static void set_value(struct completion_option *out, const char *arg, size_t n)
{
    snprintf(out->arg, sizeof out->arg, "%.*s", (int)n, arg);
    if (strncmp(out->arg, "FILE", 4) == 0) {
        out->kind = VALUE_FILE;
    } else if (*arg >= 'A' && *arg <= 'Z') {
        out->kind = VALUE_OTHER;
    } else {
        out->kind = VALUE_WORDS;
        snprintf(out->words, sizeof out->words, "%s", out->arg);
        for (char *bar; (bar = strchr(out->words, '|'));)
            *bar = ' ';
    }
}

/* The --words of "-m FILE [--rows all|last]", with what stands behind each. Returns where the
 * next one may begin, NULL behind the last. */
static const char *from_usage(const char *usage, struct completion_option *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *p = strstr(usage, "--");
    if (!p) return NULL;
    *out = (struct completion_option){.help = "", .is_own = true};
    p += 2;
    size_t n = strspn(p, "-abcdefghijklmnopqrstuvwxyz");
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, p);
    p += n;
    if (*p != ' ' || !strchr(letters, p[1])) return p;
    p++;
    n = strcspn(p, " ])");
    set_value(out, p, n);
    return p + n;
}

static void from_own(const struct subcommand_option *own, struct completion_option *out)
{
    *out = (struct completion_option){.help = own->help, .is_own = true};
    snprintf(out->name, sizeof out->name, "%s", own->name);
    if (own->arg) set_value(out, own->arg, strlen(own->arg));
}

/* Sets *out to the i-th of them; or, past their end, takes their number from *i. */
static bool own_at(const struct subcommand *s, size_t *i, struct completion_option *out)
{
    struct subcommand_option own;
    size_t n = 0;
    if (s->option_at) {
        for (; s->option_at(n, &own); n++)
            if (n == *i) {
                from_own(&own, out);
                return true;
            }
    } else {
        for (const char *usage = s->args; (usage = from_usage(usage, out)); n++)
            if (n == *i) return true;
    }
    *i -= n;
    return false;
}

/* --- Both --------------------------------------------------------------------------------- */

bool completion_option_at(const struct subcommand *s, size_t i, struct completion_option *out)
{
    if (s && own_at(s, &i, out)) return true;
    for (size_t k = 0; k < N_OPTIONS; k++) {
        const struct option_row *row = option_row((enum option_id)k);
        bool is_help = option_id(row) == OPT_HELP;
        bool here = !s          ? !(row->flags & OPTION_HIDDEN)
                    : s->engine ? (row->flags & OPTION_ENGINE) != 0
                                : is_help;
        if (!here || i-- > 0) continue;
        from_row(row, out);
        return true;
    }
    return false;
}

bool completion_is_first(size_t i)
{
    return i == 0 || strcmp(subcommand_at(i)->name, subcommand_at(i - 1)->name) != 0;
}

void completion_names(const char *name, struct buf *out)
{
    const struct subcommand *s;
    const char *blank = "";
    for (size_t i = 0; (s = subcommand_at(i)); i++) {
        if (name ? !s->what || strcmp(name, s->name) != 0 : !completion_is_first(i)) continue;
        buf_printf(out, "%s%s", blank, name ? s->what : s->name);
        blank = " ";
    }
}

void completion_about(const struct subcommand *s, struct buf *out)
{
    if (s->what)
        completion_names(s->name, out);
    else
        buf_puts(out, s->help);
}
