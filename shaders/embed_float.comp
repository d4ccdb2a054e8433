/* Rows of an F32, F16 or BF16 matrix by token or position, kept, times a scale: an invocation is a column. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TYPE = 0;
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 8) uniform usamplerBuffer weights;
layout(push_constant) uniform Push {
    uint part, n_columns;
    uint out_stride, out_at;
    uint tokens_at; /* word of the step; 0: positions are what rows are read by */
    uint first_token, n_tokens; /* that the weights are of */
    float scale;
};

const uint TYPE_F32 = 0u, TYPE_F16 = 1u, TILE_ROWS = 32u, WIDTH = TYPE == TYPE_F32 ? 4u : 8u;

void main()
{
    uint i = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (i >= n_columns || row >= step_n_rows()) return;
    uint token = step_table_row(tokens_at, row) - first_token;
    if (token >= n_tokens) return;
    uint n_planes = (n_columns + WIDTH - 1u) / WIDTH;
    uint at = (token / TILE_ROWS * n_planes + i / WIDTH) * TILE_ROWS + token % TILE_ROWS;
    uvec4 w = texelFetch(weights, int(at));
    uint bits = TYPE == TYPE_F32 ? w[i % 4u] : (w[i % 8u / 2u] >> (16u * (i & 1u))) & 0xffffu;
    float x = TYPE == TYPE_F32   ? f_of(bits)
              : TYPE == TYPE_F16 ? num_f16_to_f32(bits)
                                 : f_of(bits << 16);
    y[row * out_stride + out_at + i] = num_keep(fmul(num_keep(x), scale));
}
