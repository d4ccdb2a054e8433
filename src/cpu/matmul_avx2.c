/* Matrix products on AVX2: packed panels (pack.h), a lane per row of weights.
 *
 * One inline function, tile, computes 16 values for 1 to 4 rows of activations. It is
 * instantiated per layout twice: reading the panel itself (few rows: the weights stream from
 * memory once) and reading a panel unpacked to bytes (many rows: unpacked once per chunk). The
 * arithmetic is that of ref_matmul.c; integer sums are exact in any order. Matrices of floats:
 * matmul_f_avx2.c. */
#include <string.h>

#include "cpu/avx2.h"
#include "cpu/panel8.h"

/* A block of a panel whose codes are bytes and whose scales are floats or 16-bit pairs. */
struct wide_block {
    uint8_t codes[8][64]; /* of signed codes the magnitudes */
    float dw[PANEL_ROWS], mw[PANEL_ROWS];
    union {
        struct {                                      /* with a scale per half */
            int32_t s0[PANEL_ROWS], s1[PANEL_ROWS];   /* a half's scale twice */
            int32_t s01[PANEL_ROWS], m01[PANEL_ROWS]; /* both halves' */
        };
        struct { /* with fractions */
            float f0[PANEL_ROWS], f1[PANEL_ROWS];
        };
        struct {                       /* with signed codes */
            uint8_t signs[8][64];      /* 255 where a code is below 0 */
            int32_t below[PANEL_ROWS]; /* the sum of the magnitudes of such codes */
        };
    };
};

/* The scales of eight rows of a block. */
struct scales {
    f8 dw, mw, f0, f1;
    __m256i s0, s1, s01, m01, below;
};

/* Scales of halves that are no 16-bit integers: each half's sum is multiplied by its own as a
 * float. */
VEC_INLINE bool fractions(const struct layout t)
{
    return t.head == HEAD_E4;
}

VEC_INLINE __m256i pair(__m256i low, __m256i high)
{
    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(0xffff)),
                           _mm256_slli_epi32(high, 16));
}

VEC_INLINE struct scales scales_of(const struct layout t, struct head from)
{
    struct scales s = {.dw = from.dw, .mw = from.mw, .f0 = from.f0, .f1 = from.f1};
    if (t.halves && !fractions(t)) {
        s.s0 = pair(from.s0, from.s0);
        s.s1 = pair(from.s1, from.s1);
        s.s01 = pair(from.s0, from.s1);
    }
    if (t.min == MIN_PAIR) s.m01 = pair(from.m0, from.m1);
    return s;
}

VEC_INLINE size_t wide_bytes(const struct layout t)
{
    if (t.is_signed) return sizeof(struct wide_block);
    if (fractions(t)) return offsetof(struct wide_block, f1[PANEL_ROWS]);
    return t.halves ? offsetof(struct wide_block, m01[PANEL_ROWS])
                    : offsetof(struct wide_block, s0);
}

VEC_INLINE struct scales read_wide(const struct layout t, const struct wide_block *w, int h)
{
    struct scales s = {0};
    s.dw = vec_load(w->dw + 8 * h);
    if (t.min != MIN_NONE) s.mw = vec_load(w->mw + 8 * h);
    if (fractions(t)) {
        s.f0 = vec_load(w->f0 + 8 * h);
        s.f1 = vec_load(w->f1 + 8 * h);
    } else if (t.halves) {
        s.s0 = load(w->s0 + 8 * h);
        s.s1 = load(w->s1 + 8 * h);
        s.s01 = load(w->s01 + 8 * h);
    }
    if (t.min == MIN_PAIR) s.m01 = load(w->m01 + 8 * h);
    if (t.is_signed) s.below = load(w->below + 8 * h);
    return s;
}

