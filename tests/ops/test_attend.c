/* The KV cache and attention: all machines give the reference's bits for every head size,
 * grouping, window, softcap, sink and depth; rows beyond the last one may hold anything. */
#include "ops.h"

#include "backend/kv.h"

struct attention {
    const char *name;
    enum kv_type type;
    uint32_t n_heads, n_kv, window;
    size_t dk, dv;
    float softcap;
    bool sinks;
    float slope_step;
};

static const struct attention cases[] = {
    {"f16_64", KV_F16, 4, 2, 0, 64, 64, 0, false, 0},
    {"f16_128", KV_F16, 2, 2, 0, 128, 128, 0, false, 0},
    {"f16_group8", KV_F16, 8, 1, 0, 32, 32, 0, false, 0},
    {"f16_window", KV_F16, 3, 1, 70, 40, 24, 0, false, 0},
    {"f16_window1", KV_F16, 1, 1, 1, 16, 16, 0, false, 0},
    {"f16_cap_sink", KV_F16, 4, 2, 0, 96, 80, 30, true, 0},
    {"f16_odd", KV_F16, 2, 1, 100, 12, 20, 0, true, 0},
    {"f32_64", KV_F32, 4, 2, 0, 64, 64, 0, false, 0},
    {"f32_window_cap", KV_F32, 4, 4, 33, 48, 256, 50, true, 0},
    {"q8_64", KV_Q8_0, 4, 2, 0, 64, 64, 0, false, 0},
    {"q8_128", KV_Q8_0, 2, 2, 0, 128, 128, 0, false, 0},
    {"q8_group8", KV_Q8_0, 8, 1, 0, 32, 32, 0, false, 0},
    {"q8_window1", KV_Q8_0, 1, 1, 1, 32, 64, 0, false, 0},
    {"q8_window_cap", KV_Q8_0, 3, 1, 70, 96, 256, 50, true, 0},
    {"q8_256", KV_Q8_0, 2, 1, 0, 256, 96, 0, true, 0},
    {"q4_64", KV_Q4_0, 4, 2, 0, 64, 64, 0, false, 0},
    {"q4_128", KV_Q4_0, 2, 2, 0, 128, 128, 0, false, 0},
    {"q4_group8", KV_Q4_0, 8, 1, 0, 32, 32, 0, false, 0},
    {"q4_window1", KV_Q4_0, 1, 1, 1, 32, 64, 0, false, 0},
    {"q4_window_cap", KV_Q4_0, 3, 1, 70, 96, 256, 50, true, 0},
    {"q4_256", KV_Q4_0, 2, 1, 0, 256, 96, 0, true, 0},
    {"f16_80", KV_F16, 2, 2, 0, 80, 80, 0, false, 0},
    {"f16_192_group5", KV_F16, 5, 1, 0, 192, 256, 0, false, 0},
    {"q8_192_group7", KV_Q8_0, 7, 1, 100, 192, 192, 0, true, 0},
    {"q4_192_group6", KV_Q4_0, 6, 1, 0, 192, 192, 0, false, 0},
    {"f16_heads8", KV_F16, 16, 8, 0, 32, 48, 0, false, 0},
    {"f16_heads3_window", KV_F16, 9, 3, 70, 48, 64, 30, true, 0},
    {"f32_heads5", KV_F32, 5, 5, 100, 24, 32, 0, false, 0},
    {"q8_heads8", KV_Q8_0, 8, 8, 0, 64, 64, 0, false, 0},
    {"q8_heads5_window", KV_Q8_0, 10, 5, 70, 96, 128, 0, true, 0},
    {"q4_heads6", KV_Q4_0, 12, 6, 0, 32, 64, 0, false, 0},
    {"q4_heads2_window", KV_Q4_0, 2, 2, 33, 64, 192, 50, false, 0},
    {"q8_512", KV_Q8_0, 2, 1, 0, 512, 512, 0, false, 0},
    {"q4_512", KV_Q4_0, 2, 1, 0, 512, 512, 0, false, 0},
    /* Of one thread AVX-512 and AMX take the fewest rows that they cut a step into. */
    {"q8_group32", KV_Q8_0, 32, 1, 0, 64, 64, 0, false, 0},
    {"f16_256", KV_F16, 4, 2, 0, 256, 256, 0, false, 0},
    {"q8_160_cap_group3", KV_Q8_0, 3, 1, 0, 160, 192, 30, true, 0},
    {"f32_128", KV_F32, 2, 1, 0, 128, 128, 0, false, 0},
    {"f32_256_window", KV_F32, 6, 2, 100, 256, 192, 0, false, 0},
    {"f16_576_group12", KV_F16, 12, 1, 0, 576, 512, 0, false, 0},
    {"f16_chunks", KV_F16, 3, 1, WINDOW_CHUNKS | 70, 40, 24, 0, false, 0},
    {"f32_chunks_cap", KV_F32, 4, 4, WINDOW_CHUNKS | 64, 48, 64, 50, true, 0},
    {"q8_chunks", KV_Q8_0, 10, 5, WINDOW_CHUNKS | 70, 96, 128, 0, true, 0},
    {"q4_chunks", KV_Q4_0, 2, 2, WINDOW_CHUNKS | 33, 64, 192, 0, false, 0},
    {"f16_slopes", KV_F16, 4, 4, 0, 64, 64, 0, false, 2},
    {"f16_slopes_group12", KV_F16, 12, 1, 0, 32, 48, 0, true, 1},
    {"f16_slopes_odd", KV_F16, 6, 2, 70, 40, 20, 0, false, 2},
    {"f32_slopes_cap", KV_F32, 5, 5, 0, 48, 64, 50, true, 0.0625f},
    {"q8_slopes", KV_Q8_0, 8, 8, 0, 64, 64, 0, false, 1},
    {"q8_slopes_group6", KV_Q8_0, 6, 1, 100, 128, 128, 0, true, 0.5f},
    {"q4_slopes", KV_Q4_0, 4, 2, WINDOW_CHUNKS | 70, 96, 64, 30, false, 2},
    {"q4_slopes_group3", KV_Q4_0, 3, 1, 0, 64, 64, 0, false, 4},
};
enum {
    N_CASES = sizeof cases / sizeof *cases,
    N_POS = 200,
    N_PAGES = 4,
    DEEP_POS = 64 * 24 + 9,
    MOST_PAGES = 25,
    MOST_DIM = 576,
    SEES_PAGES = 70, /* rows per step: all rows of the second and third see whole pages */
};

