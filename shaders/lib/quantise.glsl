/* A row of floats becomes A8: BLOCK_LANES invocations are a block of 32 values. With GATED the floats
 * are what a gated unit makes of two rows, and are written too. */
#include "step.glsl"
#include "numeric.glsl"
#include "glu.glsl"

layout(local_size_x_id = 0) in; /* a multiple of 8 */
layout(constant_id = 1) const bool GATED = false;
layout(constant_id = 2) const uint GLU = 0;
layout(constant_id = 3) const uint BLOCK_LANES = 8; /* or 1 */
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint codes[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) SHARED_PLACE readonly buffer Up { float up[]; };
layout(set = 0, binding = 4, std430) SHARED_PLACE writeonly buffer Floats { float floats[]; }; /* may be x or up */
layout(push_constant) uniform Push {
    uint part, n_blocks;
    uint in_stride, in_at;   /* floats */
    uint out_stride, out_at; /* texels */
    uint up_stride, up_at, floats_stride, floats_at;
};

#include "a8_block.glsl"

void main()
{
    uint row = step_first_row(part) + gl_WorkGroupID.y;
    if (row >= step_n_rows()) return;
    uint at = A8_EACH * gl_GlobalInvocationID.x, from = row * in_stride + in_at + at;
    bool is_wanted = at < 32u * n_blocks;
    float v[32];
    [[unroll]] for (uint i = 0u; i < A8_EACH; i++)
        v[i] = 0.0;
    if (is_wanted) {
        [[unroll]] for (uint i = 0u; i < A8_EACH; i++)
            v[i] = x[from + i];
        if (GATED) {
            uint up_from = row * up_stride + up_at + at, to = row * floats_stride + floats_at + at;
            [[unroll]] for (uint i = 0u; i < A8_EACH; i++)
                v[i] = glu(GLU, v[i], up[up_from + i]);
            [[unroll]] for (uint i = 0u; i < A8_EACH; i++)
                floats[to + i] = v[i];
        }
    }
    a8_put(row * out_stride + out_at + at / 32u * A8_TEXELS, v, is_wanted);
}
