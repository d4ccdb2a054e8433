#include "config/option_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "config/paths.h"

static void *field(struct options *o, const struct option_row *row)
{
    return (char *)o + row->at;
}

static const void *field_const(const struct options *o, const struct option_row *row)
{
    return (const char *)o + row->at;
}

static void list_add(struct option_list *list, char *item)
{
    MEM_GROW(list->items, list->n, list->cap);
    list->items[list->n++] = item;
}

static void list_free(struct option_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct option_list){0};
}

/* ---- Parsing ---- */

static bool expected(struct err *err, const char *what, const char *found)
{
    char shown[80];
    if (!*found) return err_set(err, ERR_USER, "expected %s, found nothing", what);
    return err_set(err, ERR_USER, "expected %s, found '%s'", what,
                   printable(shown, sizeof shown, found, strlen(found)));
}

static bool refuse(const struct option_row *row, const char *found, struct err *err)
{
    struct buf what = {0};
    option_takes(row, &what);
    expected(err, buf_str(&what), found);
    buf_free(&what);
    return false;
}

/* strtod without what a person does not write: hexadecimal, nan, a space in front. */
static bool parse_decimal(const char *text, double *out)
{
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text)) return false;
    char *end;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static bool parse_number(const struct option_row *row, const char *text, double *out,
                         struct err *err)
{
    bool whole = row->type == OPTION_INT;
    size_t len;
    const char *word;
    for (size_t i = 0; (word = option_word(row->words, i, &len)); i++) {
        if (strlen(text) != len || strncmp(text, word, len) != 0) continue;
        *out = row->min;
        return true;
    }
    if (parse_decimal(text, out) && (!whole || *out == floor(*out)) && *out >= row->min &&
        *out <= row->max)
        return true;
    /* Of such a row option_takes tells the lower end alone. */
    if (row->max >= INT32_MAX && parse_decimal(text, out) && *out > row->max)
        return expected(err, "a whole number below 2^31", text);
    return refuse(row, text, err);
}

static bool parse_size(const struct option_row *row, const char *text, uint64_t *out,
                       struct err *err)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    bool ok = isdigit((unsigned char)*text) && errno == 0;
    unsigned shift = 0;
    if (ok && *end) {
        const char *unit = strchr(units, toupper((unsigned char)*end));
        ok = unit != NULL;
        if (ok) shift = 10 * (unsigned)(unit - units + 1), end++;
        if (ok && ascii_same(end, "iB")) end += 2;
        ok = ok && !*end && n <= UINT64_MAX >> shift;
    }
    if (!ok) return refuse(row, text, err);
    *out = (uint64_t)n << shift;
    return true;
}

bool option_seed(const char *text, uint64_t *out)
{
    const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hex ? text + 2 : text;
    const char *known = hex ? "0123456789abcdefABCDEF" : "0123456789";
    if (!*digits || digits[strspn(digits, known)]) return false;
    errno = 0;
    const unsigned long long n = strtoull(digits, NULL, hex ? 16 : 10);
    if (errno) return false;
    *out = n;
    return true;
}

/* Whether its words are those of a switch: some switches must be told which. */
static bool is_switch(const struct option_row *row)
{
    return row->type == OPTION_BOOL || (row->words && strcmp(row->words, "off|on") == 0);
}

static bool parse_bool(const struct option_row *row, const char *text, double *out,
                       struct err *err)
{
    static const char *const words[2][4] = {{"off", "false", "no", "0"},
                                            {"on", "true", "yes", "1"}};
    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < 4; i++)
            if (ascii_same(text, words[value][i])) {
                *out = value;
                return true;
            }
    return refuse(row, text, err);
}

/* Whether text is the word w[0..len), which may end in "[:N]". */
static bool is_word(const char *text, const char *w, size_t len)
{
    static const char number[] = "[:N]";
    size_t n = sizeof number - 1;
    if (len <= n || memcmp(w + len - n, number, n) != 0)
        return strlen(text) == len && memcmp(text, w, len) == 0;
    len -= n;
    if (strncmp(text, w, len) != 0) return false;
    text += len;
    if (!*text) return true;
    size_t digits = strspn(text + 1, "0123456789");
    return *text == ':' && digits > 0 && digits < 4 && !text[1 + digits];
}

static bool find_word(const struct option_row *row, const char *text, size_t *number)
{
    const char *w;
    size_t len;
    for (size_t i = 0; (w = option_word(row->words, i, &len)); i++)
        if (is_word(text, w, len)) {
            *number = i;
            return true;
        }
    return false;
}

