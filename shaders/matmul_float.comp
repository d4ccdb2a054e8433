/* Products of F32, F16 and BF16 matrices with rows of floats: a lane has VALUES rows of the matrix,
 * as many lanes apart as there are. Products are added in order in stripes of 256, stripes folded.
 *
 * A tile of 32 rows is a run of planes, one texel of each row: four columns of F32, eight of the
 * others. With EXPERTS a work group takes one row and one rank of the route. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"
#include "numeric.glsl"
#include "matrices.glsl"

layout(constant_id = 1) const uint TYPE = 0;
layout(constant_id = 2) const int ROWS = 1;
layout(constant_id = 4) const bool EXPERTS = false;

layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 3, std430) readonly buffer Route { uint route[]; };
layout(set = 0, binding = 8) uniform usamplerBuffer weights;
layout(set = 0, binding = 9) uniform usamplerBuffer activations;

const uint TYPE_F32 = 0u, TYPE_F16 = 1u, TILE_ROWS = 32u, STRIPE = 256u;
const uint WIDTH = TYPE == TYPE_F32 ? 4u : 8u; /* columns of a texel */

float weight_of(uvec4 w, uint i)
{
    if (TYPE == TYPE_F32) return f_of(w[i]);
    uint bits = (w[i >> 1] >> (16u * (i & 1u))) & 0xffffu;
    return TYPE == TYPE_F16 ? num_f16_to_f32(bits) : f_of(bits << 16);
}

void main()
{
    uint first = step_first_row(part), n_rows = step_n_rows(), group;
    matrix mat = my_matrix(group);
    uint n_values = mat.n_values, n_columns = n_in;
    uint n_tiles = (n_values + TILE_ROWS - 1u) / TILE_ROWS;
    uint n_planes = (n_columns + WIDTH - 1u) / WIDTH;
    uint row = first + (EXPERTS ? gl_WorkGroupID.y / n_used : gl_WorkGroupID.y * uint(ROWS));
    uint rank = EXPERTS ? gl_WorkGroupID.y % n_used : 0u;
    if (row >= n_rows) return;
    uint expert = EXPERTS ? route[row * route_stride + 2u * (route_at + rank)] : 0u;
    uint i_0 = group * uint(VALUES) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint tile_0 = (expert * n_parts + mat_part) * n_tiles;
    uint x_row = x_at + row * x_stride + rank * x_split;

    float total[VALUES * ROWS], acc[VALUES * ROWS];
    for (uint p = 0u; p < n_planes; p++) {
        uvec4 w[VALUES];
        [[unroll]] for (int t = 0; t < VALUES; t++) {
            uint i = i_0 + uint(t) * gl_WorkGroupSize.x;
            i = i < n_tiles * TILE_ROWS ? i : i_0;
            uint tile = tile_0 + i / TILE_ROWS;
            w[t] = texelFetch(weights, int(mat.w_at + (tile * n_planes + p) * TILE_ROWS + i % TILE_ROWS));
        }
        uint column = p * WIDTH;
        bool opens = column % STRIPE == 0u;
        bool closes = (column + WIDTH) % STRIPE == 0u || p + 1u == n_planes;
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            uint at = x_row + uint(r) * x_stride + column / 4u;
            [[unroll]] for (uint q = 0u; q < WIDTH; q += 4u) {
                uvec4 x = texelFetch(activations, int(at + q / 4u));
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    bool is_there = column + q + i < n_columns;
                    [[unroll]] for (int t = 0; t < VALUES; t++) {
                        int k = t * ROWS + r;
                        float term = fmul(f_of(x[i]), weight_of(w[t], q + i));
                        float sum = opens && q + i == 0u ? term : fadd(acc[k], term);
                        acc[k] = is_there ? sum : acc[k];
                    }
                }
            }
        }
        [[unroll]] for (int k = 0; k < VALUES * ROWS; k++)
            if (closes) total[k] = column < STRIPE ? acc[k] : fadd(total[k], acc[k]);
    }
    [[unroll]] for (int t = 0; t < VALUES; t++) {
        uint i = i_0 + uint(t) * gl_WorkGroupSize.x;
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            uint to = row + uint(r);
            if (i >= n_values || to >= n_rows) continue;
            float v = total[t * ROWS + r];
            if (mat.bias_at != NO_BIAS) v = fadd(v, bias[mat.bias_at + expert * rank_values + i]);
            to -= rebase != 0u ? first : 0u;
            y[to * mat.out_stride + mat.out_at + rank * rank_values + i] = num_keep(v);
        }
    }
}
