/* Queries become A8 where keys are codes: a work group is one head of one row. The query is turned,
 * and its scales, as many as those of a key, make scores of products; ref_attend_q.c.
 * With one scale every block has it. */
#include "step.glsl"
#include "numeric.glsl"
#include "a8.glsl"
#include "head_row.glsl"

layout(constant_id = 1) const bool ONE_SCALE = false;
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint y[]; };
layout(set = 0, binding = 2, std430) readonly buffer In { float x[]; };
layout(push_constant) uniform Push {
    uint part, dim;
    uint in_stride, in_at; /* floats */
    uint out_stride;       /* texels */
    float factor;          /* of the scales */
};

shared int sums[MAX_DIM / 16u]; /* of sixteen codes each */

void main()
{
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint row = step_first_row(part) + gl_WorkGroupID.y, head = gl_WorkGroupID.x;
    if (row >= step_n_rows()) return;
    for (uint i = lane; i < dim / 16u; i += lanes)
        sums[i] = 0;
    head_row_begin();
    for (uint i = lane; i < dim; i += lanes)
        head_row_put(i, x[row * in_stride + in_at + head * dim + i]);
    head_row_turn(dim);
    head_row_measure(dim, ONE_SCALE);

    uint to = 4u * (row * out_stride + head * (dim / 32u) * A8_TEXELS); /* words */
    bool broken = head_broken != 0u;
    for (uint i = 4u * lane; i < dim; i += 4u * lanes) {
        float inverse = a8_inverse(f_of(head_most[ONE_SCALE ? 0u : i / 32u] >> 1));
        int c[4];
        [[unroll]] for (uint k = 0u; k < 4u; k++)
            c[k] = broken ? 0 : num_rne(fmul(head_row[i + k], inverse));
        uint words[A8_WORDS], at = to + i / 32u * (4u * A8_TEXELS) + i % 32u / 4u * A8_WORDS;
        a8_words(c[0], c[1], c[2], c[3], words);
        [[unroll]] for (uint k = 0u; k < A8_WORDS; k++)
            y[at + k] = words[k];
        atomicAdd(sums[i / 16u], c[0] + c[1] + c[2] + c[3]);
    }
    barrier();
    for (uint b = lane; b < dim / 32u; b += lanes) {
        uint at = to + 4u * (b * A8_TEXELS + A8_META);
        float scale = num_keep(fmul(a8_scale(f_of(head_most[ONE_SCALE ? 0u : b] >> 1)), factor));
        y[at] = broken ? NUM_NAN : u_of(scale);
        y[at + 1u] = uint(sums[2u * b]);
        y[at + 2u] = uint(sums[2u * b + 1u]);
        y[at + 3u] = uint(sums[2u * b] + sums[2u * b + 1u]);
    }
}
