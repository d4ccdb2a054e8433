/* Reading packed panels (pack.h) sixteen rows at a time: what the AVX-512 and AMX products
 * share. For *_avx512.c and *_amx.c files only; everything is inline, and every layout is a
 * constant in its instances. */
#ifndef CPU_PANEL16_H
#define CPU_PANEL16_H

#include <stdbool.h>

#include "cpu/kernels.h"
#include "cpu/lanes16.h"
#include "cpu/pack.h"
#include "gguf/qblocks.h"

enum { BLOCKS_PER_STRIPE = STRIPE_LEN / A8_BLOCK };

/* How far ahead of what is read of a panel, in bytes: lines are asked for to the second cache,
 * whose requests under way are three times those of the first, and then to the first. GB/s of
 * Q4_0 with 1 and 4 rows, 2 threads: without 27.9 and 19.9, 4 KiB to the first alone 29.7 and
 * 26.0, as in READ_AHEAD 34.3 and 27.1; reading alone 35 (Granite Rapids, 2026-11). */
struct ahead {
    size_t far, near;
    enum ahead_way {
        AHEAD_TWICE,
        AHEAD_ONCE,    /* to the first alone */
        AHEAD_PASSING, /* and past the others: it is not read again */
    } way;
};
static const struct ahead READ_AHEAD = {.far = 8192, .near = 2048};

enum min_kind { MIN_NONE, MIN_SUM, MIN_PAIR };

/* All that a kernel needs to know of a type. Codes are read as unsigned bytes; a code's value
 * is the byte, or what the codebook has for it, less the offset. */
struct layout {
    enum pack_head head;
    uint32_t head_bytes, head_blocks, bits, more_bits, code_bytes;
    const uint8_t *codebook; /* NULL: none */
    int offset;
    bool halves; /* a scale per 16 columns; dw and mw are those of the stripe */
    enum min_kind min;
    int down; /* d counts as 2^-down of it */
};

#define LAYOUT static const struct layout
/*             head        bytes n bits + code codebook offset halves min down */
LAYOUT q4_0 = {HEAD_D, 32, 1, 4, 0, 256, NULL, 8, false, MIN_NONE, 0};
LAYOUT q5_0 = {HEAD_D, 32, 1, 4, 1, 320, NULL, 16, false, MIN_NONE, 0};
LAYOUT q8_0 = {HEAD_D, 32, 1, 8, 0, 512, NULL, 128, false, MIN_NONE, 0};
LAYOUT q4_1 = {HEAD_D_M, 64, 1, 4, 0, 256, NULL, 0, false, MIN_SUM, 0};
LAYOUT q5_1 = {HEAD_D_M, 64, 1, 4, 1, 320, NULL, 0, false, MIN_SUM, 0};
LAYOUT q2_k = {HEAD_K_S_M, 320, 8, 2, 0, 128, NULL, 0, true, MIN_PAIR, 0};
LAYOUT q3_k = {HEAD_K_S, 288, 8, 2, 1, 192, NULL, 4, true, MIN_NONE, 0};
LAYOUT q4_k = {HEAD_K_MIN, 320, 8, 4, 0, 256, NULL, 0, false, MIN_SUM, 0};
LAYOUT q5_k = {HEAD_K_MIN, 320, 8, 4, 1, 320, NULL, 0, false, MIN_SUM, 0};
LAYOUT q6_k = {HEAD_K_S, 288, 8, 4, 2, 384, NULL, 32, true, MIN_NONE, 0};
LAYOUT iq1_s = {HEAD_K_D, 160, 8, 2, 1, 192, BOOK_IQ1, false, MIN_NONE, 3};
LAYOUT iq1_m = {HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ1, true, MIN_NONE, 3};
LAYOUT iq2_xxs = {HEAD_K_D, 160, 8, 2, 1, 192, BOOK_IQ2, false, MIN_NONE, 3};
LAYOUT iq2_xs = {HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ2, true, MIN_NONE, 3};
LAYOUT iq2_s = {HEAD_K_S, 288, 8, 2, 1, 192, BOOK_IQ2, true, MIN_NONE, 3};
LAYOUT iq3_xxs = {HEAD_K_D, 160, 8, 4, 0, 256, BOOK_IQ3_XXS, false, MIN_NONE, 2};
LAYOUT iq3_s = {HEAD_K_D, 160, 8, 4, 0, 256, BOOK_IQ3_S, false, MIN_NONE, 0};
LAYOUT iq4_nl = {HEAD_D, 32, 1, 4, 0, 256, BOOK_IQ4, false, MIN_NONE, 0};
LAYOUT iq4_xs = {HEAD_K_D, 160, 8, 4, 0, 256, BOOK_IQ4, false, MIN_NONE, 0};
LAYOUT mxfp4 = {HEAD_E8, 16, 1, 4, 0, 256, BOOK_MXFP4, false, MIN_NONE, 0};
LAYOUT nvfp4 = {HEAD_E4, 64, 2, 4, 0, 256, BOOK_MXFP4, true, MIN_NONE, 0};
LAYOUT tq1_0 = {HEAD_D, 32, 8, 2, 0, 128, NULL, 1, false, MIN_NONE, 0};
LAYOUT tq2_0 = {HEAD_D, 32, 8, 2, 0, 128, NULL, 1, false, MIN_NONE, 0};
LAYOUT q1_0 = {HEAD_D, 32, 4, 0, 1, 64, NULL, 1, false, MIN_NONE, 0};
LAYOUT q2_0 = {HEAD_D, 32, 2, 2, 0, 128, NULL, 1, false, MIN_NONE, 0};

