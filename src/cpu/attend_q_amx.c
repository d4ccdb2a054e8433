/* Attention on AMX over KV types of codes, many queries; see ref_attend_q.c for what it
 * computes, and attend_avx512.h.
 *
 * As on AVX-512 but for the integer sums: a tile product is those of sixteen keys with the
 * sixteen queries of a group over 64 of their dims, or those of sixteen dims over the 64 keys
 * of a page. So a page is laid out with a key's codes side by side, and with a dim's. Products
 * take long, and are stored before they are read: others are begun before the first's are read.
 */
#include "cpu/attend_codes16.h"
#include "cpu/avx512.h"
#include "cpu/carve.h"
#include "cpu/tiles_amx.h"

enum {
    UNIT = TILE_ROW_BYTES, /* dims of a product; a key's beyond those of a scale are zeros */
    UNIT_LINES = UNIT / 4,
};

_Static_assert((int)PAGE_LEN == UNIT, "a product is of all keys of a page");

/* Units of the dims of a scale. */
static size_t units_of(struct shares of)
{
    return (of.dims + UNIT - 1) / UNIT;
}

/* A page, laid out. It stands first in its memory. */
struct tiles_page {
    struct shares of_keys, of_values; /* scales, and dims of each */
    int8_t *keys;                     /* [units][PAGE_LEN][UNIT] */
    float *k_scales, *v_scales;       /* [scales][PAGE_LEN]; of q4_0's v as shares */
    float *log2, *inverse;            /* [PAGE_LEN]: see struct page_weights */
    int8_t *v;                        /* [dim][PAGE_LEN] */
    iz *sums;                         /* [AT_ONCE][PAGE_LEN]: of keys of items, or of units */
};

/* Says where its parts are in memory; returns the bytes of all. */
static size_t tiles_carve(const struct kv_layer *kv, void *laid, struct tiles_page *p)
{
    struct carver c = {laid, 0};
    carve(&c, sizeof *p);
    p->of_keys = shares_of(kv, kv->head_dim_k);
    p->of_values = shares_of(kv, kv->head_dim_v);
    p->keys = carve(&c, p->of_keys.n * units_of(p->of_keys) * UNIT * PAGE_LEN);
    p->k_scales = carve(&c, p->of_keys.n * PAGE_LEN * sizeof(float));
    p->v_scales = carve(&c, p->of_values.n * PAGE_LEN * sizeof(float));
    p->log2 = carve(&c, PAGE_LEN * sizeof(float));
    p->inverse = carve(&c, PAGE_LEN * sizeof(float));
    p->v = carve(&c, kv->head_dim_v * PAGE_LEN);
    p->sums = carve(&c, AT_ONCE * PAGE_LEN * sizeof(iz));
    return c.used;
}

static size_t tiles_page_bytes(const struct kv_layer *kv)
{
    struct tiles_page p;
    return tiles_carve(kv, NULL, &p);
}

/* ---- queries ---- */

static size_t tiles_query_lines(const struct kv_layer *kv)
{
    return units_of(shares_of(kv, kv->head_dim_k)) * UNIT_LINES;
}

static size_t tiles_query_bytes(const struct kv_layer *kv)
{
    return queries_bytes(kv, tiles_query_lines(kv));
}

static void tiles_queries(const struct attend *a, const float *const x[Z_LANES], void *q)
{
    lay_queries(a, tiles_query_lines(a->kv), x, q);
}

/* ---- a page is laid out ---- */

/* Four of n_dims dims of sixteen keys each, j.. */
VEC_INLINE bz key_codes(bool is_q4, const uint8_t *from, size_t n_dims, size_t dim, size_t j)
{
    const size_t n = is_q4 ? 8 : 4;
    const bz x = z_load(from + 4 * kv_key_at(n_dims / n, dim / n, j));
    return is_q4 ? nibbles(x, dim % n != 0) : x;
}

VEC_INLINE void lay_out_keys(bool is_q4, const uint8_t *from, struct shares of, int8_t *to)
{
    for (size_t b = 0; b < of.n; b++) {
        for (size_t d = 0; d < of.dims; d += UNIT) {
            for (size_t j = 0; j < PAGE_LEN; j += Z_LANES, to += Z_LANES * UNIT) {
                iz v[Z_LANES];
                UNROLL for (size_t i = 0; i < Z_LANES; i++) v[i] =
                    d + 4 * i < of.dims
                        ? (iz)key_codes(is_q4, from, of.n * of.dims, b * of.dims + d + 4 * i, j)
                        : z_all_i(0);
                z_transpose(v);
                UNROLL for (size_t i = 0; i < Z_LANES; i++) z_store(to + i * UNIT, (bz)v[i]);
            }
        }
    }
}

