/* The kernels of rows and of recurrent layers, one by one, against the scalar reference: at
 * every length up to a few vectors, so at every tail, with NaNs and infinities among the
 * values. Those of AVX-512 also as plain C, on any machine. */
#include "ops.h"

#define avx512_norm plain_norm
#define avx512_quantise plain_quantise
#define avx512_rope plain_rope
#define avx512_scale plain_scale
#define avx512_glu plain_glu
#define avx512_add plain_add
#define avx512_combine plain_combine
#define avx512_logits plain_logits
#define avx512_conv plain_conv
#define avx512_recur plain_recur
#define avx512_kv_store plain_kv_store
#define avx2_kv_store scalar_kv_store
#define avx2_glu scalar_glu

#include "../../src/cpu/kv_store_avx512.c"
#include "../../src/cpu/recurrent_avx512.c"
#include "../../src/cpu/rows_avx512.c"

void scalar_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                     struct kv_rows rows)
{
    kernels_scalar.kv_store(kv, page, head, slot, rows);
}

void scalar_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out)
{
    kernels_scalar.glu(kind, gate, up, n, out);
}

static const struct kernels plain = {
    .kv_store = plain_kv_store,
    .norm = plain_norm,
    .centre = ref_centre,
    .cut = ref_cut,
    .xielu = ref_xielu,
    .quantise = plain_quantise,
    .rope = plain_rope,
    .scale = plain_scale,
    .glu = plain_glu,
    .add = plain_add,
    .combine = plain_combine,
    .logits = plain_logits,
    .conv = plain_conv,
    .recur = plain_recur,
};

static const struct {
    const char *name;
    enum cpu_isa isa;
    const struct kernels *kernels;
} sets[] = {
    {"simd", CPU_SIMD, &kernels_simd},
#ifdef __x86_64__
    {"avx2", CPU_AVX2, &kernels_avx2},
    {"avx512", CPU_AVX512, &kernels_avx512},
    {"amx", CPU_AMX, &kernels_amx},
#endif
    {"avx512 as plain C", CPU_SCALAR, &plain},
};
enum { N_SETS = sizeof sets / sizeof *sets };

enum { LONGEST = 2176, PAST = 8 /* values that no kernel may touch */ };

/* What a kernel reads and writes. */
struct values {
    float x[LONGEST + PAST], y[LONGEST + PAST], w[LONGEST + PAST], out[LONGEST + PAST];
    int8_t q[LONGEST + PAST];
    float d[LONGEST / A8_BLOCK + PAST], dsum[LONGEST / A8_BLOCK + PAST];
    int16_t sum[LONGEST / A8_HALF + PAST];
};

static float odd_value(uint64_t i)
{
    static const uint32_t bits[] = {0x7fc00000, 0xffc01234, 0x7fc01234, 0x7f800000, 0xff800000,
                                    0x80000000, 0x7f7fffff, 0x71800000, 0x71800001, 0x26800000,
                                    0x267fffff, 0xa67fffff, 0x42b00000, 0xc20a999a, 0x3f800000,
                                    0x477fe000, 0x477fe001, 0xc77ff000, 0x387fffff, 0x38800000};
    float f;
    memcpy(&f, &bits[i % (sizeof bits / sizeof *bits)], sizeof f);
    return f;
}

static void fill(struct values *v, enum spread spread, bool odd)
{
    memset(v, 0x55, sizeof *v);
    random_floats(spread, v->x, LONGEST);
    random_floats(NORMAL, v->y, LONGEST);
    random_floats(NORMAL, v->w, LONGEST);
    for (size_t i = 0; odd && i < LONGEST; i += 1 + random_u64() % 60) {
        v->x[i] = odd_value(random_u64());
        v->y[(i * 7) % LONGEST] = odd_value(random_u64());
    }
}

typedef void row_fn(const struct kernels *k, struct values *v, size_t n);

static void run_norm_of(const struct kernels *k, struct values *v, size_t n, size_t group,
                        const float *w, size_t w_step)
{
    const struct norm o = {.x = v->x,
                           .out = v->out,
                           .n_rows = 1,
                           .w = w,
                           .w_step = w_step,
                           .n = group,
                           .n_groups = n / group,
                           .eps = 1e-6f};
    if (n % group == 0) k->norm(&o);
}

