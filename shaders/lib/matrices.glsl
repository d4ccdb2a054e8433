/* Which matrix a work group of a product takes, and the numbers that all products are given: quantised
 * matrices and floats, one matrix, experts, or the matrices that follow each other on one input.
 * Weights, biases and results of all of these lie in what is bound. */
layout(local_size_x_id = 0) in;
layout(constant_id = 3) const int VALUES = 1;
layout(constant_id = 7) const int N_MATS = 1;

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

/* The matrix of this work group, and which of that one's groups it is. */
matrix my_matrix(out uint group)
{
    matrix m = first_mat;
    uint per_group = uint(VALUES) * gl_WorkGroupSize.x;
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