/* Values of the fours of keys that are seen; the weights of the others are 0. */
VEC_INLINE void lay_out_values(bool is_q4, const struct kv_layer *kv, const struct head_page *p,
                               const float *scales, int8_t *to)
{
    const uint8_t *from = (const uint8_t *)p->page + p->at->v;
    const size_t dv = kv->head_dim_v;
    for (size_t e = 0; e < dv; e += Z_LANES, to += Z_LANES * PAGE_LEN) {
        iz v[Z_LANES];
        fetch_part(kv, p, e / Z_LANES, dv / Z_LANES);
        UNROLL for (size_t i = 0; i < Z_LANES; i++) v[i] =
            4 * i + 4 > p->from && 4 * i < p->to
                ? (iz)value_quad(is_q4, from, scales, dv, 4 * i, e)
                : z_all_i(0);
        z_transpose(v);
        UNROLL for (size_t i = 0; i < Z_LANES; i++) z_store(to + i * PAGE_LEN, (bz)v[i]);
    }
}

static void tiles_lay_out(const struct kv_layer *kv, const struct head_page *p, void *laid)
{
    const uint8_t *base = p->page;
    const struct kv_head *at = p->at;
    struct tiles_page *to = laid;
    tiles_carve(kv, laid, to);
    read_scales((const uint16_t *)(base + at->k_scales), to->of_keys.n, to->k_scales);
    read_scales((const uint16_t *)(base + at->v_scales), to->of_values.n, to->v_scales);
    if (kv->type == KV_Q4_0) {
        lay_out_keys(true, base + at->k, to->of_keys, to->keys);
        lay_out_values(true, kv, p, to->v_scales, to->v);
        drop_signs(to->v_scales, to->of_values.n);
    } else {
        lay_out_keys(false, base + at->k, to->of_keys, to->keys);
        lay_out_values(false, kv, p, to->v_scales, to->v);
    }
    weigh_page(kv, to->v_scales, to->log2, to->inverse);
}

/* ---- products ---- */

/* Tiles 0 to 3: sums; 4: codes or weights of queries; 5 to 7: codes of a page. All have sixteen
 * rows of 64 bytes, and all rows are 64 bytes apart. */
enum { APART = TILE_ROW_BYTES };

/* All keys of a page, of n units, with a group's queries. */
VEC_INLINE void key_products(const int8_t *keys, const bz *queries, size_t n, iz *sums)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (size_t i = 0; i < n; i++, keys += PAGE_LEN * UNIT, queries += UNIT_LINES) {
        LINES_APART(apart, APART);
        tile_load(4, queries, apart);
        tile_load(5, keys, apart);
        tile_dot_ss(0, 5, 4);
        tile_load(6, keys + 16 * UNIT, apart);
        tile_dot_ss(1, 6, 4);
        tile_load(7, keys + 32 * UNIT, apart);
        tile_dot_ss(2, 7, 4);
        tile_load(5, keys + 48 * UNIT, apart);
        tile_dot_ss(3, 5, 4);
    }
    LINES_APART(apart, APART);
    tile_store(0, sums, apart);
    tile_store(1, sums + 16, apart);
    tile_store(2, sums + 32, apart);
    tile_store(3, sums + 48, apart);
}

/* 64 dims, or 32, with the weights of a group's queries. */
VEC_INLINE void dim_products(const int8_t *v, const bz *u, bool is_64, iz *sums)
{
    LINES_APART(apart, APART);
    tile_load(4, u, apart);
    tile_zero(0);
    tile_load(5, v, apart);
    tile_dot_su(0, 5, 4);
    tile_zero(1);
    tile_load(6, v + 16 * PAGE_LEN, apart);
    tile_dot_su(1, 6, 4);
    if (is_64) {
        tile_zero(2);
        tile_load(7, v + 32 * PAGE_LEN, apart);
        tile_dot_su(2, 7, 4);
        tile_zero(3);
        tile_load(5, v + 48 * PAGE_LEN, apart);
        tile_dot_su(3, 5, 4);
    }
    tile_store(0, sums, apart);
    tile_store(1, sums + 16, apart);
    if (is_64) {
        tile_store(2, sums + 32, apart);
        tile_store(3, sums + 48, apart);
    }
}

