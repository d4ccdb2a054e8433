/* Products of F32, F16 and BF16 matrices with rows of floats: a lane has VALUES rows of the matrix,
 * as many lanes apart as there are. Products are added in order in stripes of 256, stripes folded;
 * SPLIT parts of a work group take stripes that follow each other, as in lib/matmul.glsl.
 *
 * A tile of 32 rows is a run of planes, one texel of each row: four columns of F32, eight of the
 * others. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"
#include "numeric.glsl"
#include "matrices.glsl"

layout(constant_id = 1) const uint TYPE = 0;

const uint TYPE_F32 = 0u, TYPE_F16 = 1u, TILE_ROWS = 32u, STRIPE = 256u;
const uint WIDTH = TYPE == TYPE_F32 ? 4u : 8u; /* columns of a texel */
/* Planes that a lane asks for at once. */
const uint AHEAD = WIDE ? 8u : 1u;

float weight_of(uvec4 w, uint i)
{
    if (TYPE == TYPE_F32) return f_of(w[i]);
    uint bits = (w[i >> 1] >> (16u * (i & 1u))) & 0xffffu;
    return TYPE == TYPE_F16 ? num_f16_to_f32(bits) : f_of(bits << 16);
}

uint at[VALUES]; /* texels of plane 0 of the lane's rows */

/* The columns of a plane, whose texels are w. */
void add_plane(uint column, uint x_row, uvec4 w[VALUES])
{
    bool opens = column % STRIPE == 0u;
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        uint x_plane = x_row + uint(r) * x_stride + column / 4u;
        [[unroll]] for (uint q = 0u; q < WIDTH; q += 4u) {
            uvec4 x = ACTIVATION_TEXEL(x_plane + q / 4u);
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                bool is_there = column + q + i < n_in;
                [[unroll]] for (int t = 0; t < VALUES; t++) {
                    int k = t * ROWS + r;
                    float term = fmul(f_of(x[i]), weight_of(w[t], q + i));
                    float sum = opens && q + i == 0u ? term : fadd(acc[k], term);
                    acc[k] = is_there ? sum : acc[k];
                }
            }
        }
    }
}

/* acc becomes the sums over planes p..end-1, a stripe. */
void add_stripe(uint p, uint end, uint x_row)
{
    for (; p < end; p += AHEAD) {
        uvec4 w[AHEAD][VALUES];
        [[unroll]] for (uint k = 0u; k < AHEAD; k++)
            [[unroll]] for (int t = 0; t < VALUES; t++)
                w[k][t] = WEIGHT_TEXEL(at[t] + (p + k < end ? p + k : p) * TILE_ROWS);
        [[unroll]] for (uint k = 0u; k < AHEAD; k++)
            if (p + k < end) add_plane((p + k) * WIDTH, x_row, w[k]);
    }
}

void main()
{
    task t;
    if (!find_task(t)) return;
    uint n_planes = (n_in + WIDTH - 1u) / WIDTH, n_stripes = (n_in + STRIPE - 1u) / STRIPE;
    [[unroll]] for (int v = 0; v < VALUES; v++) {
        uint i = value_row(t, v), tile = t.tile_0 + i / TILE_ROWS;
        at[v] = t.mat.w_at + tile * n_planes * TILE_ROWS + i % TILE_ROWS;
    }
    for (uint s_0 = 0u; s_0 < n_stripes; s_0 += uint(SPLIT)) {
        uint s = s_0 + t.mine, p = s * (STRIPE / WIDTH), end = p + STRIPE / WIDTH;
        if (s < n_stripes) add_stripe(p, end < n_planes ? end : n_planes, t.x_row);
        fold_stripes(s_0, n_stripes);
    }
    [[unroll]] for (int v = 0; v < VALUES; v++) {
        uint i = t.value + uint(v) * PART_LANES;
        [[unroll]] for (int k = 0; k < FOLDS; k++) {
            uint r = uint(k * SPLIT) + t.mine, to = t.row + r;
            if (i < t.mat.n_values && r < uint(ROWS) && to < t.n_rows)
                put(t, to, i, with_bias(t, i, total[v * FOLDS + k]));
        }
    }
}
