/* The scalar reference of KV types of codes: a code per dim of a key or value, and a scale d, a
 * bfloat16, for all of them (q8_0) or for 32 at a time (q4_0).
 *
 * Keys, and the queries they meet, are turned first: T x, with T the Hadamard matrix of as many
 * dims as the largest power of two that divides their number, so often as they go into it. A
 * dim that is large in all keys, as models have them, then takes its share of every code, and
 * T q · T k is run times q · k. T x is computed by steps h = 1, 2, 4 .. run / 2, each of which
 * makes (a + b, a - b) of the pairs (a, b) that lie h apart. A key or query with a value of
 * 2^90 or more, an infinity or a NaN is broken: its scales are NaN and its codes 0.
 *
 * Stored, with m = max |x| of the dims of a scale:
 *   q8_0  d = bf16(keep(m · (1/127))),        c = rne(x · rcp(d)) in -127..127
 *   q4_0  d = bf16(keep(m · (1/8))), negated unless -m is among them,
 *                                             c = min(rne(x · rcp(d)), 7) in -8..7
 * so the largest magnitude of q4_0 is code -8: sixteen levels of m/8 and not fifteen of m/7.
 * d = 0 has c = 0. Of a value, m of 2^100 or more, an infinity or a NaN makes d NaN and c = 0.
 *
 * Scores: the turned query is quantised as activations are (ref_quantise_row), but with as many
 * scales d as a key has; qa are its codes. With the factor f of ref_attend.c,
 * da = keep(d · ((1/run) · f)), and over the scales b, in order,
 *   q · k_j · f = sum of (da_b · d_jb) · (float)(sum of qa · c_j over the dims of b)
 * Values: their scale is part of a key's weight, and its logarithm of the weight's exponent.
 * With n = 255 (q8_0) or 127 (q4_0), over the page's visible keys j,
 *   D_j = max |d_jb|, 2^-20 where that is 0, NaN where it is 2^50 or more
 *   t_j = s_j + log2(D_j);  m = max t_j;  w_j = 255 · 2^(t_j - m)
 *   r_j = (1/D_j) · (n/255);  l = w_j · r_j summed as p_j of ref_attend.c are
 * and for the dims e of each scale b
 *   u_jb = rne(w_j) (q8_0) or rne(w_j · (d_jb · r_j)) (q4_0)
 *   o_e = (float)(sum over visible j of u_jb · c_je)
 * The functions weight_log2, weight_inverse and exp2_weight are those of numeric.h, no more
 * exact than their use needs. As weights go up to n, l and o are n times those of a softmax,
 * and a sink has l = n. The sums in brackets are exact integers below 2^24 (512 · 127 · 127, 64
 * · 255 · 127), so their order does not matter and no device can disagree about them. u is a
 * byte, signed where d has a sign; that of a NaN does not matter, for it is in l, too. D = 2^50
 * is far from what a model computes, and keeps w · r, and l and its products with a and b,
 * above 2^-100. */
#include <math.h>
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/attend.h"
#include "cpu/ref.h"

enum { Q4_BIAS = 8 };

static uint32_t magnitude(float x)
{
    return num_bits(x) & NUM_ABS;
}

static uint32_t largest(const float *x, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++)
        if (magnitude(x[i]) > max) max = magnitude(x[i]);
    return max;
}

/* ---- turning ---- */

/* T x of finite values. */
static void turn(const float *x, size_t n, float *out)
{
    memcpy(out, x, n * sizeof *x);
    for (size_t h = 1; h < kv_turned_dims(n); h *= 2) {
        for (size_t i = 0; i < n; i++) {
            if ((i & h) != 0) continue;
            const float a = out[i], b = out[i + h];
            out[i] = a + b;
            out[i + h] = a - b;
        }
    }
}

