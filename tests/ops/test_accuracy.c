/* The accuracy that hearth-numerics(7) states: the elementary functions of numeric.h against
 * the C library in double, and A8, norms, attention and its codes against the same in double.
 * Every figure is printed and must not exceed the one beside it here, which must stand in the
 * manual. Functions are tried on every 1021st of all floats, or with HEARTH_SOAK=20 on every
 * 51st. */
#include "../soak.h"
#include "ops.h"

#include "backend/kv.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/half.h"
#include "base/numeric_c.h"
#include "cpu/ref.h"

static uint32_t stride(void)
{
    return (1021 / soak()) | 1;
}

static struct buf manual_text;

static void assert_in_manual(const char *line)
{
    struct err err;
    if (manual_text.len == 0 &&
        !file_read("man/hearth-numerics.7", 1 << 20, &manual_text, &err))
        fail_msg("%s", err.msg);
    if (!strstr(buf_str(&manual_text), line))
        fail_msg("hearth-numerics(7) does not say '%s'", line);
}

static void state(const char *what, double figure, double manual, const char *unit)
{
    char line[96];
    snprintf(line, sizeof line, "\n%s: %.3g %s\n", what, manual, unit);
    assert_in_manual(line);
    print_message("# %-28s %.3g %s (manual: %.3g)\n", what, figure, unit, manual);
    if (!(figure <= manual)) fail_msg("%s: %g %s, stated is %g", what, figure, unit, manual);
}

/* ---- elementary functions ---- */

struct function {
    const char *name;
    float (*f)(float x);
    double (*exact)(double x);
    double lo, hi; /* where it is compared */
    enum error { ABSOLUTE, RELATIVE, IN_ULP } error;
    double manual;
};

static float f_exp(float x)
{
    return num_exp(x);
}
static float f_exp2(float x)
{
    return num_exp2_below(x);
}
static float f_exp2_weight(float x)
{
    return num_exp2_weight(x);
}
static float f_weight_log2(float x)
{
    return num_weight_log2(x);
}
static float f_weight_inverse(float x)
{
    return num_weight_inverse(x);
}
static float f_log(float x)
{
    return num_log(x);
}
static float f_rcp(float x)
{
    return num_rcp(x);
}
static float f_rsqrt(float x)
{
    return num_rsqrt(x);
}
static float f_sigmoid(float x)
{
    return num_sigmoid(x);
}
static float f_silu(float x)
{
    return num_silu(x);
}
static float f_gelu(float x)
{
    return num_gelu(x);
}
static float f_tanh(float x)
{
    return num_tanh(x);
}
static float f_softplus(float x)
{
    return num_softplus(x);
}
static double rcp(double x)
{
    return 1 / x;
}
static double rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
}
static double exp2_weight(double x)
{
    return 255 * exp2(x);
}
static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static const struct function functions[] = {
    {"exp", f_exp, exp, -34.6499, 88.7228, IN_ULP, 1.0},
    {"exp2", f_exp2, exp2, -50, 0, IN_ULP, 2.2},
    {"exp2 of weights", f_exp2_weight, exp2_weight, -50, 0, RELATIVE, 0.002},
    {"log2 of weights", f_weight_log2, log2, 0x1p-50, 0x1p50, ABSOLUTE, 1.7e-5},
    {"reciprocal of weights", f_weight_inverse, rcp, 0x1p-50, 0x1p50, IN_ULP, 115},
    {"log", f_log, log, 0x1p-126, 0x1p127, IN_ULP, 0.9},
    {"reciprocal", f_rcp, rcp, 0x1p-100, 0x1p100, IN_ULP, 1.3},
    {"reciprocal square root", f_rsqrt, rsqrt, 0x1p-100, 0x1p127, IN_ULP, 1.3},
    {"sigmoid", f_sigmoid, sigmoid, -34.6, 0x1p100, IN_ULP, 3.6},
    {"silu", f_silu, silu, -34.6, 0x1p100, IN_ULP, 4.2},
    {"gelu (tanh form)", f_gelu, gelu, -0x1p100, 10, ABSOLUTE, 5.5e-7},
    {"tanh", f_tanh, tanh, -0x1p100, 0x1p100, IN_ULP, 1.7},
    {"softplus", f_softplus, softplus, -34.6, 0x1p100, ABSOLUTE, 6e-7},
};

