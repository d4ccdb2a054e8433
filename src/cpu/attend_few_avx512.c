/* Attention on AVX-512 for few queries, as in decoding: pages as they are stored, and sixteen
 * lanes where AVX2 has eight. See attend_avx2.h, whose walk and softmax these are parts of, and
 * ref_attend.c and ref_attend_q.c for what is computed.
 *
 * A lane is a key for the scores, a dim for the values, and up to four queries share what is
 * read of a page, so that reading it is the bound. What is read next is fetched meanwhile: a
 * loop that only loads the same lines in the same order takes as long. Both begin anew where
 * memory is read from another place, which costs as much as 22 KB more: at a depth of 8192 each
 * took 13.3 ms where a page of a thread's heads was a run of 65 KB with q8_0, and runs of 1.8
 * MB 8.9 (Zen 4, 2 threads that read 55 GB/s; while they read 32, 16.7, 16.6 and 15.0;
 * 2026-11). So pages lie side by side (pages.h).
 *
 * Products of f16 are exact, as narrow (numeric.h) makes them. There is no plain C of this
 * file: it needs AVX2 in any case. */
#include "cpu/attend_few_softmax_avx512.h"

#include "base/cpuid.h"
#include "cpu/avx512.h"
#include "cpu/lanes16.h"

enum {
    AT_ONCE = 4,
    MOST_PAIRS = 2,                  /* of blocks of values, as registers allow for two items */
    KEY_VECS = PAGE_LEN / KEY_GROUP, /* a lane is a key of a group */
    /* Of floats no line of the next step is fetched at one in so many dims or keys, and of
     * blocks one line less per four dims: the softmax has something to fetch, too. */
    SKIP = 16,
    /* How far ahead of what is read of a tile its lines are fetched, in lines, at most a tile.
     * All of this into the first cache, where a whole tile ahead not all of them stayed; into
     * the second 32, 64 and 128 are 13.0, 12.0 and 12.0 ms with q8_0. A step at a depth of
     * 8192, ms, so and now: f32 102 and 88, f16 52.5 and 51.4 (Granite Rapids). Attention
     * alone: q8_0 16.2 and 15.7, while the machine read a third faster 14.7 and 14.0; q4_0, of
     * which this is a tile, 9.3, and 9.5 with half as much (Zen 4; all 2 threads, 2026-11). */
    NEAR_FLOATS = 32,
    NEAR_PASSING_FLOATS = 128,
    NEAR_BLOCKS = 64,
};

/* Values of a page join an output, as avx2_fold. */
VEC_INLINE void fold(const struct batch *b, size_t item, fz v, float *o)
{
    const fz a = z_all(b->a[item]), all = z_load_f(o);
    const fz before = z_product_where(z_stays(all) | z_reaches(a, z_all(1)), all, a);
    z_store_f(o, b->is_first[item] ? v : before + v * z_all(b->b[item]));
}

/* What is fetched while a page is read for its first items: lines that are read soon, and of
 * the next step. Later items, if there are any, have nothing to fetch. */
struct fetch {
    const char *near;
    size_t n_left; /* lines of near before it goes on at `then`; 0: it does not */
    const char *then;
    struct far far;
    bool is_first;
};

/* Where lines go that are read soon. AMD's processors read faster where it is not the first
 * cache: a line on its way there keeps one of a few buffers until it comes, which those of the
 * next step need, too. Attention at a depth of 8192, ms, first and second, beside what reading
 * its pages takes: q8_0 18.0 and 15.8 of 13.6, while memory was quick 14.4 and 12.1 of 8.5;
 * without such lines 14.5 (Zen 4, 2 threads, 2026-11). Intel's were tuned with the first.
 *
 * Zen 5 fetches by itself what follows in memory, faster than it can be asked to: there nothing
 * is fetched of the next step, codes come to the first cache, and numbers past the second. ns
 * per page and head, in turn: q8_0 858 with lines of the next step and 736 without, q4_0 549
 * and 500; f16 1785 with, 1722 without, 1542 past the second cache (2 threads that read 74 and
 * 66 GB/s, 2026-11). */
enum near_cache { NEAR_FIRST, NEAR_SECOND, NEAR_ALONE, NEAR_PASSING };

