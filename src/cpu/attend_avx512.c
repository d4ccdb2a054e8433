/* Attention on AVX-512; see ref_attend.c for what it computes.
 *
 * Here are the walk over the pages and the softmax for many queries, a lane each. Few, as in
 * decoding, would leave most lanes empty: there lanes are keys and dims, as on AVX2.
 *
 * Scores are not kept, as the definition does: what is below 2^-50 and what is 0 give the same
 * probabilities. 2^x is 1 down to x = -2^-25, and where a difference of scores is beyond that,
 * half a unit of its last place is 2^-50 at least. The logarithm that a score of codes is added
 * to is 0, too, or at least 2^-8 in magnitude. The same goes for attend_q_avx512.c. */
#include <assert.h>
#include <math.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "cpu/attend_avx512.h"
#include "cpu/avx2.h"
#include "cpu/avx512.h"

/* Sixteen queries on their way through the pages. Lanes that are left over repeat the last. */
struct group {
    struct {
        size_t first, end;
    } of_first, of_last; /* visible positions of the first and of the last query: both grow */
    iz first, end;       /* the same of each */
    fz slope;            /* of each; 0: none */
    fz m, l;             /* of the pages so far: -infinity and 0 before the first */
};

/* ---- the softmax of a group and page ---- */

/* What becomes of scores. */
enum form { PROBABILITIES, NARROW_PROBABILITIES, WEIGHTS, INTEGER_WEIGHTS };

VEC_INLINE bool form_is_weights(enum form form)
{
    return form == WEIGHTS || form == INTEGER_WEIGHTS;
}

/* Dots -> scores; returns the largest of each lane, with weights that of the scores and their
 * logarithms. It leaves a NaN out: its probability is one in any case, so l is, and with it the
 * row's result, whose pattern the end sees to. */
VEC_INLINE fz scores(bool whole, enum form form, const struct attend *a,
                     const struct page_weights *w, const struct seen *t, fz slope, fz *s)
{
    const bool codes = form_is_weights(form), plain = whole || attend_is_plain(a);
    const fz dot = z_all(a->factors.dot), cap = z_all(a->factors.cap),
             inverse = z_all(a->factors.inverse_cap);
    fz max[4];
    for (int i = 0; i < 4; i++)
        max[i] = z_all(-INFINITY);
    const size_t to = (t->to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < to; j += 4) {
        UNROLL for (size_t i = 0; i < 4; i++)
        {
            fz v = whole && codes ? s[j + i] : s[j + i] * dot;
            if (!plain) v = num16_keep(v);
            if (!plain && a->factors.cap != 0.0f) v = num16_keep(cap * num16_tanh(v * inverse));
            if (!plain && a->slopes.step != 0.0f)
                v = v + slope * z_float(z_all_i((int32_t)(j + i)) - t->own_key);
            if (!whole) v = z_choose(seen_by(t, j + i), v, z_all(-INFINITY));
            if (codes) v = v + z_all(w->log2[j + i]);
            s[j + i] = v;
            max[i] = z_max(v, max[i]);
        }
    }
    return z_max(z_max(max[0], max[1]), z_max(max[2], max[3]));
}

/* Scores less their maximum -> probabilities or weights. */
VEC_INLINE void exponentiate(enum form form, fz v[STRIPE])
{
    if (!form_is_weights(form)) z_exp2_below(v, STRIPE);
    UNROLL for (size_t i = 0; i < STRIPE; i++)
    {
        if (form_is_weights(form)) v[i] = z_exp2_weight(false, v[i]);
        if (form == NARROW_PROBABILITIES) v[i] = z_narrow(v[i]);
    }
}

/* Scores -> what the values are multiplied by; returns the sums of the probabilities. */
VEC_INLINE fz probabilities(bool whole, enum form form, const struct page_weights *w,
                            const struct seen *t, fz *s, bz *u, fz m)
{
    const bool codes = form_is_weights(form);
    fz sum = z_all(0);
    if (!whole && form == INTEGER_WEIGHTS) memset(u, 0, PAGE_LEN / 4 * sizeof *u);
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < t->to; j += STRIPE) {
        fz v[STRIPE];
        UNROLL for (size_t i = 0; i < STRIPE; i++) v[i] = s[j + i] - m;
        exponentiate(form, v);
        UNROLL for (size_t i = 0; i < STRIPE; i++)
        {
            if (!whole) v[i] = z_choose(seen_by(t, j + i), v[i], z_all(0));
            if (form != INTEGER_WEIGHTS) s[j + i] = v[i];
        }
        UNROLL for (size_t i = 0; form == INTEGER_WEIGHTS && i < STRIPE; i += 4)
        {
            u[(j + i) / 4] = z_bytes(v + i);
        }
        UNROLL for (size_t i = 0; codes && i < STRIPE; i++)
        {
            v[i] = v[i] * z_all(w->inverse[j + i]);
            if (!whole) v[i] = z_choose(seen_by(t, j + i), v[i], z_all(0));
        }
        UNROLL for (size_t i = 1; i < STRIPE; i++) v[0] = v[0] + v[i];
        sum = sum + v[0];
    }
    return sum;
}

