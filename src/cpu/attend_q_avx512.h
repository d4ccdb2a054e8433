/* Pages of KV types of blocks for many queries: what AVX-512 and AMX share. For
 * attend_q_*.c only; everything is inline. See ref_attend_q.c for the arithmetic. */
#ifndef CPU_ATTEND_Q_AVX512_H
#define CPU_ATTEND_Q_AVX512_H

#include "cpu/attend_avx512.h"
#include "cpu/avx2.h"

enum { WEIGHT_MAX = 2047, LARGEST = 0x71800000 /* 2^100 */, QUADS = KV_BLOCK / 4 };

/* A group's queries: four codes of a lane's query in each, [blocks][QUADS], and the scales of
 * the blocks. */
struct queries_q {
    const bz *codes;
    const fz *d;
};

static inline size_t queries_q_bytes(const struct kv_layer *kv)
{
    const size_t n_blocks = kv->head_dim_k / KV_BLOCK;
    /* And where a query is quantised before it becomes a lane. */
    return n_blocks *
           ((QUADS + 1) * sizeof(bz) + KV_BLOCK + sizeof(float) + 2 * sizeof(int16_t));
}

VEC_INLINE struct queries_q queries_q_at(const struct kv_layer *kv, const void *q)
{
    const size_t n_blocks = kv->head_dim_k / KV_BLOCK;
    return (struct queries_q){q, (const fz *)((const bz *)q + n_blocks * QUADS)};
}

static inline void queries_q_fill(const struct kv_layer *kv, const float *const x[Z_LANES],
                                  uint8_t flip, void *q)
{
    const size_t dk = kv->head_dim_k, n_blocks = dk / KV_BLOCK;
    uint8_t *codes = q;
    float *scales = (float *)(codes + n_blocks * QUADS * sizeof(bz));
    float *d = scales + n_blocks * Z_LANES;
    int16_t *sums = (int16_t *)(d + n_blocks);
    int8_t *row = (int8_t *)(sums + 2 * n_blocks);
    for (size_t i = 0; i < Z_LANES; i++) {
        avx2_quantise(x[i], dk, row, d, sums);
        for (size_t k = 0; k < dk / 4; k++)
            memcpy(codes + (k * Z_LANES + i) * 4, row + 4 * k, 4);
        for (size_t b = 0; b < n_blocks; b++)
            scales[b * Z_LANES + i] = d[b];
    }
    for (size_t k = 0; k < dk / 4; k++)
        z_store(codes + k * sizeof(bz), z_load(codes + k * sizeof(bz)) ^ flip);
}

/* Probabilities times the scales of a block's keys. */
VEC_INLINE fz weight_of(bool whole, const struct seen *t, const fz *p, const float *d,
                        size_t key)
{
    const fz w = p[key] * z_all(d[key]);
    return whole ? w : z_choose(seen_by(t, key), w, z_all(0));
}

/* What makes integers of the weights of a block, and numbers of their sums. */
struct weights_step {
    fz inverse, step;
};

/* The scales d are not negative: only a NaN that is one of the lane's own probabilities is. */
VEC_INLINE struct weights_step weights_step(bool whole, const struct seen *t, const fz *p,
                                            const float *d)
{
    iz max[4] = {{0}};
    const size_t to = (t->to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < to; j += 8) {
        UNROLL for (size_t i = 0; i < 8; i++) max[i % 4] =
            z_max_i(max[i % 4], (iz)weight_of(whole, t, p, d, j + i));
    }
    const iz m = z_max_i(z_max_i(max[0], max[1]), z_max_i(max[2], max[3]));
    const mz fine = z_less(m, z_all_i(LARGEST));
    const fz step = num16_keep((fz)m * z_all(1.0f / (float)WEIGHT_MAX));
    const fz inverse = z_all(WEIGHT_MAX) * num16_rcp((fz)m);
    const mz some = z_less(z_all_i(0), (iz)step) & fine;
    return (struct weights_step){z_choose(some, inverse, z_all(0)),
                                 z_choose(fine, step, (fz)z_all_u(NUM_NAN))};
}

/* The weight of a key as an integer, in the low half of each lane: rne (numeric.h) adds
 * 1.5 · 2^23. */
VEC_INLINE iz weight_code(bool whole, const struct seen *t, const fz *p, const float *d,
                          fz inverse, size_t key)
{
    return (iz)(weight_of(whole, t, p, d, key) * inverse + z_all(12582912.0f));
}

#endif