static size_t width_of(const struct attention *c)
{
    return c->n_heads * c->dk + c->n_kv * (c->dk + c->dv);
}

static void pages_new(struct backend *be, void **pages, size_t n_pages, size_t bytes,
                      size_t unit)
{
    void *rubbish = malloc(bytes);
    memset(rubbish, 0xff, bytes); /* NaN in f16 and in f32 */
    for (size_t i = 0; i < n_pages; i++) {
        pages[i] = backend_page_new(be, bytes, unit);
        assert_non_null(pages[i]);
        backend_page_write(be, pages[i], bytes, rubbish);
    }
    free(rubbish);
}

/* After retries and on branches not all of them lie in their order: of the many some still do,
 * of four none. */
static void out_of_order(void **pages, size_t n_pages)
{
    if (n_pages < 4) return;
    void *second = pages[1];
    pages[1] = pages[n_pages - 2];
    pages[n_pages - 2] = second;
}

/* The hash of their bytes. */
static uint64_t pages_free(struct backend *be, void **pages, size_t n_pages, size_t bytes)
{
    void *host = malloc(bytes);
    uint64_t hash = 0;
    for (size_t i = 0; i < n_pages; i++) {
        backend_page_read(be, pages[i], bytes, host);
        backend_page_free(be, pages[i], bytes);
        hash = XXH3_64bits_withSeed(host, bytes, hash);
    }
    free(host);
    return hash;
}

/* A program that stores the keys and values of its rows; in: its input. */
static void store_begin(struct trial *t, struct backend *be, const struct attention *c,
                        const float *x, uint32_t n_pos, struct ref *in)
{
    *in = trial_begin(t, be, x, n_pos, width_of(c));
    const size_t nq = c->n_heads * c->dk, nk = c->n_kv * c->dk, nv = c->n_kv * c->dv;
    t->kv = (struct kv_layer){c->type, c->n_kv, c->dk, c->dv, 0, PAGE_FULL, 0};
    t->p.n_kv = 1;
    t->p.page_bytes[PAGE_FULL] = kv_layer_bytes(&t->kv);
    t->p.page_unit[PAGE_FULL] = kv_head_bytes(&t->kv);
    trial_op(t, OP_KV_STORE)->kv_store =
        (struct op_kv_store){ref_part(*in, nq, nk), ref_part(*in, nq + nk, nv), 0};
}

static void store_rows(struct backend *be, const struct attention *c, const float *x,
                       uint32_t n_pos, void *const *pages)
{
    struct trial t;
    struct ref in;
    store_begin(&t, be, c, x, n_pos, &in);
    float *out = mem_zalloc(n_pos * in.n, sizeof *out);
    trial_run(&t, in, 0, n_pos, pages, out);
    free(out);
}

