/* Sixteen lanes: numeric.h as num16_keep and so on, and the few operations that need an
 * instruction of AVX-512. For *_avx512.c and *_amx.c files only.
 *
 * Where the compiler has no AVX-512 the same text compiles to plain C, lane by lane: so
 * tests/ops/test_emulated.c holds these kernels to the reference on a machine that cannot run
 * them. */
#ifndef CPU_VEC16_H
#define CPU_VEC16_H

#include <stdint.h>
#include <string.h>

#ifdef __AVX512VNNI__
#include <immintrin.h>
#else
#include "base/half.h"
#endif

/* As in vec_avx2.h: one copy under sanitizers, and in plain C. */
#if defined __AVX512VNNI__ && !defined HEARTH_SANITIZED
#define VEC_INLINE static inline __attribute__((always_inline, unused))
#else
#define VEC_INLINE static inline __attribute__((unused))
#endif

/* Before a loop with a constant number of turns, as in vec_avx2.h. */
#if defined HEARTH_SANITIZED || !defined __AVX512VNNI__
#define UNROLL
#elif defined __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float fz __attribute__((vector_size(64)));
typedef int32_t iz __attribute__((vector_size(64)));
typedef uint32_t uz __attribute__((vector_size(64)));
typedef uint16_t hz __attribute__((vector_size(64)));
typedef uint8_t bz __attribute__((vector_size(64)));
typedef int8_t b16 __attribute__((vector_size(16)));

VEC_INLINE fz z_all(float x)
{
    return x - (fz){0};
}

VEC_INLINE uz z_all_u(uint32_t x)
{
    return x - (uz){0};
}

#define F fz
#define I iz
#define U uz
#define FN VEC_INLINE
#define NUM(name) num16_##name
#define K(c) z_all(c)
#define UK(c) z_all_u((uint32_t)(c))
#define fadd(a, b) ((a) + (b))
#define fsub(a, b) ((a) - (b))
#define fmul(a, b) ((a) * (b))
#define sel_u(c, a, b) (((uz)(c) & (a)) | (~(uz)(c) & (b)))
#define sel_f(c, a, b) ((fz)sel_u(c, (uz)(a), (uz)(b)))
#define u_of(x) ((uz)(x))
#define f_of(u) ((fz)(u))
#define i_of_u(u) ((iz)(u))
#define u_of_i(i) ((uz)(i))
#define f_of_i(i) __builtin_convertvector(i, fz)

#include "base/numeric.h"

VEC_INLINE bz z_load(const void *p)
{
    bz v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE fz z_load_f(const float *p)
{
    return (fz)z_load(p);
}

VEC_INLINE void z_store(void *p, bz v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE fz z_float(iz v)
{
    return __builtin_convertvector(v, fz);
}

VEC_INLINE bz z_shift_right(bz v, int n)
{
    return (bz)((hz)v >> n);
}

VEC_INLINE bz z_shift_left(bz v, int n)
{
    return (bz)((hz)v << n);
}

/* n bits of each byte from bit `from` on, at bit `to`, alone: by GFNI one instruction, where
 * bit i of the result is the parity of the bits that byte 7 - i of a matrix chooses. Cycles per
 * block of 16 values, in cache, with shifts and so: Q4_0 with 4 rows 37 and 35, with 8 63 and
 * 62, Q4_K with 1 row 19.7 and 18.0, with 4 42.8 and 41.2, with 8 71.8 and 69.8, Q6_K 30.5 and
 * 25.8, 51.2 and 45.6, 80.6 and 77.5 (Emerald Rapids, 2026-11). */
VEC_INLINE bz z_bits(bz v, int from, int n, int to)
{
    const unsigned char mask = (unsigned char)(((1 << n) - 1) << to);
    if (from == to) return v & mask;
#ifdef __GFNI__
    uint64_t matrix = 0;
    for (int i = 0; i < n; i++)
        matrix |= (uint64_t)1 << (8 * (7 - to - i) + from + i);
    return (bz)_mm512_gf2p8affine_epi64_epi8((__m512i)v, _mm512_set1_epi64((int64_t)matrix), 0);
#else
    return (from > to ? z_shift_right(v, from - to) : z_shift_left(v, to - from)) & mask;
#endif
}

/* The four bytes at p in every lane. */
VEC_INLINE bz z_all_4(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return (bz)z_all_u(v);
}

#ifdef __AVX512VNNI__

/* The line of p is asked for: into the second cache, into the first, into the first alone. */
VEC_INLINE void z_fetch_far(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}

VEC_INLINE void z_fetch_near(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}

VEC_INLINE void z_fetch_passing(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_NTA);
}

/* Sixteen values at p, aligned to 64, past the caches; z_streamed() comes before another thread
 * may read them. */
VEC_INLINE void z_stream_f(float *p, fz v)
{
    _mm512_stream_ps(p, (__m512)v);
}

VEC_INLINE void z_streamed(void)
{
    _mm_sfence();
}

/* v, once the line at p is asked for, as z_fetch_far, near and passing do. Compilers would move
 * requests that nothing depends on to where a block begins. */
VEC_INLINE bz z_prefetch_far(bz v, const uint8_t *p)
{
    __asm__ volatile("prefetcht1 %1" : "+v"(v) : "m"(*p));
    return v;
}

VEC_INLINE bz z_prefetch_near(bz v, const uint8_t *p)
{
    __asm__ volatile("prefetcht0 %1" : "+v"(v) : "m"(*p));
    return v;
}

VEC_INLINE bz z_prefetch_passing(bz v, const uint8_t *p)
{
    __asm__ volatile("prefetchnta %1" : "+v"(v) : "m"(*p));
    return v;
}

/* Sixteen signed bytes. gcc 12 takes __builtin_convertvector of them byte by byte. */
VEC_INLINE iz z_widen(const void *p)
{
    return (iz)_mm512_cvtepi8_epi32(_mm_loadu_si128(p));
}

/* acc + the four products of unsigned and signed bytes of each lane. */
VEC_INLINE iz z_dot(iz acc, bz u, bz s)
{
    return (iz)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)u, (__m512i)s);
}

