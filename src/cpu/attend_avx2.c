/* Attention on AVX2; see ref_attend.c for what it computes.
 *
 * Pages are the outer loop: a page's keys and values of a KV head are read once for all rows
 * and query heads of the call. Here are the walk and the softmax, whose reductions are done for
 * eight items at a time, a lane each: a single one waits for its own chain. With few queries
 * that takes several KV heads, or several pages. Parts of the pages, and the join of what they
 * leave, are of the same walk. */
#include <assert.h>
#include <string.h>

#include "backend/kv.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = ATTEND_LANES, KEY_VECS = ATTEND_KEY_VECS };

/* Eight rows of eight become columns. */
VEC_INLINE void transpose(f8 v[8])
{
    __m256 a[8], b[8];
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* Eight rows of eight -> the sum of each row from the left. */
VEC_INLINE f8 row_sums(f8 v[8])
{
    transpose(v);
    f8 sum = v[0];
    UNROLL
    for (int i = 1; i < 8; i++)
        sum = sum + v[i];
    return sum;
}

/* Eight rows of eight -> the largest of each row; no NaN, no -0. */
VEC_INLINE f8 row_maxima(const f8 v[8])
{
    __m256 a[4], b[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_max_ps(_mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]),
                             _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        b[i] = _mm256_max_ps(_mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0x44),
                             _mm256_shuffle_ps(a[2 * i], a[2 * i + 1], 0xee));
    return (f8)_mm256_max_ps(_mm256_permute2f128_ps(b[0], b[1], 0x20),
                             _mm256_permute2f128_ps(b[0], b[1], 0x31));
}

/* Keys 8j..8j+7 that are within lo..hi-1. */
VEC_INLINE i8x visible(int j, size_t lo, size_t hi)
{
    const i8x key = (i8x){0, 1, 2, 3, 4, 5, 6, 7} + (int)LANES * j;
    return vec_more_i(key, (int)lo - 1) & ~vec_more_i(key, (int)hi - 1);
}

/* Dots -> scores of a page that is seen whole, without a softcap. Returns the largest of each
 * lane. A NaN may have any pattern and be left out of the largest: its probability is a NaN in
 * any case, so l is one, and with it the row's result, whose pattern the end sees to. */
VEC_INLINE f8 plain_scores(const struct attend *a, const float *log2, float *s)
{
    const f8 dot = vec_all(a->factors.dot);
    f8 max = vec_all(0);
    UNROLL
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = vec_clip(vec_load(s + LANES * j) * dot);
        if (log2) v = v + vec_load(log2 + LANES * j);
        vec_store(s + LANES * j, v);
        max = j == 0 ? v : (f8)_mm256_max_ps(v, max);
    }
    return max;
}

/* Dots -> scores, or scores without keep -> scores; returns the largest, by num_order. */
static float any_scores(const struct kv_factors *by, const float *log2, float *s, size_t lo,
                        size_t hi)
{
    const f8 cap = vec_all(by->cap), inverse = vec_all(by->inverse_cap);
    i8x max = (i8x)_mm256_set1_epi32(INT32_MIN);
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = num8_keep(vec_load(s + LANES * j) * vec_all(by->dot));
        if (by->cap != 0.0f) v = num8_keep(cap * num8_tanh(v * inverse));
        if (log2) v = v + vec_load(log2 + LANES * j);
        vec_store(s + LANES * j, v);
        i8x seen = visible(j, lo, hi);
        i8x order = (num8_order(v) & seen) | (INT32_MIN & ~seen);
        max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)order);
    }
    return num_order_back(vec_max_i(max));
}

/* Scores -> probabilities, with inverse weights; returns the sums of the probabilities of eight
 * runs of eight keys. */