void ref_query_codes(const struct kv_layer *kv, float factor, const float *x, int8_t *codes,
                     float *d, int16_t *sums)
{
    const size_t dim = kv->head_dim_k, n = dim / kv_scales(kv->type, dim);
    const bool broken = largest(x, dim) >= TURN_LARGEST;
    float turned[KV_MAX_DIM] = {0};
    if (!broken) turn(x, dim, turned);
    for (size_t b = 0; b < dim / n; b++) {
        const float m = num_of_bits(largest(turned + b * n, n));
        const float scale = num_keep(m * (1.0f / 127.0f));
        const float inverse = scale == 0.0f ? 0.0f : 127.0f * num_rcp(m);
        for (size_t i = b * n; i < (b + 1) * n; i++)
            codes[i] = (int8_t)num_rne(turned[i] * inverse);
        d[b] = broken ? num_of_bits(NUM_NAN) : num_keep(scale * factor);
    }
    for (size_t i = 0; i < dim; i += A8_HALF) {
        int sum = 0;
        for (size_t k = i; k < i + A8_HALF; k++)
            sum += codes[k];
        sums[i / A8_HALF] = (int16_t)sum;
    }
}

/* ---- storing ---- */

/* n values of one scale -> codes and the bits of the scale. */
static void quantise(bool is_q4, const float *x, size_t n, int8_t *c, uint16_t *d)
{
    const uint32_t max = largest(x, n);
    bool negative = false; /* whether -m is there */
    for (size_t i = 0; i < n; i++)
        negative = negative || num_bits(x[i]) == (max | NUM_SIGN);
    float unit = is_q4 ? 1.0f / 8.0f : 1.0f / 127.0f;
    uint32_t scale = num_f32_to_bf16(num_keep(num_of_bits(max) * unit));
    if (scale != 0 && is_q4 && !negative) scale |= 0x8000u;
    if (max >= LARGEST) scale = NUM_NAN >> 16;
    *d = (uint16_t)scale;
    float inverse = scale == 0 || max >= LARGEST ? 0.0f : num_rcp(num_bf16_to_f32(scale));
    for (size_t i = 0; i < n; i++) {
        int32_t code = max >= LARGEST ? 0 : num_rne(x[i] * inverse);
        c[i] = (int8_t)(is_q4 && code > 7 ? 7 : code);
    }
}

/* The keys or the values of one head of a page. */
struct side {
    bool is_key, is_q4;
    size_t dim;
    uint8_t *codes;
    size_t n_scales;
    uint16_t *scales; /* [n_scales][PAGE_LEN] */
};

static struct side side_of(const struct kv_layer *kv, const void *page, size_t head,
                           bool is_key)
{
    struct side s = {.is_key = is_key, .is_q4 = kv->type == KV_Q4_0};
    s.dim = is_key ? kv->head_dim_k : kv->head_dim_v;
    s.n_scales = kv_scales(kv->type, s.dim);
    const struct kv_head at = kv_head_at(kv, head);
    s.codes = (uint8_t *)page + (is_key ? at.k : at.v);
    s.scales = (uint16_t *)((uint8_t *)page + (is_key ? at.k_scales : at.v_scales));
    return s;
}