static void run_norm(const struct kernels *k, struct values *v, size_t n)
{
    run_norm_of(k, v, n, n, v->w, 0);
}

static void run_norm_32(const struct kernels *k, struct values *v, size_t n)
{
    run_norm_of(k, v, n, 32, v->w, 0);
}

static void run_norm_64_each(const struct kernels *k, struct values *v, size_t n)
{
    run_norm_of(k, v, n, 64, v->w, 64);
}

static void run_norm_8_plain(const struct kernels *k, struct values *v, size_t n)
{
    run_norm_of(k, v, n, 8, NULL, 0);
}

static void run_norm_in_place(const struct kernels *k, struct values *v, size_t n)
{
    const struct norm o = {.x = v->x,
                           .out = v->x,
                           .n_rows = 1,
                           .w = v->w,
                           .n = 32,
                           .n_groups = n / 32,
                           .eps = 1e-6f};
    if (n % 32 == 0) k->norm(&o);
}

/* Rows of three groups that have weights of their own, and lie apart; bias NULL: none. */
static void norm_rows(const struct kernels *k, struct values *v, const float *bias, size_t n)
{
    enum { GROUP = 32, GROUPS = 3, STRIDE = 4 * GROUP };
    const struct norm o = {.x = v->x,
                           .out = v->out,
                           .x_stride = STRIDE,
                           .out_stride = STRIDE + GROUP,
                           .n_rows = n / (STRIDE + GROUP),
                           .w = v->w,
                           .bias = bias,
                           .w_step = GROUP,
                           .n = GROUP,
                           .n_groups = GROUPS,
                           .eps = 1e-6f};
    k->norm(&o);
}

static void run_norm_rows(const struct kernels *k, struct values *v, size_t n)
{
    norm_rows(k, v, NULL, n);
}

static void run_norm_biased(const struct kernels *k, struct values *v, size_t n)
{
    norm_rows(k, v, v->y, n);
}

static void run_bias(const struct kernels *k, struct values *v, size_t n)
{
    const struct norm o = {.x = v->x,
                           .out = v->x,
                           .n_rows = 1,
                           .w = v->w,
                           .bias = v->y,
                           .n = n,
                           .n_groups = 1,
                           .eps = 1e-6f};
    if (n > 0) k->norm(&o);
}

/* AVX-512 has AVX2's. */
static void run_cut(const struct kernels *k, struct values *v, size_t n)
{
    if (n > 0) k->cut(v->x, n, 0.7f, v->x);
}

static void run_xielu(const struct kernels *k, struct values *v, size_t n)
{
    k->xielu(v->x, n, 0.8f, 1.3f, 0.5f);
}

static void run_centre(const struct kernels *k, struct values *v, size_t n)
{
    if (n > 0) k->centre(v->x, n, v->x);
}

/* As many blocks of so many rows, which lie apart, as n values are enough for. */
static void quantise_rows(const struct kernels *k, struct values *v, size_t n_rows, float *dsum,
                          size_t n)
{
    k->quantise(&(struct quantise){.x = v->x,
                                   .x_stride = n / n_rows,
                                   .n_rows = n_rows,
                                   .n = n / n_rows / A8_BLOCK * A8_BLOCK,
                                   .q = v->q,
                                   .d = v->d,
                                   .dsum = dsum,
                                   .sum = v->sum});
}

static void run_quantise(const struct kernels *k, struct values *v, size_t n)
{
    quantise_rows(k, v, 1, NULL, n);
}

static void run_quantise_sums(const struct kernels *k, struct values *v, size_t n)
{
    quantise_rows(k, v, 1, v->dsum, n);
}

static void run_quantise_3(const struct kernels *k, struct values *v, size_t n)
{
    quantise_rows(k, v, 3, v->dsum, n);
}

static void run_quantise_16(const struct kernels *k, struct values *v, size_t n)
{
    quantise_rows(k, v, PANEL_ROWS, v->dsum, n);
}

static void run_rope_neox(const struct kernels *k, struct values *v, size_t n)
{
    if (n % 2 == 0) k->rope(v->x, ROPE_NEOX, n / 2, v->y);
}

static void run_rope_norm(const struct kernels *k, struct values *v, size_t n)
{
    if (n % 2 == 0) k->rope(v->x, ROPE_NORM, n / 2, v->y);
}

static void run_scale(const struct kernels *k, struct values *v, size_t n)
{
    k->scale(v->x, n, 0.3f);
}

