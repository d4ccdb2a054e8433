/* Eight lanes of AVX2: numeric.h as num8_exp, num8_keep and so on. For *_avx2.c and
 * *_avxvnni.c files, matmul_dotprod.c and attend_few*_avx512.c only. Where the compiler has no
 * AVX2, simd.h was before. */
#ifndef CPU_VEC_AVX2_H
#define CPU_VEC_AVX2_H

#ifdef __AVX2__
#include <immintrin.h>
#endif
#include <stdbool.h>
#include <stdint.h>

typedef float f8 __attribute__((vector_size(32)));
typedef int32_t i8x __attribute__((vector_size(32)));
typedef uint32_t u8x __attribute__((vector_size(32)));

/* COMPARE: all bits of the lanes of which it is so. */
#ifdef __AVX2__
#define F f8
#define I i8x
#define U u8x
#define FN static inline __attribute__((always_inline, unused))
#define NUM(name) num8_##name
#define K(c) ((f8)_mm256_set1_ps(c))
#define UK(c) ((u8x)_mm256_set1_epi32((int)(c)))
#define fadd(a, b) ((a) + (b))
#define fsub(a, b) ((a) - (b))
#define fmul(a, b) ((a) * (b))
#define sel_f(c, a, b) ((f8)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(c)))
#define sel_u(c, a, b) ((u8x)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(c)))
#define u_of(x) ((u8x)(x))
#define f_of(u) ((f8)(u))
#define i_of_u(u) ((i8x)(u))
#define u_of_i(i) ((u8x)(i))
#define f_of_i(i) ((f8)_mm256_cvtepi32_ps((__m256i)(i)))

#include "base/numeric.h"
#define COMPARE(part, a, is, b) ((i8x)((a)is(b)))
#else
#include "cpu/vec_halves.h"
#endif

/* A kernel is one function that is inlined per layout. Under sanitizers it stays a function:
 * clang needs minutes for the checks in all its copies, seconds for those in one. */
#ifdef HEARTH_SANITIZED
#define VEC_INLINE static inline __attribute__((unused))
#else
#define VEC_INLINE static inline __attribute__((always_inline, unused))
#endif

/* Before a loop with a constant number of turns: accumulators in arrays become registers only
 * if it is unrolled, which -O2 does not do by itself. */
#if defined HEARTH_SANITIZED
#define UNROLL
#elif defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* The value is held in a register here. gcc 12 else reads a vector again for each of its uses
 * as an operand in memory, which makes loads the bound, or turns a chain of integer additions
 * into a tree and spills its leaves. */
#ifdef __AVX2__
#define VEC_HOLD(v) __asm__("" : "+x"(v))
#else
#define VEC_HOLD(v) ((void)(v))
#endif

enum {
    /* Vectors that are taken through a long chain together, as Z_AT_ONCE (lanes16.h), though
     * there are registers for fewer. us with 4, 6 and 8: SiLU 30.2 23.4 20.1, GELU 38.0 29.3
     * 26.3; a convolution 66.8 55.5 50.8 (Zen 5, 2026-11). */
    VEC_AT_ONCE = 8,
};

VEC_INLINE f8 vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

VEC_INLINE void vec_store(float *p, f8 v)
{
    _mm256_storeu_ps(p, v);
}

VEC_INLINE f8 vec_all(float x)
{
    return _mm256_set1_ps(x);
}

VEC_INLINE i8x vec_less(f8 a, f8 b)
{
    return COMPARE(f4, a, <, b);
}

VEC_INLINE i8x vec_equal(f8 a, f8 b)
{
    return COMPARE(f4, a, ==, b);
}

VEC_INLINE i8x vec_more_i(i8x a, int32_t than)
{
    const i8x b = (i8x)_mm256_set1_epi32(than);
    return COMPARE(i4x, a, >, b);
}

VEC_INLINE f8 vec_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* c + a · b, rounded twice, or once where the product is exact and that is the same. */
VEC_INLINE f8 vec_plus_product(bool exact, f8 c, f8 a, f8 b)
{
    return exact ? (f8)_mm256_fmadd_ps(a, b, c) : c + a * b;
}

/* num8_keep without what it does to a NaN. */
VEC_INLINE f8 vec_clip(f8 v)
{
    return (f8)((i8x)v & vec_more_i((i8x)v & 0x7fffffff, 0x267fffff));
}

/* num8_narrow of what is below 2^100. */
VEC_INLINE f8 vec_narrow(f8 x)
{
    return (f8)(((u8x)x + 0x400u) & 0xfffff800u);
}

/* num8_exp of n vectors of what is at most 0, n up to VEC_AT_ONCE: the same bits without the
 * steps that larger numbers need. A NaN stays one, but not always the one NaN. Below the least
 * the steps compute rubbish, which the end clears. Several vectors in one run of code: the
 * chain of one is long, and a processor that looks a few hundred instructions ahead sees too
 * little of the next. */
