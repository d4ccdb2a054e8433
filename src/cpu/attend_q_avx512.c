/* Attention on AVX-512 over KV types of blocks, many queries; see ref_attend_q.c for what it
 * computes, and attend_avx512.h.
 *
 * Scores: codes of queries are made unsigned by 128 more, which the sums of a key's codes take
 * away again, so that four products are an instruction. Values: the weights of two keys are the
 * halves of a lane, times two codes as int16. q4_0 is widened to bytes; the sign of a scale of
 * its values goes to the codes. */
#include "cpu/attend_q_avx512.h"
#include "cpu/carve.h"

enum { KEYS = 8 /* whose scores are computed together */ };

/* A page, laid out. */
struct blocks {
    const int8_t **keys;        /* where [dim/4][PAGE_LEN][4] is: in the page, or widened */
    int32_t *k_sums;            /* [blocks][PAGE_LEN]: -128 times those of the codes */
    float *k_scales, *v_scales; /* [blocks][PAGE_LEN] */
    int16_t *v;                 /* [dim/16][PAGE_LEN/2][16][2] */
    bz *u;                      /* [PAGE_LEN/2]: pairs of weights of a group and block */
    int8_t *widened;
};

/* Where its parts are in memory; returns their bytes. */
static size_t blocks_carve(const struct kv_layer *kv, void *laid, struct blocks *b)
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    const size_t k_numbers = dk / KV_BLOCK * PAGE_LEN, v_numbers = dv / KV_BLOCK * PAGE_LEN;
    struct carver c = {laid, 0};
    b->keys = carve(&c, sizeof *b->keys);
    b->k_sums = carve(&c, k_numbers * sizeof(int32_t));
    b->k_scales = carve(&c, k_numbers * sizeof(float));
    b->v_scales = carve(&c, v_numbers * sizeof(float));
    b->v = carve(&c, dv * PAGE_LEN * sizeof(int16_t));
    b->u = carve(&c, PAGE_LEN / 2 * sizeof(bz));
    b->widened = carve(&c, kv->type == KV_Q4_0 ? dk * PAGE_LEN : 0);
    return c.used;
}

static struct blocks blocks_of(const struct kv_layer *kv, void *laid)
{
    struct blocks b;
    blocks_carve(kv, laid, &b);
    return b;
}

static size_t blocks_page_bytes(const struct kv_layer *kv)
{
    struct blocks b;
    return blocks_carve(kv, NULL, &b);
}

static void blocks_queries(const struct kv_layer *kv, const float *const x[Z_LANES], void *q)
{
    queries_q_fill(kv, x, 0x80, q);
}

/* ---- a page is laid out ---- */

static void read_scales(const uint16_t *from, size_t n_blocks, float *to)
{
    for (size_t i = 0; i < n_blocks * PAGE_LEN; i += Z_LANES)
        z_store_f(to + i, z_bf16(from + i));
}

/* Codes 0..15 of q4_0 in bytes, less their bias. */
VEC_INLINE bz nibbles(bz x, int high)
{
    return ((high ? z_shift_right(x, 4) : x) & 0x0f) - 8;
}

static void widen_keys(const uint8_t *from, size_t dk, int8_t *to)
{
    for (size_t d = 0; d < dk; d += 8, to += 8 * PAGE_LEN) {
        for (size_t i = 0; i < 4 * PAGE_LEN; i += 64) {
            const bz x = z_load(from + d / 2 * PAGE_LEN + i);
            z_store(to + i, nibbles(x, 0));
            z_store(to + 4 * PAGE_LEN + i, nibbles(x, 1));
        }
    }
}

static void sum_keys(const int8_t *k, size_t n_blocks, int32_t *sums)
{
    const bz ones = (bz)z_all_u(0x01010101);
    for (size_t b = 0; b < n_blocks; b++, k += KV_BLOCK * PAGE_LEN) {
        for (size_t j = 0; j < PAGE_LEN; j += Z_LANES, sums += Z_LANES) {
            iz sum = {0};
            for (size_t i = 0; i < QUADS; i++)
                sum = z_dot(sum, ones, z_load(k + (i * PAGE_LEN + j) * 4));
            z_store(sums, (bz)(sum * -128));
        }
    }
}

/* Sixteen codes of a key: dims e.. of a row. */
VEC_INLINE iz value_codes(bool is_q4, const uint8_t *row, size_t e)
{
    if (!is_q4) return z_widen(row + e);
    const iz x = z_widen(row + e / KV_BLOCK * 16);
    return ((e % KV_BLOCK ? x >> 4 : x) & 15) - 8;
}

/* Values of the pairs of keys from..to-1. */
VEC_INLINE void widen_values(bool is_q4, const uint8_t *from, const float *scales, size_t dv,
                             size_t lo, size_t hi, int16_t *to)
{
    const size_t row_bytes = is_q4 ? dv / 2 : dv;
    for (size_t e = 0; e < dv; e += 16, to += 16 * PAGE_LEN) {
        const float *d = scales + e / KV_BLOCK * PAGE_LEN;
        for (size_t key = lo / 2 * 2; key < hi; key += 2) {
            iz a = value_codes(is_q4, from + key * row_bytes, e);
            iz b = value_codes(is_q4, from + (key + 1) * row_bytes, e);
            if (is_q4 && d[key] < 0) a = -a;
            if (is_q4 && d[key + 1] < 0) b = -b;
            z_store(to + key * 16, z_pair(a, b));
        }
    }
}

