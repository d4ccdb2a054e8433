/* Attention on AVX2; see ref_attend.c for what it computes.
 *
 * Pages are the outer loop: a page's keys and values of one head are read once for all rows and
 * query heads of the call. With more than two queries an f16 page is converted to f32 first;
 * otherwise conversion happens in the inner loop, where it hides behind the loads. A lane is a
 * key for the scores (keys lie transposed), a dim of the output for the values. */
#include <assert.h>
#include <string.h>

#include "backend/kv.h"
#include "base/cancel.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8, KEY_VECS = PAGE_LEN / LANES, FEW_QUERIES = 2 };

/* Keys and values of one page and head, as f32 or f16. */
struct tile {
    bool is_f16;
    const void *k, *v;
    size_t dk, dv;
    struct ahead ahead;
};

/* As many lines as the i-th step over 32 numbers reads. */
VEC_INLINE void prefetch32(bool is_f16, const struct ahead *a, const char *base, size_t i)
{
    avx2_prefetch(a, base, is_f16 ? i : 2 * i);
    if (!is_f16) avx2_prefetch(a, base, 2 * i + 1);
}

VEC_INLINE f8 read8(bool is_f16, const void *p, size_t i)
{
    return is_f16 ? vec_f16((const uint16_t *)p + i) : vec_load((const float *)p + i);
}

/* Scores of keys at..at+31 for n queries: s[r][at..]. */
VEC_INLINE void scores32(bool is_f16, int n, const struct tile *t, size_t at,
                         const float *const q[2], float (*s)[PAGE_LEN])
{
    f8 acc[2][4];
    UNROLL
    for (int j = 0; j < 4; j++) {
        f8 k = read8(is_f16, t->k, at + (size_t)j * LANES);
        UNROLL
        for (int r = 0; r < n; r++)
            acc[r][j] = vec_all(q[r][0]) * k;
    }
    for (size_t d = 1; d < t->dk; d++) {
        f8 x[2];
        prefetch32(is_f16, &t->ahead, t->ahead.k, at / 32 * t->dk + d);
        UNROLL
        for (int r = 0; r < n; r++)
            x[r] = vec_all(q[r][d]);
        UNROLL
        for (int j = 0; j < 4; j++) {
            f8 k = read8(is_f16, t->k, d * PAGE_LEN + at + (size_t)j * LANES);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][j] = acc[r][j] + x[r] * k;
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            vec_store(s[r] + at + (size_t)j * LANES, acc[r][j]);
    }
}

/* o[r][e..e+8*n_vecs) = sum over keys lo..hi-1 of p[r][j] v[j]. */
VEC_INLINE void values(bool is_f16, int n, int n_vecs, const struct tile *t, size_t e,
                       size_t lo, size_t hi, const float (*p)[PAGE_LEN], float *const o[2])
{
    f8 acc[2][4];
    UNROLL
    for (int i = 0; i < n_vecs; i++) {
        f8 v = read8(is_f16, t->v, lo * t->dv + e + (size_t)i * LANES);
        UNROLL
        for (int r = 0; r < n; r++)
            acc[r][i] = vec_all(p[r][lo]) * v;
    }
    for (size_t j = lo + 1; j < hi; j++) {
        f8 x[2];
        prefetch32(is_f16, &t->ahead, t->ahead.v, e / 32 * PAGE_LEN + j);
        UNROLL
        for (int r = 0; r < n; r++)
            x[r] = vec_all(p[r][j]);
        UNROLL
        for (int i = 0; i < n_vecs; i++) {
            f8 v = read8(is_f16, t->v, j * t->dv + e + (size_t)i * LANES);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][i] = acc[r][i] + x[r] * v;
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int i = 0; i < n_vecs; i++)
            vec_store(o[r] + e + (size_t)i * LANES, num8_keep(acc[r][i]));
    }
}

VEC_INLINE void all_values(bool is_f16, int n, const struct tile *t, size_t lo, size_t hi,
                           const float (*p)[PAGE_LEN], float *const o[2])
{
    size_t e = 0;
    for (; e + 4 * LANES <= t->dv; e += 4 * LANES)
        values(is_f16, n, 4, t, e, lo, hi, p, o);
    for (; e < t->dv; e += LANES)
        values(is_f16, n, 1, t, e, lo, hi, p, o);
}

#define INSTANCE(is_f16, n)                                                         \
    static void scores_##is_f16##_##n(const struct tile *t, size_t at,              \
                                      const float *const q[2], float(*s)[PAGE_LEN]) \
    {                                                                               \
        scores32(is_f16, n, t, at, q, s);                                           \
    }                                                                               \
    static void values_##is_f16##_##n(const struct tile *t, size_t lo, size_t hi,   \
                                      const float(*p)[PAGE_LEN], float *const o[2]) \
    {                                                                               \
        all_values(is_f16, n, t, lo, hi, p, o);                                     \
    }