/* z_dot with the four bytes at p in every lane. gcc 12 loads them by an instruction of their
 * own. While another thread shares the core's decoding that costs: cycles per block with 8
 * rows, in cache, so and by that: Q4_0 90.3 and 94.0, Q8_0 90.1 and 97.6, Q4_K 99.2 and 103.8,
 * Q6_K 105 and 116; while the core has no other thread both are equal (Zen 4, 2026-11). */
VEC_INLINE iz z_dot_all_4(iz acc, bz u, const int8_t *p)
{
#if defined __clang__ || defined HEARTH_SANITIZED
    return z_dot(acc, u, z_all_4(p));
#else
    const struct four {
        int8_t b[4];
    } *four = (const struct four *)p;
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(u), "m"(*four));
    return acc;
#endif
}

/* z_dot of acc and u[0..3] with the four bytes at p, p + 4, p + 8 and p + 12 in every lane:
 * they are loaded at once, and each four are brought to all lanes by a shuffle. */
VEC_INLINE iz z_dot_all_16(iz acc, const bz u[4], const int8_t *p)
{
    const __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    acc = z_dot(acc, u[0], (bz)_mm512_shuffle_epi32(v, 0x00));
    acc = z_dot(acc, u[1], (bz)_mm512_shuffle_epi32(v, 0x55));
    acc = z_dot(acc, u[2], (bz)_mm512_shuffle_epi32(v, 0xaa));
    return z_dot(acc, u[3], (bz)_mm512_shuffle_epi32(v, 0xff));
}

/* v, in a register: compilers would load it again where it is used again. */
VEC_INLINE bz z_in_register(bz v)
{
    __asm__("" : "+v"(v));
    return v;
}

/* table[code] for codes below 16. */
VEC_INLINE bz z_lookup(const void *table, bz codes)
{
    __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128(table));
    return (bz)_mm512_shuffle_epi8(t, (__m512i)codes);
}

VEC_INLINE fz z_halves(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

#else

VEC_INLINE void z_fetch_far(const void *p)
{
    (void)p;
}

VEC_INLINE void z_fetch_near(const void *p)
{
    (void)p;
}

VEC_INLINE void z_fetch_passing(const void *p)
{
    (void)p;
}

VEC_INLINE void z_stream_f(float *p, fz v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE void z_streamed(void)
{
}

VEC_INLINE bz z_prefetch_far(bz v, const uint8_t *p)
{
    (void)p;
    return v;
}

VEC_INLINE bz z_prefetch_near(bz v, const uint8_t *p)
{
    (void)p;
    return v;
}

VEC_INLINE bz z_prefetch_passing(bz v, const uint8_t *p)
{
    (void)p;
    return v;
}

VEC_INLINE iz z_widen(const void *p)
{
    b16 v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, iz);
}

VEC_INLINE iz z_dot(iz acc, bz u, bz s)
{
    for (int i = 0; i < 64; i++)
        acc[i / 4] += (int)u[i] * (int)(int8_t)s[i];
    return acc;
}

VEC_INLINE iz z_dot_all_4(iz acc, bz u, const int8_t *p)
{
    return z_dot(acc, u, z_all_4(p));
}

VEC_INLINE iz z_dot_all_16(iz acc, const bz u[4], const int8_t *p)
{
    for (int i = 0; i < 4; i++)
        acc = z_dot_all_4(acc, u[i], p + 4 * i);
    return acc;
}

VEC_INLINE bz z_in_register(bz v)
{
    return v;
}

VEC_INLINE bz z_lookup(const void *table, bz codes)
{
    for (int i = 0; i < 64; i++)
        codes[i] = ((const uint8_t *)table)[codes[i]];
    return codes;
}

VEC_INLINE fz z_halves(const void *p)
{
    uint16_t h[16];
    fz v = {0};
    memcpy(h, p, sizeof h);
    for (int i = 0; i < 16; i++)
        v[i] = half_f16_to_f32(h[i]);
    return v;
}

#endif

#endif
