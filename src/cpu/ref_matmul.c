/* The scalar reference of matrix products: one row of weights times one row of activations.
 *
 * Quantised types read activations in A8. A block is 32 columns: codes q, a scale dw, and for
 * some types integer scales of its halves (s) and a minimum (mw, integer factors m). With x,
 * da, sum of the activations' block:
 *   I = s0 · (q · x over the first half) + s1 · (q · x over the second half)   exact
 *   J = m0 · sum0 + m1 · sum1                                                  exact, int32
 *   acc = acc + (da · dw) · (float)I
 *   acc = acc - mw · (da · (float)J)           types with a minimum only
 * |I|, |J| < 2^24, so both are exact as floats; of NVFP4, whose s have four bits at any place,
 * the two products are, and their sum I is rounded. acc starts with its first term at every
 * 256th column; the sums of these stripes are folded left to right. Where dw and mw are those
 * of a whole stripe they come last:
 *   acc = acc + da · (float)I
 *   min = min + da · (float)J
 *   stripe = dw · acc - mw · min */

#include "base/bytes.h"
#include "base/half.h"
#include "base/numeric_c.h"
#include "cpu/ref.h"
#include "gguf/qblocks.h"
#include "gguf/qgrid.h"

struct block {
    int8_t q[A8_BLOCK];
    float dw, mw;
    int s0, s1, m0, m1;
    bool has_min;
    bool of_stripe; /* dw and mw are */
};

/* Bit-planes of the K types: value i of 256 (see qblocks.h). */
static int field2(const uint8_t qs[64], size_t i)
{
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static int field4(const uint8_t qs[128], size_t i)
{
    return qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

static int nibble(const uint8_t qs[16], size_t i)
{
    return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

static void block_q4_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q4_0 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(nibble(p.qs, i) - 8);
}

/* A minimum that is added counts as one of the other sign that is subtracted: exact. */
static void block_q4_1(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q4_1 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    t->mw = -half_f16_to_f32(p.m);
    t->has_min = true;
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)nibble(p.qs, i);
}

static void block_q5_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q5_0 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    uint32_t high = bytes_u32(p.qh);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)((nibble(p.qs, i) | (int)(high >> i & 1) << 4) - 16);
}

static void block_q5_1(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q5_1 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    t->mw = -half_f16_to_f32(p.m);
    t->has_min = true;
    uint32_t high = bytes_u32(p.qh);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(nibble(p.qs, i) | (int)(high >> i & 1) << 4);
}

static void block_q8_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q8_0 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    memcpy(t->q, p.qs, sizeof t->q);
}

static void block_q2_k(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q2_k p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    size_t at = b % 8 * A8_BLOCK;
    const uint8_t *scales = p.scales + at / 16;
    t->dw = half_f16_to_f32(p.d);
    t->mw = half_f16_to_f32(p.dmin);
    t->has_min = t->of_stripe = true;
    t->s0 = scales[0] & 15, t->s1 = scales[1] & 15;
    t->m0 = scales[0] >> 4, t->m1 = scales[1] >> 4;
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)field2(p.qs, at + i);
}

static void block_q3_k(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q3_k p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    size_t at = b % 8 * A8_BLOCK;
    int8_t scale[16];
    qblock_scales_q3_k(p.scales, scale);
    t->dw = half_f16_to_f32(p.d);
    t->of_stripe = true;
    t->s0 = scale[at / 16], t->s1 = scale[at / 16 + 1];
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)((field2(p.qs, at + i) | (p.hmask[i] >> (b % 8) & 1) << 2) - 4);
}

/* d · scale and dmin · min are exact: eleven bits times six. */
static void scales_k(uint16_t d, uint16_t dmin, const uint8_t packed[12], size_t group,
                     struct block *t)
{
    uint8_t scale[8], min[8];
    qblock_scales_k(packed, scale, min);
    t->dw = half_f16_to_f32(d) * (float)scale[group];
    t->mw = half_f16_to_f32(dmin) * (float)min[group];
    t->has_min = true;
}

static void block_q4_k(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q4_k p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    scales_k(p.d, p.dmin, p.scales, b % 8, t);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)field4(p.qs, b % 8 * A8_BLOCK + i);
}

static void block_q5_k(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q5_k p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    scales_k(p.d, p.dmin, p.scales, b % 8, t);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(field4(p.qs, b % 8 * A8_BLOCK + i) | (p.qh[i] >> (b % 8) & 1) << 4);
}

static void block_q6_k(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q6_k p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    size_t at = b % 8 * A8_BLOCK;
    t->dw = half_f16_to_f32(p.d);
    t->of_stripe = true;
    t->s0 = p.scales[at / 16], t->s1 = p.scales[at / 16 + 1];
    for (size_t i = 0; i < A8_BLOCK; i++) {
        size_t k = at + i, part = k / 128, j = k % 128;
        int low = p.ql[part * 64 + j % 64] >> (j / 64 * 4) & 15;
        int high = p.qh[part * 32 + j % 32] >> (j / 32 * 2) & 3;
        t->q[i] = (int8_t)((low | high << 4) - 32);
    }
}

