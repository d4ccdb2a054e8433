/* RMS norm of groups of a row: a work group of 32 lanes is one group of one row. With QUANTISES it
 * also makes A8 of the group, a lane a block. */
#include "step.glsl"
#include "numeric.glsl"
#include "row_sum.glsl"
#include "a8.glsl"

layout(local_size_x_id = 0) in; /* 32 */
layout(constant_id = 1) const bool WEIGHTED = true;
layout(constant_id = 2) const bool QUANTISES = false;
layout(set = 0, binding = 1, std430) coherent buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight { float w[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Codes { uvec4 codes[]; };
layout(push_constant) uniform Push {
    uint part, n; /* values of a group */
    uint in_stride, in_at, out_stride, out_at;
    float inverse_n, eps;
    uint w_stride; /* from the weights of one group to those of the next */
    uint codes_stride, codes_at; /* texels */
};

void main()
{
    uint lane = gl_LocalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (row >= step_n_rows()) return;
    uint from = row * in_stride + in_at + gl_WorkGroupID.x * n;
    uint to = row * out_stride + out_at + gl_WorkGroupID.x * n;
    float partial = 0.0;
    for (uint i = lane; i < n; i += 32u) {
        float term = fmul(x[from + i], x[from + i]);
        partial = i < 32u ? term : fadd(partial, term);
    }
    float mean = fmul(row_fold(partial, n), inverse_n);
    float r = num_rsqrt(fadd(mean, eps));
    for (uint i = lane; i < n; i += 32u) {
        float v = num_keep(fmul(x[from + i], r));
        y[to + i] = WEIGHTED ? num_keep(fmul(v, w[gl_WorkGroupID.x * w_stride + i])) : v;
    }
    if (!QUANTISES) return;
    memoryBarrierBuffer();
    barrier();
    for (uint b = lane; b < n / 32u; b += 32u) {
        float v[32];
        [[unroll]] for (uint i = 0u; i < 32u; i++)
            v[i] = y[to + b * 32u + i];
        uvec4 texels[A8_TEXELS];
        a8_of(v, texels);
        uint at = row * codes_stride + codes_at + (gl_WorkGroupID.x * (n / 32u) + b) * A8_TEXELS;
        [[unroll]] for (uint k = 0u; k < A8_TEXELS; k++)
            codes[at + k] = texels[k];
    }
}
