/* Ops of recurrent layers: all machines give the reference's bits at every shape and however
 * the rows are cut into steps, states included; the reference is near the formula in double,
 * and its bits are the stored ones. */
#include "ops.h"

enum { N_ROWS = 40 };

/* What the rows of a head's state decay by: all by one, by one each, which may have a bound, by
 * one that no input row changes, or each value by its own, with a step for each column. With an
 * erasure by one each with a bound, which heads of one value each would have. Of one for all,
 * dt may be an exponential. */
enum decays { ONE, EACH_DIM, BOUNDED, FIXED, EACH_VALUE, ERASED, EXPONENTIAL };
static const float lower_bound = -5;

/* A layer of one kind; widths of its input row follow from the numbers. */
struct layer_case {
    const char *name;
    uint32_t n_heads, n_groups, n_dim, n_width, n_taps;
    bool delta, tiled, skip, bias, silu;
    uint32_t run; /* of betas; 0: none */
    enum decays decays;
};

static const struct layer_case cases[] = {
    {"delta", 4, 2, 64, 64, 4, true, true, false, false, true, 4, ONE},
    {"delta_runs", 6, 3, 32, 32, 4, true, false, false, false, true, 2, ONE},
    {"delta_wide", 2, 1, 16, 136, 2, true, true, false, true, false, 2, ONE},
    {"delta_odd", 3, 3, 5, 7, 3, true, false, false, false, true, 1, ONE},
    {"mamba", 6, 2, 32, 32, 4, false, false, true, true, true, 0, ONE},
    {"mamba_large", 4, 1, 128, 64, 4, false, false, true, true, true, 0, ONE},
    {"mamba_odd", 5, 1, 3, 9, 5, false, false, false, false, false, 0, ONE},
    /* States that the CPU stores past its caches, and heads whose states it keeps on no stack.
     */
    {"delta_large", 8, 4, 128, 64, 2, true, false, false, false, false, 8, ONE},
    {"delta_tall", 1, 1, 272, 48, 2, true, false, false, false, false, 1, ONE},
    {"dims", 4, 4, 64, 64, 4, true, false, false, false, true, 4, EACH_DIM},
    {"dims_runs", 6, 3, 24, 40, 2, true, true, false, true, true, 2, EACH_DIM},
    {"dims_odd", 3, 3, 5, 7, 3, true, false, false, false, true, 3, EACH_DIM},
    {"dims_large", 4, 4, 128, 128, 2, true, false, false, false, false, 4, EACH_DIM},
    {"dims_tall", 1, 1, 272, 48, 2, true, false, true, false, false, 1, EACH_DIM},
    {"bound", 4, 4, 64, 64, 4, true, false, false, false, true, 4, BOUNDED},
    {"bound_odd", 3, 3, 5, 7, 3, true, false, false, false, true, 3, BOUNDED},
    {"fixed", 6, 6, 32, 32, 2, false, false, false, false, true, 0, FIXED},
    {"fixed_odd", 3, 1, 5, 7, 2, false, false, false, false, false, 0, FIXED},
    {"each", 1, 1, 16, 200, 4, .bias = true, .silu = true, .decays = EACH_VALUE},
    {"each_heads", 4, 2, 8, 40, 4, .tiled = true, .silu = true, .decays = EACH_VALUE},
    {"each_odd", 3, 1, 5, 7, 3, .bias = true, .decays = EACH_VALUE},
    {"each_large", 1, 1, 32, 2048, 2, .decays = EACH_VALUE},
    {"each_tall", 1, 1, 272, 48, 2, .decays = EACH_VALUE},
    {"erase", 4, 4, 64, 64, 4, .silu = true, .decays = ERASED},
    {"erase_groups", 6, 3, 24, 40, 2, .tiled = true, .bias = true, .decays = ERASED},
    {"erase_odd", 3, 3, 5, 7, 3, .decays = ERASED},
    {"erase_large", 4, 4, 128, 128, 2, .decays = ERASED},
    {"erase_tall", 1, 1, 272, 48, 2, .decays = ERASED},
    {"exp", 8, 2, 32, 32, 4, .bias = true, .silu = true, .decays = EXPONENTIAL},
    {"exp_odd", 3, 1, 5, 7, 2, .decays = EXPONENTIAL},
    {"dims_alone", 4, 4, 64, 64, 4, .silu = true, .run = 4, .decays = EACH_DIM},
    {"dims_alone_runs", 6, 3, 24, 40, 2, .tiled = true, .skip = true, .run = 2,
     .decays = EACH_DIM},
    {"dims_alone_odd", 3, 1, 5, 7, 3, .run = 3, .decays = EACH_DIM},
    {"dims_alone_large", 4, 4, 128, 128, 2, .run = 4, .decays = EACH_DIM},
    {"dims_alone_tall", 1, 1, 272, 48, 2, .run = 1, .decays = EACH_DIM},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static size_t n_qk(const struct layer_case *c)
{
    return (size_t)c->n_groups * c->n_dim;
}

static size_t n_inner(const struct layer_case *c)
{
    return (size_t)c->n_heads * c->n_width;
}

static bool by_dim(const struct layer_case *c)
{
    return c->decays == EACH_DIM || c->decays == BOUNDED || c->decays == ERASED;
}

static size_t n_each(const struct layer_case *c)
{
    return by_dim(c) ? c->n_dim : 1;
}

static size_t n_decays(const struct layer_case *c)
{
    return c->n_heads * n_each(c);
}

static size_t n_gates(const struct layer_case *c)
{
    if (c->decays == EACH_VALUE) return n_inner(c);
    if (c->decays == ERASED) return 3 * n_decays(c);
    return c->decays == FIXED ? 0 : n_decays(c) + (c->run ? c->n_heads : 0);
}

/* Rows in: q, k, v, gates. Rows out: heads, then what the convolution gave, then the decays and
 * steps, or what they are made of where the states do that; with an erasure decays and its two
 * vectors. */
static size_t in_width(const struct layer_case *c)
{
    return 2 * n_qk(c) + n_inner(c) + n_gates(c);
}

static size_t conv_width(const struct layer_case *c)
{
    return 2 * n_qk(c) + n_inner(c);
}

/* What the states advance by beside q, k and v. */
static size_t given_width(const struct layer_case *c)
{
    if (c->decays == EACH_VALUE || c->decays == ERASED) return n_gates(c);
    return n_decays(c) + c->n_heads;
}

static size_t out_width(const struct layer_case *c)
{
    return n_inner(c) + conv_width(c) + given_width(c);
}

static size_t n_state(const struct layer_case *c)
{
    return n_inner(c) * c->n_dim;
}

/* The numbers that decays are made by. */
static size_t n_a(const struct layer_case *c)
{
    if (c->decays == EACH_VALUE) return n_state(c);
    return c->decays == ERASED ? n_decays(c) : c->n_heads;
}

/* Weights of a case, seeded by it. */
struct weights_of {
    float *taps, *conv_bias, *dt_bias, *a, *skip;
    size_t n_a;
};

static struct weights_of weights_new(const struct layer_case *c)
{
    struct weights_of w = {
        .taps = mem_zalloc(c->n_taps * conv_width(c), sizeof(float)),
        .conv_bias = mem_zalloc(conv_width(c), sizeof(float)),
        .dt_bias = mem_zalloc(n_decays(c), sizeof(float)),
        .a = mem_zalloc(n_a(c), sizeof(float)),
        .n_a = n_a(c),
        .skip = mem_zalloc(c->n_heads, sizeof(float)),
    };
    random_floats(NORMAL, w.taps, c->n_taps * conv_width(c));
    /* Keys shorter than 1, as the norm between makes them: with longer ones the delta rule runs
     * away. */
    for (size_t i = 0; i < c->n_taps * conv_width(c); i++)
        if (i % conv_width(c) < 2 * n_qk(c)) w.taps[i] *= (float)(0.3 / sqrt(c->n_dim));
    random_floats(NORMAL, w.conv_bias, conv_width(c));
    random_floats(NORMAL, w.dt_bias, n_decays(c));
    random_floats(NORMAL, w.skip, c->n_heads);
    for (size_t i = 0; i < w.n_a; i++)
        w.a[i] = (float)(-0.1 - 2 * random_unit());
    return w;
}

static void weights_free(struct weights_of *w)
{
    free(w->taps);
    free(w->conv_bias);
    free(w->dt_bias);
    free(w->a);
    free(w->skip);
}

static struct weight *vector(struct backend *be, const float *x, size_t n)
{
    struct err err;
    struct weight *w = backend_vector(be, x, n, &err);
    assert_non_null(w);
    return w;
}

/* Decays, over whose steps go the two vectors: short, since with long ones states run away. */
static struct ref build_erasure(struct trial *t, const struct layer_case *c,
                                const struct weights_of *w, struct ref in)
{
    const size_t n = n_decays(c);
    const struct ref gates = trial_buffer(t, ROW_F32, 3 * n), from = ref_part(in, n, 2 * n);
    const struct ref both = ref_part(gates, n, 2 * n);
    trial_op(t, OP_DECAY)->decay = (struct op_decay){.in = ref_part(in, 0, n),
                                                     .out = ref_part(gates, 0, 2 * n),
                                                     .bias = vector(t->be, w->dt_bias, n),
                                                     .a = vector(t->be, w->a, n),
                                                     .bound = lower_bound};
    trial_op(t, OP_ADD)->add = (struct op_add){from, from, both, 0};
    trial_op(t, OP_SCALE)->scale = (struct op_scale){both, 0.7f / (float)sqrt(c->n_dim)};
    return gates;
}

/* The decays and steps of what the row has of them. */
static struct ref build_gates(struct trial *t, const struct layer_case *c,
                              const struct weights_of *w, struct ref in)
{
    if (c->decays == EACH_VALUE) return in;
    if (c->decays == ERASED) return build_erasure(t, c, w, in);
    struct ref gates = trial_buffer(t, ROW_F32, given_width(c));
    trial_op(t, OP_DECAY)->decay = (struct op_decay){
        .in = in,
        .out = gates,
        .bias = c->decays == FIXED ? NULL : vector(t->be, w->dt_bias, n_decays(c)),
        .a = vector(t->be, w->a, c->n_heads),
        .bound = c->decays == BOUNDED ? lower_bound : 0,
        .betas = c->run > 0,
        .by_exp = c->decays == EXPONENTIAL,
        .run = c->run,
        .n_each = (uint32_t)n_each(c),
    };
    return gates;
}

/* The layer without its norms, which are ops of their own; q and k are the convolution's. */
static struct ref build(struct trial *t, const struct layer_case *c, const struct weights_of *w,
                        struct ref in)
{
    struct ref out = trial_buffer(t, ROW_F32, out_width(c));
    struct ref heads = trial_buffer(t, ROW_F32, n_inner(c));
    struct ref conv = trial_buffer(t, ROW_F32, conv_width(c));
    const size_t n_conv = conv_width(c);
    trial_op(t, OP_CONV)->conv = (struct op_conv){
        .in = ref_part(in, 0, n_conv),
        .out = conv,
        .w = vector(t->be, w->taps, c->n_taps * n_conv),
        .bias = c->bias ? vector(t->be, w->conv_bias, n_conv) : NULL,
        .n_taps = c->n_taps,
        .silu = c->silu,
        .state = 0,
    };
    struct ref gates = build_gates(t, c, w, ref_part(in, n_conv, n_gates(c)));
    trial_op(t, OP_RECUR)->recur = (struct op_recur){
        .q = ref_part(conv, 0, n_qk(c)),
        .k = ref_part(conv, n_qk(c), n_qk(c)),
        .v = ref_part(conv, 2 * n_qk(c), n_inner(c)),
        .out = heads,
        .gates = gates,
        .skip = c->skip ? vector(t->be, w->skip, c->n_heads) : NULL,
        .a = c->decays == EACH_VALUE ? vector(t->be, w->a, w->n_a) : NULL,
        .n_heads = c->n_heads,
        .n_groups = c->n_groups,
        .n_dim = c->n_dim,
        .n_width = c->n_width,
        .delta = c->delta,
        .tiled = c->tiled,
        .by_dim = by_dim(c),
        .erase = c->decays == ERASED,
        .state = 1,
    };
    const struct ref parts[] = {heads, conv, gates};
    for (size_t i = 0, at = 0; i < 3; at += parts[i++].n)
        trial_op(t, OP_ADD)->add =
            (struct op_add){parts[i], parts[i], ref_part(out, at, parts[i].n), 0};
    t->states[0] = (struct state_part){0, (c->n_taps - 1) * n_conv};
    const size_t first = (t->states[0].n * sizeof(float) + 63) / 64 * 64;
    t->states[1] = (struct state_part){first, n_state(c)};
    t->p.n_states = 2;
    t->p.state_bytes = first + (t->states[1].n * sizeof(float) + 63) / 64 * 64;
    return out;
}

/* All rows in steps of n_step; out[N_ROWS][out_width], and the states that are left, which the
 * caller frees. */
static float *run(struct backend *be, const struct layer_case *c, const struct weights_of *w,
                  const float *x, uint32_t n_step, float *out, size_t *state_bytes)
{
    struct trial t;
    struct ref in = trial_begin(&t, be, x, N_ROWS, in_width(c));
    struct ref y = build(&t, c, w, in);
    const size_t n_bytes = *state_bytes = t.p.state_bytes;
    t.state_in = backend_state_new(be, n_bytes);
    t.state_out = backend_state_new(be, n_bytes);
    for (uint32_t at = 0; at < N_ROWS; at += n_step) {
        uint32_t n = N_ROWS - at < n_step ? N_ROWS - at : n_step;
        trial_run(&t, y, at, n, NULL, out + at * y.n);
        void *after = t.state_out;
        t.state_out = t.state_in;
        t.state_in = after;
    }
    float *states = mem_zalloc(n_bytes, 1);
    backend_state_read(be, t.state_in, n_bytes, states);
    backend_state_free(be, t.state_in, n_bytes);
    backend_state_free(be, t.state_out, n_bytes);
    return states;
}

/* ---- the formula in double ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double conv_exact(const struct layer_case *c, const struct weights_of *w, const float *x,
                         size_t row, size_t i)
{
    double sum = c->bias ? (double)w->conv_bias[i] : 0;
    for (size_t j = 0; j < c->n_taps; j++) {
        if (row + j < c->n_taps - 1) continue;
        const size_t from = row + j - (c->n_taps - 1);
        sum += (double)x[from * in_width(c) + i] * (double)w->taps[j * conv_width(c) + i];
    }
    return c->silu ? sum * sigmoid(sum) : sum;
}

static void near(const struct layer_case *c, const char *what, size_t row, size_t i, float got,
                 double want, double bound)
{
    if (!(fabs((double)got - want) <= bound * fmax(1, fabs(want))))
        fail_msg("%s: %s %zu of row %zu: %.9g, in double %.9g", c->name, what, i, row,
                 (double)got, want);
}

/* One head over all rows, from the convolution's own values: states in double. */
static void check_head(const struct layer_case *c, const struct weights_of *w, const float *y,
                       size_t head)
{
    const size_t group = c->tiled ? head % c->n_groups : head / (c->n_heads / c->n_groups);
    const size_t n = out_width(c), n_dim = c->n_dim, n_width = c->n_width;
    double *s = mem_zalloc(n_dim * n_width, sizeof *s);
    for (size_t row = 0; row < N_ROWS; row++) {
        const float *conv = y + row * n + n_inner(c), *gates = conv + conv_width(c);
        const float *q = conv + group * n_dim, *k = q + n_qk(c);
        const float *v = conv + 2 * n_qk(c) + head * n_width;
        const float *decay = gates + head * n_each(c);
        const double step = (double)gates[n_decays(c) + head];
        for (size_t j = 0; j < n_width; j++) {
            double held = 0, o = c->skip ? (double)w->skip[head] * (double)v[j] : 0, size = 1;
            for (size_t i = 0; i < n_dim; i++)
                held += (double)decay[by_dim(c) ? i : 0] * s[i * n_width + j] * (double)k[i];
            const double d = step * ((double)v[j] - (c->delta ? held : 0));
            for (size_t i = 0; i < n_dim; i++) {
                double *at = &s[i * n_width + j];
                *at = *at * (double)decay[by_dim(c) ? i : 0] + (double)k[i] * d;
                o += *at * (double)q[i];
                size += fabs(*at * (double)q[i]);
            }
            near(c, "value", row, head * n_width + j, y[row * n + head * n_width + j], o,
                 2e-6 * size);
        }
    }
    free(s);
}

/* The same where each value of a state has its decay. */
static void check_each(const struct layer_case *c, const struct weights_of *w, const float *y,
                       size_t head)
{
    const size_t group = c->tiled ? head % c->n_groups : head / (c->n_heads / c->n_groups);
    const size_t n = out_width(c), n_dim = c->n_dim;
    double *states = mem_zalloc(n_dim, sizeof *states);
    for (size_t j = head * c->n_width; j < (head + 1) * c->n_width; j++) {
        const float *a = w->a + head * n_dim * c->n_width + j % c->n_width;
        memset(states, 0, n_dim * sizeof *states);
        for (size_t row = 0; row < N_ROWS; row++) {
            const float *conv = y + row * n + n_inner(c);
            const float *q = conv + group * n_dim, *k = q + n_qk(c), *v = conv + 2 * n_qk(c);
            const double step = log1p(exp((double)v[n_inner(c) + j]));
            double o = 0, size = 1;
            for (size_t i = 0; i < n_dim; i++) {
                states[i] = states[i] * exp(step * (double)a[i * c->n_width]) +
                            (double)k[i] * step * (double)v[j];
                o += states[i] * (double)q[i];
                size += fabs(states[i] * (double)q[i]);
            }
            near(c, "value", row, j, y[row * n + j], o, 2e-6 * size);
        }
    }
    free(states);
}

/* The same with an erasure. */
static void check_erase(const struct layer_case *c, const float *y, size_t head)
{
    const size_t group = c->tiled ? head % c->n_groups : head / (c->n_heads / c->n_groups);
    const size_t n = out_width(c), n_dim = c->n_dim;
    double *states = mem_zalloc(n_dim, sizeof *states);
    for (size_t j = head * c->n_width; j < (head + 1) * c->n_width; j++) {
        memset(states, 0, n_dim * sizeof *states);
        for (size_t row = 0; row < N_ROWS; row++) {
            const float *conv = y + row * n + n_inner(c), *q = conv + group * n_dim;
            const float *k = q + n_qk(c), *v = conv + 2 * n_qk(c);
            const float *decay = conv + conv_width(c) + head * n_dim;
            const float *e = decay + n_decays(c), *f = e + n_decays(c);
            double o = 0, size = 1, held = 0;
            for (size_t i = 0; i < n_dim; i++)
                held += states[i] * (double)e[i];
            for (size_t i = 0; i < n_dim; i++) {
                states[i] = states[i] * (double)decay[i] - held * (double)f[i] +
                            (double)k[i] * (double)v[j];
                o += states[i] * (double)q[i];
                size += fabs(states[i] * (double)q[i]);
            }
            near(c, "value", row, j, y[row * n + j], o, 2e-6 * size);
        }
    }
    free(states);
}

/* The decays of an erasure, which have a bound. */
static void check_erasure(const struct layer_case *c, const struct weights_of *w,
                          const float *in, const float *gates, size_t row)
{
    for (size_t i = 0; i < n_decays(c); i++) {
        const double y = (double)in[i] + (double)w->dt_bias[i];
        const double log = (double)lower_bound * sigmoid(-y * (double)w->a[i]);
        near(c, "decay", row, i, gates[i], exp(log), 5e-6);
    }
}

/* The decays and the step of a head. */
static void check_gates(const struct layer_case *c, const struct weights_of *w, const float *in,
                        const float *gates, size_t row, size_t h)
{
    const size_t each = n_each(c);
    const float *runs = in + (c->run ? h / c->run * c->run * (each + 1) : 0);
    const float *x = c->run ? runs + c->run + h % c->run * each : runs + h;
    const double a = (double)w->a[h];
    double dt = 1;
    for (size_t i = h * each; i < (h + 1) * each; i++) {
        const double y =
            c->decays == FIXED ? 0 : (double)x[i - h * each] + (double)w->dt_bias[i];
        if (c->decays != FIXED) dt = c->decays == EXPONENTIAL ? exp(y) : log1p(exp(y));
        const double decay =
            c->decays == BOUNDED ? exp((double)lower_bound * sigmoid(-y * a)) : exp(dt * a);
        near(c, "decay", row, i, gates[i], decay, 5e-6);
    }
    near(c, "step", row, h, gates[n_decays(c) + h],
         c->run ? sigmoid((double)runs[h % c->run]) : dt, 2e-6);
}

static void check_exact(const struct layer_case *c, const struct weights_of *w, const float *x,
                        const float *y)
{
    const size_t n = out_width(c);
    for (size_t row = 0; row < N_ROWS; row++) {
        const float *conv = y + row * n + n_inner(c), *gates = conv + conv_width(c);
        for (size_t i = 0; i < conv_width(c); i++)
            near(c, "convolution", row, i, conv[i], conv_exact(c, w, x, row, i), 3e-6);
        const float *in = x + row * in_width(c) + conv_width(c);
        const bool apart = c->decays == EACH_VALUE || c->decays == ERASED;
        for (size_t h = 0; !apart && h < c->n_heads; h++)
            check_gates(c, w, in, gates, row, h);
        if (c->decays == ERASED) check_erasure(c, w, in, gates, row);
    }
    for (size_t h = 0; h < c->n_heads; h++) {
        if (c->decays == EACH_VALUE)
            check_each(c, w, y, h);
        else if (c->decays == ERASED)
            check_erase(c, y, h);
        else
            check_head(c, w, y, h);
    }
}

/* ---- the tests ---- */

static void one_spread(const struct layer_case *c, const struct weights_of *w,
                       enum spread spread, XXH3_state_t *hash)
{
    static const uint32_t steps[] = {1, 3, 7, N_ROWS};
    const size_t n_out = N_ROWS * out_width(c);
    float *x = mem_zalloc(N_ROWS * in_width(c), sizeof *x);
    float *want = mem_zalloc(n_out, sizeof *want), *got = mem_zalloc(n_out, sizeof *got);
    random_floats(spread, x, N_ROWS * in_width(c));
    size_t n_bytes;
    float *states = run(machines[0].be, c, w, x, N_ROWS, want, &n_bytes);
    XXH3_64bits_update(hash, want, n_out * sizeof *want);
    XXH3_64bits_update(hash, states, n_bytes);
    if (spread == NORMAL) check_exact(c, w, x, want);
    for (int m = 0; m < N_MACHINES; m++) {
        if (!machines[m].be) continue;
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            char what[96];
            snprintf(what, sizeof what, "%s, steps of %u, %s", c->name, steps[i],
                     backend_name(machines[m].be));
            float *left = run(machines[m].be, c, w, x, steps[i], got, &n_bytes);
            assert_same_bits(got, want, n_out, what);
            assert_same_bits(left, states, n_bytes / sizeof *left, what);
            free(left);
        }
    }
    free(states);
    free(x);
    free(want);
    free(got);
}

