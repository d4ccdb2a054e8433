#include "gguf/random_blocks.h"

#include <math.h>
#include <string.h>

#include "gguf/qblocks.h"
#include "gguf/qgrid.h"

/* Where a block of no grid keeps its scales, and the minimum that centres its codes, in units
 * of d. */
struct layout {
    enum qtype type;
    int d_at, min_at; /* bytes from the start of a block; -1: none */
    float min_ratio;
};

static const struct layout layouts[] = {
    {QTYPE_Q4_0, offsetof(struct block_q4_0, d), -1, 0},
    {QTYPE_Q4_1, offsetof(struct block_q4_1, d), offsetof(struct block_q4_1, m), -7.5f},
    {QTYPE_Q5_0, offsetof(struct block_q5_0, d), -1, 0},
    {QTYPE_Q5_1, offsetof(struct block_q5_1, d), offsetof(struct block_q5_1, m), -15.5f},
    {QTYPE_Q8_0, offsetof(struct block_q8_0, d), -1, 0},
    {QTYPE_Q2_K, offsetof(struct block_q2_k, d), offsetof(struct block_q2_k, dmin), 1.5f},
    {QTYPE_Q3_K, offsetof(struct block_q3_k, d), -1, 0},
    {QTYPE_Q4_K, offsetof(struct block_q4_k, d), offsetof(struct block_q4_k, dmin), 7.5f},
    {QTYPE_Q5_K, offsetof(struct block_q5_k, d), offsetof(struct block_q5_k, dmin), 15.5f},
    {QTYPE_Q6_K, offsetof(struct block_q6_k, d), -1, 0},
    {QTYPE_IQ4_NL, offsetof(struct block_iq4_nl, d), -1, 0},
    {QTYPE_IQ4_XS, offsetof(struct block_iq4_xs, d), -1, 0},
    {QTYPE_TQ1_0, offsetof(struct block_tq1_0, d), -1, 0},
    {QTYPE_TQ2_0, offsetof(struct block_tq2_0, d), -1, 0},
    {QTYPE_Q1_0, offsetof(struct block_q1_0, d), -1, 0},
    {QTYPE_Q2_0, offsetof(struct block_q2_0, d), -1, 0},
};

static const struct layout *layout_of(enum qtype type)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].type == type) return &layouts[i];
    return NULL;
}

/* SplitMix64 (Steele, Lea and Flood 2014): fast enough to write at the disk's speed. */
static uint64_t next(struct random_blocks *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The sum of four uniform 16-bit numbers, centred and scaled: bounded, close to normal. */
float random_blocks_normal(struct random_blocks *r)
{
    uint64_t u = next(r);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(u >> 16 * i & 0xffff) - 32767.5f;
    return sum * (1.0f / 37837.2f);
}

/* The nearest binary16 of a magnitude below 2^15, denormals included. */
static uint16_t to_f16(float x)
{
    uint32_t sign = x < 0 ? 0x8000 : 0;
    double a = fabs((double)x);
    int e;
    frexp(a, &e); /* a = m 2^e, m in [0.5, 1) */
    if (e < -13) e = -13;
    uint32_t mantissa = (uint32_t)lrint(ldexp(a, 11 - e)); /* 1024..2048 if normal */
    return (uint16_t)(sign + ((uint32_t)(e + 13) << 10) + mantissa);
}

static void put_scales(const struct random_blocks *r, const struct layout *l, uint8_t *block)
{
    if (l) memcpy(block + l->d_at, &r->d, sizeof r->d);
    if (l && l->min_at >= 0) memcpy(block + l->min_at, &r->dmin, sizeof r->dmin);
    if (qgrid_of(r->type).table) qgrid_put_d(r->type, block, r->d);
    if (r->type == QTYPE_MXFP4) block[offsetof(struct block_mxfp4, e)] = r->exponent;
    if (r->type == QTYPE_NVFP4)
        memset(block + offsetof(struct block_nvfp4, scales), r->exponent, 4);
}

static void fill_floats(struct random_blocks *r, uint8_t *out, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++) {
        float x = random_blocks_normal(r) * r->sigma;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        uint16_t half = r->type == QTYPE_F16 ? to_f16(x) : (uint16_t)(bits >> 16);
        if (r->type == QTYPE_F32)
            memcpy(out + 4 * i, &x, sizeof x);
        else
            memcpy(out + 2 * i, &half, sizeof half);
    }
}

/* Codes of two bits that mean -1 to 2 are wanted without 2, as files have them: their mean is
 * 0.
 */
static void leave_out_twos(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] &= (uint8_t) ~((bytes[i] & 0x55) << 1);
}

void random_blocks_fill(struct random_blocks *r, void *out, size_t n_values)
{
    const struct qtype_info *info = qtype_info(r->type);
    if (info->block_len == 1) {
        fill_floats(r, out, n_values);
        return;
    }
    uint8_t *bytes = out;
    size_t n_bytes = qtype_bytes(r->type, n_values), i = 0;
    for (; i + 8 <= n_bytes; i += 8) {
        uint64_t u = next(r);
        memcpy(bytes + i, &u, sizeof u);
    }
    uint64_t rest = next(r);
    memcpy(bytes + i, &rest, n_bytes - i);
    if (r->type == QTYPE_TQ2_0 || r->type == QTYPE_Q2_0) leave_out_twos(bytes, n_bytes);
    const struct layout *l = layout_of(r->type);
    for (size_t b = 0; b < n_bytes; b += info->block_bytes)
        put_scales(r, l, bytes + b);
}

/* Root mean square of what random codes decode to at the scales of r. */
static double measured_rms(const struct random_blocks *r)
{
    enum { N = 1 << 14, MAX_BYTES = 2 * N };
    struct random_blocks sample = *r;
    static _Thread_local uint8_t blocks[MAX_BYTES];
    static _Thread_local float values[N];
    random_blocks_fill(&sample, blocks, N);
    qtype_dequant(r->type, blocks, N, values);
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum / N);
}

/* The scale of e4m3 that is nearest to x times 2^9, not 0. */
static uint8_t nearest_e4m3(double x)
{
    uint8_t best = 1;
    for (uint8_t e = 2; e < 0x7f; e++)
        if (fabs((double)qblock_e4m3(e) - x) < fabs((double)qblock_e4m3(best) - x)) best = e;
    return best;
}

struct random_blocks random_blocks_new(enum qtype type, float sigma, uint64_t seed)
{
    struct random_blocks r = {.type = type, .sigma = sigma, .state = seed};
    const struct layout *l = layout_of(type);
    if (type == QTYPE_MXFP4) {
        r.exponent = 127;
        r.exponent = (uint8_t)(127 + lrint(log2((double)sigma / measured_rms(&r))));
    } else if (type == QTYPE_NVFP4) {
        r.exponent = 1;
        r.exponent = nearest_e4m3((double)sigma / measured_rms(&r));
    } else if (l || qgrid_of(type).table) {
        const float min_ratio = l ? l->min_ratio : 0;
        r.d = to_f16(1);
        r.dmin = to_f16(min_ratio);
        float d = (float)((double)sigma / measured_rms(&r));
        r.d = to_f16(d);
        r.dmin = to_f16(d * min_ratio);
    }
    return r;
}