static double ulp(double x)
{
    return ldexp(1, (int)fmax(ilogb(x), -126) - 23);
}

static double worst_error(const struct function *f)
{
    double worst = 0;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += stride()) {
        float x = num_of_bits((uint32_t)bits);
        if (!((double)x >= f->lo && (double)x <= f->hi)) continue;
        double exact = f->exact((double)x), error = fabs((double)f->f(x) - exact);
        /* What is below 2^-50 is stored as 0. */
        if (fabs(exact) < 0x1.001p-50) continue;
        if (f->error == IN_ULP) error = exact == 0 ? error * 0x1p149 : error / ulp(exact);
        if (f->error == RELATIVE) error /= fabs(exact);
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static void elementary(void **unused)
{
    static const char *const units[] = {"absolute", "relative", "ulp"};
    (void)unused;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        state(functions[i].name, worst_error(&functions[i]), functions[i].manual,
              units[functions[i].error]);
}

/* 255 for the largest score of a page and never more, 0 only below -50, NaN for NaN. */
static void weights_of_scores(void **unused)
{
    (void)unused;
    float before = 0;
    for (int n = 0; n <= 50 << 12; n++) {
        const float w = num_exp2_weight((float)n * 0x1p-12f - 50);
        assert_true(w > 0 && w >= before && w <= 255);
        before = w;
    }
    assert_true(before == 255 && num_exp2_weight(-0.0f) == 255);
    assert_int_equal(num_bits(num_exp2_weight(nextafterf(-50, -INFINITY))), 0);
    assert_int_equal(num_bits(num_exp2_weight(-INFINITY)), 0);
    assert_int_equal(num_bits(num_exp2_weight(NAN)), NUM_NAN);
}

/* binary16 both ways, every value. */
static void halves(void **unused)
{
    (void)unused;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = num_f16_to_f32(h);
        if ((h & 0x7fff) > 0x7c00) {
            assert_true(x != x);
            continue;
        }
        assert_int_equal(num_bits(x), num_bits(half_f16_to_f32((uint16_t)h)));
        uint32_t want = (h & 0x7fff) < 0x0400   ? 0
                        : (h & 0x7fff) > 0x7bff ? (h & 0x8000) | 0x7bff
                                                : h;
        assert_int_equal(num_f32_to_f16_kv(x), want);
    }
    /* Between two neighbours: to the nearer, half way to the even one. */
    for (uint32_t h = 0x0400; h < 0x7bff; h++) {
        float a = num_f16_to_f32(h), b = num_f16_to_f32(h + 1), mid = a + (b - a) * 0.5f;
        assert_int_equal(num_f32_to_f16_kv(mid), h & 1 ? h + 1 : h);
        assert_int_equal(num_f32_to_f16_kv(num_of_bits(num_bits(mid) - 1)), h);
        assert_int_equal(num_f32_to_f16_kv(num_of_bits(num_bits(mid) + 1)), h + 1);
    }
}

/* 13 bits, the nearest; and times a binary16 no more than the 24 of a float. */
static void narrow(void **unused)
{
    (void)unused;
    random_seed(13);
    for (int n = 0; n < 1000000; n++) {
        const float x = (float)ldexp(random_normal(), (int)(random_u64() % 100) - 50);
        const float y = num_narrow(x), h = num_f16_to_f32((uint32_t)random_u64() & 0xffff);
        assert_int_equal(num_bits(y) & 0x7ff, 0);
        assert_true(fabs((double)y - (double)x) <= ldexp(1, ilogb((double)x) - 13));
        if (isfinite(h)) assert_true((double)(y * h) == (double)y * (double)h);
    }
    assert_int_equal(num_bits(num_narrow(0.0f)), 0);
    assert_true(num_narrow(0x1.001p0f) == 0x1.001p0f);
    assert_true(num_narrow(0x1.0008p0f) == 0x1.001p0f &&
                num_narrow(-0x1.0008p0f) == -0x1.001p0f);
    assert_int_equal(num_bits(num_narrow(0x1p100f)), NUM_NAN);
    assert_int_equal(num_bits(num_narrow(-INFINITY)), NUM_NAN);
    assert_int_equal(num_bits(num_narrow(NAN)), NUM_NAN);
}