static void all_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        random_seed(100 + i);
        struct weights_of w = weights_new(&cases[i]);
        XXH3_state_t *hash = XXH3_createState();
        XXH3_64bits_reset(hash);
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            one_spread(&cases[i], &w, k, hash);
        char name[32];
        snprintf(name, sizeof name, "recur_%s", cases[i].name);
        assert_hash(name, XXH3_64bits_digest(hash));
        XXH3_freeState(hash);
        say_compared(name);
        weights_free(&w);
        machines_close();
        machines_open();
    }
}

/* The states after one step of n rows from row FIRST on, of which n_keep count (0: all). */
enum { FIRST = 9 };

static float *states_after(struct backend *be, const struct layer_case *c,
                           const struct weights_of *w, const float *x, uint32_t n,
                           uint32_t n_keep, size_t *n_bytes, bool *can)
{
    struct trial t;
    struct ref in = trial_begin(&t, be, x, N_ROWS, in_width(c));
    struct ref y = build(&t, c, w, in);
    float *out = mem_zalloc(N_ROWS * y.n, sizeof *out);
    *n_bytes = t.p.state_bytes;
    t.state_in = backend_state_new(be, *n_bytes);
    t.state_out = backend_state_new(be, *n_bytes);
    trial_run(&t, y, 0, FIRST, NULL, out);
    void *first = t.state_out;
    t.state_out = t.state_in;
    t.state_in = first;
    t.n_keep = n_keep;
    trial_run(&t, y, FIRST, n, NULL, out);
    *can = n_keep == 0 || t.has_kept;
    float *states = mem_zalloc(*n_bytes, 1);
    backend_state_read(be, t.state_out, *n_bytes, states);
    backend_state_free(be, t.state_in, *n_bytes);
    backend_state_free(be, t.state_out, *n_bytes);
    free(out);
    return states;
}

