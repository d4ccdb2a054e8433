/* A causal convolution along the rows, channel by channel: an invocation is one channel of one row.
 * Rows before the step's first are in the state. With SHIFT it makes the state that follows, one
 * invocation per channel: the last n_taps-1 inputs, those of the state before included. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool SHIFT = false;
layout(set = 0, binding = 1, std430) buffer State { float state[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 4, std430) readonly buffer Taps { float taps[]; };
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; };
layout(push_constant) uniform Push {
    uint part, n, n_taps;
    uint in_stride, in_at, out_stride, out_at, state_at;
    uint has_bias, silu, n_rows_at;
};

/* Channel c of row `at`, counted from the oldest row of the state. */
float value(uint at, uint c)
{
    uint n_before = n_taps - 1u;
    return at < n_before ? state[state_at + at * n + c] : x[(at - n_before) * in_stride + in_at + c];
}

void main()
{
    uint c = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y, n_rows = step_words[n_rows_at];
    if (c >= n || row >= n_rows) return;
    if (SHIFT) {
        /* In place: what is read lies behind what was written. */
        for (uint i = 0u; i + 1u < n_taps; i++)
            state[state_at + i * n + c] = value(n_rows + i, c);
        return;
    }
    float sum = fmul(value(row, c), taps[c]);
    for (uint j = 1u; j < n_taps; j++)
        sum = fadd(sum, fmul(value(row + j, c), taps[j * n + c]));
    if (has_bias != 0u) sum = fadd(sum, bias[c]);
    float v = num_keep(sum);
    y[row * out_stride + out_at + c] = silu != 0u ? num_silu(v) : v;
}
