#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/stop.h"

/* Feeds text in pieces of n bytes; out receives what a face would have been shown. */
static bool stream(const char *const *stop, size_t n_stop, const char *text, size_t piece,
                   char *out)
{
    size_t len = 0, shown = 0, total = strlen(text);
    while (len < total) {
        size_t from = len;
        len += piece < total - len ? piece : total - len;
        size_t at;
        if (stop_find(stop, n_stop, text, len, from, &at)) {
            assert_true(at >= shown); /* nothing of the stop string was shown */
            memcpy(out + shown, text + shown, at - shown);
            out[at] = '\0';
            return true;
        }
        size_t until = len - stop_held(stop, n_stop, text, len);
        assert_true(until >= shown); /* what was shown is never taken back */
        memcpy(out + shown, text + shown, until - shown);
        shown = until;
    }
    memcpy(out + shown, text + shown, total - shown);
    out[total] = '\0';
    return false;
}

static void check(const char *const *stop, size_t n_stop, const char *text, const char *want,
                  bool found)
{
    char out[256];
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        assert_int_equal(stream(stop, n_stop, text, piece, out), found);
        /* A longer piece may complete two stop strings at once; the first to end wins still. */
        assert_string_equal(out, want);
    }
}

static void test_across_pieces(void **state)
{
    (void)state;
    const char *one[] = {"###"};
    check(one, 1, "hello ### world", "hello ", true);
    check(one, 1, "hello ## world #", "hello ## world #", false);
    check(one, 1, "####", "", true);
    check(one, 1, "a", "a", false);
    const char *user[] = {"\nUser:", "<end>"};
    check(user, 2, "answer\nUse\nUser: next", "answer\nUse", true);
    check(user, 2, "x <en <end> \nUser:", "x <en ", true);
    check(user, 2, "x <en", "x <en", false);
    check(NULL, 0, "anything", "anything", false);
}

static void test_overlap(void **state)
{
    (void)state;
    const char *inner[] = {"abcd", "bc"};
    check(inner, 2, "xabcd", "xa", true); /* "bc" is complete first */
    const char *outer[] = {"bc", "abcd"};
    check(outer, 2, "xabcd", "xa", true);
    const char *same_end[] = {"bc", "abc"};
    check(same_end, 2, "xabc", "x", true);
    const char *self[] = {"aab"};
    check(self, 1, "aaaab.", "aa", true);
    const char *empty[] = {"", "b"};
    check(empty, 2, "aab", "aa", true);
    const char *utf8[] = {"\xe2\x82\xac"};
    check(utf8, 1, "5 \xe2\x82\xac", "5 ", true);
}

/* Only what ends behind from is found. */
static void test_from(void **state)
{
    (void)state;
    const char *stop[] = {"ab", "c"};
    size_t at;
    assert_true(stop_find(stop, 2, "abc", 2, 0, &at) && at == 0);
    assert_true(stop_find(stop, 2, "abc", 2, 1, &at) && at == 0);
    assert_false(stop_find(stop, 2, "abc", 2, 2, &at));
    assert_true(stop_find(stop, 2, "abc", 3, 2, &at) && at == 2);
    assert_false(stop_find(stop, 2, "abc", 3, 3, &at));
    assert_false(stop_find(stop, 2, NULL, 0, 0, &at));
}

/* No more is held back than may become a stop string. */
static void test_held(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t held;
    } cases[] = {{"", 0},   {"#", 1},    {"a ##", 2},  {"## a", 1}, {"# ", 0}, {"x", 1},
                 {"xy", 0}, {"xaba", 3}, {"xabab", 2}, {"abac", 0}, {"z", 0}};
    const char *stop[] = {"###", "", "abac", "ba", "z", "xy"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(stop_held(stop, 6, cases[i].text, strlen(cases[i].text)),
                         cases[i].held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_across_pieces),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_from),
        cmocka_unit_test(test_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