/* From the trail of a step the states advance by its first rows as a step of those would. */
static void by_the_trail(void **state)
{
    (void)state;
    static const uint32_t keeps[] = {1, 2, 3, 8, 16, TRAIL_ROWS};
    for (size_t i = 0; i < N_CASES; i++) {
        const struct layer_case *c = &cases[i];
        random_seed(300 + i);
        struct weights_of w = weights_new(c);
        float *x = mem_zalloc(N_ROWS * in_width(c), sizeof *x);
        random_floats(NORMAL, x, N_ROWS * in_width(c));
        for (int m = 0; m < N_MACHINES; m++) {
            for (size_t k = 0; machines[m].be && k < sizeof keeps / sizeof *keeps; k++) {
                size_t n_bytes;
                bool can;
                struct backend *be = machines[m].be;
                float *want = states_after(be, c, &w, x, keeps[k], 0, &n_bytes, &can);
                float *got = states_after(be, c, &w, x, TRAIL_ROWS, keeps[k], &n_bytes, &can);
                assert_true(can);
                assert_same_bits(got, want, n_bytes / sizeof *got, c->name);
                free(want);
                free(got);
            }
        }
        free(x);
        weights_free(&w);
        machines_close();
        machines_open();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cases),
        cmocka_unit_test(by_the_trail),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
