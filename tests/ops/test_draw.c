/* Draws on devices: of any logits, with any options, and with counts that change from step to
 * step, the id is the one that the sampler draws on the host; where that is an error, the
 * device says so. HEARTH_SOAK runs more cases. */
#include "../soak.h"
#include "ops.h"

#include "backend/draw.h"
#include "engine/engine.h"
#include "engine/sampler.h"

enum { N_CASES = 60, N_STEPS = 4, MAX_HISTORY = 400, BIG_VOCAB = 130001 };

static uint32_t below(uint32_t n)
{
    return (uint32_t)(random_u64() % n);
}

/* ---- cases ---- */

static const size_t sizes[] = {1, 2, 3, 63, 65, 255, 600, 2047, 2048, 2049, 5001, 33333};

enum look { LOOK_NORMAL, LOOK_STEPS, LOOK_FLAT, LOOK_PEAK, LOOK_WIDE, LOOK_HUGE, N_LOOKS };

/* Logits of a look; some banned. */
static void random_logits(float *x, size_t n)
{
    const enum look look = (enum look)below(N_LOOKS);
    const bool bans = below(3) == 0;
    for (size_t i = 0; i < n; i++) {
        double v = random_normal();
        switch (look) {
        case LOOK_NORMAL: v *= 3; break;
        case LOOK_STEPS: v = (double)below(9) / 4; break; /* ties, and both zeros */
        case LOOK_FLAT: v = 1.5; break;
        case LOOK_PEAK: v = i == n / 2 ? 40 : v; break;
        case LOOK_WIDE: v *= 20; break;
        case LOOK_HUGE: v *= 1e36; break;
        case N_LOOKS: break;
        }
        x[i] = look == LOOK_STEPS && v == 0 && below(2) ? -0.0f : (float)v;
        if (bans && below(10) == 0) x[i] = -INFINITY;
    }
    if (below(25) == 0) x[below((uint32_t)n)] = below(2) ? NAN : INFINITY;
    if (below(40) == 0)
        for (size_t i = 0; i < n; i++)
            x[i] = -INFINITY;
}

static void random_sampling(struct engine_sampling *how, struct engine_bias *bias,
                            size_t n_vocab)
{
    static const float temps[] = {0, 1e-6f, 1e-3f, 0.3f, 0.8f, 1, 1.7f, 100, 1e6f};
    static const int ks[] = {0, 0, 1, 2, 40, 1000, 1025, 1 << 30};
    static const float ps[] = {1, 1, 0.95f, 0.5f, 0.01f, 0, 0.999999f};
    static const float mins[] = {0, 0, 0.05f, 0.5f, 1, 1e-6f, 1e-20f};
    *how = (struct engine_sampling){.temp = temps[below(9)],
                                    .top_k = ks[below(8)],
                                    .top_p = ps[below(7)],
                                    .min_p = mins[below(7)],
                                    .repeat_penalty = 1,
                                    .reply_seed = random_u64()};
    if (below(2)) how->repeat_penalty = below(2) ? 1.3f : 0.7f;
    if (below(2)) how->presence_penalty = below(2) ? 0.4f : 1e-40f;
    if (below(2)) how->frequency_penalty = below(2) ? -0.25f : 3e-17f;
    if (below(2)) how->repeat_last_n = (int)below(5) * 16 - 1;
    how->n_bias = below(2) ? below(4) : 0;
    for (size_t i = 0; i < how->n_bias; i++)
        bias[i] = (struct engine_bias){(int32_t)below((uint32_t)n_vocab),
                                       below(3) ? 2.5f : -INFINITY};
    how->bias = bias;
}

/* ---- one machine ---- */

/* A conversation of random ids and what is asked of its draws. */
struct story {
    int32_t ids[MAX_HISTORY];
    size_t n;
    struct engine_sampling how;
    struct engine_bias bias[4];
    struct sampler *sampler;
};

