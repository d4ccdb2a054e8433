/* Windowed rows in the tree: where they are kept, and which go. */
#include "tree_sim.h"

/* Of branches that begin with the same, the one is gone on with whose windowed rows are there,
 * or that needs no copy. */
static void test_which_branch(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* windowed rows go by hand here */
    int32_t ids[30], other[30];
    count_up(ids, 30);
    count_up(other, 30);
    other[10] = 99;
    sync(&s, ids, 30, false);
    const void *page = tree_pages(s.tree, PAGE_FULL)[0];
    sync(&s, other, 30, false);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    tree_find(s.tree, ids, 30);
    tree_go(s.tree);
    tree_truncate(s.tree, 10); /* nothing lies behind these rows, unlike the other's */
    tree_find(s.tree, ids, 10);
    tree_go(s.tree);
    assert_ptr_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    tree_drop_windows(s.tree, 0, 1, 0);
    assert_int_equal(tree_find(s.tree, ids, 10)->windows[0], 30);
    tree_go(s.tree);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    close_sim(&s);
}

/* Windowed rows are there where a token looks back on them, behind the end or behind a
 * snapshot, and nowhere else. */
static void test_windows_go(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    assert_true(s.only_tidies);
    int32_t ids[640];
    for (int32_t i = 0; i < 640; i++)
        ids[i] = i % 97;
    sync(&s, ids, 100, false);
    take_snapshot(&s);
    sync(&s, ids, 252, false);
    take_snapshot(&s);
    sync(&s, ids, 640, false);
    /* In front of 100: pages 0 and 1; of 252: page 3; of the end, from which a page may be
     * taken back: 8 and 9. */
    assert_int_equal(page_pool_bytes(s.pool), (10 + 5) * PART_BYTES);
    take_snapshot(&s); /* that at 252 goes */
    assert_int_equal(page_pool_bytes(s.pool), (10 + 4) * PART_BYTES);
    close_sim(&s);
}

/* Pages with windowed rows. */
static size_t n_windowed(const struct sim *s)
{
    size_t n = 0;
    for (size_t i = 0; i < tree_usage(s->tree).n_path_pages; i++)
        if (tree_window_rows(s->tree, i) > 0) n++;
    return n;
}

/* How many pages a snapshot at `at` keeps, beside those in front of the end; they go with it.
 */
static size_t pages_kept(size_t window, size_t at)
{
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = window}, UINT64_MAX, UINT64_MAX, 2);
    assert_true(s.only_tidies);
    int32_t ids[640];
    count_up(ids, 640);
    sync(&s, ids, at, false);
    keep_moment(&s, true);
    sync(&s, ids, 639, false);
    take_snapshot(&s);
    const size_t n = n_windowed(&s);
    sync(&s, ids, 640, false);
    take_snapshot(&s);
    const size_t n_end = n_windowed(&s);
    assert_int_equal(n_end, window == 3 ? 2 : 4);
    close_sim(&s);
    return n - n_end;
}

/* To the row: the token after a snapshot sees window - 1 rows before it. */
static void test_windows_to_the_row(void **state)
{
    (void)state;
    assert_int_equal(pages_kept(3, 65), 2);
    assert_int_equal(pages_kept(3, 66), 1);
    assert_int_equal(pages_kept(131, 257), 4);
    assert_int_equal(pages_kept(131, 258), 3);
}

/* A snapshot of another branch keeps windowed rows of this one if both begin with all before
 * it. */
static void test_windows_of_siblings(void **state)
{
    (void)state;
    enum { PARTS = 30 };
    int32_t ids[640], other[640];
    count_up(ids, 640);
    count_up(other, 640);
    other[PARTS] = 999;
    for (size_t at = PARTS; at <= PARTS + 1; at++) {
        chance_begin(12);
        struct sim s = open_sim((struct plan_model){.window = 3}, UINT64_MAX, UINT64_MAX, 2);
        sync(&s, ids, at, false);
        take_snapshot(&s);
        sync(&s, ids, PARTS + 10, false);
        sync(&s, other, 640, false);
        assert_int_equal(tree_window_rows(s.tree, 0), at == PARTS ? PAGE_LEN : 0);
        close_sim(&s);
    }
}

