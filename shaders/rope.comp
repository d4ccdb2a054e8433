/* Rotates heads in place by the row's position: an invocation is one pair of one head. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool NEOX = false; /* dims i and i + n/2, otherwise 2i and 2i+1 */
layout(set = 0, binding = 1, std430) buffer X { float x[]; };
layout(push_constant) uniform Push {
    uint part, n_heads, head_dim, n_pairs;
    uint stride, at;
    uint table_at; /* word of the step: cosines, then sines, of each row */
};

void main()
{
    uint i = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (i >= n_heads * n_pairs || row >= step_n_rows()) return;
    uint pair = i % n_pairs, head = row * stride + at + i / n_pairs * head_dim;
    uint a = head + (NEOX ? pair : 2u * pair), b = head + (NEOX ? pair + n_pairs : 2u * pair + 1u);
    uint table = table_at + row * 2u * n_pairs;
    float c = f_of(step_words[table + pair]), s = f_of(step_words[table + n_pairs + pair]);
    float x0 = x[a], x1 = x[b];
    x[a] = num_keep(fsub(fmul(x0, c), fmul(x1, s)));
    x[b] = num_keep(fadd(fmul(x0, s), fmul(x1, c)));
}
