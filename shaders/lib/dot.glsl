/* Rows of A8 on the device, and exact dot products with them.
 *
 * A row is a run of blocks of 32 values, each A8_TEXELS texels of four words: the codes, then one
 * texel of scale, the sums of both halves and their sum. With DOT_PACKED (a device that multiplies
 * packed bytes) the codes are bytes, value 4k+i in byte i of word k. Otherwise words 2k and 2k+1
 * hold pairs: x[4k] << 16 + x[4k+2] and x[4k+1] << 16 + x[4k+3]. A pair times a word of two codes,
 * c[0] + c[2] << 16, has c[0] x[0] + c[2] x[2] in its upper half: two products by one
 * multiplication. Sums of these are exact as long as they fit in 16 bits. */
#ifdef DOT_PACKED
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_signed(uint a, uint b, spirv_literal int format);
const uint A8_TEXELS = 3u;
#else
const uint A8_TEXELS = 5u;
#endif

const uint A8_META = A8_TEXELS - 1u; /* texel of a block: scale, sum0, sum1, sum0 + sum1 */

#define A8_HALF_TEXELS ((A8_TEXELS - 1u) / 2u)

/* 16 codes of activations. */
struct a8_half {
    uvec4 a;
#ifndef DOT_PACKED
    uvec4 b;
#endif
};

/* texel(at) names a texel of what they are read from. */
#define A8_LOAD(texel, at, half_out)   \
    {                                  \
        half_out.a = texel(at);        \
        A8_LOAD_B(texel, at, half_out) \
    }
#ifdef DOT_PACKED
#define A8_LOAD_B(texel, at, half_out)
#else
#define A8_LOAD_B(texel, at, half_out) half_out.b = texel((at) + 1u);
#endif

/* The dot product of the four bytes of u with word k of 16 codes of A8; |u| as for dot16. */
int dot4(uint u, a8_half x, int k, bool is_signed)
{
#ifdef DOT_PACKED
    return dot_signed(u, x.a[k], 0);
#else
    uint even = u & 0x00ff00ffu, odd = (u >> 8) & 0x00ff00ffu;
    uint p = k < 2 ? x.a[2 * k] : x.b[2 * k - 4], q = k < 2 ? x.a[2 * k + 1] : x.b[2 * k - 3];
    if (is_signed) {
        even = (even ^ 0x00800080u) - 0x00800080u;
        odd = (odd ^ 0x00800080u) - 0x00800080u;
        return (int(even * p + 0x8000u) >> 16) + (int(odd * q + 0x8000u) >> 16);
    }
    return int(even * p + odd * q + 0x8000u) >> 16; /* codes below 16 */
#endif
}

/* The dot product of 16 codes, u[k] holding values 4k..4k+3 as bytes, with 16 of A8. per:
 * multiplications whose sum fits in 16 bits, 1, 2, 4 or 8: 2 per · max |u| · 127 < 2^15. Codes are
 * signed, or unsigned and below 128. */
int dot16(uvec4 u, a8_half x, int per, bool is_signed)
{
    int sum = 0;
#ifdef DOT_PACKED
    [[unroll]] for (int k = 0; k < 4; k++)
        sum += dot_signed(u[k], x.a[k], 0);
#else
    uint t = 0x8000u;
    [[unroll]] for (int k = 0; k < 8; k++) {
        uint c = (u[k >> 1] >> (8 * (k & 1))) & 0x00ff00ffu;
        if (is_signed) c = (c ^ 0x00800080u) - 0x00800080u;
        t += c * (k < 4 ? x.a[k] : x.b[k - 4]);
        if ((k + 1) % per == 0) {
            sum += int(t) >> 16;
            t = 0x8000u;
        }
    }
#endif
    return sum;
}