INSTANCE(0, 1)
INSTANCE(0, 2)
INSTANCE(1, 1)
INSTANCE(1, 2)

typedef void scores_fn(const struct tile *t, size_t at, const float *const q[2],
                       float (*s)[PAGE_LEN]);
typedef void values_fn(const struct tile *t, size_t lo, size_t hi, const float (*p)[PAGE_LEN],
                       float *const o[2]);
static scores_fn *const scores_of[2][2] = {{scores_0_1, scores_0_2}, {scores_1_1, scores_1_2}};
static values_fn *const values_of[2][2] = {{values_0_1, values_0_2}, {values_1_1, values_1_2}};

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

void avx2_softmax(const struct attend *a, size_t lo, size_t hi, float *s, float *m, float *l)
{
    const i8x lane = {0, 1, 2, 3, 4, 5, 6, 7};
    f8 cap = vec_all(a->softcap);
    f8 inverse = vec_all(a->softcap == 0.0f ? 0.0f : (float)(1.0 / (double)a->softcap));
    i8x key_max = (i8x)_mm256_set1_epi32(INT32_MIN), visible[KEY_VECS];
    f8 v[KEY_VECS];
    for (int j = 0; j < KEY_VECS; j++) {
        i8x key = lane + (int)LANES * j;
        visible[j] = (key >= (int)lo) & (key < (int)hi);
        v[j] = num8_keep(vec_load(s + LANES * j) * vec_all(a->scale));
        if (a->softcap != 0.0f) v[j] = num8_keep(cap * num8_tanh(v[j] * inverse));
        i8x order = (num8_order(v[j]) & visible[j]) | (INT32_MIN & ~visible[j]);
        key_max = (i8x)_mm256_max_epi32((__m256i)key_max, (__m256i)order);
    }
    *m = num_order_back(vec_max_i(key_max));
    for (int j = 0; j < KEY_VECS; j++) {
        i8x p = (i8x)num8_exp(v[j] - vec_all(*m)) & visible[j];
        v[j] = (f8)p;
        vec_store(s + LANES * j, v[j]);
    }
    transpose(v); /* a lane is a stripe now, a vector the n-th key of each */
    f8 stripes = v[0];
    UNROLL
    for (int j = 1; j < 8; j++)
        stripes = stripes + v[j];
    float sum[LANES];
    vec_store(sum, stripes);
    *l = sum[0];
    for (int j = 1; j < LANES; j++)
        *l = *l + sum[j];
}

static void fold(struct query *x, float m, float l, const float *o, size_t dv)
{
    float n = num_order(x->m) > num_order(m) ? x->m : m;
    float a = num_exp(x->m - n), b = num_exp(m - n);
    x->m = n;
    x->l = x->l * a + l * b;
    for (size_t e = 0; e < dv; e += LANES)
        vec_store(x->o + e,
                  num8_keep(vec_load(x->o + e) * vec_all(a) + vec_load(o + e) * vec_all(b)));
}

void avx2_fold(struct query *x, float m, float l, const float *o, size_t dv)
{
    if (x->begun) {
        fold(x, m, l, o, dv);
        return;
    }
    assert(o == x->o);
    x->m = m;
    x->l = l;
    x->begun = true;
}

void avx2_visible(const struct query *x, size_t p, size_t *lo, size_t *hi)
{
    size_t from = p * PAGE_LEN;
    *lo = x->first > from ? x->first - from : 0;
    *hi = x->end > from ? (x->end - from < PAGE_LEN ? x->end - from : PAGE_LEN) : 0;
}

struct ahead avx2_ahead(const struct attend *a, size_t kv_head, size_t p, size_t end,
                        bool few_queries)
{
    const struct kv_layer *kv = a->kv;
    const char *page = a->pages[(p + 1) * PAGE_LEN < end ? p + 1 : p];
    return (struct ahead){
        .step = few_queries ? 64 : 0,
        .k = page + kv->k_at + kv_head * kv_code_bytes(kv->type, kv->head_dim_k),
        .v = page + kv->v_at + kv_head * kv_code_bytes(kv->type, kv->head_dim_v),
    };
}