VEC_INLINE f8 probabilities(bool whole, bool narrow, const float *inverse, float *s, size_t lo,
                            size_t hi, float m)
{
    f8 v[KEY_VECS];
    UNROLL
    for (int i = 0; i < KEY_VECS; i++)
        v[i] = vec_load(s + LANES * i) - vec_all(m);
    if (!inverse) vec_exp2_below(v, KEY_VECS);
    UNROLL
    for (int i = 0; i < KEY_VECS; i++) {
        if (inverse) v[i] = vec_exp2_weight(v[i]);
        if (narrow) v[i] = vec_narrow(v[i]);
        if (!whole) v[i] = (f8)((i8x)v[i] & visible(i, lo, hi));
        vec_store(s + LANES * i, v[i]);
        if (inverse) v[i] = v[i] * vec_load(inverse + LANES * i);
        if (inverse && !whole) v[i] = (f8)((i8x)v[i] & visible(i, lo, hi));
    }
    return row_sums(v);
}

/* Of a page that is seen whole. A function of its own: inlined, gcc 12 gives its registers to
 * what is around it, which costs the softmax a sixth. */
static __attribute__((noinline)) f8 whole_probabilities(float *s, float m)
{
    return probabilities(true, false, NULL, s, 0, PAGE_LEN, m);
}

static __attribute__((noinline)) f8 whole_narrow_probabilities(float *s, float m)
{
    return probabilities(true, true, NULL, s, 0, PAGE_LEN, m);
}

static __attribute__((noinline)) f8 whole_weights(const float *inverse, float *s, float m)
{
    return probabilities(true, false, inverse, s, 0, PAGE_LEN, m);
}

/* Pages join the pages before them, for eight items; lanes of no item do no harm. */
static void fold_factors(struct batch *t, size_t at, size_t n)
{
    float before[LANES] = {0}, after[LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        struct query *x = t->x[at + i];
        const float m = t->m[at + i];
        t->is_first[at + i] = !x->begun;
        before[i] = x->begun ? x->m : m;
        if (!x->begun || num_order(m) > num_order(x->m)) x->m = m;
        after[i] = x->m;
        x->begun = true;
    }
    f8 f[2] = {vec_load(before) - vec_load(after), vec_load(t->m + at) - vec_load(after)};
    vec_exp2_below(f, 2);
    vec_store(t->a + at, f[0]);
    vec_store(t->b + at, f[1]);
    for (size_t i = at; i < at + n; i++) {
        struct query *x = t->x[i];
        x->l = t->is_first[i] ? t->l[i] : x->l * t->a[i] + t->l[i] * t->b[i];
    }
}

static bool is_whole(const struct batch *t, size_t i)
{
    return t->lo[i] == 0 && t->hi[i] == PAGE_LEN;
}

static bool are_whole(const struct batch *t, size_t at, size_t n)
{
    bool whole = true;
    for (size_t i = at; i < at + n; i++)
        whole = whole && is_whole(t, i);
    return whole;
}

static const float *log2_of(const struct batch *t, size_t i)
{
    return t->weights[i] ? t->weights[i]->log2 : NULL;
}

/* Dots -> scores of items at..at+n-1, n <= 8, and their maxima; plain: as plain_scores. */
static void scores(const struct attend *a, bool plain, struct batch *t, size_t at, size_t n)
{
    f8 v[LANES];
    if (plain) {
        for (size_t r = 0; r < LANES; r++)
            v[r] = r < n ? plain_scores(a, log2_of(t, at + r), t->s[at + r]) : vec_all(0);
        vec_store(t->m + at, row_maxima(v));
        return;
    }
    for (size_t i = at; i < at + n; i++)
        t->m[i] = any_scores(&a->factors, log2_of(t, i), t->s[i], t->lo[i], t->hi[i]);
}

