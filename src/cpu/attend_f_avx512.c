/* Attention on AVX-512 over pages of f32 and f16, many queries; see ref_attend.c for what it
 * computes, and attend_avx512.h.
 *
 * A page is laid out in f32: keys [tile][dim][16 keys], values [tile of dims][key][16 dims].
 * Sixteen sums are in registers: of one group, or of two that share what is read. With f16 a
 * product is exact and fused with its addition; with f32 the two are rounded apart and are two
 * instructions. */
#include "cpu/attend_avx512.h"
#include "cpu/carve.h"

/* A page, laid out; or where it is, if it is read once: a tile is then laid out when it is
 * wanted, all of them in the same lines, for a page in f32 is more than the first cache holds.
 * Meanwhile the next page is fetched. 8 rows of 2 queries at a depth of 1000, 128 dims in f16,
 * us per KV head laid out and so: 88 and 58; the 0.6B shape at 8192, ms: 140 and 76 (Emerald
 * Rapids, 2026-11). */
struct floats {
    float *k, *v;
    const uint8_t *page_k, *page_v; /* NULL: all is laid out */
    const char *next_k, *next_v;
    size_t key, dim; /* where the tiles begin that are laid out of such a page */
    size_t from, to; /* keys that are seen */
};

static size_t tiles(size_t dim)
{
    return (dim + Z_LANES - 1) / Z_LANES;
}

/* Where its parts are in memory; returns their bytes. */
static size_t floats_carve(const struct kv_layer *kv, void *laid, struct floats **head,
                           struct floats *f)
{
    struct carver c = {laid, 0};
    *head = carve(&c, sizeof **head);
    f->k = carve(&c, kv->head_dim_k * PAGE_LEN * sizeof(float));
    f->v = carve(&c, tiles(kv->head_dim_v) * Z_LANES * PAGE_LEN * sizeof(float));
    return c.used;
}

static size_t floats_page_bytes(const struct kv_layer *kv)
{
    struct floats *head, f;
    return floats_carve(kv, NULL, &head, &f);
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
    UNROLL for (size_t i = 0; i < Z_LANES; i++) if (i < n) to[d + i] =
        is_f16 ? num16_narrow((fz)v[i]) : (fz)v[i];
}

/* Dims -> lanes. */
static void floats_queries(const struct attend *a, const float *const x[Z_LANES], void *q)
{
    const struct kv_layer *kv = a->kv;
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

/* Sixteen keys from the j-th on. */
VEC_INLINE void lay_keys(bool is_f16, size_t dk, const uint8_t *page, size_t j, float *to)
{
    for (size_t d = 0; d < dk; d++)
        z_store_f(to + d * KEY_TILE, read16(is_f16, page, kv_key_at(dk, d, j)));
}

/* Sixteen dims, from the e-th on, of the keys that are seen. */
VEC_INLINE void lay_values(bool is_f16, size_t dv, const struct floats *f, const uint8_t *page,
                           size_t e, float *to)
{
    for (size_t key = f->from; key < f->to; key++) {
        const size_t at = key * dv + e;
        z_store_f(to + key * Z_LANES,
                  dv - e < Z_LANES ? read8(is_f16, page, at) : read16(is_f16, page, at));
    }
}

/* Keys from the j-th on to the end of their tile. */
VEC_INLINE const float *keys_at(bool is_f16, size_t dk, struct floats *f, size_t j)
{
    const size_t tile = j / KEY_TILE * KEY_TILE;
    if (!f->page_k) return f->k + tile * dk + j % KEY_TILE;
    if (f->key != tile) lay_keys(is_f16, dk, f->page_k, tile, f->k);
    f->key = tile;
    return f->k + j % KEY_TILE;
}

/* Dims from the e-th on to the end of their tile. */
VEC_INLINE const float *values_at(bool is_f16, size_t dv, struct floats *f, size_t e)
{
    const size_t tile = e / Z_LANES * Z_LANES;
    if (!f->page_v) return f->v + tile * PAGE_LEN + e % Z_LANES;
    if (f->dim != tile) lay_values(is_f16, dv, f, f->page_v, tile, f->v);
    f->dim = tile;
    return f->v + e % Z_LANES;
}

VEC_INLINE void lay_out_type(bool is_f16, const struct kv_layer *kv, const uint8_t *k,
                             const uint8_t *v, const struct floats *f)
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    for (size_t j = f->from / KEY_TILE * KEY_TILE; j < f->to; j += KEY_TILE)
        lay_keys(is_f16, dk, k, j, f->k + j * dk);
    for (size_t e = 0; e < dv; e += Z_LANES)
        lay_values(is_f16, dv, f, v, e, f->v + e * PAGE_LEN);
}