/* Pairs of products in 16 bits; an unsigned code times a signed activation cannot saturate
 * below 129, a signed one is turned into that by moving its sign to the activation. Unpacked,
 * sign is a mask m of ones: x ^ m is -x - 1, and what that lacks, the magnitudes of all codes
 * below 0, is added to the block's sum. Then -128 times 128 twice is the least, which fits.
 *
 * So a signed code of eight bits takes four instructions for 32 products of every row, the
 * reading of weights that rows share is little beside them, and a verified row of a model that
 * fits the cache costs three quarters of a plain step. On Zen 3, November 2026, cycles per
 * block of a panel, in the cache: 32 for one row, 25.6 for each of four, 23.8 for each of 128,
 * unpacked; Q4_0: 25.5, 16.4 and 15.9. Its 16 products and 14 sums alone are 10, as sums take
 * the turn of products on the two units that do both, and so do signs, but not masks. No faster
 * for Q8_0 were masks made from codes as they are used (24.5), activations with both signs laid
 * out, chosen by shuffles (27), steps taken for all rows before the next step (32), and pairs
 * of int16 times activations widened for twelve rows (26), which need no signs; for Q4_0
 * products of two or four rows before their sums (16.5, 21), and float steps a block behind
 * (17.4). */
VEC_INLINE __m256i products(const struct layout t, __m256i q, __m256i sign, __m256i x)
{
    if (!t.is_signed) return _mm256_maddubs_epi16(q, x);
    x = t.unpacked ? _mm256_xor_si256(x, sign) : _mm256_sign_epi8(x, sign);
    return _mm256_maddubs_epi16(q, x);
}

/* id[r][h]: the exact I of rows 8h.. for the n rows of activations, without the offset; with
 * fractions the sum of products of the first half, and id1[r][h] of the second. One row asks
 * for what is ahead between its products: it waits for memory, and for buffers if it asks for
 * more at once than there are. */
VEC_INLINE void dot_block(const struct layout t, int n, const uint8_t *codes,
                          const struct scales s[2], const int8_t *x[TILE_ROWS],
                          __m256i id[TILE_ROWS][2], __m256i id1[TILE_ROWS][2])
{
    __m256i sum[TILE_ROWS][2];
    UNROLL for (int k = 0; k < 8; k++)
    {
        __m256i q[2], sign[2];
        if (!t.unpacked && n == 1 && 64 * (uint32_t)k < t.code_bytes)
            prefetch_lines(codes + 64 * k, ahead_bytes(t, n), 64);
        UNROLL for (int h = 0; h < 2; h++)
        {
            q[h] = read_codes(t, codes, k, h);
            sign[h] = q[h];
            if (!t.is_signed) continue;
            if (t.unpacked) {
                sign[h] = load(codes + offsetof(struct wide_block, signs) + 64 * k + 32 * h);
                VEC_HOLD(q[h]);
                VEC_HOLD(sign[h]);
            } else {
                q[h] = _mm256_abs_epi8(q[h]);
            }
        }
        bool first = k % t.lines_per_madd == 0;
        bool last = k % t.lines_per_madd == t.lines_per_madd - 1;
        UNROLL for (int r = 0; r < n; r++)
        {
            __m256i xs = all_i32(x[r] + 4 * k);
            UNROLL for (int h = 0; h < 2; h++)
            {
                __m256i p = products(t, q[h], sign[h], xs);
                sum[r][h] = first ? p : _mm256_add_epi16(sum[r][h], p);
                if (t.lines_per_madd > 1) VEC_HOLD(sum[r][h]);
                if (!last) continue;
                const bool ones = !t.halves || fractions(t);
                __m256i by = ones ? _mm256_set1_epi16(1) : k < 4 ? s[h].s0 : s[h].s1;
                __m256i i = _mm256_madd_epi16(sum[r][h], by);
                if (fractions(t) && k >= 4) {
                    id1[r][h] = i;
                    continue;
                }
                id[r][h] = k < t.lines_per_madd ? i : _mm256_add_epi32(id[r][h], i);
                VEC_HOLD(id[r][h]);
            }
        }
    }
}

/* The sum of a half less what its codes have more than their values. */
VEC_INLINE f8 half_sum(const struct layout t, __m256i id, int16_t sum)
{
    return (f8)_mm256_cvtepi32_ps(_mm256_sub_epi32(id, _mm256_set1_epi32(t.offset * sum)));
}

