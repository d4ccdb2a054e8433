/* Attention on AVX2; see ref_attend.c for what it computes.
 *
 * Pages are the outer loop: a page's keys and values of one head are read once for all rows and
 * query heads of the call. Here are the walk and the softmax, whose reductions are done for
 * eight queries at a time, a lane each: a single one waits for its own chain. */
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

/* Keys 8j..8j+7 that are within lo..hi-1. */
VEC_INLINE i8x visible(int j, size_t lo, size_t hi)
{
    const i8x key = (i8x){0, 1, 2, 3, 4, 5, 6, 7} + (int)LANES * j;
    return (key >= (int)lo) & (key < (int)hi);
}

/* Dots -> scores; returns the largest of each lane in the order of num_order. */
VEC_INLINE i8x scores(bool whole, const struct attend *a, float *s, size_t lo, size_t hi)
{
    const f8 cap = vec_all(a->softcap);
    const f8 inverse = vec_all(a->softcap == 0.0f ? 0.0f : (float)(1.0 / (double)a->softcap));
    i8x max = (i8x)_mm256_set1_epi32(INT32_MIN);
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = num8_keep(vec_load(s + LANES * j) * vec_all(a->scale));
        if (a->softcap != 0.0f) v = num8_keep(cap * num8_tanh(v * inverse));
        vec_store(s + LANES * j, v);
        i8x order = num8_order(v);
        if (!whole) {
            i8x seen = visible(j, lo, hi);
            order = (order & seen) | (INT32_MIN & ~seen);
        }
        max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)order);
    }
    return max;
}

/* Scores -> probabilities; returns the sums of eight runs of eight keys. */
VEC_INLINE f8 probabilities(bool whole, float *s, size_t lo, size_t hi, float m)
{
    f8 v[KEY_VECS];
    for (int j = 0; j < KEY_VECS; j += VEC_AT_ONCE) {
        UNROLL
        for (int i = j; i < j + VEC_AT_ONCE; i++)
            v[i] = vec_load(s + LANES * i) - vec_all(m);
        vec_exp_below(v + j, VEC_AT_ONCE);
        UNROLL
        for (int i = j; i < j + VEC_AT_ONCE; i++) {
            if (!whole) v[i] = (f8)((i8x)v[i] & visible(i, lo, hi));
            vec_store(s + LANES * i, v[i]);
        }
    }
    return row_sums(v);
}

VEC_INLINE f8 larger(f8 a, f8 b)
{
    return num8_order_back(
        (i8x)_mm256_max_epi32((__m256i)num8_order(a), (__m256i)num8_order(b)));
}

/* The page joins the pages before it, for eight queries; lanes of no query do no harm. */
static void fold_factors(struct batch *t, size_t at)
{
    float m[LANES] = {0}, l[LANES] = {0};
    const size_t n = t->n - at < LANES ? t->n - at : LANES;
    for (size_t r = 0; r < n; r++) {
        m[r] = t->x[at + r]->m;
        l[r] = t->x[at + r]->l;
    }
    f8 most = larger(vec_load(m), vec_load(t->m + at));
    f8 f[2] = {vec_load(m) - most, vec_load(t->m + at) - most};
    vec_exp_below(f, 2);
    vec_store(t->a + at, f[0]);
    vec_store(t->b + at, f[1]);
    vec_store(m, most);
    vec_store(l, vec_load(l) * f[0] + vec_load(t->l + at) * f[1]);
    for (size_t r = 0; r < n; r++) {
        struct query *x = t->x[at + r];
        x->m = x->begun ? m[r] : t->m[at + r];
        x->l = x->begun ? l[r] : t->l[at + r];
    }
}

static bool is_whole(const struct batch *t, size_t i)
{
    return t->lo[i] == 0 && t->hi[i] == PAGE_LEN;
}

void avx2_softmax(const struct attend *a, struct batch *t)
{
    for (size_t at = 0; at < t->n; at += LANES) {
        const size_t n = t->n - at < LANES ? t->n - at : LANES;
        f8 v[LANES] = {{0}};
        for (size_t r = 0, i = at; r < n; r++, i++)
            v[r] = (f8)(is_whole(t, i) ? scores(true, a, t->s[i], 0, PAGE_LEN)
                                       : scores(false, a, t->s[i], t->lo[i], t->hi[i]));
        transpose(v);
        i8x max = (i8x)v[0];
        for (int j = 1; j < LANES; j++)
            max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)v[j]);
        vec_store(t->m + at, num8_order_back(max));
        for (size_t r = 0, i = at; r < n; r++, i++)
            v[r] = is_whole(t, i) ? probabilities(true, t->s[i], 0, PAGE_LEN, t->m[i])
                                  : probabilities(false, t->s[i], t->lo[i], t->hi[i], t->m[i]);
        vec_store(t->l + at, row_sums(v));
        fold_factors(t, at);
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

bool avx2_batch(struct batch *t, struct query *x, size_t n, size_t p, size_t *i)
{
    const size_t at = p * PAGE_LEN;
    t->n = 0;
    t->from = PAGE_LEN;
    t->to = 0;
    for (; *i < n && t->n < ATTEND_BATCH; (*i)++) {
        struct query *q = &x[*i];
        size_t lo = q->first > at ? q->first - at : 0;
        size_t hi = q->end > at ? (q->end - at < PAGE_LEN ? q->end - at : PAGE_LEN) : 0;
        if (lo >= hi) continue;
        if (lo < t->from) t->from = lo;
        if (hi > t->to) t->to = hi;
        t->lo[t->n] = lo;
        t->hi[t->n] = hi;
        t->x[t->n++] = q;
    }
    return t->n > 0;
}

struct ahead avx2_ahead(const struct attend *a, size_t kv_head, size_t p, size_t end,
                        bool few_queries)
{
    const struct kv_layer *kv = a->kv;
    const char *page = a->pages[(p + 1) * PAGE_LEN < end ? p + 1 : p];
    const size_t k_bytes = kv_code_bytes(kv->type, kv->head_dim_k);
    const size_t v_bytes = kv_code_bytes(kv->type, kv->head_dim_v);
    const char *k = page + kv->k_at, *v = page + kv->v_at;
    return (struct ahead){
        .k = k + kv_head * k_bytes,
        .v = v + kv_head * v_bytes,
        .k_scales =
            k + kv->n_heads * k_bytes + kv_head * kv_scale_bytes(kv->type, kv->head_dim_k),
        .v_scales =
            v + kv->n_heads * v_bytes + kv_head * kv_scale_bytes(kv->type, kv->head_dim_v),
        .step = few_queries ? 64 : 0,
    };
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
    l.n_bytes = l.page + (blocks ? avx2_page_q_scratch(kv) : avx2_page_f_scratch(kv));
    return l;
}

size_t avx2_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    return layout_of(kv, AVX2_ATTEND_ROWS * n_group).n_bytes;
}

void avx2_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
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
    for (size_t p = x[0].first / PAGE_LEN; p * PAGE_LEN < x[n - 1].end; p++) {
        if (cancel_is_set(a->cancel)) return;
        if (blocks)
            avx2_page_q(a, kv_head, p, x, n, base + at.page);
        else
            avx2_page_f(a, kv_head, p, x, n, base + at.page);
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

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .packs = true,
    .macs_per_ms = 20000000,
    .matmul_scratch = avx2_matmul_scratch,
    .matmul = avx2_matmul,
    AVX2_ATTEND_AND_ROWS,
};
