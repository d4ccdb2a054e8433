/* Which matrix a work group of a product takes, the numbers that all products are given, and how sums
 * of stripes are folded: quantised matrices and floats, one matrix, experts, or the matrices that
 * follow each other on one input. Weights, biases and results of all of these lie in what is bound. */
layout(local_size_x_id = 0) in;
layout(constant_id = 2) const int ROWS = 1;
layout(constant_id = 3) const int VALUES = 1;
layout(constant_id = 5) const bool WIDE = false;
layout(constant_id = 7) const int N_MATS = 1;
/* The stripes of a row that as many parts of a group take at once, a part a stripe. */
layout(constant_id = 8) const int SPLIT = 1;

struct matrix {
    uint n_values; /* rows, of each expert's; a matrix may be a piece of a larger one */
    uint w_at; /* texel at which its tiles begin */
    uint out_stride, out_at;
    uint bias_at; /* or NO_BIAS */
};

const uint NO_BIAS = 0xffffffffu;

layout(push_constant) uniform Push {
    uint part, rebase;   /* rebase: row 0 of the output is the part's first */
    uint n_in;           /* columns: blocks of A8, or floats */
    uint x_stride, x_at; /* in texels */
    matrix first_mat;
    uint n_used, route_stride, route_at;
    uint x_split; /* texels between the inputs of two ranks */
    uint n_parts, mat_part;
    uint rank_values; /* of the result from rank to rank, and of the bias from expert to expert */
    uint addends_stride, addends_at, sums_stride, sums_at;
    float factor;
    matrix more_mats[2];
};

/* Lanes of a part, and rows of activations whose results one of them folds. */
#define PART_LANES (gl_WorkGroupSize.x / uint(SPLIT))
const int FOLDS = (ROWS + SPLIT - 1) / SPLIT;

/* The matrix of this work group, and which of that one's groups it is. */
matrix my_matrix(out uint group)
{
    matrix m = first_mat;
    uint per_group = uint(VALUES) * PART_LANES;
    group = gl_WorkGroupID.x;
    [[unroll]] for (int i = 0; i + 1 < N_MATS; i++) {
        uint n_groups = (m.n_values + per_group - 1u) / per_group;
        if (group >= n_groups) {
            group -= n_groups;
            m = more_mats[i];
        }
    }
    return m;
}

float acc[VALUES * ROWS]; /* of the stripe at hand: value t of row r is at t ROWS + r */
/* Folded: of part m of a group, value t of row k SPLIT + m is at t FOLDS + k. */
float total[VALUES * FOLDS];
shared float stripe_sums[SPLIT > 1 ? SPLIT * ROWS * 32 : 1];

/* Adds the sums of the stripes s_0.. that the parts have at hand, in order. All lanes call it. */
void fold_stripes(uint s_0, uint n_stripes)
{
    if (SPLIT == 1) {
        [[unroll]] for (int k = 0; k < VALUES * ROWS; k++)
            total[k] = s_0 == 0u ? acc[k] : fadd(total[k], acc[k]);
        return;
    }
    int lane = int(gl_LocalInvocationID.x % PART_LANES), mine = int(gl_LocalInvocationID.x / PART_LANES);
    int n = int(n_stripes - s_0) < SPLIT ? int(n_stripes - s_0) : SPLIT;
    [[unroll]] for (int r = 0; r < ROWS; r++)
        stripe_sums[(mine * ROWS + r) * 32 + lane] = acc[r];
    barrier();
    [[unroll]] for (int k = 0; k < FOLDS; k++) {
        int r = k * SPLIT + mine;
        for (int j = 0; j < n && r < ROWS; j++) {
            float sum = stripe_sums[(j * ROWS + r) * 32 + lane];
            total[k] = s_0 == 0u && j == 0 ? sum : fadd(total[k], sum);
        }
    }
    barrier();
}
