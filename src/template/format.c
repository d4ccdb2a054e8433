/* printf-style `%` and str.format. What comes from the format or is an unpadded string keeps
 * its origin; numbers are ORIGIN_USER. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "template/builtins.h"
#include "template/print.h"

/* One conversion: what both kinds of format come down to. */
struct spec {
    struct text fill;
    char align;     /* < > ^ =, or 0: by type */
    char sign;      /* + or space, or 0 */
    bool alternate; /* # */
    bool commas;
    char comma; /* , or _ */
    int64_t width;
    int64_t precision; /* -1: none */
    char type;         /* 0: by value */
};

static size_t parse_count(struct work *w, struct text f, size_t at, int64_t *n)
{
    *n = 0;
    for (; at < f.len && f.data[at] >= '0' && f.data[at] <= '9'; at++) {
        *n = *n * 10 + (f.data[at] - '0');
        if (*n > 1000000) work_fail(w, "a width or precision of more than 1000000");
    }
    return at;
}

/* ---- Laying out ---- */

/* With '=' the fill comes behind the first `head` bytes, a sign and a prefix. */
static void put_padded(struct builder *b, struct text t, size_t head, const struct spec *s,
                       char align)
{
    int64_t n = s->width - (int64_t)text_n_chars(t);
    if (n <= 0) {
        builder_add(b, t);
        return;
    }
    if (s->align) align = s->align;
    int64_t left = align == '<' ? 0 : align == '^' ? n / 2 : n;
    if (align != '=') head = 0;
    builder_add(b, text_slice(t, 0, head));
    for (int64_t i = 0; i < left; i++)
        builder_add(b, s->fill);
    builder_add(b, text_slice(t, head, t.len));
    for (int64_t i = left; i < n; i++)
        builder_add(b, s->fill);
}

static void put_string(struct builder *b, struct text t, const struct spec *s, char align)
{
    if (s->precision >= 0) t = text_slice(t, 0, text_char_pos(t, (size_t)s->precision));
    put_padded(b, t, 0, s, align);
}

static bool is_zero_filled(const struct spec *s)
{
    return s->align == '=' && text_is(s->fill, "0");
}

/* Digits with their sign, at least so many before the point and separators between groups of
 * them; zeros that fill the width are digits, too. */
static void put_digits(struct builder *b, const char *digits, size_t least, bool negative,
                       const char *prefix, const struct spec *s)
{
    const bool is_binary = s->type && strchr("boxX", s->type);
    const size_t whole = strspn(digits, is_binary ? "0123456789abcdefABCDEF" : "0123456789");
    const size_t group = !s->commas ? SIZE_MAX : is_binary ? 4 : 3;
    const char sign = negative ? '-' : s->sign;
    const size_t head = strlen(prefix) + (sign != 0), others = head + strlen(digits + whole);
    size_t n = whole > least ? whole : least;
    if (is_zero_filled(s))
        while (others + n + (n ? (n - 1) / group : 0) < (size_t)s->width)
            n++;
    struct builder number;
    builder_init(&number, b->w);
    if (sign) builder_putc(&number, sign);
    builder_puts(&number, prefix);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % group == 0) builder_putc(&number, s->comma);
        builder_putc(&number, i < n - whole ? '0' : digits[i - (n - whole)]);
    }
    builder_puts(&number, digits + whole);
    put_padded(b, builder_take(&number), head, s, '>');
}

static void put_int(struct builder *b, int64_t i, const struct spec *s)
{
    char digits[70];
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *prefix = "";
    switch (s->type) {
    case 'x':
        snprintf(digits, sizeof digits, "%" PRIx64, magnitude);
        prefix = "0x";
        break;
    case 'X':
        snprintf(digits, sizeof digits, "%" PRIX64, magnitude);
        prefix = "0X";
        break;
    case 'o':
        snprintf(digits, sizeof digits, "%" PRIo64, magnitude);
        prefix = "0o";
        break;
    case 'b': {
        char *p = digits + sizeof digits;
        *--p = 0;
        do {
            *--p = (char)('0' + (magnitude & 1));
            magnitude >>= 1;
        } while (magnitude);
        memmove(digits, p, (size_t)(digits + sizeof digits - p));
        prefix = "0b";
        break;
    }
    default: snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    }
    put_digits(b, digits, s->precision > 0 ? (size_t)s->precision : 0, i < 0,
               s->alternate ? prefix : "", s);
}

/* Without a type: as %g, but a whole number keeps its ".0" and is sooner one with an exponent.
 */