/* n_pos rows of x, the first n_stored of them only stored, the others in batches of at most
 * n_batch; out [n_pos][n_heads * dv]. Returns the hash of the pages, of which the last is full
 * of 0xff beyond the last row. */
static uint64_t attend_rows(struct backend *be, const struct attention *c, const float *x,
                            uint32_t n_pos, const float *sinks, uint32_t n_stored,
                            uint32_t n_batch, float *out)
{
    struct trial t;
    struct err err;
    struct ref in;
    store_begin(&t, be, c, x, n_pos, &in);
    struct ref y = trial_buffer(&t, ROW_F32, c->n_heads * c->dv);
    struct weight *w = c->sinks ? backend_vector(be, sinks, c->n_heads, &err) : NULL;
    trial_op(&t, OP_ATTEND)->attend = (struct op_attend){ref_part(in, 0, c->n_heads * c->dk),
                                                         y,
                                                         0,
                                                         c->n_heads,
                                                         1 / sqrtf((float)c->dk),
                                                         c->softcap,
                                                         c->window,
                                                         w,
                                                         c->slope_step};
    void *pages[MOST_PAGES];
    const size_t n_pages = pages_for(n_pos);
    assert_true(n_pages <= MOST_PAGES);
    pages_new(be, pages, n_pages, t.p.page_bytes[PAGE_FULL], t.p.page_unit[PAGE_FULL]);
    out_of_order(pages, n_pages);
    if (n_stored > 0) store_rows(be, c, x, n_stored, pages);
    for (uint32_t first = n_stored, n; first < n_pos; first += n) {
        n = n_pos - first < n_batch ? n_pos - first : n_batch;
        trial_run(&t, y, first, n, pages, out + first * y.n);
    }
    return pages_free(be, pages, n_pages, t.p.page_bytes[PAGE_FULL]);
}

/* N_POS rows in batches of at most n_batch. */
static uint64_t attend_all(struct backend *be, const struct attention *c, const float *x,
                           const float *sinks, uint32_t n_batch, float *out)
{
    return attend_rows(be, c, x, N_POS, sinks, 0, n_batch, out);
}

/* Rounds to n_bits of significand, in double. */
static double round_to(double v, int n_bits)
{
    if (v == 0) return 0;
    double unit = ldexp(1, ilogb(v) - n_bits + 1);
    return rint(v / unit) * unit;
}

/* Steps of sums and differences of dims that lie 1, 2, 4 .. apart; the largest step is that of
 * the power of two that divides dim. Turning twice gives each dim as many times over as there
 * are in a run; returns that. */
static double turn(double *x, size_t dim)
{
    size_t h = 1;
    for (; dim % (2 * h) == 0; h *= 2) {
        for (size_t i = 0; i < dim; i++) {
            if (i / h % 2 == 1) continue;
            const double a = x[i], b = x[i + h];
            x[i] = a + b;
            x[i + h] = a - b;
        }
    }
    return (double)h;
}

static size_t scale_dims(enum kv_type type, size_t dim)
{
    return type == KV_Q8_0 ? dim : 32;
}

/* What is read back of x[0..dim) stored as a type, in double; sizes: the scale of each dim. */
static void stored(enum kv_type type, bool is_key, const float *x, size_t dim, double *out,
                   double *sizes)
{
    for (size_t i = 0; i < dim; i++) {
        out[i] = (double)x[i];
        if (type == KV_F16) out[i] = fabsf(x[i]) < 0x1p-14f ? 0 : round_to((double)x[i], 11);
    }
    if (!kv_type_codes(type)) return;
    if (is_key) turn(out, dim);
    const size_t n = scale_dims(type, dim);
    for (size_t b = 0; b < dim; b += n) {
        double extreme = 0;
        for (size_t i = b; i < b + n; i++)
            if (fabs(out[i]) > fabs(extreme)) extreme = out[i];
        double d = round_to(type == KV_Q8_0 ? fabs(extreme) / 127 : extreme / -8, 8);
        for (size_t i = b; i < b + n; i++) {
            const double code = rint(out[i] / d);
            sizes[i] = fabs(d);
            out[i] = d * (type == KV_Q8_0 ? code : fmin(code, 7));
        }
    }
}

/* The query as it is multiplied: with f16 it has 13 bits, and types of codes turn and quantise
 * it, by 1/127 of the largest magnitude of the dims of a scale. */
static void asked(enum kv_type type, const float *q, size_t dim, double *out)
{
    for (size_t i = 0; i < dim; i++)
        out[i] = type == KV_F16 ? round_to((double)q[i], 13) : (double)q[i];
    if (!kv_type_codes(type)) return;
    const double run = turn(out, dim);
    const size_t n = scale_dims(type, dim);
    for (size_t b = 0; b < dim; b += n) {
        double m = 0;
        for (size_t i = b; i < b + n; i++)
            m = fmax(m, fabs(out[i]));
        for (size_t i = b; i < b + n; i++)
            out[i] = m / 127 * rint(out[i] * 127 / m) / run;
    }
}

