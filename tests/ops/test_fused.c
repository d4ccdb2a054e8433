/* Ops that a device makes by one dispatch where they follow each other: a norm and the A8 of
 * its result, a product and its sum with another row. All rows on the way have the reference's
 * bits.
 */
#include "ops.h"

#include "matmul_case.h"

enum { N_ROWS = 16, N_VALUES = 72, MAX_WIDTH = 1120 };

struct chain_case {
    size_t width, group; /* of the norm */
    bool product_first;  /* of the two that are added */
    float scale;
};

static const struct chain_case cases[] = {
    {32, 32, false, 1},    {96, 32, true, 1},         {256, 256, false, 0.75f},
    {1120, 1120, true, 1}, {1120, 1120, true, 0.75f},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static uint8_t blocks[N_VALUES * MAX_WIDTH];
static float norm_weights[MAX_WIDTH];

/* The norm's result, the product, the sum in place of the first N_VALUES of the input, all in
 * one buffer. */
static size_t run_chain(struct backend *be, const struct chain_case *c, const float *x,
                        uint32_t first, uint32_t n, float *out)
{
    struct trial t;
    struct err err;
    const size_t all = c->width + 3 * N_VALUES;
    struct ref in = trial_begin(&t, be, x, N_ROWS, all);
    struct ref a8 = trial_buffer(&t, ROW_A8, c->width);
    struct ref normed = ref_part(in, 0, c->width); /* in place */
    struct ref product = ref_part(in, c->width, N_VALUES);
    struct ref other = ref_part(in, c->width + N_VALUES, N_VALUES);
    struct ref sum = ref_part(in, c->width + 2 * N_VALUES, N_VALUES);
    struct weight *w = backend_vector(be, norm_weights, c->group, &err);
    struct weight *m =
        backend_matrix(be, QTYPE_Q4_0, 1, N_VALUES, c->width, blocks, NULL, &err);
    assert_non_null(w);
    assert_non_null(m);
    trial_op(&t, OP_NORM)->norm = (struct op_norm){normed, normed, w, c->group, 1e-6f};
    trial_op(&t, OP_QUANTISE)->quantise = (struct op_quantise){normed, a8};
    struct op_matmul *op = &trial_op(&t, OP_MATMUL)->matmul;
    *op = (struct op_matmul){.in_a8 = a8, .n_mats = 1};
    op->mat[0].w = m;
    op->mat[0].out = product;
    trial_op(&t, OP_ADD)->add = c->product_first
                                    ? (struct op_add){product, other, sum, c->scale}
                                    : (struct op_add){other, product, other, c->scale};
    trial_run(&t, in, first, n, NULL, out);
    return all;
}

static void one_case(const struct chain_case *c, enum spread spread)
{
    static const uint32_t batches[] = {1, 2, 3, 9, N_ROWS};
    const size_t most = N_ROWS * (MAX_WIDTH + 3 * N_VALUES);
    float *x = mem_zalloc(most, sizeof *x), *want = mem_zalloc(most, sizeof *want);
    float *got = mem_zalloc(most, sizeof *got);
    random_floats(spread, x, most);
    size_t all = run_chain(machines[0].be, c, x, 0, N_ROWS, want);
    for (int m = 1; m < N_MACHINES; m++)
        for (size_t b = 0; machines[m].be && b < sizeof batches / sizeof *batches; b++) {
            const uint32_t n = batches[b], first = N_ROWS - n;
            char what[96];
            snprintf(what, sizeof what, "norm of %zu by %zu and product, %u rows, %s", c->width,
                     c->group, n, backend_name(machines[m].be));
            run_chain(machines[m].be, c, x, first, n, got);
            assert_same_bits(got, want + first * all, n * all, what);
        }
    free(x);
    free(want);
    free(got);
}

static void all_cases(void **state)
{
    (void)state;
    random_seed(8);
    random_blocks(QTYPE_Q4_0, blocks, N_VALUES * MAX_WIDTH);
    random_floats(NORMAL, norm_weights, MAX_WIDTH);
    for (size_t i = 0; i < N_CASES; i++)
        for (enum spread k = NORMAL; k < N_SPREADS; k++)
            one_case(&cases[i], k);
    say_compared("fused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