static struct exec *exec_of(struct trial *t, struct ref in, size_t n_vocab, uint32_t max_rows)
{
    struct err err;
    trial_op(t, OP_HEAD_ROWS);
    trial_op(t, OP_LOGITS)->logits = (struct op_logits){in, 1, 0};
    t->p.buffers = t->buffers;
    t->p.ops = t->ops;
    t->p.n_vocab = n_vocab;
    struct exec *x = exec_new(t->be, &t->p, max_rows, &err);
    if (!x) fail_msg("%s: %s", backend_name(t->be), err.msg);
    return x;
}

static size_t n_ids, n_errors;

/* The ids that the device drew are those of the host, which accepts the row's token after each.
 */
static void check_rows(struct exec *x, const struct step *step, struct story *s, size_t n_vocab,
                       const char *what)
{
    struct err err;
    float *logits = mem_zalloc(n_vocab, sizeof *logits);
    for (uint32_t i = 0; i < step->n_logits; i++) {
        if (i > 0) sampler_accept(s->sampler, s->ids, s->n + i);
        const uint32_t pos = step->pos + step->n_rows - step->n_logits + i + 1;
        int32_t id = -1;
        assert_true(exec_logits(x, i, logits, &err));
        if (!sampler_draw(s->sampler, logits, pos, &id, &err)) {
            n_errors++;
            assert_int_equal(id, -1);
        }
        if (id != step->drawn[i])
            fail_msg("%s, %zu tokens, row %u of %u, temp %g, top-k %d, top-p %g, min-p %g, "
                     "window %d, %zu biases: id %d instead of %d",
                     what, n_vocab, i, step->n_logits, (double)s->how.temp, s->how.top_k,
                     (double)s->how.top_p, (double)s->how.min_p, s->how.repeat_last_n,
                     s->how.n_bias, step->drawn[i], id);
        n_ids++;
    }
    for (uint32_t i = step->n_logits - 1; i > 0; i--)
        sampler_take_back(s->sampler, s->ids, s->n + i);
    free(logits);
}

/* Steps of several rows, of which some are kept; the counts go on, and now and then another
 * reply begins. */
static void run_story(struct backend *be, const float *logits, size_t n_vocab, uint32_t n_rows,
                      int n_steps)
{
    struct trial t;
    struct err err;
    struct story s = {.sampler = sampler_new(n_vocab)};
    struct ref in = trial_begin(&t, be, logits, n_rows, n_vocab);
    struct exec *x = exec_of(&t, in, n_vocab, n_rows);
    assert_true(exec_draws(x));
    int32_t tokens[64], drawn[DRAW_ROWS];
    for (uint32_t i = 0; i < n_rows; i++)
        tokens[i] = (int32_t)i;
    for (int i = 0; i < MAX_HISTORY; i++)
        s.ids[i] = (int32_t)(below(4) ? below((uint32_t)n_vocab)
                                      : below(n_vocab < 5 ? (uint32_t)n_vocab : 5));
    for (int i = 0; i < n_steps; i++) {
        if (i == 0 || below(4) == 0) {
            s.n = below(MAX_HISTORY - 200);
            random_sampling(&s.how, s.bias, n_vocab);
            assert_true(sampler_begin(s.sampler, &s.how, s.ids, s.n, &err));
        }
        const uint32_t most = n_rows < DRAW_ROWS ? n_rows : DRAW_ROWS;
        const uint32_t n_logits = below(2) ? 1 : 1 + below(most);
        const struct step step = {
            .n_rows = n_logits + below(n_rows - n_logits + 1),
            .pos = below(100000),
            .tokens = tokens,
            .n_logits = n_logits,
            .draw = sampler_request(s.sampler, s.ids, s.n + n_logits - 1, n_logits - 1),
            .drawn = drawn};
        if (!exec_run(x, &step, &err)) fail_msg("%s: %s", backend_name(be), err.msg);
        check_rows(x, &step, &s, n_vocab, backend_name(be));
        for (uint32_t k = below(n_logits + 1); k > 0; k--)
            sampler_accept(s.sampler, s.ids, ++s.n);
    }
    exec_free(x);
    sampler_free(s.sampler);
    backend_reset(be);
}

