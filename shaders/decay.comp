/* What a recurrent layer keeps of its state, and by how much a row counts: an invocation is one head
 * of one row. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool BETAS = false;
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) readonly buffer A { float a[]; };
layout(push_constant) uniform Push {
    uint part, n_heads, run;
    uint in_stride, in_at, out_stride, out_at;
};

void main()
{
    uint h = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (h >= n_heads || row >= step_n_rows()) return;
    uint from = row * in_stride + in_at, to = row * out_stride + out_at;
    uint beta_at = from + h / run * 2u * run + h % run, dt_at = BETAS ? beta_at + run : from + h;
    float dt = num_softplus(num_keep(fadd(x[dt_at], bias[h])));
    y[to + h] = num_exp(num_keep(fmul(dt, a[h])));
    y[to + n_heads + h] = BETAS ? num_keep(num_sigmoid(x[beta_at])) : dt;
}
