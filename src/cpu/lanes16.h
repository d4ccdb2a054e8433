/* More of sixteen lanes (vec16.h): choices by lane, transpositions, numbers as bytes, e^x and
 * 2^x of what is below 0. As plain C where the compiler has no AVX-512. */
#ifndef CPU_LANES16_H
#define CPU_LANES16_H

#include <stdbool.h>

#include "cpu/vec16.h"

enum {
    Z_LANES = 16,
    /* Vectors that are taken through a long chain together: what one adds and multiplies waits
     * for itself. us of 8 rows of 3072 values, in cache, with 4, 6 and 8: SiLU 14.0 11.5 10.4,
     * GELU 19.0 15.3 13.3; a convolution of 6144 channels 35.2 31.8 30.9 (Zen 5, 2026-11). */
    Z_AT_ONCE = 8,
};

VEC_INLINE iz z_all_i(int32_t x)
{
    return (iz)z_all_u((uint32_t)x);
}

VEC_INLINE void z_store_f(float *p, fz v)
{
    z_store(p, (bz)v);
}

#ifdef __AVX512VNNI__

typedef __mmask16 mz; /* some of the lanes */

/* Sixteen bfloat16. */
VEC_INLINE fz z_bf16(const void *p)
{
    return (fz)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
}

/* In each quarter, sixteen bytes: four by four, rows become columns. */
VEC_INLINE __m512i z_turn_fours(__m512i v)
{
    static const uint8_t order[] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const __m128i quarter = _mm_loadu_si128((const __m128i *)order);
    return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(quarter));
}

/* Sixteen bytes of each of four rows, so many bytes apart: those of a column side by side. */
VEC_INLINE bz z_columns(const uint8_t *row, size_t apart)
{
    static const int32_t words[] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)row));
    UNROLL for (int i = 1; i < 4; i++) v = _mm512_mask_broadcast_i32x4(
        v, (__mmask16)(0xf << 4 * i), _mm_loadu_si128((const __m128i *)(row + i * apart)));
    return (bz)z_turn_fours(_mm512_permutexvar_epi32((__m512i)z_load(words), v));
}

VEC_INLINE mz z_less(iz a, iz b)
{
    return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
}

