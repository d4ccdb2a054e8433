/* Storing keys and values on AVX2; see ref_attend.c and ref_attend_q.c for what is stored. */
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8, LARGEST = 0x71800000 }; /* 2^100 */

/* 32 values -> codes; returns the bits of the scale. */
static uint16_t quantise_block(bool is_q4, const float *x, int8_t *c)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i bits[4], m = _mm256_setzero_si256(), v[4];
    for (int j = 0; j < 4; j++) {
        bits[j] = _mm256_castps_si256((__m256)vec_load(x + LANES * j));
        m = _mm256_max_epi32(m, _mm256_and_si256(bits[j], mask));
    }
    uint32_t max = (uint32_t)vec_max_i((i8x)m);
    if (max >= (uint32_t)LARGEST) {
        memset(c, 0, KV_BLOCK);
        return NUM_NAN >> 16;
    }
    float unit = is_q4 ? 1.0f / 8.0f : 1.0f / 127.0f;
    uint32_t scale = num_f32_to_bf16(num_keep(num_of_bits(max) * unit));
    if (scale == 0) {
        memset(c, 0, KV_BLOCK);
        return 0;
    }
    if (is_q4) {
        const __m256i extreme = _mm256_set1_epi32((int)(max | NUM_SIGN));
        __m256i found = _mm256_setzero_si256();
        for (int j = 0; j < 4; j++)
            found = _mm256_or_si256(found, _mm256_cmpeq_epi32(bits[j], extreme));
        if (_mm256_testz_si256(found, found)) scale |= 0x8000u;
    }
    f8 inverse = vec_all(num_rcp(num_bf16_to_f32(scale)));
    for (int j = 0; j < 4; j++)
        v[j] = (__m256i)num8_rne((f8)bits[j] * inverse);
    /* Packing works within halves of 128 bits: put the groups of four back in order. */
    __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);
    __m256i packed = _mm256_packs_epi16(a, b);
    packed = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (is_q4) packed = _mm256_min_epi8(packed, _mm256_set1_epi8(7));
    _mm256_storeu_si256((__m256i *)c, packed);
    return (uint16_t)scale;
}

static void store_key(bool is_q4, uint8_t *keys, size_t block, size_t slot, const int8_t *c)
{
    uint32_t words[8];
    memcpy(words, c, sizeof words);
    if (!is_q4) {
        for (size_t g = 0; g < 8; g++)
            memcpy(keys + ((8 * block + g) * PAGE_LEN + slot) * 4, &words[g], 4);
        return;
    }
    for (size_t g = 0; g < 4; g++) { /* in four bits, + 8 is ^ 8 */
        uint32_t low = words[2 * g] & 0x0f0f0f0fu, high = words[2 * g + 1] & 0x0f0f0f0fu;
        uint32_t both = (low | high << 4) ^ 0x88888888u;
        memcpy(keys + ((4 * block + g) * PAGE_LEN + slot) * 4, &both, 4);
    }
}

static void store_value(bool is_q4, uint8_t *out, const int8_t *c)
{
    if (!is_q4) {
        memcpy(out, c, KV_BLOCK);
        return;
    }
    for (size_t i = 0; i < KV_BLOCK / 2; i++)
        out[i] = (uint8_t)(((c[i] & 0x0f) | (c[i + 16] & 0x0f) << 4) ^ 0x88);
}

static void store_blocks(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                         const float *k, const float *v)
{
    bool is_q4 = kv->type == KV_Q4_0;
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    uint8_t *keys = (uint8_t *)page + kv->k_at, *values = (uint8_t *)page + kv->v_at;
    uint16_t *k_scales =
        (uint16_t *)(keys + kv->n_heads * k_bytes + head * kv_scale_bytes(kv->type, dk));
    uint16_t *v_scales =
        (uint16_t *)(values + kv->n_heads * v_bytes + head * kv_scale_bytes(kv->type, dv));
    int8_t c[KV_BLOCK];
    for (size_t b = 0; b < dk / KV_BLOCK; b++) {
        k_scales[b * PAGE_LEN + slot] = quantise_block(is_q4, k + b * KV_BLOCK, c);
        store_key(is_q4, keys + head * k_bytes, b, slot, c);
    }
    size_t row_bytes = v_bytes / PAGE_LEN, block_bytes = row_bytes / (dv / KV_BLOCK);
    for (size_t b = 0; b < dv / KV_BLOCK; b++) {
        v_scales[b * PAGE_LEN + slot] = quantise_block(is_q4, v + b * KV_BLOCK, c);
        store_value(is_q4, values + head * v_bytes + slot * row_bytes + b * block_bytes, c);
    }
}

static void store_row(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                      const float *k, const float *v)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    if (kv_type_blocks(kv->type)) {
        store_blocks(kv, page, head, slot, k, v);
        return;
    }
    if (kv->type != KV_F16 || dk % LANES != 0 || dv % LANES != 0) {
        ref_kv_store(kv, page, head, slot, k, v);
        return;
    }
    uint16_t *keys = (uint16_t *)((uint8_t *)page + kv->k_at) + head * dk * PAGE_LEN + slot;
    uint16_t *vals = (uint16_t *)((uint8_t *)page + kv->v_at) + (head * PAGE_LEN + slot) * dv;
    uint32_t h[LANES];
    for (size_t d = 0; d < dk; d += LANES) {
        _mm256_storeu_si256((__m256i *)h, (__m256i)num8_f32_to_f16_kv(vec_load(k + d)));
        for (size_t i = 0; i < LANES; i++)
            keys[(d + i) * PAGE_LEN] = (uint16_t)h[i];
    }
    for (size_t e = 0; e < dv; e += LANES) {
        _mm256_storeu_si256((__m256i *)h, (__m256i)num8_f32_to_f16_kv(vec_load(v + e)));
        for (size_t i = 0; i < LANES; i++)
            vals[e + i] = (uint16_t)h[i];
    }
}

void avx2_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                   struct kv_rows rows)
{
    for (; rows.n > 0; rows = kv_rows_after(rows, 1))
        store_row(kv, page, head, slot++, rows.k, rows.v);
}
