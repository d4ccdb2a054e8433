/* Matrix products on ARM's dot products of bytes: packed panels, a lane per row of weights,
 * four lanes.
 *
 * One instruction adds to each lane four products, of its own codes and of four activations
 * that all lanes share: one of four such places of a register, so no activation is laid out for
 * the lanes. Codes and activations are signed. Where codes have an offset they have less than
 * eight bits, and the integer sum begins with minus the offset times the block's sum. As on
 * AVX2 a tile is sixteen values of one to four rows, and a panel that many rows read is
 * unpacked first. The arithmetic is that of ref_matmul.c. Float matrices, and all that is no
 * product, are those of simd.h, which the Makefile reads before this.
 *
 * Where the compiler has no such instruction it is plain C: so
 * tests/ops/test_emulated_dotprod.c holds these kernels to the reference on x86-64. */
#include "base/half.h"
#include "cpu/avx2.h"
#include "cpu/panel8.h"

#ifdef __ARM_FEATURE_DOTPROD
#include <arm_neon.h>
#endif

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint8_t b16 __attribute__((vector_size(16)));

enum { LANES = 4, N_VECS = PANEL_ROWS / LANES };

/* ---- what needs an instruction of its own ---- */

#ifdef __ARM_FEATURE_DOTPROD

/* To each lane of sum its four signed codes times the activations at a place of x. Held in a
 * register: gcc 12 else goes from row to row, with all codes of a block in registers it has
 * not. */
VEC_INLINE i4 dot(i4 sum, b16 codes, b16 x, int place)
{
    const int8x16_t q = (int8x16_t)codes, a = (int8x16_t)x;
    int32x4_t v = (int32x4_t)sum;
    switch (place) {
    case 0: v = vdotq_laneq_s32(v, q, a, 0); break;
    case 1: v = vdotq_laneq_s32(v, q, a, 1); break;
    case 2: v = vdotq_laneq_s32(v, q, a, 2); break;
    default: v = vdotq_laneq_s32(v, q, a, 3); break;
    }
    __asm__ volatile("" : "+w"(v));
    return (i4)v;
}

/* table[code] for codes below 16. */
VEC_INLINE b16 lookup(const uint8_t *table, b16 codes)
{
    return (b16)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)codes);
}

VEC_INLINE f4 four_halves(const uint8_t *p)
{
    return (f4)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

VEC_INLINE i4 four_bytes(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return (i4)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(v)))));
}

#else

VEC_INLINE i4 dot(i4 sum, b16 codes, b16 x, int place)
{
    for (int i = 0; i < 16; i++)
        sum[i / 4] += (int8_t)codes[i] * (int8_t)x[4 * place + i % 4];
    return sum;
}

VEC_INLINE b16 lookup(const uint8_t *table, b16 codes)
{
    for (int i = 0; i < 16; i++)
        codes[i] = table[codes[i]];
    return codes;
}

VEC_INLINE f4 four_halves(const uint8_t *p)
{
    uint16_t v[LANES];
    memcpy(v, p, sizeof v);
    return (f4){half_f16_to_f32(v[0]), half_f16_to_f32(v[1]), half_f16_to_f32(v[2]),
                half_f16_to_f32(v[3])};
}

