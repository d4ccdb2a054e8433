/* Models whose layers run on two backends, cut wherever they can be: the logits, pages and
 * states are those of the CPU alone to the last bit, whatever the rows per step, and so are
 * states advanced over accepted drafts. */
#include <math.h>

#include "../golden.h"
#include "../soak.h"
#include "backend/draw.h"

enum { N_IDS = 150, N_DRAFTS = 5 };

/* What a run leaves, as the host reads it. */
struct outcome {
    float *logits;                 /* [N_IDS][n_vocab] */
    uint8_t *pages[PAGE_PARTS][3]; /* of N_IDS positions */
    uint8_t *state, *advanced;     /* after all; after two of N_DRAFTS more */
    size_t page_bytes[PAGE_PARTS], state_bytes, logits_bytes;
    uint32_t n_layers, at; /* where it was cut */
};

static void ids_of(int32_t *ids, size_t n, uint32_t n_vocab)
{
    uint32_t state = 77;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        ids[i] = (int32_t)((uint64_t)state * n_vocab >> 32);
    }
}

/* A block of drafts of which two are accepted. */
static void run_drafts(struct runner *r, const int32_t *ids, struct outcome *out)
{
    struct err err;
    float *logits = mem_zalloc((size_t)N_DRAFTS * model_n_vocab(r->m), sizeof *logits);
    const struct step step = {
        .n_rows = N_DRAFTS,
        .pos = N_IDS,
        .tokens = ids,
        .pages = {r->pages[PAGE_FULL], r->pages[PAGE_WINDOW]},
        .n_logits = N_DRAFTS,
        .logits = logits,
        .state_in = r->state[0],
        .state_out = r->state[1],
        .keeps_trail = true,
    };
    if (!exec_run(r->x, &step, &err) || !exec_advance(r->x, r->state[0], r->state[1], 2, &err))
        fail_msg("%s", err.msg);
    free(logits);
    out->advanced = mem_zalloc(1, out->state_bytes);
    backend_state_read(r->be, r->state[1], out->state_bytes, out->advanced);
}

static struct outcome run(const struct golden_case *c, struct runner_options o)
{
    struct runner r;
    int32_t ids[N_IDS + N_DRAFTS];
    const uint32_t batch = o.batch;
    if (o.batch < N_DRAFTS) o.batch = N_DRAFTS;
    runner_open(&r, c->model, o);
    r.o.batch = batch;
    const struct program *p = model_program(r.m);
    struct outcome out = {.n_layers = model_n_layer(r.m),
                          .at = r.o.split_at,
                          .state_bytes = p->state_bytes,
                          .logits_bytes = (size_t)N_IDS * c->n_vocab * sizeof(float)};
    out.logits = mem_zalloc(1, out.logits_bytes);
    ids_of(ids, N_IDS + N_DRAFTS, c->n_vocab);
    runner_run(&r, ids, N_IDS, 0, out.logits);
    for (int part = 0; part < PAGE_PARTS; part++) {
        out.page_bytes[part] = p->page_bytes[part];
        for (size_t i = 0; p->page_bytes[part] && i < 3; i++) {
            out.pages[part][i] = mem_zalloc(1, p->page_bytes[part]);
            /* As the open page of a branch is: a copy of it. */
            void *copy = backend_page_new(r.be, p->page_bytes[part], p->page_unit[part]);
            backend_page_copy(r.be, copy, r.pages[part][i], p->page_bytes[part]);
            backend_page_read(r.be, copy, p->page_bytes[part], out.pages[part][i]);
            backend_page_free(r.be, copy, p->page_bytes[part]);
        }
    }
    if (p->state_bytes) {
        out.state = mem_zalloc(1, p->state_bytes);
        backend_state_read(r.be, r.state[0], p->state_bytes, out.state);
        /* As those of a snapshot come back. */
        void *other = r.state[1];
        r.state[1] = r.state[0];
        r.state[0] = other;
        backend_state_write(r.be, r.state[0], p->state_bytes, out.state);
        run_drafts(&r, ids + N_IDS, &out);
    }
    runner_close(&r);
    return out;
}

static void outcome_free(struct outcome *o)
{
    for (int part = 0; part < PAGE_PARTS; part++)
        for (size_t i = 0; i < 3; i++)
            free(o->pages[part][i]);
    free(o->logits);
    free(o->state);
    free(o->advanced);
}

static size_t n_compared;

static void same(const char *name, uint32_t at, const char *what, const void *got,
                 const void *want, size_t n_bytes)
{
    if (n_bytes && memcmp(got, want, n_bytes) != 0)
        fail_msg("%s in front of layer %u: other %s", name, at, what);
    n_compared += n_bytes;
}

static void same_outcome(const char *name, const struct outcome *got,
                         const struct outcome *want)
{
    same(name, got->at, "logits", got->logits, want->logits, want->logits_bytes);
    for (int part = 0; part < PAGE_PARTS; part++)
        for (size_t i = 0; i < 3; i++)
            same(name, got->at, "pages", got->pages[part][i], want->pages[part][i],
                 want->page_bytes[part]);
    same(name, got->at, "states", got->state, want->state, want->state_bytes);
    same(name, got->at, "states after drafts", got->advanced, want->advanced,
         want->state_bytes);
}

