/* What a recurrent layer keeps of its state, and by how much a row counts: an invocation is one
 * decay of one row. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool BETAS = false;
layout(constant_id = 2) const bool FIXED = false; /* decays are of the heads alone */
layout(constant_id = 3) const bool BOUNDED = false;
layout(constant_id = 4) const bool BY_EXP = false;
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) readonly buffer A { float a[]; };
layout(push_constant) uniform Push {
    uint part, n_heads, run, n_each; /* decays of a head */
    uint in_stride, in_at, out_stride, out_at;
    float bound;
};

void main()
{
    uint at = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (at >= n_heads * n_each || row >= step_n_rows()) return;
    uint h = at / n_each, from = row * in_stride + in_at, to = row * out_stride + out_at;
    if (FIXED) {
        y[to + at] = num_exp(num_keep(a[h]));
        y[to + n_heads + at] = 1.0;
        return;
    }
    uint runs = from + h / run * run * (n_each + 1u);
    uint dt_at = BETAS ? runs + run + h % run * n_each + at % n_each : from + at;
    float shifted = num_keep(fadd(x[dt_at], bias[at]));
    float dt = BY_EXP ? num_exp(shifted) : num_softplus(shifted);
    float size = f_of(u_of(a[h]) & 0x7fffffffu); /* without its sign */
    if (BOUNDED)
        y[to + at] =
            num_exp(num_keep(fmul(num_keep(num_sigmoid(num_keep(fmul(shifted, size)))), bound)));
    else
        y[to + at] = num_exp(num_keep(fmul(dt, a[h])));
    if (at % n_each != 0u) return;
    y[to + n_heads * n_each + h] = BETAS ? num_keep(num_sigmoid(x[runs + h % run])) : dt;
}
