/* Products with experts: each chosen expert's is the plain product with its matrix, whichever
 * rows share it, in all batches on all machines. */
#include "ops.h"

#include "matmul_case.h"

enum { N_ROWS = 70, N_EXPERTS = 7, N_USED = 3, N_OUT = 40, N_PARTS = 2, MAX_COLS = 256 };

struct experts_case {
    enum qtype type;
    size_t n_cols;
    uint32_t n_share; /* experts in a row that have one matrix; 0: each its own */
};

static const struct experts_case cases[] = {
    {QTYPE_F32, 96, 0},      {QTYPE_BF16, 72, 0},   {QTYPE_F16, 40, 0},
    {QTYPE_Q8_0, 96, 0},     {QTYPE_Q4_0, 160, 0},  {QTYPE_MXFP4, 96, 0},
    {QTYPE_Q4_K, 256, 0},    {QTYPE_Q6_K, 256, 0},  {QTYPE_IQ2_S, 256, 0},
    {QTYPE_IQ3_XXS, 256, 0}, {QTYPE_NVFP4, 192, 0}, {QTYPE_Q1_0, 128, 0},
    {QTYPE_F32, 96, 2},      {QTYPE_Q8_0, 96, 2},   {QTYPE_Q4_K, 256, 3},
    {QTYPE_NVFP4, 192, 2},
};

static uint8_t blocks[N_EXPERTS * N_PARTS * N_OUT * MAX_COLS * 4];
static float bias[N_EXPERTS * N_OUT];
static const float factors[N_EXPERTS] = {0.3f, -1.7f, 0.0f, 2.0f, 1e-3f, 1.0f, 0.9f};

/* The input's columns in the kind that the type reads. */
static struct ref as_read(struct trial *t, enum qtype type, struct ref in)
{
    if (qtype_info(type)->block_len == 1) return in;
    struct ref a8 = trial_buffer(t, ROW_A8, in.n);
    trial_op(t, OP_QUANTISE)->quantise = (struct op_quantise){in, a8};
    return a8;
}

static void set_input(enum qtype type, struct ref in, struct ref *f32, struct ref *a8)
{
    if (qtype_info(type)->block_len == 1)
        *f32 = in;
    else
        *a8 = in;
}

/* A row is the scores, then as many columns as there are ranks to split, each n_cols. */
static size_t width_of(const struct experts_case *c, bool split)
{
    return 32 + (split ? N_USED : 1) * c->n_cols;
}

/* Of the second of two parts of each expert, with a bias, and of NVFP4 with factors. */
static void run(struct backend *be, const struct experts_case *c, bool split, const float *x,
                uint32_t first, uint32_t n, float *out)
{
    struct trial t;
    struct err err;
    struct ref in = trial_begin(&t, be, x, N_ROWS, width_of(c, split));
    struct ref route = trial_buffer(&t, ROW_ROUTE, N_USED);
    struct ref y = trial_buffer(&t, ROW_F32, N_USED * N_OUT);
    struct ref cols = ref_part(in, 32, in.n - 32);
    trial_op(&t, OP_ROUTE)->route = (struct op_route){
        .scores = ref_part(in, 0, N_EXPERTS), .out = route, .kind = ROUTE_SOFTMAX, .scale = 1};
    struct op_matmul_experts ex = {.route = route,
                                   .out = y,
                                   .split = split,
                                   .n_parts = N_PARTS,
                                   .part = 1,
                                   .n_share = c->n_share,
                                   .bias = backend_vector(be, bias, N_EXPERTS * N_OUT, &err)};
    ex.w =
        backend_matrix(be, c->type, N_EXPERTS * N_PARTS, N_OUT, c->n_cols, blocks, NULL, &err);
    if (c->type == QTYPE_NVFP4) ex.factors = backend_vector(be, factors, N_EXPERTS, &err);
    set_input(c->type, as_read(&t, c->type, cols), &ex.in_f32, &ex.in_a8);
    trial_op(&t, OP_MATMUL_EXPERTS)->experts = ex;
    trial_run(&t, y, first, n, NULL, out);
}

