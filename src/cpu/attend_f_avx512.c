/* Attention on AVX-512 over pages of f32 and f16, many queries; see ref_attend.c for what it
 * computes, and attend_avx512.h.
 *
 * A page is laid out in f32 as it is read: keys [tile][dim][16 keys], values
 * [tile of dims][key][16 dims]. Sixteen sums of a group are in registers, and each product
 * takes a number of a line in all lanes and a vector of the group. A product and its addition
 * are two instructions, for they are rounded apart: two start in a cycle, so scores and values
 * of 128 dims take at least 512 cycles each of a query and page. */
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

/* Dims -> lanes. */
static void floats_queries(const struct kv_layer *kv, const float *const x[Z_LANES], void *q)
{
    const bool is_f16 = kv->type == KV_F16;
    fz *to = q;
    for (size_t d = 0; d < kv->head_dim_k; d += Z_LANES) {
        const size_t n = kv->head_dim_k - d < Z_LANES ? kv->head_dim_k - d : Z_LANES;
        iz v[Z_LANES] = {{0}};
        for (size_t i = 0; i < Z_LANES; i++)
            memcpy(&v[i], x[i] + d, n * sizeof(float));
        z_transpose(v);
        for (size_t i = 0; i < n; i++)
            to[d + i] = is_f16 ? num16_narrow((fz)v[i]) : (fz)v[i];
    }
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
static void item_scores(size_t dk, const void *laid, const fz *q, const struct seen *t, fz *s)
{
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < t->to; j += KEY_TILE) {
        const float *k = (const float *)laid + j * dk;
        fz acc[KEY_TILE] = {{0}};
        for (size_t d = 0; d < dk; d++, k += KEY_TILE) {
            const fz x = q[d];
            UNROLL for (size_t i = 0; i < KEY_TILE; i++) acc[i] = acc[i] + x * z_all(k[i]);
        }
        UNROLL for (size_t i = 0; i < KEY_TILE; i++) s[j + i] = acc[i];
    }
}

/* n dims from v on. */
VEC_INLINE void values_tile(bool whole, size_t n, const float *v, const struct seen *t,
                            const fz *p, const struct fold *f, fz *o)
{
    fz acc[Z_LANES] = {{0}};
    v += t->from * Z_LANES;
    for (size_t key = t->from; key < t->to; key++, v += Z_LANES) {
        const fz x = p[key];
        const mz sees = seen_by(t, key);
        UNROLL for (size_t i = 0; i < n; i++)
        {
            const fz term = x * z_all(v[i]);
            acc[i] = whole ? acc[i] + term : z_add_where(sees, acc[i], term);
        }
    }
    UNROLL for (size_t i = 0; i < n; i++) o[i] = fold_in(f, o[i], z_clip(acc[i]));
}

static void item_values(size_t dv, const float *v, const struct item *x)
{
    for (size_t e = 0; e < dv; e += Z_LANES, v += PAGE_LEN * Z_LANES) {
        if (dv - e < Z_LANES)
            values_tile(false, 8, v, &x->t, x->s, &x->f, x->o + e);
        else if (x->t.whole)
            values_tile(true, Z_LANES, v, &x->t, x->s, &x->f, x->o + e);
        else
            values_tile(false, Z_LANES, v, &x->t, x->s, &x->f, x->o + e);
    }
}

static void floats_scores(const struct kv_layer *kv, const void *laid, const struct item *x,
                          size_t n)
{
    for (size_t i = 0; i < n; i++)
        item_scores(kv->head_dim_k, laid, x[i].q, &x[i].t, x[i].s);
}

static void floats_values(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        item_values(kv->head_dim_v, floats_of(kv, laid).v, &x[i]);
}

const struct attend_pages attend_floats_avx512 = {
    .query_bytes = floats_query_bytes,
    .queries = floats_queries,
    .page_bytes = floats_page_bytes,
    .lay_out = floats_lay_out,
    .scores = floats_scores,
    .values = floats_values,
};