/* Scores of such items -> probabilities, and their sums. */
static void sums(bool narrow, struct batch *t, size_t at, size_t n)
{
    f8 v[LANES];
    for (size_t r = 0, i = at; r < LANES; r++, i++) {
        const struct key_weights *w = r < n ? t->weights[i] : NULL;
        if (r >= n)
            v[r] = vec_all(0);
        else if (w && is_whole(t, i))
            v[r] = whole_weights(w->inverse, t->s[i], t->m[i]);
        else if (w)
            v[r] =
                probabilities(false, false, w->inverse, t->s[i], t->lo[i], t->hi[i], t->m[i]);
        else if (is_whole(t, i))
            v[r] = narrow ? whole_narrow_probabilities(t->s[i], t->m[i])
                          : whole_probabilities(t->s[i], t->m[i]);
        else
            v[r] = probabilities(false, narrow, NULL, t->s[i], t->lo[i], t->hi[i], t->m[i]);
    }
    vec_store(t->l + at, row_sums(v));
}

void avx2_softmax(const struct attend *a, const struct attend_few *few, struct batch *t)
{
    for (size_t at = 0; at < t->n; at += LANES) {
        const size_t n = t->n - at < LANES ? t->n - at : LANES;
        const bool plain = a->factors.cap == 0.0f && are_whole(t, at, n);
        if (few && plain) {
            few->softmax(a, t, at, n);
        } else {
            scores(a, plain, t, at, n);
            sums(a->kv->type == KV_F16, t, at, n);
        }
        fold_factors(t, at, n);
    }
}

/* A sink is folded as a page of nothing but its maximum. */
static void fold_sink(const struct attend *a, struct query *x, float sink)
{
    float n = num_order(x->m) > num_order(sink) ? x->m : sink;
    float before = num_exp2_below(x->m - n), after = num_exp2_below(sink - n);
    x->l = x->l * before + a->factors.sink_sum * after;
    for (size_t e = 0; e < a->kv->head_dim_v; e += LANES)
        vec_store(x->o + e, vec_clip(vec_load(x->o + e)) * vec_all(before));
}

struct span avx2_batch(struct batch *t, struct query *x, size_t n, size_t p, size_t *i)
{
    const size_t at = p * PAGE_LEN;
    struct span s = {.at = t->n, .from = PAGE_LEN, .to = 0};
    for (; *i < n && t->n < ATTEND_BATCH; (*i)++) {
        struct query *q = &x[*i];
        size_t lo = q->first > at ? q->first - at : 0;
        size_t hi = q->end > at ? (q->end - at < PAGE_LEN ? q->end - at : PAGE_LEN) : 0;
        if (lo >= hi) continue;
        if (lo < s.from) s.from = lo;
        if (hi > s.to) s.to = hi;
        t->weights[t->n] = NULL;
        t->lo[t->n] = lo;
        t->hi[t->n] = hi;
        t->x[t->n++] = q;
    }
    s.n = t->n - s.at;
    return s;
}

/* Tile i of a step, or of the next one; without a next one, some tile. */
struct place {
    const char *page;
    const struct kv_head *at;
};

static struct place place_of(const struct walk *w, size_t i)
{
    const size_t p = w->p + i / w->n_heads;
    return (struct place){w->a->pages[p < w->end ? p : w->p], &w->heads[i % w->n_heads]};
}

static struct ahead keys_of(struct place t)
{
    return (struct ahead){t.page + t.at->k, t.page + t.at->k_scales, 64};
}

static struct ahead values_of(struct place t)
{
    return (struct ahead){t.page + t.at->v, t.page + t.at->v_scales, 64};
}

void avx2_look_ahead(const struct walk *w, size_t i, struct ahead *after_k,
                     struct ahead *after_v)
{
    const bool last = i + 1 == avx2_tiles(w);
    const struct place next = place_of(w, i + 1);
    *after_k = last ? values_of(place_of(w, 0)) : keys_of(next);
    *after_v = last ? keys_of(next) : values_of(next);
}