static void block_iq4_nl(const uint8_t *row, size_t b, struct block *t)
{
    struct block_iq4_nl p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = qblock_iq4[nibble(p.qs, i)];
}

static void block_iq4_xs(const uint8_t *row, size_t b, struct block *t)
{
    struct block_iq4_xs p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    size_t g = b % 8;
    int scale = (p.scales_l[g / 2] >> (g % 2 * 4) & 15) | (p.scales_h >> (2 * g) & 3) << 4;
    t->dw = half_f16_to_f32(p.d) * (float)(scale - 32);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = qblock_iq4[nibble(p.qs + 16 * g, i)];
}

static void block_mxfp4(const uint8_t *row, size_t b, struct block *t)
{
    struct block_mxfp4 p;
    memcpy(&p, row + b * sizeof p, sizeof p);
    t->dw = num_keep(qblock_e8m0_half(p.e));
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = qblock_mxfp4[nibble(p.qs, i)];
}

static void block_nvfp4(const uint8_t *row, size_t b, struct block *t)
{
    struct block_nvfp4 p;
    uint8_t code[A8_BLOCK];
    memcpy(&p, row + b / 2 * sizeof p, sizeof p);
    t->dw = QBLOCK_UNIT_NVFP4;
    t->of_stripe = true;
    t->s0 = (int)qblock_e4m3(p.scales[b % 2 * 2]);
    t->s1 = (int)qblock_e4m3(p.scales[b % 2 * 2 + 1]);
    qblock_codes_nvfp4(p.qs + b % 2 * 16, code);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = qblock_mxfp4[code[i]];
}

static void block_tq1_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_tq1_0 p;
    uint8_t code[A8_BLOCK];
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    qblock_codes_tq1_0(&p, b % 8, code);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(code[i] - 1);
}

static void block_tq2_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_tq2_0 p;
    memcpy(&p, row + b / 8 * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(field2(p.qs, b % 8 * A8_BLOCK + i) - 1);
}

static void block_q1_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q1_0 p;
    uint8_t code[A8_BLOCK];
    memcpy(&p, row + b / 4 * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    qblock_codes_q1_0(p.qs + b % 4 * 4, code);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(2 * code[i] - 1);
}

static void block_q2_0(const uint8_t *row, size_t b, struct block *t)
{
    struct block_q2_0 p;
    uint8_t code[A8_BLOCK];
    memcpy(&p, row + b / 2 * sizeof p, sizeof p);
    t->dw = half_f16_to_f32(p.d);
    qblock_codes_q2_0(p.qs + b % 2 * 8, code);
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = (int8_t)(code[i] - 1);
}

/* unit · d · scale is exact. */
static void block_grid(enum qtype type, const uint8_t *row, size_t b, struct block *t)
{
    const struct qgrid grid = qgrid_of(type);
    const uint8_t *p = row + b / 8 * qtype_info(type)->block_bytes;
    const size_t g = b % 8;
    uint8_t scale[16], code[A8_BLOCK];
    qgrid_scales(type, p, scale);
    qgrid_codes(type, p, g, code);
    t->dw = half_f16_to_f32(qgrid_d(type, p)) * grid.unit;
    t->of_stripe = grid.halves;
    if (grid.halves)
        t->s0 = scale[2 * g], t->s1 = scale[2 * g + 1];
    else
        t->dw *= (float)scale[2 * g];
    for (size_t i = 0; i < A8_BLOCK; i++)
        t->q[i] = grid.table[code[i]];
}

#define BLOCK_GRID(type, name)                                              \
    static void block_##name(const uint8_t *row, size_t b, struct block *t) \
    {                                                                       \
        block_grid(type, row, b, t);                                        \
    }
QGRID_TYPES(BLOCK_GRID)

typedef void block_fn(const uint8_t *row, size_t b, struct block *t);