VEC_INLINE void step(const struct layout t, struct stripe *to, const struct scales *s,
                     __m256i id, __m256i id1, f8 da, const int16_t *sum)
{
    if (fractions(t)) { /* four lines: a half's sum is whole */
        const f8 first = s->f0 * half_sum(t, id, sum[0]);
        add_dot(t, to, da, s->dw, first + s->f1 * half_sum(t, id1, sum[1]));
        return;
    }
    if (t.offset && t.halves) {
        __m256i j = _mm256_madd_epi16(s->s01, all_i32(sum));
        id = _mm256_sub_epi32(id, _mm256_mullo_epi32(j, _mm256_set1_epi32(t.offset)));
    } else if (t.offset) {
        __m256i j = _mm256_madd_epi16(_mm256_set1_epi16((short)t.offset), all_i32(sum));
        id = _mm256_sub_epi32(id, j);
    }
    if (t.is_signed && t.unpacked) id = _mm256_add_epi32(id, s->below);
    add_dot(t, to, da, s->dw, (f8)_mm256_cvtepi32_ps(id));
    if (t.min == MIN_NONE) return;
    const __m256i by = t.min == MIN_PAIR ? s->m01 : _mm256_set1_epi16(1);
    const __m256i j = _mm256_madd_epi16(by, all_i32(sum));
    add_min(t, to, s->mw, da * (f8)_mm256_cvtepi32_ps(j));
}

/* Sixteen values of n rows: out[r][16], before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct a8 *a, struct ahead *ahead, values out)
{
    const int8_t *x[TILE_ROWS];
    const float *d[TILE_ROWS];
    const int16_t *sum[TILE_ROWS];
    UNROLL for (int r = 0; r < n; r++)
    {
        x[r] = a->q + (size_t)r * a->stride;
        d[r] = a->d + (size_t)r * a->stride / A8_BLOCK;
        sum[r] = a->sum + (size_t)r * a->stride / A8_HALF;
    }
    const uint8_t *head = w;
    size_t b = 0;
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        struct stripe stripe[TILE_ROWS][2] = {0};
        struct scales s[2] = {0};
        for (; b < to; b++) {
            const uint8_t *codes;
            if (t.unpacked) {
                ask_ahead(ahead);
                const struct wide_block *wide =
                    (const struct wide_block *)(w + b * wide_bytes(t));
                codes = wide->codes[0];
                s[0] = read_wide(t, wide, 0);
                s[1] = read_wide(t, wide, 1);
            } else {
                if (b % t.head_blocks == 0) {
                    head = w;
                    w += t.head_bytes;
                    prefetch_lines(head, ahead_bytes(t, n), t.head_bytes);
                }
                codes = w;
                w += t.code_bytes;
                if (n > 1) prefetch_lines(codes, ahead_bytes(t, n), t.code_bytes);
                s[0] = scales_of(t, read_head(t, head, b, 0));
                s[1] = scales_of(t, read_head(t, head, b, 1));
            }
            __m256i id[TILE_ROWS][2], id1[TILE_ROWS][2];
            const int8_t *xb[TILE_ROWS];
            UNROLL for (int r = 0; r < n; r++) xb[r] = x[r] + A8_BLOCK * b;
            dot_block(t, n, codes, s, xb, id, id1);
            UNROLL for (int r = 0; r < n; r++)
            {
                f8 da = vec_all(d[r][b]);
                UNROLL for (int h = 0; h < 2; h++)
                    step(t, &stripe[r][h], &s[h], id[r][h], id1[r][h], da, sum[r] + 2 * b);
            }
        }
        const f8 dw[] = {s[0].dw, s[1].dw}, mw[] = {s[0].mw, s[1].mw};
        end_stripe(t, n, from == 0, stripe, dw, mw, out);
    }
}

VEC_INLINE void unpack(const struct layout t, const uint8_t *w, size_t n_blocks, uint8_t *to)
{
    const uint8_t *head = w;
    for (size_t b = 0; b < n_blocks; b++, to += wide_bytes(t)) {
        struct wide_block *out = (struct wide_block *)to;
        if (b % t.head_blocks == 0) {
            head = w;
            w += t.head_bytes;
            prefetch_lines(head, AHEAD_BYTES, t.head_bytes);
        }
        prefetch_lines(w, AHEAD_BYTES, t.code_bytes);
        UNROLL for (int h = 0; h < 2; h++)
        {
            const struct scales s = scales_of(t, read_head(t, head, b, h));
            vec_store(out->dw + 8 * h, s.dw);
            if (t.min != MIN_NONE) vec_store(out->mw + 8 * h, s.mw);
            if (fractions(t)) {
                vec_store(out->f0 + 8 * h, s.f0);
                vec_store(out->f1 + 8 * h, s.f1);
            } else if (t.halves) {
                _mm256_storeu_si256((__m256i *)(out->s0 + 8 * h), s.s0);
                _mm256_storeu_si256((__m256i *)(out->s1 + 8 * h), s.s1);
                _mm256_storeu_si256((__m256i *)(out->s01 + 8 * h), s.s01);
                _mm256_storeu_si256((__m256i *)(out->m01 + 8 * h), s.m01);
            }
            __m256i below = _mm256_setzero_si256(); /* negative, pairs of 16 bits */
            UNROLL for (int k = 0; k < 8; k++)
            {
                __m256i q = read_codes(t, w, k, h);
                if (t.is_signed) {
                    const __m256i sign = _mm256_cmpgt_epi8(_mm256_setzero_si256(), q);
                    _mm256_storeu_si256((__m256i *)(out->signs[k] + 32 * h), sign);
                    q = _mm256_abs_epi8(q);
                    below = _mm256_add_epi16(below, _mm256_maddubs_epi16(q, sign));
                }
                _mm256_storeu_si256((__m256i *)(out->codes[k] + 32 * h), q);
            }
            if (t.is_signed)
                _mm256_storeu_si256((__m256i *)(out->below + 8 * h),
                                    _mm256_madd_epi16(below, _mm256_set1_epi16(-1)));
        }
        w += t.code_bytes;
    }
}

