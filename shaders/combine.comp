/* The experts' outputs of a row, weighted and added by rank: an invocation is one value. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Route { uint route[]; };
layout(push_constant) uniform Push {
    uint part, n, n_used;
    uint in_stride, in_at, out_stride, out_at, route_stride, route_at;
};

void main()
{
    uint i = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (i >= n || row >= step_n_rows()) return;
    uint from = row * in_stride + in_at + i, ranks = row * route_stride + 2u * route_at + 1u;
    float sum = fmul(x[from], f_of(route[ranks]));
    for (uint j = 1u; j < n_used; j++)
        sum = fadd(sum, fmul(x[from + j * n], f_of(route[ranks + 2u * j])));
    y[row * out_stride + out_at + i] = num_keep(sum);
}