/* One page for n (1 or 2) queries that all see something of it. */
static void attend_page(const struct attend *a, const struct tile *t, size_t p,
                        struct query *const x[2], int n, float *o_scratch)
{
    float s[2][PAGE_LEN], m[2], l[2];
    size_t lo[2], hi[2], from = PAGE_LEN, to = 0;
    const float *q[2];
    float *o[2];
    for (int r = 0; r < n; r++) {
        avx2_visible(x[r], p, &lo[r], &hi[r]);
        if (lo[r] < from) from = lo[r];
        if (hi[r] > to) to = hi[r];
        q[r] = x[r]->q;
        o[r] = x[r]->begun ? o_scratch + (size_t)r * t->dv : x[r]->o;
    }
    for (size_t at = 0; at < PAGE_LEN; at += PAGE_LEN / 2)
        if (at < to && at + PAGE_LEN / 2 > from)
            scores_of[t->is_f16][n - 1](t, at, q, s);
        else
            for (int r = 0; r < n; r++)
                memset(s[r] + at, 0, sizeof s[r] / 2);
    for (int r = 0; r < n; r++)
        avx2_softmax(a, lo[r], hi[r], s[r], &m[r], &l[r]);
    if (n == 2 && lo[0] == lo[1] && hi[0] == hi[1])
        values_of[t->is_f16][1](t, lo[0], hi[0], (const float(*)[PAGE_LEN])s, o);
    else
        for (int r = 0; r < n; r++)
            values_of[t->is_f16][0](t, lo[r], hi[r], (const float(*)[PAGE_LEN]) & s[r], &o[r]);
    for (int r = 0; r < n; r++)
        avx2_fold(x[r], m[r], l[r], o[r], t->dv);
}

static void widen(const uint16_t *from, size_t n, float *to)
{
    for (size_t i = 0; i < n; i += LANES)
        vec_store(to + i, vec_f16(from + i));
}

static struct tile tile_of(const struct kv_layer *kv, const void *page, size_t head,
                           bool convert, float *wide)
{
    struct tile t = {.dk = kv->head_dim_k, .dv = kv->head_dim_v};
    size_t k = head * t.dk * PAGE_LEN, v = head * t.dv * PAGE_LEN;
    const uint8_t *base = page;
    if (kv->type == KV_F32) {
        t.k = (const float *)(base + kv->k_at) + k;
        t.v = (const float *)(base + kv->v_at) + v;
        return t;
    }
    const uint16_t *keys = (const uint16_t *)(base + kv->k_at) + k;
    const uint16_t *vals = (const uint16_t *)(base + kv->v_at) + v;
    t.is_f16 = !convert;
    t.k = keys;
    t.v = vals;
    if (convert) {
        float *wide_v = wide + t.dk * PAGE_LEN;
        widen(keys, t.dk * PAGE_LEN, wide);
        widen(vals, t.dv * PAGE_LEN, wide_v);
        t.k = wide;
        t.v = wide_v;
    }
    return t;
}

static size_t align64(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* The scratch of a call: queries, their outputs, one more output, their quantised forms, and
 * what a page takes. */
struct layout {
    size_t o, o_scratch, q, page, n_bytes;
};

static struct layout layout_of(const struct kv_layer *kv, size_t n)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    bool blocks = kv_type_blocks(kv->type);
    struct layout l;
    l.o = align64(n * sizeof(struct query));
    l.o_scratch = l.o + align64(n * dv * sizeof(float));
    l.q = l.o_scratch + align64(2 * dv * sizeof(float));
    l.page = l.q + (blocks ? n * avx2_query_q_bytes(kv) : 0);
    size_t wide = (dk + dv) * PAGE_LEN * sizeof(float);
    l.n_bytes = l.page + (blocks ? avx2_page_q_scratch(kv) : wide);
    return l;
}

size_t avx2_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    return layout_of(kv, AVX2_ATTEND_ROWS * n_group).n_bytes;
}

static void float_page(const struct attend *a, size_t kv_head, size_t p, struct query *x,
                       size_t n, float *o_scratch, float *wide)
{
    struct tile t = tile_of(a->kv, a->pages[p], kv_head, n > FEW_QUERIES, wide);
    t.ahead = avx2_ahead(a, kv_head, p, x[n - 1].end, n <= FEW_QUERIES);
    struct query *two[2];
    int n_two = 0;
    for (size_t i = 0; i < n; i++) {
        size_t lo, hi;
        avx2_visible(&x[i], p, &lo, &hi);
        if (lo < hi) two[n_two++] = &x[i];
        if (n_two == 2 || (n_two == 1 && i + 1 == n)) {
            attend_page(a, &t, p, two, n_two, o_scratch);
            n_two = 0;
        }
    }
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
    float *o_scratch = (float *)(base + at.o_scratch);
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
            float_page(a, kv_head, p, x, n, o_scratch, (float *)(base + at.page));
    }
    for (size_t i = 0; i < n; i++) {
        size_t r = lo + i / a->n_group, h = kv_head * a->n_group + i % a->n_group;
        if (a->sinks) {
            memset(o_scratch, 0, dv * sizeof(float));
            fold(&x[i], a->sinks[h], 1, o_scratch, dv);
        }
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