/* ---- activations in A8 ---- */

enum { WIDTH = 4096, N_DOTS = 400 };

/* Normal, one value in 100 ten times as large, one channel in 128 thirty times as large. */
static float activation(int kind, size_t channel)
{
    double x = random_normal();
    if (kind == 1 && random_u64() % 100 == 0) x *= 10;
    if (kind == 2 && channel % 128 == 5) x *= 30;
    return (float)x;
}

/* Root mean square error of dots with normal weights, relative to that of the dots. */
static double dot_error(int kind)
{
    static float x[WIDTH];
    static int8_t q[WIDTH];
    float d[WIDTH / A8_BLOCK];
    int16_t sum[WIDTH / A8_HALF];
    double error2 = 0, dot2 = 0;
    random_seed(100 + (uint64_t)kind);
    for (int n = 0; n < N_DOTS; n++) {
        double exact = 0, got = 0;
        for (size_t i = 0; i < WIDTH; i++)
            x[i] = activation(kind, i);
        ref_quantise_row(x, WIDTH, q, d, sum);
        for (size_t i = 0; i < WIDTH; i++) {
            double w = random_normal();
            exact += w * (double)x[i];
            got += w * q[i] * (double)d[i / A8_BLOCK];
        }
        error2 += (got - exact) * (got - exact);
        dot2 += exact * exact;
    }
    return sqrt(error2 / dot2);
}

static void a8(void **unused)
{
    (void)unused;
    state("A8 dot, normal", dot_error(0), 0.0055, "relative");
    state("A8 dot, heavy tails", dot_error(1), 0.010, "relative");
    state("A8 dot, outlier channels", dot_error(2), 0.0125, "relative");
}

/* ---- sums ---- */

static void norms(void **unused)
{
    (void)unused;
    static float x[WIDTH], y[WIDTH];
    double worst = 0;
    random_seed(7);
    for (int n = 0; n < 200; n++) {
        double squares = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            x[i] = activation(2, i);
            squares += (double)x[i] * (double)x[i];
        }
        ref_norm(&(struct norm){
            .x = x, .out = y, .n_rows = 1, .n = WIDTH, .n_groups = 1, .eps = 1e-6f});
        double scale = 1 / sqrt(squares / WIDTH + 1e-6);
        for (size_t i = 0; i < WIDTH; i++)
            if (x[i] != 0.0f)
                worst = fmax(worst, fabs((double)y[i] / ((double)x[i] * scale) - 1));
    }
    state("RMS norm", worst, 4e-7, "relative");
}

/* F32 products of the stripes against double, relative to the sum of magnitudes. */
static void floats(void **unused)
{
    (void)unused;
    static float x[WIDTH], w[WIDTH];
    const struct cpu_weight cw = {.base = {QTYPE_F32, 1, 1, WIDTH, NULL}, .file = (uint8_t *)w};
    double worst = 0;
    random_seed(9);
    for (int n = 0; n < 1000; n++) {
        double exact = 0, magnitude = 0;
        for (size_t i = 0; i < WIDTH; i++) {
            x[i] = (float)random_normal();
            w[i] = (float)random_normal();
            exact += (double)x[i] * (double)w[i];
            magnitude += fabs((double)x[i] * (double)w[i]);
        }
        float y;
        struct matmul m = {.w = &cw, .f32 = x, .n_rows = 1, .out = &y};
        ref_matmul(&m, 0, 1, NULL);
        worst = fmax(worst, fabs((double)y - exact) / magnitude);
    }
    state("float dot of 4096", worst, 3e-8, "of the magnitudes");
}

