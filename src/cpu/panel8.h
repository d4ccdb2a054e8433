/* Reading packed panels (pack.h) eight rows at a time: what the AVX2 and AVX-VNNI products
 * share; of ARM's, which read four, the layouts and the ends. For matmul_*avx2.c,
 * matmul_avxvnni.c and matmul_dotprod.c only; everything is inline, and every layout is a
 * constant in its instances (tiles8.h). */
#ifndef CPU_PANEL8_H
#define CPU_PANEL8_H

#include <string.h>

#include "cpu/kernels.h"
#include "cpu/pack.h"
#include "cpu/vec_avx2.h"
#include "gguf/qblocks.h"

enum { BLOCKS_PER_STRIPE = STRIPE_LEN / A8_BLOCK };

/* How far ahead of what is read of a panel its lines are asked for. GB/s of one row with 2
 * threads, where the machine read 24 to 31 by itself (Zen 3, 2026-11), lines between the
 * products:
 *
 *     bytes ahead   1280   1536   2048   2560   3072   4096 (a block's at once, no heads)
 *     Q8_0          32.1   31.7   31.1   30.4   29.4   28.0
 *     Q4_0          32.0   33.3   33.7   33.9   33.7   32.2
 *     Q4_K          27.0   27.4   27.6   27.2   27.4   27.2
 *     Q6_K          24.2   25.2   25.7   26.0   25.7   23.8
 *
 * Of four rows 4096 is best by up to 4 %, of two that and 2048 are equal. Where the machine
 * read 60 (Zen 4), 4096 bytes, a block's at once, gave a tenth more than 2048 with one row of
 * every type but Q6_K; so not the nearest of those that are as good here. */
enum {
    AHEAD_BYTES = 4096,
    AHEAD_ONE = 3072,       /* one row */
    AHEAD_ONE_BYTES = 1536, /* one row, codes are bytes */
};

enum min_kind { MIN_NONE, MIN_SUM, MIN_PAIR };

/* All that a kernel needs to know of a type; constant in every instance. For AVX-VNNI signed
 * codes are unsigned ones with an offset of 128. */
struct layout {
    enum pack_head head;
    uint32_t head_bytes, head_blocks, bits, more_bits, code_bytes;
    const void *table; /* codes are indices into it; NULL: codes are values plus offset */
    int offset;
    bool is_signed;     /* codes use all eight bits, or a table of such */
    int lines_per_madd; /* for AVX2: sums of so many lines fit in 16 bits */
    bool halves;        /* a scale per 16 columns; dw and mw are those of the stripe */
    enum min_kind min;
    int down; /* d counts as 2^-down of it */
    bool unpacked;
};

