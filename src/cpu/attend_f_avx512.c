/* Attention on AVX-512 over pages of f32 and f16, many queries; see ref_attend.c for what it
 * computes, and attend_avx512.h.
 *
 * A page is laid out in f32 as it is read: keys [tile][dim][16 keys], values
 * [tile of dims][key][16 dims]. Sixteen sums are in registers: of one group, or of two that
 * share what is read. With f16 a product is exact and fused with its addition; with f32 the two
 * are rounded apart and are two instructions. */
#include "cpu/attend_avx512.h"

/* A page, laid out. */
struct floats {
    float *k, *v;
};

static size_t tiles(size_t dim)
{
    return (dim + Z_LANES - 1) / Z_LANES;
}

static struct floats floats_of(const struct kv_layer *kv, void *laid)
{
    float *k = laid;
    return (struct floats){k, k + kv->head_dim_k * PAGE_LEN};
}

static size_t floats_page_bytes(const struct kv_layer *kv)
{
    return (kv->head_dim_k + tiles(kv->head_dim_v) * Z_LANES) * PAGE_LEN * sizeof(float);
}

static size_t floats_query_bytes(const struct kv_layer *kv)
{
    return kv->head_dim_k * sizeof(fz);
}

/* Sixteen dims of sixteen queries, or their last n. */
VEC_INLINE void query_dims(bool is_f16, const float *const x[Z_LANES], size_t d, size_t n,
                           fz *to)
{
    iz v[Z_LANES] = {{0}};
    UNROLL for (size_t i = 0; i < Z_LANES; i++) memcpy(&v[i], x[i] + d, n * sizeof(float));
    z_transpose(v);
    UNROLL for (size_t i = 0; i < n; i++) to[d + i] =
        is_f16 ? num16_narrow((fz)v[i]) : (fz)v[i];
}

/* Dims -> lanes. */
static void floats_queries(const struct kv_layer *kv, const float *const x[Z_LANES], void *q)
{
    const bool is_f16 = kv->type == KV_F16;
    size_t d = 0;
    for (; d + Z_LANES <= kv->head_dim_k; d += Z_LANES)
        query_dims(is_f16, x, d, Z_LANES, q);
    if (d < kv->head_dim_k) query_dims(is_f16, x, d, kv->head_dim_k - d, q);
}

/* Sixteen numbers from i on. */
VEC_INLINE fz read16(bool is_f16, const void *p, size_t i)
{
    return is_f16 ? z_halves((const uint16_t *)p + i) : z_load_f((const float *)p + i);
}

/* The last eight of a row, and zeros: after them the page may end. */
VEC_INLINE fz read8(bool is_f16, const void *p, size_t i)
{
    uint8_t last[64] = {0};
    memcpy(last, (const uint8_t *)p + i * (is_f16 ? 2 : 4), is_f16 ? 16 : 32);
    return read16(is_f16, last, 0);
}

VEC_INLINE void lay_out_type(bool is_f16, const struct kv_layer *kv, const void *k,
                             const void *v, size_t from, size_t to, struct floats page)
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    for (size_t j = from / KEY_TILE * KEY_TILE; j < to; j += KEY_TILE) {
        for (size_t d = 0; d < dk; d++)
            z_store_f(page.k + j * dk + d * KEY_TILE, read16(is_f16, k, d * PAGE_LEN + j));
    }
    for (size_t e = 0; e < dv; e += Z_LANES) {
        for (size_t key = from; key < to; key++) {
            const size_t at = key * dv + e;
            z_store_f(page.v + e * PAGE_LEN + key * Z_LANES,
                      dv - e < Z_LANES ? read8(is_f16, v, at) : read16(is_f16, v, at));
        }
    }
}

static void floats_lay_out(const struct kv_layer *kv, const void *page,
                           const struct head_at *at, size_t from, size_t to, void *laid)
{
    const uint8_t *base = page;
    const struct floats f = floats_of(kv, laid);
    if (kv->type == KV_F16)
        lay_out_type(true, kv, base + at->k, base + at->v, from, to, f);
    else
        lay_out_type(false, kv, base + at->k, base + at->v, from, to, f);
}

/* Sums begin with 0 instead of their first term: that differs only in the sign of a 0, which no
 * probability sees and which keep takes from a value. */