/* Every model: between two CPU backends at every layer, between the CPU and Vulkan (slow where
 * it is software) at one. */
static void check_models(bool vulkan)
{
    static const uint32_t batches[] = {64, 5, 200, 1, 17};
    struct golden_set set = golden_read("tests/data", golden_known);
    size_t n_runs = 0;
    n_compared = 0;
    for (size_t i = 0; i < set.n; i++) {
        const struct golden_case *c = &set.cases[i];
        struct runner_options o = {.kv_type = i % 4 == 0 ? KV_F32 : KV_F16,
                                   .n_threads = 2,
                                   .n_ctx = 256,
                                   .batch = 64,
                                   .poison = true};
        struct outcome want = run(c, o);
        o.is_split = true;
        o.vulkan = vulkan;
        const uint32_t n_cuts = vulkan && soak() == 1 ? 1 : want.n_layers;
        for (uint32_t k = 0; k < n_cuts; k++) {
            o.split_at = (uint32_t)(i + 1 + k) % want.n_layers;
            o.batch = batches[(i + k) % 5];
            struct outcome got = run(c, o);
            same_outcome(c->name, &got, &want);
            outcome_free(&got);
            n_runs++;
        }
        outcome_free(&want);
    }
    print_message("# %zu runs of %zu models, %zu bytes compared\n", n_runs, set.n, n_compared);
    golden_free(&set);
}

static void on_two_cpus(void **state)
{
    (void)state;
    check_models(false);
}

static void on_cpu_and_vulkan(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    check_models(true);
}

/* A step that is cancelled in front, or behind, leaves nothing that shows. */
static void cancelled(void **state)
{
    (void)state;
    struct golden_set set = golden_read("tests/data", (const char *const[]){"qwen35-Q4", NULL});
    struct runner r;
    struct err err;
    float *got = mem_zalloc(8 * set.cases[0].n_vocab, sizeof *got);
    float *want = mem_zalloc(8 * set.cases[0].n_vocab, sizeof *want);
    atomic_bool cancel = true;
    runner_open(&r, set.cases[0].model,
                (struct runner_options){
                    .n_threads = 1, .n_ctx = 256, .batch = 8, .is_split = true, .split_at = 1});
    runner_run(&r, set.cases[0].tokens, 8, 0, want);
    const struct step step = {.n_rows = 8,
                              .tokens = set.cases[0].tokens,
                              .pages = {r.pages[PAGE_FULL], r.pages[PAGE_WINDOW]},
                              .n_logits = 8,
                              .logits = got,
                              .cancel = &cancel,
                              .state_in = r.state[0],
                              .state_out = r.state[1]};
    assert_false(exec_run(r.x, &step, &err));
    assert_int_equal(err.code, ERR_CANCELLED);
    runner_run(&r, set.cases[0].tokens, 8, 0, got);
    assert_memory_equal(got, want, 8 * set.cases[0].n_vocab * sizeof *got);
    free(got);
    free(want);
    runner_close(&r);
    golden_free(&set);
}

/* Where the back draws, both do: what the host draws of the CPU's logits. */
static void draws(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    struct golden_set set = golden_read("tests/data", (const char *const[]){"qwen35-Q4", NULL});
    const struct golden_case *c = &set.cases[0];
    const struct draw draw = {.n_vocab = c->n_vocab,
                              .seed = 3,
                              .inverse_temp = 1,
                              .top_p = DRAW_WHOLE,
                              .min_x = -INFINITY,
                              .repeat = 1,
                              .inverse_repeat = 1};
    struct draw_scratch *scratch = draw_scratch_new(c->n_vocab);
    float *want = mem_zalloc((size_t)c->n_tokens * c->n_vocab, sizeof *want);
    float *got = mem_zalloc(c->n_vocab, sizeof *got);
    struct runner_options o = {.n_threads = 1, .n_ctx = 256, .batch = 8};
    const uint32_t n = 8;
    struct runner r;
    struct err err;
    runner_open(&r, c->model, o);
    assert_false(exec_draws(r.x));
    runner_run(&r, c->tokens, n + 1, 0, want);
    runner_close(&r);
    o.is_split = o.vulkan = true;
    o.split_at = 2;
    runner_open(&r, c->model, o);
    assert_true(exec_draws(r.x));
    runner_run(&r, c->tokens, n, 0, NULL);
    int32_t drawn = -2, id;
    const struct step step = {.n_rows = 1,
                              .pos = n,
                              .tokens = c->tokens + n,
                              .pages = {r.pages[PAGE_FULL], r.pages[PAGE_WINDOW]},
                              .n_logits = 1,
                              .draw = &draw,
                              .drawn = &drawn,
                              .state_in = r.state[0],
                              .state_out = r.state[1]};
    if (!exec_run(r.x, &step, &err) || !exec_logits(r.x, 0, got, &err)) fail_msg("%s", err.msg);
    const float *last = want + (size_t)n * c->n_vocab;
    assert_memory_equal(got, last, c->n_vocab * sizeof *got);
    assert_true(draw_host(scratch, &draw, last, n + 1, &id, &err));
    assert_int_equal(drawn, id);
    draw_scratch_free(scratch);
    free(got);
    free(want);
    runner_close(&r);
    golden_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_two_cpus),
        cmocka_unit_test(on_cpu_and_vulkan),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