VEC_INLINE i4 four_bytes(const uint8_t *p)
{
    return (i4){(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
}

#endif

/* ---- vectors ---- */

VEC_INLINE f4 to_float(i4 v)
{
    return __builtin_convertvector(v, f4);
}

VEC_INLINE i4 all_lanes(int32_t x)
{
    return x - (i4){0};
}

VEC_INLINE b16 load16(const void *p)
{
    b16 v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE f4 load4(const float *p)
{
    f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void store4(float *p, f4 v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE b16 shifted(b16 v, int from, int to)
{
    return from > to ? v >> (from - to) : v << (to - from);
}

/* ---- reading a panel ---- */

/* Codes 4k..4k+3 of rows 4h..4h+3, with their offset: a quarter of a line. */
VEC_INLINE b16 codes_at(const struct layout t, const uint8_t *p, int k, int h)
{
    p += 16 * h;
    if (t.unpacked || t.bits == 8) return load16(p + 64 * k);
    b16 q;
    if (t.bits == 4) {
        q = load16(p + 64 * (k & 3));
        q = k < 4 ? q & 15 : q >> 4;
    } else if (t.bits == 2) {
        q = load16(p + 64 * (k / 4)) >> 2 * (k % 4) & 3;
    } else {
        return shifted(load16(p), k, 1) & 2;
    }
    p += t.bits == 4 ? 256 : 128;
    if (t.more_bits == 1)
        q |= shifted(load16(p), k, (int)t.bits) & (unsigned char)(1 << t.bits);
    if (t.more_bits == 2) q |= shifted(load16(p + 64 * (k / 4)), 2 * (k % 4), 4) & 0x30;
    return t.table ? lookup(t.table, q) : q;
}

/* The scales of four rows of a block; integers are exact as floats. */
struct scales {
    f4 dw, mw, s0, s1, m0, m1;
};

VEC_INLINE f4 bytes_f(const uint8_t *p)
{
    return to_float(four_bytes(p));
}

/* e4m3 as integers: 8 + mantissa at the place of the exponent, which a float has alike. */
VEC_INLINE f4 e4_f(const uint8_t *p)
{
    const i4 e = four_bytes(p), bits = (e << 20) + (129 << 23);
    return (f4)((bits & (e > 7)) | ((i4)to_float(e) & (e < 8)));
}

VEC_INLINE f4 d_at(const struct layout t, const uint8_t *p)
{
    const f4 d = four_halves(p);
    return t.down > 0 ? d * (1.0f / (float)(1 << t.down)) : d;
}

/* Rows 4h..4h+3 of block b from the head of its panel (pack.h). */
VEC_INLINE struct scales scales_at(const struct layout t, const uint8_t *head, size_t b, int h)
{
    struct scales s = {0};
    const size_t g = b % 8;
    const uint8_t *line = head + LANES * h; /* of bytes */
    switch (t.head) {
    case HEAD_D: s.dw = four_halves(head + 8 * h); break;
    case HEAD_D_M:
        s.dw = four_halves(head + 8 * h);
        s.mw = -four_halves(head + 32 + 8 * h);
        break;
    case HEAD_E8: {
        const i4 e = four_bytes(line) & 255;
        s.dw = (f4)((e - 1) << 23 & (e > 77)); /* 2^-50 and above only */
        break;
    }
    case HEAD_E4: {
        const uint8_t *e = line + 2 * PANEL_ROWS * (b % 2);
        s.dw = (f4){0} + QBLOCK_UNIT_NVFP4;
        s.s0 = e4_f(e);
        s.s1 = e4_f(e + PANEL_ROWS);
        break;
    }
    case HEAD_K_MIN:
        s.dw = four_halves(head + 8 * h) * bytes_f(line + 64 + 16 * g);
        s.mw = four_halves(head + 32 + 8 * h) * bytes_f(line + 64 + 16 * (8 + g));
        break;
    case HEAD_K_D: s.dw = d_at(t, head + 8 * h) * bytes_f(line + 32 + 16 * g); break;
    case HEAD_K_S:
        s.dw = d_at(t, head + 8 * h);
        s.s0 = bytes_f(line + 32 + 32 * g);
        s.s1 = bytes_f(line + 32 + 32 * g + 16);
        break;
    case HEAD_K_S_M: {
        const i4 a = four_bytes(line + 64 + 32 * g), c = four_bytes(line + 64 + 32 * g + 16);
        s.dw = four_halves(head + 8 * h);
        s.mw = four_halves(head + 32 + 8 * h);
        s.s0 = to_float(a & 15);
        s.s1 = to_float(c & 15);
        s.m0 = to_float(a >> 4 & 15);
        s.m1 = to_float(c >> 4 & 15);
        break;
    }
    case HEAD_FLOATS: break;
    }
    return s;
}

/* A block of a panel whose codes are bytes and whose scales are floats. */
struct wide_block {
    uint8_t codes[8][64];
    struct scales scales[N_VECS];
};

VEC_INLINE void unpack(const struct layout t, const uint8_t *w, size_t n_blocks, uint8_t *to)
{
    struct wide_block *out = (struct wide_block *)to;
    const uint8_t *head = w;
    for (size_t b = 0; b < n_blocks; b++, out++) {
        if (b % t.head_blocks == 0) {
            head = w;
            w += t.head_bytes;
            prefetch_lines(head, AHEAD_BYTES, t.head_bytes);
        }
        prefetch_lines(w, AHEAD_BYTES, t.code_bytes);
        UNROLL for (int h = 0; h < N_VECS; h++)
        {
            out->scales[h] = scales_at(t, head, b, h);
            UNROLL for (int k = 0; k < 8; k++)
            {
                const b16 q = codes_at(t, w, k, h);
                memcpy(out->codes[k] + 16 * h, &q, sizeof q);
            }
        }
        w += t.code_bytes;
    }
}

/* ---- a tile ---- */

/* What the blocks of a stripe add up to, four values of a row; min where a type has one of the
 * whole stripe. From 0 instead of the first term: that differs only where a sum is -0, which
 * keep hides. */
struct sums {
    f4 acc, min;
};

/* What is computed of a tile at once, constant in every instance: n rows of activations with
 * n_vecs vectors of weights from vector h on. Four rows need all registers for two vectors. */
struct part {
    int n, n_vecs, h;
};
enum { VECS_OF_FEW = N_VECS, VECS_OF_MANY = 2, FEW_ROWS = 2 };

/* id[r][v]: the exact sums of products over lines from..to-1 of a block; the rows of
 * activations lie side by side from x on, and begin is what a row's sums begin with. */
VEC_INLINE void dot_lines(const struct layout t, const struct part p, const uint8_t *codes,
                          int from, int to, const int8_t *x, const int32_t begin[TILE_ROWS],
                          i4 id[TILE_ROWS][N_VECS])
{
    b16 activations[TILE_ROWS][2];
    UNROLL for (int r = 0; r < p.n; r++)
    {
        activations[r][0] = load16(x + A8_BLOCK * r);
        activations[r][1] = load16(x + A8_BLOCK * r + A8_HALF);
        UNROLL for (int v = 0; v < p.n_vecs; v++) id[r][v] = all_lanes(begin[r]);
    }
    UNROLL for (int k = from; k < to; k++)
    {
        UNROLL for (int v = 0; v < p.n_vecs; v++)
        {
            const b16 q = codes_at(t, codes, k, p.h + v);
            UNROLL for (int r = 0; r < p.n; r++) id[r][v] =
                dot(id[r][v], q, activations[r][k / 4], k % 4);
        }
    }
}

/* I of a block as floats. sum: of the activations of each half block. */
VEC_INLINE void dot_block(const struct layout t, const struct part p, const uint8_t *codes,
                          const struct scales *s, const int8_t *x, const int16_t *sum,
                          f4 out[TILE_ROWS][N_VECS])
{
    int32_t begin[TILE_ROWS];
    i4 id[TILE_ROWS][N_VECS];
    if (!t.halves) {
        UNROLL for (int r = 0; r < p.n; r++) begin[r] =
            -t.offset * (sum[2 * r] + sum[2 * r + 1]);
        dot_lines(t, p, codes, 0, 8, x, begin, id);
        UNROLL for (int r = 0; r < p.n; r++)
        {
            UNROLL for (int v = 0; v < p.n_vecs; v++) out[r][v] = to_float(id[r][v]);
        }
        return;
    }
    UNROLL for (int half = 0; half < 2; half++)
    {
        UNROLL for (int r = 0; r < p.n; r++) begin[r] = -t.offset * sum[2 * r + half];
        dot_lines(t, p, codes, 4 * half, 4 * half + 4, x, begin, id);
        UNROLL for (int r = 0; r < p.n; r++)
        {
            UNROLL for (int v = 0; v < p.n_vecs; v++)
            {
                const f4 part = (half == 0 ? s[v].s0 : s[v].s1) * to_float(id[r][v]);
                out[r][v] = half == 0 ? part : out[r][v] + part;
            }
        }
    }
}

/* The float step of one block for one row; i is the block's index in x. */
VEC_INLINE void step(const struct layout t, struct sums *to, const struct scales *s, f4 id,
                     const struct strip *x, size_t i)
{
    const float d = x->d[i];
    to->acc = to->acc + (t.halves ? d * id : d * s->dw * id);
    if (t.min == MIN_SUM) to->acc = to->acc - s->mw * x->dsum[i];
    if (t.min == MIN_PAIR) {
        const f4 j = s->m0 * (float)x->sum[2 * i] + s->m1 * (float)x->sum[2 * i + 1];
        to->min = to->min + d * j;
    }
}

/* s: of the last block. */
VEC_INLINE f4 sum_of_stripe(const struct layout t, const struct sums *of,
                            const struct scales *s)
{
    if (!t.halves) return of->acc;
    return t.min == MIN_PAIR ? s->dw * of->acc - s->mw * of->min : s->dw * of->acc;
}

/* A part of a tile. Only the first of a panel asks for lines. */
VEC_INLINE void tile_part(const struct layout t, const struct part p, const uint8_t *w,
                          size_t n_blocks, const struct strip *x, struct ahead *ahead,
                          values out)
{
    const uint8_t *head = w;
    size_t b = 0;
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        struct sums sums[TILE_ROWS][N_VECS] = {0};
        struct scales s[N_VECS] = {0};
        for (; b < to; b++) {
            const size_t at = b * x->beside;
            const uint8_t *codes;
            if (t.unpacked) {
                if (p.h == 0) ask_ahead(ahead);
                const struct wide_block *wide = (const struct wide_block *)w + b;
                codes = wide->codes[0];
                UNROLL for (int v = 0; v < p.n_vecs; v++) s[v] = wide->scales[p.h + v];
            } else {
                if (b % t.head_blocks == 0) {
                    head = w;
                    w += t.head_bytes;
                    if (p.h == 0) prefetch_lines(head, AHEAD_BYTES, t.head_bytes);
                }
                codes = w;
                w += t.code_bytes;
                if (p.h == 0) prefetch_lines(codes, AHEAD_BYTES, t.code_bytes);
                UNROLL for (int v = 0; v < p.n_vecs; v++) s[v] = scales_at(t, head, b, p.h + v);
            }
            f4 id[TILE_ROWS][N_VECS];
            dot_block(t, p, codes, s, x->q + A8_BLOCK * at, x->sum + 2 * at, id);
            UNROLL for (int r = 0; r < p.n; r++)
            {
                UNROLL for (int v = 0; v < p.n_vecs; v++)
                    step(t, &sums[r][v], &s[v], id[r][v], x, at + (size_t)r);
            }
        }
        UNROLL for (int r = 0; r < p.n; r++)
        {
            UNROLL for (int v = 0; v < p.n_vecs; v++)
            {
                float *o = out[r] + LANES * (p.h + v);
                const f4 sum = sum_of_stripe(t, &sums[r][v], &s[v]);
                store4(o, from == 0 ? sum : load4(o) + sum);
            }
        }
    }
}

/* Sixteen values of n rows: out[r][16], before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct strip *x, struct ahead *ahead, values out)
{
    const int n_vecs = n <= FEW_ROWS ? VECS_OF_FEW : VECS_OF_MANY;
    UNROLL for (int h = 0; h < N_VECS; h += n_vecs)
        tile_part(t, (struct part){n, n_vecs, h}, w, n_blocks, x, ahead, out);
}

/* ---- the op ---- */

/* For more rows a panel is unpacked first: as K-quants of AVX-VNNI, not measured. */
static size_t rows_in_place(enum qtype type)
{
    (void)type;
    return 16;
}

static struct strip rows_at(const struct matmul *m, size_t r, size_t *n)
{
    const struct strip x = strip_at(m, r, n);
    if (*n > TILE_ROWS) *n = TILE_ROWS;
    return x;
}

typedef struct strip tile_rows;
#include "cpu/tiles8.h"

const struct kernels kernels_dotprod = {
    .name = "dotprod",
    .packs = true,
    .macs_per_ms = 15000000,
    .a8_side = PANEL_ROWS,
    .matmul_scratch = matmul_scratch,
    .matmul = matmul_packed,
    AVX2_ATTEND_AND_ROWS,
};