VEC_INLINE void fetch_line(enum near_cache cache, const char *p)
{
    if (cache == NEAR_PASSING)
        _mm_prefetch(p, _MM_HINT_NTA);
    else if (cache == NEAR_SECOND)
        _mm_prefetch(p, _MM_HINT_T1);
    else
        _mm_prefetch(p, _MM_HINT_T0);
}

/* From a line of what is read next on. */
VEC_INLINE struct fetch fetch_from(const struct ahead *a, size_t line, const struct batch *b,
                                   bool is_first)
{
    return (struct fetch){
        .near = (const char *)a->codes + 64 * line, .far = *b->far, .is_first = is_first};
}

/* From `near` lines behind one of the n_lines of a tile on, then what is read next. All three
 * are whole calls of fetch. */
VEC_INLINE struct fetch fetch_rest(const void *tile, size_t n_lines, size_t line, size_t near,
                                   const struct ahead *a, const struct batch *b, bool is_first)
{
    const size_t at = line + (near < n_lines ? near : n_lines);
    if (at >= n_lines) return fetch_from(a, at - n_lines, b, is_first);
    struct fetch f = fetch_from(a, 0, b, is_first);
    f.then = f.near;
    f.near = (const char *)tile + 64 * at;
    f.n_left = n_lines - at;
    return f;
}

/* n_near lines that are `apart` lines from each other, of which n_passed are side by side. */
VEC_INLINE void fetch_apart(struct fetch *f, enum near_cache cache, size_t n_near, size_t apart,
                            size_t n_passed, size_t n_far)
{
    if (!f->is_first) return;
    UNROLL for (size_t i = 0; i < n_near; i++) fetch_line(cache, f->near + 64 * apart * i);
    f->near += 64 * n_passed;
    if (f->n_left > 0 && (f->n_left -= n_passed) == 0) f->near = f->then;
    if (n_far > 0 && cache < NEAR_ALONE) far_fetch(&f->far, n_far);
}

VEC_INLINE void fetch(struct fetch *f, enum near_cache cache, size_t n_near, size_t n_far)
{
    fetch_apart(f, cache, n_near, 1, n_near, n_far);
}

/* ---- f32 and f16 ---- */

VEC_INLINE size_t near_floats(enum near_cache cache)
{
    return cache == NEAR_PASSING ? NEAR_PASSING_FLOATS : NEAR_FLOATS;
}

VEC_INLINE fz read16(bool is_f16, const void *p, size_t i)
{
    return is_f16 ? z_halves((const uint16_t *)p + i) : z_load_f((const float *)p + i);
}

VEC_INLINE const void *value_row(bool is_f16, const struct float_tile *t, size_t key)
{
    return (const char *)t->v + key * t->dv * (is_f16 ? sizeof(uint16_t) : sizeof(float));
}

/* Groups of keys whose scores are computed together, so that there are sums enough to keep the
 * processor busy: all of a page, or of a page that is begun those that there are, so that no
 * other is read. */
struct groups {
    size_t at;
    int n;
};

static struct groups groups_of(const struct span *items)
{
    const size_t at = items->from / KEY_GROUP;
    const size_t end = (items->to + KEY_GROUP - 1) / KEY_GROUP;
    if (end == KEY_VECS) return (struct groups){0, KEY_VECS};
    return (struct groups){at, at < end ? (int)(end - at) : 0};
}

/* What is fetched while keys are read of a tile whose groups have n_lines each: in the order in
 * which they are read, a line of each group (fetch_groups); after some groups the same ones of
 * the next tile. */
VEC_INLINE struct fetch fetch_keys(const void *tile, size_t n_lines, struct groups g,
                                   size_t near, const struct ahead *a, const struct batch *b,
                                   bool is_first)
{
    if (g.n == KEY_VECS) return fetch_rest(tile, n_lines, 0, near / KEY_VECS, a, b, is_first);
    return fetch_from(a, n_lines * g.at, b, is_first);
}

VEC_INLINE void fetch_groups(struct fetch *f, enum near_cache cache, struct groups g,
                             size_t n_lines, size_t n_far)
{
    fetch_apart(f, cache, (size_t)g.n, n_lines, 1, g.n == KEY_VECS ? n_far : 0);
}

