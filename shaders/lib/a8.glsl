/* Floats become A8: what its numbers are made of, and a whole block of thirty-two. */
#include "dot.glsl"

/* The scale of values of which m is the largest magnitude, and what they are multiplied by. */
float a8_scale(float m)
{
    return num_keep(fmul(m, 1.0 / 127.0));
}

float a8_inverse(float m)
{
    return u_of(a8_scale(m)) == 0u ? 0.0 : fmul(127.0, num_rcp(m));
}

/* The words of four codes. */
#ifdef DOT_PACKED
const uint A8_WORDS = 1u;
#else
const uint A8_WORDS = 2u;
#endif

void a8_words(int c0, int c1, int c2, int c3, out uint words[A8_WORDS])
{
#ifdef DOT_PACKED
    words[0] = (uint(c0) & 0xffu) | (uint(c1) & 0xffu) << 8 | (uint(c2) & 0xffu) << 16 |
               uint(c3) << 24;
#else
    words[0] = (uint(c0) << 16) + uint(c2);
    words[1] = (uint(c1) << 16) + uint(c3);
#endif
}

void a8_of(float v[32], out uvec4 texels[A8_TEXELS])
{
    uint largest = 0u;
    [[unroll]] for (uint i = 0u; i < 32u; i++) {
        uint a = u_of(v[i]) & NUM_ABS;
        largest = a > largest ? a : largest;
    }
    float m = f_of(largest), inverse = a8_inverse(m);
    bool broken = largest > 0x71800000u; /* 2^100 */
    int q[32], sum0 = 0, sum1 = 0;
    [[unroll]] for (uint i = 0u; i < 32u; i++) {
        q[i] = broken ? 0 : num_rne(fmul(v[i], inverse));
        if (i < 16u)
            sum0 += q[i];
        else
            sum1 += q[i];
    }
    uint words[8u * A8_WORDS];
    [[unroll]] for (uint k = 0u; k < 8u; k++) {
        uint four[A8_WORDS];
        a8_words(q[4u * k], q[4u * k + 1u], q[4u * k + 2u], q[4u * k + 3u], four);
        [[unroll]] for (uint i = 0u; i < A8_WORDS; i++)
            words[A8_WORDS * k + i] = four[i];
    }
    [[unroll]] for (uint k = 0u; k < A8_META; k++)
        texels[k] = uvec4(words[4u * k], words[4u * k + 1u], words[4u * k + 2u], words[4u * k + 3u]);
    texels[A8_META] =
        uvec4(broken ? NUM_NAN : u_of(a8_scale(m)), uint(sum0), uint(sum1), uint(sum0 + sum1));
}