static void print_general(char *digits, size_t cap, double magnitude, int precision)
{
    if (precision == 0) precision = 1;
    snprintf(digits, cap, "%.*e", precision - 1, magnitude);
    char *e = strchr(digits, 'e'), *end = e;
    const long exponent = strtol(e + 1, NULL, 10);
    if (exponent >= -4 && exponent < precision - 1) {
        int n = snprintf(digits, cap, "%.*g", precision, magnitude);
        if (!strchr(digits, '.')) snprintf(digits + n, cap - (size_t)n, ".0");
    } else if (strchr(digits, '.')) {
        while (end[-1] == '0')
            end--;
        if (end[-1] == '.') end--;
        memmove(end, e, strlen(e) + 1);
    }
}

static void put_real(struct builder *b, double f, const struct spec *s)
{
    char digits[700];
    const char type = s->type == 'n' ? 'g' : s->type; /* the locale is that of C */
    int precision = s->precision < 0 ? 6 : s->precision > 300 ? 300 : (int)s->precision;
    bool negative = signbit(f) && !isnan(f);
    double magnitude = fabs(f);
    if (isnan(f) || isinf(f)) {
        snprintf(digits, sizeof digits, "%s", isnan(f) ? "nan" : "inf");
    } else if (!s->type && s->precision < 0) {
        decimal_shortest(digits, magnitude);
    } else if (!s->type) {
        print_general(digits, sizeof digits, magnitude, precision);
    } else if (type == '%') {
        snprintf(digits, sizeof digits, "%.*f%%", precision, magnitude * 100);
    } else {
        char format[8];
        snprintf(format, sizeof format, "%%%s.*%c", s->alternate ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof digits, format, precision, magnitude);
#pragma GCC diagnostic pop
    }
    put_digits(b, digits, 0, negative, "", s);
}

/* ---- printf style ---- */

struct percent_args {
    const struct value *all;
    size_t next;
    bool by_name;
};

static const struct value *percent_next(struct work *w, struct percent_args *p)
{
    bool tuple = p->all->type == VALUE_SEQ && p->all->seq->kind == SEQ_TUPLE;
    size_t n = tuple ? p->all->seq->n : 1;
    if (p->next >= n) work_fail(w, "not enough arguments for format string");
    p->next++;
    return tuple ? p->all->seq->items[p->next - 1] : p->all;
}

static int64_t percent_int(struct work *w, const struct value *v, char type)
{
    int64_t i;
    if (v->type == VALUE_UNDEFINED) value_fail_undefined(w, v);
    if (v->type == VALUE_FLOAT && fabs(v->real) < 9e18 && strchr("diu", type))
        return (int64_t)v->real;
    if (!value_as_int(v, &i))
        work_fail(w, "%%%c format: an integer is required, not %s", type, value_type_name(v));
    return i;
}

static void put_percent(struct builder *b, const struct value *v, struct spec *s)
{
    struct work *w = b->w;
    switch (s->type) {
    case 's': put_string(b, print_to_text(w, v), s, '>'); return;
    case 'r': {
        struct builder repr;
        builder_init(&repr, w);
        print_repr(&repr, v);
        put_string(b, builder_take(&repr), s, '>');
        return;
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': put_int(b, percent_int(w, v, s->type), s); return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (v->type == VALUE_UNDEFINED) value_fail_undefined(w, v);
        if (!value_is_number(v))
            work_fail(w, "must be real number, not %s", value_type_name(v));
        put_real(b, value_as_real(v), s);
        return;
    case 'c':
        s->precision = -1; /* it cuts strings alone */
        if (v->type == VALUE_STRING && text_n_chars(v->text) == 1) {
            put_string(b, v->text, s, '>');
        } else {
            int64_t cp = percent_int(w, v, 'c');
            if (cp < 0 || cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000))
                work_fail(w, "%%c format: not a character");
            struct builder c;
            builder_init(&c, w);
            builder_put_char(&c, (uint32_t)cp);
            put_string(b, builder_take(&c), s, '>');
        }
        return;
    default: work_fail(w, "unsupported format character '%c'", s->type ? s->type : '%');
    }
}