/* Items i..i+n-1. */
VEC_INLINE void float_scores_of(bool is_f16, enum near_cache cache, int n, struct groups g,
                                const struct float_tile *t, struct batch *b, size_t i)
{
    const size_t dims = is_f16 ? 2 : 1; /* of a line */
    const size_t group_lines = t->dk / dims;
    struct fetch next =
        fetch_keys(t->k, group_lines, g, near_floats(cache), &t->after_k, b, i == t->items.at);
    fz acc[AT_ONCE][KEY_VECS];
    const float *q[AT_ONCE];
    UNROLL for (int r = 0; r < n; r++)
    {
        q[r] = b->x[i + (size_t)r]->q;
        UNROLL for (int j = 0; j < g.n; j++) acc[r][j] = z_all(0);
    }
    for (size_t d = 0; d < t->dk; d++) {
        fz k[KEY_VECS];
        if (d % dims == 0)
            fetch_groups(&next, cache, g, group_lines,
                         KEY_VECS - (d % SKIP == 0 ? KEY_VECS / dims : 0));
        UNROLL for (int j = 0; j < g.n; j++) k[j] =
            read16(is_f16, t->k, kv_key_at(t->dk, d, (g.at + (size_t)j) * KEY_GROUP));
        UNROLL for (int r = 0; r < n; r++)
        {
            const fz x = z_all(q[r][d]);
            UNROLL for (int j = 0; j < g.n; j++) acc[r][j] =
                z_plus_product(is_f16, acc[r][j], x, k[j]);
        }
    }
    *b->far = next.far;
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int j = 0; j < g.n; j++)
            z_store_f(b->s[i + (size_t)r] + (g.at + (size_t)j) * KEY_GROUP, acc[r][j]);
    }
}

/* Dims e..e+16 n_vecs-1 of items i..i+n-1, which see the same keys. */
VEC_INLINE void float_values_of(bool is_f16, enum near_cache cache, int n, size_t n_vecs,
                                const struct float_tile *t, size_t e, const struct batch *b,
                                size_t i)
{
    const size_t lo = b->lo[i], hi = b->hi[i], lines = n_vecs / (is_f16 ? 2 : 1);
    const bool is_first = i == t->items.at;
    struct fetch next =
        n_vecs * Z_LANES == t->dv
            ? fetch_rest(value_row(is_f16, t, lo), lines * (hi - lo), 0, near_floats(cache),
                         &t->after_v, b, is_first)
            : fetch_from(&t->after_v, e / Z_LANES * lines / n_vecs * PAGE_LEN, b, is_first);
    fz acc[AT_ONCE][8];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (size_t j = 0; j < n_vecs; j++) acc[r][j] = z_all(0);
    }
    for (size_t key = lo; key < hi; key++) {
        fz v[8];
        fetch(&next, cache, lines, key % SKIP == 0 ? 0 : lines);
        UNROLL for (size_t j = 0; j < n_vecs; j++) v[j] =
            read16(is_f16, t->v, key * t->dv + e + j * Z_LANES);
        UNROLL for (int r = 0; r < n; r++)
        {
            const fz x = z_all(b->s[i + (size_t)r][key]);
            UNROLL for (size_t j = 0; j < n_vecs; j++) acc[r][j] =
                z_plus_product(is_f16, acc[r][j], x, v[j]);
        }
    }
    *b->far = next.far;
    UNROLL for (int r = 0; r < n; r++)
    {
        const size_t item = i + (size_t)r;
        UNROLL for (size_t j = 0; j < n_vecs; j++)
            fold(b, item, z_clip(acc[r][j]), b->x[item]->o + e + j * Z_LANES);
    }
}

/* All dims: as many at once as registers allow. */
VEC_INLINE void float_values_all(bool is_f16, enum near_cache cache, int n,
                                 const struct float_tile *t, const struct batch *b, size_t i)
{
    size_t e = 0;
    for (; n <= 2 && t->dv - e >= 8 * Z_LANES; e += 8 * Z_LANES)
        float_values_of(is_f16, cache, n, 8, t, e, b, i);
    for (; t->dv - e >= 4 * Z_LANES; e += 4 * Z_LANES)
        float_values_of(is_f16, cache, n, 4, t, e, b, i);
    for (; e < t->dv; e += Z_LANES)
        float_values_of(is_f16, cache, n, 1, t, e, b, i);
}

/* How many of the items from i on, before end, are taken together. */
static size_t at_once(size_t i, size_t end)
{
    return end - i < AT_ONCE ? end - i : AT_ONCE;
}