/* The largest code u bounds how many lines fit in 16 bits: 254 u lines < 32768. */
#define LAYOUT(name, ...) static const struct layout name = {__VA_ARGS__, false}
/*             head   bytes n bits + code table off signed lines halves min down */
LAYOUT(q4_0, HEAD_D, 32, 1, 4, 0, 256, NULL, 8, false, 8, false, MIN_NONE, 0);
LAYOUT(q5_0, HEAD_D, 32, 1, 4, 1, 320, NULL, 16, false, 4, false, MIN_NONE, 0);
LAYOUT(q8_0, HEAD_D, 32, 1, 8, 0, 512, NULL, 0, true, 1, false, MIN_NONE, 0);
LAYOUT(q4_1, HEAD_D_M, 64, 1, 4, 0, 256, NULL, 0, false, 8, false, MIN_SUM, 0);
LAYOUT(q5_1, HEAD_D_M, 64, 1, 4, 1, 320, NULL, 0, false, 4, false, MIN_SUM, 0);
LAYOUT(q2_k, HEAD_K_S_M, 320, 8, 2, 0, 128, NULL, 0, false, 4, true, MIN_PAIR, 0);
LAYOUT(q3_k, HEAD_K_S, 288, 8, 2, 1, 192, NULL, 4, false, 4, true, MIN_NONE, 0);
LAYOUT(q4_k, HEAD_K_MIN, 320, 8, 4, 0, 256, NULL, 0, false, 8, false, MIN_SUM, 0);
LAYOUT(q5_k, HEAD_K_MIN, 320, 8, 4, 1, 320, NULL, 0, false, 4, false, MIN_SUM, 0);
LAYOUT(q6_k, HEAD_K_S, 288, 8, 4, 2, 384, NULL, 32, false, 2, true, MIN_NONE, 0);
LAYOUT(iq1_s, HEAD_K_D, 160, 8, 2, 1, 192, BOOK_IQ1, false, 4, false, MIN_NONE, 3);
LAYOUT(iq1_m, HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ1, false, 4, true, MIN_NONE, 3);
LAYOUT(iq2_xxs, HEAD_K_D, 160, 8, 2, 1, 192, BOOK_IQ2, false, 1, false, MIN_NONE, 3);
LAYOUT(iq2_xs, HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ2, false, 1, true, MIN_NONE, 3);
LAYOUT(iq2_s, HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ2, false, 1, true, MIN_NONE, 3);
LAYOUT(iq3_xxs, HEAD_K_D, 160, 8, 4, 0, 256, BOOK_IQ3_XXS, false, 1, false, MIN_NONE, 2);
LAYOUT(iq3_s, HEAD_K_D, 160, 8, 4, 0, 256, BOOK_IQ3_S, false, 4, false, MIN_NONE, 0);
LAYOUT(iq4_nl, HEAD_D, 32, 1, 4, 0, 256, qblock_iq4, 0, true, 1, false, MIN_NONE, 0);
LAYOUT(iq4_xs, HEAD_K_D, 160, 8, 4, 0, 256, qblock_iq4, 0, true, 1, false, MIN_NONE, 0);
LAYOUT(mxfp4, HEAD_E8, 16, 1, 4, 0, 256, BOOK_MXFP4, false, 4, false, MIN_NONE, 0);
LAYOUT(nvfp4, HEAD_E4, 64, 2, 4, 0, 256, BOOK_MXFP4, false, 4, true, MIN_NONE, 0);
LAYOUT(tq1_0, HEAD_D, 32, 8, 2, 0, 128, NULL, 1, false, 8, false, MIN_NONE, 0);
LAYOUT(tq2_0, HEAD_D, 32, 8, 2, 0, 128, NULL, 1, false, 8, false, MIN_NONE, 0);
LAYOUT(q1_0, HEAD_D, 32, 4, 0, 1, 64, NULL, 1, false, 8, false, MIN_NONE, 0);
LAYOUT(q2_0, HEAD_D, 32, 2, 2, 0, 128, NULL, 1, false, 8, false, MIN_NONE, 0);

/* The scales of eight rows of a block, as the head of their panel has them; f0 and f1 instead
 * of s0 and s1 with HEAD_E4. */
struct head {
    f8 dw, mw, f0, f1;
    __m256i s0, s1, m0, m1;
};

VEC_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

VEC_INLINE f8 f16_to_f8(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

VEC_INLINE __m256i bytes_i8(const void *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(p));
}

VEC_INLINE __m256i all_i32(const void *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

VEC_INLINE f8 read_d(const struct layout t, const uint8_t *p)
{
    const f8 d = f16_to_f8(p);
    return t.down > 0 ? d * (1.0f / (float)(1 << t.down)) : d;
}

/* e4m3 as integers: 8 + mantissa at the place of the exponent, which a float has alike. */
VEC_INLINE f8 e4_f8(const void *p)
{
    const __m256i e = bytes_i8(p);
    const __m256i bits =
        _mm256_add_epi32(_mm256_slli_epi32(e, 20), _mm256_set1_epi32(129 << 23));
    const __m256i is_low = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), e);
    const __m256i low = _mm256_and_si256(is_low, (__m256i)_mm256_cvtepi32_ps(e));
    return (f8)_mm256_or_si256(_mm256_andnot_si256(is_low, bits), low);
}