/* Rows that are computed again keep no more windowed ones than the first time. */
static void test_windows_go_again(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 3}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[640];
    struct err err;
    count_up(ids, 640);
    sync(&s, ids, 640, false);
    assert_int_equal(n_windowed(&s), 2);
    for (size_t n = 0; n < 640; n += 40) {
        assert_true(tree_grow(s.tree, n, n + 40, &err));
        compute(&s, ids, n, n + 40);
        tree_commit(s.tree, ids + n, n, 40);
        tree_tidy(s.tree);
    }
    assert_int_equal(n_windowed(&s), 2);
    close_sim(&s);
}

/* A page whose windowed rows are there is not given up for one that has only the others. */
static void test_windows_not_absorbed(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* they go by hand here */
    int32_t ids[30], other[30];
    count_up(ids, 30);
    count_up(other, 30);
    other[25] = 99;
    sync(&s, ids, 30, false);
    sync(&s, other, 30, false);
    tree_truncate(s.tree, 20);
    for (int has_windows = 0; has_windows < 2; has_windows++) {
        tree_find(s.tree, ids, 30);
        tree_go(s.tree);
        if (!has_windows) tree_drop_windows(s.tree, 0, 1, 0);
        if (has_windows) sync(&s, ids, 30, false);
        take_snapshot(&s);
        assert_int_equal(tree_usage(s.tree).n_pages, has_windows ? 1 : 2);
        assert_true(tree_find(s.tree, ids, 20)->windows[0] >= 20);
    }
    close_sim(&s);
}

/* What is told of windowed rows that are dropped and computed again; a tree without a window
 * keeps all. */
static void test_windows_told(void **state)
{
    (void)state;
    enum { N = 300 };
    int32_t ids[N];
    struct err err;
    count_up(ids, N);
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* they go by hand here */
    sync(&s, ids, N, false);
    tree_drop_windows(s.tree, 1, 3, 0);
    for (size_t i = 0; i < 5; i++) {
        const bool gone = i == 1 || i == 2;
        assert_int_equal(tree_window_rows(s.tree, i), gone    ? 0
                                                      : i < 4 ? PAGE_LEN
                                                              : N % PAGE_LEN);
        assert_int_equal(tree_pages(s.tree, PAGE_WINDOW)[i] == NULL, gone);
    }
    for (size_t n = 0; n <= N; n++)
        assert_int_equal(tree_has_window(s.tree, n), n <= 64 || n >= 192 + 39);
    assert_true(tree_grow(s.tree, 64, 100, &err));
    compute(&s, ids, 64, 100);
    tree_commit(s.tree, ids + 64, 64, 36);
    for (size_t n = 0; n <= N; n++)
        assert_int_equal(tree_has_window(s.tree, n), n <= 100 || n >= 192 + 39);
    tree_truncate(s.tree, 270);
    assert_int_equal(tree_window_rows(s.tree, 4), 270 % PAGE_LEN);
    close_sim(&s);
    chance_begin(5);
    s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    assert_false(s.only_tidies);
    sync(&s, ids, N, false);
    tree_tidy(s.tree);
    assert_int_equal(n_windowed(&s), 5);
    assert_true(tree_has_window(s.tree, 0) && tree_has_window(s.tree, N));
    close_sim(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_branch),         cmocka_unit_test(test_windows_go),
        cmocka_unit_test(test_windows_to_the_row),   cmocka_unit_test(test_windows_of_siblings),
        cmocka_unit_test(test_windows_not_absorbed), cmocka_unit_test(test_windows_told),
        cmocka_unit_test(test_windows_go_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