static void run_add(const struct kernels *k, struct values *v, size_t n)
{
    k->add(v->x, v->y, 0.75f, n, v->out);
}

/* Three rows that lie behind each other, and one. */
static void run_combine(const struct kernels *k, struct values *v, size_t n)
{
    k->combine(v->x, n / 3, v->y, 3, n / 3, v->out);
    k->combine(v->w, n, v->y + 3, 1, n / 3, v->out + n - n / 3);
}

static void run_logits(const struct kernels *k, struct values *v, size_t n)
{
    k->logits(v->x, n, 0.5f, 0, v->out);
}

static void run_capped_logits(const struct kernels *k, struct values *v, size_t n)
{
    k->logits(v->x, n, 0.5f, 30, v->out);
}

static void run_silu(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_SILU, v->x, v->y, n, v->out);
}

static void run_gelu(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_GELU, v->x, v->y, n, v->out);
}

static void run_gelu_alone(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_GELU_ALONE, v->x, v->x, n, v->x);
}

static void run_sigmoid(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_SIGMOID, v->x, v->y, n, v->out);
}

static void run_linear(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_LINEAR, v->x, v->y, n, v->out);
}

static void run_relu(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_RELU, v->x, v->y, n, v->out);
}

/* Without a gate of its own: a square. */
static void run_relu_of_up(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_RELU, v->x, v->x, n, v->x);
}

static void run_softplus(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_SOFTPLUS, v->x, v->y, n, v->out);
}

static void run_clamped(const struct kernels *k, struct values *v, size_t n)
{
    k->glu(GLU_CLAMPED, v->x, v->y, n, v->out);
}

static const struct {
    const char *name;
    row_fn *run;
} cases[] = {
    {"norm", run_norm},
    {"norm_32", run_norm_32},
    {"norm_64_each", run_norm_64_each},
    {"norm_8_plain", run_norm_8_plain},
    {"norm_in_place", run_norm_in_place},
    {"norm_rows", run_norm_rows},
    {"quantise", run_quantise},
    {"rope_neox", run_rope_neox},
    {"rope_norm", run_rope_norm},
    {"scale", run_scale},
    {"add", run_add},
    {"logits", run_logits},
    {"capped_logits", run_capped_logits},
    {"silu", run_silu},
    {"gelu", run_gelu},
    {"sigmoid", run_sigmoid},
    {"linear", run_linear},
    {"clamped", run_clamped},
    {"relu", run_relu},
    {"relu_of_up", run_relu_of_up},
    {"norm_biased", run_norm_biased},
    {"bias", run_bias},
    {"gelu_alone", run_gelu_alone},
    {"centre", run_centre},
    {"cut", run_cut},
    {"xielu", run_xielu},
    {"softplus", run_softplus},
    {"combine", run_combine},
    {"quantise_sums", run_quantise_sums},
    {"quantise_3", run_quantise_3},
    {"quantise_16", run_quantise_16},
};

/* Some case with some length and values: all sets, and nothing past the end. */
static void compare(size_t c, size_t n, const struct values *in)
{
    static struct values want, got;
    want = *in;
    cases[c].run(&kernels_scalar, &want, n);
    for (size_t s = 0; s < N_SETS; s++) {
        if (!cpu_has(sets[s].isa)) continue;
        got = *in;
        cases[c].run(sets[s].kernels, &got, n);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%s of %zu values: %s differs", cases[c].name, n, sets[s].name);
    }
}

static void all_lengths(void **state)
{
    (void)state;
    static const size_t longer[] = {256, 512, 544, 608, 992, 1024, 1056, 1096, LONGEST};
    static struct values v;
    random_seed(16);
    for (int odd = 0; odd < 2; odd++) {
        for (enum spread spread = NORMAL; spread < N_SPREADS; spread++) {
            fill(&v, spread, odd);
            for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
                for (size_t n = 1; n <= 160; n++)
                    compare(c, n, &v);
                for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
                    compare(c, longer[i], &v);
            }
        }
    }
}

/* ---- kernels of recurrent layers ---- */

enum { MAX_STATE = 3 * 17 * 80, MOST_ROWS = 5 };

/* What they read and write. */
struct layer {
    _Alignas(64) float in[MAX_STATE];
    _Alignas(64) float to[MAX_STATE];
    float q[LONGEST], k[LONGEST], v[LONGEST], gates[LONGEST], out[LONGEST];
    float a[MAX_STATE];
};