/* Rows 8h..8h+7 of block b from the head of its panel. */
VEC_INLINE struct head read_head(const struct layout t, const uint8_t *head, size_t b, int h)
{
    struct head s = {0};
    size_t g = b % 8;
    const uint8_t *lines = head + 32 + 8 * h, *min_lines = head + 64 + 8 * h;
    __m256i low4 = _mm256_set1_epi32(15);
    switch (t.head) {
    case HEAD_D: s.dw = f16_to_f8(head + 16 * h); break;
    case HEAD_D_M:
        s.dw = f16_to_f8(head + 16 * h);
        s.mw = -f16_to_f8(head + 32 + 16 * h);
        break;
    case HEAD_E8: {
        __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(head + 8 * h)));
        __m256i bits = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
        /* 2^-50 and above only */
        s.dw = (f8)_mm256_and_si256(bits, _mm256_cmpgt_epi32(e, _mm256_set1_epi32(77)));
        break;
    }
    case HEAD_E4: {
        const uint8_t *e = head + 2 * PANEL_ROWS * (b % 2) + 8 * h;
        s.dw = vec_all(QBLOCK_UNIT_NVFP4);
        s.f0 = e4_f8(e);
        s.f1 = e4_f8(e + PANEL_ROWS);
        break;
    }
    case HEAD_K_MIN:
        s.dw = f16_to_f8(head + 16 * h) * (f8)_mm256_cvtepi32_ps(bytes_i8(min_lines + 16 * g));
        s.mw = f16_to_f8(head + 32 + 16 * h) *
               (f8)_mm256_cvtepi32_ps(bytes_i8(min_lines + 16 * (8 + g)));
        break;
    case HEAD_K_D:
        s.dw = read_d(t, head + 16 * h) * (f8)_mm256_cvtepi32_ps(bytes_i8(lines + 16 * g));
        break;
    case HEAD_K_S:
        s.dw = read_d(t, head + 16 * h);
        s.s0 = bytes_i8(lines + 32 * g);
        s.s1 = bytes_i8(lines + 32 * g + 16);
        break;
    case HEAD_K_S_M: {
        __m256i a = bytes_i8(min_lines + 32 * g), c = bytes_i8(min_lines + 32 * g + 16);
        s.dw = f16_to_f8(head + 16 * h);
        s.mw = f16_to_f8(head + 32 + 16 * h);
        s.s0 = _mm256_and_si256(a, low4);
        s.s1 = _mm256_and_si256(c, low4);
        s.m0 = _mm256_and_si256(_mm256_srli_epi32(a, 4), low4);
        s.m1 = _mm256_and_si256(_mm256_srli_epi32(c, 4), low4);
        break;
    }
    case HEAD_FLOATS: break;
    }
    return s;
}

VEC_INLINE __m256i shift_to(__m256i v, int from, int to)
{
    return from > to ? _mm256_srli_epi16(v, from - to) : _mm256_slli_epi16(v, to - from);
}

/* Codes 4k..4k+3 of rows 8h..8h+7: a line's half. */
VEC_INLINE __m256i read_codes(const struct layout t, const uint8_t *p, int k, int h)
{
    if (t.unpacked || t.bits == 8) return load(p + 64 * k + 32 * h);
    __m256i q;
    if (t.bits == 4) {
        q = load(p + 64 * (k & 3) + 32 * h);
        q = _mm256_and_si256(k < 4 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
    } else if (t.bits == 2) {
        q = load(p + 64 * (k / 4) + 32 * h);
        q = _mm256_and_si256(shift_to(q, 2 * (k % 4), 0), _mm256_set1_epi8(3));
    } else {
        return _mm256_and_si256(shift_to(load(p + 32 * h), k, 1), _mm256_set1_epi8(2));
    }
    p += t.bits == 4 ? 256 : 128;
    if (t.more_bits == 1) {
        __m256i bit = _mm256_set1_epi8((char)(1 << t.bits));
        __m256i more = shift_to(load(p + 32 * h), k, (int)t.bits);
        q = _mm256_or_si256(q, _mm256_and_si256(more, bit));
    }
    if (t.more_bits == 2) {
        __m256i more = shift_to(load(p + 64 * (k / 4) + 32 * h), 2 * (k % 4), 4);
        q = _mm256_or_si256(q, _mm256_and_si256(more, _mm256_set1_epi8(0x30)));
    }
    if (t.table) {
        __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(t.table));
        q = _mm256_shuffle_epi8(table, q);
    }
    return q;
}

/* Of a panel that is read for n rows. */
VEC_INLINE size_t ahead_bytes(const struct layout t, int n)
{
    if (n > 1) return AHEAD_BYTES;
    return t.bits == 8 ? AHEAD_ONE_BYTES : AHEAD_ONE;
}