/* Sixteen sums: of keys for one item, or of half as many for two that share what is read. */
VEC_INLINE void score_keys(bool is_f16, int n, size_t dk, const void *laid,
                           const struct item *x, size_t from, size_t to)
{
    const size_t n_keys = (size_t)(KEY_TILE / n);
    for (size_t j = from; j < to; j += n_keys) {
        const float *k = (const float *)laid + j / KEY_TILE * KEY_TILE * dk + j % KEY_TILE;
        fz acc[AT_ONCE][KEY_TILE] = {{{0}}};
        for (size_t d = 0; d < dk; d++, k += KEY_TILE) {
            fz q[AT_ONCE];
            UNROLL for (int r = 0; r < n; r++) q[r] = ((const fz *)x[r].q)[d];
            UNROLL for (size_t i = 0; i < n_keys; i++)
            {
                const fz key = z_all(k[i]);
                UNROLL for (int r = 0; r < n; r++) acc[r][i] =
                    z_plus_product(is_f16, acc[r][i], q[r], key);
            }
        }
        UNROLL for (int r = 0; r < n; r++)
        {
            UNROLL for (size_t i = 0; i < n_keys; i++) x[r].s[j + i] = acc[r][i];
        }
    }
}

VEC_INLINE void scores_of_type(bool is_f16, size_t dk, const void *laid, const struct item *x,
                               size_t n)
{
    if (both_whole(x, n)) {
        score_keys(is_f16, 2, dk, laid, x, 0, PAGE_LEN);
        return;
    }
    for (size_t i = 0; i < n; i++)
        score_keys(is_f16, 1, dk, laid, &x[i], x[i].t.from / KEY_TILE * KEY_TILE, x[i].t.to);
}

/* 16 / n dims from v on. Keys that a lane does not see are left out of its sum: their values
 * may be no numbers. */
VEC_INLINE void values_tile(bool is_f16, bool whole, int n, size_t n_dims, const float *v,
                            const struct item *x, size_t e)
{
    const struct seen *t = &x->t;
    fz acc[AT_ONCE][Z_LANES] = {{{0}}};
    v += t->from * Z_LANES;
    for (size_t key = t->from; key < t->to; key++, v += Z_LANES) {
        fz p[AT_ONCE];
        UNROLL for (int r = 0; r < n; r++) p[r] = x[r].s[key];
        const mz sees = seen_by(t, key);
        UNROLL for (size_t i = 0; i < n_dims; i++)
        {
            const fz value = z_all(v[i]);
            UNROLL for (int r = 0; r < n; r++)
            {
                const fz with = z_plus_product(is_f16, acc[r][i], p[r], value);
                acc[r][i] = whole ? with : z_choose(sees, with, acc[r][i]);
            }
        }
    }
    UNROLL for (int r = 0; r < n; r++)
    {
        fz *o = x[r].o + e;
        UNROLL for (size_t i = 0; i < n_dims; i++) o[i] =
            fold_in(&x[r].f, o[i], z_clip(acc[r][i]));
    }
}

VEC_INLINE void item_values(bool is_f16, size_t dv, const float *v, const struct item *x)
{
    for (size_t e = 0; e < dv; e += Z_LANES, v += PAGE_LEN * Z_LANES) {
        if (dv - e < Z_LANES)
            values_tile(is_f16, false, 1, 8, v, x, e);
        else if (x->t.whole)
            values_tile(is_f16, true, 1, Z_LANES, v, x, e);
        else
            values_tile(is_f16, false, 1, Z_LANES, v, x, e);
    }
}

VEC_INLINE void values_of_type(bool is_f16, size_t dv, const float *v, const struct item *x,
                               size_t n)
{
    if (both_whole(x, n)) {
        for (size_t e = 0; e < dv; e += 8)
            values_tile(is_f16, true, 2, 8, v + e / Z_LANES * PAGE_LEN * Z_LANES + e % Z_LANES,
                        x, e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        item_values(is_f16, dv, v, &x[i]);
}

static void floats_scores(const struct kv_layer *kv, const void *laid, const struct item *x,
                          size_t n)
{
    if (kv->type == KV_F16)
        scores_of_type(true, kv->head_dim_k, laid, x, n);
    else
        scores_of_type(false, kv->head_dim_k, laid, x, n);
}

static void floats_values(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    const float *v = floats_of(kv, laid).v;
    if (kv->type == KV_F16)
        values_of_type(true, kv->head_dim_v, v, x, n);
    else
        values_of_type(false, kv->head_dim_v, v, x, n);
}

const struct attend_pages attend_floats_avx512 = {
    .query_bytes = floats_query_bytes,
    .queries = floats_queries,
    .page_bytes = floats_page_bytes,
    .lay_out = floats_lay_out,
    .scores = floats_scores,
    .values = floats_values,
};
