/* The scalar reference of KV types that store blocks: 32 dims of one key or value as codes c
 * and one scale d, a bfloat16.
 *
 * Stored, with m = max |x| of the block:
 *   q8_0  d = bf16(keep(m · (1/127))),        c = rne(x · rcp(d)) in -127..127
 *   q4_0  d = bf16(keep(m · (1/8))), negated unless the block has -m,
 *                                             c = min(rne(x · rcp(d)), 7) in -8..7
 * so the largest magnitude of a q4_0 block is code -8: sixteen levels of m/8 and not fifteen of
 * m/7. d = 0 has c = 0. m of 2^100 or more, an infinity or a NaN makes d NaN and c = 0.
 *
 * Keys: the query is quantised as activations are (ref_quantise), qa with scales da, and
 *   q · k_j = sum over blocks b, in order, of (da_b · d_jb) · (float)(sum of qa · c_j)
 * Values: with the probabilities p_j of the page's visible keys, block by block of the dims,
 *   w_j = p_j · d_jb;  M = max |w_j|;  step = keep(M · (1/2047));  u_j = rne(w_j · (2047 ·
 * rcp(M))) o_e = keep(step · (float)(sum over visible j of u_j · c_je)) The sums in brackets
 * are exact integers below 2^24 (32 · 127 · 127, 64 · 2047 · 127), so their order does not
 * matter and no device can disagree about them; u has the most bits that allow it. step = 0 has
 * u = 0; M of 2^100 or more, an infinity or a NaN makes step NaN and u = 0. */
#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/ref.h"

enum { WEIGHT_MAX = 2047, Q4_BIAS = 8 };
static const uint32_t LARGEST = 0x71800000u; /* 2^100 */

static uint32_t magnitude(float x)
{
    return num_bits(x) & NUM_ABS;
}

/* 32 values -> codes and the bits of the scale. */
static void quantise_block(bool is_q4, const float *x, int8_t *c, uint16_t *d)
{
    uint32_t max = 0;
    bool negative = false; /* whether -m is there */
    for (size_t i = 0; i < KV_BLOCK; i++)
        if (magnitude(x[i]) > max) max = magnitude(x[i]);
    for (size_t i = 0; i < KV_BLOCK; i++)
        negative = negative || num_bits(x[i]) == (max | NUM_SIGN);
    float unit = is_q4 ? 1.0f / 8.0f : 1.0f / 127.0f;
    uint32_t scale = num_f32_to_bf16(num_keep(num_of_bits(max) * unit));
    if (scale != 0 && is_q4 && !negative) scale |= 0x8000u;
    if (max >= LARGEST) scale = NUM_NAN >> 16;
    *d = (uint16_t)scale;
    float inverse = scale == 0 || max >= LARGEST ? 0.0f : num_rcp(num_bf16_to_f32(scale));
    for (size_t i = 0; i < KV_BLOCK; i++) {
        int32_t code = max >= LARGEST ? 0 : num_rne(x[i] * inverse);
        c[i] = (int8_t)(is_q4 && code > 7 ? 7 : code);
    }
}

/* The keys or the values of one head of a page. */
struct side {
    bool is_key, is_q4;
    size_t dim;
    uint8_t *codes;
    uint16_t *scales; /* [dim/32][PAGE_LEN] */
};

static struct side side_of(const struct kv_layer *kv, const void *page, size_t head,
                           bool is_key)
{
    struct side s = {.is_key = is_key, .is_q4 = kv->type == KV_Q4_0};
    s.dim = is_key ? kv->head_dim_k : kv->head_dim_v;
    uint8_t *base = (uint8_t *)page + (is_key ? kv->k_at : kv->v_at);
    size_t code_bytes = kv_code_bytes(kv->type, s.dim);
    s.codes = base + head * code_bytes;
    s.scales =
        (uint16_t *)(base + kv->n_heads * code_bytes + head * kv_scale_bytes(kv->type, s.dim));
    return s;
}