/* What integer weights cost the sums of a page: each weight is off by half a step at most,
 * beside what its 2^x is off, and a step is 1/255 or 1/127 of the largest p times largest scale
 * of the key. */
struct weights_error {
    double largest;         /* of the page so far: p times scale */
    double codes[MOST_DIM]; /* likewise: |codes|, by dim */
    double most[MOST_DIM];  /* of all pages */
};

static void weights_error_fold(struct weights_error *w, enum kv_type type, size_t dim)
{
    for (size_t e = 0; e < dim; e++) {
        w->most[e] += w->largest / (type == KV_Q8_0 ? 255 : 127) / 2 * w->codes[e];
        w->codes[e] = 0;
    }
    w->largest = 0;
}

/* How much less a score of a head is for each position that its key lies before the row. */
static double slope_of(const struct attention *c, size_t h)
{
    size_t n = 1;
    while (2 * n <= c->n_heads)
        n *= 2;
    const double steps = h < n ? (double)h + 1 : (double)(h - n) + 0.5;
    return c->slope_step == 0 ? 0 : pow(2, -(double)c->slope_step * steps);
}

/* Against softmax attention in double on the numbers that are stored. Probabilities have 13
 * bits with f16: of a weighted sum and of the sum of weights that is at most 2^-14 of the
 * magnitudes each. The 2^x of weights is 0.2 % off at most, alike in the sum of values and in
 * the sum of weights, and of many keys a tenth of it is left. A code of a query or key at the
 * border of two may be the other one in f32: the tolerance of types of codes leaves room for
 * one. */
static void check_accuracy(const struct attention *c, const float *x, const float *sinks,
                           const float *y)
{
    size_t width = width_of(c), nq = c->n_heads * c->dk, nk = c->n_kv * c->dk;
    const double tolerance = kv_type_codes(c->type) ? 1e-3 : 1e-5;
    const double relative = c->type == KV_F16 ? 0x1p-13 : kv_type_codes(c->type) ? 2.1e-4 : 0;
    for (size_t pos = 0; pos < N_POS; pos += 7) {
        for (size_t h = 0; h < c->n_heads; h++) {
            size_t g = h / (c->n_heads / c->n_kv);
            const size_t len = window_len(c->window), back = pos + 1 > len ? pos + 1 - len : 0;
            const size_t first = c->window == 0 ? 0 : c->window > len ? pos - pos % len : back;
            double s[N_POS], m = c->sinks ? (double)sinks[h] : -1e300, l, out[MOST_DIM] = {0};
            double q[MOST_DIM], kv[MOST_DIM], size[MOST_DIM] = {0}, scales[MOST_DIM] = {0};
            struct weights_error weights = {0, {0}, {0}};
            asked(c->type, x + pos * width + h * c->dk, c->dk, q);
            for (size_t j = first; j <= pos; j++) {
                s[j] = 0;
                stored(c->type, true, x + j * width + nq + g * c->dk, c->dk, kv, scales);
                for (size_t d = 0; d < c->dk; d++)
                    s[j] += q[d] * kv[d];
                s[j] /= sqrt((double)c->dk);
                if (c->softcap != 0) s[j] = c->softcap * tanh(s[j] / c->softcap);
                s[j] -= slope_of(c, h) * (double)(pos - j);
                m = fmax(m, s[j]);
            }
            l = c->sinks ? exp((double)sinks[h] - m) : 0;
            for (size_t j = first; j <= pos; j++) {
                double p = exp(s[j] - m);
                l += p;
                stored(c->type, false, x + j * width + nq + nk + g * c->dv, c->dv, kv, scales);
                for (size_t e = 0; e < c->dv; e++) {
                    out[e] += p * kv[e], size[e] += p * fabs(kv[e]);
                    if (!kv_type_codes(c->type)) continue;
                    weights.largest = fmax(weights.largest, p * scales[e]);
                    weights.codes[e] += fabs(kv[e] / scales[e]);
                }
                if (j % 64 == 63 || j == pos) weights_error_fold(&weights, c->type, c->dv);
            }
            for (size_t e = 0; e < c->dv; e++) {
                double got = (double)y[(pos * c->n_heads + h) * c->dv + e];
                double most = tolerance + (relative * size[e] + weights.most[e]) / l;
                if (!(fabs(got - out[e] / l) < most))
                    fail_msg("%s: row %zu head %zu value %zu: %g, in double %g", c->name, pos,
                             h, e, got, out[e] / l);
            }
        }
    }
}

