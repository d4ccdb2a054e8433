/* Quantised matrices on the device, as src/vulkan/pack.c lays them out: a lane is a row.
 *
 * 32 rows make a tile, a tile is a run of stripes of 256 columns, a stripe is a run of planes, a
 * plane one texel of four words per row. First one or two planes of scales, then the codes:
 *   4 bits: plane b is block b; word k holds values 4k.. in low and 16+4k.. in high nibbles
 *   8 bits: planes 2b and 2b+1; word k holds values 4k.. and 16+4k..
 *   2 bits: half of plane b/2; word h holds values 16h+4k.. at bits 2k
 *   1 more bit (after 4 or 2, or alone): word b%4 of plane b/4; values 4k.. at bits k. Alone a code
 *   is twice its bit
 *   2 more bits (after 4): as for 2 bits */
layout(constant_id = 1) const uint TYPE = 2;

const uint TYPE_Q4_0 = 2u, TYPE_Q4_1 = 3u, TYPE_Q5_0 = 6u, TYPE_Q5_1 = 7u, TYPE_Q8_0 = 8u,
           TYPE_Q2_K = 10u, TYPE_Q3_K = 11u, TYPE_Q4_K = 12u, TYPE_Q5_K = 13u, TYPE_Q6_K = 14u,
           TYPE_IQ2_XXS = 16u, TYPE_IQ2_XS = 17u, TYPE_IQ3_XXS = 18u, TYPE_IQ1_S = 19u,
           TYPE_IQ4_NL = 20u, TYPE_IQ3_S = 21u, TYPE_IQ2_S = 22u, TYPE_IQ4_XS = 23u,
           TYPE_IQ1_M = 29u, TYPE_TQ1_0 = 34u, TYPE_TQ2_0 = 35u, TYPE_MXFP4 = 39u,
           TYPE_NVFP4 = 40u, TYPE_Q1_0 = 41u, TYPE_Q2_0 = 42u;

const uint TILE_ROWS = 32u, STRIPE_BLOCKS = 8u;

const bool HAS_MIN = TYPE == TYPE_Q4_1 || TYPE == TYPE_Q5_1 || TYPE == TYPE_Q2_K ||
                     TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K;
/* Types of grids, with three bits a code or four; their scales are nibbles. */
const bool IQ1 = TYPE == TYPE_IQ1_S || TYPE == TYPE_IQ1_M;
const bool IQ2 = TYPE == TYPE_IQ2_XXS || TYPE == TYPE_IQ2_XS || TYPE == TYPE_IQ2_S;
const bool IQ3 = TYPE == TYPE_IQ3_XXS || TYPE == TYPE_IQ3_S;
const bool GRID = IQ1 || IQ2 || IQ3;
const bool HALF_SCALES = TYPE == TYPE_Q2_K || TYPE == TYPE_Q3_K || TYPE == TYPE_Q6_K ||
                         TYPE == TYPE_IQ1_M || TYPE == TYPE_IQ2_XS || TYPE == TYPE_IQ2_S ||
                         TYPE == TYPE_NVFP4;
/* Scales of halves that are too large for an exact integer of both. */
const bool LARGE_SCALES = TYPE == TYPE_NVFP4;
const bool TERNARY = TYPE == TYPE_TQ1_0 || TYPE == TYPE_TQ2_0;
const bool ONE_BIT = TYPE == TYPE_Q1_0;
const bool FIVE_BITS = TYPE == TYPE_Q5_0 || TYPE == TYPE_Q5_1 || TYPE == TYPE_Q5_K;
const bool THREE_BITS = TYPE == TYPE_Q3_K || IQ1 || IQ2;
const bool TWO_BITS = TYPE == TYPE_Q2_K || TYPE == TYPE_Q2_0 || TERNARY || THREE_BITS; /* to begin with */
const bool IQ4 = TYPE == TYPE_IQ4_NL || TYPE == TYPE_IQ4_XS;
const bool CODEBOOK = GRID || IQ4 || TYPE == TYPE_MXFP4 || TYPE == TYPE_NVFP4;
const bool SIGNED_CODES = TYPE == TYPE_Q8_0 || CODEBOOK;
/* Multiplications per sum of dot16. */
const int DOT_PER = TYPE == TYPE_Q8_0 || IQ4                           ? 1
                    : TYPE == TYPE_Q6_K || IQ2 || TYPE == TYPE_IQ3_XXS ? 2
                    : FIVE_BITS                                        ? 4
                                                                       : 8;
