/* Sets of characters: what is in them, and their UTF-8, of which nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "base/utf8.h"
#include "text/chars.h"
#include "text/grammar.h"
#include "text/matcher.h"

/* Ranges as they are put in; places: the most that the set may need, 0 where nobody
 * counted. */
struct set_case {
    struct chars_range ranges[8];
    size_t n, places;
};

static const struct set_case cases[] = {
    {{{0, CHARS_MAX}}, 1, 24},
    {{{'a', 'a'}}, 1, 1},
    {{{0, 0x7f}}, 1, 1},
    {{{0, 0}, {0x7f, 0x80}, {CHARS_MAX, CHARS_MAX}}, 3, 0},
    {{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4, 7},
    {{{'z', 'z'}, {'a', 'c'}, {'b', 'e'}, {'f', 'g'}, {'a', 'a'}}, 5, 3},
    {{{0x7ff, 0x800}}, 1, 0},
    {{{0xffff, 0x10000}}, 1, 0},
    {{{0x3041, 0x309f}}, 1, 0},
    {{{0xd700, 0xe0ff}}, 1, 0},
    {{{0xd7ff, 0xe000}}, 1, 0},
    {{{0x20, 0xd7ff}, {0xe000, 0xfffd}, {0x10000, CHARS_MAX}}, 3, 0},
    {{{0x40000, 0x7ffff}}, 1, 4},
    {{{0x3ffff, 0x40000}, {0x80, 0xbf}, {0x1000, 0x1fff}}, 3, 0},
    {{{0x1f600, 0x1f64f}, {0xe9, 0xe9}, {0x20ac, 0x20ac}}, 3, 0},
};

static struct chars set_of(const struct set_case *c)
{
    struct chars set = {0};
    for (size_t i = 0; i < c->n; i++)
        chars_add(&set, c->ranges[i].lo, c->ranges[i].hi);
    chars_tidy(&set);
    return set;
}

static bool is_in(const struct set_case *c, uint32_t cp)
{
    bool found = false;
    for (size_t i = 0; i < c->n; i++)
        found |= c->ranges[i].lo <= cp && cp <= c->ranges[i].hi;
    return found && (cp < 0xd800 || cp > 0xdfff);
}

static struct matcher *matcher_of(const struct chars *set, size_t *n_places)
{
    struct grammar *g = grammar_new();
    grammar_rule(g);
    const grammar_place before = grammar_byte(g, 0, 0, GRAMMAR_END);
    grammar_begin(g, 0, chars_place(g, set, GRAMMAR_END));
    *n_places = grammar_byte(g, 0, 0, GRAMMAR_END) - before - 1;
    assert_true(grammar_finish(g));
    struct matcher *m = matcher_new(g);
    grammar_release(g);
    return m;
}

/* As UTF-8 would have it if surrogates, long forms and more than 21 bits were no mistake. */
static size_t encode(uint32_t cp, size_t len, uint8_t out[4])
{
    static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i > 1; i--, cp >>= 6)
        out[i - 1] = (uint8_t)(0x80 | (cp & 0x3f));
    out[0] = (uint8_t)(first[len] | cp);
    return len;
}

static size_t length_of(uint32_t cp)
{
    return cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
}

static bool is_text(struct matcher *m, const uint8_t *s, size_t n)
{
    return matcher_may_end(m, matcher_steps(m, MATCHER_START, (const char *)s, n));
}

static void check_all(struct matcher *m, const struct set_case *c, bool is_other)
{
    uint8_t s[4];
    for (uint32_t cp = 0; cp <= 0x1fffff; cp++) {
        const bool is_char = cp <= CHARS_MAX && (cp < 0xd800 || cp > 0xdfff);
        const bool want = is_char && is_in(c, cp) != is_other;
        if (is_text(m, s, encode(cp, length_of(cp), s)) != want) fail_msg("U+%04x", cp);
        if (cp >= 0x10000) continue;
        for (size_t len = length_of(cp) + 1; len <= 4; len++)
            if (is_text(m, s, encode(cp, len, s))) fail_msg("U+%04x in %zu bytes", cp, len);
    }
    assert_false(is_text(m, s, 0));
    /* Nor any other bytes. */
    for (uint64_t i = 0; i < 100000; i++) {
        const struct philox_block dice = philox(7, (uint32_t)i, 0, 0, 0);
        memcpy(s, &dice.word[0], 4);
        for (size_t k = 0; k < 4 && dice.word[1] % 4; k++)
            s[k] |= 0x80;
        const size_t n = 1 + dice.word[2] % 4;
        if (is_text(m, s, n)) assert_true(utf8_valid((const char *)s, n));
    }
}

static void test_every_character(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct chars set = set_of(&cases[i]);
        size_t n_places;
        for (int is_other = 0; is_other < 2; is_other++) {
            for (uint32_t cp = 0; cp <= CHARS_MAX; cp++) {
                const bool is_char = cp < 0xd800 || cp > 0xdfff;
                assert_true(chars_has(&set, cp) ==
                            (is_char && is_in(&cases[i], cp) != is_other));
            }
            if (set.n > 0) {
                struct matcher *m = matcher_of(&set, &n_places);
                if (!is_other && cases[i].places) assert_in_range(n_places, 1, cases[i].places);
                check_all(m, &cases[i], is_other);
                matcher_free(m);
            }
            chars_complement(&set);
        }
        chars_free(&set);
    }
}

/* In order, with a gap between any two, whatever was put in. */
static void test_tidy(void **state)
{
    (void)state;
    struct chars set = {0}, more = {0};
    chars_add(&set, 5, 9);
    chars_add(&set, 0, 1);
    chars_add(&more, 2, 3);
    chars_add(&more, 7, 12);
    chars_add_set(&set, &more);
    chars_tidy(&set);
    assert_int_equal(set.n, 2);
    assert_int_equal(set.ranges[0].lo, 0);
    assert_int_equal(set.ranges[0].hi, 3);
    assert_int_equal(set.ranges[1].lo, 5);
    assert_int_equal(set.ranges[1].hi, 12);
    chars_free(&more);
    chars_add(&more, 0xd800, 0xdfff); /* nothing at all */
    chars_tidy(&more);
    assert_int_equal(more.n, 0);
    chars_complement(&more);
    assert_int_equal(more.n, 2);
    chars_complement(&more);
    assert_int_equal(more.n, 0);
    chars_free(&set);
    chars_free(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_tidy),
    };
    return cmocka_run_group_tests_name("chars", tests, NULL, NULL);
}
