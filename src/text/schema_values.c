/* Simple values of JSON as places of a grammar. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/decimal.h"
#include "text/schema_impl.h"

static grammar_place text(struct grammar *g, const char *s, grammar_place next)
{
    return grammar_text(g, s, strlen(s), next);
}

static grammar_place maybe(struct grammar *g, grammar_place with, grammar_place without)
{
    return grammar_either(g, with, without);
}

static grammar_place digit(struct grammar *g, grammar_place next)
{
    return grammar_byte(g, '0', '9', next);
}

static grammar_place hex(struct grammar *g, grammar_place next)
{
    return grammar_either(
        g, digit(g, next),
        grammar_either(g, grammar_byte(g, 'a', 'f', next), grammar_byte(g, 'A', 'F', next)));
}

/* From min to max digits. */
static grammar_place digits(struct grammar *g, size_t min, size_t max, grammar_place next)
{
    grammar_place at = next;
    for (size_t i = max; i > 0; i--)
        at = i > min ? maybe(g, digit(g, at), next) : digit(g, at);
    return at;
}

/* Alternatives of which there may be none yet. */
struct choice {
    grammar_place at;
    bool is_some;
};

static void choose(struct grammar *g, struct choice *c, grammar_place at)
{
    c->at = c->is_some ? grammar_either(g, c->at, at) : at;
    c->is_some = true;
}

/* ---- white space and characters ---- */

/* Nothing, a blank, or one or two line breaks with what a line is indented by: bounded, for a
 * model may write nothing else for ever. */
enum { MAX_INDENT = 24 };

static grammar_place space(struct grammar *g)
{
    grammar_place indent = GRAMMAR_END;
    for (int i = 0; i < MAX_INDENT; i++)
        indent = maybe(g,
                       grammar_either(g, grammar_byte(g, ' ', ' ', indent),
                                      grammar_byte(g, '\t', '\t', indent)),
                       GRAMMAR_END);
    const grammar_place second = maybe(g, grammar_byte(g, '\n', '\n', indent), indent);
    const grammar_place lines = grammar_byte(g, '\n', '\n', second);
    const grammar_place some = grammar_either(g, grammar_byte(g, ' ', ' ', GRAMMAR_END), lines);
    return maybe(g, some, GRAMMAR_END);
}

/* What follows the first byte of a character of several, by the Unicode Standard, table 3-7. */
static grammar_place beyond_ascii(struct grammar *g, grammar_place next)
{
    static const uint8_t rows[][4] = {
        /* first byte, second byte */
        {0xe0, 0xe0, 0xa0, 0xbf}, {0xe1, 0xec, 0x80, 0xbf}, {0xed, 0xed, 0x80, 0x9f},
        {0xee, 0xef, 0x80, 0xbf}, {0xf0, 0xf0, 0x90, 0xbf}, {0xf1, 0xf3, 0x80, 0xbf},
        {0xf4, 0xf4, 0x80, 0x8f},
    };
    const grammar_place last = grammar_byte(g, 0x80, 0xbf, next);
    const grammar_place last_two = grammar_byte(g, 0x80, 0xbf, last);
    grammar_place at = grammar_byte(g, 0xc2, 0xdf, last);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint8_t *row = rows[i];
        const grammar_place behind =
            grammar_byte(g, row[2], row[3], row[0] < 0xf0 ? last : last_two);
        at = grammar_either(g, grammar_byte(g, row[0], row[1], behind), at);
    }
    return at;
}

/* Half of a pair in UTF-16 is no character, so \ud800 to \udfff are left out. */
static grammar_place escape(struct grammar *g, grammar_place next)
{
    const grammar_place two = hex(g, hex(g, next)), three = hex(g, two);
    const grammar_place d = grammar_byte(g, '0', '7', two);
    grammar_place first = grammar_byte(g, '0', '9', three);
    static const char others[] = "abcefABCEF";
    for (const char *c = others; *c; c++)
        first = grammar_either(g, grammar_byte(g, (uint8_t)*c, (uint8_t)*c, three), first);
    first = grammar_either(g, grammar_byte(g, 'd', 'd', d), first);
    first = grammar_either(g, grammar_byte(g, 'D', 'D', d), first);
    grammar_place at = grammar_byte(g, 'u', 'u', first);
    static const char simple[] = "\"\\/bfnrt";
    for (const char *c = simple; *c; c++)
        at = grammar_either(g, grammar_byte(g, (uint8_t)*c, (uint8_t)*c, next), at);
    return grammar_byte(g, '\\', '\\', at);
}

