/* Floats become A8: what its numbers are made of. */
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