static void one_case(const struct attention *c, uint64_t seed)
{
    size_t n_x = N_POS * width_of(c), n_y = N_POS * c->n_heads * c->dv;
    float *x = mem_zalloc(n_x, sizeof *x), sinks[16];
    float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
    random_seed(seed);
    random_floats(NORMAL, x, n_x);
    random_floats(NORMAL, sinks, 16);
    uint64_t pages = attend_all(machines[0].be, c, x, sinks, N_POS, want);
    check_accuracy(c, x, sinks, want);
    char what[96];
    snprintf(what, sizeof what, "attend_%s", c->name);
    assert_hash(what, XXH3_64bits(want, n_y * sizeof *want));
    static const uint32_t batches[] = {1, 3, 17, 64, N_POS};
    for (int m = 0; m < N_MACHINES; m++) {
        if (machine_skips(&machines[m], (size_t)(c - cases))) continue;
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            if (m == 0 && batches[b] != 3) continue;
            snprintf(what, sizeof what, "%s in batches of %u, %s", c->name, batches[b],
                     backend_name(machines[m].be));
            uint64_t same = attend_all(machines[m].be, c, x, sinks, batches[b], got);
            assert_same_bits(got, want, n_y, what);
            if (same != pages) fail_msg("%s: the pages differ from the reference's", what);
        }
    }
    free(x);
    free(want);
    free(got);
}

static void all_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        one_case(&cases[i], 77 + i);
        say_compared(cases[i].name);
        machines_close();
        machines_open();
    }
}

/* Values of any size: scores overflow, probabilities vanish, f16 is clamped, blocks break. Same
 * bits. */
static void extremes(void **state)
{
    (void)state;
    static const char *const some[] = {"f16_64",
                                       "f32_64",
                                       "f16_cap_sink",
                                       "f32_window_cap",
                                       "q8_64",
                                       "q8_window_cap",
                                       "q4_64",
                                       "q4_window_cap",
                                       "q4_256",
                                       "q8_128",
                                       "q8_160_cap_group3",
                                       "f16_heads3_window",
                                       "f32_256_window"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const struct attention *c = cases;
        while (strcmp(c->name, some[i]) != 0)
            c++;
        for (enum spread k = OUTLIERS; k < N_SPREADS; k++) {
            size_t n_x = N_POS * width_of(c), n_y = N_POS * c->n_heads * c->dv;
            float *x = mem_zalloc(n_x, sizeof *x), sinks[16] = {0};
            float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
            random_seed(k);
            random_floats(k, x, n_x);
            if (k == HUGE_VALUES) /* what only a broken model computes, in later rows */
                for (size_t at = n_x / 2; at < n_x; at += 997)
                    x[at] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : 0x1p101f;
            uint64_t pages = attend_all(machines[0].be, c, x, sinks, N_POS, want);
            for (int m = 1; m < N_MACHINES; m++) {
                if (machine_skips(&machines[m], (size_t)(c - cases))) continue;
                const uint32_t batches[] = {5 + (uint32_t)m, SEES_PAGES};
                for (size_t b = 0; b < 2; b++) {
                    assert_int_equal(attend_all(machines[m].be, c, x, sinks, batches[b], got),
                                     pages);
                    assert_same_bits(got, want, n_y, c->name);
                }
            }
            free(x);
            free(want);
            free(got);
        }
    }
}

/* All machines on x, of a case. */
static void same_everywhere(const struct attention *c, const float *x)
{
    const size_t n_y = N_POS * c->n_heads * c->dv;
    float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
    const uint64_t pages = attend_all(machines[0].be, c, x, NULL, N_POS, want);
    for (int m = 1; m < N_MACHINES; m++) {
        if (machine_skips(&machines[m], (size_t)(c - cases))) continue;
        static const uint32_t batches[] = {1, SEES_PAGES, N_POS};
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            assert_int_equal(attend_all(machines[m].be, c, x, NULL, batches[b], got), pages);
            assert_same_bits(got, want, n_y, c->name);
        }
    }
    free(want);
    free(got);
}

/* The largest sums that codes and weights can have: one dim of a key and a query turns into as
 * many equal ones, all keys have the same score, and all values are the largest code. */
static void largest_sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        if (!kv_type_codes(c->type) || c->sinks) continue;
        const size_t width = width_of(c), n_turned = (c->n_heads + c->n_kv) * c->dk;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (size_t at = 0; at < N_POS * width; at++) {
                const size_t col = at % width;
                x[at] = col >= n_turned                            ? (float)sign
                        : col % c->dk % kv_turned_dims(c->dk) == 0 ? (float)sign
                                                                   : 0.0f;
            }
            same_everywhere(c, x);
        }
        free(x);
    }
}

