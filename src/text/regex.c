/* Patterns, read from the beginning to the end. */
#include "text/regex.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"

struct reading {
    const char *s;
    size_t len, at; /* bytes */
    struct expr e;
    int depth;
    struct err *err;
};

enum { END = UINT32_MAX };

/* ---- characters of the pattern ---- */

static bool failed(const struct reading *r)
{
    return r->err->code != ERR_NONE;
}

/* The first refusal counts, at the character that begins at byte `at`. */
#define refuse(r, where, ...)                                                    \
    do {                                                                         \
        if (failed(r)) break;                                                    \
        err_write((r)->err, ERR_FORMAT, __VA_ARGS__);                            \
        err_write_prefix((r)->err, "character %zu", n_chars((r)->s, where) + 1); \
    } while (0)

static size_t n_chars(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((uint8_t)s[i] & 0xc0) != 0x80;
    return count;
}

/* The character that comes next, and how long it is; END: none. */
static uint32_t peek(const struct reading *r, size_t *len)
{
    uint32_t cp = END;
    *len = 0;
    if (r->at == r->len) return END;
    const int n = utf8_decode(r->s + r->at, r->len - r->at, &cp);
    assert(n > 0);
    *len = (size_t)n;
    return cp;
}

static uint32_t take(struct reading *r)
{
    size_t len;
    const uint32_t cp = peek(r, &len);
    r->at += len;
    return cp;
}

static bool is_next(const struct reading *r, const char *s)
{
    const size_t n = strlen(s);
    return r->len - r->at >= n && memcmp(r->s + r->at, s, n) == 0;
}

static bool skip(struct reading *r, const char *s)
{
    const bool found = is_next(r, s);
    if (found) r->at += strlen(s);
    return found;
}

/* ---- classes of characters ---- */