static void floats_lay_out(const struct kv_layer *kv, const struct head_page *p, void *laid)
{
    struct floats *head, f = {.key = PAGE_LEN, .dim = kv->head_dim_v};
    f.from = p->from, f.to = p->to;
    const uint8_t *k = (const uint8_t *)p->page + p->at->k;
    const uint8_t *v = (const uint8_t *)p->page + p->at->v;
    floats_carve(kv, laid, &head, &f);
    f.next_k = (const char *)p->next + p->at->k;
    f.next_v = (const char *)p->next + p->at->v;
    if (p->once)
        f.page_k = k, f.page_v = v;
    else if (kv->type == KV_F16)
        lay_out_type(true, kv, k, v, &f);
    else
        lay_out_type(false, kv, k, v, &f);
    *head = f;
}

/* The line of number i of the keys or values of the next page. */
VEC_INLINE void fetch(bool is_f16, const char *next, size_t i)
{
    z_fetch_far(next + i * (is_f16 ? sizeof(uint16_t) : sizeof(float)));
}

/* Sums begin with 0 instead of their first term: that differs only in the sign of a 0, which no
 * probability sees and which keep takes from a value. */

/* Sixteen sums: of keys for one item, or of half as many for two that share what is read. */
VEC_INLINE void score_keys(bool is_f16, int n, size_t dk, struct floats *f,
                           const struct item *x, size_t j)
{
    const size_t n_keys = (size_t)(KEY_TILE / n);
    const float *k = keys_at(is_f16, dk, f, j);
    fz acc[AT_ONCE][KEY_TILE] = {{{0}}};
    for (size_t d = 0; d < dk; d++, k += KEY_TILE) {
        fz q[AT_ONCE];
        fetch(is_f16, f->next_k, j * dk + d * n_keys);
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

VEC_INLINE void scores_of_type(bool is_f16, size_t dk, struct floats *f, const struct item *x,
                               size_t n)
{
    if (both_whole(x, n)) {
        for (size_t j = 0; j < PAGE_LEN; j += KEY_TILE / 2)
            score_keys(is_f16, 2, dk, f, x, j);
        return;
    }
    for (size_t j = f->from / KEY_TILE * KEY_TILE; j < f->to; j += KEY_TILE)
        for (size_t i = 0; i < n; i++)
            if (j < x[i].t.to && x[i].t.from < j + KEY_TILE)
                score_keys(is_f16, 1, dk, f, &x[i], j);
}

/* 16 / n dims from the e-th on. Keys that a lane does not see are left out of its sum: their
 * values may be no numbers. */
VEC_INLINE void values_tile(bool is_f16, bool whole, int n, size_t n_dims, size_t dv,
                            struct floats *f, const struct item *x, size_t e)
{
    const struct seen *t = &x->t;
    const float *v = values_at(is_f16, dv, f, e) + t->from * Z_LANES;
    fz acc[AT_ONCE][Z_LANES] = {{{0}}};
    for (size_t key = t->from; key < t->to; key++, v += Z_LANES) {
        fz p[AT_ONCE];
        fetch(is_f16, f->next_v, e * PAGE_LEN + key * n_dims);
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
        UNROLL for (size_t i = 0; i < n_dims; i++) acc[r][i] = z_clip(acc[r][i]);
        fold_item(&x[r], e, n_dims, acc[r]);
    }
}

VEC_INLINE void item_values(bool is_f16, size_t dv, struct floats *f, const struct item *x,
                            size_t e)
{
    if (dv - e < Z_LANES)
        values_tile(is_f16, false, 1, 8, dv, f, x, e);
    else if (x->t.whole)
        values_tile(is_f16, true, 1, Z_LANES, dv, f, x, e);
    else
        values_tile(is_f16, false, 1, Z_LANES, dv, f, x, e);
}

VEC_INLINE void values_of_type(bool is_f16, size_t dv, struct floats *f, const struct item *x,
                               size_t n)
{
    if (both_whole(x, n)) {
        for (size_t e = 0; e < dv; e += 8)
            values_tile(is_f16, true, 2, 8, dv, f, x, e);
        return;
    }
    for (size_t e = 0; e < dv; e += Z_LANES)
        for (size_t i = 0; i < n; i++)
            item_values(is_f16, dv, f, &x[i], e);
}

static void floats_scores(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    if (kv->type == KV_F16)
        scores_of_type(true, kv->head_dim_k, laid, x, n);
    else
        scores_of_type(false, kv->head_dim_k, laid, x, n);
}

static void floats_values(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    if (kv->type == KV_F16)
        values_of_type(true, kv->head_dim_v, laid, x, n);
    else
        values_of_type(false, kv->head_dim_v, laid, x, n);
}

const struct attend_pages attend_floats_avx512 = {
    .query_bytes = floats_query_bytes,
    .queries = floats_queries,
    .page_bytes = floats_page_bytes,
    .lay_out = floats_lay_out,
    .scores = floats_scores,
    .values = floats_values,
};