/* A query and a key whose scales make an infinity, and whose codes are at right angles: what a
 * kernel multiplies, and when, decides whether their score is a NaN. */
static void infinite_scales(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        if (c->type != KV_Q8_0 || c->sinks) continue;
        const size_t width = width_of(c), n_q = c->n_heads * c->dk, n_k = c->n_kv * c->dk;
        const double run = (double)kv_turned_dims(c->dk);
        /* The product of the two scales, each 1/127 of the largest turned value, is 2^132 or
         * so. */
        const float large = (float)(0x1p66 * 127 * sqrt(run * sqrt((double)c->dk)));
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t at = 0; at < N_POS * width; at++) {
            const size_t col = at % width, dim = col % c->dk;
            if (col < n_q + n_k) x[at] = dim == (col < n_q ? 0 : 1) ? large : 0;
        }
        same_everywhere(c, x);
        free(x);
    }
}

/* Values so small that pages of them fall below 2^-50 when they are folded. */
static void faint_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t width = width_of(c), n_turned = (c->n_heads + c->n_kv) * c->dk;
        const float factor = kv_type_codes(c->type) ? 0x1p-36f : 0x1p-49f;
        if (c->sinks || c->type == KV_F16) continue; /* f16 has none below 2^-14 */
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t at = 0; at < N_POS * width; at++)
            if (at % width >= n_turned) x[at] *= factor;
        same_everywhere(c, x);
        free(x);
    }
}

/* Queries and keys of a row that have their first dim alone: for a sign of 1 the scores of its
 * queries, in powers of two, are what the keys have. */
static void score_row(const struct attention *c, float *row, float sign, float score)
{
    for (size_t col = 0; col < (c->n_heads + c->n_kv) * c->dk; col++) {
        row[col] = 0;
        if (col % c->dk != 0) continue;
        row[col] = col < c->n_heads * c->dk ? sign * sqrtf((float)c->dk) : score * (float)M_LN2;
    }
}

/* The second and third page scale the output of the first below 2^-50, and their own values of
 * odd dims are 0; the last page joins what is left without scaling it, and is some 2^16 times
 * as large. So what is left is seen in the last bits, and keep would lose it. The last key has
 * the largest score, so that one row, beside others that scale nothing, scales again. */
static void faint_outputs(void **state)
{
    (void)state;
    static const float scores[] = {0, 34, 68, 19}; /* of a page, in powers of two */
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t first_v = (c->n_heads + c->n_kv) * c->dk, width = width_of(c);
        if (c->sinks || c->window || c->softcap != 0) continue;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t pos = 0; pos < N_POS; pos++) {
            const size_t page = pos / PAGE_LEN;
            score_row(c, x + pos * width, 1, pos == N_POS - 1 ? 70 : scores[page]);
            for (size_t col = first_v; col < width; col++)
                x[pos * width + col] *= (page == 1 || page == 2) && col % 2 != 0 ? 0 : 0x1p10f;
        }
        same_everywhere(c, x);
        free(x);
    }
}

/* The second page scales the output of the first below 2^-50 and adds nothing, the third scales
 * it again: what is left would be seen in the last bits if keep did not take it. */
static void kept_outputs(void **state)
{
    (void)state;
    static const float factors[] = {0x1p-49f, 0, 0x1p-41f, 0x1p-41f};
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t first_v = (c->n_heads + c->n_kv) * c->dk, width = width_of(c);
        if (c->type != KV_F32 || c->softcap != 0) continue;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t pos = 0; pos < N_POS; pos++) {
            const size_t page = pos / PAGE_LEN;
            score_row(c, x + pos * width, 1, 6 * (float)page);
            for (size_t col = first_v; col < width; col++)
                x[pos * width + col] *= factors[page];
        }
        same_everywhere(c, x);
        free(x);
    }
}

/* 1 or -1, of eight rows each: groups of queries of both signs lie beside each other in each
 * order where the last step, from row 140 on, takes two at a time. */
static float sign_of_rows(size_t pos)
{
    static const float signs[] = {1, -1, -1, 1, 1, 1, -1, -1};
    return signs[(pos + 4) / 8 % (sizeof signs / sizeof *signs)];
}

/* Some rows scale what they have at the second page, and others only add. */
static void some_scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t width = width_of(c);
        if (c->sinks) continue;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t pos = 0; pos < N_POS; pos++)
            score_row(c, x + pos * width, sign_of_rows(pos), (float)(pos / PAGE_LEN * 5));
        same_everywhere(c, x);
        free(x);
    }
}

