/* Attention on AVX2 over pages of f32 and f16; see ref_attend.c for what it computes.
 *
 * A lane is a key for the scores (keys lie transposed), a dim of the output for the values.
 * With more than a few queries a page is first converted to f32 in the order in which it is
 * read: keys as two halves of 32, then values in blocks of 32 dims. Both are laid out in the
 * same memory, once per batch of queries: so little that the nearest cache keeps it. Otherwise
 * an f16 is converted as it is multiplied, which hides behind the loads. */
#include <string.h>

#include "backend/kv.h"
#include "base/mem.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = ATTEND_LANES,
    HALF = PAGE_LEN / 2,
    BLOCK = 32,
    FEW = 8, /* queries up to which a page is read as it is stored */
};

/* Where the j-th eight of keys 32 half.. of dim d lie, and values 32 block.. of a key. */
VEC_INLINE size_t key_at(enum float_form form, const struct float_tile *t, size_t half,
                         size_t d, size_t j)
{
    return form_is_wide(form) ? (half * t->dk + d) * HALF + j * LANES
                              : kv_key_at(t->dk, d, half * HALF + j * LANES);
}

VEC_INLINE size_t value_at(enum float_form form, const struct float_tile *t, size_t block,
                           size_t key)
{
    return form_is_wide(form) ? (block * PAGE_LEN + key) * BLOCK : key * t->dv + block * BLOCK;
}

/* As many lines as the i-th step over 32 numbers reads. */
VEC_INLINE void prefetch32(enum float_form form, const struct ahead *a, size_t i)
{
    if (form == PAGE_F16) avx2_prefetch(a->step, a->codes, i);
    if (form == PAGE_F32) {
        avx2_prefetch(a->step, a->codes, 2 * i);
        avx2_prefetch(a->step, a->codes, 2 * i + 1);
    }
}

VEC_INLINE f8 read8(enum float_form form, const void *p, size_t i)
{
    return form == PAGE_F16 ? vec_f16((const uint16_t *)p + i) : vec_load((const float *)p + i);
}

/* As narrow (numeric.h) makes them. */
VEC_INLINE bool products_are_exact(enum float_form form)
{
    return form == PAGE_F16 || form == WIDE_F16;
}

/* ---- scores ---- */

/* Scores of a half's keys for queries i..i+n-1. */
VEC_INLINE void scores32(enum float_form form, int n, const struct float_tile *t, size_t half,
                         struct batch *b, size_t i)
{
    const bool exact = products_are_exact(form);
    const float *q[2];
    f8 acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++)
        q[r] = b->x[i + (size_t)r]->q;
    UNROLL
    for (int j = 0; j < 4; j++) {
        f8 k = read8(form, t->k, key_at(form, t, half, 0, (size_t)j));
        UNROLL
        for (int r = 0; r < n; r++)
            acc[r][j] = vec_all(q[r][0]) * k;
    }
    for (size_t d = 1; d < t->dk; d++) {
        f8 x[2];
        prefetch32(form, &t->after_k, half * t->dk + d);
        UNROLL
        for (int r = 0; r < n; r++)
            x[r] = vec_all(q[r][d]);
        UNROLL
        for (int j = 0; j < 4; j++) {
            f8 k = read8(form, t->k, key_at(form, t, half, d, (size_t)j));
            VEC_HOLD(k);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][j] = vec_plus_product(exact, acc[r][j], x[r], k);
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            vec_store(b->s[i + (size_t)r] + half * HALF + (size_t)j * LANES, acc[r][j]);
    }
}

/* ---- values ---- */

/* Values e..e+8 n_vecs-1 of keys lo..hi-1 join the outputs of queries i..i+n-1. */
VEC_INLINE void values(enum float_form form, int n, int n_vecs, const struct float_tile *t,
                       size_t e, const struct batch *b, size_t i)
{
    const bool exact = products_are_exact(form);
    const size_t lo = b->lo[i], hi = b->hi[i];
    size_t at = value_at(form, t, e / BLOCK, lo) + e % BLOCK;
    f8 acc[2][4];
    UNROLL
    for (int j = 0; j < n_vecs; j++) {
        f8 v = read8(form, t->v, at + (size_t)j * LANES);
        UNROLL
        for (int r = 0; r < n; r++)
            acc[r][j] = vec_all(b->s[i + (size_t)r][lo]) * v;
    }
    for (size_t key = lo + 1; key < hi; key++) {
        f8 x[2];
        at = value_at(form, t, e / BLOCK, key) + e % BLOCK;
        prefetch32(form, &t->after_v, e / BLOCK * PAGE_LEN + key);
        UNROLL
        for (int r = 0; r < n; r++)
            x[r] = vec_all(b->s[i + (size_t)r][key]);
        UNROLL
        for (int j = 0; j < n_vecs; j++) {
            f8 v = read8(form, t->v, at + (size_t)j * LANES);
            VEC_HOLD(v);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][j] = vec_plus_product(exact, acc[r][j], x[r], v);
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        const size_t item = i + (size_t)r;
        const f8 before = vec_all(b->a[item]), page = vec_all(b->b[item]);
        float *o = b->x[item]->o + e;
        const bool is_first = b->is_first[item];
        UNROLL
        for (int j = 0; j < n_vecs; j++)
            avx2_fold(is_first, before, page, vec_clip(acc[r][j]), o + (size_t)j * LANES);
    }
}