bool option_is_path(const struct option_row *row, const char *text)
{
    size_t number;
    const bool is_text = row->flags & OPTION_TEXT && text[strspn(text, " \t\r\n")] == '{';
    return !is_text && !find_word(row, text, &number);
}

static bool parse_word(const struct option_row *row, const char *text, double *number,
                       struct err *err)
{
    size_t i;
    if (!find_word(row, text, &i)) return refuse(row, text, err);
    *number = (double)i;
    return true;
}

/* "ID=X": a token and what is added to its logit. */
static bool parse_bias(const struct option_row *row, const char *text, struct option_bias *out,
                       struct err *err)
{
    char *end;
    errno = 0;
    long id = strtol(text, &end, 10);
    bool ok = isdigit((unsigned char)*text) && errno == 0 && id <= INT32_MAX && *end == '=';
    double x = 0;
    if (ok) {
        const char *value = end + 1;
        if (ascii_same(value, "-inf"))
            x = -INFINITY;
        else
            ok = parse_decimal(value, &x) && fabs(x) <= 1e6;
    }
    if (!ok) return refuse(row, text, err);
    *out = (struct option_bias){(int32_t)id, (float)x};
    return true;
}

/* With home expanded; relative to the folder, if there is one. */
static char *parse_path(const char *text, const struct option_reading *reading)
{
    const char *folder = reading->folder;
    char *typed = reading->is_typed ? paths_found(text) : paths_typed(text);
    if (!folder || *typed == '/' || strcmp(typed, "-") == 0) return typed;
    struct buf path = {0};
    buf_printf(&path, "%s/%s", folder, typed);
    free(typed);
    return buf_take(&path);
}

static const char draft_lookup[] = "lookup", draft_off[] = "off";

size_t option_draft_path_len(const char *text)
{
    const size_t n = strlen(text), tail = sizeof draft_lookup;
    if (n < tail || text[n - tail] != ',' || strcmp(text + n - tail + 1, draft_lookup) != 0)
        return n;
    return n - tail;
}

/* "off", "lookup", a path, or a path and ",lookup". */
static bool parse_draft(const char *text, const struct option_reading *reading, char **out,
                        struct err *err)
{
    const size_t n = option_draft_path_len(text);
    if (n == 0) return expected(err, "a path, lookup, a path with ,lookup or off", text);
    if (strcmp(text, draft_off) == 0 || strcmp(text, draft_lookup) == 0) {
        *out = mem_strdup(text);
        return true;
    }
    struct buf whole = {0};
    char *typed = mem_strndup(text, n), *path = parse_path(typed, reading);
    buf_printf(&whole, "%s%s", path, text + n);
    *out = buf_take(&whole);
    free(typed);
    free(path);
    return true;
}

void options_draft(const struct options *o, char **path, bool *lookup)
{
    const char *text = o->draft;
    *path = NULL;
    *lookup = false;
    if (!text) {
        *path = o->model ? paths_guide_draft(o->model) : NULL;
        return;
    }
    const size_t n = option_draft_path_len(text);
    *lookup = text[n] != '\0' || strcmp(text, draft_lookup) == 0;
    if (strcmp(text, draft_off) != 0 && strcmp(text, draft_lookup) != 0)
        *path = mem_strndup(text, n);
}

static bool parse_item(const struct option_row *row, const char *text,
                       const struct option_reading *reading, struct option_parsed *out,
                       struct err *err)
{
    if (row->type == OPTION_BIASES) {
        struct option_bias bias;
        if (!parse_bias(row, text, &bias, err)) return false;
        MEM_GROW(out->biases.items, out->biases.n, out->biases.cap);
        out->biases.items[out->biases.n++] = bias;
        return true;
    }
    if (!*text) return refuse(row, text, err);
    list_add(&out->list,
             row->type == OPTION_PATHS ? parse_path(text, reading) : mem_strdup(text));
    return true;
}

/* Items between commas; in an item "\," is a comma, "\\" a backslash, "\ " a blank that stays
 * and "\n" a line break. */
static bool parse_items(const struct option_row *row, const char *text,
                        const struct option_reading *reading, struct option_parsed *out,
                        struct err *err)
{
    struct buf item = {0};
    bool ok = true;
    for (const char *p = text; ok; p++) {
        if (*p == '\\' && p[1] && strchr(", \\", p[1])) {
            buf_putc(&item, *++p);
        } else if (*p == '\\' && p[1] == 'n') {
            buf_putc(&item, '\n');
            p++;
        } else if (*p && *p != ',') {
            buf_putc(&item, *p);
        } else {
            ok = parse_item(row, buf_str(&item), reading, out, err);
            buf_clear(&item);
            if (!*p) break;
            while (p[1] == ' ')
                p++;
        }
    }
    buf_free(&item);
    return ok;
}

