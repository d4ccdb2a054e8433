/* Recurrent models: what coming back costs in tokens, that states are never guessed, that a
 * wrong one is found, and that a step which fails leaves none. */
#include "../golden.h"
#include "timeline_case.h"

static const char *const hybrids[] = {"falcon-h1$", "granitehybrid-moe$", "lfm2moe$",
                                      "qwen35",     "qwen3next$",         NULL};

enum { CONTEXT = 4096, MARK = 8 * PAGE_LEN };

struct pair {
    struct runner r;
    struct timeline *warm, *cold;
    size_t n_vocab;
    int32_t ids[CONTEXT];
};

static void pair_open(struct pair *p, const struct golden_case *c, uint64_t warm_bytes)
{
    struct err err;
    const struct runner_options o = {
        .isa = CPU_AUTO, .n_threads = 2, .kv_type = KV_F16, .n_ctx = CONTEXT, .batch = 1};
    runner_open(&p->r, c->model, o);
    const struct timeline_limits warm = {.n_ctx = CONTEXT, .warm_bytes = warm_bytes};
    const struct timeline_limits cold = {.n_ctx = CONTEXT};
    p->warm = timeline_new(p->r.be, model_program(p->r.m), &warm, &err);
    p->cold = timeline_new(p->r.be, model_program(p->r.m), &cold, &err);
    assert_true(p->warm && p->cold);
    assert_true(model_program(p->r.m)->state_bytes > 0);
    p->n_vocab = c->n_vocab;
    chance_begin(20261121);
    random_ids(p->ids, 0, CONTEXT, c->n_vocab);
}

static void pair_close(struct pair *p)
{
    timeline_free(p->warm);
    timeline_free(p->cold);
    runner_close(&p->r);
}

/* Whether the warm timeline has the logits of a cold one. */
static bool same_as_cold(struct pair *p, size_t n)
{
    timeline_forget(p->cold);
    sync_to(p->cold, p->ids, n);
    return memcmp(timeline_logits(p->warm), timeline_logits(p->cold),
                  p->n_vocab * sizeof(float)) == 0;
}

static bool verified(struct pair *p)
{
    struct err err;
    struct verify_verdict v;
    assert_true(timeline_verify(p->warm, NULL, &v, &err));
    return v.what == VERIFY_SAME && v.n_tokens == timeline_n(p->warm);
}

/* For every hybrid. */
static void each(void (*check)(struct pair *p, const struct golden_case *c))
{
    struct golden_set set = golden_read("tests/data", hybrids);
    for (size_t i = 0; i < set.n; i++) {
        static struct pair p;
        check(&p, &set.cases[i]);
        pair_close(&p);
    }
    golden_free(&set);
}

/* ---- what coming back costs ---- */

/* Three turns of a prompt and a reply; an edit of the last costs its own tokens, an exact
 * repeat nothing, and from it the reply goes on. */
static void check_turns(struct pair *p, const struct golden_case *c)
{
    static const size_t ends[] = {90, 130, 200, 230, 300, 310};
    struct err err;
    pair_open(p, c, UINT64_MAX);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        sync_to(p->warm, p->ids, ends[i]);
        timeline_snapshot(p->warm);
    }
    assert_int_equal(sync_to(p->warm, p->ids, 310).n_prefilled, 0);
    assert_true(timeline_append(p->warm, p->ids[310], NULL, &err));
    assert_true(same_as_cold(p, 311));
    assert_int_equal(sync_to(p->warm, p->ids, 300).n_prefilled, 0);
    random_ids(p->ids, 240, 320, p->n_vocab); /* the last prompt, after ten of its tokens */
    assert_int_equal(sync_to(p->warm, p->ids, 320).n_cached, 230);
    assert_true(same_as_cold(p, 320));
    random_ids(p->ids, 100, 320, p->n_vocab); /* the first reply */
    assert_int_equal(sync_to(p->warm, p->ids, 320).n_cached, 90);
    assert_true(same_as_cold(p, 320) && verified(p));
}

/* A long prompt leaves a snapshot every eight pages: an edit anywhere costs at most these. With
 * little memory they thin out, the older the more, and the nearest left is gone back to. */