/* A block of 32 dims, or what the last one has. */
VEC_INLINE void values32(enum float_form form, int n, const struct float_tile *t, size_t e,
                         const struct batch *b, size_t i)
{
    if (e + BLOCK <= t->dv) {
        values(form, n, 4, t, e, b, i);
        return;
    }
    for (; e < t->dv; e += LANES)
        values(form, n, 1, t, e, b, i);
}

/* ---- instances ---- */

typedef void scores_fn(const struct float_tile *t, size_t half, struct batch *b, size_t i);
typedef void values_fn(const struct float_tile *t, size_t e, const struct batch *b, size_t i);

#define INSTANCE(form, n)                                                                     \
    static void scores_##form##_##n(const struct float_tile *t, size_t half, struct batch *b, \
                                    size_t i)                                                 \
    {                                                                                         \
        scores32(form, n, t, half, b, i);                                                     \
    }                                                                                         \
    static void values_##form##_##n(const struct float_tile *t, size_t e,                     \
                                    const struct batch *b, size_t i)                          \
    {                                                                                         \
        values32(form, n, t, e, b, i);                                                        \
    }
INSTANCE(PAGE_F32, 1)
INSTANCE(PAGE_F32, 2)
INSTANCE(PAGE_F16, 1)
INSTANCE(PAGE_F16, 2)
INSTANCE(WIDE_F32, 1)
INSTANCE(WIDE_F32, 2)
INSTANCE(WIDE_F16, 1)
INSTANCE(WIDE_F16, 2)

static scores_fn *const scores_of[][2] = {
    [PAGE_F32] = {scores_PAGE_F32_1, scores_PAGE_F32_2},
    [PAGE_F16] = {scores_PAGE_F16_1, scores_PAGE_F16_2},
    [WIDE_F32] = {scores_WIDE_F32_1, scores_WIDE_F32_2},
    [WIDE_F16] = {scores_WIDE_F16_1, scores_WIDE_F16_2},
};
static values_fn *const values_of[][2] = {
    [PAGE_F32] = {values_PAGE_F32_1, values_PAGE_F32_2},
    [PAGE_F16] = {values_PAGE_F16_1, values_PAGE_F16_2},
    [WIDE_F32] = {values_WIDE_F32_1, values_WIDE_F32_2},
    [WIDE_F16] = {values_WIDE_F16_1, values_WIDE_F16_2},
};

/* ---- pages ---- */

static void widen(enum float_form form, const void *from, size_t at, size_t n, float *to)
{
    for (size_t i = 0; i < n; i += LANES)
        vec_store(to + i, read8(form, from, at + i));
}

/* Lays out in f32, in the order in which they are read, the keys of the halves that the batch
 * sees. */
VEC_INLINE void lay_out_keys(enum float_form form, const struct float_tile *t, float *wide)
{
    for (size_t half = t->items.from / HALF; half * HALF < t->items.to; half++)
        for (size_t d = 0; d < t->dk; d++)
            for (size_t j = 0; j < HALF / KEY_GROUP; j++)
                widen(form, t->k, kv_key_at(t->dk, d, half * HALF + j * KEY_GROUP), KEY_GROUP,
                      wide + key_at(WIDE_F32, t, half, d, 0) + j * KEY_GROUP);
}

/* The values of the keys that it sees. */
VEC_INLINE void lay_out_values(enum float_form form, const struct float_tile *t, float *wide)
{
    for (size_t e = 0; e < t->dv; e += BLOCK) {
        const size_t n = t->dv - e < BLOCK ? t->dv - e : BLOCK;
        for (size_t key = t->items.from; key < t->items.to; key++)
            widen(form, t->v, value_at(form, t, e / BLOCK, key), n,
                  wide + value_at(WIDE_F32, t, e / BLOCK, key));
    }
}