/* What unsigned codes are above the values. */
const int CODE_BIAS = TYPE == TYPE_Q4_0   ? 8
                      : TYPE == TYPE_Q5_0 ? 16
                      : TYPE == TYPE_Q3_K ? 4
                      : TYPE == TYPE_Q6_K ? 32
                      : TERNARY || ONE_BIT || TYPE == TYPE_Q2_0 ? 1
                                          : 0;
/* A scale d is of 2^so many blocks. */
const uint D_BLOCKS = TERNARY ? 3u : ONE_BIT ? 2u : TYPE == TYPE_Q2_0 ? 1u : 0u;

const uint HEAD_PLANES =
    TYPE == TYPE_Q4_1 || TYPE == TYPE_Q5_1 || TYPE == TYPE_Q2_K || TYPE == TYPE_Q6_K ? 2u : 1u;
const uint FIRST_PLANES = TYPE == TYPE_Q8_0 ? 16u : TWO_BITS ? 4u : ONE_BIT ? 0u : 8u;
const uint MORE_PLANES = FIVE_BITS || THREE_BITS || ONE_BIT ? 2u : TYPE == TYPE_Q6_K ? 4u : 0u;
const uint STRIPE_PLANES = HEAD_PLANES + FIRST_PLANES + MORE_PLANES;

#ifndef WEIGHT_TEXEL
layout(set = 0, binding = 8) uniform usamplerBuffer weights;
#define WEIGHT_TEXEL(at) texelFetch(weights, int(at))
#endif

/* Texel of plane 0 of a stripe, for a row of the tile. */
uint stripe_at(uint tile, uint n_stripes, uint stripe, uint row)
{
    return (tile * n_stripes + stripe) * STRIPE_PLANES * TILE_ROWS + row;
}

uvec4 plane(uint at, uint i)
{
    return WEIGHT_TEXEL(at + i * TILE_ROWS);
}

/* Plane i of the codes of a stripe: one that was loaded before, or it is loaded now. */
#ifdef HOLDS_CODES
uvec4 held[STRIPE_PLANES - HEAD_PLANES];
#define CODE_PLANE(at, i) (HOLDS_CODES ? held[i] : plane(at, HEAD_PLANES + (i)))
#else
#define CODE_PLANE(at, i) plane(at, HEAD_PLANES + (i))
#endif

struct scales {
    uvec4 a, b;
};

scales load_scales(uint at)
{
    scales s;
    s.a = plane(at, 0u);
    s.b = HEAD_PLANES > 1u ? plane(at, 1u) : uvec4(0u);
    return s;
}

/* One block's numbers: dw and mw are floats, the factors integers of each half. */
struct block {
    uvec4 lo, hi; /* codes of values 0..15 and 16..31 */
    float dw, mw;
    int s0, s1, m0, m1;
};

uint half_of(uvec4 v, uint i)
{
    return (v[i >> 1] >> (16u * (i & 1u))) & 0xffffu;
}

uint byte_of(uint w, uint i)
{
    return (w >> (8u * i)) & 0xffu;
}

int signed_byte(uint w, uint i)
{
    return int(w << (24u - 8u * i)) >> 24;
}

/* Six bits of scale and minimum of group b, as block_q4_k and block_q5_k pack them. */
void scale_and_min(uvec4 head, uint b, out uint scale, out uint min_scale)
{
    uint i = b & 3u;
    uint x = byte_of(head.y, i), y = byte_of(head.z, i), z = byte_of(head.w, i);
    bool is_low = b < 4u;
    scale = is_low ? x & 63u : (z & 15u) | ((x >> 6) << 4);
    min_scale = is_low ? y & 63u : (z >> 4) | ((y >> 6) << 4);
}

