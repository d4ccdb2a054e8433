/* Looking back for guesses: what is found really stood there, nothing that stands there is
 * missed, and a sequence that grew, shrank and changed is looked through as if it were new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "engine/lookup.h"

static size_t run_at(const int32_t *ids, size_t n, size_t place)
{
    size_t run = 0;
    while (run < place && ids[place - 1 - run] == ids[n - 1 - run])
        run++;
    return run;
}

/* The longest run of the last tokens that stood anywhere before. */
static size_t longest(const int32_t *ids, size_t n)
{
    size_t most = 0;
    for (size_t p = 1; p < n; p++) {
        size_t run = run_at(ids, n, p);
        most = run > most ? run : most;
    }
    return most;
}

static void test_random(void **state)
{
    (void)state;
    enum { MAX = 60 };
    int32_t ids[MAX];
    size_t n_found = 0;
    for (int round = 0; round < 300; round++) {
        struct lookup *l = lookup_new();
        const uint32_t n_ids = 3 + below(12);
        size_t n = 0;
        for (int step = 0; step < 120; step++) {
            /* Grows by a few, is cut, or changes in the middle. */
            if (below(8) == 0 && n > 0) n = below((uint32_t)n + 1);
            if (below(8) == 0 && n > 0) ids[below((uint32_t)n)] = (int32_t)below(n_ids);
            for (uint32_t k = 1 + below(3); k > 0 && n < MAX; k--)
                ids[n++] = (int32_t)below(n_ids);
            const struct lookup_match m = lookup_find(l, ids, n);
            const size_t most = longest(ids, n);
            if (m.n == 0) {
                assert_true(most < 2);
                continue;
            }
            const size_t place = (size_t)(m.next - ids);
            assert_true(place > 0 && place < n && m.n == n - place);
            const size_t run = run_at(ids, n, place);
            assert_int_equal(m.is_long, run >= LOOKUP_LONG);
            /* Behind a change a near place will do; otherwise it is the longest run. */
            if (most >= 2) assert_int_equal(run, most);
            n_found++;
        }
        lookup_free(l);
    }
    assert_true(n_found > 1000);
}

/* A text of 40 tokens, said again with one replaced, one left out and one put in. */
static void test_copy_with_changes(void **state)
{
    (void)state;
    int32_t ids[100];
    size_t n = 0;
    for (int32_t i = 0; i < 40; i++)
        ids[n++] = 100 + i;
    const size_t begin = n;
    for (int32_t i = 0; i < 40; i++) {
        if (i == 33) ids[n++] = 8;
        if (i != 20) ids[n++] = i == 10 ? 7 : 100 + i;
    }
    struct lookup *l = lookup_new();
    size_t n_right = 0;
    for (size_t at = begin + 1; at < n; at++) {
        const struct lookup_match m = lookup_find(l, ids, at);
        n_right += m.n > 0 && m.next[0] == ids[at];
    }
    /* Wrong at the first token, which gives no pair, before each of the changes, and behind
     * what was put in, as if it stood for another. */
    assert_int_equal(n_right, n - begin - 1 - 5);
    lookup_free(l);
}

/* However long it has become, and whether it grew by one token or by many at once, it finds the
 * one place there is. */
static void test_long(void **state)
{
    (void)state;
    enum { MAX = 5000, FIRST = 10 };
    static int32_t ids[MAX];
    for (int32_t i = 0; i < MAX; i++)
        ids[i] = i;
    for (size_t step = 1; step <= 1500; step += 1499) {
        struct lookup *l = lookup_new();
        for (size_t n = FIRST + 3; n + 3 < MAX; n += step) {
            int32_t kept[3];
            memcpy(kept, ids + n, sizeof kept);
            memcpy(ids + n, ids + FIRST, sizeof kept);
            const struct lookup_match m = lookup_find(l, ids, n + 3);
            assert_int_equal(m.n, n + 3 - (FIRST + 3));
            memcpy(ids + n, kept, sizeof kept);
        }
        lookup_free(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_copy_with_changes),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests_name("lookup", tests, NULL, NULL);
}