/* Lanes that see nothing of a page go on with what they have. */
VEC_INLINE struct fold join(bool whole, const struct seen *t, struct group *g, fz m, fz l)
{
    const mz some = z_less(t->lo, t->hi);
    fz n = z_max(g->m, m);
    if (!whole) n = z_choose(some, n, g->m);
    fz v[2] = {g->m - n, m - n};
    z_exp2_below(v, 2);
    if (!whole) {
        v[0] = z_choose(some, v[0], z_all(1));
        v[1] = z_choose(some, v[1], z_all(0));
        l = z_choose(some, l, z_all(0));
    }
    g->m = n;
    g->l = g->l * v[0] + l * v[1];
    const mz less = z_less((iz)v[0], (iz)z_all(1));
    return (struct fold){v[0], v[1], z_lanes(less) & (int32_t)NUM_SMALL, !z_any(less)};
}

/* A lane that sees nothing has no largest score. */
VEC_INLINE void softmax(bool whole, enum form form, const struct attend *a,
                        const struct page_weights *w, struct group *g, struct item *x)
{
    fz m = scores(whole, form, a, w, &x->t, g->slope, x->s);
    if (!whole) m = z_choose(z_less(x->t.lo, x->t.hi), m, z_all(0));
    const fz l = probabilities(whole, form, w, &x->t, x->s, x->u, m);
    x->f = join(whole, &x->t, g, m, l);
}

/* part: with a softcap or slopes, or where lanes see a part. */
#define INSTANCE(form)                                                                         \
    static __attribute__((noinline)) void whole_##form(                                        \
        const struct attend *a, const struct page_weights *w, struct group *g, struct item *x) \
    {                                                                                          \
        softmax(true, form, a, w, g, x);                                                       \
    }                                                                                          \
    static __attribute__((noinline)) void part_##form(                                         \
        const struct attend *a, const struct page_weights *w, struct group *g, struct item *x) \
    {                                                                                          \
        softmax(false, form, a, w, g, x);                                                      \
    }
INSTANCE(PROBABILITIES)
INSTANCE(NARROW_PROBABILITIES)
INSTANCE(WEIGHTS)
INSTANCE(INTEGER_WEIGHTS)

typedef void softmax_fn(const struct attend *a, const struct page_weights *w, struct group *g,
                        struct item *x);
static softmax_fn *const softmax_of[][2] = {
    [PROBABILITIES] = {part_PROBABILITIES, whole_PROBABILITIES},
    [NARROW_PROBABILITIES] = {part_NARROW_PROBABILITIES, whole_NARROW_PROBABILITIES},
    [WEIGHTS] = {part_WEIGHTS, whole_WEIGHTS},
    [INTEGER_WEIGHTS] = {part_INTEGER_WEIGHTS, whole_INTEGER_WEIGHTS},
};

static enum form form_of(const struct kv_layer *kv)
{
    if (kv_type_codes(kv->type)) return weights_become_codes(kv) ? INTEGER_WEIGHTS : WEIGHTS;
    return kv->type == KV_F16 ? NARROW_PROBABILITIES : PROBABILITIES;
}

/* ---- queries ---- */

/* Query i of the call: its row, and its head. */
struct place {
    size_t row, head;
};

static struct place place_of(const struct attend *a, size_t kv_head, size_t lo, size_t i)
{
    return (struct place){lo + i / a->n_group, kv_head * a->n_group + i % a->n_group};
}

static size_t end_of(const struct attend *a, size_t row)
{
    return a->pos + row + 1;
}

static size_t first_of(const struct attend *a, size_t row)
{
    return attend_first(a->window, a->pos + row);
}