static grammar_place character(struct grammar *g)
{
    const grammar_place next = GRAMMAR_END;
    grammar_place at = grammar_either(g, escape(g, next), beyond_ascii(g, next));
    at = grammar_either(g, grammar_byte(g, ' ', '!', next), at);
    at = grammar_either(g, grammar_byte(g, '#', '[', next), at);
    return grammar_either(g, grammar_byte(g, ']', '~', next), at);
}

/* ---- characters of a set ---- */

/* What has an escape of one letter, and the letter. */
static const char short_escapes[] = "\"\"\\\\\nn\rr\tt\bb\ff";

static bool has_short_escape(uint32_t cp)
{
    for (const char *p = short_escapes; *p; p += 2)
        if (cp == (uint32_t)*p) return true;
    return false;
}

/* The characters of the set that stand for themselves, those of ASCII that character() has. */
static struct chars plain_of(const struct chars *set)
{
    static const struct chars_range plain[] = {
        {' ', '!'}, {'#', '['}, {']', '~'}, {0x80, CHARS_MAX}};
    struct chars out = {0};
    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            const struct chars_range r = set->ranges[i], p = plain[k];
            const uint32_t lo = r.lo > p.lo ? r.lo : p.lo, hi = r.hi < p.hi ? r.hi : p.hi;
            if (lo <= hi) chars_add(&out, lo, hi);
        }
    }
    chars_tidy(&out);
    return out;
}

/* Control characters as two digits behind u00, one way each. */
static void choose_long_escapes(struct grammar *g, const struct chars *set, grammar_place next,
                                struct choice *c)
{
    static const uint8_t highs[] = {0, 1, 7};
    struct choice all = {0};
    for (size_t i = 0; i < sizeof highs; i++) {
        struct choice low = {0};
        for (uint8_t k = 0; k < 16; k++) {
            const uint32_t cp = (uint32_t)(highs[i] << 4 | k);
            if ((cp >= 0x20 && cp != 0x7f) || has_short_escape(cp) || !chars_has(set, cp))
                continue;
            const uint8_t digit = (uint8_t) "0123456789abcdef"[k];
            choose(g, &low, grammar_byte(g, digit, digit, next));
        }
        const uint8_t digit = (uint8_t)('0' + highs[i]);
        if (low.is_some) choose(g, &all, grammar_byte(g, digit, digit, low.at));
    }
    if (all.is_some) choose(g, c, text(g, "u00", all.at));
}

grammar_place schema_characters(struct grammar *g, const struct chars *set, grammar_place next)
{
    struct choice all = {0}, escapes = {0};
    struct chars plain = plain_of(set);
    if (plain.n > 0) choose(g, &all, chars_place(g, &plain, next));
    chars_free(&plain);
    for (const char *p = short_escapes; *p; p += 2)
        if (chars_has(set, (uint32_t)*p))
            choose(g, &escapes, grammar_byte(g, (uint8_t)p[1], (uint8_t)p[1], next));
    choose_long_escapes(g, set, next, &escapes);
    if (escapes.is_some) choose(g, &all, text(g, "\\", escapes.at));
    assert(all.is_some);
    return all.at;
}

/* ---- strings ---- */

grammar_place schema_string(struct grammar *g, const struct schema_rules *r, size_t min,
                            size_t max, grammar_place next)
{
    const grammar_place end = grammar_byte(g, '"', '"', next);
    grammar_place at;
    if (max == SIZE_MAX) {
        at = grammar_hole(g);
        grammar_fill(g, at, maybe(g, grammar_call(g, r->character, at), end));
        max = min;
    } else {
        at = end;
    }
    for (size_t i = max; i > 0; i--) {
        at = grammar_call(g, r->character, at);
        if (i > min) at = maybe(g, at, end);
    }
    return grammar_byte(g, '"', '"', at);
}