/* What lies so many bytes behind a head, or a block's codes. */
VEC_INLINE void prefetch_lines(const uint8_t *p, size_t ahead, uint32_t n_bytes)
{
    UNROLL for (uint32_t i = 0; i < n_bytes; i += 64)
        _mm_prefetch((const char *)(p + ahead + i), _MM_HINT_T0);
}

/* What tiles of an unpacked panel ask for of the next one, some lines with every block: they
 * read nothing from memory, and unpacking alone would wait for it. Nanoseconds per block of
 * Q6_K with 8 and 16 rows, 2 threads: without 99 and 161, so 80 and 143, with panels in the
 * cache 52 and 92 (Zen 4, 2026-11). */
struct ahead {
    const uint8_t *at, *end;
    size_t step_bytes; /* with a block */
};

/* Of the panel at p, from n_blocks blocks of tiles. */
static inline struct ahead ahead_of(const uint8_t *p, size_t panel_bytes, size_t n_blocks)
{
    const size_t step = (panel_bytes + n_blocks - 1) / n_blocks;
    return (struct ahead){p, p + panel_bytes, (step + 63) / 64 * 64};
}

VEC_INLINE void ask_ahead(struct ahead *a)
{
    if (a->at >= a->end) return;
    for (size_t i = 0; i < a->step_bytes; i += 64)
        _mm_prefetch((const char *)(a->at + i), _MM_HINT_T1);
    a->at += a->step_bytes;
}

/* What the blocks of a stripe add up to, eight values of a row; min where a type has one of the
 * whole stripe. From 0 instead of the first term: that differs only where a sum is -0, which
 * keep hides. */
struct stripe {
    f8 acc, min;
};

/* A block whose activations have the scale da; id: its exact I. */
VEC_INLINE void add_dot(const struct layout t, struct stripe *to, f8 da, f8 dw, f8 id)
{
    to->acc = to->acc + (t.halves ? da : da * dw) * id;
}

/* less: da times its J. */
VEC_INLINE void add_min(const struct layout t, struct stripe *to, f8 mw, f8 less)
{
    if (t.halves)
        to->min = to->min + less;
    else
        to->acc = to->acc - mw * less;
}

/* dw, mw: of the last block. */
VEC_INLINE f8 stripe_sum(const struct layout t, const struct stripe *of, f8 dw, f8 mw)
{
    if (!t.halves) return of->acc;
    return t.min == MIN_NONE ? dw * of->acc : dw * of->acc - mw * of->min;
}

/* What a tile leaves: sixteen values of each of its rows, before bias and keep. */
enum { TILE_ROWS = 4 };
typedef float values[TILE_ROWS][PANEL_ROWS];

/* out[r][8h..]: the sums of the first stripe, or more of them. */
VEC_INLINE void end_stripe(const struct layout t, int n, bool first,
                           const struct stripe of[][2], const f8 dw[2], const f8 mw[2],
                           values out)
{
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int h = 0; h < 2; h++)
        {
            float *o = out[r] + 8 * h;
            const f8 sum = stripe_sum(t, &of[r][h], dw[h], mw[h]);
            vec_store(o, first ? sum : vec_load(o) + sum);
        }
    }
}

/* Values first..first+n_values-1 of n rows leave the tile: factor, bias, keep. */
static inline void finish(const struct matmul *m, size_t row, size_t n, size_t first,
                          size_t n_values, values y)
{
    float bias[PANEL_ROWS] = {0};
    if (m->bias) memcpy(bias, m->bias + first, n_values * sizeof(float));
    for (size_t r = 0; r < n; r++) {
        float *out = m->out + (row + r) * m->out_stride + first;
        for (int h = 0; h < 2; h++) {
            f8 v = vec_load(y[r] + 8 * h);
            if (m->factor) v = vec_all(*m->factor) * v;
            if (m->bias) v = v + vec_load(bias + 8 * h);
            vec_store(n_values == PANEL_ROWS ? out + 8 * h : y[r] + 8 * h, num8_keep(v));
        }
        /* A copy of a length that is not known costs as much as a block of products. */
        if (n_values < PANEL_ROWS) memcpy(out, y[r], n_values * sizeof(float));
    }
}

#endif