VEC_INLINE void float_scores_at(enum near_cache cache, struct groups g,
                                const struct float_tile *t, struct batch *b)
{
    const size_t end = t->items.at + t->items.n;
    const bool is_f16 = t->form == PAGE_F16;
    for (size_t i = t->items.at, n; i < end; i += n) {
        n = is_f16 ? at_once(i, end) : 1;
        if (!is_f16)
            float_scores_of(false, cache, 1, g, t, b, i);
        else if (n == 4)
            float_scores_of(true, cache, 4, g, t, b, i);
        else if (n == 3)
            float_scores_of(true, cache, 3, g, t, b, i);
        else if (n == 2)
            float_scores_of(true, cache, 2, g, t, b, i);
        else
            float_scores_of(true, cache, 1, g, t, b, i);
    }
}

VEC_INLINE void float_scores(enum near_cache cache, const struct float_tile *t, struct batch *b)
{
    const struct groups g = groups_of(&t->items);
    switch (g.n) {
    case 1: float_scores_at(cache, (struct groups){g.at, 1}, t, b); break;
    case 2: float_scores_at(cache, (struct groups){g.at, 2}, t, b); break;
    case 3: float_scores_at(cache, (struct groups){g.at, 3}, t, b); break;
    case KEY_VECS: float_scores_at(cache, (struct groups){0, KEY_VECS}, t, b); break;
    }
}

VEC_INLINE void float_values(enum near_cache cache, const struct float_tile *t,
                             const struct batch *b)
{
    const size_t end = t->items.at + t->items.n;
    const bool is_f16 = t->form == PAGE_F16;
    for (size_t i = t->items.at, n; i < end; i += n) {
        size_t same = i + 1;
        while (same < end && b->lo[same] == b->lo[i] && b->hi[same] == b->hi[i])
            same++;
        n = is_f16 ? at_once(i, same) : 1;
        if (!is_f16)
            float_values_all(false, cache, 1, t, b, i);
        else if (n == 4)
            float_values_all(true, cache, 4, t, b, i);
        else if (n == 3)
            float_values_all(true, cache, 3, t, b, i);
        else if (n == 2)
            float_values_all(true, cache, 2, t, b, i);
        else
            float_values_all(true, cache, 1, t, b, i);
    }
}

/* ---- q8_0 and q4_0 ---- */

/* Codes of keys are unsigned: 8 more with q4_0, as they are stored, else made 128 more. The
 * query's sum takes that away again. */
VEC_INLINE void block_scores_of(bool is_q4, enum near_cache cache, int n, struct groups g,
                                const struct block_tile *t, struct batch *b, size_t i)
{
    const size_t group_lines = t->k_blocks * KV_BLOCK / (is_q4 ? 8 : 4);
    const uint8_t *k = t->k + 64 * group_lines * g.at;
    struct fetch next =
        fetch_keys(t->k, group_lines, g, NEAR_BLOCKS, &t->after_k, b, i == t->items.at);
    fz sum[AT_ONCE][KEY_VECS];
    iz acc[AT_ONCE][KEY_VECS];
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int j = 0; j < g.n; j++)
        {
            sum[r][j] = z_all(0);
            acc[r][j] = z_all_i(-128 * b->x[i + (size_t)r]->sum);
        }
    }
    for (size_t block = 0; block < t->k_blocks; block++) {
        UNROLL for (int r = 0; is_q4 && r < n; r++)
        {
            const int16_t *sums = b->x[i + (size_t)r]->sums + 2 * block;
            UNROLL for (int j = 0; j < g.n; j++) acc[r][j] = z_all_i(-8 * (sums[0] + sums[1]));
        }
        for (size_t d = 0; d < KV_BLOCK; d += 4) {
            const bool high = is_q4 && d % 8 == 4;
            bz codes[KEY_VECS];
            if (!high) fetch_groups(&next, cache, g, group_lines, KEY_VECS - 1);
            UNROLL for (int j = 0; j < g.n; j++)
            {
                codes[j] = z_load(k + 64 * group_lines * (size_t)j);
                if (high) codes[j] = z_shift_right(codes[j], 4);
                codes[j] = is_q4 ? codes[j] & 0x0f : codes[j] ^ 0x80;
            }
            UNROLL for (int r = 0; r < n; r++)
            {
                const bz x = z_all_4(b->x[i + (size_t)r]->codes + block * KV_BLOCK + d);
                UNROLL for (int j = 0; j < g.n; j++) acc[r][j] = z_dot(acc[r][j], codes[j], x);
            }
            if (!is_q4 || high) k += 64;
        }
        if (!is_q4 && block + 1 < t->k_blocks) continue;
        const size_t scale = is_q4 ? block : 0;
        const uint16_t *scales = t->k_scales + scale * PAGE_LEN + g.at * KEY_GROUP;
        UNROLL for (int r = 0; r < n; r++)
        {
            const fz x = z_all(b->x[i + (size_t)r]->d[scale]);
            UNROLL for (int j = 0; j < g.n; j++) sum[r][j] =
                sum[r][j] + (x * z_bf16(scales + j * KEY_GROUP)) * z_float(acc[r][j]);
        }
    }
    *b->far = next.far;
    UNROLL for (int r = 0; r < n; r++)
    {
        UNROLL for (int j = 0; j < g.n; j++)
            z_store_f(b->s[i + (size_t)r] + (g.at + (size_t)j) * KEY_GROUP, sum[r][j]);
    }
}