static block_fn *block_of(enum qtype type)
{
    switch (type) {
    case QTYPE_Q4_0: return block_q4_0;
    case QTYPE_Q4_1: return block_q4_1;
    case QTYPE_Q5_0: return block_q5_0;
    case QTYPE_Q5_1: return block_q5_1;
    case QTYPE_Q8_0: return block_q8_0;
    case QTYPE_Q2_K: return block_q2_k;
    case QTYPE_Q3_K: return block_q3_k;
    case QTYPE_Q4_K: return block_q4_k;
    case QTYPE_Q5_K: return block_q5_k;
    case QTYPE_Q6_K: return block_q6_k;
#define CASE(type, name) \
    case type: return block_##name;
        QGRID_TYPES(CASE)
    case QTYPE_IQ4_NL: return block_iq4_nl;
    case QTYPE_IQ4_XS: return block_iq4_xs;
    case QTYPE_MXFP4: return block_mxfp4;
    case QTYPE_NVFP4: return block_nvfp4;
    case QTYPE_TQ1_0: return block_tq1_0;
    case QTYPE_TQ2_0: return block_tq2_0;
    case QTYPE_Q1_0: return block_q1_0;
    case QTYPE_Q2_0: return block_q2_0;
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return NULL;
}

static int half_dot(const int8_t *q, const int8_t *x)
{
    int sum = 0;
    for (int i = 0; i < A8_HALF; i++)
        sum += q[i] * x[i];
    return sum;
}

/* What blocks of a stripe add up to. */
struct stripe {
    float acc, min;
};

static void add_block(struct stripe *s, const struct block *t, bool first, float d, float i,
                      int j)
{
    float term = t->of_stripe ? d * i : (d * t->dw) * i;
    s->acc = first ? term : s->acc + term;
    if (!t->has_min) return;
    float less = d * (float)j;
    if (t->of_stripe)
        s->min = first ? less : s->min + less;
    else
        s->acc = s->acc - t->mw * less;
}

/* t: the last block. */
static float end_stripe(const struct stripe *s, const struct block *t)
{
    if (!t->of_stripe) return s->acc;
    return t->has_min ? t->dw * s->acc - t->mw * s->min : t->dw * s->acc;
}

/* One row of file blocks times one row of A8. */
static float dot_blocks(block_fn *read, const uint8_t *row, size_t n_cols, const int8_t *x,
                        const float *d, const int16_t *sum)
{
    float total = 0;
    struct stripe stripe = {0};
    size_t n_blocks = n_cols / A8_BLOCK, per_stripe = STRIPE_LEN / A8_BLOCK;
    for (size_t b = 0; b < n_blocks; b++, x += A8_BLOCK, sum += 2) {
        struct block t = {.s0 = 1, .s1 = 1, .m0 = 1, .m1 = 1};
        read(row, b, &t);
        float i = (float)t.s0 * (float)half_dot(t.q, x) +
                  (float)t.s1 * (float)half_dot(t.q + A8_HALF, x + A8_HALF);
        int j = t.m0 * sum[0] + t.m1 * sum[1];
        add_block(&stripe, &t, b % per_stripe == 0, d[b], i, j);
        if (b % per_stripe < per_stripe - 1 && b + 1 < n_blocks) continue;
        float sum_of_stripe = end_stripe(&stripe, &t);
        total = b < per_stripe ? sum_of_stripe : total + sum_of_stripe;
    }
    return total;
}

/* F32 and BF16 weights are kept when bound, here when read; an F16 is never below 2^-24. */
static float read_float(enum qtype type, const uint8_t *row, size_t i)
{
    if (type == QTYPE_F32) return num_keep(bytes_f32(row + 4 * i));
    if (type == QTYPE_F16) return half_f16_to_f32(bytes_u16(row + 2 * i));
    return num_keep(half_bf16_to_f32(bytes_u16(row + 2 * i)));
}

/* One row of floats times one row of floats: products added in order within stripes. */
static float dot_floats(enum qtype type, const uint8_t *row, size_t n_cols, const float *x)
{
    float total = 0, acc = 0;
    for (size_t i = 0; i < n_cols; i++) {
        float term = x[i] * read_float(type, row, i);
        acc = i % STRIPE_LEN == 0 ? term : acc + term;
        if (i % STRIPE_LEN == STRIPE_LEN - 1 || i + 1 == n_cols)
            total = i < STRIPE_LEN ? acc : total + acc;
    }
    return total;
}

size_t ref_matmul_scratch(size_t n_cols)
{
    (void)n_cols;
    return 0;
}

void ref_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    (void)scratch;
    const struct weight *w = &m->w->base;
    size_t row_bytes = qtype_bytes(w->type, w->n_cols);
    block_fn *read = block_of(w->type);
    const struct a8 *a = &m->a8;
    for (size_t i = lo; i < hi; i++) {
        const uint8_t *row = m->w->file + (m->mat * w->n_rows + i) * row_bytes;
        for (size_t r = 0; r < m->n_rows; r++) {
            float y = read ? dot_blocks(read, row, w->n_cols, a->q + r * a->stride,
                                        a->d + r * a->stride / A8_BLOCK,
                                        a->sum + r * a->stride / A8_HALF)
                           : dot_floats(w->type, row, w->n_cols, m->f32 + r * m->f32_stride);
            if (m->factor) y = *m->factor * y;
            m->out[r * m->out_stride + i] = num_keep(m->bias ? y + m->bias[i] : y);
        }
    }
}
