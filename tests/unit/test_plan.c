/* The plan against a brute-force oracle that walks through the rows one by one, keys of states,
 * and the thinning out of snapshots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "../soak.h"
#include "backend/ops.h"
#include "cache/key.h"
#include "cache/plan.h"
#include "cache/thin.h"

static bool snapshot_is_at(const struct plan_have *have, size_t n)
{
    for (size_t i = 0; i < have->n_snapshots; i++)
        if (have->snapshots[i] == n) return true;
    return false;
}

/* Whether row t of a windowed layer sees all it looks at when rows from..t-1 were computed. */
static bool row_sees(const struct plan_model *model, const struct plan_have *have, size_t from,
                     size_t t)
{
    for (size_t back = 1; model->window && back < model->window && back <= t; back++) {
        size_t j = t - back;
        if (j < from && have->windows && j % PAGE_LEN >= have->windows[j / PAGE_LEN])
            return false;
    }
    return true;
}

/* Whether computing rows from.. gives everything that n_want tokens should leave behind. */
static bool may_begin(const struct plan_model *model, const struct plan_have *have,
                      size_t n_want, size_t from)
{
    if (from > have->n) return false;
    if (model->is_recurrent && from > 0 && !snapshot_is_at(have, from)) return false;
    if (from == n_want && !snapshot_is_at(have, n_want)) return false;
    for (size_t t = from; t <= n_want; t++) /* n_want: the row that a reply begins with */
        if (!row_sees(model, have, from, t)) return false;
    return true;
}

static void check_plan(const struct plan_model *model, const struct plan_have *have,
                       size_t n_want)
{
    size_t from = n_want;
    while (!may_begin(model, have, n_want, from))
        from--; /* 0 always may */
    struct plan plan = plan_make(model, have, n_want);
    assert_int_equal(plan.from, from);
    assert_int_equal(plan.keep, have->n);
    bool restores = from == n_want || (model->is_recurrent && from > 0);
    assert_int_equal(plan.snapshot != PLAN_NO_SNAPSHOT, restores);
    if (restores) assert_int_equal(have->snapshots[plan.snapshot], from);
}

static void test_plan_against_oracle(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 1, 2, 3, 17, 63, 64, 65, 66, 128, 129, 200};
    enum { MOST = 330, N_PAGES = (MOST + PAGE_LEN - 1) / PAGE_LEN };
    chance_begin(11);
    for (size_t round = 0; round < 30000 * soak(); round++) {
        uint32_t kept[N_PAGES];
        size_t at[8], n_want = below(MOST) + 1, n = below((uint32_t)n_want + 1);
        if (below(3) == 0) n = n_want;
        if (below(4) == 0) n -= n % PAGE_LEN;
        uint32_t holes = below(4);
        for (size_t i = 0; i < N_PAGES; i++)
            kept[i] = below(4) >= holes ? PAGE_LEN : below(3) ? 0 : below(PAGE_LEN);
        struct plan_have have = {.n = n, .snapshots = at};
        if (below(5)) have.windows = kept;
        for (size_t i = 1; i <= n && have.n_snapshots < 8; i++)
            if (below(60) == 0 || (i == n && below(2))) at[have.n_snapshots++] = i;
        const struct plan_model model = {windows[below(sizeof windows / sizeof *windows)],
                                         below(2)};
        check_plan(&model, &have, n_want);
    }
}

/* Every combination of two pages' windows, of snapshots at six counts and of lengths near the
 * border between the pages. */
static void test_plan_exhaustively(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 63, 64, 65, 66, 67};
    static const size_t windows[] = {0, 1, 2, 3, 64, 65, 66};
    for (uint32_t bits = 0; bits < 1u << 9; bits++) {
        const uint32_t kept[2] = {bits & 1 ? PAGE_LEN : 0, bits & 2 ? PAGE_LEN : 0};
        for (size_t n = 0; n <= 67; n += n < 62 ? 31 : 1) {
            size_t at[6], n_at = 0;
            for (size_t i = 0; i < 6; i++)
                if (bits >> (3 + i) & 1 && counts[i] <= n) at[n_at++] = counts[i];
            const struct plan_have have = {n, kept, at, n_at};
            for (size_t w = 0; w < 7; w++)
                for (size_t more = n == 0; more < 3; more++)
                    check_plan(&(struct plan_model){windows[w], bits & 4}, &have, n + more);
        }
    }
}