static void check_marks(struct pair *p, const struct golden_case *c, uint64_t warm_bytes,
                        size_t most)
{
    pair_open(p, c, warm_bytes);
    sync_to(p->warm, p->ids, CONTEXT);
    timeline_snapshot(p->warm);
    assert_true(timeline_usage(p->warm).n_snapshots <= most);
    size_t worst = 0;
    for (size_t at = CONTEXT - 1; at > 0; at -= at < 397 ? at : 397) {
        p->ids[at] = (p->ids[at] + 1) % (int32_t)p->n_vocab;
        const struct timeline_cost cost = timeline_plan(p->warm, p->ids, CONTEXT);
        p->ids[at] = (p->ids[at] + (int32_t)p->n_vocab - 1) % (int32_t)p->n_vocab;
        assert_true(cost.n_cached <= at);
        if (at - cost.n_cached > worst) worst = at - cost.n_cached;
    }
    print_message("# %-18s at most %zu snapshots: %zu tokens before an edit computed again\n",
                  c->name, most, worst);
    if (most >= CONTEXT / MARK)
        assert_true(worst < MARK);
    else
        assert_true(worst >= MARK);
    p->ids[1000] = (p->ids[1000] + 1) % (int32_t)p->n_vocab;
    sync_to(p->warm, p->ids, 1100);
    assert_true(same_as_cold(p, 1100));
}

static void check_all_marks(struct pair *p, const struct golden_case *c)
{
    check_marks(p, c, UINT64_MAX, CONTEXT / MARK);
}

static void check_thinned(struct pair *p, const struct golden_case *c)
{
    check_marks(p, c, 0, 6);
}

static void test_turns(void **state)
{
    (void)state;
    each(check_turns);
}

static void test_marks(void **state)
{
    (void)state;
    each(check_all_marks);
    each(check_thinned);
}

/* ---- states that are wrong ---- */

/* With states reset where they should be restored, /verify finds it, in themselves and in what
 * was computed from them; the logits are others, and so every test that compares with a cold
 * run would find it, too. */
static void check_reset(struct pair *p, const struct golden_case *c)
{
    struct err err;
    struct verify_verdict v;
    for (int wrong = 0; wrong < 2; wrong++) {
        if (wrong) pair_close(p);
        pair_open(p, c, UINT64_MAX);
        if (wrong) timeline_break_states(p->warm);
        sync_to(p->warm, p->ids, 100);
        timeline_snapshot(p->warm);
        sync_to(p->warm, p->ids, 150);
        sync_to(p->warm, p->ids, 100);
        assert_true(timeline_verify(p->warm, NULL, &v, &err));
        assert_int_equal(v.what, wrong ? VERIFY_STATES : VERIFY_SAME);
        if (wrong) assert_int_equal(v.pos, 99);
        random_ids(p->ids, 100, 110, p->n_vocab);
        assert_int_equal(sync_to(p->warm, p->ids, 110).n_cached, 100);
        if (same_as_cold(p, 110) == wrong || verified(p) == wrong)
            fail_msg("%s: %s", c->name, wrong ? "a reset state is not found" : "differs");
        assert_true(timeline_append(p->warm, p->ids[110], NULL, &err));
        assert_true(same_as_cold(p, 111) != wrong);
    }
}

static void test_reset_is_found(void **state)
{
    (void)state;
    each(check_reset);
}

/* ---- steps that fail ---- */

/* Whatever is cancelled, a token, a block of drafts, a chunk of a prompt: the states are those
 * of the tokens that are held. */
