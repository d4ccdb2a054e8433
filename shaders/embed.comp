/* Rows of a quantised matrix by token or position: an invocation decodes one block of 32 columns of one row. The
 * values are those of the file, kept, times a scale. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"
#include "numeric.glsl"
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(push_constant) uniform Push {
    uint part, n_blocks;
    uint out_stride, out_at;
    uint tokens_at; /* word of the step; 0: positions are what rows are read by */
    uint first_token, n_tokens; /* that the weights are of */
    float scale;
};

float value(uvec4 codes, uint i, int factor, int minimum, block t)
{
    uint c = byte_of(codes[i >> 2], i & 3u);
    int q = SIGNED_CODES ? int(c << 24) >> 24 : int(c) - CODE_BIAS;
    float d = HALF_SCALES ? fmul(t.dw, float(factor)) : t.dw;
    float w = fmul(d, float(q));
    if (HAS_MIN) w = fsub(w, HALF_SCALES ? fmul(t.mw, float(minimum)) : t.mw);
    return num_keep(fmul(num_keep(w), scale));
}

void main()
{
    uint b = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (b >= n_blocks || row >= step_n_rows()) return;
    uint token = step_table_row(tokens_at, row) - first_token;
    if (token >= n_tokens) return;
    uint n_stripes = (n_blocks + STRIPE_BLOCKS - 1u) / STRIPE_BLOCKS;
    uint at = stripe_at(token / TILE_ROWS, n_stripes, b / STRIPE_BLOCKS, token % TILE_ROWS);
    block t;
    read_scales(load_scales(at), b % STRIPE_BLOCKS, t);
    read_codes(at, b % STRIPE_BLOCKS, t);
    uint to = row * out_stride + out_at + b * 32u;
    [[unroll]] for (uint i = 0u; i < 16u; i++) {
        y[to + i] = value(t.lo, i, t.s0, t.m0, t);
        y[to + 16u + i] = value(t.hi, i, t.s1, t.m1, t);
    }
}
