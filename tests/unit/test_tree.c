/* The tree case by case: what a turn costs, room, pages shared and lent. */
#include "tree_sim.h"

/* What a turn costs, case by case: the rows that must be computed. */
static void test_costs(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[300];
    for (int32_t i = 0; i < 300; i++)
        ids[i] = i;
    assert_int_equal(sync(&s, ids, 200, false), 0);
    assert_int_equal(sync(&s, ids, 200, false), 199); /* no logits were kept */
    take_snapshot(&s);
    assert_int_equal(sync(&s, ids, 200, false), 200);
    assert_int_equal(sync(&s, ids, 260, false), 200);
    take_snapshot(&s);
    assert_int_equal(sync(&s, ids, 200, false), 200); /* undone */
    ids[210] = 5;
    assert_int_equal(sync(&s, ids, 250, false), 210); /* edited: rows of the other branch */
    take_snapshot(&s);
    ids[210] = 210;
    assert_int_equal(sync(&s, ids, 260, false), 260); /* switched back */
    ids[210] = 5;
    assert_int_equal(sync(&s, ids, 250, false), 250);
    assert_int_equal(sync(&s, ids, 300, false), 250);
    close_sim(&s);
}

/* Where nothing else is kept warm, the path keeps its own snapshots, also those that another
 * branch took before the two parted. */
static void test_costs_of_the_path(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){.is_recurrent = true}, 0, UINT64_MAX, 24);
    int32_t ids[100];
    for (int32_t i = 0; i < 100; i++)
        ids[i] = i;
    sync(&s, ids, 20, false);
    take_snapshot(&s);
    for (int32_t retry = 0; retry < 4; retry++) {
        ids[80] = 1000 + retry;
        assert_int_equal(sync(&s, ids, 80, false), retry ? 80 : 20);
        take_snapshot(&s);
        assert_int_equal(sync(&s, ids, 90, false), 80);
        take_snapshot(&s);
    }
    ids[30] = 1000; /* the message before is another */
    assert_int_equal(sync(&s, ids, 90, false), 20);
    close_sim(&s);
}

/* Room is made before it is taken. */
static void test_total(void **state)
{
    (void)state;
    enum { MOST = 8, N = 4 * PAGE_LEN };
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, MOST * PART_BYTES, 2);
    int32_t ids[N] = {0};
    mem.most_pages = 0;
    for (int32_t i = 0; i < 6; i++) {
        ids[0] = i;
        sync(&s, ids, N, false);
    }
    assert_int_equal(mem.most_pages, MOST);
    close_sim(&s);
}

/* Room that turns out not to be needed is given back. */
static void test_shrink(void **state)
{
    (void)state;
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[200];
    struct err err;
    count_up(ids, 200);
    sync(&s, ids, 100, false);
    assert_true(tree_grow(s.tree, 100, 300, &err));
    assert_int_equal(tree_usage(s.tree).n_path_pages, 5);
    tree_shrink(s.tree, 192);
    assert_int_equal(tree_usage(s.tree).n_path_pages, 3);
    assert_int_equal(page_pool_bytes(s.pool), 3 * PART_BYTES);
    compute(&s, ids, 100, 192);
    tree_commit(s.tree, ids + 100, 100, 92);
    check_path(&s, ids, 192);
    close_sim(&s);
}

/* Without memory for a copy of the open page the other branch keeps its rows. */
static void test_no_copy(void **state)
{
    (void)state;
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[30];
    struct err err;
    count_up(ids, 30);
    sync(&s, ids, 30, false);
    tree_find(s.tree, ids, 20);
    tree_go(s.tree);
    mem.fail_in = 1;
    assert_false(tree_grow(s.tree, 20, 21, &err));
    mem.fail_in = 0;
    assert_int_equal(err.code, ERR_MEMORY);
    check_path(&s, ids, 20);
    assert_int_equal(tree_find(s.tree, ids, 30)->n, 30);
    tree_go(s.tree);
    check_path(&s, ids, 30);
    close_sim(&s);
}