bool option_parse(const struct option_row *row, const char *text,
                  const struct option_reading *reading, struct option_parsed *out,
                  struct err *err)
{
    *out = (struct option_parsed){0};
    bool ok = true;
    if (!utf8_valid(text, strlen(text)) && row->type != OPTION_PATH &&
        row->type != OPTION_PATHS && row->type != OPTION_DRAFT)
        return expected(err, "valid UTF-8", text);
    switch (row->type) {
    case OPTION_STRING: out->text = mem_strdup(text); break;
    case OPTION_PATH:
        if (!*text) return refuse(row, text, err);
        out->text = option_is_path(row, text) ? parse_path(text, reading) : mem_strdup(text);
        break;
    case OPTION_DRAFT: ok = parse_draft(text, reading, &out->text, err); break;
    case OPTION_WORD:
    case OPTION_ENUM:
        ok = (is_switch(row) ? parse_bool : parse_word)(row, text, &out->number, err);
        break;
    case OPTION_INT:
    case OPTION_FLOAT: ok = parse_number(row, text, &out->number, err); break;
    case OPTION_BOOL: ok = parse_bool(row, text, &out->number, err); break;
    case OPTION_SIZE: ok = parse_size(row, text, &out->bits, err); break;
    case OPTION_SEED: ok = option_seed(text, &out->bits) || refuse(row, text, err); break;
    case OPTION_PATHS:
    case OPTION_STRINGS:
        /* A flag's empty path is a variable of a script that was not set. */
        if (reading->one_item && (*text || row->type == OPTION_PATHS))
            ok = parse_item(row, text, reading, out, err);
        else if (*text)
            ok = parse_items(row, text, reading, out, err);
        break;
    case OPTION_BIASES:
        if (*text) ok = parse_items(row, text, reading, out, err);
        break;
    }
    bool list =
        row->type == OPTION_PATHS || row->type == OPTION_STRINGS || row->type == OPTION_BIASES;
    if (ok && !list && !out->text)
        out->text = mem_strdup(!is_switch(row) ? text : out->number != 0 ? "on" : "off");
    if (!ok) option_parsed_free(out);
    return ok;
}

void option_parsed_free(struct option_parsed *p)
{
    free(p->text);
    list_free(&p->list);
    free(p->biases.items);
    *p = (struct option_parsed){0};
}

/* ---- Storing ---- */

static void store_lists(struct options *o, const struct option_row *row,
                        struct option_parsed *p)
{
    if (row->type == OPTION_BIASES) {
        struct option_biases *to = field(o, row);
        for (size_t i = 0; i < p->biases.n; i++) {
            MEM_GROW(to->items, to->n, to->cap);
            to->items[to->n++] = p->biases.items[i];
        }
        return;
    }
    struct option_list *to = field(o, row);
    for (size_t i = 0; i < p->list.n; i++)
        list_add(to, p->list.items[i]);
    p->list.n = 0; /* the items have moved */
}

void option_store(struct options *o, const struct option_row *row, struct option_parsed *p,
                  bool append)
{
    if (!append) option_unset(o, row);
    void *at = field(o, row);
    switch (row->type) {
    case OPTION_STRING:
    case OPTION_PATH:
    case OPTION_DRAFT:
    case OPTION_WORD: *(const char **)at = p->text; break;
    case OPTION_ENUM:
    case OPTION_INT: *(int *)at = (int)p->number; break;
    case OPTION_FLOAT: *(float *)at = (float)p->number; break;
    case OPTION_BOOL: *(bool *)at = p->number != 0; break;
    case OPTION_SIZE:
    case OPTION_SEED: *(uint64_t *)at = p->bits; break;
    case OPTION_PATHS:
    case OPTION_STRINGS:
    case OPTION_BIASES: store_lists(o, row, p); break;
    }
    if (p->text) {
        o->text[option_id(row)] = p->text;
        p->text = NULL;
    }
    option_parsed_free(p);
}

void option_unset(struct options *o, const struct option_row *row)
{
    void *at = field(o, row);
    char **text = &o->text[option_id(row)];
    switch (row->type) {
    case OPTION_STRING:
    case OPTION_PATH:
    case OPTION_DRAFT:
    case OPTION_WORD: *(const char **)at = NULL; break;
    case OPTION_PATHS:
    case OPTION_STRINGS: list_free(at); break;
    case OPTION_BIASES:
        free(((struct option_biases *)at)->items);
        *(struct option_biases *)at = (struct option_biases){0};
        break;
    default: break; /* plain numbers: overwritten by what comes */
    }
    free(*text);
    *text = NULL;
}

