/* Matrix products on AVX-VNNI, which some processors without AVX-512 have: packed panels, a
 * lane per row of weights, eight lanes.
 *
 * As on AVX-512 a code is an unsigned byte, so one instruction adds four products of it and the
 * signed activations; minus the offset of the codes times the block's sum is where the integer
 * sum begins. As on AVX2 a tile is sixteen values of one to four rows, and a panel that many
 * rows read is unpacked first. The arithmetic is that of ref_matmul.c. Float matrices go to
 * AVX2.
 *
 * Where the compiler has no AVX-VNNI that instruction is plain C: so
 * tests/ops/test_emulated_avxvnni.c holds these kernels to the reference where the processor
 * cannot run them. */
#include "cpu/avx2.h"
#include "cpu/panel8.h"

/* A block of a panel whose codes are bytes plus their offset and whose scales are floats. */
struct wide_block {
    uint8_t codes[8][64];
    float dw[PANEL_ROWS], mw[PANEL_ROWS];
    float s0[PANEL_ROWS], s1[PANEL_ROWS]; /* with a scale per half */
    float m0[PANEL_ROWS], m1[PANEL_ROWS]; /* with a minimum per half */
};

/* The scales of eight rows of a block; integers are exact as floats. */
struct scales {
    f8 dw, mw, s0, s1, m0, m1;
};

VEC_INLINE f8 to_float(__m256i v)
{
    return _mm256_cvtepi32_ps(v);
}

/* To each lane of sum its four unsigned codes times the activations of x. */
VEC_INLINE __m256i dot(__m256i sum, __m256i codes, __m256i x)
{
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(sum, codes, x);
#else
    int32_t lanes[8];
    uint8_t u[32];
    int8_t s[32];
    memcpy(lanes, &sum, sizeof lanes);
    memcpy(u, &codes, sizeof u);
    memcpy(s, &x, sizeof s);
    for (int i = 0; i < 32; i++)
        lanes[i / 4] += u[i] * s[i];
    return load(lanes);
#endif
}

/* What a code is more than its value. */
VEC_INLINE int offset_of(const struct layout t)
{
    return t.is_signed ? 128 : t.offset;
}

VEC_INLINE struct scales scales_of(const struct layout t, struct head from)
{
    struct scales s = {.dw = from.dw, .mw = from.mw};
    if (t.halves) {
        s.s0 = t.head == HEAD_E4 ? from.f0 : to_float(from.s0);
        s.s1 = t.head == HEAD_E4 ? from.f1 : to_float(from.s1);
    }
    if (t.min == MIN_PAIR) {
        s.m0 = to_float(from.m0);
        s.m1 = to_float(from.m1);
    }
    return s;
}

VEC_INLINE size_t wide_bytes(const struct layout t)
{
    if (t.min == MIN_PAIR) return sizeof(struct wide_block);
    return t.halves ? offsetof(struct wide_block, m0) : offsetof(struct wide_block, s0);
}

VEC_INLINE struct scales read_wide(const struct layout t, const struct wide_block *w, int h)
{
    struct scales s = {.dw = vec_load(w->dw + 8 * h)};
    if (t.min != MIN_NONE) s.mw = vec_load(w->mw + 8 * h);
    if (t.halves) {
        s.s0 = vec_load(w->s0 + 8 * h);
        s.s1 = vec_load(w->s1 + 8 * h);
    }
    if (t.min == MIN_PAIR) {
        s.m0 = vec_load(w->m0 + 8 * h);
        s.m1 = vec_load(w->m1 + 8 * h);
    }
    return s;
}

VEC_INLINE __m256i read_unsigned(const struct layout t, const uint8_t *codes, int k, int h)
{
    const __m256i q = read_codes(t, codes, k, h);
    const bool read_signed = t.is_signed && t.bits != 8 && !t.unpacked;
    return read_signed ? _mm256_xor_si256(q, _mm256_set1_epi8(-128)) : q;
}

/* id[r][h]: the exact sums of products over lines from..to-1 of a block, for n rows of
 * activations that lie side by side from x on. The integer sums begin with a block's
 * two sums times by, a pair of factors per lane. */
VEC_INLINE void dot_lines(const struct layout t, int n, const uint8_t *codes, int from, int to,
                          const int8_t *x, const int16_t *sum, __m256i by,
                          __m256i id[TILE_ROWS][2])
{
    UNROLL for (int r = 0; r < n; r++) id[r][0] = id[r][1] =
        offset_of(t) ? _mm256_madd_epi16(all_i32(sum + 2 * r), by) : _mm256_setzero_si256();
    UNROLL for (int k = from; k < to; k++)
    {
        const __m256i low = read_unsigned(t, codes, k, 0), high = read_unsigned(t, codes, k, 1);
        UNROLL for (int r = 0; r < n; r++)
        {
            const __m256i xs = all_i32(x + A8_BLOCK * r + 4 * k);
            id[r][0] = dot(id[r][0], low, xs);
            id[r][1] = dot(id[r][1], high, xs);
        }
    }
}

