#include "template/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <utf8proc.h>

#include "base/decimal.h"
#include "template/eval.h"

static void put_int(struct builder *b, int64_t i)
{
    char s[24];
    snprintf(s, sizeof s, "%" PRId64, i);
    builder_puts(b, s);
}

/* What str.isprintable refuses: shown as an escape by repr. */
static bool printable(uint32_t cp)
{
    if (cp < 0x7F) return cp >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void repr_text(struct builder *b, struct text t)
{
    bool single = memchr(t.data, '\'', t.len), twice = memchr(t.data, '"', t.len);
    char quote = single && !twice ? '"' : '\'';
    builder_putc(b, quote);
    size_t done = 0, len;
    for (size_t at = 0; at < t.len; at += len) {
        uint32_t cp = text_char(t, at, &len);
        if (printable(cp) && cp != '\\' && cp != (unsigned char)quote) continue;
        char s[16];
        if (cp == '\\' || cp == (unsigned char)quote)
            snprintf(s, sizeof s, "\\%c", (char)cp);
        else if (cp == '\n' || cp == '\r' || cp == '\t')
            snprintf(s, sizeof s, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
        else
            snprintf(s, sizeof s,
                     cp < 0x100     ? "\\x%02x"
                     : cp < 0x10000 ? "\\u%04x"
                                    : "\\U%08x",
                     cp);
        builder_add(b, text_plain(text_slice(t, done, at)));
        builder_puts(b, s);
        done = at + len;
    }
    builder_add(b, text_plain(text_slice(t, done, t.len)));
    builder_putc(b, quote);
    work_burn_bytes(b->w, t.len);
}

static void repr_range(struct builder *b, const struct seq *seq)
{
    char s[80];
    if (seq->step == 1)
        snprintf(s, sizeof s, "range(%" PRId64 ", %" PRId64 ")", seq->start, seq->stop);
    else
        snprintf(s, sizeof s, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", seq->start,
                 seq->stop, seq->step);
    builder_puts(b, s);
}

static void repr_seq(struct builder *b, const struct seq *seq)
{
    if (seq->kind == SEQ_RANGE) {
        repr_range(b, seq);
        return;
    }
    if (seq->kind == SEQ_GENERATOR) {
        builder_puts(b, "<generator object>");
        return;
    }
    if (seq->kind == SEQ_VIEW) {
        builder_puts(b, seq->name);
        builder_putc(b, '(');
    }
    builder_putc(b, seq->kind == SEQ_TUPLE ? '(' : '[');
    for (size_t i = 0; i < seq->n; i++) {
        if (i) builder_puts(b, ", ");
        print_repr(b, seq->items[i]);
    }
    if (seq->kind == SEQ_TUPLE && seq->n == 1) builder_putc(b, ',');
    builder_putc(b, seq->kind == SEQ_TUPLE ? ')' : ']');
    if (seq->kind == SEQ_VIEW) builder_putc(b, ')');
}

static void repr_dict(struct builder *b, const struct dict *dict)
{
    builder_putc(b, '{');
    for (size_t i = 0; i < dict->n; i++) {
        if (i) builder_puts(b, ", ");
        print_repr(b, dict->entries[i].key);
        builder_puts(b, ": ");
        print_repr(b, dict->entries[i].value);
    }
    builder_putc(b, '}');
}

void print_repr(struct builder *b, const struct value *v)
{
    work_burn(b->w, 1);
    switch (v->type) {
    case VALUE_UNDEFINED: builder_puts(b, "Undefined"); break;
    case VALUE_NONE: builder_puts(b, "None"); break;
    case VALUE_BOOL: builder_puts(b, v->boolean ? "True" : "False"); break;
    case VALUE_INT: put_int(b, v->integer); break;
    case VALUE_FLOAT: {
        char s[DECIMAL_BYTES];
        decimal_shortest(s, v->real);
        builder_puts(b, s);
        break;
    }
    case VALUE_STRING: repr_text(b, v->text); break;
    case VALUE_SEQ:
    case VALUE_DICT:
    case VALUE_NAMESPACE:
        work_enter(b->w);
        if (v->type == VALUE_NAMESPACE) builder_puts(b, "<Namespace ");
        if (v->type == VALUE_SEQ)
            repr_seq(b, v->seq);
        else
            repr_dict(b, v->dict);
        if (v->type == VALUE_NAMESPACE) builder_putc(b, '>');
        work_leave(b->w);
        break;
    case VALUE_MACRO:
        builder_puts(b, "<Macro ");
        repr_text(b, v->macro->node->name->text);
        builder_putc(b, '>');
        break;
    default:
        builder_putc(b, '<');
        builder_puts(b, value_type_name(v));
        builder_putc(b, '>');
    }
}

void print_str(struct builder *b, const struct value *v)
{
    if (v->type == VALUE_STRING)
        builder_add(b, v->text);
    else if (v->type != VALUE_UNDEFINED)
        print_repr(b, v);
}

struct text print_to_text(struct work *w, const struct value *v)
{
    if (v->type == VALUE_STRING) return v->text;
    struct builder b;
    builder_init(&b, w);
    print_str(&b, v);
    return builder_take(&b);
}

/* ---- JSON ---- */

static void json_escape(struct builder *b, uint32_t cp)
{
    static const char shorts[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    char s[16];
    const char *found = cp && cp < 0x80 ? strchr(shorts, (int)cp) : NULL;
    if (found)
        snprintf(s, sizeof s, "\\%c", names[found - shorts]);
    else if (cp < 0x10000)
        snprintf(s, sizeof s, "\\u%04x", cp);
    else
        snprintf(s, sizeof s, "\\u%04x\\u%04x", 0xD800 + ((cp - 0x10000) >> 10),
                 0xDC00 + (cp & 0x3FF));
    builder_puts(b, s);
}

static void json_text(struct builder *b, struct text t, bool ascii)
{
    builder_putc(b, '"');
    size_t done = 0, len;
    for (size_t at = 0; at < t.len; at += len) {
        unsigned char c = (unsigned char)t.data[at];
        len = 1;
        if (c >= 0x20 && c != '"' && c != '\\' && !(ascii && c >= 0x7F)) continue;
        uint32_t cp = text_char(t, at, &len);
        builder_add(b, text_plain(text_slice(t, done, at)));
        json_escape(b, cp);
        done = at + len;
    }
    builder_add(b, text_plain(text_slice(t, done, t.len)));
    builder_putc(b, '"');
    work_burn_bytes(b->w, t.len);
}

static void json_scalar(struct builder *b, const struct value *v)
{
    char s[DECIMAL_BYTES];
    switch (v->type) {
    case VALUE_NONE: builder_puts(b, "null"); break;
    case VALUE_BOOL: builder_puts(b, v->boolean ? "true" : "false"); break;
    case VALUE_INT: put_int(b, v->integer); break;
    case VALUE_FLOAT:
        decimal_shortest(s, v->real);
        if (isfinite(v->real))
            builder_puts(b, s);
        else
            builder_puts(b, isnan(v->real) ? "NaN" : v->real > 0 ? "Infinity" : "-Infinity");
        break;
    default: work_fail(b->w, "Object of type %s is not JSON serializable", value_type_name(v));
    }
}

static void json_key(struct builder *b, const struct value *key, bool ascii)
{
    if (key->type == VALUE_STRING) {
        json_text(b, key->text, ascii);
    } else if (value_is_number(key) || key->type == VALUE_NONE) {
        builder_putc(b, '"');
        json_scalar(b, key);
        builder_putc(b, '"');
    } else {
        work_fail(b->w, "keys of JSON must be str, int, float, bool or None, not %s",
                  value_type_name(key));
    }
}

static void json_break(struct builder *b, const struct json_style *style, unsigned level)
{
    if (!style->pretty) return;
    builder_putc(b, '\n');
    for (unsigned i = 0; i < level; i++)
        builder_add(b, style->indent);
}

/* Insertion keeps the order of equal keys; dicts with keys to sort are small, and steps are
 * paid for by the comparisons. */
static struct dict_entry *sorted_entries(struct work *w, const struct dict *dict)
{
    struct dict_entry *e = work_grow(w, dict->entries, dict->n, dict->n, sizeof *e);
    for (size_t i = 1; i < dict->n; i++)
        for (size_t k = i; k > 0 && value_compare(w, e[k].key, e[k - 1].key, "<") < 0; k--) {
            struct dict_entry other = e[k];
            e[k] = e[k - 1];
            e[k - 1] = other;
        }
    return e;
}

static void json_value(struct builder *b, const struct value *v, const struct json_style *style,
                       unsigned level)
{
    work_burn(b->w, 1);
    if (v->type == VALUE_STRING) {
        json_text(b, v->text, style->ascii);
        return;
    }
    bool is_dict = v->type == VALUE_DICT;
    if (!is_dict && (v->type != VALUE_SEQ || v->seq->kind > SEQ_TUPLE)) {
        json_scalar(b, v);
        return;
    }
    size_t n = is_dict ? v->dict->n : v->seq->n;
    if (!n) {
        builder_puts(b, is_dict ? "{}" : "[]");
        return;
    }
    work_enter(b->w);
    struct dict_entry *entries = NULL;
    if (is_dict) entries = style->sort_keys ? sorted_entries(b->w, v->dict) : v->dict->entries;
    builder_putc(b, is_dict ? '{' : '[');
    for (size_t i = 0; i < n; i++) {
        if (i) builder_add(b, style->item);
        json_break(b, style, level + 1);
        if (is_dict) {
            json_key(b, entries[i].key, style->ascii);
            builder_add(b, style->key);
        }
        json_value(b, is_dict ? entries[i].value : v->seq->items[i], style, level + 1);
    }
    json_break(b, style, level);
    builder_putc(b, is_dict ? '}' : ']');
    work_leave(b->w);
}

void print_json(struct builder *b, const struct value *v, const struct json_style *style)
{
    json_value(b, v, style, 0);
}