void option_copy(struct options *to, const struct options *from, const struct option_row *row)
{
    struct option_parsed p = {0};
    const char *text = from->text[option_id(row)];
    const void *at = field_const(from, row);
    if (row->type == OPTION_BIASES) {
        const struct option_biases *biases = at;
        for (size_t i = 0; i < biases->n; i++) {
            MEM_GROW(p.biases.items, p.biases.n, p.biases.cap);
            p.biases.items[p.biases.n++] = biases->items[i];
        }
    } else if (row->type == OPTION_PATHS || row->type == OPTION_STRINGS) {
        const struct option_list *list = at;
        for (size_t i = 0; i < list->n; i++)
            list_add(&p.list, mem_strdup(list->items[i]));
    } else if (text) {
        struct err err;
        bool ok = option_parse(row, text, &(struct option_reading){0}, &p, &err);
        if (!ok) return; /* it was parsed before: only a path that $HOME changes could differ */
    } else {
        return;
    }
    option_store(to, row, &p, false);
}

/* ---- Printing ---- */

/* The shortest decimal that gives the same float. */
static void print_float(float x, struct buf *out)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    buf_puts(out, text);
}

/* As parse_items reads it behind a comma. */
void option_put_item(const char *item, struct buf *out)
{
    if (*item == ' ') buf_putc(out, '\\');
    for (; *item; item++) {
        if (*item == ',' || *item == '\\' || *item == '\n') buf_putc(out, '\\');
        buf_putc(out, *item == '\n' ? 'n' : *item);
    }
}

void option_value(const struct options *o, enum option_id id, struct buf *out)
{
    const struct option_row *row = option_row(id);
    const void *at = field_const(o, row);
    if (row->type == OPTION_BIASES) {
        const struct option_biases *biases = at;
        for (size_t i = 0; i < biases->n; i++) {
            buf_printf(out, "%s%d=", i ? "," : "", (int)biases->items[i].id);
            print_float(biases->items[i].bias, out);
        }
    } else if (row->type == OPTION_PATHS || row->type == OPTION_STRINGS) {
        const struct option_list *list = at;
        for (size_t i = 0; i < list->n; i++) {
            if (i) buf_putc(out, ',');
            option_put_item(list->items[i], out);
        }
    } else if (!o->text[id]) {
        return;
    } else if (row->type == OPTION_FLOAT) {
        print_float(*(const float *)at, out);
    } else if (row->type == OPTION_INT) {
        buf_printf(out, "%d", *(const int *)at);
    } else if (row->type == OPTION_SEED) {
        buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
    } else {
        buf_puts(out, o->text[id]);
    }
}

/* ---- what a value may be ---- */

static void take_words(const struct option_row *row, struct buf *out)
{
    const char *w;
    size_t len, next_len;
    for (size_t i = 0; (w = option_word(row->words, i, &len)); i++) {
        const char *next = option_word(row->words, i + 1, &next_len);
        if (i > 0) buf_puts(out, next ? ", " : " or ");
        buf_append(out, w, len);
    }
}

void option_takes(const struct option_row *row, struct buf *out)
{
    switch (row->type) {
    case OPTION_STRING:
    case OPTION_STRINGS:
        buf_puts(out, row->arg && strcmp(row->arg, "NAME") == 0 ? "a name" : "a text");
        break;
    case OPTION_PATH:
    case OPTION_PATHS:
        buf_puts(out, row->words ? "a path, " : "a path");
        if (row->flags & OPTION_TEXT) buf_puts(out, "{...}, ");
        take_words(row, out);
        break;
    case OPTION_DRAFT: buf_puts(out, "a path, lookup, a path with ,lookup or off"); break;
    case OPTION_WORD:
    case OPTION_ENUM: take_words(row, out); break;
    case OPTION_INT:
    case OPTION_FLOAT: {
        const char *whole = row->type == OPTION_INT ? "whole " : "";
        if (row->max >= INT32_MAX)
            buf_printf(out, "a %snumber of at least %g", whole, row->min);
        else
            buf_printf(out, "a %snumber from %.10g to %.10g", whole, row->min, row->max);
        if (row->words) {
            buf_puts(out, ", ");
            take_words(row, out);
        }
        break;
    }
    case OPTION_SIZE: buf_puts(out, "a size such as 512M or 4G"); break;
    case OPTION_SEED: buf_puts(out, "a whole number below 2^64"); break;
    case OPTION_BOOL: buf_puts(out, "on or off"); break;
    case OPTION_BIASES:
        buf_puts(out, "ID=X, a token's number and a bias from -1e6 to 1e6 or -inf");
        break;
    }
}