/* The byte that holds the code of dim d, and which half of it with q4_0. */
static uint8_t *byte_of(const struct side *s, size_t slot, size_t d, bool *high)
{
    *high = s->is_q4 && (s->is_key ? d / 4 % 2 == 1 : d % 32 >= 16);
    if (s->is_key) return &s->codes[(d / (s->is_q4 ? 8 : 4) * PAGE_LEN + slot) * 4 + d % 4];
    if (s->is_q4) return &s->codes[slot * s->dim / 2 + d / 32 * 16 + d % 16];
    return &s->codes[slot * s->dim + d];
}

static int32_t code_of(const struct side *s, size_t slot, size_t d)
{
    bool high;
    uint8_t byte = *byte_of(s, slot, d, &high);
    if (!s->is_q4) return (int8_t)byte;
    return (high ? byte >> 4 : byte & 0x0f) - Q4_BIAS;
}

static float scale_of(const struct side *s, size_t slot, size_t block)
{
    return num_bf16_to_f32(s->scales[block * PAGE_LEN + slot]);
}

static void store_block(const struct side *s, size_t slot, size_t block, const float *x)
{
    int8_t c[KV_BLOCK];
    quantise_block(s->is_q4, x, c, &s->scales[block * PAGE_LEN + slot]);
    for (size_t i = 0; i < KV_BLOCK; i++) {
        bool high;
        uint8_t *byte = byte_of(s, slot, block * KV_BLOCK + i, &high);
        uint8_t half = (uint8_t)((c[i] + Q4_BIAS) & 0x0f);
        if (!s->is_q4)
            *byte = (uint8_t)c[i];
        else
            *byte = (uint8_t)(high ? (*byte & 0x0f) | half << 4 : (*byte & 0xf0) | half);
    }
}

void ref_kv_store_q(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                    const float *k, const float *v)
{
    struct side keys = side_of(kv, page, head, true), values = side_of(kv, page, head, false);
    for (size_t b = 0; b < keys.dim / KV_BLOCK; b++)
        store_block(&keys, slot, b, k + b * KV_BLOCK);
    for (size_t b = 0; b < values.dim / KV_BLOCK; b++)
        store_block(&values, slot, b, v + b * KV_BLOCK);
}

float ref_dot_q(const struct kv_layer *kv, const void *page, size_t head, size_t key,
                const struct a8 *q)
{
    struct side keys = side_of(kv, page, head, true);
    float s = 0;
    for (size_t b = 0; b < keys.dim / KV_BLOCK; b++) {
        int32_t sum = 0;
        for (size_t d = b * KV_BLOCK; d < (b + 1) * KV_BLOCK; d++)
            sum += q->q[d] * code_of(&keys, key, d);
        float scale = q->d[b] * scale_of(&keys, key, b);
        float term = scale * (float)sum;
        s = b == 0 ? term : s + term;
    }
    return s;
}

/* w[lo..hi) -> integers u and their step. */
static float quantise_weights(const float *w, size_t lo, size_t hi, int32_t *u)
{
    uint32_t max = 0;
    for (size_t j = lo; j < hi; j++)
        if (magnitude(w[j]) > max) max = magnitude(w[j]);
    float m = num_of_bits(max);
    bool broken = max >= LARGEST;
    float step = broken ? num_of_bits(NUM_NAN) : num_keep(m * (1.0f / (float)WEIGHT_MAX));
    float inverse = broken || step == 0.0f ? 0.0f : (float)WEIGHT_MAX * num_rcp(m);
    for (size_t j = lo; j < hi; j++)
        u[j] = broken ? 0 : num_rne(w[j] * inverse);
    return step;
}

void ref_values_q(const struct kv_layer *kv, const void *page, size_t head, size_t lo,
                  size_t hi, const float *p, float *out)
{
    struct side values = side_of(kv, page, head, false);
    for (size_t b = 0; b < values.dim / KV_BLOCK; b++) {
        float w[PAGE_LEN];
        int32_t u[PAGE_LEN];
        for (size_t j = lo; j < hi; j++)
            w[j] = p[j] * scale_of(&values, j, b);
        float step = quantise_weights(w, lo, hi, u);
        for (size_t e = b * KV_BLOCK; e < (b + 1) * KV_BLOCK; e++) {
            int32_t sum = 0;
            for (size_t j = lo; j < hi; j++)
                sum += u[j] * code_of(&values, j, e);
            out[e] = num_keep(step * (float)sum);
        }
    }
}
