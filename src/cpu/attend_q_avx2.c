/* Attention on AVX2 over KV types that store blocks; see ref_attend_q.c for what it computes.
 *
 * A page is laid out for the kernels once for all queries of the call: keys as int8
 * [dim/4][PAGE_LEN][4] (as q8_0 has them), values as int16 pairs of keys
 * [dim/32][PAGE_LEN/2][32 dims][2]. Scores: a lane is a key; unsigned |q| times k with the sign
 * of q, so that no product of two int8 leaves 16 bits. Values: a lane is a dim. */
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = 8,
    KEY_VECS = PAGE_LEN / LANES,
    PAIRS = PAGE_LEN / 2,
    BATCH = 8, /* queries whose scores and weights are at hand together */
    WEIGHT_MAX = 2047,
    LARGEST = 0x71800000, /* 2^100 */
};

/* One page and head, laid out. */
struct tile {
    size_t k_blocks, v_blocks;
    const int8_t *k;
    const int16_t *v;
    const uint16_t *k_scales, *v_scales; /* [blocks][PAGE_LEN] */
};

/* What a batch of queries has between its steps. */
struct batch {
    float s[BATCH][PAGE_LEN];
    size_t lo[BATCH], hi[BATCH];
    float m[BATCH], l[BATCH];
};

static size_t align64(size_t n)
{
    return (n + 63) / 64 * 64;
}

/* The parts of the scratch of a page. Steps are written eight at a time. */
struct parts {
    struct batch *batch;
    int8_t *k;   /* [head_dim_k][PAGE_LEN] */
    int16_t *v;  /* [head_dim_v][PAGE_LEN] */
    int16_t *u;  /* [BATCH][v_blocks][PAGE_LEN] */
    float *step; /* [BATCH][v_blocks] */
    float *o;    /* [2][head_dim_v] */
};

struct offsets {
    size_t k, v, u, step, o, n_bytes;
};

static struct offsets offsets_of(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v, v_blocks = dv / KV_BLOCK;
    struct offsets at = {.k = align64(sizeof(struct batch))};
    at.v = at.k + dk * PAGE_LEN;
    at.u = at.v + dv * PAGE_LEN * sizeof(int16_t);
    at.step = at.u + BATCH * v_blocks * PAGE_LEN * sizeof(int16_t);
    at.o = at.step + align64((BATCH * v_blocks + LANES) * sizeof(float));
    at.n_bytes = at.o + 2 * dv * sizeof(float);
    return at;
}

size_t avx2_page_q_scratch(const struct kv_layer *kv)
{
    return offsets_of(kv).n_bytes;
}

static struct parts parts_of(const struct kv_layer *kv, void *scratch)
{
    uint8_t *base = scratch;
    struct offsets at = offsets_of(kv);
    return (struct parts){
        .batch = scratch,
        .k = (int8_t *)(base + at.k),
        .v = (int16_t *)(base + at.v),
        .u = (int16_t *)(base + at.u),
        .step = (float *)(base + at.step),
        .o = (float *)(base + at.o),
    };
}

/* ---- laying out a page ---- */

static __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static void store(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* Keys of q4_0 as those of q8_0: byte groups of eight dims become two of four. */
static void expand_keys(const uint8_t *from, size_t dim, int8_t *to)
{
    const __m256i low = _mm256_set1_epi8(0x0f), bias = _mm256_set1_epi8(8);
    enum { GROUP = 4 * PAGE_LEN };
    for (size_t g = 0; g < dim / 8; g++) {
        for (size_t i = 0; i < GROUP; i += 32) {
            __m256i v = load(from + g * GROUP + i);
            __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
            store(to + 2 * g * GROUP + i, _mm256_sub_epi8(_mm256_and_si256(v, low), bias));
            store(to + (2 * g + 1) * GROUP + i, _mm256_sub_epi8(high, bias));
        }
    }
}

/* Sixteen dims of two keys -> int16 pairs. */
VEC_INLINE void widen_16(__m128i a, __m128i b, int16_t *to)
{
    store(to, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
    store(to + 16, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
}

static void widen_values_q8(const uint8_t *from, size_t dim, size_t lo, size_t hi, int16_t *to)
{
    for (size_t b = 0; b < dim; b += KV_BLOCK) {
        for (size_t j = lo; j < hi; j++) {
            const __m128i *a = (const __m128i *)(from + 2 * j * dim + b);
            const __m128i *c = (const __m128i *)(from + (2 * j + 1) * dim + b);
            int16_t *out = to + b * PAGE_LEN + j * 2 * KV_BLOCK;
            widen_16(_mm_loadu_si128(a), _mm_loadu_si128(c), out);
            widen_16(_mm_loadu_si128(a + 1), _mm_loadu_si128(c + 1), out + KV_BLOCK);
        }
    }
}

static void widen_values_q4(const uint8_t *from, size_t dim, size_t lo, size_t hi, int16_t *to)
{
    const __m128i low = _mm_set1_epi8(0x0f), bias = _mm_set1_epi8(8);
    for (size_t b = 0; b < dim; b += KV_BLOCK) {
        for (size_t j = lo; j < hi; j++) {
            const uint8_t *p = from + j * dim + b / 2;
            __m128i x = _mm_loadu_si128((const __m128i *)p);
            __m128i y = _mm_loadu_si128((const __m128i *)(p + dim / 2));
            int16_t *out = to + b * PAGE_LEN + j * 2 * KV_BLOCK;
            __m128i xl = _mm_sub_epi8(_mm_and_si128(x, low), bias);
            __m128i yl = _mm_sub_epi8(_mm_and_si128(y, low), bias);
            __m128i xh = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(x, 4), low), bias);
            __m128i yh = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(y, 4), low), bias);
            widen_16(xl, yl, out);
            widen_16(xh, yh, out + KV_BLOCK);
        }
    }
}

