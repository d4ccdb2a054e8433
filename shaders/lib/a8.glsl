/* Thirty-two floats become a block of A8. */
#include "dot.glsl"

void a8_of(float v[32], out uvec4 texels[A8_TEXELS])
{
    uint largest = 0u;
    [[unroll]] for (uint i = 0u; i < 32u; i++) {
        uint a = u_of(v[i]) & NUM_ABS;
        largest = a > largest ? a : largest;
    }
    float m = f_of(largest), scale = num_keep(fmul(m, 1.0 / 127.0));
    float inverse = u_of(scale) == 0u ? 0.0 : fmul(127.0, num_rcp(m));
    bool broken = largest > 0x71800000u; /* 2^100 */
    int q[32], sum0 = 0, sum1 = 0;
    [[unroll]] for (uint i = 0u; i < 32u; i++) {
        q[i] = broken ? 0 : num_rne(fmul(v[i], inverse));
        if (i < 16u)
            sum0 += q[i];
        else
            sum1 += q[i];
    }
#ifdef DOT_PACKED
    uint words[8];
    [[unroll]] for (uint k = 0u; k < 8u; k++)
        words[k] = (uint(q[4u * k]) & 0xffu) | (uint(q[4u * k + 1u]) & 0xffu) << 8 |
                   (uint(q[4u * k + 2u]) & 0xffu) << 16 | uint(q[4u * k + 3u]) << 24;
#else
    uint words[16];
    [[unroll]] for (uint k = 0u; k < 8u; k++) {
        words[2u * k] = (uint(q[4u * k]) << 16) + uint(q[4u * k + 2u]);
        words[2u * k + 1u] = (uint(q[4u * k + 1u]) << 16) + uint(q[4u * k + 3u]);
    }
#endif
    [[unroll]] for (uint k = 0u; k < A8_META; k++)
        texels[k] = uvec4(words[4u * k], words[4u * k + 1u], words[4u * k + 2u], words[4u * k + 3u]);
    texels[A8_META] =
        uvec4(broken ? NUM_NAN : u_of(scale), uint(sum0), uint(sum1), uint(sum0 + sum1));
}
