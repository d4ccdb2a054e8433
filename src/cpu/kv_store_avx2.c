/* Storing keys and values as numbers on AVX2; see ref_attend.c for what is stored, and
 * kv_codes_avx2.c for types of codes. */
#include <string.h>

#include "backend/kv.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8 };

static void store_row(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                      const float *k, const float *v)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    if (kv_type_codes(kv->type)) {
        avx2_store_codes(kv, page, head, slot, k, v);
        return;
    }
    if (kv->type != KV_F16 || dk % LANES != 0 || dv % LANES != 0) {
        ref_kv_store(kv, page, head, slot, k, v);
        return;
    }
    const struct kv_head at = kv_head_at(kv, head);
    uint16_t *keys = (uint16_t *)((uint8_t *)page + at.k) + kv_key_at(dk, 0, slot);
    uint16_t *vals = (uint16_t *)((uint8_t *)page + at.v) + slot * dv;
    uint32_t h[LANES];
    for (size_t d = 0; d < dk; d += LANES) {
        _mm256_storeu_si256((__m256i *)h, (__m256i)num8_f32_to_f16_kv(vec_load(k + d)));
        for (size_t i = 0; i < LANES; i++)
            keys[(d + i) * KEY_GROUP] = (uint16_t)h[i];
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