/* One head over 4096 keys, whose values are of size 1, against the numbers that are stored. */
static double attention_error(enum kv_type type)
{
    enum { DIM = 64, N_KEYS = 4096, N_PAGES = N_KEYS / PAGE_LEN };
    const size_t number_bytes = type == KV_F16 ? 2 : 4;
    const struct kv_layer kv = {type, 1, DIM, DIM, 0, PAGE_FULL, 0};
    void *pages[N_PAGES];
    float *keys = mem_alloc(2 * N_KEYS * DIM * sizeof *keys), *vals = keys + N_KEYS * DIM;
    random_seed(11);
    random_floats(NORMAL, keys, 2 * N_KEYS * DIM);
    for (size_t i = 0; type == KV_F16 && i < 2 * N_KEYS * DIM; i++)
        keys[i] = num_f16_to_f32(num_f32_to_f16_kv(keys[i]));
    for (size_t p = 0; p < N_PAGES; p++)
        pages[p] = mem_alloc(2 * DIM * PAGE_LEN * number_bytes);
    for (size_t j = 0; j < N_KEYS; j++)
        ref_kv_store(&kv, pages[j / PAGE_LEN], 0, j % PAGE_LEN, keys + j * DIM, vals + j * DIM);
    double worst = 0;
    for (int n = 0; n < 20; n++) {
        float q[DIM], got[DIM], scratch[3 * DIM];
        double out[DIM] = {0}, l = 0;
        random_floats(NORMAL, q, DIM);
        struct attend a = {.kv = &kv,
                           .pages = pages,
                           .q = q,
                           .out = got,
                           .pos = N_KEYS - 1,
                           .n_group = 1,
                           .factors = kv_factors(&kv, 0.125f, 0)};
        ref_attend(&a, 0, 0, 1, scratch);
        for (size_t j = 0; j < N_KEYS; j++) {
            double s = 0;
            for (size_t d = 0; d < DIM; d++)
                s += (double)q[d] * (double)keys[j * DIM + d];
            double p = exp(s * 0.125);
            l += p;
            for (size_t e = 0; e < DIM; e++)
                out[e] += p * (double)vals[j * DIM + e];
        }
        for (size_t e = 0; e < DIM; e++) {
            /* Not by fmax, at which gcc 12 for ARM breaks down here. */
            const double error = fabs((double)got[e] - out[e] / l);
            if (!(error <= worst)) worst = error;
        }
    }
    for (size_t p = 0; p < N_PAGES; p++)
        free(pages[p]);
    free(keys);
    return worst;
}

static void attention(void **unused)
{
    (void)unused;
    state("attention over 4096 keys", attention_error(KV_F32), 7e-8, "absolute");
    state("attention over 4096 keys, f16", attention_error(KV_F16), 8e-6, "absolute");
}

/* ---- codes of keys and values ---- */

enum { HEAD = 128 };

/* A page of one head, stored as codes. */
static struct kv_layer code_layer(enum kv_type type)
{
    return (struct kv_layer){type, 1, HEAD, HEAD, 0, PAGE_FULL, 0};
}

/* Root mean square error of q · k, relative to that of q · k: normal queries, keys of a kind.
 */
static double score_error(enum kv_type type, int kind)
{
    const struct kv_layer kv = code_layer(type);
    void *page = mem_zalloc(1, kv_layer_bytes(&kv));
    float k[HEAD], q[HEAD], d[HEAD / KV_BLOCK];
    int8_t codes[HEAD];
    int16_t sums[HEAD / A8_HALF];
    double error2 = 0, dot2 = 0;
    random_seed(200 + (uint64_t)kind);
    for (int n = 0; n < 10 * N_DOTS; n++) {
        double exact = 0;
        for (size_t i = 0; i < HEAD; i++) {
            k[i] = activation(kind, i);
            q[i] = (float)random_normal();
            exact += (double)q[i] * (double)k[i];
        }
        ref_kv_store(&kv, page, 0, 0, k, k);
        ref_query_codes(&kv, kv_factors(&kv, (float)(1 / M_LOG2E), 0).query, q, codes, d, sums);
        const struct a8 a8 = {.q = codes, .d = d, .sum = sums};
        const double got = (double)ref_dot_q(&kv, page, 0, 0, &a8);
        error2 += (got - exact) * (got - exact);
        dot2 += exact * exact;
    }
    free(page);
    return sqrt(error2 / dot2);
}

