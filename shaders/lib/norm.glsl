/* RMS norm of groups of a row: a work group of 32 lanes is one group of one row. With QUANTISES it
 * also makes A8 of the group, a lane a block. With ROTATES the groups are heads, which are rotated by
 * the row's position, a lane pairs; the heads from second_group on have weights of their own. */
#include "step.glsl"
#include "numeric.glsl"
#include "row_sum.glsl"
#include "a8.glsl"

layout(local_size_x_id = 0) in; /* 32 */
layout(constant_id = 1) const bool WEIGHTED = true;
layout(constant_id = 2) const bool QUANTISES = false;
layout(constant_id = 3) const uint ROTATES = 0; /* 1: dims 2i and 2i+1, 2: dims i and i + n/2 */
layout(set = 0, binding = 1, std430) SHARED_PLACE coherent buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight { float w[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Codes { uvec4 codes[]; };
layout(push_constant) uniform Push {
    uint part, n; /* values of a group */
    uint in_stride, in_at, out_stride, out_at;
    float inverse_n, eps;
    uint w_stride; /* from the weights of one group to those of the next */
    uint codes_stride, codes_at; /* texels */
    uint w_at, second_group, second_w_at;
    uint n_pairs, table_at; /* word of the step: cosines, then sines, of each row */
};

/* What the norm makes of value i of the group. */
float normed(uint from, uint weights, uint i, float r)
{
    float v = num_keep(fmul(x[from + i], r));
    return WEIGHTED ? num_keep(fmul(v, w[weights + i])) : v;
}

void rotate(uint from, uint to, uint weights, float r, uint row)
{
    uint lane = gl_LocalInvocationID.x, table = table_at + row * 2u * n_pairs;
    for (uint i = lane; i < n_pairs; i += 32u) {
        uint a = ROTATES == 2u ? i : 2u * i, b = ROTATES == 2u ? i + n_pairs : 2u * i + 1u;
        float c = f_of(step_words[table + i]), s = f_of(step_words[table + n_pairs + i]);
        float x0 = normed(from, weights, a, r), x1 = normed(from, weights, b, r);
        y[to + a] = num_keep(fsub(fmul(x0, c), fmul(x1, s)));
        y[to + b] = num_keep(fadd(fmul(x0, s), fmul(x1, c)));
    }
}

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
    uint weights = gl_WorkGroupID.x * w_stride;
    if (ROTATES != 0u) {
        weights += gl_WorkGroupID.x < second_group ? w_at : second_w_at;
        rotate(from, to, weights, r, row);
    }
    for (uint i = lane + (ROTATES != 0u ? 2u * n_pairs : 0u); i < n; i += 32u)
        y[to + i] = normed(from, weights, i, r);
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
