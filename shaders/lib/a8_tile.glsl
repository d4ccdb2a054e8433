/* A8 of values that a work group has in shared memory. Include it in the place of a8_block.glsl, with
 * the constant A8_TILE, how many these are at most, before it. */
#include "a8_block.glsl"

shared float a8_tile[A8_TILE];

/* The first n values, put there by any lane, to texel `to` and those behind it. All lanes call it;
 * a lane that makes blocks alone leaves when there is none left. */
void a8_put_tile(uint to, uint n)
{
    uint own = A8_EACH * gl_LocalInvocationID.x, alone = BLOCK_LANES == 1u ? own : 0u;
    barrier();
    for (uint at = 0u; at + alone < n; at += A8_EACH * gl_WorkGroupSize.x) {
        bool is_wanted = at + own < n;
        float v[32];
        [[unroll]] for (uint i = 0u; i < A8_EACH; i++) {
            v[i] = 0.0;
            if (is_wanted) v[i] = a8_tile[at + own + i];
        }
        a8_put(to + (at + own) / 32u * A8_TEXELS, v, is_wanted);
    }
}
