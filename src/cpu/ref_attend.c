/* The scalar reference of the KV cache and of attention over its pages.
 *
 * For a row and a query head, page by page from the left, over the page's visible keys j:
 *   s_j = keep((sum over d, in order, of q_d · k_dj) · f)             q narrowed with f16
 *   s_j = keep((cap · log2 e) · tanh(s_j · (1/cap)))                with a softcap
 *   s_j = s_j + (slope · log2 e) · (j - row)                        with slopes
 *   m = max s_j;  p_j = 2^(s_j - m), narrowed with f16, 0 for keys that are not visible
 *   l = p summed in eight stripes of eight consecutive keys, each in order, folded left to
 *       right;  o_e = keep(sum over visible j, in order, of p_j · v_je)
 * and the pages' (m, l, o) are folded left to right:
 *   n = max(M, m);  a = 2^(M - n);  b = 2^(m - n)
 *   M = n;  L = L · a + l · b;  O_e = (O_e where a = 1, else keep(O_e) · a) + o_e · b
 * f is scale · log2 e, or with a softcap scale. A sink comes last, as (sink · log2 e, 1, 0).
 * out_e = keep(keep(O_e) · rcp(L)). Every sum starts with its first term. A maximum is taken in
 * the order of num_order, where NaN is above all. KV types of codes have integer products
 * instead of q · k and p · v, and weights instead of p: ref_attend_q.c. */
#include <assert.h>

#include "backend/kv.h"
#include "base/cancel.h"
#include "base/half.h"
#include "base/numeric_c.h"
#include "cpu/attend.h"
#include "cpu/ref.h"

void ref_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                  const float *k, const float *v)
{
    if (kv_type_codes(kv->type)) {
        ref_kv_store_q(kv, page, head, slot, k, v);
        return;
    }
    const struct kv_head at = kv_head_at(kv, head);
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    void *to_k = (uint8_t *)page + at.k, *to_v = (uint8_t *)page + at.v;
    if (kv->type == KV_F32) {
        float *keys = to_k, *values = (float *)to_v + slot * dv;
        for (size_t d = 0; d < dk; d++)
            keys[kv_key_at(dk, d, slot)] = k[d];
        for (size_t e = 0; e < dv; e++)
            values[e] = v[e];
        return;
    }
    assert(kv->type == KV_F16);
    uint16_t *keys = to_k, *values = (uint16_t *)to_v + slot * dv;
    for (size_t d = 0; d < dk; d++)
        keys[kv_key_at(dk, d, slot)] = (uint16_t)num_f32_to_f16_kv(k[d]);
    for (size_t e = 0; e < dv; e++)
        values[e] = (uint16_t)num_f32_to_f16_kv(v[e]);
}

static float read_kv(const struct kv_layer *kv, const void *page, size_t at, size_t i)
{
    const uint8_t *p = (const uint8_t *)page + at;
    if (kv->type == KV_F32) return ((const float *)p)[i];
    return half_f16_to_f32(((const uint16_t *)p)[i]);
}

static float larger(float a, float b)
{
    return num_order(a) > num_order(b) ? a : b;
}

/* A running softmax: maximum, sum, and the weighted values. */
struct partial {
    float m, l;
    float *o;
};

/* A head's row as the KV type multiplies it: as it is, narrowed, or quantised. */
struct query {
    const float *f32;
    struct a8 a8;
    float slope;     /* 0: none */
    int64_t own_key; /* where the row's own key is, counted from the page's first */
};

static float dot(const struct kv_layer *kv, const void *page, size_t head, size_t key,
                 const struct query *q)
{
    if (kv_type_codes(kv->type)) return ref_dot_q(kv, page, head, key, &q->a8);
    const size_t at = kv_head_at(kv, head).k;
    float s = 0;
    for (size_t d = 0; d < kv->head_dim_k; d++) {
        float k = read_kv(kv, page, at, kv_key_at(kv->head_dim_k, d, key));
        float term = q->f32[d] * k;
        s = d == 0 ? term : s + term;
    }
    return s;
}

static float score(const struct attend *a, const void *page, size_t head, size_t key,
                   const struct query *q)
{
    float s = num_keep(dot(a->kv, page, head, key, q) * a->factors.dot);
    if (a->factors.cap != 0.0f)
        s = num_keep(a->factors.cap * num_tanh(s * a->factors.inverse_cap));
    if (q->slope == 0.0f) return s;
    return s + q->slope * (float)((int64_t)key - q->own_key);
}

static void weigh_values(const struct kv_layer *kv, const void *page, size_t head, size_t lo,
                         size_t hi, const float *p, float *out)
{
    if (kv_type_codes(kv->type)) {
        ref_values_q(kv, page, head, lo, hi, p, out);
        return;
    }
    const size_t at = kv_head_at(kv, head).v, dv = kv->head_dim_v;
    for (size_t e = 0; e < dv; e++) {
        float sum = 0;
        for (size_t j = lo; j < hi; j++) {
            float v = read_kv(kv, page, at, j * dv + e);
            float term = p[j] * v;
            sum = j == lo ? term : sum + term;
        }
        out[e] = num_keep(sum);
    }
}