/* The pages of the next step: of each a run, for what the heads have lies side by side. */
static void look_far(struct walk *w)
{
    const size_t n_bytes = kv_head_bytes(w->a->kv) * w->n_heads;
    const size_t from = w->p + w->n_pages;
    const size_t to = w->end - from < w->n_pages ? w->end : from + w->n_pages;
    struct run *run = w->runs;
    for (size_t p = from; p < to; p++)
        *run++ =
            (struct run){(const char *)w->a->pages[p] + w->heads[0].k, n_bytes / 64, false};
    *run = (struct run){.at = (const char *)w->runs, .n_lines = 1, .is_last = true};
    w->far = (struct far){w->runs[0], w->runs[0].is_last ? w->runs : w->runs + 1};
}

/* The scratch of a call: queries, their outputs, their quantised forms, and what a page takes.
 */
struct layout {
    size_t o, q, page, n_bytes;
};

/* Of a query as it is multiplied, unless that is as it is. */
static size_t query_bytes(const struct kv_layer *kv)
{
    if (kv->type == KV_F16) return mem_round_up(kv->head_dim_k * sizeof(float), 64);
    return kv_type_codes(kv->type) ? avx2_query_q_bytes(kv) : 0;
}

/* Fills what it has in `memory`. */
static void query_begin(const struct attend *a, struct query *x, void *memory)
{
    const struct kv_layer *kv = a->kv;
    float *to = memory;
    if (kv_type_codes(kv->type)) avx2_query_q(a, x, memory);
    if (kv->type != KV_F16) return;
    for (size_t d = 0; d < kv->head_dim_k; d++)
        to[d] = num_narrow(x->q[d]);
    x->q = to;
}

static struct layout layout_of(const struct kv_layer *kv, size_t n)
{
    bool blocks = kv_type_codes(kv->type);
    struct layout l;
    l.o = mem_round_up(n * sizeof(struct query), 64);
    l.q = l.o + mem_round_up(n * kv->head_dim_v * sizeof(float), 64);
    l.page = l.q + n * query_bytes(kv);
    l.n_bytes = l.page + (blocks ? avx2_pages_q_scratch(kv) : avx2_pages_f_scratch(kv));
    return l;
}

size_t avx2_attend_rows(size_t n_group)
{
    (void)n_group;
    return AVX2_ATTEND_ROWS;
}

size_t avx2_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    return layout_of(kv, AVX2_ATTEND_ROWS * n_group).n_bytes;
}

/* Query i of a call, whose KV heads from kv_head on have n each: its query head. */
static size_t head_of(const struct attend *a, size_t kv_head, size_t n, size_t i)
{
    return (kv_head + i / n) * a->n_group + i % a->n_group;
}

/* At its start; without what it has of its own. */
static struct query query_of(const struct attend *a, size_t row, size_t head)
{
    const size_t end = a->pos + row + 1;
    return (struct query){
        .q = a->q + row * a->q_stride + head * a->kv->head_dim_k,
        .first = attend_first(a->window, end - 1),
        .end = end,
    };
}

/* The result of a query whose pages are folded. */
static void finish(const struct attend *a, struct query *x, size_t row, size_t head)
{
    const size_t dv = a->kv->head_dim_v;
    if (a->sinks) fold_sink(a, x, attend_sink(a, head));
    const f8 inverse = vec_all(num_rcp(x->l));
    float *out = a->out + row * a->out_stride + head * dv;
    for (size_t e = 0; e < dv; e += LANES)
        vec_store(out + e, num8_keep(vec_clip(vec_load(x->o + e)) * inverse));
}

static void walk_step(struct walk *w, void *scratch)
{
    if (w->few) look_far(w);
    if (kv_type_codes(w->a->kv->type))
        avx2_pages_q(w, scratch);
    else
        avx2_pages_f(w, scratch);
}

