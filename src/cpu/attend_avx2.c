/* Attention on AVX2; see ref_attend.c for what it computes.
 *
 * Pages are the outer loop: a page's keys and values of one head are read once for all rows and
 * query heads of the call. Here are the walk and the softmax, whose reductions are done for
 * eight items at a time, a lane each: a single one waits for its own chain. With few queries
 * that takes several pages. */
#include <assert.h>
#include <string.h>

#include "backend/kv.h"
#include "base/cancel.h"
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
    return (key >= (int)lo) & (key < (int)hi);
}

/* Dots -> scores of a page that is seen whole, without a softcap. Returns the largest of each
 * lane. A NaN may have any pattern and be left out of the largest: its probability is a NaN in
 * any case, so l is one, and with it the row's result, whose pattern the end sees to. */
VEC_INLINE f8 plain_scores(const struct attend *a, float *s)
{
    const f8 scale = vec_all(a->scale);
    f8 max = vec_all(0);
    UNROLL
    for (int j = 0; j < KEY_VECS; j++) {
        const f8 v = avx2_clip(vec_load(s + LANES * j) * scale);
        vec_store(s + LANES * j, v);
        max = j == 0 ? v : (f8)_mm256_max_ps(v, max);
    }
    return max;
}

/* Dots -> scores, or scores without keep -> scores; returns the largest, by num_order. */
static float any_scores(float scale, float softcap, float *s, size_t lo, size_t hi)
{
    const f8 cap = vec_all(softcap);
    const f8 inverse = vec_all(softcap == 0.0f ? 0.0f : (float)(1.0 / (double)softcap));
    i8x max = (i8x)_mm256_set1_epi32(INT32_MIN);
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = num8_keep(vec_load(s + LANES * j) * vec_all(scale));
        if (softcap != 0.0f) v = num8_keep(cap * num8_tanh(v * inverse));
        vec_store(s + LANES * j, v);
        i8x seen = visible(j, lo, hi);
        i8x order = (num8_order(v) & seen) | (INT32_MIN & ~seen);
        max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)order);
    }
    return num_order_back(vec_max_i(max));
}

/* Scores -> probabilities; returns the sums of eight runs of eight keys. */
VEC_INLINE f8 probabilities(bool whole, float *s, size_t lo, size_t hi, float m)
{
    f8 v[KEY_VECS];
    UNROLL
    for (int i = 0; i < KEY_VECS; i++)
        v[i] = vec_load(s + LANES * i) - vec_all(m);
    vec_exp_below(v, KEY_VECS);
    UNROLL
    for (int i = 0; i < KEY_VECS; i++) {
        if (!whole) v[i] = (f8)((i8x)v[i] & visible(i, lo, hi));
        vec_store(s + LANES * i, v[i]);
    }
    return row_sums(v);
}

/* Of a page that is seen whole. A function of its own: inlined, gcc 12 gives its registers to
 * what is around it, which costs the softmax a sixth. */
static __attribute__((noinline)) f8 whole_probabilities(float *s, float m)
{
    return probabilities(true, s, 0, PAGE_LEN, m);
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
    vec_exp_below(f, 2);
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

/* Dots -> scores of items at..at+n-1, n <= 8, and their maxima. */
static void scores(const struct attend *a, struct batch *t, size_t at, size_t n)
{
    f8 v[LANES];
    bool whole = a->softcap == 0.0f;
    for (size_t i = at; i < at + n; i++)
        whole = whole && is_whole(t, i);
    if (whole) {
        for (size_t r = 0; r < LANES; r++)
            v[r] = r < n ? plain_scores(a, t->s[at + r]) : vec_all(0);
        vec_store(t->m + at, row_maxima(v));
        return;
    }
    for (size_t i = at; i < at + n; i++)
        t->m[i] = any_scores(a->scale, a->softcap, t->s[i], t->lo[i], t->hi[i]);
}

void avx2_softmax(const struct attend *a, struct batch *t)
{
    for (size_t at = 0; at < t->n; at += LANES) {
        const size_t n = t->n - at < LANES ? t->n - at : LANES;
        f8 v[LANES];
        scores(a, t, at, n);
        for (size_t r = 0, i = at; r < LANES; r++, i++) {
            if (r >= n)
                v[r] = vec_all(0);
            else if (is_whole(t, i))
                v[r] = whole_probabilities(t->s[i], t->m[i]);
            else
                v[r] = probabilities(false, t->s[i], t->lo[i], t->hi[i], t->m[i]);
        }
        vec_store(t->l + at, row_sums(v));
        fold_factors(t, at, n);
    }
}

/* A sink is folded as a page of nothing but its maximum. */
static void fold_sink(struct query *x, float sink, size_t dv)
{
    float n = num_order(x->m) > num_order(sink) ? x->m : sink;
    float a = num_exp(x->m - n), b = num_exp(sink - n);
    x->l = x->l * a + b;
    const f8 nothing = vec_all(0) * vec_all(b);
    for (size_t e = 0; e < dv; e += LANES)
        vec_store(x->o + e, num8_keep(vec_load(x->o + e) * vec_all(a) + nothing));
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
        t->lo[t->n] = lo;
        t->hi[t->n] = hi;
        t->x[t->n++] = q;
    }
    s.n = t->n - s.at;
    return s;
}