/* Two branches over a long beginning share its pages. */
static void test_sharing(void **state)
{
    (void)state;
    chance_begin(6);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[640];
    for (int32_t i = 0; i < 640; i++)
        ids[i] = i % 97;
    sync(&s, ids, 640, false);
    assert_int_equal(tree_usage(s.tree).n_pages, 10);
    ids[600] = 99;
    sync(&s, ids, 640, false);
    assert_int_equal(tree_usage(s.tree).n_pages, 11);
    assert_int_equal(page_pool_bytes(s.pool), 11 * PART_BYTES);
    /* The same again through another page becomes the same page. */
    ids[600] = 600 % 97;
    tree_find(s.tree, ids, 600);
    tree_go(s.tree);
    struct err err;
    for (size_t n = 600; n < 640; n++) {
        assert_true(tree_grow(s.tree, n, n + 1, &err));
        compute(&s, ids, n, n + 1);
        tree_commit(s.tree, ids + n, n, 1);
    }
    check_path(&s, ids, 640);
    assert_int_equal(tree_usage(s.tree).n_pages, 11);
    tree_forget(s.tree);
    assert_int_equal(tree_n(s.tree), 0);
    assert_int_equal(tree_usage(s.tree).bytes, 0);
    close_sim(&s);
}

/* A page that is lent stays as it is: rows computed again go to a copy, which other branches go
 * on from too; and it outlives the branch. What only the borrower has is not counted. */
static void test_lending(void **state)
{
    (void)state;
    chance_begin(8);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[200];
    struct err err;
    for (int32_t i = 0; i < 200; i++)
        ids[i] = i;
    sync(&s, ids, 128, false);
    const void *own = tree_pages(s.tree, PAGE_FULL)[1];
    assert_int_equal(sync(&s, ids, 128, false), 127);
    assert_ptr_equal(tree_pages(s.tree, PAGE_FULL)[1], own);
    lend(&s, 1);
    /* The last row again, for its logits. */
    assert_true(tree_grow(s.tree, 127, 128, &err));
    assert_int_equal(page_pool_bytes(s.pool), 2 * PART_BYTES);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[1], s.loans[0].data);
    compute(&s, ids, 127, 128);
    tree_commit(s.tree, ids + 127, 127, 1);
    check_path(&s, ids, 128);
    /* No memory for the copy: it is the borrower's as before. */
    lend(&s, 0);
    mem.fail_in = 1;
    while (tree_grow(s.tree, 60, 128, &err)) /* as long as there are spare ones */
        lend(&s, 0);
    mem.fail_in = 0;
    assert_int_equal(err.code, ERR_MEMORY);
    check_path(&s, ids, 128);
    /* Rows that were drafted and refused. */
    tree_truncate(s.tree, 100);
    ids[100] = 7;
    sync(&s, ids, 200, false);
    tree_forget(s.tree);
    assert_int_equal(page_pool_bytes(s.pool), 0);
    assert_true(mem.n_pages >= s.n_loans);
    while (s.n_loans > 0)
        give_back(&s, 0);
    close_sim(&s);
}

/* The same reply to the same prompt, again and again, leaves no pages and snapshots behind. */
static void test_repeats(void **state)
{
    (void)state;
    chance_begin(7);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[100];
    for (int32_t i = 0; i < 100; i++)
        ids[i] = i;
    sync(&s, ids, 70, false);
    take_snapshot(&s);
    for (int round = 0; round < 50; round++) {
        struct err err;
        assert_int_equal(sync(&s, ids, 70, false), 70);
        for (size_t n = 70; n < 100; n++) {
            assert_true(tree_grow(s.tree, n, n + 1, &err));
            compute(&s, ids, n, n + 1);
            tree_commit(s.tree, ids + n, n, 1);
        }
        take_snapshot(&s);
        assert_true(tree_usage(s.tree).n_pages <= 3);
        assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
    }
    check_path(&s, ids, 100);
    close_sim(&s);
}

/* The same in blocks of several rows, of which some lie behind a page's end. */
static void test_repeats_in_blocks(void **state)
{
    (void)state;
    chance_begin(9);
    enum { PROMPT = 60, END = 200, BLOCK = 7 };
    struct sim s = open_sim((struct plan_model){.window = 30}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[END];
    for (int32_t i = 0; i < END; i++)
        ids[i] = i;
    sync(&s, ids, PROMPT, false);
    take_snapshot(&s);
    for (int round = 0; round < 20; round++) {
        struct err err;
        assert_int_equal(sync(&s, ids, PROMPT, false), PROMPT);
        for (size_t n = PROMPT; n < END; n += BLOCK) {
            const size_t end = n + BLOCK < END ? n + BLOCK : END;
            assert_true(tree_grow(s.tree, n, end, &err));
            compute(&s, ids, n, end);
            tree_commit(s.tree, ids + n, n, end - n);
        }
        take_snapshot(&s);
        assert_int_equal(tree_usage(s.tree).n_pages, 4);
        assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
        check_path(&s, ids, END);
    }
    close_sim(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_in_blocks),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_costs_of_the_path),
        cmocka_unit_test(test_total),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_no_copy),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_lending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