/* Queries at.. of n, which are laid out at q. */
static void group_begin(const struct attend *a, const struct attend_pages *by, size_t kv_head,
                        size_t lo, size_t at, size_t n, struct group *g, void *q)
{
    const struct kv_layer *kv = a->kv;
    const float *x[Z_LANES];
    int32_t first[Z_LANES], end[Z_LANES];
    float slope[Z_LANES];
    size_t row = 0;
    for (size_t i = 0; i < Z_LANES; i++) {
        const struct place p = place_of(a, kv_head, lo, at + i < n ? at + i : n - 1);
        row = p.row;
        x[i] = a->q + p.row * a->q_stride + p.head * kv->head_dim_k;
        first[i] = (int32_t)first_of(a, row);
        end[i] = (int32_t)end_of(a, row);
        slope[i] = attend_slope(a, p.head);
        if (i == 0) g->of_first.first = first_of(a, row), g->of_first.end = end_of(a, row);
    }
    g->of_last.first = first_of(a, row);
    g->of_last.end = end_of(a, row);
    g->first = (iz)z_load(first);
    g->end = (iz)z_load(end);
    g->slope = z_load_f(slope);
    g->m = z_all(-INFINITY);
    g->l = z_all(0);
    by->queries(a, x, q);
}

/* A sink is a page of nothing but its maximum, which adds nothing to the outputs. */
static void fold_sinks(const struct attend *a, struct group *g, fz *o, fz sink)
{
    const fz n = z_max(g->m, sink);
    const fz before = num16_exp2_below(g->m - n), after = num16_exp2_below(sink - n);
    g->l = g->l * before + z_all(a->factors.sink_sum) * after;
    for (size_t e = 0; e < a->kv->head_dim_v; e++)
        o[e] = z_clip(o[e]) * before;
}

/* Dims e..e+n_dims-1 of the outputs of a group's queries, of which n are of the call. */
VEC_INLINE void write_dims(const fz *o, fz inverse, size_t e, size_t n_dims,
                           float *const out[Z_LANES], size_t n)
{
    iz v[Z_LANES];
    UNROLL for (size_t i = 0; i < Z_LANES; i++) v[i] =
        i < n_dims ? (iz)num16_keep(z_clip(o[e + i]) * inverse) : z_all_i(0);
    z_transpose(v);
    for (size_t i = 0; i < n; i++)
        memcpy(out[i] + e, &v[i], n_dims * sizeof(float));
}

static void group_end(const struct attend *a, size_t kv_head, size_t lo, size_t at, size_t n,
                      struct group *g, fz *o)
{
    const size_t dv = a->kv->head_dim_v;
    float *out[Z_LANES], sinks[Z_LANES] = {0};
    n = n - at < Z_LANES ? n - at : Z_LANES;
    for (size_t i = 0; i < n; i++) {
        const struct place p = place_of(a, kv_head, lo, at + i);
        out[i] = a->out + p.row * a->out_stride + p.head * dv;
        if (a->sinks) sinks[i] = attend_sink(a, p.head);
    }
    if (a->sinks) fold_sinks(a, g, o, z_load_f(sinks));
    const fz inverse = num16_rcp(g->l);
    size_t e = 0;
    for (; e + Z_LANES <= dv; e += Z_LANES)
        write_dims(o, inverse, e, Z_LANES, out, n);
    if (e < dv) write_dims(o, inverse, e, dv - e, out, n);
}

/* ---- the walk ---- */

/* The part of a page at position `at` that a sequence of visible positions has. */
static size_t within(size_t position, size_t at)
{
    if (position <= at) return 0;
    return position - at < PAGE_LEN ? position - at : PAGE_LEN;
}

static struct seen seen_of(const struct group *g, size_t p)
{
    const size_t at = p * PAGE_LEN;
    return (struct seen){
        .from = within(g->of_first.first, at),
        .to = within(g->of_last.end, at),
        .whole = g->of_last.first <= at && g->of_first.end >= at + PAGE_LEN,
        .lo = g->first - (int32_t)at,
        .hi = g->end - (int32_t)at,
        .own_key = g->end - (int32_t)at - 1,
    };
}

/* lo and hi as keys of the page, so that they tell whether there are any. */
static void clamp_part(struct seen *t)
{
    const iz most = z_all_i(PAGE_LEN);
    t->lo = z_max_i(t->lo, z_all_i(0));
    t->hi = -z_max_i(-t->hi, -most);
}

static bool sees_none(const struct item *x)
{
    return x->t.from >= x->t.to;
}

/* AT_ONCE groups at most at page p. Rows of the first may end before it, windows of the last
 * begin behind it. */
