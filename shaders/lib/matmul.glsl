/* Products of a quantised matrix with rows of A8: a lane is a row of the matrix (or TILES rows, one
 * of each tile), a work group takes ROWS rows of activations. Every column of the result is the
 * reference's: exact integers per block, blocks added in order in stripes, stripes folded.
 *
 * With EXPERTS a work group takes one row and one rank of the route, which names the matrix. */
#include "step.glsl"
#include "numeric.glsl"
#include "weights.glsl"
#include "dot.glsl"

layout(local_size_x_id = 0) in; /* 32: the rows of a tile */
layout(constant_id = 2) const int ROWS = 1;
layout(constant_id = 3) const int TILES = 1;
layout(constant_id = 4) const bool EXPERTS = false;

layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3, std430) readonly buffer Route { uint route[]; };
layout(set = 0, binding = 9) uniform usamplerBuffer activations;

layout(push_constant) uniform Push {
    uint part, rebase; /* rebase: row 0 of the output is the part's first */
    uint n_values, n_blocks;
    uint x_stride, x_at; /* in texels */
    uint out_stride, out_at;
    uint n_used, route_stride, route_at;
    uint x_split; /* texels between the inputs of two ranks */
    uint n_parts, mat_part;
    uint has_bias;
};

void main()
{
    uint lane = gl_LocalInvocationID.x, first = step_first_row(part), n_rows = step_n_rows();
    uint n_tiles = (n_values + TILE_ROWS - 1u) / TILE_ROWS;
    uint n_stripes = (n_blocks + STRIPE_BLOCKS - 1u) / STRIPE_BLOCKS;
    uint row = first + (EXPERTS ? gl_WorkGroupID.y / n_used : gl_WorkGroupID.y * uint(ROWS));
    uint rank = EXPERTS ? gl_WorkGroupID.y % n_used : 0u;
    if (row >= n_rows) return;
    uint expert = EXPERTS ? route[row * route_stride + 2u * (route_at + rank)] : 0u;
    uint tile = gl_WorkGroupID.x * uint(TILES), tile_0 = (expert * n_parts + mat_part) * n_tiles;
    uint x_row = x_at + row * x_stride + rank * x_split;

    float total[TILES * ROWS], acc[TILES * ROWS];
    for (uint s = 0u; s < n_stripes; s++) {
        uint at[TILES];
        scales head[TILES];
        [[unroll]] for (int t = 0; t < TILES; t++) {
            uint i = tile + uint(t) < n_tiles ? tile + uint(t) : tile;
            at[t] = stripe_at(tile_0 + i, n_stripes, s, lane);
            head[t] = load_scales(at[t]);
        }
        uint left = n_blocks - s * STRIPE_BLOCKS, n = left < STRIPE_BLOCKS ? left : STRIPE_BLOCKS;
        for (uint b = 0u; b < n; b++) {
            block w[TILES];
            [[unroll]] for (int t = 0; t < TILES; t++) {
                read_scales(head[t], b, w[t]);
                if (TYPE == TYPE_MXFP4) w[t].dw = num_keep(w[t].dw);
                read_codes(at[t], b, w[t]);
            }
            [[unroll]] for (int r = 0; r < ROWS; r++) {
                uint x = x_row + uint(r) * x_stride + (s * STRIPE_BLOCKS + b) * A8_TEXELS;
                a8_half lo, hi;
                A8_LOAD(activations, x, lo)
                A8_LOAD(activations, x + A8_HALF_TEXELS, hi)
                uvec4 meta = texelFetch(activations, int(x + A8_META));
                float da = f_of(meta.x);
                int sum0 = int(meta.y), sum1 = int(meta.z), sums = int(meta.w);
                [[unroll]] for (int t = 0; t < TILES; t++) {
                    int i0 = dot16(w[t].lo, lo, DOT_PER, SIGNED_CODES);
                    int i1 = dot16(w[t].hi, hi, DOT_PER, SIGNED_CODES);
                    int i = HALF_SCALES ? w[t].s0 * (i0 - CODE_BIAS * sum0) +
                                              w[t].s1 * (i1 - CODE_BIAS * sum1)
                                        : i0 + i1 - CODE_BIAS * sums;
                    int k = t * ROWS + r;
                    float term = fmul(fmul(da, w[t].dw), float(i));
                    acc[k] = b == 0u ? term : fadd(acc[k], term);
                    if (HAS_MIN) {
                        int j = HALF_SCALES ? w[t].m0 * sum0 + w[t].m1 * sum1 : sums;
                        acc[k] = fsub(acc[k], fmul(w[t].mw, fmul(da, float(j))));
                    }
                }
            }
        }
        [[unroll]] for (int k = 0; k < TILES * ROWS; k++)
            total[k] = s == 0u ? acc[k] : fadd(total[k], acc[k]);
    }
    [[unroll]] for (int t = 0; t < TILES; t++) {
        uint i = (tile + uint(t)) * TILE_ROWS + lane;
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            uint to = row + uint(r);
            if (i >= n_values || to >= n_rows) continue;
            float v = total[t * ROWS + r];
            if (has_bias != 0u) v = fadd(v, bias[expert * n_values + i]);
            to -= rebase != 0u ? first : 0u;
            y[to * out_stride + out_at + rank * n_values + i] = num_keep(v);
        }
    }
}