/* The byte that holds the code of dim d, and which half of it with q4_0. */
static uint8_t *byte_of(const struct side *s, size_t slot, size_t d, bool *high)
{
    *high = s->is_q4 && (s->is_key ? d / 4 % 2 == 1 : d % 32 >= 16);
    const size_t of_four = s->is_q4 ? 8 : 4; /* dims whose codes are in four bytes */
    if (s->is_key) return &s->codes[kv_key_at(s->dim / of_four, d / of_four, slot) * 4 + d % 4];
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

static float scale_of(const struct side *s, size_t slot, size_t b)
{
    return num_bf16_to_f32(s->scales[b * PAGE_LEN + slot]);
}

static void store_codes(const struct side *s, size_t slot, const int8_t *c)
{
    for (size_t i = 0; i < s->dim; i++) {
        bool high;
        uint8_t *byte = byte_of(s, slot, i, &high);
        uint8_t half = (uint8_t)((c[i] + Q4_BIAS) & 0x0f);
        if (!s->is_q4)
            *byte = (uint8_t)c[i];
        else
            *byte = (uint8_t)(high ? (*byte & 0x0f) | half << 4 : (*byte & 0xf0) | half);
    }
}

static void store_row(const struct side *s, size_t slot, const float *x)
{
    const size_t n = s->dim / s->n_scales;
    int8_t c[KV_MAX_DIM];
    for (size_t b = 0; b < s->n_scales; b++)
        quantise(s->is_q4, x + b * n, n, c + b * n, &s->scales[b * PAGE_LEN + slot]);
    store_codes(s, slot, c);
}

static void store_broken(const struct side *s, size_t slot)
{
    static const int8_t zeros[KV_MAX_DIM];
    for (size_t b = 0; b < s->n_scales; b++)
        s->scales[b * PAGE_LEN + slot] = NUM_NAN >> 16;
    store_codes(s, slot, zeros);
}

void ref_kv_store_q(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                    const float *k, const float *v)
{
    struct side keys = side_of(kv, page, head, true), values = side_of(kv, page, head, false);
    float turned[KV_MAX_DIM];
    if (largest(k, keys.dim) >= TURN_LARGEST) {
        store_broken(&keys, slot);
    } else {
        turn(k, keys.dim, turned);
        store_row(&keys, slot, turned);
    }
    store_row(&values, slot, v);
}

/* ---- attending ---- */

float ref_dot_q(const struct kv_layer *kv, const void *page, size_t head, size_t key,
                const struct a8 *q)
{
    struct side keys = side_of(kv, page, head, true);
    const size_t n = keys.dim / keys.n_scales;
    float s = 0;
    for (size_t b = 0; b < keys.n_scales; b++) {
        int32_t sum = 0;
        for (size_t d = b * n; d < (b + 1) * n; d++)
            sum += q->q[d] * code_of(&keys, key, d);
        float scale = q->d[b] * scale_of(&keys, key, b);
        float term = scale * (float)sum;
        s = b == 0 ? term : s + term;
    }
    return s;
}

/* The largest scale of a value, as its weight takes it. */
static float weight_scale(const struct side *values, size_t key)
{
    float d = 0;
    for (size_t b = 0; b < values->n_scales; b++)
        if (magnitude(scale_of(values, key, b)) > magnitude(d)) d = scale_of(values, key, b);
    return num_weight_scale(d);
}

float ref_weight_log2(const struct kv_layer *kv, const void *page, size_t head, size_t key)
{
    struct side values = side_of(kv, page, head, false);
    return num_weight_log2(weight_scale(&values, key));
}

float ref_weight_inverse(const struct kv_layer *kv, const void *page, size_t head, size_t key)
{
    struct side values = side_of(kv, page, head, false);
    return num_weight_inverse(weight_scale(&values, key)) * attend_weight_unit(kv);
}

void ref_values_q(const struct kv_layer *kv, const void *page, size_t head, size_t lo,
                  size_t hi, const float *w, float *out)
{
    struct side values = side_of(kv, page, head, false);
    const size_t n = values.dim / values.n_scales;
    for (size_t b = 0; b < values.n_scales; b++) {
        int32_t u[PAGE_LEN] = {0};
        for (size_t j = lo; j < hi; j++) {
            const float share = scale_of(&values, j, b) * ref_weight_inverse(kv, page, head, j);
            const float of_scale = values.is_q4 ? w[j] * share : w[j];
            u[j] = isnan(of_scale) ? 0 : num_rne(of_scale);
        }
        for (size_t e = b * n; e < (b + 1) * n; e++) {
            int32_t sum = 0;
            for (size_t j = lo; j < hi; j++)
                sum += u[j] * code_of(&values, j, e);
            out[e] = (float)sum;
        }
    }
}
