/* Patterns, read from the beginning to the end. */
#include "text/regex.h"

#include <string.h>

#include "base/utf8.h"
#include "text/scan.h"

struct reading {
    struct scan in;
    struct expr e;
    int depth;
    struct err *err;
};

/* ---- what is refused ---- */

static bool failed(const struct reading *r)
{
    return r->err->code != ERR_NONE;
}

/* The first refusal counts, at the character that begins at byte `at`. */
#define refuse(r, where, ...)                                                       \
    do {                                                                            \
        if (failed(r)) break;                                                       \
        err_write((r)->err, ERR_FORMAT, __VA_ARGS__);                               \
        err_write_prefix((r)->err, "character %zu", n_chars((r)->in.s, where) + 1); \
    } while (0)

static size_t n_chars(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((uint8_t)s[i] & 0xc0) != 0x80;
    return count;
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

/* Behind \u: four digits, of which two may be the halves of a pair, or any in braces. */
static uint32_t unicode(struct reading *r)
{
    if (scan_skip(&r->in, "{")) {
        uint32_t value = 0, c = scan_take(&r->in);
        if (c == '}') return SCAN_END;
        for (; c != '}'; c = scan_take(&r->in)) {
            if (scan_digit(c) < 0) return SCAN_END;
            value = value << 4 | (uint32_t)scan_digit(c);
            if (value > CHARS_MAX) return SCAN_END;
        }
        return value;
    }
    const uint32_t high = scan_hex(&r->in, 4);
    if (high == SCAN_END || high >> 10 != 0xd800 >> 10 || !scan_skip(&r->in, "\\u"))
        return high;
    const uint32_t low = scan_hex(&r->in, 4);
    if (low == SCAN_END || low >> 10 != 0xdc00 >> 10) return SCAN_END;
    return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
}

/* The character of an escape that is one, behind its \; anything else is refused by name. */
static uint32_t escaped(struct reading *r, size_t where)
{
    static const char simple[] = "t\tn\nv\vf\fr\r";
    const uint32_t c = scan_take(&r->in);
    for (const char *p = simple; *p; p += 2)
        if (c == (uint32_t)*p) return (uint32_t)p[1];
    uint32_t value = SCAN_END, next;
    if (c == 'x') {
        value = scan_hex(&r->in, 2);
    } else if (c == 'u') {
        value = unicode(r);
    } else if (c == 'c') {
        next = scan_take(&r->in);
        if ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')) value = next % 32;
    } else if (c == '0') {
        next = scan_peek(&r->in);
        if (next < '0' || next > '9') value = 0;
    } else if (c == SCAN_END) {
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
    if (value == SCAN_END || (value >= 0xd800 && value <= 0xdfff))
        refuse(r, where, "an escape that is none of a character");
    return value;
}

/* ---- [ ] ---- */

/* One end of a range, or a class as \d, which is put into the set: SCAN_END. */
static uint32_t class_end(struct reading *r, struct chars *set)
{
    const size_t where = r->in.at;
    const uint32_t c = scan_take(&r->in);
    if (c != '\\') return c;
    if (add_class(set, scan_peek(&r->in))) {
        scan_take(&r->in);
        return SCAN_END;
    }
    if (scan_skip(&r->in, "b")) return '\b';
    return escaped(r, where);
}

/* Behind the [ at `where`. */
static uint32_t class(struct reading *r, size_t where)
{
    struct chars set = {0};
    const bool is_other = scan_skip(&r->in, "^");
    while (!failed(r) && !scan_skip(&r->in, "]")) {
        const size_t from = r->in.at;
        if (from == r->in.len) refuse(r, where, "a class without its ]");
        const uint32_t lo = class_end(r, &set);
        if (failed(r)) break;
        if (scan_is_next(&r->in, "-") && !scan_is_next(&r->in, "-]")) {
            scan_skip(&r->in, "-");
            const uint32_t hi = class_end(r, &set);
            if (lo == SCAN_END || hi == SCAN_END || lo > hi)
                refuse(r, from, "a range that is none from one character to a later one");
            else if (!failed(r))
                chars_add(&set, lo, hi);
        } else if (lo != SCAN_END) {
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
    if (scan_is_next(&r->in, "?") && !scan_skip(&r->in, "?:")) {
        if (scan_is_next(&r->in, "?=") || scan_is_next(&r->in, "?!") ||
            scan_is_next(&r->in, "?<=") || scan_is_next(&r->in, "?<!"))
            refuse(r, where, "what looks ahead or behind cannot be kept to");
        else if (scan_is_next(&r->in, "?<"))
            refuse(r, where, "a group with a name is not supported");
        else
            refuse(r, where, "'(?' without a colon is not supported");
        return EXPR_NONE;
    }
    if (++r->depth > EXPR_MAX_DEPTH)
        refuse(r, where, "groups in groups beyond %d", EXPR_MAX_DEPTH);
    const uint32_t node = failed(r) ? EXPR_NONE : alternatives(r);
    r->depth--;
    if (!failed(r) && !scan_skip(&r->in, ")")) refuse(r, where, "a group without its )");
    return node;
}

/* One character, class or group. */
static uint32_t atom(struct reading *r)
{
    const size_t where = r->in.at;
    struct chars set = {0};
    const uint32_t c = scan_take(&r->in);
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
        if (!add_class(&set, scan_peek(&r->in)))
            return expr_add(&r->e, EXPR_CHAR, escaped(r, where), 0);
        scan_take(&r->in);
        return set_node(r, &set, where);
    default: return expr_add(&r->e, EXPR_CHAR, c, 0);
    }
}

/* How often, if that is said; a ? behind it says which match is tried first, and nothing here.
 */
static bool quantifier(struct reading *r, uint32_t *lo, uint32_t *hi)
{
    const size_t where = r->in.at;
    *lo = 0;
    *hi = EXPR_NO_END;
    if (scan_skip(&r->in, "+")) {
        *lo = 1;
    } else if (scan_skip(&r->in, "?")) {
        *hi = 1;
    } else if (scan_skip(&r->in, "{")) {
        *lo = *hi = scan_number(&r->in, EXPR_MAX_COUNT);
        if (scan_skip(&r->in, ","))
            *hi = scan_number(&r->in, EXPR_MAX_COUNT); /* none: SCAN_END is EXPR_NO_END */
        if (*lo == SCAN_END || !scan_skip(&r->in, "}"))
            refuse(r, where, "expected a count, as {2}, {2,} or {2,5}");
        else if (*lo > EXPR_MAX_COUNT || (*hi > EXPR_MAX_COUNT && *hi != EXPR_NO_END))
            refuse(r, where, "more than %d cannot be counted out", EXPR_MAX_COUNT);
        else if (*lo > *hi)
            refuse(r, where, "the most is below the least");
    } else if (!scan_skip(&r->in, "*")) {
        return false;
    }
    scan_skip(&r->in, "?");
    return !failed(r);
}

static bool is_end_of_sequence(const struct reading *r)
{
    return r->in.at == r->in.len || scan_is_next(&r->in, "|") ||
           (r->depth > 0 && scan_is_next(&r->in, ")")) ||
           (r->depth == 0 && (scan_is_next(&r->in, "$|") ||
                              (scan_is_next(&r->in, "$") && r->in.at + 1 == r->in.len)));
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
    if (r->depth == 0 && !scan_skip(&r->in, "^")) add_anything(r, node);
    while (!failed(r) && !is_end_of_sequence(r)) {
        if (scan_is_next(&r->in, ")")) refuse(r, r->in.at, "a ) without its group");
        uint32_t one = failed(r) ? EXPR_NONE : atom(r), lo, hi;
        if (!failed(r) && quantifier(r, &lo, &hi)) one = expr_repeat(&r->e, one, lo, hi);
        if (!failed(r)) expr_append(&r->e, node, one);
    }
    if (r->depth == 0 && !scan_skip(&r->in, "$")) add_anything(r, node);
    return node;
}

static uint32_t alternatives(struct reading *r)
{
    const uint32_t node = expr_add(&r->e, EXPR_EITHER, 0, 0);
    do
        expr_append(&r->e, node, sequence(r));
    while (!failed(r) && scan_skip(&r->in, "|"));
    return node;
}

bool regex_place(struct grammar *g, const char *pattern, size_t len, expr_writer *write,
                 grammar_place next, grammar_place *out, struct err *err)
{
    *err = (struct err){0};
    if (!utf8_valid(pattern, len)) return err_set(err, ERR_FORMAT, "it is not UTF-8");
    struct reading r = {.in = {.s = pattern, .len = len}, .err = err};
    const uint32_t whole = alternatives(&r);
    const bool ok = !failed(&r);
    if (ok) *out = expr_place(&r.e, whole, g, NULL, write, next);
    expr_free(&r.e);
    return ok;
}
