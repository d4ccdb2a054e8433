/* Attention on AVX2: what the pages of floats and of codes share. Items that see something of a
 * page, their softmax, whose reductions are done for eight items at a time, a lane each (a
 * single one waits for its own chain), and what is read next. */
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum { LANES = ATTEND_LANES, KEY_VECS = ATTEND_KEY_VECS };

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
        t->own_key[t->n] = (int32_t)(q->end - 1) - (int32_t)at;
        t->x[t->n++] = q;
    }
    s.n = t->n - s.at;
    return s;
}

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

/* Dots -> scores of a page that is seen whole, without a softcap or slopes. Returns the largest
 * of each lane. A NaN may have any pattern and be left out of the largest: its probability is a
 * NaN in any case, so l is one, and with it the row's result, whose pattern the end sees to. */
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

/* Dots of item i -> scores; returns the largest, by num_order. */
static float any_scores(const struct kv_factors *by, const float *log2, struct batch *t,
                        size_t i)
{
    const size_t lo = t->lo[i], hi = t->hi[i];
    const f8 slope = vec_all(t->x[i]->slope), lane = {0, 1, 2, 3, 4, 5, 6, 7};
    float *s = t->s[i];
    const f8 cap = vec_all(by->cap), inverse = vec_all(by->inverse_cap);
    i8x max = (i8x)_mm256_set1_epi32(INT32_MIN);
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = num8_keep(vec_load(s + LANES * j) * vec_all(by->dot));
        if (by->cap != 0.0f) v = num8_keep(cap * num8_tanh(v * inverse));
        const float ahead = (float)((int)LANES * j - t->own_key[i]);
        if (t->x[i]->slope != 0.0f) v = v + slope * (vec_all(ahead) + lane);
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

void avx2_fold_factors(struct batch *t, size_t at, size_t n)
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
        t->m[i] = any_scores(&a->factors, log2_of(t, i), t, i);
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
        const bool plain = attend_is_plain(a) && are_whole(t, at, n);
        if (few && plain) {
            few->softmax(a, t, at, n);
        } else {
            scores(a, plain, t, at, n);
            sums(a->kv->type == KV_F16, t, at, n);
        }
        avx2_fold_factors(t, at, n);
    }
}

/* Tile i of a step; behind the last one the first of the next step, or again of this one. */
struct place {
    const char *page;
    const struct kv_head *at;
};

static struct place place_of(const struct walk *w, size_t i)
{
    if (i == avx2_tiles(w) && w->next_p < w->end)
        return (struct place){w->a->pages[w->next_p], w->next_heads};
    i %= avx2_tiles(w);
    return (struct place){w->a->pages[w->p + i / w->n_heads], &w->heads[i % w->n_heads]};
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