/* 64 dims of a key as bytes: codes of q8_0, or those of q4_0 with 8 more, as they are stored.
 */
VEC_INLINE __m512i row64(bool is_q4, const uint8_t *row)
{
    if (!is_q4) return (__m512i)z_load(row);
    const __m512i x = _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)row));
    /* Low halves are the first 16 dims of a block, high ones the others. */
    const __m512i both = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), x);
    return (__m512i)((bz)_mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)) &
                     0x0f);
}

/* 64 dims of four keys, the bytes of a dim side by side: vector i has dims 4i..4i+3 of each 16.
 */
VEC_INLINE void value_quads(const __m512i row[4], bz out[4])
{
    const __m512i a = _mm512_unpacklo_epi8(row[0], row[1]);
    const __m512i b = _mm512_unpacklo_epi8(row[2], row[3]);
    const __m512i c = _mm512_unpackhi_epi8(row[0], row[1]);
    const __m512i d = _mm512_unpackhi_epi8(row[2], row[3]);
    out[0] = (bz)_mm512_unpacklo_epi16(a, b);
    out[1] = (bz)_mm512_unpackhi_epi16(a, b);
    out[2] = (bz)_mm512_unpacklo_epi16(c, d);
    out[3] = (bz)_mm512_unpackhi_epi16(c, d);
}

/* Sums of such vectors become those of dims 16i..16i+15. */
VEC_INLINE void order_dims(iz v[4])
{
    const __m512i a = _mm512_shuffle_i32x4((__m512i)v[0], (__m512i)v[1], 0x44);
    const __m512i b = _mm512_shuffle_i32x4((__m512i)v[0], (__m512i)v[1], 0xee);
    const __m512i c = _mm512_shuffle_i32x4((__m512i)v[2], (__m512i)v[3], 0x44);
    const __m512i d = _mm512_shuffle_i32x4((__m512i)v[2], (__m512i)v[3], 0xee);
    v[0] = (iz)_mm512_shuffle_i32x4(a, c, 0x88);
    v[1] = (iz)_mm512_shuffle_i32x4(a, c, 0xdd);
    v[2] = (iz)_mm512_shuffle_i32x4(b, d, 0x88);
    v[3] = (iz)_mm512_shuffle_i32x4(b, d, 0xdd);
}

/* Of two blocks of dims. */
VEC_INLINE __m512i two_blocks(__m512i first, __m512i second)
{
    return _mm512_mask_blend_epi32(0xff00, first, second);
}

/* -8 times the sum of the weights u. */
VEC_INLINE __m512i without_bias(const int8_t *u)
{
    const iz eights = z_dot((iz){0}, (bz)z_all_u(0x08080808), z_load(u));
    return _mm512_set1_epi32(-_mm512_reduce_add_epi32((__m512i)eights));
}

/* Two blocks of a row of values, of items with weights u, of a scale each or of one. */
VEC_INLINE void add_values(bool is_q4, int n, const __m512i rows[4], const int8_t *const *u,
                           iz acc[AT_ONCE][4])
{
    bz v[4];
    value_quads(rows, v);
    UNROLL for (int r = 0; r < n; r++)
    {
        const __m512i w = (__m512i)z_all_4(u[r]);
        const __m512i of_second = (__m512i)z_all_4(u[r] + (is_q4 ? PAGE_LEN : 0));
        UNROLL for (int j = 0; j < 4; j++) acc[r][j] =
            is_q4 ? z_dot(acc[r][j], v[j], (bz)two_blocks(w, of_second))
                  : z_dot(acc[r][j], (bz)w, v[j]);
    }
}