static struct float_tile keys_laid_out(const struct float_tile *t, float *wide)
{
    struct float_tile w = *t;
    if (t->form == PAGE_F16)
        lay_out_keys(PAGE_F16, t, wide);
    else
        lay_out_keys(PAGE_F32, t, wide);
    w.form = t->form == PAGE_F16 ? WIDE_F16 : WIDE_F32;
    w.k = wide;
    return w;
}

static struct float_tile values_laid_out(const struct float_tile *t, float *wide)
{
    struct float_tile w = *t;
    if (t->form == PAGE_F16)
        lay_out_values(PAGE_F16, t, wide);
    else
        lay_out_values(PAGE_F32, t, wide);
    w.form = t->form == PAGE_F16 ? WIDE_F16 : WIDE_F32;
    w.v = wide;
    return w;
}

static struct float_tile tile_of(const struct kv_layer *kv, const void *page,
                                 const struct kv_head *at)
{
    const uint8_t *base = page;
    return (struct float_tile){
        .form = kv->type == KV_F16 ? PAGE_F16 : PAGE_F32,
        .k = base + at->k,
        .v = base + at->v,
        .dk = kv->head_dim_k,
        .dv = kv->head_dim_v,
        .after_k = {page, page, 0},
        .after_v = {page, page, 0},
    };
}

static void scores_of_page(const struct float_tile *t, const struct attend_few *few,
                           struct batch *b)
{
    if (few && !form_is_wide(t->form)) {
        few->float_scores(t, b);
        return;
    }
    const size_t end = t->items.at + t->items.n;
    for (size_t half = t->items.from / HALF; half * HALF < t->items.to; half++)
        for (size_t i = t->items.at; i < end; i += 2)
            scores_of[t->form][end - i > 1](t, half, b, i);
}

static void values_of_page(const struct float_tile *t, const struct attend_few *few,
                           const struct batch *b)
{
    if (few && !form_is_wide(t->form)) {
        few->float_values(t, b);
        return;
    }
    const size_t end = t->items.at + t->items.n;
    for (size_t e = 0; e < t->dv; e += BLOCK) {
        for (size_t i = t->items.at; i < end;) {
            bool two = end - i > 1 && b->lo[i] == b->lo[i + 1] && b->hi[i] == b->hi[i + 1];
            values_of[t->form][two](t, e, b, i);
            i += two ? 2 : 1;
        }
    }
}

/* wide: where the keys, and after them the values, of the one page are laid out; NULL: they are
 * read as they are stored. */
static void attend_batch(const struct attend *a, const struct float_tile *tiles, size_t n_tiles,
                         struct batch *b, const struct attend_few *few, float *wide)
{
    if (wide) {
        struct float_tile t = keys_laid_out(tiles, wide);
        scores_of_page(&t, few, b);
        avx2_softmax(a, few, b);
        t = values_laid_out(tiles, wide);
        values_of_page(&t, few, b);
        return;
    }
    for (size_t i = 0; i < n_tiles; i++)
        scores_of_page(&tiles[i], few, b);
    avx2_softmax(a, few, b);
    for (size_t i = 0; i < n_tiles; i++)
        values_of_page(&tiles[i], few, b);
}

static size_t wide_bytes(const struct kv_layer *kv)
{
    const size_t dv = mem_round_up(kv->head_dim_v, BLOCK);
    return (kv->head_dim_k > dv ? kv->head_dim_k : dv) * PAGE_LEN * sizeof(float);
}

size_t avx2_pages_f_scratch(const struct kv_layer *kv)
{
    return mem_round_up(sizeof(struct batch), 64) + wide_bytes(kv);
}

void avx2_pages_f(struct walk *w, void *scratch)
{
    struct batch *b = scratch;
    struct float_tile tiles[LANES];
    const size_t n_tiles = avx2_tiles(w);
    for (size_t k = 0; k < n_tiles; k++) {
        struct float_tile *t = &tiles[k];
        *t = tile_of(w->a->kv, w->a->pages[w->p + k / w->n_heads], &w->heads[k % w->n_heads]);
        if (w->n <= FEW) avx2_look_ahead(w, k, &t->after_k, &t->after_v);
    }
    float *wide = (float *)((uint8_t *)scratch + mem_round_up(sizeof *b, 64));
    b->far = &w->far;
    for (size_t at = 0, i = 0; at < w->n; at = i) {
        b->n = 0;
        for (size_t k = 0; k < n_tiles; k++) {
            i = at;
            tiles[k].items =
                avx2_batch(b, avx2_tile_queries(w, k), w->n, w->p + k / w->n_heads, &i);
        }
        attend_batch(w->a, tiles, n_tiles, b, w->few, w->n > FEW ? wide : NULL);
    }
}