/* The scales of a block; integers are exact as floats. d and m are those of all blocks of its
 * head. */
struct scales {
    fz d, m, dw, mw, s0, s1, m0, m1;
};

VEC_INLINE fz bytes_f(const void *p)
{
    return z_float(z_widen(p));
}

/* e4m3 as integers: 8 + mantissa at the place of the exponent, which a float has alike. */
VEC_INLINE fz e4_f(const void *p)
{
    const iz e = z_widen(p), bits = (e << 20) + (129 << 23);
    return (fz)((bits & (e > 7)) | ((iz)z_float(e) & (e < 8)));
}

/* What the blocks of a head share. */
VEC_INLINE void read_head(const struct layout t, const uint8_t *head, struct scales *s)
{
    const bool has_m = t.head == HEAD_D_M || t.head == HEAD_K_MIN || t.head == HEAD_K_S_M;
    if (t.head != HEAD_E8 && t.head != HEAD_E4) s->d = z_halves(head);
    if (t.down > 0) s->d = s->d * (1.0f / (float)(1 << t.down));
    if (has_m) s->m = z_halves(head + 32);
}

/* Block b from its head, whose d and m are known. */
VEC_INLINE void read_scales(const struct layout t, const uint8_t *head, size_t b,
                            struct scales *s)
{
    const size_t g = b % 8;
    switch (t.head) {
    case HEAD_D: s->dw = s->d; break;
    case HEAD_D_M:
        s->dw = s->d;
        s->mw = -s->m;
        break;
    case HEAD_E8: {
        iz e = z_widen(head) & 255;
        /* 2^-50 and above only */
        s->dw = (fz)(((e - 1) << 23) & (e > 77));
        break;
    }
    case HEAD_E4: {
        const uint8_t *lines = head + 2 * PANEL_ROWS * (b % 2);
        s->dw = z_all(QBLOCK_UNIT_NVFP4);
        s->s0 = e4_f(lines);
        s->s1 = e4_f(lines + PANEL_ROWS);
        break;
    }
    case HEAD_K_MIN:
        s->dw = s->d * bytes_f(head + 64 + 16 * g);
        s->mw = s->m * bytes_f(head + 64 + 16 * (8 + g));
        break;
    case HEAD_K_D: s->dw = s->d * bytes_f(head + 32 + 16 * g); break;
    case HEAD_K_S:
        s->dw = s->d;
        s->s0 = bytes_f(head + 32 + 32 * g);
        s->s1 = bytes_f(head + 32 + 32 * g + 16);
        break;
    case HEAD_K_S_M: {
        iz a = z_widen(head + 64 + 32 * g), c = z_widen(head + 64 + 32 * g + 16);
        s->dw = s->d;
        s->mw = s->m;
        s->s0 = z_float(a & 15);
        s->s1 = z_float(c & 15);
        s->m0 = z_float(a >> 4 & 15);
        s->m1 = z_float(c >> 4 & 15);
        break;
    }
    case HEAD_FLOATS: break;
    }
}

/* A head that comes later. Where each block has one this is also the line that ends the codes
 * of a block and begins the next: no step of prefetch_codes is for it. Without, the GB/s of
 * READ_AHEAD are 32.3 and 26.2; AMX, whose tiles take longer, gains nothing by it. */
VEC_INLINE void prefetch_head(const struct layout t, const uint8_t *head,
                              const struct ahead ahead)
{
    UNROLL for (uint32_t i = 0; i < t.head_bytes; i += 64)
    {
        if (ahead.way == AHEAD_TWICE) z_fetch_far(head + ahead.far + i);
        if (ahead.way == AHEAD_PASSING)
            z_fetch_passing(head + ahead.near + i);
        else
            z_fetch_near(head + ahead.near + i);
    }
}

/* The codes of a block that comes later: those of its lines that fall to a step of eight, asked
 * for once v is computed. Asked for all at once they fill the buffers of the first cache, and
 * reads wait. Cycles per block of 16 values, 2 threads, from memory, at once and in steps: Q4_0
 * with 4 rows 61 and 56, with 8 71 and 67; Q8_0 with 8 109 and 102 (Emerald Rapids, 2026-11).
 * Lines are asked for as they lie, for the processor's own reading ahead follows them: in the
 * order in which two chains read codes the GB/s of READ_AHEAD were 30.1 and 25.9. Near requests
 * fall between far ones where there are both. */