/* I of a block as floats. */
VEC_INLINE void dot_block(const struct layout t, int n, const uint8_t *codes,
                          const struct scales s[2], const int8_t *x, const int16_t *sum,
                          f8 out[TILE_ROWS][2])
{
    const int minus = -offset_of(t);
    __m256i id[TILE_ROWS][2];
    if (!t.halves) {
        dot_lines(t, n, codes, 0, 8, x, sum, _mm256_set1_epi16((short)minus), id);
        UNROLL for (int r = 0; r < n; r++)
        {
            UNROLL for (int h = 0; h < 2; h++) out[r][h] = to_float(id[r][h]);
        }
        return;
    }
    dot_lines(t, n, codes, 0, 4, x, sum, _mm256_set1_epi32(minus & 0xffff), id);
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int h = 0; h < 2; h++) out[r][h] = s[h].s0 * to_float(id[r][h]);
    }
    dot_lines(t, n, codes, 4, 8, x, sum, _mm256_set1_epi32((int)((uint32_t)minus << 16)), id);
    UNROLL for (int r = 0; r < n; r++)
    {
        /* Fused is the same: products are exact, of integers, Q6_K's the largest and their sums
         * too, 2 · 128 · 16 · 32 · 127 < 2^24, and of e4m3, four bits times fifteen. */
        UNROLL for (int h = 0; h < 2; h++) out[r][h] =
            vec_plus_product(true, out[r][h], s[h].s1, to_float(id[r][h]));
    }
}

/* The float step of one block for one row; i is the block's index in x. */
VEC_INLINE void step(const struct layout t, struct stripe *to, const struct scales *s, f8 id,
                     const struct strip *x, size_t i)
{
    add_dot(t, to, vec_all(x->d[i]), s->dw, id);
    if (t.min == MIN_SUM) add_min(t, to, s->mw, vec_all(x->dsum[i]));
    if (t.min == MIN_PAIR) {
        const f8 j = s->m0 * (float)x->sum[2 * i] + s->m1 * (float)x->sum[2 * i + 1];
        add_min(t, to, s->mw, vec_all(x->d[i]) * j);
    }
}

/* Sixteen values of n rows: out[r][16], before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct strip *x, struct ahead *ahead, values out)
{
    const uint8_t *head = w;
    size_t b = 0;
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        struct stripe stripe[TILE_ROWS][2] = {0};
        struct scales s[2] = {0};
        for (; b < to; b++) {
            const size_t at = b * x->beside;
            const uint8_t *codes;
            if (t.unpacked) {
                ask_ahead(ahead);
                const struct wide_block *wide =
                    (const struct wide_block *)(w + b * wide_bytes(t));
                codes = wide->codes[0];
                UNROLL for (int h = 0; h < 2; h++) s[h] = read_wide(t, wide, h);
            } else {
                if (b % t.head_blocks == 0) {
                    head = w;
                    w += t.head_bytes;
                    prefetch_lines(head, AHEAD_BYTES, t.head_bytes);
                }
                codes = w;
                w += t.code_bytes;
                prefetch_lines(codes, AHEAD_BYTES, t.code_bytes);
                UNROLL for (int h = 0; h < 2; h++) s[h] =
                    scales_of(t, read_head(t, head, b, h));
            }
            f8 id[TILE_ROWS][2];
            dot_block(t, n, codes, s, x->q + A8_BLOCK * at, x->sum + 2 * at, id);
            UNROLL for (int r = 0; r < n; r++)
            {
                UNROLL for (int h = 0; h < 2; h++)
                    step(t, &stripe[r][h], &s[h], id[r][h], x, at + (size_t)r);
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
            if (t.halves) {
                vec_store(out->s0 + 8 * h, s.s0);
                vec_store(out->s1 + 8 * h, s.s1);
            }
            if (t.min == MIN_PAIR) {
                vec_store(out->m0 + 8 * h, s.m0);
                vec_store(out->m1 + 8 * h, s.m1);
            }
            UNROLL for (int k = 0; k < 8; k++) _mm256_storeu_si256(
                (__m256i *)(out->codes[k] + 32 * h), read_unsigned(t, w, k, h));
        }
        w += t.code_bytes;
    }
}

/* ---- the op ---- */

/* For more rows than these a panel is unpacked first. In place 64 rows of Q4_0 and Q8_0 took
 * 0.95 and 0.92 of the time, 512 rows 1.03; twelve rows of Q4_K and Q6_K took 0.87 and 0.83, 24
 * rows 1.02, 64 rows 1.16 (Zen 4, whose AVX-512 has the instruction, two threads, 2026-11). */
static size_t rows_in_place(enum qtype type)
{
    return type == QTYPE_Q8_0 || type == QTYPE_Q4_0 ? 64 : 16;
}

static struct strip rows_at(const struct matmul *m, size_t r, size_t *n)
{
    const struct strip x = strip_at(m, r, n);
    if (*n > TILE_ROWS) *n = TILE_ROWS;
    return x;
}

typedef struct strip tile_rows;
#include "cpu/tiles8.h"

const struct kernels kernels_avxvnni = {
    .name = "avxvnni",
    .packs = true,
    .bytes_unsigned = true,
    .macs_per_ms = 30000000,
    .a8_side = PANEL_ROWS,
    .matmul_scratch = matmul_scratch,
    .matmul = matmul_packed,
    AVX2_ATTEND_AND_ROWS,
};