static void attend_page(const struct attend *a, const struct attend_pages *by, size_t p,
                        struct group *g, struct item *x, size_t n, void *laid)
{
    for (size_t i = 0; i < n; i++)
        x[i].t = seen_of(&g[i], p);
    while (n > 0 && sees_none(x))
        x++, g++, n--;
    while (n > 0 && sees_none(&x[n - 1]))
        n--;
    if (n == 0) return;
    by->scores(a->kv, laid, x, n);
    const struct page_weights w = by->weights ? by->weights(laid) : (struct page_weights){0};
    softmax_fn *const *softmax = softmax_of[form_of(a->kv)];
    for (size_t i = 0; i < n; i++) {
        if (!x[i].t.whole) clamp_part(&x[i].t);
        softmax[x[i].t.whole && attend_is_plain(a)](a, &w, &g[i], &x[i]);
    }
    by->values(a->kv, laid, x, n);
}

/* Whether AT_ONCE items have no weight of 0. Rounding keeps the order of differences, so the
 * smallest score tells; a NaN has a weight in any case. */
static bool are_near(const struct item *x)
{
    const fz least = z_all(NUM_EXP2_LEAST);
    return !z_any(
        (mz) ~(z_reaches(x[0].least - x[0].m, least) & z_reaches(x[1].least - x[1].m, least)));
}

static void weigh_alone(const struct page_weights *w, struct item *x)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        for (size_t quad = 0; quad < PAGE_LEN / 4; quad++)
            weigh_quad(false, w->inverse, &x[i], quad);
}

static bool may_go_beside(const struct attend_pages *by, const struct kv_layer *kv)
{
    return by->scores_beside && weights_become_codes(kv);
}

/* Of n groups at page p, if all of them see all of it: the weights of AT_ONCE are made while
 * the scores of the next are computed. First all read the keys, then all the values, which stay
 * in the first cache meanwhile. Returns how many groups are done; the others are left to
 * attend_page. */
static size_t attend_beside(const struct attend *a, const struct attend_pages *by, size_t p,
                            struct group *g, struct item *x, size_t n, void *laid)
{
    const bool whole =
        g[0].of_first.end >= (p + 1) * PAGE_LEN && g[n - 1].of_last.first <= p * PAGE_LEN;
    if (!whole || !may_go_beside(by, a->kv) || !attend_is_plain(a)) return 0;
    const struct page_weights w = by->weights(laid);
    bool unweighed = false; /* AT_ONCE items before those at i have no weights yet */
    n -= n % AT_ONCE;
    for (size_t i = 0; i < n; i += AT_ONCE) {
        for (size_t k = i; k < i + AT_ONCE; k++) {
            x[k].t =
                (struct seen){0, PAGE_LEN, true, z_all_i(0), z_all_i(PAGE_LEN), z_all_i(0)};
            x[k].l = z_all(0);
        }
        by->scores_beside(laid, &x[i], unweighed ? &x[i - AT_ONCE] : NULL);
        unweighed = i + AT_ONCE < n && are_near(&x[i]);
        if (!unweighed) weigh_alone(&w, &x[i]);
    }
    for (size_t i = 0; i < n; i++)
        x[i].f = join(true, &x[i].t, &g[i], x[i].m, x[i].l);
    for (size_t i = 0; i < n; i += AT_ONCE)
        by->values(a->kv, laid, &x[i], AT_ONCE);
    return n;
}

/* ---- a call ---- */

/* The scratch of a call: struct group [groups] at its beginning, the rest at so many bytes. */
struct layout {
    size_t items;            /* struct item [groups] */
    size_t o, q;             /* [groups] of so many lines, and of so many bytes */
    size_t s, u;             /* [rooms of s][PAGE_LEN], [rooms of u][PAGE_LEN/4] */
    size_t page, n_bytes;    /* for what lays it out; of all */
    size_t o_lines, q_bytes; /* of a group */
    size_t n_s, n_u;         /* rooms, which take turns */
};

static struct layout layout_of(const struct kv_layer *kv, const struct attend_pages *by,
                               size_t n_groups)
{
    const bool beside = may_go_beside(by, kv);
    struct layout l = {
        .o_lines = kv->head_dim_v | 8, /* never 4 KiB: a load waits for stores so far before */
        .q_bytes = mem_round_up(by->query_bytes(kv), 64),
        .n_s = beside ? 2 * AT_ONCE : AT_ONCE,
        .n_u = beside ? n_groups : AT_ONCE,
    };
    l.items = n_groups * sizeof(struct group);
    l.o = l.items + n_groups * sizeof(struct item);
    l.q = l.o + n_groups * l.o_lines * sizeof(fz);
    l.s = l.q + n_groups * l.q_bytes;
    l.u = l.s + l.n_s * PAGE_LEN * sizeof(fz);
    l.page = l.u + l.n_u * PAGE_LEN / 4 * sizeof(bz);
    l.n_bytes = l.page + by->page_bytes(kv);
    return l;
}