static void walk_pages(struct walk *w, size_t from, size_t to, void *scratch)
{
    const size_t n = w->n_heads * w->n, at_once = n < LANES ? LANES / n : 1;
    for (w->p = from; w->p < to; w->p += at_once) {
        w->n_pages = to - w->p < at_once ? to - w->p : at_once;
        if (cancel_is_set(w->a->cancel)) return;
        walk_step(w, scratch);
    }
}

/* A call: so many rows from lo on, for so many KV heads. */
struct call {
    size_t kv_head, n_heads, lo, n_rows;
};

static size_t call_row(const struct attend *a, const struct call *c, size_t i)
{
    return c->lo + i % (c->n_rows * a->n_group) / a->n_group;
}

/* The walk of a call and its queries, in scratch; without their outputs. */
static struct walk walk_begin(const struct attend *a, const struct call *c,
                              const struct attend_few *few, const struct layout *at,
                              uint8_t *scratch)
{
    const size_t n = c->n_rows * a->n_group, n_queries = c->n_heads * n;
    struct walk w = {
        .a = a, .few = few, .n_heads = c->n_heads, .x = (struct query *)scratch, .n = n};
    assert(c->n_rows <= AVX2_ATTEND_ROWS && (c->n_heads == 1 || n_queries <= LANES));
    for (size_t j = 0; j < c->n_heads; j++)
        w.heads[j] = kv_head_at(a->kv, c->kv_head + j);
    for (size_t i = 0; i < n_queries; i++) {
        w.x[i] = query_of(a, call_row(a, c, i), head_of(a, c->kv_head, n, i));
        query_begin(a, &w.x[i], scratch + at->q + i * query_bytes(a->kv));
    }
    return w;
}

void attend_by_rows(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                    size_t hi, const struct attend_few *few, void *scratch)
{
    const size_t dv = a->kv->head_dim_v, n = (hi - lo) * a->n_group;
    if (dv % LANES != 0) {
        for (size_t j = 0; j < n_heads; j++)
            ref_attend(a, kv_head + j, lo, hi, scratch);
        return;
    }
    uint8_t *base = scratch;
    const struct layout at = layout_of(a->kv, n_heads * n);
    const struct call c = {kv_head, n_heads, lo, hi - lo};
    struct walk w = walk_begin(a, &c, few, &at, base);
    for (size_t i = 0; i < n_heads * n; i++)
        w.x[i].o = (float *)(base + at.o) + i * dv;
    w.end = pages_for(w.x[n - 1].end);
    walk_pages(&w, w.x[0].first / PAGE_LEN, w.end, base + at.page);
    for (size_t i = 0; i < n_heads * n; i++)
        finish(a, &w.x[i], call_row(a, &c, i), head_of(a, kv_head, n, i));
}

void avx2_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
{
    attend_by_rows(a, kv_head, 1, lo, hi, NULL, scratch);
}

void avx2_attend_heads(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                       size_t hi, void *scratch)
{
    attend_by_rows(a, kv_head, n_heads, lo, hi, NULL, scratch);
}

/* ---- parts ---- */

_Static_assert((int)ATTEND_HEADS_QUERIES <= (int)LANES, "a step has as many items at most");

/* The sums of query i of n of a KV head, so many stretches behind the first. */
static float *sums_at(const struct attend_sums *sums, size_t stretch, size_t kv_head, size_t n,
                      size_t i)
{
    return sums->at + stretch * sums->stretch + (kv_head * n + i) * sums->stride;
}

static void store_sums(const struct query *x, size_t dv)
{
    float *ends = x->o + dv;
    ends[0] = x->m;
    ends[1] = x->l;
    ends[2] = x->begun ? 1.0f : 0.0f;
}

static struct query load_sums(float *sums, size_t dv)
{
    return (struct query){
        .o = sums, .m = sums[dv], .l = sums[dv + 1], .begun = sums[dv + 2] != 0.0f};
}

