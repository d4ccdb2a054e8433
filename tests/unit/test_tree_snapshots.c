/* Which snapshots the tree keeps, and which go first. */
#include "cache/thin.h"
#include "tree_sim.h"

/* Where nothing begins or ends goes first, all but the newest; what was passed and becomes an
 * end stays. */
static void test_passing(void **state)
{
    (void)state;
    chance_begin(7);
    struct sim s =
        open_sim((struct plan_model){.is_recurrent = true}, UINT64_MAX, UINT64_MAX, 6);
    int32_t ids[3000];
    for (int32_t i = 0; i < 3000; i++)
        ids[i] = i % 89;
    for (size_t n = 50; n <= 3000; n += 50) {
        sync(&s, ids, n, false);
        keep_moment(&s, n > 150 && n != 1000);
        if (n == 900) keep_moment(&s, false);
    }
    static const size_t kept[] = {50, 100, 150, 900, 1000, 3000};
    const struct plan_have *have = tree_find(s.tree, ids, 3000);
    assert_int_equal(have->n_snapshots, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(have->snapshots[i], kept[i]);
    close_sim(&s);
}

/* Of all that are ends a few go, which lie closest by their age in uses; never one that was
 * just passed, if it is the newest. */
static void test_thinning(void **state)
{
    (void)state;
    enum { MOST = 12, NEWEST = 8, ROUNDS = 60, STEP = 10 };
    chance_begin(10);
    struct sim s =
        open_sim((struct plan_model){.is_recurrent = true}, UINT64_MAX, UINT64_MAX, MOST);
    int32_t ids[(ROUNDS + 1) * STEP];
    uint64_t kept[MOST + 1];
    size_t n_kept = 0;
    for (int32_t i = 0; i < (ROUNDS + 1) * STEP; i++)
        ids[i] = i % 89;
    for (size_t i = 1; i <= ROUNDS + 1; i++) {
        sync(&s, ids, i * STEP, false);
        keep_moment(&s, i > ROUNDS);
        kept[n_kept++] = i;
        if (n_kept <= MOST) continue;
        const size_t gone = thin_victim(kept, n_kept, NEWEST);
        memmove(kept + gone, kept + gone + 1, (--n_kept - gone) * sizeof *kept);
    }
    const struct plan_have *have = tree_find(s.tree, ids, (ROUNDS + 1) * STEP);
    assert_int_equal(have->n_snapshots, MOST);
    for (size_t i = 0; i < MOST; i++)
        assert_int_equal(have->snapshots[i], kept[i] * STEP);
    close_sim(&s);
}

static void assert_snapshots(const struct sim *s, const int32_t *ids, size_t n,
                             const size_t *want, size_t n_want)
{
    const struct plan_have *have = tree_find(s->tree, ids, n);
    assert_int_equal(have->n_snapshots, n_want);
    for (size_t i = 0; i < n_want; i++)
        assert_int_equal(have->snapshots[i], want[i]);
}

/* What was used last goes last; of three that were passed and are not the newest, the second.
 */
static void test_use(void **state)
{
    (void)state;
    chance_begin(5);
    int32_t ids[200];
    count_up(ids, 200);
    for (int passing = 0; passing < 2; passing++) {
        struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 3);
        for (size_t n = 50; n <= 150; n += 50) {
            sync(&s, ids, n, false);
            keep_moment(&s, passing);
        }
        tree_find(s.tree, ids, 150);
        if (!passing) tree_snapshot_used(s.tree, 0);
        sync(&s, ids, 200, false);
        keep_moment(&s, passing);
        const size_t kept[] = {50, passing ? 150 : 100, 200};
        assert_snapshots(&s, ids, 200, kept, 3);
        close_sim(&s);
    }
}

/* Of two snapshots that become one, for their pages do, an end stays one. */
static void test_use_of_two(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 3);
    int32_t ids[50], other[30];
    count_up(ids, 50);
    count_up(other, 30);
    other[25] = 99;
    sync(&s, ids, 20, false);
    take_snapshot(&s);
    sync(&s, ids, 30, false);
    sync(&s, other, 30, false);
    tree_truncate(s.tree, 20);
    keep_moment(&s, true);
    assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
    for (size_t n = 30; n <= 50; n += 10) {
        sync(&s, ids, n, false);
        take_snapshot(&s);
        if (n == 30) assert_int_equal(tree_usage(s.tree).n_pages, 1);
    }
    assert_snapshots(&s, ids, 50, (const size_t[]){20, 40, 50}, 3);
    close_sim(&s);
}

static uint64_t bytes_of_snapshot(struct plan_model model)
{
    struct sim s = open_sim(model, UINT64_MAX, UINT64_MAX, 3);
    const int32_t id = 0;
    sync(&s, &id, 1, false);
    const uint64_t before = tree_usage(s.tree).bytes;
    take_snapshot(&s);
    const uint64_t n = tree_usage(s.tree).bytes - before;
    close_sim(&s);
    return n;
}

/* Where there is no room but the path's, snapshots with states are given up, first those that
 * were passed, then the ones that were not used for longest, but for two; those of logits alone
 * stay. */
static void test_giving_up(void **state)
{
    (void)state;
    chance_begin(5);
    const struct plan_model recurrent = {.is_recurrent = true};
    const uint64_t total = 3 * PART_BYTES + 3 * bytes_of_snapshot(recurrent);
    int32_t ids[640];
    count_up(ids, 640);
    for (int has_states = 0; has_states < 2; has_states++) {
        struct sim s =
            open_sim(has_states ? recurrent : (struct plan_model){0}, UINT64_MAX, total, 24);
        for (size_t n = 20; n <= 80; n += 20) {
            sync(&s, ids, n, false);
            keep_moment(&s, n == 20 || n == 60);
        }
        sync(&s, ids, 180, false); /* a third page */
        const size_t all[] = {20, 40, 60, 80, 180}, ends[] = {40, 80, 180};
        assert_snapshots(&s, ids, 180, has_states ? all + 1 : all, has_states ? 3 : 4);
        keep_moment(&s, true);
        sync(&s, ids, 181, false);
        assert_snapshots(&s, ids, 181, has_states ? ends : all, has_states ? 3 : 5);
        sync(&s, ids, 640, false);
        assert_snapshots(&s, ids, 640, has_states ? ends + 1 : all, has_states ? 2 : 5);
        close_sim(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passing),   cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_use),       cmocka_unit_test(test_use_of_two),
        cmocka_unit_test(test_giving_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