/* Keys lo..hi-1 are visible to some query; the others may be anything. */
static struct tile tile_of(const struct kv_layer *kv, const void *page, size_t head, size_t lo,
                           size_t hi, const struct parts *parts)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    const uint8_t *keys = (const uint8_t *)page + kv->k_at;
    const uint8_t *values = (const uint8_t *)page + kv->v_at;
    const uint8_t *k_scales =
        keys + kv->n_heads * k_bytes + head * kv_scale_bytes(kv->type, dk);
    const uint8_t *v_scales =
        values + kv->n_heads * v_bytes + head * kv_scale_bytes(kv->type, dv);
    keys += head * k_bytes;
    values += head * v_bytes;
    struct tile t = {
        .k_blocks = dk / KV_BLOCK,
        .v_blocks = dv / KV_BLOCK,
        .k = (const int8_t *)keys,
        .v = parts->v,
        .k_scales = (const uint16_t *)k_scales,
        .v_scales = (const uint16_t *)v_scales,
    };
    if (kv->type == KV_Q8_0) {
        widen_values_q8(values, dv, lo / 2, (hi + 1) / 2, parts->v);
        return t;
    }
    expand_keys(keys, dk, parts->k);
    t.k = parts->k;
    widen_values_q4(values, dv, lo / 2, (hi + 1) / 2, parts->v);
    return t;
}

/* ---- scores ---- */

VEC_INLINE f8 scales8(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return (f8)_mm256_slli_epi32(wide, 16);
}

