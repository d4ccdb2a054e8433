/* Ops that a device makes by one dispatch where they follow each other: a norm, a gated unit or
 * attention and the A8 of its result, a product and its sum with another row, the norms of
 * queries and keys and their rotation. All rows on the way have the reference's bits.
 */
#include "ops.h"

#include "backend/kv.h"
#include "matmul_case.h"

enum { N_ROWS = 16, N_VALUES = 72, MAX_WIDTH = 7200 };

/* Where the sum of a product and another row goes. */
enum sum_place { APART, OF_OTHER, OF_PRODUCT };

struct chain_case {
    size_t width, group; /* of the norm */
    enum sum_place place;
    bool product_first; /* of the two that are added */
    float scale;
    bool biased; /* the norm */
};

static const struct chain_case cases[] = {
    {32, 32, OF_OTHER, false, 1, false},
    {96, 32, APART, true, 1, false},
    {256, 256, OF_OTHER, false, 0.75f, false},
    {1120, 1120, APART, true, 1, false},
    {1120, 1120, APART, true, 0.75f, false},
    {64, 64, OF_PRODUCT, true, 1, false},
    {64, 32, OF_PRODUCT, false, 0.5f, false},
    /* Tiles of the norm's shader: as many as one has on some device, and more. */
    {1024, 1024, OF_OTHER, true, 1, false},
    {3584, 3584, OF_OTHER, true, 1, false},
    {3616, 3616, OF_OTHER, true, 1, false},
    {7200, 7200, OF_OTHER, true, 1, false},
    {2112, 1056, OF_OTHER, true, 1, false},
    {1152, 288, OF_OTHER, true, 1, false},
    {32, 32, OF_OTHER, false, 1, true},
    {96, 32, APART, true, 1, true},
    {1120, 1120, APART, true, 1, true},
    {3616, 3616, OF_OTHER, true, 1, true},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static uint8_t blocks[N_VALUES * MAX_WIDTH];
static float norm_weights[MAX_WIDTH + N_VALUES];

static size_t chain_width(const struct chain_case *c)
{
    return c->width + 3 * N_VALUES;
}

/* The norm's result, the product and the sum, all in one buffer. */
static size_t run_chain(struct backend *be, const void *of, const float *x, uint32_t first,
                        uint32_t n, float *out)
{
    const struct chain_case *c = of;
    struct trial t;
    struct err err;
    const size_t all = chain_width(c);
    struct ref in = trial_begin(&t, be, x, N_ROWS, all);
    struct ref a8 = trial_buffer(&t, ROW_A8, c->width);
    struct ref normed = ref_part(in, 0, c->width); /* in place */
    struct ref product = ref_part(in, c->width, N_VALUES);
    struct ref other = ref_part(in, c->width + N_VALUES, N_VALUES);
    const struct ref sums[] = {
        [APART] = ref_part(in, c->width + 2 * N_VALUES, N_VALUES),
        [OF_OTHER] = other,
        [OF_PRODUCT] = product,
    };
    struct weight *w = backend_vector(be, norm_weights, c->group, &err);
    struct weight *m =
        backend_matrix(be, QTYPE_Q4_0, 1, N_VALUES, c->width, blocks, NULL, &err);
    assert_non_null(w);
    assert_non_null(m);
    /* The first of them differ from the weights. */
    struct weight *bias =
        c->biased ? backend_vector(be, norm_weights + N_VALUES, c->group, &err) : NULL;
    trial_op(&t, OP_NORM)->norm = (struct op_norm){normed, normed, w, c->group, 1e-6f, bias};
    trial_op(&t, OP_QUANTISE)->quantise = (struct op_quantise){normed, a8};
    struct op_matmul *op = &trial_op(&t, OP_MATMUL)->matmul;
    *op = (struct op_matmul){.in_a8 = a8, .n_mats = 1};
    op->mat[0].w = m;
    op->mat[0].out = product;
    const struct ref a = c->product_first ? product : other,
                     b = c->product_first ? other : product;
    trial_op(&t, OP_ADD)->add = (struct op_add){a, b, sums[c->place], c->scale};
    trial_run(&t, in, first, n, NULL, out);
    return all;
}

/* Heads of queries and keys in one row, then gate and up, of which the gate becomes the result,
 * and the product that shows its codes. */
struct heads_case {
    size_t n_q, n_k, dim, n_rot, width; /* of the gate */
    enum rope_pairs pairs;
    enum glu_kind kind;
    bool biased; /* the norms */
};

static const struct heads_case heads_cases[] = {
    {1, 1, 32, 32, 32, ROPE_NEOX, GLU_SILU, false},
    {4, 2, 64, 64, 96, ROPE_NORM, GLU_GELU, false},
    {3, 1, 128, 64, 1120, ROPE_NEOX, GLU_SILU, false},
    {2, 2, 48, 20, 256, ROPE_NORM, GLU_CLAMPED, false},
    {5, 1, 80, 80, 64, ROPE_NEOX, GLU_SIGMOID, false},
    {2, 1, 64, 2, 160, ROPE_NEOX, GLU_LINEAR, false},
    {1, 1, 64, 64, 96, ROPE_NEOX, GLU_RELU, false},
    {2, 1, 300, 128, 32, ROPE_NORM, GLU_SILU, false},
    {1, 1, 1030, 64, 32, ROPE_NEOX, GLU_SILU, false},
    {1, 1, 64, 64, 96, ROPE_NEOX, GLU_GELU_ALONE, false},
    {2, 1, 64, 32, 96, ROPE_NEOX, GLU_GELU_ALONE, true},
};
enum { N_HEADS_CASES = sizeof heads_cases / sizeof *heads_cases, MAX_PAIRS = 64 };

static size_t heads_width(const struct heads_case *c)
{
    return (c->n_q + c->n_k) * c->dim + 2 * c->width + N_VALUES;
}

static size_t run_heads(struct backend *be, const void *of, const float *x, uint32_t first,
                        uint32_t n, float *out)
{
    const struct heads_case *c = of;
    struct trial t;
    struct err err;
    const size_t n_q = c->n_q * c->dim, n_k = c->n_k * c->dim, width = c->width;
    struct ref in = trial_begin(&t, be, x, N_ROWS, heads_width(c));
    struct ref a8 = trial_buffer(&t, ROW_A8, width);
    struct ref q = ref_part(in, 0, n_q), k = ref_part(in, n_q, n_k);
    struct ref gate = ref_part(in, n_q + n_k, width), up = ref_part(in, gate.at + width, width);
    double freq[MAX_PAIRS];
    for (size_t i = 0; i < c->n_rot / 2; i++)
        freq[i] = 1.0 / (1.0 + (double)i);
    t.rope = (struct rope){c->pairs, c->n_rot, freq, 1.0};
    t.p.n_ropes = 1;
    struct weight *w_q = backend_vector(be, norm_weights, c->dim, &err);
    struct weight *w_k = backend_vector(be, norm_weights + c->dim, c->dim, &err);
    struct weight *m = backend_matrix(be, QTYPE_Q4_0, 1, N_VALUES, width, blocks, NULL, &err);
    assert_true(w_q && w_k && m);
    struct weight *bias = c->biased ? w_k : NULL;
    trial_op(&t, OP_NORM)->norm = (struct op_norm){q, q, w_q, c->dim, 1e-6f, bias};
    trial_op(&t, OP_NORM)->norm = (struct op_norm){k, k, w_k, c->dim, 1e-6f, bias};
    trial_op(&t, OP_ROPE)->rope = (struct op_rope){ref_part(in, 0, n_q + n_k), c->dim, 0};
    trial_op(&t, OP_GLU)->glu = (struct op_glu){gate, up, gate, c->kind};
    trial_op(&t, OP_QUANTISE)->quantise = (struct op_quantise){gate, a8};
    struct op_matmul *op = &trial_op(&t, OP_MATMUL)->matmul;
    *op = (struct op_matmul){.in_a8 = a8, .n_mats = 1};
    op->mat[0].w = m;
    op->mat[0].out = ref_part(in, up.at + width, N_VALUES);
    trial_run(&t, in, first, n, NULL, out);
    return heads_width(c);
}

/* Runs rows first to first + n of x through a case's ops and writes them to out; returns how
 * wide a row is. */
typedef size_t run_fn(struct backend *be, const void *of, const float *x, uint32_t first,
                      uint32_t n, float *out);

/* Every machine against the reference, with every number of rows. */
static void compare_case(run_fn *run, const void *c, size_t width, enum spread spread,
                         const char *name)
{
    static const uint32_t batches[] = {1, 2, 3, 9, N_ROWS};
    const size_t most = N_ROWS * width;
    float *x = mem_zalloc(most, sizeof *x), *want = mem_zalloc(most, sizeof *want);
    float *got = mem_zalloc(most, sizeof *got);
    random_floats(spread, x, most);
    assert_int_equal(run(machines[0].be, c, x, 0, N_ROWS, want), width);
    for (int m = 1; m < N_MACHINES; m++)
        for (size_t b = 0; machines[m].be && b < sizeof batches / sizeof *batches; b++) {
            const uint32_t n = batches[b], first = N_ROWS - n;
            char what[128];
            snprintf(what, sizeof what, "%s, %u rows, %s", name, n,
                     backend_name(machines[m].be));
            run(machines[m].be, c, x, first, n, got);
            assert_same_bits(got, want + first * width, n * width, what);
        }
    free(x);
    free(want);
    free(got);
}

/* Attention, and the product that shows the codes of its result. */
struct attend_case {
    enum kv_type type;
    uint32_t n_heads, n_kv;
    size_t dk, dv;
    bool sinks;
};

static const struct attend_case attend_cases[] = {
    {KV_F16, 2, 1, 32, 32, false},  {KV_F16, 4, 2, 64, 96, true},
    {KV_F32, 2, 2, 16, 256, false}, {KV_F16, 2, 1, 32, 48, false},
    {KV_Q8_0, 3, 1, 64, 64, false}, {KV_F16, 1, 1, 32, 512, false},
    {KV_F16, 1, 1, 32, 544, false}, /* more than can be made with their codes */
};
enum { N_ATTEND_CASES = sizeof attend_cases / sizeof *attend_cases };

/* All rows, at most n_batch at a time; one page holds them. */
static size_t run_attend(struct backend *be, const struct attend_case *c, const float *x,
                         uint32_t n_batch, float *out)
{
    struct trial t;
    struct err err;
    const size_t n_q = c->n_heads * c->dk, n_k = c->n_kv * c->dk, n_v = c->n_kv * c->dv;
    const size_t n_out = c->n_heads * c->dv;
    struct ref in = trial_begin(&t, be, x, N_ROWS, n_q + n_k + n_v);
    struct ref y = trial_buffer(&t, ROW_F32, n_out + N_VALUES);
    struct ref a8 = trial_buffer(&t, ROW_A8, n_out), attended = ref_part(y, 0, n_out);
    t.kv = (struct kv_layer){c->type, c->n_kv, c->dk, c->dv, 0, PAGE_FULL, 0};
    t.p.n_kv = 1;
    t.p.page_bytes[PAGE_FULL] = kv_layer_bytes(&t.kv);
    t.p.page_unit[PAGE_FULL] = kv_head_bytes(&t.kv);
    trial_op(&t, OP_KV_STORE)->kv_store =
        (struct op_kv_store){ref_part(in, n_q, n_k), ref_part(in, n_q + n_k, n_v), 0};
    struct weight *sinks = c->sinks ? backend_vector(be, norm_weights, c->n_heads, &err) : NULL;
    struct weight *m = backend_matrix(be, QTYPE_Q4_0, 1, N_VALUES, n_out, blocks, NULL, &err);
    assert_non_null(m);
    trial_op(&t, OP_ATTEND)->attend = (struct op_attend){
        ref_part(in, 0, n_q), attended, 0, c->n_heads, 0.125f, 0, 0, sinks, 0};
    trial_op(&t, OP_QUANTISE)->quantise = (struct op_quantise){attended, a8};
    struct op_matmul *op = &trial_op(&t, OP_MATMUL)->matmul;
    *op = (struct op_matmul){.in_a8 = a8, .n_mats = 1};
    op->mat[0].w = m;
    op->mat[0].out = ref_part(y, n_out, N_VALUES);
    void *page = backend_page_new(be, t.p.page_bytes[PAGE_FULL], t.p.page_unit[PAGE_FULL]);
    assert_non_null(page);
    for (uint32_t first = 0; first < N_ROWS; first += n_batch) {
        const uint32_t n = N_ROWS - first < n_batch ? N_ROWS - first : n_batch;
        trial_run(&t, y, first, n, &page, out + first * y.n);
    }
    backend_page_free(be, page, t.p.page_bytes[PAGE_FULL]);
    return y.n;
}

static void one_attend_case(const struct attend_case *c, enum spread spread)
{
    static const uint32_t batches[] = {1, 3, N_ROWS};
    const size_t most = N_ROWS * MAX_WIDTH;
    float *x = mem_zalloc(most, sizeof *x), *want = mem_zalloc(most, sizeof *want);
    float *got = mem_zalloc(most, sizeof *got);
    random_floats(spread, x, most);
    const size_t all = run_attend(machines[0].be, c, x, N_ROWS, want);
    for (int m = 1; m < N_MACHINES; m++)
        for (size_t b = 0; machines[m].be && b < sizeof batches / sizeof *batches; b++) {
            char what[96];
            snprintf(what, sizeof what, "attention of %u heads of %zu and codes, %u rows, %s",
                     c->n_heads, c->dv, batches[b], backend_name(machines[m].be));
            run_attend(machines[m].be, c, x, batches[b], got);
            assert_same_bits(got, want, N_ROWS * all, what);
        }
    free(x);
    free(want);
    free(got);
}

static void one_case(const struct chain_case *c, enum spread spread)
{
    char name[64];
    snprintf(name, sizeof name, "norm of %zu by %zu and product", c->width, c->group);
    compare_case(run_chain, c, chain_width(c), spread, name);
}

static void one_heads_case(const struct heads_case *c, enum spread spread)
{
    char name[64];
    snprintf(name, sizeof name, "heads of %zu and a gate of %zu", c->dim, c->width);
    compare_case(run_heads, c, heads_width(c), spread, name);
}

static void all_cases(void **state)
{
    (void)state;
    random_seed(8);
    random_blocks(QTYPE_Q4_0, blocks, N_VALUES * MAX_WIDTH);
    random_floats(NORMAL, norm_weights, MAX_WIDTH + N_VALUES);
    for (size_t i = 0; i < N_CASES; i++)
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            one_case(&cases[i], k);
    for (size_t i = 0; i < N_HEADS_CASES; i++)
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            one_heads_case(&heads_cases[i], k);
    for (size_t i = 0; i < N_ATTEND_CASES; i++)
        for (enum spread k = NORMAL; k < ZEROS; k++)
            one_attend_case(&attend_cases[i], k);
    say_compared("fused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
