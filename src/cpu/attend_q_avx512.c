/* Attention on AVX-512 over KV types of codes, many queries; see ref_attend_q.c for what it
 * computes, and attend_avx512.h.
 *
 * Scores: codes of queries are made unsigned by 128 more, which the sums of a key's codes take
 * away again, so that four products are an instruction. Values: four keys are the bytes of a
 * lane, their weights times their codes of a dim. q4_0 is widened to bytes; the sign of a scale
 * of its values goes to the codes. With q8_0 the weights of some groups are made while the
 * scores of others are computed. */
#include <assert.h>
#include <math.h>

#include "cpu/attend_codes16.h"
#include "cpu/carve.h"

enum {
    KEYS = 8, /* whose scores are computed together */
    QUADS = KV_BLOCK / 4,
};

/* A page, laid out. It stands first in its memory. */
struct blocks {
    struct shares of_keys, of_values; /* scales, and dims of each */
    const int8_t *keys;               /* as in a page of q8_0: there, or widened */
    int32_t *k_sums;                  /* [scales][PAGE_LEN]: -128 times those of the codes */
    float *k_scales, *v_scales;       /* [scales][PAGE_LEN]; of q4_0's v as shares */
    float *log2, *inverse;            /* [PAGE_LEN]: see struct page_weights */
    int8_t *v;                        /* [dim/16][PAGE_LEN/4][16][4] */
    int8_t *widened;                  /* q4_0: as keys */
};

/* Says where its parts are in memory; returns the bytes of all. */
static size_t blocks_carve(const struct kv_layer *kv, void *laid, struct blocks *b)
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    struct carver c = {laid, 0};
    carve(&c, sizeof *b);
    b->of_keys = shares_of(kv, dk);
    b->of_values = shares_of(kv, dv);
    b->k_sums = carve(&c, b->of_keys.n * PAGE_LEN * sizeof(int32_t));
    b->k_scales = carve(&c, b->of_keys.n * PAGE_LEN * sizeof(float));
    b->v_scales = carve(&c, b->of_values.n * PAGE_LEN * sizeof(float));
    b->log2 = carve(&c, PAGE_LEN * sizeof(float));
    b->inverse = carve(&c, PAGE_LEN * sizeof(float));
    b->v = carve(&c, dv * PAGE_LEN);
    b->widened = carve(&c, kv->type == KV_Q4_0 ? dk * PAGE_LEN : 0);
    return c.used;
}

static size_t blocks_page_bytes(const struct kv_layer *kv)
{
    struct blocks b;
    return blocks_carve(kv, NULL, &b);
}

/* ---- queries ---- */

static size_t query_lines(const struct kv_layer *kv)
{
    return shares_of(kv, kv->head_dim_k).dims / 4;
}

static size_t blocks_query_bytes(const struct kv_layer *kv)
{
    return queries_bytes(kv, query_lines(kv));
}

/* With 128 added to their codes. */
static void blocks_queries(const struct attend *a, const float *const x[Z_LANES], void *q)
{
    const struct kv_layer *kv = a->kv;
    bz *codes = queries_at(shares_of(kv, kv->head_dim_k), query_lines(kv), q).codes;
    lay_queries(a, query_lines(kv), x, q);
    for (size_t k = 0; k < kv->head_dim_k / 4; k++)
        codes[k] ^= 0x80;
}

/* ---- a page is laid out ---- */

/* Eight dims of a group of keys are a line, and two of widened ones. */
static void widen_keys(const uint8_t *from, size_t dk, int8_t *to)
{
    for (size_t i = 0; i < dk / 8 * PAGE_LEN / KEY_GROUP; i++, from += 64, to += 128) {
        const bz x = z_load(from);
        z_store(to, nibbles(x, 0));
        z_store(to + 64, nibbles(x, 1));
    }
}

static void sum_keys(const int8_t *k, struct shares of, int32_t *sums)
{
    const bz ones = (bz)z_all_u(0x01010101);
    for (size_t j = 0; j < PAGE_LEN; j += KEY_GROUP) {
        for (size_t b = 0; b < of.n; b++) {
            iz sum[QUADS] = {{0}};
            for (size_t i = 0; i < of.dims / 4; i += QUADS, k += 64 * QUADS) {
                UNROLL for (size_t h = 0; h < QUADS; h++) sum[h] =
                    z_dot(sum[h], ones, z_load(k + 64 * h));
            }
            UNROLL for (size_t h = 1; h < QUADS; h++) sum[0] = sum[0] + sum[h];
            z_store(sums + b * PAGE_LEN + j, (bz)(sum[0] * -128));
        }
    }
}

/* Values of the keys that are seen. */
VEC_INLINE void widen_values(bool is_q4, const struct kv_layer *kv, const struct head_page *p,
                             const float *scales, int8_t *to)
{
    const uint8_t *from = (const uint8_t *)p->page + p->at->v;
    const size_t dv = kv->head_dim_v;
    for (size_t e = 0; e < dv; e += 16, to += 16 * PAGE_LEN) {
        fetch_part(kv, p, e / 16, dv / 16);
        for (size_t key = p->from / 4 * 4; key < p->to; key += 4)
            z_store(to + key * 16, value_quad(is_q4, from, scales, dv, key, e));
    }
}