VEC_INLINE __m256i four_bytes(const int8_t *p)
{
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* Block b of keys at..at+31 for n queries, added to s[r][at..]. */
VEC_INLINE void scores32(int n, const struct tile *t, size_t b, size_t at,
                         struct query *const x[2], float (*s)[PAGE_LEN])
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = _mm256_setzero_si256();
    }
    for (size_t d = b * KV_BLOCK; d < (b + 1) * KV_BLOCK; d += 4) {
        const int8_t *keys = t->k + d * PAGE_LEN + at * 4;
        __m256i q[2], magnitude[2];
        UNROLL
        for (int r = 0; r < n; r++) {
            q[r] = four_bytes(x[r]->codes + d);
            magnitude[r] = four_bytes(x[r]->magnitudes + d);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            __m256i k = load(keys + 32 * j);
            UNROLL
            for (int r = 0; r < n; r++) {
                __m256i pairs = _mm256_maddubs_epi16(magnitude[r], _mm256_sign_epi8(k, q[r]));
                acc[r][j] = _mm256_add_epi32(acc[r][j], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    UNROLL
    for (int j = 0; j < 4; j++) {
        f8 scale = scales8(t->k_scales + b * PAGE_LEN + at + (size_t)j * LANES);
        UNROLL
        for (int r = 0; r < n; r++) {
            float *out = s[r] + at + (size_t)j * LANES;
            f8 term = (vec_all(x[r]->d[b]) * scale) * (f8)_mm256_cvtepi32_ps(acc[r][j]);
            vec_store(out, b == 0 ? term : vec_load(out) + term);
        }
    }
}

static void scores_1(const struct tile *t, size_t b, size_t at, struct query *const x[2],
                     float (*s)[PAGE_LEN])
{
    scores32(1, t, b, at, x, s);
}

static void scores_2(const struct tile *t, size_t b, size_t at, struct query *const x[2],
                     float (*s)[PAGE_LEN])
{
    scores32(2, t, b, at, x, s);
}

/* Sums of all keys lo..hi-1, and of some more that softmax leaves out. */
static void all_scores(const struct tile *t, size_t lo, size_t hi, struct query *const *x,
                       size_t n, float (*s)[PAGE_LEN])
{
    for (size_t at = 0; at < PAGE_LEN; at += PAGE_LEN / 2) {
        if (at >= hi || at + PAGE_LEN / 2 <= lo) {
            for (size_t i = 0; i < n; i++)
                memset(s[i] + at, 0, sizeof s[i] / 2);
            continue;
        }
        for (size_t i = 0; i < n; i += 2)
            for (size_t b = 0; b < t->k_blocks; b++)
                (n - i == 1 ? scores_1 : scores_2)(t, b, at, x + i, s + i);
    }
}

/* ---- values ---- */

/* The largest magnitude's bits of |w|, w = p · scale of keys lo..hi-1 and 0 elsewhere. */
VEC_INLINE int32_t weigh(const float *p, const uint16_t *scales, size_t lo, size_t hi,
                         f8 w[KEY_VECS])
{
    const i8x lane = {0, 1, 2, 3, 4, 5, 6, 7};
    i8x max = {0};
    UNROLL
    for (int j = 0; j < KEY_VECS; j++) {
        i8x key = lane + (int)LANES * j;
        i8x visible = (key >= (int)lo) & (key < (int)hi);
        w[j] = (f8)((i8x)(vec_load(p + LANES * j) * scales8(scales + LANES * j)) & visible);
        max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)((i8x)w[j] & 0x7fffffff));
    }
    return vec_max_i(max);
}

/* Probabilities -> integer weights u[v_blocks][PAGE_LEN] and their steps. */
static void quantise_weights(const struct tile *t, const float *p, size_t lo, size_t hi,
                             int16_t *u, float *step)
{
    for (size_t from = 0; from < t->v_blocks; from += LANES) {
        size_t n = t->v_blocks - from < LANES ? t->v_blocks - from : LANES;
        f8 w[LANES][KEY_VECS];
        int32_t max[LANES] = {0};
        for (size_t b = 0; b < n; b++)
            max[b] = weigh(p, t->v_scales + (from + b) * PAGE_LEN, lo, hi, w[b]);
        i8x bits = (i8x)load(max), broken = bits >= (int)LARGEST;
        f8 m = (f8)bits, zero = vec_all(0);
        f8 steps = num8_keep(m * (1.0f / (float)WEIGHT_MAX));
        f8 inverse = vec_all(WEIGHT_MAX) * num8_rcp(m);
        inverse = (f8)((i8x)inverse & ~(broken | (steps == zero)));
        steps = (f8)_mm256_blendv_ps(steps, (f8)_mm256_set1_epi32(NUM_NAN), (__m256)broken);
        float inverses[LANES];
        vec_store(inverses, inverse);
        vec_store(step + from, steps);
        for (size_t b = 0; b < n; b++) {
            int16_t *out = u + (from + b) * PAGE_LEN;
            if (max[b] >= (int)LARGEST) {
                memset(out, 0, PAGE_LEN * sizeof *out);
                continue;
            }
            for (int j = 0; j < KEY_VECS; j += 2) {
                i8x a = num8_rne(w[b][j] * inverses[b]),
                    c = num8_rne(w[b][j + 1] * inverses[b]);
                __m256i both = _mm256_packs_epi32((__m256i)a, (__m256i)c);
                store(out + LANES * j, _mm256_permute4x64_epi64(both, 0xd8));
            }
        }
    }
}

VEC_INLINE __m256i two_words(const int16_t *p)
{
    int32_t words;
    memcpy(&words, p, sizeof words);
    return _mm256_set1_epi32(words);
}

/* o[r][32 b..] = keep(step · (u · codes)) for n queries; pairs lo..hi-1 of keys. */
VEC_INLINE void values32(int n, const struct tile *t, size_t b, size_t lo, size_t hi,
                         const int16_t *const u[2], const float *const step[2],
                         float *const o[2])
{
    __m256i acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int i = 0; i < 4; i++)
            acc[r][i] = _mm256_setzero_si256();
    }
    const int16_t *values = t->v + b * KV_BLOCK * PAGE_LEN;
    for (size_t j = lo; j < hi; j++) {
        __m256i weight[2];
        UNROLL
        for (int r = 0; r < n; r++)
            weight[r] = two_words(u[r] + b * PAGE_LEN + 2 * j);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256i v = load(values + j * 2 * KV_BLOCK + 16 * i);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][i] = _mm256_add_epi32(acc[r][i], _mm256_madd_epi16(v, weight[r]));
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int i = 0; i < 4; i++)
            vec_store(o[r] + b * KV_BLOCK + (size_t)i * LANES,
                      num8_keep(vec_all(step[r][b]) * (f8)_mm256_cvtepi32_ps(acc[r][i])));
    }
}

