/* Attention on AVX2; see ref_attend.c for what it computes.
 *
 * Pages are the outer loop: a page's keys and values of a KV head are read once for all rows
 * and query heads of the call. Here is the walk. The softmax takes eight items at a time
 * (attend_softmax_avx2.c), so with few queries a step has several KV heads, or several pages.
 * Parts of the pages, and the join of what they leave, are of the same walk. */
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

/* A sink is folded as a page of nothing but its maximum. */
static void fold_sink(const struct attend *a, struct query *x, float sink)
{
    float n = num_order(x->m) > num_order(sink) ? x->m : sink;
    float before = num_exp2_below(x->m - n), after = num_exp2_below(sink - n);
    x->l = x->l * before + a->factors.sink_sum * after;
    for (size_t e = 0; e < a->kv->head_dim_v; e += LANES)
        vec_store(x->o + e, vec_clip(vec_load(x->o + e)) * vec_all(before));
}

/* Pages of a step. */
static size_t at_once(const struct walk *w)
{
    const size_t n = w->n_heads * w->n;
    return n < LANES ? LANES / n : 1;
}

/* The pages of the next step: of each and its heads a run, or of several that lie side by side.
 */
static void look_far(struct walk *w)
{
    const size_t n_lines = kv_head_bytes(w->a->kv) / 64;
    const size_t from = w->next_p;
    const size_t to = w->end - from < at_once(w) ? w->end : from + at_once(w);
    struct run *run = w->runs;
    for (size_t p = from; p < to; p++) {
        for (size_t j = 0; j < w->n_heads; j++) {
            const char *at = (const char *)w->a->pages[p] + w->next_heads[j].k;
            if (run > w->runs && at == run[-1].at + 64 * run[-1].n_lines)
                run[-1].n_lines += n_lines;
            else
                *run++ = (struct run){at, n_lines, false};
        }
    }
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
    const float *q = x->q;
    const size_t n = kv->head_dim_k;
    size_t d = 0;
    for (; d + LANES <= n; d += LANES)
        vec_store(to + d, num8_narrow(vec_load(q + d)));
    for (; d < n; d++)
        to[d] = num_narrow(q[d]);
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
static void query_start(const struct attend *a, size_t row, size_t head, struct query *x)
{
    const float *q = a->q + row * a->q_stride + head * a->kv->head_dim_k;
    const size_t end = a->pos + row + 1, first = attend_first(a->window, end - 1);
    const float slope = attend_slope(a, head);
    *x = (struct query){.q = q, .first = first, .end = end, .slope = slope};
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
    if (w->few && w->few->reads_far) look_far(w);
    if (kv_type_codes(w->a->kv->type))
        avx2_pages_q(w, scratch);
    else
        avx2_pages_f(w, scratch);
}

/* Pages from..to-1 with the heads of w; behind the last one it goes on at next_p. */
static void walk_run(struct walk *w, size_t from, size_t to, size_t next_p,
                     const struct kv_head *next_heads, void *scratch)
{
    for (w->p = from; w->p < to; w->p = from) {
        w->n_pages = to - from < at_once(w) ? to - from : at_once(w);
        from += w->n_pages;
        w->next_p = from < to ? from : next_p;
        w->next_heads = from < to ? w->heads : next_heads;
        if (cancel_is_set(w->a->cancel)) return;
        walk_step(w, scratch);
    }
}

/* Pages from p on, before `to`, that lie side by side. */
static size_t n_beside(const struct walk *w, size_t p, size_t to)
{
    const size_t unit = kv_head_bytes(w->a->kv);
    void *const *page = w->a->pages;
    size_t end = p + 1;
    while (w->a->kv->n_beside > 1 && end < to &&
           (const char *)page[end] == (const char *)page[end - 1] + unit)
        end++;
    return end - p;
}

/* Where pages enough for a step of one head lie side by side the heads take their turns, each
 * with all of these pages, for so memory is read from end to end. Else a step has all heads. */
static void walk_pages(struct walk *w, size_t from, size_t to, void *scratch)
{
    struct walk one = *w;
    one.n_heads = 1;
    for (size_t p = from, end; p < to; p = end) {
        end = w->n_heads > 1 ? p + n_beside(w, p, to) : p;
        if (end - p < at_once(&one)) {
            end = to - p < at_once(w) ? to : p + at_once(w);
            walk_run(w, p, end, end, w->heads, scratch);
            continue;
        }
        for (size_t j = 0; j < w->n_heads; j++) {
            const bool last = j + 1 == w->n_heads;
            one.heads[0] = w->heads[j];
            one.x = w->x + j * w->n;
            walk_run(&one, p, end, last ? end : p, &w->heads[last ? 0 : j + 1], scratch);
        }
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

/* The walk of a call and its queries, in scratch; without their outputs. They are filled where
 * they are: returned and copied, loads waited for narrower stores, 0.2 us of 1.7 for eight
 * queries at a page's first key (Zen 5, 2026-11). */
static void walk_begin(const struct attend *a, const struct call *c,
                       const struct attend_few *few, const struct layout *at, uint8_t *scratch,
                       struct walk *w)
{
    const size_t n = c->n_rows * a->n_group, n_queries = c->n_heads * n;
    struct query *x = (struct query *)scratch;
    assert(c->n_rows <= AVX2_ATTEND_ROWS && (c->n_heads == 1 || n_queries <= LANES));
    *w = (struct walk){.a = a, .few = few, .n_heads = c->n_heads, .x = x, .n = n};
    for (size_t j = 0; j < c->n_heads; j++)
        w->heads[j] = kv_head_at(a->kv, c->kv_head + j);
    for (size_t i = 0; i < n_queries; i++) {
        query_start(a, call_row(a, c, i), head_of(a, c->kv_head, n, i), &x[i]);
        query_begin(a, &x[i], scratch + at->q + i * query_bytes(a->kv));
    }
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
    struct walk w;
    walk_begin(a, &c, few, &at, base, &w);
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
    const size_t n = w->n;
    const struct query *begin = w->x;
    struct query x[LANES];
    w->x = x;
    w->of_page = n;
    for (w->p = part->from; w->p < part->to; w->p = w->next_p) {
        w->n_pages = part->to - w->p < at_once(w) ? part->to - w->p : at_once(w);
        w->next_p = w->p + w->n_pages;
        w->next_heads = w->heads;
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
    struct walk w;
    walk_begin(a, &c, few, &at, base, &w);
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
    avx2_fold_factors(t, 0, t->n);
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
