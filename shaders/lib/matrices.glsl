/* What products of quantised matrices and of floats share: what is bound and pushed, which matrix and
 * values a lane has, and how sums of stripes are folded. There is one matrix, or experts, of which a
 * work group takes one row and one rank of the route (EXPERTS), or matrices that follow each other
 * on one input (N_MATS); weights, biases and results of all of them lie in what is bound. */
layout(local_size_x_id = 0) in;
layout(constant_id = 2) const int ROWS = 1;
layout(constant_id = 3) const int VALUES = 1;
layout(constant_id = 4) const uint N_SHARE = 0; /* experts in a row that have a matrix; 0: no experts */
const bool EXPERTS = N_SHARE > 0u;
layout(constant_id = 5) const bool WIDE = false; /* matmul.glsl says what that is */
layout(constant_id = 7) const int N_MATS = 1;
/* The stripes of a row that as many parts of a group take at once, a part a stripe. If there are
 * several, a part has as many lanes as a tile has rows, and VALUES is 1. */
layout(constant_id = 8) const int SPLIT = 1;
const int TILE_LANES = 32; /* rows of a tile */

layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3, std430) readonly buffer Route { uint route[]; };
layout(set = 0, binding = 6, std430) readonly buffer Weights { uvec4 weight_texels[]; };
layout(set = 0, binding = 7, std430) readonly buffer Activations { uvec4 activation_texels[]; };
layout(set = 0, binding = 8) uniform usamplerBuffer weights;
layout(set = 0, binding = 9) uniform usamplerBuffer activations;
#define WEIGHT_TEXEL(at) (WIDE ? weight_texels[at] : texelFetch(weights, int(at)))
#define ACTIVATION_TEXEL(at) (WIDE ? activation_texels[at] : texelFetch(activations, int(at)))

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
    uint route_stride, route_at;
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

/* What a lane works on. */
struct task {
    matrix mat;
    uint n_tiles, tile_0; /* of the matrix, or of the expert's */
    uint first, n_rows;   /* rows of the part under way */
    uint row, rank, expert;
    uint value; /* the first of its values, which are PART_LANES apart */
    uint mine;  /* its part of the group */
    uint x_row; /* texel of its row of activations */
};

/* False: the group has nothing to do. */
bool find_task(out task t)
{
    uint group;
    t.mat = my_matrix(group);
    t.n_tiles = (t.mat.n_values + uint(TILE_LANES) - 1u) / uint(TILE_LANES);
    t.first = step_first_row(part);
    t.n_rows = step_n_rows();
    t.row = t.first + (EXPERTS ? gl_WorkGroupID.z : gl_WorkGroupID.y * uint(ROWS));
    t.rank = EXPERTS ? gl_WorkGroupID.y : 0u;
    if (t.row >= t.n_rows) return false;
    t.expert = EXPERTS ? route[t.row * route_stride + 2u * (route_at + t.rank)] / N_SHARE : 0u;
    t.tile_0 = (t.expert * n_parts + mat_part) * t.n_tiles;
    t.value = group * uint(VALUES) * PART_LANES + gl_LocalInvocationID.x % PART_LANES;
    t.mine = gl_LocalInvocationID.x / PART_LANES;
    t.x_row = x_at + t.row * x_stride + t.rank * x_split;
    return true;
}

/* Value v of those of a lane, as an index of the matrix's rows; one that there is. */
uint value_row(task t, int v)
{
    uint i = t.value + uint(v) * PART_LANES;
    return i < t.n_tiles * uint(TILE_LANES) ? i : t.value;
}

float acc[VALUES * ROWS]; /* of the stripe at hand: value t of row r is at t ROWS + r */
/* Folded: of part m of a group, value t of row k SPLIT + m is at t FOLDS + k. */
float total[VALUES * FOLDS];
shared float stripe_sums[SPLIT > 1 ? SPLIT * ROWS * TILE_LANES : 1];

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
        stripe_sums[(mine * ROWS + r) * TILE_LANES + lane] = acc[r];
    barrier();
    [[unroll]] for (int k = 0; k < FOLDS; k++) {
        int r = k * SPLIT + mine;
        for (int j = 0; j < n && r < ROWS; j++) {
            float sum = stripe_sums[(j * ROWS + r) * TILE_LANES + lane];
            total[k] = s_0 == 0u && j == 0 ? sum : fadd(total[k], sum);
        }
    }
    barrier();
}

/* Value i of the result. */
float with_bias(task t, uint i, float sum)
{
    if (t.mat.bias_at != NO_BIAS) sum = fadd(sum, bias[t.mat.bias_at + t.expert * rank_values + i]);
    return num_keep(sum);
}

void put(task t, uint row, uint i, float v)
{
    row -= rebase != 0u ? t.first : 0u;
    y[row * t.mat.out_stride + t.mat.out_at + t.rank * rank_values + i] = v;
}