static void item_begin(const struct kv_layer *kv, const struct layout *at, uint8_t *scratch,
                       size_t i, struct item *x)
{
    x->q = scratch + at->q + i * at->q_bytes;
    x->o = (fz *)(scratch + at->o) + i * at->o_lines;
    x->s = (fz *)(scratch + at->s) + i % at->n_s * PAGE_LEN;
    x->u = (bz *)(scratch + at->u) + i % at->n_u * PAGE_LEN / 4;
    for (size_t e = 0; e < kv->head_dim_v; e++)
        x->o[e] = z_all(0);
}

static size_t groups_of(size_t n)
{
    return (n + Z_LANES - 1) / Z_LANES;
}

/* Laying out a page is shared by the queries of a call, which gains more than it costs that
 * what they take outgrows the second cache with large heads. 256 rows of 2 queries at a depth
 * of 8,192, ms of one thread, in calls of 1024 and of 512 queries, with heads of 128, 256 and
 * 512 dims: q8_0 5.45 10.4 20.2 and 5.50 10.6 20.6, f16 19.9 38.6 75.9 and 20.2 39.3 77.4 (Zen
 * 4, 2026-11). LEAST rows even where each has more than 16. */
size_t avx512_attend_rows(size_t n_group)
{
    enum { QUERIES = 1024, LEAST = 64 };
    return QUERIES / n_group > LEAST ? QUERIES / n_group : LEAST;
}

size_t attend_many_scratch_avx512(const struct attend_pages *by, const struct kv_layer *kv,
                                  size_t n_group)
{
    return layout_of(kv, by, groups_of(avx512_attend_rows(n_group) * n_group)).n_bytes;
}

void attend_many_avx512(const struct attend_pages *by, const struct attend *a, size_t kv_head,
                        size_t lo, size_t hi, void *scratch)
{
    const struct kv_layer *kv = a->kv;
    const size_t n = (hi - lo) * a->n_group, n_groups = groups_of(n);
    const struct layout at = layout_of(kv, by, n_groups);
    assert(hi - lo <= avx512_attend_rows(a->n_group));
    uint8_t *base = scratch;
    struct group *g = scratch;
    struct item *x = (struct item *)(base + at.items);
    for (size_t i = 0; i < n_groups; i++) {
        item_begin(kv, &at, base, i, &x[i]);
        group_begin(a, by, kv_head, lo, i * Z_LANES, n, &g[i], base + at.q + i * at.q_bytes);
    }
    const struct kv_head head = kv_head_at(kv, kv_head);
    const size_t first = g[0].of_first.first, end = g[n_groups - 1].of_last.end;
    for (size_t p = first / PAGE_LEN; p * PAGE_LEN < end; p++) {
        if (cancel_is_set(a->cancel)) return;
        void *laid = base + at.page;
        const struct head_page page = {.page = a->pages[p],
                                       .next = a->pages[(p + 1) * PAGE_LEN < end ? p + 1 : p],
                                       .at = &head,
                                       .from = within(first, p * PAGE_LEN),
                                       .to = within(end, p * PAGE_LEN),
                                       .once = n_groups <= AT_ONCE};
        by->lay_out(kv, &page, laid);
        size_t i = attend_beside(a, by, p, g, x, n_groups, laid);
        for (; i < n_groups; i += AT_ONCE)
            attend_page(a, by, p, &g[i], &x[i], n_groups - i < AT_ONCE ? n_groups - i : AT_ONCE,
                        laid);
    }
    for (size_t i = 0; i < n_groups; i++)
        group_end(a, kv_head, lo, i * Z_LANES, n, &g[i], x[i].o);
}

static const struct attend_pages *pages_of(const struct kv_layer *kv)
{
    return kv_type_codes(kv->type) ? &attend_blocks_avx512 : &attend_floats_avx512;
}

size_t avx512_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    const size_t few = avx2_attend_scratch(kv, n_group);
    const size_t many = attend_many_scratch_avx512(pages_of(kv), kv, n_group);
    return few > many ? few : many;
}

void avx512_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
{
    if ((hi - lo) * a->n_group <= ATTEND_FEW || a->kv->head_dim_v % 8 != 0)
        avx512_attend_few(a, kv_head, lo, hi, scratch);
    else
        attend_many_avx512(pages_of(a->kv), a, kv_head, lo, hi, scratch);
}