static void random_draws(void **state)
{
    (void)state;
    const size_t n_cases = N_CASES * soak();
    for (size_t c = 0; c < n_cases; c++) {
        random_seed(1000 + c);
        const size_t n_vocab = sizes[below(sizeof sizes / sizeof *sizes)];
        const uint32_t n_rows = below(3) == 0 ? 1 + below(24) : 1 + below(5);
        float *logits = mem_zalloc(n_rows * n_vocab, sizeof *logits);
        for (uint32_t r = 0; r < n_rows; r++)
            random_logits(logits + r * n_vocab, n_vocab);
        const uint64_t seed = random_u64();
        for (int i = 0; i < N_MACHINES; i++) {
            if (machines[i].n_threads > 0 || machine_skips(&machines[i], c)) continue;
            random_seed(seed);
            run_story(machines[i].be, logits, n_vocab, n_rows, N_STEPS);
            machines[i].n_runs++;
        }
        free(logits);
    }
    print_message("# %zu draws, %zu of them errors\n", n_ids, n_errors);
}

/* A vocabulary as large as those of today's models. */
static void large_vocabulary(void **state)
{
    (void)state;
    random_seed(7);
    float *logits = mem_zalloc(BIG_VOCAB, sizeof *logits);
    for (size_t i = 0; i < BIG_VOCAB; i++)
        logits[i] = (float)(random_normal() * 3);
    for (int i = 0; i < N_MACHINES; i++)
        if (machines[i].n_threads == 0 && machines[i].be)
            run_story(machines[i].be, logits, BIG_VOCAB, 1, 24);
    free(logits);
}

/* A draw of the last part of (0,1), where nine bits more place it, against one that is a little
 * more or less likely. */
static void noise_at_the_end(void **state)
{
    (void)state;
    enum { N_VOCAB = 2169, RARE = 2168, POS = 1801, SEED = 1 };
    const struct engine_sampling how = {
        .temp = 1, .top_p = 1, .repeat_penalty = 1, .reply_seed = SEED};
    static float logits[2 * N_VOCAB];
    const float equal = draw_noise(SEED, POS, RARE) - draw_noise(SEED, POS, 0);
    for (size_t i = 0; i < 2 * N_VOCAB; i++)
        logits[i] = -200;
    for (size_t r = 0; r < 2; r++) {
        logits[r * N_VOCAB] = equal + (r ? 1e-4f : -1e-4f);
        logits[r * N_VOCAB + RARE] = 0;
    }
    for (int i = 0; i < N_MACHINES; i++) {
        struct backend *be = machines[i].be;
        if (machines[i].n_threads > 0 || !be) continue;
        struct trial t;
        struct err err;
        struct sampler *sampler = sampler_new(N_VOCAB);
        struct ref in = trial_begin(&t, be, logits, 2, N_VOCAB);
        struct exec *x = exec_of(&t, in, N_VOCAB, 2);
        assert_true(sampler_begin(sampler, &how, NULL, 0, &err));
        for (int32_t r = 0; r < 2; r++) {
            int32_t drawn, id;
            const struct step step = {.n_rows = 1,
                                      .pos = POS - 1,
                                      .tokens = &r,
                                      .n_logits = 1,
                                      .draw = sampler_request(sampler, NULL, 0, 0),
                                      .drawn = &drawn};
            if (!exec_run(x, &step, &err)) fail_msg("%s: %s", backend_name(be), err.msg);
            assert_int_equal(drawn, r ? 0 : RARE);
            assert_true(sampler_draw(sampler, logits + r * N_VOCAB, POS, &id, &err));
            assert_int_equal(id, drawn);
        }
        exec_free(x);
        sampler_free(sampler);
        backend_reset(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_draws),
                                       cmocka_unit_test(large_vocabulary),
                                       cmocka_unit_test(noise_at_the_end)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
