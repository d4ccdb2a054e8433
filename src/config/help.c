/* What the option table looks like as text: --help, and --print-config as an INI file. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "config/ini.h"
#include "config/option_value.h"

enum { HELP_COLUMN = 27, HELP_WIDTH = 80 };

void help_wrap(struct buf *out, size_t column, const char *text)
{
    size_t at = column;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (at > column && at + 1 + word > HELP_WIDTH) {
            buf_printf(out, "\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            buf_putc(out, ' ');
            at++;
        }
        buf_append(out, text, word);
        at += word;
        text += word;
        while (*text == ' ')
            text++;
    }
    buf_putc(out, '\n');
}

static void help_row(const struct option_row *row, struct buf *out)
{
    struct buf left = {0}, right = {0};
    if (row->letter)
        buf_printf(&left, "  -%c, --%s", row->letter, row->name);
    else
        buf_printf(&left, "      --%s", row->name);
    if (row->arg) buf_printf(&left, " %s", row->arg);
    buf_puts(&right, row->help);
    bool plain_default = row->preset && row->type != OPTION_BOOL &&
                         strcmp(row->preset, "0") != 0 && strcmp(row->preset, "-1") != 0;
    if (plain_default) buf_printf(&right, " (%s)", row->preset);

    buf_puts(out, buf_str(&left));
    if (left.len + 2 > HELP_COLUMN)
        buf_printf(out, "\n%*s", HELP_COLUMN, "");
    else
        buf_printf(out, "%*s", (int)(HELP_COLUMN - left.len), "");
    help_wrap(out, HELP_COLUMN, buf_str(&right));
    buf_free(&left);
    buf_free(&right);
}

void options_help(struct buf *out)
{
    for (size_t g = 0; g < N_OPTION_GROUPS; g++) {
        buf_printf(out, "%s%s:\n", g ? "\n" : "", option_group_title((enum option_group)g));
        for (size_t i = 0; i < N_OPTIONS; i++) {
            const struct option_row *row = option_row((enum option_id)i);
            if (row->group == g && !(row->flags & OPTION_HIDDEN)) help_row(row, out);
        }
    }
}

/* ---- --print-config ---- */

/* The value as ini.c reads it back, in quotes where it must be; false: not a text that an INI
 * file can hold, or longer than any line. */
static bool print_ini_value(const char *value, size_t n, struct buf *out)
{
    bool plain = n > 0 && value[0] != ' ' && value[n - 1] != ' ' &&
                 !strpbrk(value, "\"'\\#;\n\t") && strlen(value) == n;
    size_t start = out->len;
    if (plain) {
        buf_append(out, value, n);
    } else {
        buf_putc(out, '"');
        for (size_t i = 0; i < n; i++) {
            char c = value[i];
            if (c == '\n' || c == '\t') {
                buf_puts(out, c == '\n' ? "\\n" : "\\t");
                continue;
            }
            if (c == '"' || c == '\\') buf_putc(out, '\\');
            buf_putc(out, c);
        }
        buf_putc(out, '"');
    }
    char shown[INI_MAX_LINE_BYTES + 1];
    printable(shown, sizeof shown, out->data + start, out->len - start);
    return strcmp(shown, out->data + start) == 0;
}

/* A file as it is named from here, for an INI file elsewhere, whose folder its paths begin in.
 * What names no file stays: a model may be called by a name. */
static void make_absolute(struct buf *value, size_t at)
{
    char here[PATH_MAX];
    const char *path = buf_str(value) + at;
    if (value->len <= at || *path == '/' || access(path, F_OK) != 0 ||
        !getcwd(here, sizeof here))
        return;
    struct buf whole = {0};
    buf_printf(&whole, "%.*s%s/%s", (int)at, value->data, here, path);
    buf_free(value);
    *value = whole;
}

static void put_draft(struct buf *value)
{
    static const char *const words[] = {"off", "lookup"};
    struct buf path = {0};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(buf_str(value), words[i]) == 0) return;
    const size_t n = option_draft_path_len(buf_str(value));
    buf_append(&path, value->data, n);
    make_absolute(&path, 0);
    buf_append(&path, buf_str(value) + n, value->len - n);
    buf_free(value);
    *value = path;
}

/* The file that was read: in an INI file its name begins at the folder of that. */
static void put_system(const struct options *o, struct buf *value)
{
    buf_clear(value);
    buf_printf(value, "@%s", o->system_path);
    make_absolute(value, 1);
}

static void put_value(const struct options *o, enum option_id id, struct buf *out)
{
    const struct option_row *row = option_row(id);
    option_value(o, id, out);
    if (row->type == OPTION_PATH && !(row->flags & OPTION_CWD) &&
        option_is_path(row, buf_str(out)))
        make_absolute(out, 0);
    if (id == OPT_SYSTEM && o->system_path) put_system(o, out);
    if (row->type == OPTION_DRAFT) put_draft(out);
}

static void print_row(const struct options *o, enum option_id id, struct buf *out)
{
    const struct option_row *row = option_row(id);
    struct buf value = {0}, line = {0}, origin = {0};
    put_value(o, id, &value);
    option_origin(o, id, &origin);
    char shown[512];
    printable(shown, sizeof shown, buf_str(&origin), origin.len);

    bool given = option_given(o, id) || row->preset;
    bool fits = print_ini_value(buf_str(&value), value.len, &line) &&
                strlen(row->name) + sizeof " = " - 1 + line.len <= INI_MAX_LINE_BYTES;
    /* A profile's values stand here already, so naming it again would only need its section. */
    bool comment = !given || !fits || id == OPT_PROFILE;
    /* Behind the value the origin counts towards the line's length. */
    const size_t n_all = strlen(row->name) + line.len + strlen(shown) + sizeof " =   ; ";
    const bool before = given && !comment && n_all > INI_MAX_LINE_BYTES;
    if (before) buf_printf(out, "# %s\n", shown);
    if (!given)
        buf_printf(out, "# %s", row->name);
    else if (!fits)
        buf_printf(out, "# %s: %zu bytes that no line of an INI file can hold", row->name,
                   value.len);
    else
        buf_printf(out, "%s%s = %s", comment ? "# " : "", row->name, buf_str(&line));
    if (before)
        buf_putc(out, '\n');
    else
        buf_printf(out, given ? "  ; %s\n" : " is %s\n", given ? shown : "not set");
    buf_free(&value);
    buf_free(&line);
    buf_free(&origin);
}

void options_print_config(const struct options *o, struct buf *out)
{
    buf_printf(out, "# hearth %s: every option, its value and where it comes from\n",
               HEARTH_VERSION);
    buf_puts(out, "[hearth]\n");
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (!(option_row((enum option_id)i)->flags & OPTION_NO_KEY))
            print_row(o, (enum option_id)i, out);
}