/* Flags, width, precision and type from `at` on. */
static size_t parse_percent(struct work *w, struct text f, size_t at, struct percent_args *p,
                            struct spec *s)
{
    bool zero = false;
    for (; at < f.len && strchr("-+ #0", f.data[at]) && f.data[at]; at++) {
        char c = f.data[at];
        if (c == '-') s->align = '<';
        if (c == '+' || (c == ' ' && !s->sign)) s->sign = c;
        if (c == '#') s->alternate = true;
        if (c == '0') zero = true;
    }
    if (at < f.len && f.data[at] == '*') {
        s->width = percent_int(w, percent_next(w, p), 'd');
        at++;
        if (s->width < -1000000 || s->width > 1000000) work_fail(w, "a width beyond 1000000");
        if (s->width < 0) {
            s->align = '<';
            s->width = -s->width;
        }
    } else {
        at = parse_count(w, f, at, &s->width);
    }
    if (at < f.len && f.data[at] == '.') at = parse_count(w, f, at + 1, &s->precision);
    while (at < f.len && strchr("hlL", f.data[at]) && f.data[at])
        at++;
    s->type = at < f.len ? f.data[at] : 0;
    if (zero && !s->align && s->type && strchr("diuxXoeEfFgG", s->type)) {
        s->align = '=';
        s->fill = text_literal("0");
    }
    return at + 1;
}

struct text format_percent(struct work *w, struct text f, const struct value *values)
{
    struct builder b;
    builder_init(&b, w);
    struct percent_args p = {.all = values};
    size_t done = 0, at;
    while ((at = text_find(f, text_literal("%"), done)) != TEXT_NONE) {
        builder_add(&b, text_slice(f, done, at));
        at++;
        work_burn(w, 1);
        const struct value *v = NULL;
        if (at < f.len && f.data[at] == '(') {
            size_t close = text_find(f, text_literal(")"), at);
            if (close == TEXT_NONE) work_fail(w, "incomplete format key");
            work_burn_bytes(w, close - at);
            if (values->type != VALUE_DICT) work_fail(w, "format requires a mapping");
            v = dict_get_text(w, values->dict, text_slice(f, at + 1, close));
            if (!v)
                work_fail(w, "format: no key '%.*s'", (int)(close - at - 1), f.data + at + 1);
            p.by_name = true;
            at = close + 1;
        }
        struct spec s = {.fill = text_literal(" "), .precision = -1};
        at = parse_percent(w, f, at, &p, &s);
        if (at > f.len) work_fail(w, "incomplete format");
        if (s.type == '%')
            builder_add(&b, text_slice(f, at - 1, at));
        else
            put_percent(&b, v ? v : percent_next(w, &p), &s);
        done = at;
    }
    builder_add(&b, text_slice(f, done, f.len));
    bool tuple = values->type == VALUE_SEQ && values->seq->kind == SEQ_TUPLE;
    bool all = p.by_name || values->type == VALUE_DICT ||
               (!tuple && values->type == VALUE_SEQ) || p.next >= (tuple ? values->seq->n : 1);
    if (!all) work_fail(w, "not all arguments converted during string formatting");
    return builder_take(&b);
}

/* ---- str.format ---- */

/* of_text: whether it is for a string. */
static struct spec parse_spec(struct work *w, struct text f, bool of_text)
{
    struct spec s = {.fill = text_literal(" "), .precision = -1};
    size_t at = 0;
    bool has_fill = false;
    if (f.len) {
        size_t len = text_char_len(f, 0);
        if (len < f.len && f.data[len] && strchr("<>^=", f.data[len])) {
            s.fill = text_slice(f, 0, len);
            has_fill = true;
            s.align = f.data[len];
            at = len + 1;
        } else if (f.data[0] && strchr("<>^=", f.data[0])) {
            s.align = f.data[at++];
        }
    }
    if (at < f.len && f.data[at] && strchr("+- ", f.data[at])) {
        if (f.data[at] != '-') s.sign = f.data[at];
        at++;
    }
    if (at < f.len && f.data[at] == '#') {
        s.alternate = true;
        at++;
    }
    if (at < f.len && f.data[at] == '0') {
        if (!has_fill) s.fill = text_literal("0");
        if (!s.align) s.align = of_text ? '<' : '=';
        at++;
    }
    at = parse_count(w, f, at, &s.width);
    if (at < f.len && (f.data[at] == ',' || f.data[at] == '_')) {
        s.commas = true;
        s.comma = f.data[at++];
    }
    if (at < f.len && f.data[at] == '.') at = parse_count(w, f, at + 1, &s.precision);
    if (at < f.len) s.type = f.data[at++];
    if (at != f.len) work_fail(w, "invalid format specifier");
    return s;
}

