/* Rows of KV types of codes on AVX2: turning, quantising and storing keys and values, and
 * quantising queries; see ref_attend_q.c for what is computed. */
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/attend.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8 };

/* The bits of the largest magnitude; n is a multiple of 32, as everywhere here. */
static uint32_t largest(const float *x, size_t n)
{
    i8x m[4] = {{0}};
    for (size_t i = 0; i < n; i += 4 * LANES) {
        UNROLL
        for (size_t j = 0; j < 4; j++) {
            const i8x size = (i8x)vec_load(x + i + LANES * j) & 0x7fffffff;
            m[j] = (i8x)_mm256_max_epi32((__m256i)m[j], (__m256i)size);
        }
    }
    const __m256i a = _mm256_max_epi32((__m256i)m[0], (__m256i)m[1]);
    const __m256i b = _mm256_max_epi32((__m256i)m[2], (__m256i)m[3]);
    return (uint32_t)vec_max_i((i8x)_mm256_max_epi32(a, b));
}

/* ---- turning ---- */

/* The steps within a vector: pairs one, two and four lanes apart. The upper of a pair has its
 * sign changed where it lies, the lower one comes from its place. */
static f8 turn_lanes(f8 v)
{
    const i8x s = {0, (int)NUM_SIGN, 0, (int)NUM_SIGN, 0, (int)NUM_SIGN, 0, (int)NUM_SIGN};
    const i8x t = {0, 0, (int)NUM_SIGN, (int)NUM_SIGN, 0, 0, (int)NUM_SIGN, (int)NUM_SIGN};
    const i8x u = {0, 0, 0, 0, (int)NUM_SIGN, (int)NUM_SIGN, (int)NUM_SIGN, (int)NUM_SIGN};
    v = (f8)_mm256_permute_ps((__m256)v, 0xb1) + (f8)((i8x)v ^ s);
    v = (f8)_mm256_permute_ps((__m256)v, 0x4e) + (f8)((i8x)v ^ t);
    return (f8)_mm256_permute2f128_ps((__m256)v, (__m256)v, 0x01) + (f8)((i8x)v ^ u);
}

/* The steps of values h and 2h apart, h a multiple of a vector. */
static void turn_twice(float *x, size_t n, size_t h)
{
    for (size_t at = 0; at < n; at += 4 * h) {
        for (size_t i = at; i < at + h; i += LANES) {
            const f8 a = vec_load(x + i), b = vec_load(x + i + h);
            const f8 c = vec_load(x + i + 2 * h), d = vec_load(x + i + 3 * h);
            const f8 ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
            vec_store(x + i, ab + cd);
            vec_store(x + i + h, a_b + c_d);
            vec_store(x + i + 2 * h, ab - cd);
            vec_store(x + i + 3 * h, a_b - c_d);
        }
    }
}

static void turn(const float *x, size_t n, float *out)
{
    const size_t run = kv_turned_dims(n);
    size_t h = LANES;
    for (size_t i = 0; i < n; i += LANES)
        vec_store(out + i, turn_lanes(vec_load(x + i)));
    for (; 2 * h < run; h *= 4)
        turn_twice(out, n, h);
    for (size_t at = 0; h < run && at < n; at += 2 * h) {
        for (size_t i = at; i < at + h; i += LANES) {
            const f8 a = vec_load(out + i), b = vec_load(out + i + h);
            vec_store(out + i, a + b);
            vec_store(out + i + h, a - b);
        }
    }
}

/* ---- quantising ---- */

void avx2_query_codes(const struct kv_layer *kv, float factor, const float *x, int8_t *codes,
                      float *d, int16_t *sums)
{
    const size_t dim = kv->head_dim_k, n_scales = kv_scales(kv->type, dim);
    float turned[KV_MAX_DIM];
    if (largest(x, dim) >= TURN_LARGEST) {
        memset(codes, 0, dim);
        memset(sums, 0, dim / A8_HALF * sizeof *sums);
        for (size_t b = 0; b < n_scales; b++)
            d[b] = num_of_bits(NUM_NAN);
        return;
    }
    turn(x, dim, turned);
    if (n_scales > 1) {
        avx2_quantise(&(struct quantise){
            .x = turned, .n_rows = 1, .n = dim, .q = codes, .d = d, .sum = sums});
    } else {
        const float m = num_of_bits(largest(turned, dim));
        *d = num_keep(m * (1.0f / 127.0f));
        const f8 inverse = vec_all(*d == 0.0f ? 0.0f : 127.0f * num_rcp(m));
        for (size_t i = 0; i < dim; i += KV_BLOCK) {
            const __m256i c = vec_codes32(turned + i, inverse);
            _mm256_storeu_si256((__m256i *)(codes + i), c);
            vec_sums16(c, sums + i / A8_HALF);
        }
    }
    for (size_t b = 0; b < n_scales; b++)
        d[b] = num_keep(d[b] * factor);
}