static void fill_layer(struct layer *l, enum spread spread)
{
    random_floats(spread, l->in, MAX_STATE);
    random_floats(NORMAL, l->to, MAX_STATE);
    random_floats(spread, l->q, LONGEST);
    random_floats(NORMAL, l->k, LONGEST);
    random_floats(spread, l->v, LONGEST);
    for (size_t i = 0; i < LONGEST; i++)
        l->gates[i] = (float)random_unit();
    random_floats(NORMAL, l->out, LONGEST);
    random_floats(NORMAL, l->a, MAX_STATE);
    l->in[random_u64() % MAX_STATE] = odd_value(random_u64() % 5);
    l->v[random_u64() % LONGEST] = odd_value(random_u64() % 5);
    l->a[random_u64() % MAX_STATE] = odd_value(random_u64() % 5);
}

typedef void layer_fn(const struct kernels *k, struct layer *l, uint64_t which);

/* All columns of all heads, in stretches as the program takes them. */
static void recur_all(const struct kernels *k, const struct recur *r)
{
    for (size_t head = 0; head < r->n_heads; head++)
        for (size_t lo = 0; lo < r->n_width; lo += RECUR_COLS)
            k->recur(r, head, lo, r->n_width - lo < RECUR_COLS ? r->n_width : lo + RECUR_COLS);
}

/* The sizes of heads and rows, also such as no whole vectors fill. */
static void choose_sizes(struct recur *r, uint64_t which)
{
    static const size_t dims[] = {1, 2, 16, 17}, widths[] = {7, 8, 16, 32, 40, 48, 80};
    r->n_dim = dims[which % 4];
    r->n_width = widths[which / 4 % 7];
    r->n_rows = 1 + which / 28 % MOST_ROWS;
    r->streams = r->n_width % RECUR_COLS == 0 && r->n_rows % 2 == 1;
}

/* Heads of some size, all in pieces as cpu_exec cuts them. */
static void run_recur(const struct kernels *k, struct layer *l, uint64_t which)
{
    static const size_t dims[] = {1, 2, 16, 17}, widths[] = {8, 16, 32, 40, 48, 80};
    struct recur r = {.in = l->in,
                      .to = l->to,
                      .q = l->q,
                      .k = l->k,
                      .v = l->v,
                      .gates = l->gates,
                      .n_heads = 3,
                      .n_groups = which & 1 ? 3 : 1,
                      .tiled = which & 2,
                      .delta = which & 4,
                      .skip = which & 8 ? l->gates + 100 : NULL,
                      .out = which & 16 ? NULL : l->out};
    which /= 32;
    r.n_dim = dims[which % 4];
    r.n_width = widths[which / 4 % 6];
    r.n_rows = 1 + which / 24 % MOST_ROWS;
    r.streams = r.n_width % RECUR_COLS == 0 && r.n_rows % 2 == 1;
    r.q_stride = r.k_stride = r.n_groups * r.n_dim;
    r.v_stride = r.out_stride = r.n_heads * r.n_width;
    r.gates_stride = 2 * r.n_heads;
    recur_all(k, &r);
}

/* Likewise where values of a state decay each by itself; where which is even, all do. */
static void run_recur_each(const struct kernels *k, struct layer *l, uint64_t which)
{
    struct recur r = {.in = l->in,
                      .to = l->to,
                      .q = l->q,
                      .k = l->k,
                      .v = l->v,
                      .gates = l->k + 500,
                      .a = l->a,
                      .n_heads = 3,
                      .n_groups = which & 2 ? 3 : 1,
                      .out = which & 4 ? NULL : l->out};
    for (size_t i = 0; which % 2 == 0 && i < MAX_STATE; i++)
        l->a[i] = -fabsf(l->a[i]);
    choose_sizes(&r, which / 8);
    r.q_stride = r.k_stride = r.n_groups * r.n_dim;
    r.v_stride = r.out_stride = r.gates_stride = r.n_heads * r.n_width;
    recur_all(k, &r);
}