/* Every other key has a value of zero and the others such large ones that its weight, which a
 * large inverse scale makes much of, is below 2^-50, and so 0, in some rows and not in others.
 */
static void vanished_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t first_v = (c->n_heads + c->n_kv) * c->dk, width = width_of(c);
        if (!kv_type_codes(c->type) || c->sinks || c->softcap != 0) continue;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        random_seed(i);
        random_floats(NORMAL, x, N_POS * width);
        for (size_t pos = 0; pos < N_POS; pos++) {
            const bool is_zero = pos % 2 == 0;
            score_row(c, x + pos * width, sign_of_rows(pos), is_zero ? -12 : 0);
            for (size_t col = first_v; col < width; col++)
                x[pos * width + col] *= is_zero ? 0 : 0x1p27f;
        }
        same_everywhere(c, x);
        free(x);
    }
}

/* The share of weights that odd keys have where all products are 0. */
static double odd_share(const struct attention *c, size_t head, size_t pos)
{
    double odd = 0, all = 0;
    for (size_t j = 0; j <= pos; j++) {
        const double w = exp(-slope_of(c, head) * (double)(pos - j));
        all += w;
        odd += j % 2 ? w : 0;
    }
    return odd / all;
}

/* Values of zero, whose scale is none: every other key. What is left of the others' ones is how
 * many they are, or how near. */
static void zero_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        const struct attention *c = &cases[i];
        const size_t width = width_of(c), n_turned = (c->n_heads + c->n_kv) * c->dk;
        if (!kv_type_codes(c->type) || c->sinks || c->window) continue;
        float *x = mem_zalloc(N_POS * width, sizeof *x);
        for (size_t at = 0; at < N_POS * width; at++)
            x[at] = at % width >= n_turned ? (float)(at / width % 2) : 0.0f;
        same_everywhere(c, x);
        const size_t n_out = c->n_heads * c->dv;
        float *y = mem_zalloc(N_POS * n_out, sizeof *y);
        attend_all(machines[0].be, c, x, NULL, N_POS, y);
        for (size_t at = 0; at < N_POS * c->n_heads; at++) {
            const double want = odd_share(c, at % c->n_heads, at / c->n_heads);
            for (size_t e = 0; e < c->dv; e++)
                assert_true(fabs((double)y[at * c->dv + e] - want) < 0.005);
        }
        free(y);
        free(x);
    }
}

/* One or two KV heads for several threads, which cut the pages, or the query heads of each, or
 * both. */
static void deep(void **state)
{
    (void)state;
    static const struct attention some[] = {
        {"f16_deep", KV_F16, 4, 1, 0, 128, 128, 0, false, 0},
        {"f16_deep_window", KV_F16, 8, 2, 1200, 128, 256, 30, true, 0},
        {"f32_deep", KV_F32, 2, 1, 0, 64, 128, 0, false, 0},
        {"q8_deep", KV_Q8_0, 4, 1, 0, 256, 256, 0, true, 0},
        {"q4_deep", KV_Q4_0, 8, 1, 0, 512, 512, 0, false, 0},
        {"f16_deep_heads20", KV_F16, 20, 1, 0, 80, 64, 0, false, 0},
        {"f16_deep_heads24", KV_F16, 24, 2, 0, 64, 64, 0, true, 0},
        {"q8_deep_heads9", KV_Q8_0, 9, 1, 1200, 64, 64, 0, true, 0},
    };
    enum { N_STORED = DEEP_POS - 20 };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const struct attention *c = &some[i];
        const size_t n_row = c->n_heads * c->dv;
        float *x = mem_zalloc(DEEP_POS * width_of(c), sizeof *x), sinks[24];
        float *want = mem_zalloc(DEEP_POS * n_row, sizeof *want);
        float *got = mem_zalloc(DEEP_POS * n_row, sizeof *got);
        random_seed(i);
        random_floats(NORMAL, x, DEEP_POS * width_of(c));
        random_floats(NORMAL, sinks, 24);
        const uint64_t pages =
            attend_rows(machines[0].be, c, x, DEEP_POS, sinks, N_STORED, DEEP_POS, want);
        for (int m = 1; m < N_MACHINES; m++) {
            if (!machines[m].be || machines[m].n_threads == 0) continue;
            for (uint32_t n_batch = 1; n_batch <= 2; n_batch++) {
                assert_int_equal(
                    attend_rows(machines[m].be, c, x, DEEP_POS, sinks, N_STORED, n_batch, got),
                    pages);
                assert_same_bits(got + N_STORED * n_row, want + N_STORED * n_row,
                                 (DEEP_POS - N_STORED) * n_row, c->name);
            }
        }
        free(x);
        free(want);
        free(got);
        machines_close();
        machines_open();
    }
}