static void blocks_lay_out(const struct kv_layer *kv, const void *page,
                           const struct head_at *at, size_t from, size_t to, void *laid)
{
    const uint8_t *base = page;
    const size_t dv = kv->head_dim_v;
    const size_t k_blocks = kv->head_dim_k / KV_BLOCK, v_blocks = dv / KV_BLOCK;
    const struct blocks b = blocks_of(kv, laid);
    read_scales((const uint16_t *)(base + at->k_scales), k_blocks, b.k_scales);
    read_scales((const uint16_t *)(base + at->v_scales), v_blocks, b.v_scales);
    *b.keys = (const int8_t *)(base + at->k);
    if (kv->type == KV_Q4_0) {
        widen_keys(base + at->k, kv->head_dim_k, b.widened);
        *b.keys = b.widened;
        widen_values(true, base + at->v, b.v_scales, dv, from, to, b.v);
        for (size_t i = 0; i < v_blocks * PAGE_LEN; i += Z_LANES)
            z_store(b.v_scales + i, (bz)((iz)z_load_f(b.v_scales + i) & 0x7fffffff));
    } else {
        widen_values(false, base + at->v, b.v_scales, dv, from, to, b.v);
    }
    sum_keys(*b.keys, k_blocks, b.k_sums);
}

/* ---- scores ---- */

static void blocks_scores(const struct kv_layer *kv, const void *laid, const void *query,
                          const struct seen *t, fz *s)
{
    const size_t n_blocks = kv->head_dim_k / KV_BLOCK;
    const struct blocks page = blocks_of(kv, (void *)laid);
    const struct queries_q q = queries_q_at(kv, query);
    const size_t to = (t->to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < to; j += KEYS) {
        fz sum[KEYS] = {{0}};
        for (size_t b = 0; b < n_blocks; b++) {
            const int8_t *k = *page.keys + (b * KV_BLOCK * PAGE_LEN + j * 4);
            iz acc[KEYS];
            UNROLL for (size_t i = 0; i < KEYS; i++) acc[i] =
                z_all_i(page.k_sums[b * PAGE_LEN + j + i]);
            UNROLL for (size_t g = 0; g < QUADS; g++)
            {
                const bz x = q.codes[b * QUADS + g];
                UNROLL for (size_t i = 0; i < KEYS; i++) acc[i] =
                    z_dot(acc[i], x, z_all_4(k + (g * PAGE_LEN + i) * 4));
            }
            const fz d = q.d[b];
            UNROLL for (size_t i = 0; i < KEYS; i++)
            {
                const fz term =
                    (d * z_all(page.k_scales[b * PAGE_LEN + j + i])) * z_float(acc[i]);
                sum[i] = sum[i] + term;
            }
        }
        UNROLL for (size_t i = 0; i < KEYS; i++) s[j + i] = sum[i];
    }
}

/* ---- values ---- */

/* Block b: weights, their sums, outputs. */
VEC_INLINE void make_weights(bool whole, const struct seen *t, const fz *p, const float *d,
                             fz inverse, bz *u)
{
    const size_t to = (t->to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < to; j += 8) {
        UNROLL for (size_t i = 0; i < 8; i += 2) u[(j + i) / 2] =
            z_pair(weight_code(whole, t, p, d, inverse, j + i),
                   weight_code(whole, t, p, d, inverse, j + i + 1));
    }
}

static void sum_values(const struct seen *t, const int16_t *v, const bz *u, fz step,
                       const struct fold *f, fz *o)
{
    iz acc[Z_LANES] = {{0}};
    for (size_t key = t->from / 2; key < (t->to + 1) / 2; key++) {
        const bz weights = u[key];
        UNROLL for (size_t i = 0; i < Z_LANES; i++) acc[i] =
            z_dot_pairs(acc[i], weights, z_all_4(v + (key * Z_LANES + i) * 2));
    }
    /* Without keep: step is 0, 2^-50 at least or a NaN, and so is its product. */
    UNROLL for (size_t i = 0; i < Z_LANES; i++) o[i] = fold_in(f, o[i], step * z_float(acc[i]));
}

VEC_INLINE void values_of(bool whole, const struct kv_layer *kv, void *laid,
                          const struct seen *t, const fz *p, const struct fold *f, fz *o)
{
    const size_t n_blocks = kv->head_dim_v / KV_BLOCK;
    const struct blocks page = blocks_of(kv, laid);
    enum { MOST = 8 }; /* blocks whose steps, long chains, are under way together */
    struct weights_step w[MOST];
    for (size_t from = 0; from < n_blocks; from += MOST) {
        const size_t n = n_blocks - from < MOST ? n_blocks - from : MOST;
        for (size_t b = 0; b < n; b++)
            w[b] = weights_step(whole, t, p, page.v_scales + (from + b) * PAGE_LEN);
        for (size_t b = 0; b < n; b++) {
            const size_t block = from + b, e = block * KV_BLOCK;
            make_weights(whole, t, p, page.v_scales + block * PAGE_LEN, w[b].inverse, page.u);
            const int16_t *v = page.v + e * PAGE_LEN;
            sum_values(t, v, page.u, w[b].step, f, o + e);
            sum_values(t, v + Z_LANES * PAGE_LEN, page.u, w[b].step, f, o + e + Z_LANES);
        }
    }
}

static void blocks_values(const struct kv_layer *kv, void *laid, const struct seen *t,
                          const fz *p, const struct fold *f, fz *o)
{
    if (t->whole)
        values_of(true, kv, laid, t, p, f, o);
    else
        values_of(false, kv, laid, t, p, f, o);
}

const struct attend_pages attend_blocks_avx512 = {
    .query_bytes = queries_q_bytes,
    .queries = blocks_queries,
    .page_bytes = blocks_page_bytes,
    .lay_out = blocks_lay_out,
    .scores = blocks_scores,
    .values = blocks_values,
};