static void test_exact_repeat_runs_nothing(void **state)
{
    (void)state;
    const size_t at[] = {10, 100};
    const struct plan_have have = {.n = 100, .snapshots = at, .n_snapshots = 2};
    struct plan plan = plan_make(&(struct plan_model){0}, &have, 100);
    assert_int_equal(plan.from, 100);
    assert_int_equal(plan.snapshot, 1);
    /* Without its logits the last row is computed again. */
    const struct plan_have bare = {.n = 100, .snapshots = at, .n_snapshots = 1};
    assert_int_equal(plan_make(&(struct plan_model){0}, &bare, 100).from, 99);
    /* A recurrent model goes back to where it has states, or to the beginning. */
    const struct plan_model recurrent = {.is_recurrent = true};
    assert_int_equal(plan_make(&recurrent, &bare, 100).from, 10);
    assert_int_equal(plan_make(&recurrent, &(struct plan_have){.n = 100}, 100).from, 0);
}

static bool same_key(struct key a, struct key b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

/* The key of ids[0..n), from the beginning. */
static struct key key_of(const struct fingerprint *f, const int32_t *ids, size_t n)
{
    struct key key = key_begin(f);
    for (size_t at = 0; at < n; at += PAGE_LEN)
        key = key_next(f, key, ids + at, n - at < PAGE_LEN ? n - at : PAGE_LEN);
    return key;
}

static void test_keys(void **state)
{
    (void)state;
    struct fingerprint f = {.weights = {1, 2}, .options = {3, 4}, .numerics = 1, .kv_type = 1};
    int32_t ids[200];
    for (int32_t i = 0; i < 200; i++)
        ids[i] = i * 7;
    /* Any count by pages and the rest; each differs from the others. */
    struct key page1 = key_next(&f, key_begin(&f), ids, PAGE_LEN);
    assert_true(same_key(page1, key_of(&f, ids, PAGE_LEN)));
    assert_true(same_key(key_next(&f, page1, ids + PAGE_LEN, 30), key_of(&f, ids, 94)));
    struct key keys[201];
    for (size_t n = 0; n <= 200; n++) {
        keys[n] = key_of(&f, ids, n);
        for (size_t i = 0; i < n; i++)
            assert_false(same_key(keys[i], keys[n]));
    }
    /* Every part of the fingerprint and every id counts. */
    ids[70]++;
    assert_true(same_key(key_of(&f, ids, 70), keys[70]));
    assert_false(same_key(key_of(&f, ids, 71), keys[71]));
    assert_false(same_key(key_of(&f, ids, 200), keys[200]));
    ids[70]--;
    uint8_t *bytes = (uint8_t *)&f;
    for (size_t i = 0; i < sizeof f; i++) {
        bytes[i] ^= 0x10;
        assert_false(same_key(key_of(&f, ids, 200), keys[200]));
        bytes[i] ^= 0x10;
    }
    assert_true(same_key(key_of(&f, ids, 200), keys[200]));
}

/* However long it goes on: the newest stay, and for every age there is one not much older. */
static void test_thinning(void **state)
{
    (void)state;
    enum { MOST = 24, NEWEST = 8 };
    uint64_t at[MOST + 1];
    size_t n = 0;
    for (uint64_t now = 1; now <= 5000; now++) {
        at[n++] = now;
        if (n > MOST) {
            size_t victim = thin_victim(at, n, NEWEST);
            assert_true(victim > 0 && victim < n - NEWEST);
            memmove(at + victim, at + victim + 1, (--n - victim) * sizeof *at);
        }
        assert_int_equal(at[0], 1);
        for (size_t i = 0; i < NEWEST && i < n; i++)
            assert_int_equal(at[n - 1 - i], now - i);
        for (size_t i = 0; n == MOST && i + 1 < n; i++)
            assert_true(now - at[i] <= 3 * (now - at[i + 1]) + NEWEST);
    }
}

/* Which one goes: both neighbours count, and so does the age, up to the last of all. */
static void test_who_goes(void **state)
{
    (void)state;
    const uint64_t close_after[] = {0, 20, 30, 90, 100, 200},
                   young[] = {0, 60, 100, 120, 140, 200};
    assert_int_equal(thin_victim(close_after, 6, 1), 1);
    assert_int_equal(thin_victim(young, 6, 1), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_against_oracle),
        cmocka_unit_test(test_plan_exhaustively),
        cmocka_unit_test(test_exact_repeat_runs_nothing),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_who_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