static void values_1(const struct tile *t, size_t b, size_t lo, size_t hi,
                     const int16_t *const u[2], const float *const step[2], float *const o[2])
{
    values32(1, t, b, lo, hi, u, step, o);
}

static void values_2(const struct tile *t, size_t b, size_t lo, size_t hi,
                     const int16_t *const u[2], const float *const step[2], float *const o[2])
{
    values32(2, t, b, lo, hi, u, step, o);
}

/* ---- pages ---- */

/* n queries of at most BATCH that all see something of the page. */
static void attend_batch(const struct attend *a, const struct tile *t,
                         const struct parts *parts, struct query *const *x, size_t n)
{
    struct batch *batch = parts->batch;
    size_t dv = t->v_blocks * KV_BLOCK, lo = PAGE_LEN, hi = 0;
    for (size_t i = 0; i < n; i++) {
        lo = batch->lo[i] < lo ? batch->lo[i] : lo;
        hi = batch->hi[i] > hi ? batch->hi[i] : hi;
    }
    all_scores(t, lo, hi, x, n, batch->s);
    for (size_t i = 0; i < n; i++) {
        avx2_softmax(a, batch->lo[i], batch->hi[i], batch->s[i], &batch->m[i], &batch->l[i]);
        quantise_weights(t, batch->s[i], batch->lo[i], batch->hi[i],
                         parts->u + i * t->v_blocks * PAGE_LEN, parts->step + i * t->v_blocks);
    }
    for (size_t i = 0; i < n; i += 2) {
        size_t n_two = n - i == 1 ? 1 : 2;
        const int16_t *u[2];
        const float *step[2];
        float *o[2];
        for (size_t r = 0; r < n_two; r++) {
            u[r] = parts->u + (i + r) * t->v_blocks * PAGE_LEN;
            step[r] = parts->step + (i + r) * t->v_blocks;
            o[r] = x[i + r]->begun ? parts->o + r * dv : x[i + r]->o;
        }
        /* Weights of keys that a query does not see are 0. */
        for (size_t b = 0; b < t->v_blocks; b++)
            (n_two == 1 ? values_1 : values_2)(t, b, lo / 2, (hi + 1) / 2, u, step, o);
        for (size_t r = 0; r < n_two; r++)
            avx2_fold(x[i + r], batch->m[i + r], batch->l[i + r], o[r], dv);
    }
}

void avx2_page_q(const struct attend *a, size_t kv_head, size_t p, struct query *x, size_t n,
                 void *scratch)
{
    struct parts parts = parts_of(a->kv, scratch);
    size_t first, last, lo, hi, n_batch = 0;
    /* The window moves with the row: the first query sees the earliest key, the last the last.
     */
    avx2_visible(&x[0], p, &first, &hi);
    avx2_visible(&x[n - 1], p, &lo, &last);
    struct tile t = tile_of(a->kv, a->pages[p], kv_head, first, last, &parts);
    struct query *batch[BATCH];
    for (size_t i = 0; i < n; i++) {
        avx2_visible(&x[i], p, &lo, &hi);
        if (lo < hi) {
            parts.batch->lo[n_batch] = lo;
            parts.batch->hi[n_batch] = hi;
            batch[n_batch++] = &x[i];
        }
        if (n_batch == BATCH || (n_batch > 0 && i + 1 == n)) {
            attend_batch(a, &t, &parts, batch, n_batch);
            n_batch = 0;
        }
    }
}

/* ---- queries and rows ---- */

size_t avx2_query_q_bytes(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, n_blocks = dk / KV_BLOCK;
    return align64(2 * dk + n_blocks * (sizeof(float) + 2 * sizeof(int16_t)));
}

void avx2_query_q(const struct kv_layer *kv, struct query *x, void *memory)
{
    size_t dk = kv->head_dim_k;
    x->d = memory;
    int16_t *sums = (int16_t *)(x->d + dk / KV_BLOCK);
    x->codes = (int8_t *)(sums + 2 * dk / KV_BLOCK);
    x->magnitudes = x->codes + dk;
    avx2_quantise(x->q, dk, x->codes, x->d, sums);
    for (size_t i = 0; i < dk; i += KV_BLOCK)
        store(x->magnitudes + i, _mm256_abs_epi8(load(x->codes + i)));
}