/* Scale of half block i of 16 of a Q3_K: low four bits in the first eight bytes, upper two in
 * the last four. */
int scale_q3_k(uvec4 head, uint i)
{
    uint low = byte_of((i & 7u) < 4u ? head.x : head.y, i & 3u) >> (4u * (i >> 3));
    uint high = byte_of(head.z, i & 3u) >> (2u * (i >> 2));
    return int((low & 15u) | ((high & 3u) << 4)) - 32;
}

/* 2^(e - 128), as a block of MXFP4 means it. */
float e8m0_half(uint e)
{
    return f_of(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
}

/* e4m3 without a sign, in units of 2^-9. */
int e4m3(uint e)
{
    return int(e < 8u ? e : (8u | (e & 7u)) << ((e >> 3) - 1u));
}

void read_scales(scales s, uint b, inout block t)
{
    t.mw = 0.0;
    t.s0 = t.s1 = t.m0 = t.m1 = 1;
    if (TYPE == TYPE_Q4_K || TYPE == TYPE_Q5_K) {
        uint scale, min_scale;
        scale_and_min(s.a, b, scale, min_scale);
        t.dw = fmul(num_f16_to_f32(s.a.x & 0xffffu), float(int(scale)));
        t.mw = fmul(num_f16_to_f32(s.a.x >> 16), float(int(min_scale)));
    } else if (TYPE == TYPE_Q6_K) {
        t.dw = num_f16_to_f32(s.b.x & 0xffffu);
        t.s0 = signed_byte(s.a[b >> 1], 2u * (b & 1u));
        t.s1 = signed_byte(s.a[b >> 1], 2u * (b & 1u) + 1u);
    } else if (TYPE == TYPE_Q2_K) {
        uint x = byte_of(s.a[b >> 1], 2u * (b & 1u));
        uint y = byte_of(s.a[b >> 1], 2u * (b & 1u) + 1u);
        t.dw = num_f16_to_f32(s.b.x & 0xffffu);
        t.mw = num_f16_to_f32(s.b.x >> 16);
        t.s0 = int(x & 15u), t.s1 = int(y & 15u), t.m0 = int(x >> 4), t.m1 = int(y >> 4);
    } else if (TYPE == TYPE_Q3_K) {
        t.dw = num_f16_to_f32(s.a.w & 0xffffu);
        t.s0 = scale_q3_k(s.a, 2u * b), t.s1 = scale_q3_k(s.a, 2u * b + 1u);
    } else if (TYPE == TYPE_IQ4_XS) {
        uint low = byte_of(s.a.y, b >> 1) >> (4u * (b & 1u));
        uint high = s.a.x >> (16u + 2u * b);
        int scale = int((low & 15u) | ((high & 3u) << 4)) - 32;
        t.dw = fmul(num_f16_to_f32(s.a.x & 0xffffu), float(scale));
    } else if (GRID) {
        uint n = s.a[1u + (b >> 2)] >> (8u * (b & 3u));
        float unit = TYPE == TYPE_IQ3_S ? 1.0 : TYPE == TYPE_IQ3_XXS ? 0.25 : 0.125;
        t.dw = fmul(num_f16_to_f32(s.a.x & 0xffffu), unit);
        t.s0 = 2 * int(n & 15u) + 1;
        t.s1 = 2 * int(n >> 4 & 15u) + 1;
        if (!HALF_SCALES) {
            t.dw = fmul(t.dw, float(t.s0));
            t.s0 = t.s1 = 1;
        }
    } else if (TYPE == TYPE_MXFP4) {
        t.dw = e8m0_half(byte_of(s.a[b >> 2], b & 3u));
    } else if (TYPE == TYPE_NVFP4) {
        t.dw = 1.0 / 1024.0;
        t.s0 = e4m3(byte_of(s.a[b >> 1], 2u * (b & 1u)));
        t.s1 = e4m3(byte_of(s.a[b >> 1], 2u * (b & 1u) + 1u));
    } else {
        t.dw = num_f16_to_f32(half_of(s.a, b >> D_BLOCKS));
        if (HAS_MIN) t.mw = f_of(u_of(num_f16_to_f32(half_of(s.b, b))) ^ NUM_SIGN);
    }
}

/* Sixteen values by code, a byte each. */
uvec4 codebook()
{
    if (IQ1) return uvec4(0x000901f9u, 0x0007fff7u, 0u, 0u);
    if (IQ2) return uvec4(0x002b1908u, 0x00d5e7f8u, 0u, 0u);
    if (TYPE == TYPE_IQ3_XXS) return uvec4(0x1c140c04u, 0x3e342c24u, 0xe4ecf4fcu, 0xc2ccd4dcu);
    if (TYPE == TYPE_IQ3_S) return uvec4(0x07050301u, 0x0f0d0b09u, 0xf9fbfdffu, 0xf1f3f5f7u);
    if (IQ4) return uvec4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return uvec4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu); /* e2m1 */
}

