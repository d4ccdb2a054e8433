/* Folds the pages that attend_page.comp left, left to right, and divides by the sum: a work group
 * is a head, a lane a dim. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(set = 0, binding = 0, std430) readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { float result[]; }; /* [head][dim] */
layout(push_constant, std430) uniform Push { uint n_pages; };

void main()
{
    uint head = gl_WorkGroupID.x, d = gl_LocalInvocationID.x;
    uint at = head * n_pages * (HEAD_DIM + 2u);
    float m = parts[at], sum = parts[at + 1u], o = parts[at + 2u + d];
    for (uint page = 1u; page < n_pages; page++) {
        at += HEAD_DIM + 2u;
        float page_m = parts[at], new_m = page_m > m ? page_m : m;
        float a = num_exp(fsub(m, new_m)), b = num_exp(fsub(page_m, new_m));
        sum = fadd(fmul(sum, a), fmul(parts[at + 1u], b));
        o = num_keep(fadd(fmul(o, a), fmul(parts[at + 2u + d], b)));
        m = new_m;
    }
    result[head * HEAD_DIM + d] = num_keep(fmul(o, num_rcp(sum)));
}