/* Likewise with an erasure. */
static void run_recur_erase(const struct kernels *k, struct layer *l, uint64_t which)
{
    struct recur r = {.in = l->in,
                      .to = l->to,
                      .q = l->q,
                      .k = l->k,
                      .v = l->v,
                      .gates = l->a,
                      .n_heads = 3,
                      .n_groups = which & 1 ? 3 : 1,
                      .tiled = which & 2,
                      .by_dim = true,
                      .erase = true,
                      .out = which & 4 ? NULL : l->out};
    choose_sizes(&r, which / 8);
    r.q_stride = r.k_stride = r.n_groups * r.n_dim;
    r.v_stride = r.out_stride = r.n_heads * r.n_width;
    r.gates_stride = 3 * r.n_heads * r.n_dim;
    recur_all(k, &r);
}

static void run_conv(const struct kernels *k, struct layer *l, uint64_t which)
{
    struct conv c = {.x = l->v,
                     .state = l->in,
                     .w = l->k,
                     .silu = which & 1,
                     .bias = which & 2 ? l->q : NULL,
                     .n_taps = 1 + which / 4 % 4,
                     .n = 8 * (1 + which / 16 % 20),
                     .out = l->out};
    c.x_stride = c.out_stride = c.n;
    k->conv(&c, 0, 1 + which % MOST_ROWS);
}

static void compare_layer(const char *name, layer_fn *run, uint64_t which,
                          const struct layer *in)
{
    static struct layer want, got;
    want = *in;
    run(&kernels_scalar, &want, which);
    for (size_t s = 0; s < N_SETS; s++) {
        if (!cpu_has(sets[s].isa)) continue;
        got = *in;
        run(sets[s].kernels, &got, which);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("%s %d: %s differs", name, (int)which, sets[s].name);
    }
}

static void recurrent(void **state)
{
    (void)state;
    static struct layer l;
    random_seed(17);
    for (uint64_t which = 0; which < 32 * 24 * MOST_ROWS; which++) {
        if (which % 8 == 0) fill_layer(&l, (enum spread)(which / 8 % N_SPREADS));
        compare_layer("recur", run_recur, which, &l);
        if (which < 8 * 28 * MOST_ROWS) compare_layer("recur each", run_recur_each, which, &l);
        if (which < 8 * 28 * MOST_ROWS)
            compare_layer("recur erase", run_recur_erase, which, &l);
        if (which < 16 * 20) compare_layer("conv", run_conv, which, &l);
    }
}

/* ---- keys and values ---- */

/* Rows from some slot on into a page, which is otherwise left alone. */
static void stores(void **state)
{
    (void)state;
    static const size_t dims[] = {32, 96, 40, 16};
    enum { N_HEADS = 2, PAGE_BYTES = 2 * N_HEADS * 96 * PAGE_LEN * 2, STRIDE = 200 };
    static float k[PAGE_LEN * STRIDE], v[PAGE_LEN * STRIDE];
    static uint8_t want[PAGE_BYTES], got[PAGE_BYTES];
    random_seed(18);
    for (size_t n = 0; n < 400; n++) {
        const size_t dk = dims[n % 4], dv = dims[n / 4 % 4], slot = random_u64() % PAGE_LEN;
        const struct kv_layer kv = {KV_F16, N_HEADS, dk, dv, 0, PAGE_FULL, 0};
        const struct kv_rows rows = {k + dk, v + dv, STRIDE, STRIDE,
                                     1 + random_u64() % (PAGE_LEN - slot)};
        random_floats((enum spread)(n % N_SPREADS), k, PAGE_LEN * STRIDE);
        random_floats((enum spread)(n % N_SPREADS), v, PAGE_LEN * STRIDE);
        for (size_t i = random_u64() % 9; i < PAGE_LEN * STRIDE; i += 1 + random_u64() % 90)
            k[i] = v[PAGE_LEN * STRIDE - 1 - i] = odd_value(random_u64());
        memset(want, 0x33, PAGE_BYTES);
        kernels_scalar.kv_store(&kv, want, 1, slot, rows);
        for (size_t s = 0; s < N_SETS; s++) {
            if (!cpu_has(sets[s].isa)) continue;
            memset(got, 0x33, PAGE_BYTES);
            sets[s].kernels->kv_store(&kv, got, 1, slot, rows);
            if (memcmp(got, want, PAGE_BYTES) != 0)
                fail_msg("%zu rows of %zu and %zu: %s differs", rows.n, dk, dv, sets[s].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lengths),
                                       cmocka_unit_test(recurrent), cmocka_unit_test(stores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