/* The same of what weights make of the mean of a page's values, which are whole numbers that
 * codes hold as they are. */
static double weights_error(enum kv_type type)
{
    const struct kv_layer kv = code_layer(type);
    void *page = mem_zalloc(1, kv_layer_bytes(&kv));
    const int most = type == KV_Q4_0 ? 8 : 127;
    float values[PAGE_LEN][HEAD], out[HEAD], x[PAGE_LEN], w[PAGE_LEN];
    double error2 = 0, mean2 = 0;
    random_seed(300);
    for (int n = 0; n < N_DOTS; n++) {
        float largest = -INFINITY;
        for (size_t j = 0; j < PAGE_LEN; j++) {
            for (size_t e = 0; e < HEAD; e++)
                values[j][e] = e % KV_BLOCK == 0
                                   ? -(float)most
                                   : (float)((int)(random_u64() % (uint64_t)(2 * most)) - most);
            ref_kv_store(&kv, page, 0, j, values[j], values[j]);
            x[j] = (float)(random_normal() * M_LOG2E);
            if (x[j] > largest) largest = x[j];
        }
        double l = 0, exact_l = 0;
        for (size_t j = 0; j < PAGE_LEN; j++) {
            x[j] -= largest;
            w[j] = num_exp2_weight(x[j]);
            l += (double)(w[j] * ref_weight_inverse(&kv, page, 0, j));
            exact_l += exp2((double)x[j]);
        }
        ref_values_q(&kv, page, 0, 0, PAGE_LEN, w, out);
        for (size_t e = 0; e < HEAD; e++) {
            double exact = 0;
            if (e % KV_BLOCK == 0) continue; /* the same in all keys, for the scale */
            for (size_t j = 0; j < PAGE_LEN; j++)
                exact += exp2((double)x[j]) * (double)values[j][e];
            const double mean = exact / exact_l, error = (double)out[e] / l - mean;
            error2 += error * error;
            mean2 += mean * mean;
        }
    }
    free(page);
    return sqrt(error2 / mean2);
}

static void codes(void **unused)
{
    (void)unused;
    state("q8_0 scores, normal", score_error(KV_Q8_0, 0), 0.009, "relative");
    state("q8_0 scores, heavy tails", score_error(KV_Q8_0, 1), 0.009, "relative");
    state("q8_0 scores, outlier channels", score_error(KV_Q8_0, 2), 0.008, "relative");
    state("q4_0 scores, normal", score_error(KV_Q4_0, 0), 0.085, "relative");
    state("q4_0 scores, heavy tails", score_error(KV_Q4_0, 1), 0.085, "relative");
    state("q4_0 scores, outlier channels", score_error(KV_Q4_0, 2), 0.065, "relative");
    state("q8_0 weights", weights_error(KV_Q8_0), 0.0055, "relative");
    state("q4_0 weights", weights_error(KV_Q4_0), 0.0095, "relative");
}

static void version(void **unused)
{
    (void)unused;
    char line[64];
    snprintf(line, sizeof line, "\n.BR \"NUMERICS_VERSION %d\" .\n", NUMERICS_VERSION);
    assert_in_manual(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementary), cmocka_unit_test(weights_of_scores),
        cmocka_unit_test(halves),     cmocka_unit_test(narrow),
        cmocka_unit_test(a8),         cmocka_unit_test(norms),
        cmocka_unit_test(floats),     cmocka_unit_test(attention),
        cmocka_unit_test(codes),      cmocka_unit_test(version),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&manual_text);
    return status;
}