/* n_pairs times two blocks from `block` on of items i..i+n-1. Four keys that follow each other
 * are a product: of weights and signed codes with q8_0, of codes that are 8 too large and
 * signed weights with q4_0. Where all dims are taken at once memory is read as it lies. */
VEC_INLINE void block_values_of(bool is_q4, enum near_cache cache, int n, size_t n_pairs,
                                const struct block_tile *t, const struct block_parts *parts,
                                size_t block, size_t i)
{
    const struct batch *b = parts->batch;
    const size_t dim = block * KV_BLOCK, half = is_q4 ? 2 : 1, pair_bytes = 64 / half;
    const size_t row_bytes = t->v_blocks * KV_BLOCK / half, n_scales = is_q4 ? t->v_blocks : 1;
    const uint8_t *row = t->v + dim / half;
    const int8_t *u[MOST_PAIRS][AT_ONCE];
    iz acc[MOST_PAIRS][AT_ONCE][4];
    struct fetch next = fetch_rest(t->v, row_bytes * PAGE_LEN / 64, block / 2 * PAGE_LEN / half,
                                   NEAR_BLOCKS, &t->after_v, b, i == t->items.at);
    UNROLL for (size_t p = 0; p < n_pairs; p++)
    {
        UNROLL for (int r = 0; r < n; r++)
        {
            const size_t scale = (i + (size_t)r) * n_scales + (is_q4 ? block + 2 * p : 0);
            u[p][r] = (const int8_t *)parts->u + scale * PAGE_LEN;
            const iz none =
                is_q4 ? (iz)two_blocks(without_bias(u[p][r]), without_bias(u[p][r] + PAGE_LEN))
                      : (iz){0};
            UNROLL for (int j = 0; j < 4; j++) acc[p][r][j] = none;
        }
    }
    for (size_t four = 0; four < PAGE_LEN / 4; four++, row += 4 * row_bytes) {
        const size_t at = few_weights_at(four);
        fetch(&next, cache, n_pairs * 4 / half, n_pairs * 4 / half);
        UNROLL for (size_t p = 0; p < n_pairs; p++)
        {
            __m512i rows[4];
            const int8_t *weights[AT_ONCE];
            UNROLL for (size_t j = 0; j < 4; j++) rows[j] =
                row64(is_q4, row + j * row_bytes + p * pair_bytes);
            UNROLL for (int r = 0; r < n; r++) weights[r] = u[p][r] + at;
            add_values(is_q4, n, rows, weights, acc[p]);
        }
    }
    *b->far = next.far;
    UNROLL for (size_t p = 0; p < n_pairs; p++)
    {
        UNROLL for (int r = 0; r < n; r++)
        {
            float *o = b->x[i + (size_t)r]->o + dim + p * 2 * KV_BLOCK;
            order_dims(acc[p][r]);
            UNROLL for (size_t j = 0; j < 4; j++)
                fold(b, i + (size_t)r, z_float(acc[p][r][j]), o + j * Z_LANES);
        }
    }
}

VEC_INLINE void scores_of_type(bool is_q4, enum near_cache cache, struct groups g,
                               const struct block_tile *t, struct batch *b)
{
    const size_t end = t->items.at + t->items.n;
    for (size_t i = t->items.at, n; i < end; i += n) {
        n = at_once(i, end);
        if (n == 4)
            block_scores_of(is_q4, cache, 4, g, t, b, i);
        else if (n == 3)
            block_scores_of(is_q4, cache, 3, g, t, b, i);
        else if (n == 2)
            block_scores_of(is_q4, cache, 2, g, t, b, i);
        else
            block_scores_of(is_q4, cache, 1, g, t, b, i);
    }
}

VEC_INLINE void block_scores_at(enum near_cache cache, struct groups g,
                                const struct block_tile *t, struct batch *b)
{
    if (t->is_q4)
        scores_of_type(true, cache, g, t, b);
    else
        scores_of_type(false, cache, g, t, b);
}

