/* Storing keys and values as f16 in sixteen lanes; see ref_attend.c for what is stored. Up to
 * sixteen rows at a time: a group of keys lies by dimension, so a row alone writes two bytes
 * here and there. A row or two, and other types, go to AVX2. */
#include <string.h>

#include "backend/kv.h"
#include "cpu/avx2.h"
#include "cpu/avx512.h"
#include "cpu/lanes16.h"

typedef uint16_t half_lanes __attribute__((vector_size(32)));

enum { DIMS = 2 * Z_LANES }; /* of a row, two in a lane */

/* A head's keys and values of 128 dims, us on AVX2 and here: 2 rows 0.25 and 0.25, 3 0.34 and
 * 0.25, 8 0.84 and 0.42 (Emerald Rapids, 2026-11). */
enum { LEAST_ROWS = 3 };

#ifdef __AVX512VNNI__

/* num16_f32_to_f16_kv: +0 below 2^-14, 65504 beyond it, one NaN. */
VEC_INLINE half_lanes to_halves(fz x)
{
    const __m512i size = _mm512_and_si512((__m512i)x, _mm512_set1_epi32(0x7fffffff));
    const mz normal = _mm512_cmpge_epi32_mask(size, _mm512_set1_epi32(0x38800000));
    const mz is_nan = _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32(0x7f800000));
    const fz most = _mm512_set1_ps(65504.0f);
    fz y = _mm512_max_ps(_mm512_min_ps(x, most), -most);
    y = _mm512_mask_mov_ps(y, is_nan, (fz)z_all_u(0x7fc00000));
    return (half_lanes)_mm512_maskz_cvtps_ph(normal, y, _MM_FROUND_TO_NEAREST_INT);
}

/* The lower halves of the lanes. */
VEC_INLINE half_lanes narrow(iz v)
{
    return (half_lanes)_mm512_cvtepi32_epi16((__m512i)v);
}

/* The first n. */
VEC_INLINE void store_first(uint16_t *to, half_lanes v, size_t n)
{
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1), (__m256i)v);
}

#else

VEC_INLINE void store_first(uint16_t *to, half_lanes v, size_t n)
{
    memcpy(to, &v, n * sizeof *to);
}

VEC_INLINE half_lanes narrow(iz v)
{
    return __builtin_convertvector(v, half_lanes);
}

VEC_INLINE half_lanes to_halves(fz x)
{
    return narrow((iz)num16_f32_to_f16_kv(x));
}

#endif

/* n rows of keys from k on to slots of a group, from `to` on. */
static void store_keys(const float *k, size_t stride, size_t n, size_t dim, uint16_t *to)
{
    for (size_t d = 0; d < dim; d += DIMS) {
        iz v[Z_LANES] = {{0}};
        UNROLL for (size_t r = 0; r < Z_LANES; r++)
        {
            if (r >= n) continue;
            const float *from = k + r * stride + d;
            const half_lanes h[2] = {to_halves(z_load_f(from)),
                                     to_halves(z_load_f(from + Z_LANES))};
            memcpy(&v[r], h, sizeof h);
        }
        z_transpose(v);
        UNROLL for (size_t i = 0; i < Z_LANES; i++)
        {
            uint16_t *slots = to + (d + 2 * i) * KEY_GROUP;
            store_first(slots, narrow(v[i]), n);
            store_first(slots + KEY_GROUP, narrow((iz)((uz)v[i] >> 16)), n);
        }
    }
}

static void store_values(const float *v, size_t stride, size_t n_rows, size_t dim, uint16_t *to)
{
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t e = 0; e < dim; e += Z_LANES) {
            const half_lanes h = to_halves(z_load_f(v + r * stride + e));
            memcpy(to + r * dim + e, &h, sizeof h);
        }
    }
}

void avx512_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                     struct kv_rows rows)
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    if (kv->type == KV_F16 && dk % DIMS == 0 && dv % Z_LANES == 0) {
        const struct kv_head at = kv_head_at(kv, head);
        uint16_t *keys = (uint16_t *)((uint8_t *)page + at.k);
        uint16_t *values = (uint16_t *)((uint8_t *)page + at.v);
        while (rows.n >= LEAST_ROWS) {
            const size_t left = KEY_GROUP - slot % KEY_GROUP, n = rows.n < left ? rows.n : left;
            store_keys(rows.k, rows.k_stride, n, dk, keys + kv_key_at(dk, 0, slot));
            store_values(rows.v, rows.v_stride, n, dv, values + slot * dv);
            slot += n;
            rows = kv_rows_after(rows, n);
        }
    }
    if (rows.n > 0) avx2_kv_store(kv, page, head, slot, rows);
}
