/* Matrix products: every weight type and many shapes; all machines give the reference's bits,
 * the reference is near the product in double, and its bits are the stored ones. */
#include "ops.h"

#include "cpu/ref.h"
#include "matmul_case.h"

struct shape {
    size_t n_cols, n_values;
};

static const struct shape small_shapes[] = {{32, 1},   {96, 5},   {256, 16},
                                            {288, 17}, {544, 40}, {1024, 100}};
static const struct shape middle_shapes[] = {{128, 5}, {640, 33}, {1152, 17}};
static const struct shape k_shapes[] = {{256, 1}, {256, 16}, {512, 33}, {1280, 100}};
static const struct shape float_shapes[] = {{1, 1},    {7, 3},    {96, 16},
                                            {257, 17}, {300, 40}, {1100, 50}};

static size_t shapes_of(enum qtype type, const struct shape **out)
{
    if (type == QTYPE_TQ1_0) { /* is packed as TQ2_0, and then the same */
        *out = k_shapes + 1;
        return 2;
    }
    uint32_t block = qtype_info(type)->block_len;
    *out = block == 1     ? float_shapes
           : block == 32  ? small_shapes
           : block == 256 ? k_shapes
                          : middle_shapes;
    return block == 1     ? sizeof float_shapes / sizeof *float_shapes
           : block == 32  ? sizeof small_shapes / sizeof *small_shapes
           : block == 256 ? sizeof k_shapes / sizeof *k_shapes
                          : sizeof middle_shapes / sizeof *middle_shapes;
}

enum { MAX_ROWS = 64 };

/* Rows first..first+n-1 of the product (and, as a second matrix, of the same with a bias, and
 * of NVFP4, whose matrices come with one, a factor). */
static void product(struct backend *be, enum qtype type, const struct shape *s,
                    const void *blocks, const float *bias, const float *x, uint32_t first,
                    uint32_t n, float *out)
{
    struct trial t;
    struct err err;
    struct ref in = trial_begin(&t, be, x, MAX_ROWS, s->n_cols);
    struct ref a8 = {0};
    if (qtype_info(type)->block_len > 1) {
        a8 = trial_buffer(&t, ROW_A8, s->n_cols);
        trial_op(&t, OP_QUANTISE)->quantise = (struct op_quantise){in, a8};
    }
    struct ref y = trial_buffer(&t, ROW_F32, 2 * s->n_values);
    struct weight *w = backend_matrix(be, type, 1, s->n_values, s->n_cols, blocks, NULL, &err);
    struct weight *b = backend_vector(be, bias, s->n_values, &err);
    assert_non_null(w);
    assert_non_null(b);
    struct op_matmul *op = &trial_op(&t, OP_MATMUL)->matmul;
    *op = (struct op_matmul){.in_f32 = in, .in_a8 = a8, .n_mats = 2};
    op->mat[0].w = op->mat[1].w = w;
    op->mat[0].out = ref_part(y, 0, s->n_values);
    op->mat[1].out = ref_part(y, s->n_values, s->n_values);
    op->mat[1].bias = b;
    if (type == QTYPE_NVFP4) op->mat[1].factor = backend_vector(be, &(float){0.0371f}, 1, &err);
    trial_run(&t, y, first, n, NULL, out);
}

/* The reference against the same product in double: with the activations as A8 has them it
 * must be almost exact, with the true ones as near as ARITHMETIC of A8 allows. */
static void check_accuracy(enum qtype type, const struct shape *s, const void *blocks,
                           const float *x, const float *y)
{
    float *w = mem_zalloc(s->n_values * s->n_cols, sizeof *w);
    qtype_dequant(type, blocks, s->n_values * s->n_cols, w);
    bool quantised = qtype_info(type)->block_len > 1;
    int8_t *q = mem_zalloc(s->n_cols, 1);
    float *d = mem_zalloc(s->n_cols, sizeof *d);
    int16_t *sum = mem_zalloc(s->n_cols, sizeof *sum);
    double error2 = 0, squares = 0;
    /* The few blocks with the largest scales make up all of the sums: the larger blocks are,
     * the more rows it takes for a mean. */
    const size_t n_rows = qtype_info(type)->block_len > 32 ? 16 : 4;
    for (size_t r = 0; r < n_rows; r++) {
        const float *xr = x + r * s->n_cols;
        if (quantised) ref_quantise_row(xr, s->n_cols, q, d, sum);
        for (size_t i = 0; i < s->n_values; i++) {
            double exact = 0, as_stored = 0, magnitude = 0;
            for (size_t k = 0; k < s->n_cols; k++) {
                double wk = (double)w[i * s->n_cols + k];
                double stored = quantised ? (double)q[k] * (double)d[k / 32] : (double)xr[k];
                exact += wk * (double)xr[k];
                as_stored += wk * stored;
                magnitude += fabs(wk * stored);
                squares += wk * (double)xr[k] * wk * (double)xr[k];
            }
            double got = (double)y[r * 2 * s->n_values + i];
            /* Q4_1 and the like cancel within a block, so magnitudes count, not the result. */
            if (fabs(got - as_stored) > 4e-6 * magnitude + 0x1p-49)
                fail_msg("%s: %g, in double %g (sum of magnitudes %g)", qtype_info(type)->name,
                         got, as_stored, magnitude);
            error2 += (got - exact) * (got - exact);
        }
    }
    /* Rounding to 1/254 of a block's maximum: 0.0055 of a dot of normal values, squared 3e-5.
     */
    if (s->n_values >= 16 && error2 > 8e-5 * squares)
        fail_msg("%s: mean square error %g", qtype_info(type)->name, error2 / squares);
    free(w);
    free(q);
    free(d);
    free(sum);
}