/* The same of one row and rank as a plain product with the expert's matrix. */
static void plain(struct backend *be, const struct experts_case *c, bool split, const float *x,
                  uint32_t row, size_t rank, size_t expert, float *out)
{
    struct trial t;
    struct err err;
    struct ref in = trial_begin(&t, be, x, N_ROWS, width_of(c, split));
    struct ref cols = ref_part(in, 32 + (split ? rank * c->n_cols : 0), c->n_cols);
    struct ref y = trial_buffer(&t, ROW_F32, N_OUT);
    size_t at = qtype_bytes(c->type, (expert * N_PARTS + 1) * N_OUT * c->n_cols);
    struct op_matmul mm = {.n_mats = 1};
    mm.mat[0].w = backend_matrix(be, c->type, 1, N_OUT, c->n_cols, blocks + at, NULL, &err);
    mm.mat[0].bias = backend_vector(be, bias + expert * N_OUT, N_OUT, &err);
    if (c->type == QTYPE_NVFP4)
        mm.mat[0].factor = backend_vector(be, factors + expert, 1, &err);
    mm.mat[0].out = y;
    set_input(c->type, as_read(&t, c->type, cols), &mm.in_f32, &mm.in_a8);
    trial_op(&t, OP_MATMUL)->matmul = mm;
    trial_run(&t, y, row, 1, NULL, out);
}

static void by_score(const float *scores, size_t chosen[N_USED])
{
    for (size_t j = 0; j < N_USED; j++) {
        chosen[j] = N_EXPERTS;
        for (size_t e = 0; e < N_EXPERTS; e++) {
            bool taken = false;
            for (size_t k = 0; k < j; k++)
                taken = taken || chosen[k] == e;
            if (!taken && (chosen[j] == N_EXPERTS || scores[e] > scores[chosen[j]]))
                chosen[j] = e;
        }
    }
}

static void one_case(const struct experts_case *c, bool split)
{
    static const uint32_t batches[] = {1, 2, 5, 33, N_ROWS};
    size_t width = width_of(c, split), n_y = N_USED * N_OUT;
    float *x = mem_zalloc(N_ROWS * width, sizeof *x), one[N_OUT];
    float *want = mem_zalloc(N_ROWS * n_y, sizeof *want);
    float *got = mem_zalloc(N_ROWS * n_y, sizeof *got);
    random_blocks(c->type, blocks, N_EXPERTS * N_PARTS * N_OUT * c->n_cols);
    random_floats(NORMAL, bias, N_EXPERTS * N_OUT);
    random_floats(NORMAL, x, N_ROWS * width);
    for (size_t r = 0; r < N_ROWS;
         r++) /* one expert that most rows choose, one that none does */
        x[r * width] += 3, x[r * width + 1] -= 100;
    run(machines[0].be, c, split, x, 0, N_ROWS, want);
    for (uint32_t r = 0; r < N_ROWS; r += 9) {
        size_t chosen[N_USED];
        by_score(x + r * width, chosen);
        for (size_t j = 0; j < N_USED; j++) {
            plain(machines[0].be, c, split, x, r, j, chosen[j] / (c->n_share ? c->n_share : 1),
                  one);
            assert_same_bits(want + r * n_y + j * N_OUT, one, N_OUT, qtype_info(c->type)->name);
        }
    }
    for (int m = 0; m < N_MACHINES; m++) {
        for (size_t b = 0; machines[m].be && b < sizeof batches / sizeof *batches; b++) {
            char what[96];
            snprintf(what, sizeof what, "%s%s, %u share, in batches of %u, %s",
                     qtype_info(c->type)->name, split ? " split" : "", c->n_share, batches[b],
                     backend_name(machines[m].be));
            for (uint32_t first = 0; first < N_ROWS; first += batches[b]) {
                uint32_t n = N_ROWS - first < batches[b] ? N_ROWS - first : batches[b];
                run(machines[m].be, c, split, x, first, n, got + first * n_y);
            }
            assert_same_bits(got, want, N_ROWS * n_y, what);
        }
    }
    free(x);
    free(want);
    free(got);
}

static void all_cases(void **state)
{
    (void)state;
    random_seed(21);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        one_case(&cases[i], false);
        one_case(&cases[i], true);
        machines_close();
        machines_open();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_cases)};
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