static const struct chars_range digits[] = {{'0', '9'}};
static const struct chars_range letters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/* WhiteSpace and LineTerminator of ECMA-262. */
static const struct chars_range spaces[] = {
    {'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff},
};
static const struct chars_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* Puts the ranges in, or all else. */
static void add_ranges(struct chars *set, const struct chars_range *ranges, size_t n,
                       bool is_other)
{
    struct chars some = {0};
    for (size_t i = 0; i < n; i++)
        chars_add(&some, ranges[i].lo, ranges[i].hi);
    chars_tidy(&some);
    if (is_other) chars_complement(&some);
    chars_add_set(set, &some);
    chars_free(&some);
}

/* \d and its like; false: c is none of them. */
static bool add_class(struct chars *set, uint32_t c)
{
    switch (c) {
    case 'd':
    case 'D': add_ranges(set, digits, 1, c == 'D'); return true;
    case 'w':
    case 'W': add_ranges(set, letters, 4, c == 'W'); return true;
    case 's':
    case 'S': add_ranges(set, spaces, sizeof spaces / sizeof *spaces, c == 'S'); return true;
    default: return false;
    }
}

static uint32_t set_node(struct reading *r, struct chars *set, size_t where)
{
    const uint32_t node = expr_add_set(&r->e, set);
    if (node == EXPR_NONE) refuse(r, where, "a class that no character is of");
    return node;
}

/* ---- escapes ---- */

static int hex_value(uint32_t c)
{
    if (c >= '0' && c <= '9') return (int)(c - '0');
    if (c >= 'a' && c <= 'f') return (int)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return (int)(c - 'A') + 10;
    return -1;
}

/* n digits; END: there are not so many. */
static uint32_t hex(struct reading *r, int n)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++) {
        const int digit = hex_value(take(r));
        if (digit < 0) return END;
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* Behind \u: four digits, of which two may be the halves of a pair, or any in braces. */
static uint32_t unicode(struct reading *r)
{
    if (skip(r, "{")) {
        uint32_t value = 0, c = take(r);
        if (c == '}') return END;
        for (; c != '}'; c = take(r)) {
            if (hex_value(c) < 0) return END;
            value = value << 4 | (uint32_t)hex_value(c);
            if (value > CHARS_MAX) return END;
        }
        return value;
    }
    const uint32_t high = hex(r, 4);
    if (high == END || high >> 10 != 0xd800 >> 10 || !skip(r, "\\u")) return high;
    const uint32_t low = hex(r, 4);
    if (low == END || low >> 10 != 0xdc00 >> 10) return END;
    return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
}

/* The character of an escape that is one, behind its \; anything else is refused by name. */
static uint32_t escaped(struct reading *r, size_t where)
{
    static const char simple[] = "t\tn\nv\vf\fr\r";
    const uint32_t c = take(r);
    for (const char *p = simple; *p; p += 2)
        if (c == (uint32_t)*p) return (uint32_t)p[1];
    uint32_t value = END, next;
    size_t len;
    if (c == 'x') {
        value = hex(r, 2);
    } else if (c == 'u') {
        value = unicode(r);
    } else if (c == 'c') {
        next = take(r);
        if ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')) value = next % 32;
    } else if (c == '0') {
        next = peek(r, &len);
        if (next < '0' || next > '9') value = 0;
    } else if (c == END) {
        refuse(r, where, "a \\ with nothing behind it");
    } else if (c >= '1' && c <= '9') {
        refuse(r, where, "a reference to a group (\\%c) cannot be kept to", (char)c);
    } else if (c == 'b' || c == 'B') {
        refuse(r, where, "a border of a word (\\%c) cannot be kept to", (char)c);
    } else if (c == 'k') {
        refuse(r, where, "a reference by name (\\k) cannot be kept to");
    } else if (c == 'p' || c == 'P') {
        refuse(r, where, "a property of Unicode (\\%c) is not supported", (char)c);
    } else if (c > ' ' && c < 0x7f && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z')) {
        return c;
    }
    if (value == END || (value >= 0xd800 && value <= 0xdfff))
        refuse(r, where, "an escape that is none of a character");
    return value;
}

/* ---- [ ] ---- */

/* One end of a range, or a class as \d, which is put into the set: END. */
static uint32_t class_end(struct reading *r, struct chars *set)
{
    const size_t where = r->at;
    const uint32_t c = take(r);
    if (c != '\\') return c;
    size_t len;
    if (add_class(set, peek(r, &len))) {
        r->at += len;
        return END;
    }
    if (skip(r, "b")) return '\b';
    return escaped(r, where);
}

/* Behind the [ at `where`. */
static uint32_t class(struct reading *r, size_t where)
{
    struct chars set = {0};
    const bool is_other = skip(r, "^");
    while (!failed(r) && !skip(r, "]")) {
        const size_t from = r->at;
        if (from == r->len) refuse(r, where, "a class without its ]");
        const uint32_t lo = class_end(r, &set);
        if (failed(r)) break;
        if (is_next(r, "-") && !is_next(r, "-]")) {
            skip(r, "-");
            const uint32_t hi = class_end(r, &set);
            if (lo == END || hi == END || lo > hi)
                refuse(r, from, "a range that is none from one character to a later one");
            else if (!failed(r))
                chars_add(&set, lo, hi);
        } else if (lo != END) {
            chars_add(&set, lo, lo);
        }
    }
    chars_tidy(&set);
    if (is_other) chars_complement(&set);
    if (!failed(r)) return set_node(r, &set, where);
    chars_free(&set);
    return EXPR_NONE;
}

/* ---- groups, and what they are of ---- */

static uint32_t alternatives(struct reading *r);

/* Behind the ( at `where`. */
static uint32_t group(struct reading *r, size_t where)
{
    if (is_next(r, "?") && !skip(r, "?:")) {
        if (is_next(r, "?=") || is_next(r, "?!") || is_next(r, "?<=") || is_next(r, "?<!"))
            refuse(r, where, "what looks ahead or behind cannot be kept to");
        else if (is_next(r, "?<"))
            refuse(r, where, "a group with a name is not supported");
        else
            refuse(r, where, "'(?' without a colon is not supported");
        return EXPR_NONE;
    }
    if (++r->depth > EXPR_MAX_DEPTH)
        refuse(r, where, "groups in groups beyond %d", EXPR_MAX_DEPTH);
    const uint32_t node = failed(r) ? EXPR_NONE : alternatives(r);
    r->depth--;
    if (!failed(r) && !skip(r, ")")) refuse(r, where, "a group without its )");
    return node;
}

/* One character, class or group. */
static uint32_t atom(struct reading *r)
{
    const size_t where = r->at;
    struct chars set = {0};
    const uint32_t c = take(r);
    size_t len;
    switch (c) {
    case '(': return group(r, where);
    case '[': return class(r, where);
    case '.':
        add_ranges(&set, line_ends, sizeof line_ends / sizeof *line_ends, true);
        return set_node(r, &set, where);
    case '*':
    case '+':
    case '?': refuse(r, where, "there is nothing to repeat"); return EXPR_NONE;
    case '{': refuse(r, where, "a { that is no count is written as \\{"); return EXPR_NONE;
    case '^':
    case '$':
        refuse(r, where, "%c can be kept to at an end of the pattern only", (char)c);
        return EXPR_NONE;
    case '\\':
        if (!add_class(&set, peek(r, &len)))
            return expr_add(&r->e, EXPR_CHAR, escaped(r, where), 0);
        r->at += len;
        return set_node(r, &set, where);
    default: return expr_add(&r->e, EXPR_CHAR, c, 0);
    }
}

/* Digits of a count; END: there are none. */
static uint32_t number(struct reading *r)
{
    uint32_t n = END;
    for (; r->at < r->len && r->s[r->at] >= '0' && r->s[r->at] <= '9'; r->at++) {
        if (n == END) n = 0;
        if (n <= EXPR_MAX_COUNT) n = 10 * n + (uint32_t)(r->s[r->at] - '0');
    }
    return n;
}

/* How often, if that is said; a ? behind it says which match is tried first, and nothing here.
 */
static bool quantifier(struct reading *r, uint32_t *lo, uint32_t *hi)
{
    const size_t where = r->at;
    *lo = 0;
    *hi = EXPR_NO_END;
    if (skip(r, "+")) {
        *lo = 1;
    } else if (skip(r, "?")) {
        *hi = 1;
    } else if (skip(r, "{")) {
        *lo = *hi = number(r);
        if (skip(r, ",")) *hi = number(r); /* none: END is EXPR_NO_END */
        if (*lo == END || !skip(r, "}"))
            refuse(r, where, "expected a count, as {2}, {2,} or {2,5}");
        else if (*lo > EXPR_MAX_COUNT || (*hi > EXPR_MAX_COUNT && *hi != EXPR_NO_END))
            refuse(r, where, "more than %d cannot be counted out", EXPR_MAX_COUNT);
        else if (*lo > *hi)
            refuse(r, where, "the most is below the least");
    } else if (!skip(r, "*")) {
        return false;
    }
    skip(r, "?");
    return !failed(r);
}

static bool is_end_of_sequence(const struct reading *r)
{
    return r->at == r->len || is_next(r, "|") || (r->depth > 0 && is_next(r, ")")) ||
           (r->depth == 0 && (is_next(r, "$|") || (is_next(r, "$") && r->at + 1 == r->len)));
}

static void add_anything(struct reading *r, uint32_t sequence)
{
    struct chars all = {0};
    chars_add(&all, 0, CHARS_MAX);
    expr_append(&r->e, sequence, expr_repeat(&r->e, expr_add_set(&r->e, &all), 0, EXPR_NO_END));
}

/* One alternative; of the outermost ones with what may stand in front and behind. */
static uint32_t sequence(struct reading *r)
{
    const uint32_t node = expr_add(&r->e, EXPR_SEQUENCE, 0, 0);
    if (r->depth == 0 && !skip(r, "^")) add_anything(r, node);
    while (!failed(r) && !is_end_of_sequence(r)) {
        if (is_next(r, ")")) refuse(r, r->at, "a ) without its group");
        uint32_t one = failed(r) ? EXPR_NONE : atom(r), lo, hi;
        if (!failed(r) && quantifier(r, &lo, &hi)) one = expr_repeat(&r->e, one, lo, hi);
        if (!failed(r)) expr_append(&r->e, node, one);
    }
    if (r->depth == 0 && !skip(r, "$")) add_anything(r, node);
    return node;
}

static uint32_t alternatives(struct reading *r)
{
    const uint32_t node = expr_add(&r->e, EXPR_EITHER, 0, 0);
    do
        expr_append(&r->e, node, sequence(r));
    while (!failed(r) && skip(r, "|"));
    return node;
}

bool regex_place(struct grammar *g, const char *pattern, size_t len, expr_writer *write,
                 grammar_place next, grammar_place *out, struct err *err)
{
    *err = (struct err){0};
    if (!utf8_valid(pattern, len)) return err_set(err, ERR_FORMAT, "it is not UTF-8");
    struct reading r = {.s = pattern, .len = len, .err = err};
    const uint32_t whole = alternatives(&r);
    const bool ok = !failed(&r);
    if (ok) *out = expr_place(&r.e, whole, g, NULL, write, next);
    expr_free(&r.e);
    return ok;
}