/* Numbers of n digits from lo to hi, which have as many, zeros in front included. */
static grammar_place between(struct grammar *g, const char *lo, const char *hi, size_t n,
                             grammar_place next)
{
    const uint8_t a = (uint8_t)*lo, b = (uint8_t)*hi;
    char nines[32], zeros[32];
    assert(n < sizeof nines);
    memset(nines, '9', n);
    memset(zeros, '0', n);
    if (memcmp(lo, zeros, n) == 0 && memcmp(hi, nines, n) == 0) return digits(g, n, n, next);
    if (a == b) return grammar_byte(g, a, a, between(g, lo + 1, hi + 1, n - 1, next));
    grammar_place at =
        grammar_either(g, grammar_byte(g, a, a, between(g, lo + 1, nines, n - 1, next)),
                       grammar_byte(g, b, b, between(g, zeros, hi + 1, n - 1, next)));
    if (b - a < 2) return at;
    return grammar_either(
        g, at,
        grammar_byte(g, (uint8_t)(a + 1), (uint8_t)(b - 1), digits(g, n - 1, n - 1, next)));
}

/* Two digits. */
static grammar_place pair(struct grammar *g, const char *lo, const char *hi, grammar_place next)
{
    return between(g, lo, hi, 2, next);
}

static grammar_place month_and_day(struct grammar *g, const char *month, const char *last,
                                   grammar_place next)
{
    return text(g, month, text(g, "-", pair(g, "01", last, next)));
}

/* A day that every year has; of a year that all programs know. */
static grammar_place date(struct grammar *g, grammar_place next)
{
    static const char *const months[][2] = {
        {"01", "31"}, {"02", "28"}, {"03", "31"}, {"04", "30"}, {"05", "31"}, {"06", "30"},
        {"07", "31"}, {"08", "31"}, {"09", "30"}, {"10", "31"}, {"11", "30"}};
    grammar_place at = month_and_day(g, "12", "31", next);
    for (size_t i = 0; i < sizeof months / sizeof *months; i++)
        at = grammar_either(g, month_and_day(g, months[i][0], months[i][1], next), at);
    return between(g, "0001", "9999", 4, text(g, "-", at));
}

/* As RFC 3339 has it, with an offset. */
static grammar_place time_of_day(struct grammar *g, grammar_place next)
{
    const grammar_place zone = pair(g, "00", "23", text(g, ":", pair(g, "00", "59", next)));
    grammar_place at = grammar_either(g, text(g, "+", zone), text(g, "-", zone));
    at = grammar_either(g, text(g, "Z", next), at);
    at = maybe(g, text(g, ".", digits(g, 1, 6, at)), at);
    at = text(g, ":", pair(g, "00", "59", at));
    return pair(g, "00", "23", text(g, ":", pair(g, "00", "59", at)));
}

static grammar_place uuid(struct grammar *g, grammar_place next)
{
    static const size_t groups[] = {12, 4, 4, 4, 8};
    grammar_place at = next;
    for (size_t i = 0; i < 5; i++) {
        if (i > 0) at = text(g, "-", at);
        for (size_t k = 0; k < groups[i]; k++)
            at = hex(g, at);
    }
    return at;
}

bool schema_format(struct grammar *g, const char *format, grammar_place next,
                   grammar_place *out)
{
    const grammar_place end = grammar_byte(g, '"', '"', next);
    grammar_place at;
    if (strcmp(format, "date") == 0)
        at = date(g, end);
    else if (strcmp(format, "time") == 0)
        at = time_of_day(g, end);
    else if (strcmp(format, "date-time") == 0)
        at = date(g, text(g, "T", time_of_day(g, end)));
    else if (strcmp(format, "uuid") == 0)
        at = uuid(g, end);
    else
        return false;
    *out = grammar_byte(g, '"', '"', at);
    return true;
}

/* ---- numbers ---- */