/* Four codes through the codebook. */
uint look_up(uint codes)
{
    const uvec4 book = codebook();
    uint r = 0u;
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint n = (codes >> (8u * i)) & 15u;
        uint w = n < 8u || TWO_BITS ? (n < 4u ? book.x : book.y) : (n < 12u ? book.z : book.w);
        r |= ((w >> (8u * (n & 3u))) & 0xffu) << (8u * i);
    }
    return r;
}

const uvec4 BITS_1 = uvec4(0u, 1u, 2u, 3u), BITS_2 = uvec4(0u, 2u, 4u, 6u);

void read_codes(uint at, uint b, inout block t)
{
    const uint more = FIRST_PLANES;
    if (TYPE == TYPE_Q8_0) {
        t.lo = CODE_PLANE(at, 2u * b);
        t.hi = CODE_PLANE(at, 2u * b + 1u);
        return;
    }
    if (ONE_BIT) {
        uint w = CODE_PLANE(at, b >> 2)[b & 3u];
        t.lo = ((uvec4(w) >> BITS_1) & 0x01010101u) << 1;
        t.hi = ((uvec4(w) >> (BITS_1 + 4u)) & 0x01010101u) << 1;
        return;
    }
    if (TWO_BITS) {
        uvec4 p = CODE_PLANE(at, b >> 1);
        uint x = (b & 1u) == 0u ? p.x : p.z, y = (b & 1u) == 0u ? p.y : p.w;
        t.lo = (uvec4(x) >> BITS_2) & 0x03030303u;
        t.hi = (uvec4(y) >> BITS_2) & 0x03030303u;
    } else {
        uvec4 p = CODE_PLANE(at, b);
        t.lo = p & 0x0f0f0f0fu;
        t.hi = (p >> 4) & 0x0f0f0f0fu;
    }
    if (TYPE == TYPE_Q6_K) {
        uvec4 p = CODE_PLANE(at, more + (b >> 1));
        uint x = (b & 1u) == 0u ? p.x : p.z, y = (b & 1u) == 0u ? p.y : p.w;
        t.lo |= ((uvec4(x) >> BITS_2) & 0x03030303u) << 4;
        t.hi |= ((uvec4(y) >> BITS_2) & 0x03030303u) << 4;
    }
    if (FIVE_BITS || THREE_BITS) {
        uint w = CODE_PLANE(at, more + (b >> 2))[b & 3u];
        int shift = FIVE_BITS ? 4 : 2;
        t.lo |= ((uvec4(w) >> BITS_1) & 0x01010101u) << shift;
        t.hi |= ((uvec4(w) >> (BITS_1 + 4u)) & 0x01010101u) << shift;
    }
    if (CODEBOOK) {
        t.lo = uvec4(look_up(t.lo.x), look_up(t.lo.y), look_up(t.lo.z), look_up(t.lo.w));
        t.hi = uvec4(look_up(t.hi.x), look_up(t.hi.y), look_up(t.hi.z), look_up(t.hi.w));
    }
}