static void blocks_lay_out(const struct kv_layer *kv, const struct head_page *p, void *laid)
{
    const uint8_t *base = p->page;
    const struct kv_head *at = p->at;
    struct blocks *b = laid;
    blocks_carve(kv, laid, b);
    read_scales((const uint16_t *)(base + at->k_scales), b->of_keys.n, b->k_scales);
    read_scales((const uint16_t *)(base + at->v_scales), b->of_values.n, b->v_scales);
    if (kv->type == KV_Q4_0) {
        widen_keys(base + at->k, kv->head_dim_k, b->widened);
        b->keys = b->widened;
        widen_values(true, kv, p, b->v_scales, b->v);
        drop_signs(b->v_scales, b->of_values.n);
    } else {
        b->keys = (const int8_t *)(base + at->k);
        widen_values(false, kv, p, b->v_scales, b->v);
    }
    weigh_page(kv, b->v_scales, b->log2, b->inverse);
    sum_keys(b->keys, b->of_keys, b->k_sums);
}

/* ---- scores ---- */

/* What sums begin with: -128 times those of the codes. */
VEC_INLINE void begin_sums(int n, const int32_t *k_sums, iz acc[AT_ONCE][KEYS])
{
    UNROLL for (size_t i = 0; i < KEYS; i++)
    {
        UNROLL for (int r = 0; r < n; r++) acc[r][i] = z_all_i(k_sums[i]);
    }
}

/* QUADS lines of queries, from line g on, with KEYS keys. */
VEC_INLINE void add_products(int n, const struct queries *q, size_t g, const int8_t *k,
                             iz acc[AT_ONCE][KEYS])
{
    UNROLL for (size_t h = 0; h < QUADS; h++, k += 4 * KEY_GROUP)
    {
        bz codes[AT_ONCE];
        UNROLL for (int r = 0; r < n; r++) codes[r] = q[r].codes[g + h];
        UNROLL for (size_t i = 0; i < KEYS; i++)
        {
            const bz key = z_all_4(k + i * 4);
            UNROLL for (int r = 0; r < n; r++) acc[r][i] = z_dot(acc[r][i], codes[r], key);
        }
    }
}