static const struct attention long_case = {"long", KV_F16, 64, 1, 0, 4, 32, 0, false, 0};

/* Bytes and descriptor sets that a device takes for the first step of a program with so many
 * scales behind its attention. */
static struct vulkan_counters planned(struct backend *be, void *const *pages, const float *x,
                                      size_t n_scales)
{
    enum { MAX_ROWS = 512, N_HEADS = 64, DIM_V = 32 };
    const struct attention *c = &long_case;
    struct trial t;
    struct ref in;
    struct err err;
    const int32_t token = 0;
    float logits[N_HEADS * DIM_V];
    store_begin(&t, be, c, x, 1, &in);
    const struct ref out = trial_buffer(&t, ROW_F32, c->n_heads * c->dv);
    struct op *ops = mem_zalloc(n_scales + 5, sizeof *ops);
    memcpy(ops, t.ops, t.p.n_ops * sizeof *ops);
    ops[t.p.n_ops++] = (struct op){
        .kind = OP_ATTEND,
        .attend = {.q = ref_part(in, 0, c->n_heads * c->dk), .out = out, .n_heads = N_HEADS}};
    for (size_t i = 0; i < n_scales; i++)
        ops[t.p.n_ops++] = (struct op){.kind = OP_SCALE, .scale = {out, 1}};
    ops[t.p.n_ops++] = (struct op){.kind = OP_HEAD_ROWS};
    ops[t.p.n_ops++] = (struct op){.kind = OP_LOGITS, .logits = {out, 1, 0}};
    t.p.ops = ops;
    t.p.buffers = t.buffers;
    t.p.kv = &t.kv;
    t.p.n_vocab = out.n;
    struct exec *exec = exec_new(be, &t.p, MAX_ROWS, &err);
    if (!exec) fail_msg("%s", err.msg);
    const struct vulkan_counters before = *vulkan_backend_counters(be);
    const struct step step = {
        .n_rows = 1, .tokens = &token, .pages = {pages}, .n_logits = 1, .logits = logits};
    if (!exec_run(exec, &step, &err)) fail_msg("%s", err.msg);
    exec_free(exec);
    free(ops);
    const struct vulkan_counters *after = vulkan_backend_counters(be);
    return (struct vulkan_counters){.allocated_bytes =
                                        after->allocated_bytes - before.allocated_bytes,
                                    .sets = after->sets - before.sets};
}

/* With a long context a device attends for few rows at once, in hundreds of dispatches. Other
 * ops need no room for as many, and those of different rows bind the same and give the same
 * bits. */
static void many_row_blocks(void **state)
{
    (void)state;
    enum { N = 8000 };
    struct backend *be = machines[N_MACHINES - 1].be;
    static void *pages[N];
    const struct attention *c = &long_case;
    const size_t n_y = N_POS * c->n_heads * c->dv;
    if (!be) skip();
    float *x = mem_zalloc(N_POS * width_of(c), sizeof *x);
    float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
    random_seed(8000);
    random_floats(NORMAL, x, N_POS * width_of(c));
    const struct kv_layer kv = {KV_F16, 1, 4, 32, 0, PAGE_FULL, 0};
    for (size_t i = 0; i < N; i++)
        assert_non_null(pages[i] =
                            backend_page_new(be, kv_layer_bytes(&kv), kv_head_bytes(&kv)));
    const struct vulkan_counters few = planned(be, pages, x, 1);
    const struct vulkan_counters many = planned(be, pages, x, 200);
    const size_t more = (size_t)(many.allocated_bytes - few.allocated_bytes);
    if (more > 1 << 20) fail_msg("199 scales take %zu KiB", more >> 10);
    assert_in_range(few.sets, 1, 100);
    const uint64_t hash = attend_all(machines[0].be, c, x, NULL, N_POS, want);
    assert_int_equal(attend_all(be, c, x, NULL, N_POS, got), hash);
    assert_same_bits(got, want, n_y, c->name);
    for (size_t i = 0; i < N; i++)
        backend_page_free(be, pages[i], kv_layer_bytes(&kv));
    free(x);
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases),
                                       cmocka_unit_test(extremes),
                                       cmocka_unit_test(largest_sums),
                                       cmocka_unit_test(infinite_scales),
                                       cmocka_unit_test(faint_values),
                                       cmocka_unit_test(faint_outputs),
                                       cmocka_unit_test(kept_outputs),
                                       cmocka_unit_test(some_scale),
                                       cmocka_unit_test(vanished_weights),
                                       cmocka_unit_test(zero_values),
                                       cmocka_unit_test(deep),
                                       cmocka_unit_test(many_row_blocks)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