/* Keys lo..hi-1 of a page, at least one. */
static void attend_page(const struct attend *a, const void *page, size_t head, size_t lo,
                        size_t hi, const struct query *q, struct partial *out)
{
    const bool codes = kv_type_codes(a->kv->type);
    float p[PAGE_LEN] = {0}, s[PAGE_LEN] = {0}, terms[PAGE_LEN] = {0};
    for (size_t j = lo; j < hi; j++) {
        s[j] = score(a, page, head, j, q);
        if (codes) s[j] = s[j] + ref_weight_log2(a->kv, page, head, j);
    }
    out->m = s[lo];
    for (size_t j = lo + 1; j < hi; j++)
        out->m = larger(out->m, s[j]);
    for (size_t j = lo; j < hi; j++) {
        const float x = s[j] - out->m;
        p[j] = codes ? num_exp2_weight(x) : num_exp2_below(x);
        if (a->kv->type == KV_F16) p[j] = num_narrow(p[j]);
        terms[j] = codes ? p[j] * ref_weight_inverse(a->kv, page, head, j) : p[j];
    }
    for (size_t stripe = 0; stripe < 8; stripe++) {
        float sum = terms[8 * stripe];
        for (size_t j = 1; j < 8; j++)
            sum = sum + terms[8 * stripe + j];
        out->l = stripe == 0 ? sum : out->l + sum;
    }
    weigh_values(a->kv, page, head, lo, hi, p, out->o);
}

static void fold(struct partial *all, const struct partial *page, size_t dv)
{
    float n = larger(all->m, page->m);
    float a = num_exp2_below(all->m - n), b = num_exp2_below(page->m - n);
    all->m = n;
    all->l = all->l * a + page->l * b;
    for (size_t e = 0; e < dv; e++)
        all->o[e] = (a == 1.0f ? all->o[e] : num_keep(all->o[e]) * a) + page->o[e] * b;
}

static size_t ref_attend_rows(size_t n_group)
{
    (void)n_group;
    return 16;
}

size_t ref_attend_scratch(const struct kv_layer *kv, size_t n_group)
{
    (void)n_group;
    size_t n_blocks = kv_type_codes(kv->type) ? kv->head_dim_k / A8_BLOCK : 0;
    size_t narrow = kv->type == KV_F16 ? kv->head_dim_k * sizeof(float) : 0;
    size_t a8 = n_blocks * (sizeof(float) + 2 * sizeof(int16_t) + A8_BLOCK);
    return 2 * kv->head_dim_v * sizeof(float) + narrow + a8;
}

static struct query query_of(const struct attend *a, const float *x, float *scratch)
{
    const struct kv_layer *kv = a->kv;
    struct query q = {.f32 = x};
    if (kv->type == KV_F16) {
        for (size_t d = 0; d < kv->head_dim_k; d++)
            scratch[d] = num_narrow(x[d]);
        q.f32 = scratch;
    }
    if (!kv_type_codes(kv->type)) return q;
    size_t n_blocks = kv->head_dim_k / A8_BLOCK;
    q.a8.d = scratch;
    q.a8.sum = (int16_t *)(q.a8.d + n_blocks);
    q.a8.q = (int8_t *)(q.a8.sum + 2 * n_blocks);
    ref_query_codes(kv, a->factors.query, x, q.a8.q, q.a8.d, q.a8.sum);
    return q;
}

/* Query head h of KV head kv_head, at row r. */
static void attend_head(const struct attend *a, size_t kv_head, size_t r, size_t h,
                        float *scratch)
{
    size_t dv = a->kv->head_dim_v, pos = a->pos + r;
    const float *x = a->q + r * a->q_stride + h * a->kv->head_dim_k;
    float *out = a->out + r * a->out_stride + h * dv;
    struct query q = query_of(a, x, scratch + 2 * dv);
    size_t end = pos + 1, first = attend_first(a->window, pos);
    q.slope = attend_slope(a, h);
    struct partial all = {.o = scratch}, one = {.o = scratch + dv};
    for (size_t p = first / PAGE_LEN; p * PAGE_LEN < end; p++) {
        if (cancel_is_set(a->cancel)) return;
        size_t lo = first > p * PAGE_LEN ? first - p * PAGE_LEN : 0;
        size_t hi = end - p * PAGE_LEN < PAGE_LEN ? end - p * PAGE_LEN : PAGE_LEN;
        bool is_first = p == first / PAGE_LEN;
        q.own_key = (int64_t)pos - (int64_t)(p * PAGE_LEN);
        attend_page(a, a->pages[p], kv_head, lo, hi, &q, is_first ? &all : &one);
        if (!is_first) fold(&all, &one, dv);
    }
    if (a->sinks) {
        for (size_t e = 0; e < dv; e++)
            one.o[e] = 0;
        one.m = attend_sink(a, h);
        one.l = a->factors.sink_sum;
        fold(&all, &one, dv);
    }
    float inverse = num_rcp(all.l);
    for (size_t e = 0; e < dv; e++)
        out[e] = num_keep(num_keep(all.o[e]) * inverse);
}

void ref_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch)
{
    for (size_t r = lo; r < hi; r++)
        for (size_t g = 0; g < a->n_group; g++)
            attend_head(a, kv_head, r, kv_head * a->n_group + g, scratch);
}

static void store_rows(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                       struct kv_rows rows)
{
    for (; rows.n > 0; rows = kv_rows_after(rows, 1))
        ref_kv_store(kv, page, head, slot++, rows.k, rows.v);
}

const struct kernels kernels_scalar = {
    .name = "scalar",
    .packs = false,
    .macs_per_ms = 500000,
    .attend_rows = ref_attend_rows,
    .a8_side = 1,
    .matmul_scratch = ref_matmul_scratch,
    .attend_scratch = ref_attend_scratch,
    .matmul = ref_matmul,
    .attend = ref_attend,
    .kv_store = store_rows,
    .norm = ref_norm,
    .centre = ref_centre,
    .cut = ref_cut,
    .xielu = ref_xielu,
    .quantise = ref_quantise,
    .rope = ref_rope,
    .scale = ref_scale,
    .glu = ref_glu,
    .add = ref_add,
    .combine = ref_combine,
    .logits = ref_logits,
    .conv = ref_conv,
    .decay = ref_decay,
    .recur = ref_recur,
};