/* ---- scores ---- */

static void tiles_scores(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    const struct tiles_page *page = laid;
    const struct shares of = page->of_keys;
    const size_t units = units_of(of), lines = units * UNIT_LINES;
    struct queries q[AT_ONCE];
    (void)kv;
    for (size_t r = 0; r < n; r++)
        q[r] = queries_at(of, lines, x[r].q);
    for (size_t b = 0; b < of.n; b++) {
        const float *scales = page->k_scales + b * PAGE_LEN;
        for (size_t r = 0; r < n; r++)
            key_products(page->keys + b * units * UNIT * PAGE_LEN, q[r].codes + b * lines,
                         units, page->sums + r * PAGE_LEN);
        for (size_t r = 0; r < n; r++) {
            const fz d = q[r].d[b];
            const iz *sums = page->sums + r * PAGE_LEN;
            fz *s = x[r].s;
            for (size_t j = 0; j < PAGE_LEN; j += 4) {
                UNROLL for (size_t i = j; i < j + 4; i++)
                {
                    const fz term = (d * z_all(scales[i])) * z_float(sums[i]);
                    s[i] = b == 0 ? term : s[i] + term;
                }
            }
        }
    }
}

/* ---- values ---- */

/* Units of dims of all items, one after the other: a unit's sums are begun before those of the
 * unit before are folded, so that tiles and vectors work at the same time. 512 rows at a depth
 * of 8,192, 0.6B shape, 2 threads, medians of three in turn: two items begun and then folded
 * 1342 ms, so 1294 (Emerald Rapids, 2026-11). */
VEC_INLINE void sum_tiles(int n, const struct item *x, const struct page_values *v, size_t e,
                          size_t end)
{
    const size_t n_items = (size_t)n, n_units = (end - e + UNIT - 1) / UNIT * n_items;
    for (size_t k = 0; k <= n_units; k++) {
        if (k < n_units) {
            const size_t at = e + k / n_items * UNIT;
            dim_products(v->codes + at * PAGE_LEN, x[k % n_items].u, end - at >= UNIT,
                         v->sums + k % 2 * PAGE_LEN);
        }
        if (k == 0) continue;
        const size_t at = e + (k - 1) / n_items * UNIT;
        const size_t n_dims = end - at < UNIT ? end - at : UNIT;
        const iz *sums = v->sums + (k - 1) % 2 * PAGE_LEN;
        for (size_t i = 0; i < n_dims; i += Z_LANES) {
            fz page[Z_LANES];
            UNROLL for (size_t d = 0; d < Z_LANES; d++) page[d] = z_float(sums[i + d]);
            fold_item(&x[(k - 1) % n_items], at + i, Z_LANES, page);
        }
    }
}

static struct page_weights tiles_weights(const void *laid)
{
    const struct tiles_page *p = laid;
    return (struct page_weights){p->log2, p->inverse};
}

static void tiles_values(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    const struct tiles_page *p = laid;
    const struct page_values v = {p->of_values, p->v_scales, p->v, p->sums};
    values_of_items(kv, &v, x, n, sum_tiles);
}

static const struct attend_pages attend_tiles = {
    .query_bytes = tiles_query_bytes,
    .queries = tiles_queries,
    .page_bytes = tiles_page_bytes,
    .lay_out = tiles_lay_out,
    .scores = tiles_scores,
    .weights = tiles_weights,
    .values = tiles_values,
};

size_t amx_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    const size_t rest = avx512_attend_scratch(kv, n_group);
    if (!kv_type_codes(kv->type)) return rest;
    const size_t tiles = attend_many_scratch_avx512(&attend_tiles, kv, n_group);
    return tiles > rest ? tiles : rest;
}

void amx_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
{
    struct tile_shape shapes[N_TILES];
    if (!kv_type_codes(a->kv->type) || (hi - lo) * a->n_group <= ATTEND_FEW) {
        avx512_attend(a, kv_head, lo, hi, scratch);
        return;
    }
    for (size_t i = 0; i < N_TILES; i++)
        shapes[i] = (struct tile_shape){TILE_ROWS, TILE_ROW_BYTES};
    tiles_begin(shapes);
    attend_many_avx512(&attend_tiles, a, kv_head, lo, hi, scratch);
    tiles_end();
}