/* Not below; a NaN is not. */
VEC_INLINE mz z_reaches(fz a, fz b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

/* a + b in the lanes of m, 0 in the others. */
VEC_INLINE iz z_sum_where(mz m, iz a, iz b)
{
    return (iz)_mm512_maskz_add_epi32(m, (__m512i)a, (__m512i)b);
}

/* a in the lanes of m, b in the others. */
VEC_INLINE fz z_choose(mz m, fz a, fz b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

/* a · b in the lanes of m, 0 in the others. */
VEC_INLINE fz z_product_where(mz m, fz a, fz b)
{
    return _mm512_maskz_mul_ps(m, a, b);
}

VEC_INLINE bool z_any(mz m)
{
    return m != 0;
}

/* All bits in the lanes of m, none in the others. */
VEC_INLINE iz z_lanes(mz m)
{
    return (iz)_mm512_movm_epi32(m);
}

/* The larger of each lane; b where one is a NaN. */
VEC_INLINE fz z_max(fz a, fz b)
{
    return _mm512_max_ps(a, b);
}

/* The smaller of each lane; b where one is a NaN. */
VEC_INLINE fz z_min(fz a, fz b)
{
    return _mm512_min_ps(a, b);
}

VEC_INLINE iz z_max_i(iz a, iz b)
{
    return (iz)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

/* a · 2^k for integers k, where both are normal; a NaN of either stays one, and k is finite.
 * It never waits for the pipes of products, as an addition to the exponent does (Zen 4). */
VEC_INLINE fz z_times_power(fz a, fz k)
{
    return _mm512_scalef_ps(a, k);
}

/* Four vectors of 0 to 255 rounded to nearest, ties to even, as bytes: those of a lane side by
 * side. Of a NaN it is 0. */
VEC_INLINE bz z_bytes(const fz v[4])
{
    const __m512i low = _mm512_packus_epi32(_mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]));
    const __m512i high =
        _mm512_packus_epi32(_mm512_cvtps_epi32(v[2]), _mm512_cvtps_epi32(v[3]));
    return (bz)z_turn_fours(_mm512_packus_epi16(low, high));
}

/* c - a · b where the product is exact: one rounding or two are the same. */
VEC_INLINE fz z_less_exact(fz c, fz a, fz b)
{
    return _mm512_fnmadd_ps(a, b, c);
}

/* c + a · b, rounded twice, or once where the product is exact and that is the same. */
VEC_INLINE fz z_plus_product(bool exact, fz c, fz a, fz b)
{
    return exact ? (fz)_mm512_fmadd_ps(a, b, c) : c + a * b;
}

#else

typedef iz mz;

VEC_INLINE fz z_bf16(const void *p)
{
    uint16_t h[Z_LANES];
    uz v = {0};
    memcpy(h, p, sizeof h);
    for (int i = 0; i < Z_LANES; i++)
        v[i] = (uint32_t)h[i] << 16;
    return (fz)v;
}

VEC_INLINE bz z_columns(const uint8_t *row, size_t apart)
{
    bz v = {0};
    for (int i = 0; i < 4 * Z_LANES; i++)
        v[i] = row[i % 4 * apart + i / 4];
    return v;
}

VEC_INLINE mz z_less(iz a, iz b)
{
    return a < b;
}

VEC_INLINE mz z_reaches(fz a, fz b)
{
    return ~(a < b);
}

VEC_INLINE iz z_sum_where(mz m, iz a, iz b)
{
    return m & (iz)((uz)a + (uz)b);
}

VEC_INLINE fz z_choose(mz m, fz a, fz b)
{
    return (fz)(((iz)a & m) | ((iz)b & ~m));
}

VEC_INLINE fz z_product_where(mz m, fz a, fz b)
{
    return (fz)((iz)(a * b) & m);
}

VEC_INLINE bool z_any(mz m)
{
    bool any = false;
    for (int i = 0; i < Z_LANES; i++)
        any = any || m[i] != 0;
    return any;
}

VEC_INLINE iz z_lanes(mz m)
{
    return m;
}

VEC_INLINE fz z_max(fz a, fz b)
{
    return z_choose(a > b, a, b);
}

VEC_INLINE fz z_min(fz a, fz b)
{
    return z_choose(a < b, a, b);
}

VEC_INLINE iz z_max_i(iz a, iz b)
{
    return (a & (a > b)) | (b & ~(a > b));
}

VEC_INLINE fz z_less_exact(fz c, fz a, fz b)
{
    return c - a * b;
}

VEC_INLINE fz z_times_power(fz a, fz k)
{
    return (fz)((uz)a + ((uz)(k + z_all(12582912.0f)) << 23)); /* its low bits are k */
}

VEC_INLINE bz z_bytes(const fz v[4])
{
    bz to = {0};
    for (int i = 0; i < 4 * Z_LANES; i++)
        to[i] = (uint8_t)((iz)(v[i % 4] + z_all(12582912.0f)))[i / 4]; /* rne (numeric.h) */
    return to;
}

VEC_INLINE fz z_plus_product(bool exact, fz c, fz a, fz b)
{
    (void)exact;
    return c + a * b;
}

#endif

/* Lanes of 2^-50 or more, or a NaN: what keep leaves. */
VEC_INLINE mz z_stays(fz v)
{
    return z_less(z_all_i(NUM_SMALL - 1), (iz)((uz)v & NUM_ABS));
}

/* 0 where |v| is below 2^-50; a NaN may be any of its patterns. */
VEC_INLINE fz z_clip(fz v)
{
    return z_choose(z_stays(v), v, z_all(0));
}

/* The low bytes of four vectors, those of a lane side by side. */
VEC_INLINE bz z_quad(iz a, iz b, iz c, iz d)
{
    return (bz)((a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | (iz)((uz)d << 24));
}

/* num16_narrow of what is below 2^100. */
VEC_INLINE fz z_narrow(fz x)
{
    return (fz)(((uz)x + 0x400u) & 0xfffff800u);
}

/* num16_keep by masks. */
VEC_INLINE fz z_kept(fz x)
{
    const iz size = (iz)((uz)x & NUM_ABS);
    return z_choose(z_less(z_all_i((int32_t)NUM_INF), size), (fz)z_all_u(NUM_NAN), z_clip(x));
}

/* Sixteen rows of sixteen become columns. */
VEC_INLINE void z_transpose(iz v[Z_LANES])
{
#define MIX(d, low, high)                                 \
    UNROLL for (int i = 0; i < Z_LANES; i++)              \
    {                                                     \
        if (i & (d)) continue;                            \
        const iz a = v[i], b = v[i + (d)];                \
        v[i] = __builtin_shufflevector(a, b, low);        \
        v[i + (d)] = __builtin_shufflevector(a, b, high); \
    }
#define LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
    MIX(8, LOW8, HIGH8)
    MIX(4, LOW4, HIGH4)
    MIX(2, LOW2, HIGH2)
    MIX(1, LOW1, HIGH1)
#undef MIX
#undef LOW8
#undef HIGH8
#undef LOW4
#undef HIGH4
#undef LOW2
#undef HIGH2
#undef LOW1
#undef HIGH1
}

/* num16_exp of n vectors of what is at most 0, n up to Z_AT_ONCE, as vec_exp_below
 * (vec_avx2.h): the steps that larger numbers need are left out, and several vectors go through
 * the chain together. A NaN stays one; below the least the steps compute rubbish, which the end
 * clears. */
VEC_INLINE void z_exp_below(fz *v, const int n)
{
    const fz magic = z_all(12582912.0f);
    static const float factors[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                    1.6666665459e-1f, 5.0000001201e-1f};
    fz sum[Z_AT_ONCE], r[Z_AT_ONCE], p[Z_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++)
    {
        sum[j] = v[j] * z_all(1.44269504f) + magic;
        const fz k = sum[j] - magic;
        r[j] = z_less_exact(v[j], k, z_all(0.693359375f)); /* nine bits times six */
        r[j] = r[j] + k * z_all(2.12194440e-4f);
        p[j] = z_all(1.9875691500e-4f);
    }
    UNROLL for (int i = 0; i < 5; i++)
    {
        UNROLL for (int j = 0; j < n; j++) p[j] = p[j] * r[j] + z_all(factors[i]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        p[j] = r[j] * r[j] * p[j] + r[j] + z_all(1.0f);
        /* Times 2^k: p is near 1 and k at least -50. The sum's low bits are k, and those of a
         * NaN, which has its one pattern here, are 0. */
        const mz seen = z_reaches(v[j], z_all(-34.65f));
        v[j] = (fz)z_sum_where(seen, (iz)p[j], (iz)((uz)sum[j] << 23));
    }
}

/* num16_exp2_below of n vectors, n up to Z_AT_ONCE, likewise. */
VEC_INLINE void z_exp2_below(fz *v, const int n)
{
    const fz magic = z_all(12582912.0f);
    static const float factors[] = {9.67129134e-3f, 5.55071086e-2f, 2.40222469e-1f,
                                    6.93147004e-1f, 1.0f};
    fz sum[Z_AT_ONCE], r[Z_AT_ONCE], p[Z_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++)
    {
        sum[j] = v[j] + magic;
        r[j] = v[j] - (sum[j] - magic);
        p[j] = z_all(1.3269519e-3f);
    }
    UNROLL for (int i = 0; i < 5; i++)
    {
        UNROLL for (int j = 0; j < n; j++) p[j] = p[j] * r[j] + z_all(factors[i]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        const mz seen = z_reaches(v[j], z_all(NUM_EXP2_LEAST));
        v[j] = (fz)z_sum_where(seen, (iz)p[j], (iz)((uz)sum[j] << 23));
    }
}

/* num16_exp2_weight. near: x is not below the least. */
VEC_INLINE fz z_exp2_weight(bool near, fz x)
{
    const fz magic = z_all(12582912.0f);
    const fz y = x + z_all(NUM_WEIGHT_POWER);
    const fz sum = y + magic, k = sum - magic;
    const fz r = (y - k) + z_all(NUM_WEIGHT_VERTEX);
    const fz p = r * r + z_all(NUM_WEIGHT_LEAST);
    if (near) return z_times_power(p, k);
    const mz seen = z_reaches(x, z_all(NUM_EXP2_LEAST));
    return (fz)z_sum_where(seen, (iz)p, (iz)((uz)sum << 23));
}

/* num16_sigmoid of n vectors, n up to Z_AT_ONCE, as vec_sigmoids (vec_avx2.h): without the
 * steps that 1 + e^-|x| does not need. Of a NaN it is some number. */
VEC_INLINE void z_sigmoids(const fz *x, const int n, fz *out)
{
    fz e[Z_AT_ONCE], m[Z_AT_ONCE];
    iz power[Z_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++) e[j] = (fz)((uz)x[j] | NUM_SIGN);
    z_exp_below(e, n);
    UNROLL for (int j = 0; j < n; j++)
    {
        const iz bits = (iz)(e[j] + z_all(1.0f));
        power[j] = (bits >> 7) & 0x800000; /* of 2 alone */
        m[j] = (fz)((bits & 0x7fffff) | 0x3f800000);
        out[j] = (fz)(0x7ef311c7 - (iz)m[j]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        UNROLL for (int j = 0; j < n; j++) out[j] = out[j] * (z_all(2.0f) - m[j] * out[j]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        UNROLL for (int j = 0; j < n; j++) out[j] =
            out[j] + out[j] * (z_all(1.0f) - m[j] * out[j]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        const fz r = (fz)((iz)out[j] - power[j]);
        out[j] = z_choose(z_less((iz)x[j], (iz){0}), e[j] * r, r);
    }
}

#endif
