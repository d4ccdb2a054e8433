/* A row of floats becomes A8: an invocation is one block of 32 values. With GATED the floats are what
 * a gated unit makes of two rows, and are written too. */
#include "step.glsl"
#include "numeric.glsl"
#include "a8.glsl"
#include "glu.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool GATED = false;
layout(constant_id = 2) const uint GLU = 0;
layout(set = 0, binding = 1, std430) writeonly buffer Out { uvec4 y[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) SHARED_PLACE readonly buffer Up { float up[]; };
layout(set = 0, binding = 4, std430) SHARED_PLACE writeonly buffer Floats { float floats[]; }; /* may be x or up */
layout(push_constant) uniform Push {
    uint part, n_blocks;
    uint in_stride, in_at;   /* floats */
    uint out_stride, out_at; /* texels */
    uint up_stride, up_at, floats_stride, floats_at;
};

void main()
{
    uint b = gl_GlobalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (b >= n_blocks || row >= step_n_rows()) return;
    uint from = row * in_stride + in_at + b * 32u, to = row * out_stride + out_at + b * A8_TEXELS;
    float v[32];
    [[unroll]] for (uint i = 0u; i < 32u; i++)
        v[i] = x[from + i];
    if (GATED) {
        uint up_from = row * up_stride + up_at + b * 32u;
        uint floats_to = row * floats_stride + floats_at + b * 32u;
        [[unroll]] for (uint i = 0u; i < 32u; i++)
            v[i] = glu(GLU, v[i], up[up_from + i]);
        [[unroll]] for (uint i = 0u; i < 32u; i++)
            floats[floats_to + i] = v[i];
    }
    uvec4 texels[A8_TEXELS];
    a8_of(v, texels);
    [[unroll]] for (uint k = 0u; k < A8_TEXELS; k++)
        y[to + k] = texels[k];
}