/* Each page for itself: it has queries of its own, which begin with it. */
static void walk_each(const struct attend_part *part, struct walk *w, void *scratch)
{
    const struct attend *a = w->a;
    const size_t n = w->n, at_once = LANES / n;
    const struct query *begin = w->x;
    struct query x[LANES];
    w->x = x;
    w->of_page = n;
    for (w->p = part->from; w->p < part->to; w->p += at_once) {
        w->n_pages = part->to - w->p < at_once ? part->to - w->p : at_once;
        if (cancel_is_set(a->cancel)) return;
        for (size_t i = 0; i < w->n_pages * n; i++) {
            x[i] = begin[i % n];
            x[i].o = sums_at(&part->sums, w->p - part->from + i / n, part->kv_head, n, i % n);
        }
        walk_step(w, scratch);
        for (size_t i = 0; i < w->n_pages * n; i++)
            store_sums(&x[i], a->kv->head_dim_v);
    }
}

void attend_part_by_rows(const struct attend *a, const struct attend_part *part,
                         const struct attend_few *few, void *scratch)
{
    uint8_t *base = scratch;
    const struct call c = {part->kv_head, 1, 0, part->n_rows};
    const size_t n = part->n_rows * a->n_group;
    const struct layout at = layout_of(a->kv, n);
    assert(n <= ATTEND_HEADS_QUERIES && a->kv->head_dim_v % LANES == 0);
    struct walk w = walk_begin(a, &c, few, &at, base);
    w.end = part->end;
    if (!part->folded) {
        walk_each(part, &w, base + at.page);
        return;
    }
    for (size_t i = 0; i < n; i++)
        w.x[i].o = sums_at(&part->sums, 0, part->kv_head, n, i);
    walk_pages(&w, part->from, part->to, base + at.page);
    for (size_t i = 0; i < n; i++)
        store_sums(&w.x[i], a->kv->head_dim_v);
}

void avx2_attend_part(const struct attend *a, const struct attend_part *part, void *scratch)
{
    attend_part_by_rows(a, part, NULL, scratch);
}

/* What a query, which is x, has of stretches joins t as an item, if it sees any of it. Another
 * thread may have written it: its lines are asked for together. */
static void gather_sums(float *sums, size_t dv, struct query *x, struct batch *t,
                        const float *o[LANES])
{
    enum { LINE_FLOATS = 64 / sizeof(float) };
    const struct query one = load_sums(sums, dv);
    if (!one.begun) return;
    for (size_t e = 0; e < dv; e += LINE_FLOATS)
        _mm_prefetch((const char *)(one.o + e), _MM_HINT_T0);
    o[t->n] = one.o;
    t->m[t->n] = one.m;
    t->l[t->n] = one.l;
    t->x[t->n++] = x;
}

static void fold_sums(struct batch *t, const float *const o[LANES], size_t dv, float *to)
{
    fold_factors(t, 0, t->n);
    for (size_t e = 0; e < dv; e += LANES)
        for (size_t k = 0; k < t->n; k++)
            avx2_fold(t->is_first[k], vec_all(t->a[k]), vec_all(t->b[k]), vec_load(o[k] + e),
                      to + e);
}

void avx2_attend_join(const struct attend *a, size_t kv_head, size_t n_rows,
                      struct attend_sums sums, size_t n, void *scratch)
{
    struct batch *t = scratch;
    const size_t n_queries = n_rows * a->n_group, dv = a->kv->head_dim_v;
    for (size_t i = 0; i < n_queries; i++) {
        struct query x = load_sums(sums_at(&sums, 0, kv_head, n_queries, i), dv);
        for (size_t at = 1; at < n;) {
            const float *o[LANES];
            for (t->n = 0; at < n && t->n < LANES; at++)
                gather_sums(sums_at(&sums, at, kv_head, n_queries, i), dv, &x, t, o);
            fold_sums(t, o, dv, x.o);
        }
        finish(a, &x, i / a->n_group, kv_head * a->n_group + i % a->n_group);
    }
}
