/* Warm = cold over the golden models: a timeline that went through seeded histories (longer,
 * shorter, edited in the middle, edited at the end, the same again) has the logits of one that
 * starts from nothing. test_timeline does the same in depth on one model. */
#include "../chance.h"
#include "../golden.h"
#include "engine/timeline.h"

enum { CONTEXT = 256, STEPS = 10 };

/* The next history: keeps a random part of the last one, then new ids. */
static uint32_t next_history(int32_t *ids, uint32_t n, uint32_t n_vocab)
{
    const uint32_t kind = below(6);
    if (kind == 0) return n;            /* the same again */
    if (kind == 1) return below(n) + 1; /* shorter */
    uint32_t keep = kind == 2 ? n : below(n + 1);
    if (kind == 3 && n > 3) keep = n - 1 - below(3); /* the tail of the last message */
    uint32_t grown = keep + 1 + below(kind == 4 ? 100 : 12);
    if (grown > CONTEXT) grown = CONTEXT;
    for (uint32_t i = keep; i < grown; i++)
        ids[i] = (int32_t)below(n_vocab);
    return grown;
}

static size_t kept(const int32_t *a, size_t n, const int32_t *b, size_t m)
{
    size_t i = 0;
    while (i < n && i < m && a[i] == b[i])
        i++;
    return i;
}

static void check_model(const struct golden_case *c, uint32_t i)
{
    chance_begin(20250704 + i);
    struct runner r;
    static const enum kv_type types[] = {KV_F16, KV_Q8_0, KV_F32, KV_Q4_0};
    const enum kv_type type = types[golden_has_blocks(c) ? i % 4 : i % 2 * 2];
    const struct runner_options o = {
        .isa = CPU_AUTO, .n_threads = 2, .kv_type = type, .n_ctx = CONTEXT, .batch = 1};
    runner_open(&r, c->model, o);
    struct err err = {0};
    const struct timeline_limits limits = {.n_ctx = CONTEXT};
    struct timeline *warm = timeline_new(r.be, model_program(r.m), &limits, &err);
    struct timeline *cold = timeline_new(r.be, model_program(r.m), &limits, &err);
    assert_true(warm && cold);
    const bool recurrent = model_program(r.m)->state_bytes > 0;
    int32_t ids[CONTEXT], before[CONTEXT];
    uint32_t n = 80, n_before = 0;
    for (uint32_t k = 0; k < n; k++)
        ids[k] = (int32_t)below(c->n_vocab);
    for (int step = 0; step < STEPS; step++) {
        struct timeline_cost cost;
        const size_t same = kept(before, n_before, ids, n);
        if (!timeline_sync(warm, ids, n, NULL, &cost, &err)) fail_msg("%s", err.msg);
        timeline_forget(cold);
        if (!timeline_sync(cold, ids, n, NULL, NULL, &err)) fail_msg("%s", err.msg);
        /* The last row may have no logits; states are held after all that there was. */
        const size_t least = recurrent ? (same == n_before ? same : 0) : same;
        assert_true(cost.n_cached + 1 >= least && cost.n_cached + cost.n_prefilled == n);
        if (memcmp(timeline_logits(warm), timeline_logits(cold), c->n_vocab * sizeof(float)) !=
            0)
            fail_msg("%s: step %d: %u tokens, %zu of them warm, differ from a cold run",
                     c->name, step, n, cost.n_cached);
        memcpy(before, ids, n * sizeof *ids);
        n_before = n;
        n = next_history(ids, n, c->n_vocab);
    }
    timeline_free(warm);
    timeline_free(cold);
    runner_close(&r);
}

static void test_warm(void **unused)
{
    (void)unused;
    struct golden_set set = golden_read("tests/data", golden_known);
    for (size_t i = 0; i < set.n; i++)
        check_model(&set.cases[i], (uint32_t)i);
    golden_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_warm)};
    return cmocka_run_group_tests_name("warm", tests, NULL, NULL);
}