VEC_INLINE void block_scores(enum near_cache cache, const struct block_tile *t, struct batch *b)
{
    const struct groups g = groups_of(&t->items);
    switch (g.n) {
    case 1: block_scores_at(cache, (struct groups){g.at, 1}, t, b); break;
    case 2: block_scores_at(cache, (struct groups){g.at, 2}, t, b); break;
    case 3: block_scores_at(cache, (struct groups){g.at, 3}, t, b); break;
    case KEY_VECS: block_scores_at(cache, (struct groups){0, KEY_VECS}, t, b); break;
    }
}

VEC_INLINE void values_of_type(bool is_q4, enum near_cache cache, const struct block_tile *t,
                               const struct block_parts *parts)
{
    const size_t end = t->items.at + t->items.n;
    for (size_t i = t->items.at, n; i < end; i += n) {
        size_t block = 0;
        n = at_once(i, end);
        for (; n <= 2 && t->v_blocks - block >= 2 * MOST_PAIRS; block += 2 * MOST_PAIRS) {
            if (n == 2)
                block_values_of(is_q4, cache, 2, MOST_PAIRS, t, parts, block, i);
            else
                block_values_of(is_q4, cache, 1, MOST_PAIRS, t, parts, block, i);
        }
        for (; block < t->v_blocks; block += 2) {
            if (n == 4)
                block_values_of(is_q4, cache, 4, 1, t, parts, block, i);
            else if (n == 3)
                block_values_of(is_q4, cache, 3, 1, t, parts, block, i);
            else if (n == 2)
                block_values_of(is_q4, cache, 2, 1, t, parts, block, i);
            else
                block_values_of(is_q4, cache, 1, 1, t, parts, block, i);
        }
    }
}

VEC_INLINE void block_values(enum near_cache cache, const struct block_tile *t,
                             const struct block_parts *parts)
{
    if (t->is_q4)
        values_of_type(true, cache, t, parts);
    else
        values_of_type(false, cache, t, parts);
}

/* An instance for each way of fetching, of floats and of blocks. */
#define FEW(name, floats, blocks)                                                            \
    static void float_scores_##name(const struct float_tile *t, struct batch *b)             \
    {                                                                                        \
        float_scores(floats, t, b);                                                          \
    }                                                                                        \
    static void float_values_##name(const struct float_tile *t, const struct batch *b)       \
    {                                                                                        \
        float_values(floats, t, b);                                                          \
    }                                                                                        \
    static void block_scores_##name(const struct block_tile *t, struct batch *b)             \
    {                                                                                        \
        block_scores(blocks, t, b);                                                          \
    }                                                                                        \
    static void block_values_##name(const struct block_tile *t, const struct block_parts *p) \
    {                                                                                        \
        block_values(blocks, t, p);                                                          \
    }                                                                                        \
    _Static_assert(((floats) < NEAR_ALONE) == ((blocks) < NEAR_ALONE), "both read far");     \
    static const struct attend_few few_##name = {                                            \
        .reads_far = (blocks) < NEAR_ALONE,                                                  \
        .float_scores = float_scores_##name,                                                 \
        .float_values = float_values_##name,                                                 \
        .block_scores = block_scores_##name,                                                 \
        .block_values = block_values_##name,                                                 \
        .weigh_keys = avx512_few_weigh_keys,                                                 \
        .softmax = avx512_few_softmax,                                                       \
        .weights = avx512_few_weights,                                                       \
    };

FEW(first, NEAR_FIRST, NEAR_FIRST)
FEW(second, NEAR_SECOND, NEAR_SECOND)
FEW(alone, NEAR_PASSING, NEAR_ALONE)

static const struct attend_few *few_of(const struct kv_layer *kv)
{
    const size_t unit = kv_type_codes(kv->type) ? 2 * KV_BLOCK : Z_LANES;
    if (kv->head_dim_v % unit != 0) return NULL;
    const unsigned amd_family = cpuid_amd_family();
    if (amd_family >= FAMILY_ZEN5) return &few_alone;
    return amd_family ? &few_second : &few_first;
}

void avx512_attend_heads(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                         size_t hi, void *scratch)
{
    attend_by_rows(a, kv_head, n_heads, lo, hi, few_of(a->kv), scratch);
}

void avx512_attend_part(const struct attend *a, const struct attend_part *part, void *scratch)
{
    attend_part_by_rows(a, part, few_of(a->kv), scratch);
}

void avx512_attend_few(const struct attend *a, size_t kv_head, size_t lo, size_t hi,
                       void *scratch)
{
    avx512_attend_heads(a, kv_head, 1, lo, hi, scratch);
}
