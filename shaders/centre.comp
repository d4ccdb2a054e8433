/* Groups of a row less their means, the size of a row, or what of it is above a multiple of that: a
 * work group of 32 lanes is a group, so a lane has the terms of a partial sum. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"
#include "row_sum.glsl"

layout(local_size_x_id = 0) in; /* 32 */
layout(constant_id = 1) const uint KIND = 0;
layout(set = 0, binding = 1, std430) SHARED_PLACE buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer In { float x[]; };
layout(push_constant) uniform Push {
    uint part, n; /* values of a group */
    uint in_stride, in_at, out_stride, out_at;
    float inverse_n, factor;
};

const uint CENTRE = 0u, SIZE = 1u; /* else CUT */

/* What the mean is of. */
float term(float v)
{
    return KIND == CENTRE ? v : fmul(v, v);
}

void main()
{
    uint lane = gl_LocalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (row >= step_n_rows()) return;
    uint at = gl_WorkGroupID.x * n;
    uint from = row * in_stride + in_at + at, to = row * out_stride + out_at + at;
    float partial = 0.0;
    for (uint i = lane; i < n; i += 32u)
        partial = i < 32u ? term(x[from + i]) : fadd(partial, term(x[from + i]));
    float mean = fmul(row_fold(partial, n), inverse_n);
    if (KIND == CENTRE) {
        for (uint i = lane; i < n; i += 32u)
            y[to + i] = num_keep(fsub(x[from + i], mean));
        return;
    }
    float size = num_keep(fmul(mean, num_rsqrt(mean)));
    if (KIND == SIZE) {
        if (lane == 0u) y[to] = size;
        return;
    }
    float least = num_keep(fmul(size, factor));
    for (uint i = lane; i < n; i += 32u)
        y[to + i] = num_keep(num_relu(fsub(x[from + i], least)));
}