/* Whole numbers from lo to hi, 0 <= lo <= hi, in as few digits as they have. */
static grammar_place whole(struct grammar *g, int64_t lo, int64_t hi, grammar_place next)
{
    struct choice c = {0};
    char from[24], to[24];
    const int shortest = snprintf(from, sizeof from, "%" PRId64, lo);
    const int longest = snprintf(to, sizeof to, "%" PRId64, hi);
    for (int n = shortest; n <= longest; n++)
        choose(g, &c,
               between(g, n == shortest ? from : "1000000000000000000",
                       n == longest ? to : "9999999999999999999", (size_t)n, next));
    assert(c.is_some);
    return c.at;
}

enum { MAX_FRACTION = 16 };

static grammar_place fraction(struct grammar *g, grammar_place next)
{
    return maybe(g, text(g, ".", digits(g, 1, MAX_FRACTION, next)), next);
}

/* Of which some digit is not 0. */
static grammar_place some_fraction(struct grammar *g, grammar_place next)
{
    grammar_place at = grammar_byte(g, '1', '9', next);
    for (size_t left = 1; left < MAX_FRACTION; left++)
        at = grammar_either(g, grammar_byte(g, '0', '0', at),
                            grammar_byte(g, '1', '9', digits(g, 0, left, next)));
    return text(g, ".", at);
}

/* Numbers without a sign from b->min to b->max, both at least 0. */
static void magnitudes(struct grammar *g, const struct schema_bounds *b, grammar_place next,
                       struct choice *c)
{
    int64_t first = b->min;
    if (b->min > b->max || (b->min == b->max && (b->above_min || b->below_max))) return;
    if (b->above_min) {
        if (b->min < b->max) choose(g, c, whole(g, b->min, b->min, some_fraction(g, next)));
        first++;
    }
    if (first < b->max) choose(g, c, whole(g, first, b->max - 1, fraction(g, next)));
    if (first <= b->max && !b->below_max) choose(g, c, whole(g, b->max, b->max, next));
}

grammar_place schema_number(struct grammar *g, const struct schema_bounds *b,
                            grammar_place next, bool *is_empty)
{
    struct choice c = {0};
    *is_empty = false;
    if (!b->is_given) {
        const grammar_place sign =
            maybe(g, text(g, "+", digits(g, 1, 2, next)), text(g, "-", digits(g, 1, 2, next)));
        const grammar_place signless = grammar_either(g, digits(g, 1, 2, next), sign);
        const grammar_place e =
            grammar_either(g, text(g, "e", signless), text(g, "E", signless));
        const grammar_place tail = fraction(g, maybe(g, e, next));
        const grammar_place at = whole(g, 0, SCHEMA_MAX_NUMBER, tail);
        return maybe(g, text(g, "-", at), at);
    }
    if (b->max >= 0) {
        struct schema_bounds up = *b;
        if (up.min < 0) up.min = 0, up.above_min = false;
        magnitudes(g, &up, next, &c);
    }
    if (b->min < 0) { /* mirrored; there is no -0 */
        struct schema_bounds down = {-b->max, -b->min, b->below_max, b->above_min, true};
        struct choice below = {0};
        if (down.min <= 0) down.min = 0, down.above_min = true;
        magnitudes(g, &down, next, &below);
        if (below.is_some) choose(g, &c, text(g, "-", below.at));
    }
    *is_empty = !c.is_some;
    return c.at;
}

grammar_place schema_integer(struct grammar *g, const struct schema_bounds *b,
                             grammar_place next, bool *is_empty)
{
    struct choice c = {0};
    const int64_t lo = b->min + b->above_min, hi = b->max - b->below_max;
    *is_empty = lo > hi;
    if (*is_empty) return next;
    if (hi >= 0) choose(g, &c, whole(g, lo > 0 ? lo : 0, hi, next));
    if (lo < 0) choose(g, &c, text(g, "-", whole(g, hi < 0 ? -hi : 1, -lo, next)));
    return c.at;
}

/* ---- any value ---- */

static void put_literal(struct buf *out, const json_t *value);

static void put_array(struct buf *out, const json_t *array)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0) buf_putc(out, ',');
        put_literal(out, json_array_get(array, i));
    }
    buf_putc(out, ']');
}

static void put_object(struct buf *out, const json_t *object)
{
    const char *name, *before = "";
    json_t *value;
    buf_putc(out, '{');
    json_object_foreach((json_t *)object, name, value)
    {
        json_t *key = json_string(name);
        buf_puts(out, before);
        put_literal(out, key);
        buf_putc(out, ':');
        put_literal(out, value);
        json_decref(key);
        before = ",";
    }
    buf_putc(out, '}');
}