static void check_cancel(struct pair *p, const struct golden_case *c)
{
    struct err err;
    const atomic_bool stop = true;
    pair_open(p, c, UINT64_MAX);
    sync_to(p->warm, p->ids, 100);
    assert_false(timeline_append(p->warm, p->ids[100], &stop, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    assert_false(timeline_append_rows(p->warm, p->ids + 100, 8, &stop, &err));
    const struct timeline_watch watch = {.cancel = &stop};
    assert_false(timeline_sync(p->warm, p->ids, 200, &watch, NULL, &err));
    assert_int_equal(timeline_n(p->warm), 100);
    assert_true(verified(p));
    assert_true(timeline_append(p->warm, p->ids[100], NULL, &err));
    assert_true(same_as_cold(p, 101) && verified(p));
    timeline_truncate(p->warm, 95);
    assert_true(verified(p)); /* the states of 101 tokens are of no use */
    timeline_forget(p->warm);
    assert_true(timeline_append(p->warm, p->ids[0], NULL, &err));
    assert_true(same_as_cold(p, 1));
}

static void test_cancel(void **state)
{
    (void)state;
    each(check_cancel);
}

/* ---- drafts ---- */

/* Of a verified block any number of rows is kept, and no row is computed again for it. */
static void check_drafts(struct pair *p, const struct golden_case *c)
{
    struct err err;
    pair_open(p, c, UINT64_MAX);
    sync_to(p->warm, p->ids, 50);
    size_t n = 50;
    for (size_t kept = 1; kept <= TIMELINE_MAX_VERIFY; kept += 4) {
        const uint64_t steps = timeline_usage(p->warm).n_steps;
        int32_t block[TIMELINE_MAX_VERIFY];
        random_ids(block, 0, TIMELINE_MAX_VERIFY, p->n_vocab);
        memcpy(block, p->ids + n, kept * sizeof *block);
        assert_true(timeline_append_rows(p->warm, block, TIMELINE_MAX_VERIFY, NULL, &err));
        timeline_keep_rows(p->warm, kept);
        n += kept;
        assert_true(same_as_cold(p, n) && verified(p));
        assert_true(timeline_append(p->warm, p->ids[n], NULL, &err));
        n++;
        assert_int_equal(timeline_usage(p->warm).n_steps, steps + 2);
        assert_true(same_as_cold(p, n));
    }
}

static void test_drafts(void **state)
{
    (void)state;
    each(check_drafts);
}

/* A reply of drafted blocks, of which none ends on a mark, is come back to as one whose tokens
 * were appended one by one: the tokens since the mark that was passed are computed. */
static void check_draft_marks(struct pair *p, const struct golden_case *c)
{
    enum { ROWS = 7, KEPT = 5, PROMPT = MARK - 97, END = MARK + 100 };
    struct err err;
    pair_open(p, c, UINT64_MAX);
    sync_to(p->warm, p->ids, PROMPT);
    size_t n = PROMPT;
    for (; n < END; n += KEPT) {
        assert_true(timeline_append_rows(p->warm, p->ids + n, ROWS, NULL, &err));
        timeline_keep_rows(p->warm, KEPT);
    }
    const size_t back = n - 10;
    const struct timeline_cost cost = timeline_plan(p->warm, p->ids, back);
    assert_in_range(cost.n_cached, MARK, MARK + KEPT - 1);
    sync_to(p->warm, p->ids, back);
    assert_true(same_as_cold(p, back) && verified(p));
}

static void test_draft_marks(void **state)
{
    (void)state;
    each(check_draft_marks);
}

/* How many of n sequences of 320 tokens cost nothing to come back to. */
static size_t n_held(struct pair *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += timeline_plan(p->warm, p->ids + 320 * i, 320).n_prefilled == 0;
    return count;
}

/* With other limits it keeps what one keeps that had them from the beginning. */
static void check_limits(struct pair *p, const struct golden_case *c)
{
    enum { N = 12, FEW = 6 };
    const struct timeline_limits few = {.n_ctx = CONTEXT, .warm_bytes = 1},
                                 many = {.n_ctx = CONTEXT, .warm_bytes = UINT64_MAX};
    pair_open(p, c, few.warm_bytes);
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < N; i++) {
            sync_to(p->warm, p->ids + 320 * i, 320);
            timeline_snapshot(p->warm);
        }
        assert_int_equal(n_held(p, N), round == 0 ? 1 : N);
        timeline_set_limits(p->warm, &many);
    }
    timeline_set_limits(p->warm, &few);
    assert_int_equal(n_held(p, N), 1);
    assert_true(timeline_usage(p->warm).n_snapshots <= FEW);
    assert_true(verified(p));
}

static void test_limits(void **state)
{
    (void)state;
    each(check_limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),          cmocka_unit_test(test_marks),
        cmocka_unit_test(test_reset_is_found), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_drafts),         cmocka_unit_test(test_draft_marks),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("states", tests, NULL, NULL);
}