static struct ahead keys_of(const struct attend *a, const struct head_at *at, size_t p)
{
    const char *page = a->pages[p];
    return (struct ahead){page + at->k, page + at->k_scales, 64};
}

static struct ahead values_of(const struct attend *a, const struct head_at *at, size_t p)
{
    const char *page = a->pages[p];
    return (struct ahead){page + at->v, page + at->v_scales, 64};
}

void avx2_look_ahead(const struct attend *a, const struct head_at *at, size_t p, size_t n_pages,
                     size_t end_page, size_t k, struct ahead *after_k, struct ahead *after_v)
{
    const bool last = k + 1 == n_pages;
    const size_t next = p + k + 1 < end_page ? p + k + 1 : p;
    *after_k = last ? values_of(a, at, p) : keys_of(a, at, next);
    *after_v = last ? keys_of(a, at, next) : values_of(a, at, next);
}

/* The scratch of a call: queries, their outputs, their quantised forms, and what a page takes.
 */
struct layout {
    size_t o, q, page, n_bytes;
};

static struct layout layout_of(const struct kv_layer *kv, size_t n)
{
    bool blocks = kv_type_blocks(kv->type);
    struct layout l;
    l.o = attend_align(n * sizeof(struct query));
    l.q = l.o + attend_align(n * kv->head_dim_v * sizeof(float));
    l.page = l.q + (blocks ? n * avx2_query_q_bytes(kv) : 0);
    l.n_bytes = l.page + (blocks ? avx2_pages_q_scratch(kv) : avx2_pages_f_scratch(kv));
    return l;
}

size_t avx2_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    return layout_of(kv, AVX2_ATTEND_ROWS * n_group).n_bytes;
}

void attend_by_rows(const struct attend *a, size_t kv_head, size_t lo, size_t hi,
                    const struct attend_few *few, void *scratch)
{
    const struct kv_layer *kv = a->kv;
    size_t dv = kv->head_dim_v, dk = kv->head_dim_k, n = (hi - lo) * a->n_group;
    if (dv % LANES != 0) {
        ref_attend(a, kv_head, lo, hi, scratch);
        return;
    }
    assert(hi - lo <= AVX2_ATTEND_ROWS);
    bool blocks = kv_type_blocks(kv->type);
    uint8_t *base = scratch;
    struct layout at = layout_of(kv, n);
    struct query *x = scratch;
    for (size_t i = 0; i < n; i++) {
        size_t r = lo + i / a->n_group, h = kv_head * a->n_group + i % a->n_group;
        size_t end = a->pos + r + 1;
        x[i] = (struct query){
            .q = a->q + r * a->q_stride + h * dk,
            .first = a->window && end > a->window ? end - a->window : 0,
            .end = end,
            .o = (float *)(base + at.o) + i * dv,
        };
        if (blocks) avx2_query_q(kv, &x[i], base + at.q + i * avx2_query_q_bytes(kv));
    }
    const size_t end = pages_for(x[n - 1].end);
    const size_t at_once = n < LANES ? LANES / n : 1;
    const struct head_at head = attend_head_at(kv, kv_head);
    for (size_t p = x[0].first / PAGE_LEN; p < end; p += at_once) {
        const size_t n_pages = end - p < at_once ? end - p : at_once;
        if (cancel_is_set(a->cancel)) return;
        if (blocks)
            avx2_pages_q(a, &head, p, n_pages, end, x, n, few, base + at.page);
        else
            avx2_pages_f(a, &head, p, n_pages, end, x, n, few, base + at.page);
    }
    for (size_t i = 0; i < n; i++) {
        size_t r = lo + i / a->n_group, h = kv_head * a->n_group + i % a->n_group;
        if (a->sinks) fold_sink(&x[i], a->sinks[h], dv);
        f8 inverse = vec_all(num_rcp(x[i].l));
        float *out = a->out + r * a->out_stride + h * dv;
        for (size_t e = 0; e < dv; e += LANES)
            vec_store(out + e, num8_keep(vec_load(x[i].o + e) * inverse));
    }
}

void avx2_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
{
    attend_by_rows(a, kv_head, lo, hi, NULL, scratch);
}

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .packs = true,
    .macs_per_ms = 20000000,
    .a8_side = 1,
    .matmul_scratch = avx2_matmul_scratch,
    .matmul = avx2_matmul,
    .attend_rows = AVX2_ATTEND_ROWS,
    .attend_scratch = avx2_attend_scratch,
    .attend = avx2_attend,
    .kv_store = avx2_kv_store,
    .norm = avx2_norm,
    .quantise = avx2_quantise,
    .rope = avx2_rope,
    .scale = avx2_scale,
    .glu = avx2_glu,
    .add = avx2_add,
    .logits = avx2_logits,
    .conv = avx2_conv,
    .decay = avx2_decay,
    .recur = avx2_recur,
};