/* Of tiles of keys from.. to the one of to. Sums are in s from scale to scale. */
VEC_INLINE void scores_of(int n, const struct blocks *page, const struct item *x, size_t from,
                          size_t to)
{
    const struct shares of = page->of_keys;
    struct queries q[AT_ONCE];
    UNROLL for (int r = 0; r < n; r++) q[r] = queries_at(of, of.dims / 4, x[r].q);
    for (size_t j = from / KEY_TILE * KEY_TILE; j < (to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
         j += KEYS) {
        for (size_t b = 0; b < of.n; b++) {
            const float *scales = page->k_scales + b * PAGE_LEN + j;
            iz acc[AT_ONCE][KEYS];
            begin_sums(n, page->k_sums + b * PAGE_LEN + j, acc);
            for (size_t g = b * of.dims / 4; g < (b + 1) * of.dims / 4; g += QUADS)
                add_products(n, q, g, page->keys + 4 * kv_key_at(of.n * of.dims / 4, g, j),
                             acc);
            UNROLL for (int r = 0; r < n; r++)
            {
                const fz d = q[r].d[b];
                fz *s = x[r].s + j;
                UNROLL for (size_t i = 0; i < KEYS; i++)
                {
                    const fz term = (d * z_all(scales[i])) * z_float(acc[r][i]);
                    s[i] = b == 0 ? term : s[i] + term;
                }
            }
        }
    }
}

static void blocks_scores(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    (void)kv;
    if (both_whole(x, n)) {
        scores_of(2, laid, x, 0, PAGE_LEN);
        return;
    }
    for (size_t i = 0; i < n; i++)
        scores_of(1, laid, &x[i], x[i].t.from, x[i].t.to);
}

/* Sums of KEYS keys from key j on -> scores with their logarithms, which m and least take in;
 * as in attend_avx512.c a NaN is left out there. In the order in which sums are ready. */
VEC_INLINE void finish_scores(const struct blocks *page, size_t j, const struct queries *q,
                              const iz sums[AT_ONCE][KEYS], struct item *x)
{
    const float *scales = page->k_scales + j, *log2 = page->log2 + j;
    fz d[AT_ONCE], m[AT_ONCE], least[AT_ONCE], *to[AT_ONCE];
    UNROLL for (int r = 0; r < AT_ONCE; r++)
    {
        d[r] = *q[r].d;
        m[r] = x[r].m;
        least[r] = x[r].least;
        to[r] = x[r].s + j;
    }
    UNROLL for (size_t i = 0; i < KEYS; i++)
    {
        UNROLL for (int r = 0; r < AT_ONCE; r++)
        {
            const fz term = (d[r] * z_all(scales[i])) * z_float(sums[r][i]);
            const fz s = term + z_all(log2[i]);
            to[r][i] = s;
            m[r] = z_max(s, m[r]);
            least[r] = z_min(s, least[r]);
        }
    }
    UNROLL for (int r = 0; r < AT_ONCE; r++) x[r].m = m[r], x[r].least = least[r];
}

/* The products wait for two pipes (Zen 4), and most of what makes weights, all but two products
 * each, has the others to itself: so it comes in fours of keys, one after every so many
 * products. */
static void blocks_scores_beside(const void *laid, struct item *x, struct item *before)
{
    enum { QUADS_OF_ITEM = PAGE_LEN / 4, N_QUADS = AT_ONCE * QUADS_OF_ITEM };
    const struct blocks page = *(const struct blocks *)laid;
    const size_t n_lines = page.of_keys.dims / 4;
    const size_t n_steps = PAGE_LEN / KEYS * (n_lines / QUADS);
    struct queries q[AT_ONCE];
    size_t due = 0, quad = 0;
    assert(page.of_keys.n == 1);
    UNROLL for (int r = 0; r < AT_ONCE; r++)
    {
        q[r] = queries_at(page.of_keys, n_lines, x[r].q);
        x[r].m = z_all(-INFINITY);
        x[r].least = z_all(INFINITY);
    }
    for (size_t j = 0; j < PAGE_LEN; j += KEYS) {
        iz acc[AT_ONCE][KEYS];
        begin_sums(AT_ONCE, page.k_sums + j, acc);
        for (size_t g = 0; g < n_lines; g += QUADS) {
            add_products(AT_ONCE, q, g, page.keys + 4 * kv_key_at(n_lines, g, j), acc);
            if (!before) continue;
            for (due += N_QUADS; due >= n_steps; due -= n_steps, quad++)
                weigh_quad(true, page.inverse, &before[quad / QUADS_OF_ITEM],
                           quad % QUADS_OF_ITEM);
        }
        finish_scores(&page, j, q, acc, x);
    }
}

/* ---- values ---- */

/* 16 / n dims from e on; only_add as for fold_dims. */
VEC_INLINE void sum_dims(int n, unsigned only_add, const struct item *x,
                         const struct page_values *page, size_t e)
{
    const size_t dims = (size_t)(Z_LANES / n), to = (x->t.to + 3) / 4;
    const int8_t *v = page->codes + e / Z_LANES * Z_LANES * PAGE_LEN + e % Z_LANES * 4;
    iz acc[AT_ONCE][Z_LANES];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (size_t i = 0; i < dims; i++) acc[r][i] = z_all_i(0);
    }
    v += x->t.from / 4 * 4 * Z_LANES;
    for (size_t four = x->t.from / 4; four < to; four++, v += 4 * Z_LANES) {
        bz weights[AT_ONCE];
        UNROLL for (int r = 0; r < n; r++) weights[r] = x[r].u[four];
        UNROLL for (size_t i = 0; i < dims; i++)
        {
            const bz codes = z_all_4(v + 4 * i);
            UNROLL for (int r = 0; r < n; r++) acc[r][i] = z_dot(acc[r][i], weights[r], codes);
        }
    }
    fz sum[AT_ONCE][Z_LANES];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (size_t i = 0; i < dims; i++) sum[r][i] = z_float(acc[r][i]);
    }
    fold_dims(n, only_add, x, e, dims, sum);
}

VEC_INLINE void sum_all(int n, unsigned only_add, const struct item *x,
                        const struct page_values *v, size_t e, size_t end)
{
    for (; e < end; e += (size_t)(Z_LANES / n))
        sum_dims(n, only_add, x, v, e);
}

/* An item scales only where it must: that takes an eighth longer. */
VEC_INLINE void sum_values(int n, const struct item *x, const struct page_values *v, size_t e,
                           size_t end)
{
    unsigned only_add = 0;
    for (int r = 0; r < n; r++)
        only_add |= (unsigned)x[r].f.only_adds << r;
    if (n == 2 && only_add == 3)
        sum_all(n, 3, x, v, e, end);
    else if (n == 2 && only_add == 2)
        sum_all(n, 2, x, v, e, end);
    else if (only_add == 1)
        sum_all(n, 1, x, v, e, end);
    else
        sum_all(n, 0, x, v, e, end);
}

static struct page_weights blocks_weights(const void *laid)
{
    const struct blocks *b = laid;
    return (struct page_weights){b->log2, b->inverse};
}

static void blocks_values(const struct kv_layer *kv, void *laid, const struct item *x, size_t n)
{
    const struct blocks *b = laid;
    const struct page_values v = {b->of_values, b->v_scales, b->v, NULL};
    values_of_items(kv, &v, x, n, sum_values);
}

const struct attend_pages attend_blocks_avx512 = {
    .query_bytes = blocks_query_bytes,
    .queries = blocks_queries,
    .page_bytes = blocks_page_bytes,
    .lay_out = blocks_lay_out,
    .scores = blocks_scores,
    .scores_beside = blocks_scores_beside,
    .weights = blocks_weights,
    .values = blocks_values,
};