/* many: rows of the largest batch; turn: whose it is of the machines that take turns. */
static void check_shape(enum qtype type, const struct shape *s, enum spread spread,
                        uint32_t many, size_t turn, XXH3_state_t *hash)
{
    const uint32_t batches[] = {1, 2, 3, 4, 5, 7, 8, many};
    size_t n_x = MAX_ROWS * s->n_cols, n_y = MAX_ROWS * 2 * s->n_values;
    float *x = mem_zalloc(n_x, sizeof *x), *bias = mem_zalloc(s->n_values, sizeof *bias);
    float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
    uint8_t *blocks = mem_zalloc(qtype_bytes(type, s->n_values * s->n_cols), 1);
    random_floats(spread, x, n_x);
    random_floats(NORMAL, bias, s->n_values);
    random_blocks(type, blocks, s->n_values * s->n_cols);
    product(machines[0].be, type, s, blocks, bias, x, 0, MAX_ROWS, want);
    XXH3_64bits_update(hash, want, n_y * sizeof *want);
    if (spread == NORMAL) check_accuracy(type, s, blocks, x, want);
    char what[96];
    for (int m = 1; m < N_MACHINES; m++) {
        if (machine_skips(&machines[m], turn)) continue;
        uint32_t first = 0;
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            uint32_t n = batches[b];
            if (n == many) first = 0;
            snprintf(what, sizeof what, "%s %zux%zu, %u rows, %s", qtype_info(type)->name,
                     s->n_values, s->n_cols, n, backend_name(machines[m].be));
            product(machines[m].be, type, s, blocks, bias, x, first, n, got);
            assert_same_bits(got, want + first * 2 * s->n_values, n * 2 * s->n_values, what);
            first += n;
        }
    }
    free(x);
    free(bias);
    free(want);
    free(got);
    free(blocks);
}

static void all_types(void **state)
{
    (void)state;
    const struct qtype_info *info;
    for (size_t i = 0; (info = qtype_at(i)); i++) {
        XXH3_state_t *hash = XXH3_createState();
        XXH3_64bits_reset(hash);
        random_seed(info->type + 1);
        const struct shape *shapes;
        size_t n = shapes_of(info->type, &shapes);
        for (size_t s = 0; s < n; s++)
            for (enum spread k = NORMAL; k < N_SPREADS; k++) /* kernels end in 1 to 4 rows */
                if (k == NORMAL || s == 2 || s == 3)
                    check_shape(info->type, &shapes[s], k, MAX_ROWS - s % 4, i + s, hash);
        char name[32];
        snprintf(name, sizeof name, "matmul_%s", info->name);
        assert_hash(name, XXH3_64bits_digest(hash));
        XXH3_freeState(hash);
        say_compared(name);
        /* Weights stay with their backend until it closes. */
        machines_close();
        machines_open();
    }
}

/* Codes and activations at the ends of their ranges, where sums of pairs all but leave 16 bits.
 */
static void ends_of_range(void **state)
{
    (void)state;
    const struct shape s = {.n_values = 16, .n_cols = 64};
    const size_t n_blocks = s.n_values * s.n_cols / 32, n_y = MAX_ROWS * 2 * s.n_values;
    float *x = mem_zalloc(MAX_ROWS * s.n_cols, sizeof *x), bias[16] = {0};
    float *want = mem_zalloc(n_y, sizeof *want), *got = mem_zalloc(n_y, sizeof *got);
    uint8_t *blocks = mem_zalloc(n_blocks, 34);
    for (size_t r = 0; r < MAX_ROWS; r++)
        for (size_t i = 0; i < s.n_cols; i++)
            x[r * s.n_cols + i] = r >> (i % 4) & 1 ? -1.0f : 1.0f;
    for (size_t b = 0; b < n_blocks; b++) {
        blocks[34 * b + 1] = 0x3c;
        for (size_t i = 0; i < 32; i++)
            blocks[34 * b + 2 + i] = b >> (i % 4) & 1 ? 0x80 : 0x7f;
    }
    product(machines[0].be, QTYPE_Q8_0, &s, blocks, bias, x, 0, MAX_ROWS, want);
    for (int m = 1; m < N_MACHINES; m++) {
        if (machine_skips(&machines[m], QTYPE_Q8_0)) continue;
        for (uint32_t n = MAX_ROWS; n >= 1; n /= 4) {
            char what[96];
            snprintf(what, sizeof what, "ends of the range, %u rows, %s", n,
                     backend_name(machines[m].be));
            product(machines[m].be, QTYPE_Q8_0, &s, blocks, bias, x, 0, n, got);
            assert_same_bits(got, want, n * 2 * s.n_values, what);
        }
    }
    free(x);
    free(want);
    free(got);
    free(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_range),
        cmocka_unit_test(all_types),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