/* Whether -max is among n values. */
static bool has_negative(const float *x, size_t n, uint32_t max)
{
    const __m256i extreme = _mm256_set1_epi32((int)(max | NUM_SIGN));
    __m256i found = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += LANES)
        found = _mm256_or_si256(
            found, _mm256_cmpeq_epi32(_mm256_castps_si256((__m256)vec_load(x + i)), extreme));
    return !_mm256_testz_si256(found, found);
}

/* n values of one scale -> codes; returns the bits of the scale. */
static uint16_t quantise(bool is_q4, const float *x, size_t n, int8_t *c)
{
    const uint32_t max = largest(x, n);
    const float unit = is_q4 ? 1.0f / 8.0f : 1.0f / 127.0f;
    uint32_t scale =
        max >= LARGEST ? NUM_NAN >> 16 : num_f32_to_bf16(num_keep(num_of_bits(max) * unit));
    if (max >= LARGEST || scale == 0) {
        memset(c, 0, n);
        return (uint16_t)scale;
    }
    if (is_q4 && !has_negative(x, n, max)) scale |= 0x8000u;
    const f8 inverse = vec_all(num_rcp(num_bf16_to_f32(scale)));
    for (size_t i = 0; i < n; i += KV_BLOCK) {
        __m256i codes = vec_codes32(x + i, inverse);
        if (is_q4) codes = _mm256_min_epi8(codes, _mm256_set1_epi8(7));
        _mm256_storeu_si256((__m256i *)(c + i), codes);
    }
    return (uint16_t)scale;
}

/* ---- storing ---- */

static void store_key(bool is_q4, size_t dim, const int8_t *c, size_t slot, uint8_t *keys)
{
    uint8_t *four = keys + 4 * kv_key_at(dim / (is_q4 ? 8 : 4), 0, slot);
    if (!is_q4) {
        for (size_t i = 0; i < dim; i += 4, four += 4 * KEY_GROUP)
            memcpy(four, c + i, 4);
        return;
    }
    for (size_t i = 0; i < dim; i += 8, four += 4 * KEY_GROUP) { /* in four bits, + 8 is ^ 8 */
        uint32_t w[2];
        memcpy(w, c + i, sizeof w);
        const uint32_t both = ((w[0] & 0x0f0f0f0fu) | (w[1] & 0x0f0f0f0fu) << 4) ^ 0x88888888u;
        memcpy(four, &both, sizeof both);
    }
}

static void store_value(bool is_q4, size_t dim, const int8_t *c, uint8_t *row)
{
    if (!is_q4) {
        memcpy(row, c, dim);
        return;
    }
    for (size_t b = 0; b < dim; b += KV_BLOCK)
        for (size_t i = 0; i < KV_BLOCK / 2; i++)
            row[b / 2 + i] =
                (uint8_t)(((c[b + i] & 0x0f) | (c[b + i + KV_BLOCK / 2] & 0x0f) << 4) ^ 0x88);
}

/* The codes of a row and its scales, [n][PAGE_LEN] from `scales` on. */
static void codes_of(bool is_q4, const float *x, size_t dim, size_t n, int8_t *c,
                     uint16_t *scales)
{
    for (size_t b = 0; b < n; b++)
        scales[b * PAGE_LEN] = quantise(is_q4, x + dim / n * b, dim / n, c + dim / n * b);
}

void avx2_store_codes(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                      const float *k, const float *v)
{
    const bool is_q4 = kv->type == KV_Q4_0;
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    const struct kv_head at = kv_head_at(kv, head);
    uint8_t *base = page;
    uint16_t *k_scales = (uint16_t *)(base + at.k_scales) + slot;
    uint16_t *v_scales = (uint16_t *)(base + at.v_scales) + slot;
    float turned[KV_MAX_DIM];
    int8_t c[KV_MAX_DIM];
    if (largest(k, dk) >= TURN_LARGEST) {
        memset(c, 0, dk);
        for (size_t b = 0; b < kv_scales(kv->type, dk); b++)
            k_scales[b * PAGE_LEN] = NUM_NAN >> 16;
    } else {
        turn(k, dk, turned);
        codes_of(is_q4, turned, dk, kv_scales(kv->type, dk), c, k_scales);
    }
    store_key(is_q4, dk, c, slot, base + at.k);
    codes_of(is_q4, v, dv, kv_scales(kv->type, dv), c, v_scales);
    store_value(is_q4, dv, c, base + at.v + kv_code_bytes(kv->type, dv) / PAGE_LEN * slot);
}