/* 32 values -> codes; returns the bits of the scale. */
static uint16_t quantise_block(bool is_q4, const float *x, int8_t *c)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i bits[4], m = _mm256_setzero_si256(), v[4];
    for (int j = 0; j < 4; j++) {
        bits[j] = load(x + LANES * j);
        m = _mm256_max_epi32(m, _mm256_and_si256(bits[j], mask));
    }
    uint32_t max = (uint32_t)vec_max_i((i8x)m);
    if (max >= LARGEST) {
        memset(c, 0, KV_BLOCK);
        return NUM_NAN >> 16;
    }
    float unit = is_q4 ? 1.0f / 8.0f : 1.0f / 127.0f;
    uint32_t scale = num_f32_to_bf16(num_keep(num_of_bits(max) * unit));
    if (scale == 0) {
        memset(c, 0, KV_BLOCK);
        return 0;
    }
    if (is_q4) {
        const __m256i extreme = _mm256_set1_epi32((int)(max | NUM_SIGN));
        __m256i found = _mm256_setzero_si256();
        for (int j = 0; j < 4; j++)
            found = _mm256_or_si256(found, _mm256_cmpeq_epi32(bits[j], extreme));
        if (_mm256_testz_si256(found, found)) scale |= 0x8000u;
    }
    f8 inverse = vec_all(num_rcp(num_bf16_to_f32(scale)));
    for (int j = 0; j < 4; j++)
        v[j] = (__m256i)num8_rne((f8)bits[j] * inverse);
    /* Packing works within halves of 128 bits: put the groups of four back in order. */
    __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);
    __m256i packed = _mm256_packs_epi16(a, b);
    packed = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    if (is_q4) packed = _mm256_min_epi8(packed, _mm256_set1_epi8(7));
    store(c, packed);
    return (uint16_t)scale;
}

static void store_key(bool is_q4, uint8_t *keys, size_t block, size_t slot, const int8_t *c)
{
    uint32_t words[8];
    memcpy(words, c, sizeof words);
    if (!is_q4) {
        for (size_t g = 0; g < 8; g++)
            memcpy(keys + ((8 * block + g) * PAGE_LEN + slot) * 4, &words[g], 4);
        return;
    }
    for (size_t g = 0; g < 4; g++) { /* in four bits, + 8 is ^ 8 */
        uint32_t low = words[2 * g] & 0x0f0f0f0fu, high = words[2 * g + 1] & 0x0f0f0f0fu;
        uint32_t both = (low | high << 4) ^ 0x88888888u;
        memcpy(keys + ((4 * block + g) * PAGE_LEN + slot) * 4, &both, 4);
    }
}

static void store_value(bool is_q4, uint8_t *out, const int8_t *c)
{
    if (!is_q4) {
        memcpy(out, c, KV_BLOCK);
        return;
    }
    for (size_t i = 0; i < KV_BLOCK / 2; i++)
        out[i] = (uint8_t)(((c[i] & 0x0f) | (c[i + 16] & 0x0f) << 4) ^ 0x88);
}

void avx2_kv_store_q(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                     const float *k, const float *v)
{
    bool is_q4 = kv->type == KV_Q4_0;
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    uint8_t *keys = (uint8_t *)page + kv->k_at, *values = (uint8_t *)page + kv->v_at;
    uint16_t *k_scales =
        (uint16_t *)(keys + kv->n_heads * k_bytes + head * kv_scale_bytes(kv->type, dk));
    uint16_t *v_scales =
        (uint16_t *)(values + kv->n_heads * v_bytes + head * kv_scale_bytes(kv->type, dv));
    int8_t c[KV_BLOCK];
    for (size_t b = 0; b < dk / KV_BLOCK; b++) {
        k_scales[b * PAGE_LEN + slot] = quantise_block(is_q4, k + b * KV_BLOCK, c);
        store_key(is_q4, keys + head * k_bytes, b, slot, c);
    }
    size_t row_bytes = v_bytes / PAGE_LEN, block_bytes = row_bytes / (dv / KV_BLOCK);
    for (size_t b = 0; b < dv / KV_BLOCK; b++) {
        v_scales[b * PAGE_LEN + slot] = quantise_block(is_q4, v + b * KV_BLOCK, c);
        store_value(is_q4, values + head * v_bytes + slot * row_bytes + b * block_bytes, c);
    }
}