VEC_INLINE void prefetch_codes(const struct layout t, const uint8_t *codes,
                               const struct ahead ahead, uint32_t i, bz *v)
{
    const uint32_t step = t.code_bytes / 8;
    UNROLL for (uint32_t at = 0; at < t.code_bytes; at += 64)
    {
        const uint8_t *far = codes + ahead.far + at, *near = codes + ahead.near + at;
        if (ahead.way == AHEAD_TWICE && at / step == i) *v = z_prefetch_far(*v, far);
        if (at / step != (ahead.way == AHEAD_TWICE ? i ^ 1 : i)) continue;
        *v = ahead.way == AHEAD_PASSING ? z_prefetch_passing(*v, near)
                                        : z_prefetch_near(*v, near);
    }
}

/* Where some bits of codes 4k..4k+3 of all rows are: in a line of the block, n from bit `from`
 * of each byte on; in a code they are those from bit `to` on. */
struct piece {
    uint32_t line;
    int from, n, to;
};

VEC_INLINE struct piece low_piece(const struct layout t, int k)
{
    switch (t.bits) {
    case 8: return (struct piece){(uint32_t)k, 0, 8, 0};
    case 4: return (struct piece){(uint32_t)k % 4, k < 4 ? 0 : 4, 4, 0};
    case 2: return (struct piece){(uint32_t)k / 4, 2 * (k % 4), 2, 0};
    default: return (struct piece){0, k, 1, 1};
    }
}

/* Those of more_bits where there are others. */
VEC_INLINE struct piece high_piece(const struct layout t, int k)
{
    if (t.more_bits == 1) return (struct piece){t.bits, k, 1, (int)t.bits};
    return (struct piece){t.bits + (uint32_t)k / 4, 2 * (k % 4), 2, (int)t.bits};
}

VEC_INLINE bool has_high(const struct layout t)
{
    return t.bits > 0 && t.more_bits > 0;
}

VEC_INLINE bz take(bz line, struct piece p)
{
    return z_bits(line, p.from, p.n, p.to);
}

/* Codes 4k..4k+3 of all rows, plus the offset. */
VEC_INLINE bz read_codes(const struct layout t, const uint8_t *p, int k)
{
    const struct piece low = low_piece(t, k), high = high_piece(t, k);
    bz q = take(z_load(p + 64 * low.line), low);
    if (has_high(t)) q |= take(z_load(p + 64 * high.line), high);
    return t.codebook ? z_lookup(t.codebook, q) : q;
}

/* What the blocks of a stripe add up to, for one row; min where a type has one of the whole
 * stripe. From 0 instead of the first term: that differs only where a sum is -0, which keep
 * hides. */
struct stripe {
    fz acc, min;
};

/* The float step of one block for one row: id0 and id1 are the exact dots of its halves, or if
 * there is one scale for both, id0 is that of the whole block. i is the block's index. */
VEC_INLINE void step(const struct layout t, struct stripe *to, const struct scales *s, fz id0,
                     fz id1, const struct strip *x, size_t i)
{
    fz id = id0;
    if (t.halves) {
        /* Fused is the same: products are exact, of integers, Q6_K's the largest and their sums
         * too, 2 · 128 · 16 · 32 · 127 < 2^24, and of e4m3, four bits times fifteen. */
        id = z_plus_product(true, s->s0 * id, s->s1, id1);
        to->acc = to->acc + z_all(x->d[i]) * id;
    } else {
        to->acc = to->acc + (z_all(x->d[i]) * s->dw) * id;
    }
    if (t.min == MIN_SUM) to->acc = to->acc - s->mw * z_all(x->dsum[i]);
    if (t.min == MIN_PAIR) {
        const fz j = s->m0 * (float)x->sum[2 * i] + s->m1 * (float)x->sum[2 * i + 1];
        to->min = to->min + z_all(x->d[i]) * j;
    }
}

/* The sum of a stripe; s: of its last block. */
VEC_INLINE fz stripe_sum(const struct layout t, const struct stripe *of, const struct scales *s)
{
    if (!t.halves) return of->acc;
    return t.min == MIN_PAIR ? s->dw * of->acc - s->mw * of->min : s->dw * of->acc;
}

/* Sixteen values of a row leave: factor, bias, keep, and only n_values of them. */
VEC_INLINE void finish16(const struct matmul *m, size_t row, size_t first, size_t n_values,
                         fz y)
{
    float *to = m->out + row * m->out_stride + first;
    if (m->factor) y = z_all(*m->factor) * y;
    if (n_values == PANEL_ROWS) {
        if (m->bias) y = y + z_load_f(m->bias + first);
        z_store(to, (bz)num16_keep(y));
        return;
    }
    float bias[PANEL_ROWS] = {0}, out[PANEL_ROWS];
    if (m->bias) {
        memcpy(bias, m->bias + first, n_values * sizeof(float));
        y = y + z_load_f(bias);
    }
    z_store(out, (bz)num16_keep(y));
    memcpy(to, out, n_values * sizeof(float));
}

#endif