/* Reals in the way that people and models write them: jansson has 17 digits of them, 19.99 as
 * 19.989999999999998. */
static void put_literal(struct buf *out, const json_t *value)
{
    if (json_is_real(value)) {
        char s[DECIMAL_BYTES];
        decimal_shortest(s, json_real_value(value));
        buf_puts(out, s);
    } else if (json_is_array(value)) {
        put_array(out, value);
    } else if (json_is_object(value)) {
        put_object(out, value);
    } else {
        char *s = json_dumps(value, JSON_ENCODE_ANY);
        buf_puts(out, s);
        free(s);
    }
}

grammar_place schema_literal(struct grammar *g, const json_t *value, grammar_place next)
{
    struct buf s = {0};
    put_literal(&s, value);
    next = grammar_text(g, buf_str(&s), s.len, next);
    buf_free(&s);
    return next;
}

uint32_t schema_pair(struct grammar *g, const struct schema_rules *r, uint32_t kind)
{
    const uint32_t pair = grammar_rule(g);
    const grammar_place at = grammar_call(g, r->space, grammar_call(g, kind, GRAMMAR_END));
    grammar_begin(g, pair, grammar_call(g, r->string, text(g, ":", at)));
    return pair;
}

grammar_place schema_elements(struct grammar *g, const struct schema_rules *r, uint32_t element,
                              size_t min, size_t max, char close, grammar_place next)
{
    const grammar_place end =
        grammar_call(g, r->space, grammar_byte(g, (uint8_t)close, (uint8_t)close, next));
    grammar_place more = end; /* behind an element */
    size_t n = max;
    if (max == SIZE_MAX) {
        more = grammar_hole(g);
        n = min > 0 ? min : 1;
        const grammar_place again =
            text(g, ",", grammar_call(g, r->space, grammar_call(g, element, more)));
        grammar_fill(g, more, maybe(g, again, end));
    }
    for (size_t i = n; i > 1; i--) {
        more = text(g, ",", grammar_call(g, r->space, grammar_call(g, element, more)));
        if (i > min) more = maybe(g, more, end);
    }
    if (n == 0) return end;
    const grammar_place first = grammar_call(g, r->space, grammar_call(g, element, more));
    return min == 0 ? maybe(g, first, end) : first;
}

grammar_place schema_container(struct grammar *g, const struct schema_rules *r,
                               grammar_place next)
{
    const uint32_t member = schema_pair(g, r, r->value);
    const grammar_place object = schema_elements(g, r, member, 0, SIZE_MAX, '}', next);
    const grammar_place array = schema_elements(g, r, r->value, 0, SIZE_MAX, ']', next);
    return grammar_either(g, text(g, "{", object), text(g, "[", array));
}

static grammar_place any_value(struct grammar *g, const struct schema_rules *r)
{
    const struct schema_bounds all = {-SCHEMA_MAX_NUMBER, SCHEMA_MAX_NUMBER, false, false,
                                      false};
    bool is_empty = false;
    grammar_place at = schema_container(g, r, GRAMMAR_END);
    at = grammar_either(g, grammar_call(g, r->string, GRAMMAR_END), at);
    at = grammar_either(g, schema_number(g, &all, GRAMMAR_END, &is_empty), at);
    at = grammar_either(g, text(g, "true", GRAMMAR_END), at);
    at = grammar_either(g, text(g, "false", GRAMMAR_END), at);
    return grammar_either(g, text(g, "null", GRAMMAR_END), at);
}

struct schema_rules schema_rules(struct grammar *g)
{
    struct schema_rules r = {grammar_rule(g), grammar_rule(g), grammar_rule(g),
                             grammar_rule(g)};
    grammar_begin(g, r.space, space(g));
    grammar_begin(g, r.character, character(g));
    grammar_begin(g, r.string, schema_string(g, &r, 0, SIZE_MAX, GRAMMAR_END));
    grammar_begin(g, r.value, any_value(g, &r));
    return r;
}