static void put_formatted(struct builder *b, const struct value *v, struct text spec)
{
    struct work *w = b->w;
    struct spec s = parse_spec(w, spec, v->type == VALUE_STRING);
    int64_t i;
    if (v->type == VALUE_UNDEFINED && spec.len) value_fail_undefined(w, v);
    if (!spec.len) {
        print_str(b, v);
    } else if (v->type == VALUE_STRING) {
        if (s.type && s.type != 's')
            work_fail(w, "unknown format code '%c' for object of type 'str'", s.type);
        put_string(b, v->text, &s, '<');
    } else if (v->type == VALUE_FLOAT ||
               (value_is_number(v) && s.type && strchr("eEfFgG%", s.type))) {
        if (s.type && !strchr("eEfFgGn%", s.type))
            work_fail(w, "unknown format code '%c' for object of type 'float'", s.type);
        if (s.alternate && !s.type) work_fail(w, "a '#' of a float without a type");
        put_real(b, value_as_real(v), &s);
    } else if (value_as_int(v, &i)) {
        if (s.precision >= 0) work_fail(w, "precision not allowed in integer format specifier");
        if (s.type && !strchr("dxXobn", s.type))
            work_fail(w, "unknown format code '%c' for object of type 'int'", s.type);
        put_int(b, i, &s);
    } else {
        work_fail(w, "unsupported format string passed to %s.__format__", value_type_name(v));
    }
}

/* The value that a field's name means: an argument, then attributes and items. */
static const struct value *field_value(struct eval *e, struct text name, const struct args *a,
                                       size_t *automatic)
{
    size_t at = 0;
    const struct value *v = NULL;
    while (at < name.len && name.data[at] != '.' && name.data[at] != '[')
        at++;
    struct text first = text_slice(name, 0, at);
    int64_t index = 0;
    if (!first.len)
        index = (int64_t)(*automatic)++;
    else if (parse_count(e->w, first, 0, &index) != first.len)
        index = -1;
    if (index >= 0 && (size_t)index < a->n) v = a->at[index];
    for (size_t i = 0; index < 0 && i < a->n_named; i++)
        if (text_equal(a->named[i].name->text, first)) v = a->named[i].value;
    if (!v) work_fail(e->w, "format: no argument '%.*s'", (int)first.len, first.data);
    while (at < name.len) {
        bool item = name.data[at] == '[';
        size_t end = at + 1;
        while (end < name.len &&
               (item ? name.data[end] != ']' : name.data[end] != '.' && name.data[end] != '['))
            end++;
        if (item && end == name.len) work_fail(e->w, "format: expected ']'");
        struct text part = text_slice(name, at + 1, end);
        int64_t i;
        bool number = part.len && parse_count(e->w, part, 0, &i) == part.len;
        v = !item    ? eval_attr(e, v, part)
            : number ? eval_item(e, v, value_make_int(e->w, i))
                     : eval_item(e, v, make_text(e, part));
        at = end + item;
    }
    return v;
}

/* One {field}, without its braces. */
static void put_field(struct eval *e, struct builder *b, struct text field,
                      const struct args *a, size_t *automatic)
{
    size_t colon = text_find(field, text_literal(":"), 0);
    struct text name = text_slice(field, 0, colon == TEXT_NONE ? field.len : colon);
    struct text spec = text_slice(field, colon == TEXT_NONE ? field.len : colon + 1, field.len);
    size_t bang = text_find(name, text_literal("!"), 0);
    char conversion = 0;
    if (bang != TEXT_NONE) {
        if (bang + 2 != name.len) work_fail(e->w, "format: expected ':' after conversion");
        conversion = name.data[bang + 1];
        name = text_slice(name, 0, bang);
    }
    if (text_find(spec, text_literal("{"), 0) != TEXT_NONE)
        work_fail(e->w, "format: fields inside a format specifier are not supported");
    const struct value *v = field_value(e, name, a, automatic);
    if (conversion == 's') {
        v = make_text(e, print_to_text(e->w, v));
    } else if (conversion) {
        struct builder repr;
        builder_init(&repr, e->w);
        print_repr(&repr, v);
        v = make_builder(&repr);
    }
    put_formatted(b, v, spec);
}

struct text format_braces(struct eval *e, struct text f, const struct args *a)
{
    struct builder b;
    builder_init(&b, e->w);
    size_t automatic = 0, done = 0;
    for (size_t at = 0; at < f.len;) {
        char c = f.data[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        builder_add(&b, text_slice(f, done, at));
        work_burn(e->w, 1);
        if (at + 1 < f.len && f.data[at + 1] == c) { /* doubled: itself */
            done = at + 1;
            at += 2;
            continue;
        }
        size_t close = text_find(f, text_literal("}"), at);
        if (c == '}' || close == TEXT_NONE)
            work_fail(e->w, "single '%c' encountered in format string", c);
        put_field(e, &b, text_slice(f, at + 1, close), a, &automatic);
        done = at = close + 1;
    }
    builder_add(&b, text_slice(f, done, f.len));
    return builder_take(&b);
}