/* ---- the op ---- */

/* Up to so many rows a panel is read anew for each tile of four; for more it is unpacked first.
 * Where the two meet, of matrices that stream from memory (Zen 3, two threads, 2026-11): codes
 * that need more to be put together are worth it earlier. Twelve rows of Q4_0 took 1.10 of the
 * time unpacked, of Q4_K 1.09, of Q6_K 0.87. */
static size_t rows_in_place(enum qtype type)
{
    switch (type) {
    case QTYPE_Q8_0: return 40; /* bytes already, which gain their signs only */
    case QTYPE_Q1_0:
    case QTYPE_Q4_0: return 32;
    case QTYPE_Q4_1: return 24;
    case QTYPE_NVFP4:
    case QTYPE_MXFP4: return 20;
    case QTYPE_IQ4_NL: return 16;
    case QTYPE_Q4_K:
    case QTYPE_Q5_0:
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S:
    case QTYPE_IQ4_XS: return 12;
    case QTYPE_Q5_1: return 10;
    case QTYPE_TQ1_0:
    case QTYPE_TQ2_0:
    case QTYPE_Q2_0:
    case QTYPE_Q2_K: return 8;
    case QTYPE_Q5_K:
    case QTYPE_Q6_K: return 6;
    case QTYPE_IQ1_S:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XXS:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S:
    case QTYPE_Q3_K: return 5;
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return SIZE_MAX;
}

static struct a8 rows_at(const struct matmul *m, size_t r, size_t *n)
{
    *n = m->n_rows - r < TILE_ROWS ? m->n_rows - r : TILE_ROWS;
    return a8_from(m->a8, r);
}

typedef struct a8 tile_rows;
#include "cpu/tiles8.h"

#ifdef CPU_SIMD_H
#define SET "simd"
#define MACS_PER_MS 5000000
#else
#define SET "avx2"
#define MACS_PER_MS 20000000
#endif

const struct kernels kernels_avx2 = {
    .name = SET,
    .packs = true,
    .macs_per_ms = MACS_PER_MS,
    .a8_side = 1,
    .matmul_scratch = matmul_scratch,
    .matmul = matmul_packed,
    AVX2_ATTEND_AND_ROWS,
};