VEC_INLINE void vec_exp_below(f8 *v, const int n)
{
    const f8 least = vec_all(-34.65f), magic = vec_all(12582912.0f);
    static const float factors[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                    1.6666665459e-1f, 5.0000001201e-1f};
    f8 sum[VEC_AT_ONCE], r[VEC_AT_ONCE], p[VEC_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++)
    {
        sum[j] = v[j] * vec_all(1.44269504f) + magic;
        const f8 k = sum[j] - magic;
        r[j] = v[j] - k * vec_all(0.693359375f);
        r[j] = r[j] + k * vec_all(2.12194440e-4f);
        p[j] = vec_all(1.9875691500e-4f);
    }
    UNROLL for (int i = 0; i < 5; i++)
    {
        UNROLL for (int j = 0; j < n; j++) p[j] = p[j] * r[j] + vec_all(factors[i]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        p[j] = r[j] * r[j] * p[j] + r[j] + vec_all(1.0f);
        /* 2^k in one factor: p is near 1 and k at least -50, so the product is exact. */
        const i8x power =
            (i8x)_mm256_slli_epi32((__m256i)((u8x)sum[j] - (0x4b400000 - 127)), 23);
        v[j] = (f8)((i8x)(p[j] * (f8)power) & ~vec_less(v[j], least));
    }
}

/* num8_exp2_below of n vectors, n up to VEC_AT_ONCE, likewise: k is added to the exponent, for
 * the sum's low bits are k, and those of a NaN 0. */
VEC_INLINE void vec_exp2_below(f8 *v, const int n)
{
    const f8 least = vec_all(NUM_EXP2_LEAST), magic = vec_all(12582912.0f);
    static const float factors[] = {9.67129134e-3f, 5.55071086e-2f, 2.40222469e-1f,
                                    6.93147004e-1f, 1.0f};
    f8 sum[VEC_AT_ONCE], r[VEC_AT_ONCE], p[VEC_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++)
    {
        sum[j] = v[j] + magic;
        r[j] = v[j] - (sum[j] - magic);
        p[j] = vec_all(1.3269519e-3f);
    }
    UNROLL for (int i = 0; i < 5; i++)
    {
        UNROLL for (int j = 0; j < n; j++) p[j] = p[j] * r[j] + vec_all(factors[i]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        const u8x power = (u8x)_mm256_slli_epi32((__m256i)sum[j], 23);
        v[j] = (f8)((i8x)((u8x)p[j] + power) & ~vec_less(v[j], least));
    }
}

/* num8_exp2_weight. */
VEC_INLINE f8 vec_exp2_weight(f8 x)
{
    const f8 magic = vec_all(12582912.0f);
    const f8 y = x + vec_all(NUM_WEIGHT_POWER);
    const f8 sum = y + magic;
    const f8 r = (y - (sum - magic)) + vec_all(NUM_WEIGHT_VERTEX);
    const f8 p = r * r + vec_all(NUM_WEIGHT_LEAST);
    const u8x power = (u8x)_mm256_slli_epi32((__m256i)sum, 23);
    return (f8)((i8x)((u8x)p + power) & ~vec_less(x, vec_all(NUM_EXP2_LEAST)));
}

/* num8_sigmoid of n vectors, n up to VEC_AT_ONCE, without the steps that 1 + e^-|x|, which is
 * from 1 to 2, does not need. Of a NaN it is some number: what it is multiplied with is the
 * NaN. */
VEC_INLINE void vec_sigmoids(const f8 *x, const int n, f8 *out)
{
    f8 e[VEC_AT_ONCE], m[VEC_AT_ONCE];
    i8x power[VEC_AT_ONCE];
    UNROLL for (int j = 0; j < n; j++) e[j] = (f8)((u8x)x[j] | NUM_SIGN);
    vec_exp_below(e, n);
    UNROLL for (int j = 0; j < n; j++)
    {
        const i8x bits = (i8x)(e[j] + vec_all(1.0f));
        power[j] = (bits >> 7) & 0x800000; /* of 2 alone */
        m[j] = (f8)((bits & 0x7fffff) | 0x3f800000);
        out[j] = (f8)(0x7ef311c7 - (i8x)m[j]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        UNROLL for (int j = 0; j < n; j++) out[j] = out[j] * (vec_all(2.0f) - m[j] * out[j]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        UNROLL for (int j = 0; j < n; j++) out[j] =
            out[j] + out[j] * (vec_all(1.0f) - m[j] * out[j]);
    }
    UNROLL for (int j = 0; j < n; j++)
    {
        const f8 r = (f8)((i8x)out[j] - power[j]);
        out[j] = (f8)_mm256_blendv_ps((__m256)r, (__m256)(e[j] * r), (__m256)x[j]);
    }
}

/* The largest of eight keys of num8_order. */
VEC_INLINE int32_t vec_max_i(i8x v)
{
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128((__m256i)v),
                              _mm256_extracti128_si256((__m256i)v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

/* Thirty-two codes, rne(x · inverse), which is within a byte. */
VEC_INLINE __m256i vec_codes32(const float *x, f8 inverse)
{
    __m256i v[4];
    for (int j = 0; j < 4; j++)
        v[j] = (__m256i)num8_rne(vec_load(x + 8 * j) * inverse);
    /* Packing works within halves of 128 bits: put the groups of four back in order. */
    const __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The sums of the first sixteen of such codes and of the others. */
VEC_INLINE void vec_sums16(__m256i codes, int16_t sum[2])
{
    /* Offset to unsigned for the sum of absolute differences. */
    const __m256i bytes = _mm256_xor_si256(codes, _mm256_set1_epi8((char)0x80));
    int64_t s[4];
    _mm256_storeu_si256((__m256i *)s, _mm256_sad_epu8(bytes, _mm256_setzero_si256()));
    sum[0] = (int16_t)(s[0] + s[1] - 16 * 128);
    sum[1] = (int16_t)(s[2] + s[3] - 16 * 128);
}

#endif
