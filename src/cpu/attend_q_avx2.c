/* Attention on AVX2 over KV types that store blocks; see ref_attend_q.c for what it computes.
 *
 * Scores: a lane is a key. q8_0 multiplies |q| by k with the sign of q, so that two products of
 * int8 stay within 16 bits; q4_0 multiplies codes 0..15 by q, adds a whole block within 16 bits
 * and takes 8 times the sum of q away. Values: a lane is a dim, a product takes two keys. For
 * few queries values are widened to int16 as they are multiplied; for more they are laid out
 * once as [PAGE_LEN/2][dim][2]. */
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = 8,
    KEY_VECS = PAGE_LEN / LANES,
    FEW_QUERIES = 2,
    BATCH = 8, /* queries whose scores and weights are at hand together */
    WEIGHT_MAX = 2047,
    LARGEST = 0x71800000, /* 2^100 */
};

/* Sums are typed as what they count: gcc copies registers between views of other types. */
typedef int16_t i16x __attribute__((vector_size(32)));

/* Keys and values of one page and head. */
struct tile {
    bool is_q4;
    size_t k_blocks, v_blocks;
    const uint8_t *k, *v;                /* as stored */
    const uint16_t *k_scales, *v_scales; /* [blocks][PAGE_LEN] */
    float *scales;                       /* of the values, as floats */
    int16_t *wide;                       /* values laid out, or not */
    struct ahead ahead;
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
    int16_t *wide; /* [PAGE_LEN/2][head_dim_v][2] */
    float *scales; /* [v_blocks][PAGE_LEN] */
    int16_t *u;    /* [BATCH][v_blocks][PAGE_LEN] */
    float *step;   /* [BATCH][v_blocks] */
    float *o;      /* [2][head_dim_v] */
};

struct offsets {
    size_t wide, scales, u, step, o, n_bytes;
};

static struct offsets offsets_of(const struct kv_layer *kv)
{
    size_t dv = kv->head_dim_v, v_blocks = dv / KV_BLOCK;
    struct offsets at = {.wide = align64(sizeof(struct batch))};
    at.scales = at.wide + dv * PAGE_LEN * sizeof(int16_t);
    at.u = at.scales + v_blocks * PAGE_LEN * sizeof(float);
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
        .wide = (int16_t *)(base + at.wide),
        .scales = (float *)(base + at.scales),
        .u = (int16_t *)(base + at.u),
        .step = (float *)(base + at.step),
        .o = (float *)(base + at.o),
    };
}

/* ---- reading a page ---- */

static __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static void store(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* Where values come from: rows of q8_0 or q4_0, or laid out. */
enum form { ROWS_Q8, ROWS_Q4, WIDE };

VEC_INLINE size_t block_bytes(enum form form)
{
    return form == ROWS_Q4 ? KV_BLOCK / 2 : KV_BLOCK;
}

/* Dims 8i..8i+7 of a block of two keys, of which the second is the eighth after the first, as
 * int16 pairs. */
VEC_INLINE __m256i pairs(enum form form, const uint8_t *p, size_t row_bytes, int i)
{
    const __m128i low = _mm_set1_epi8(0x0f), bias = _mm_set1_epi8(8);
    if (form == ROWS_Q8) p += i / 2 * 16;
    __m128i x = _mm_loadu_si128((const __m128i *)p);
    __m128i y = _mm_loadu_si128((const __m128i *)(p + 8 * row_bytes));
    if (form == ROWS_Q4) {
        x = _mm_and_si128(i < 2 ? x : _mm_srli_epi16(x, 4), low);
        y = _mm_and_si128(i < 2 ? y : _mm_srli_epi16(y, 4), low);
        x = _mm_sub_epi8(x, bias);
        y = _mm_sub_epi8(y, bias);
    }
    return _mm256_cvtepi8_epi16(i % 2 ? _mm_unpackhi_epi8(x, y) : _mm_unpacklo_epi8(x, y));
}

/* The index of the pair of a key and the eighth after it. */
VEC_INLINE size_t pair_of(size_t key)
{
    return key / 16 * 8 + key % 8;
}

/* Keys lo..hi-1, multiples of sixteen. */
VEC_INLINE void widen_values(enum form form, const struct tile *t, size_t lo, size_t hi)
{
    size_t row_bytes = t->v_blocks * block_bytes(form);
    for (size_t key = lo; key < hi; key += key % 8 == 7 ? 9 : 1) {
        const uint8_t *row = t->v + key * row_bytes;
        int16_t *to = t->wide + pair_of(key) * t->v_blocks * 2 * KV_BLOCK;
        for (size_t b = 0; b < t->v_blocks; b++, to += 2 * KV_BLOCK) {
            UNROLL
            for (int i = 0; i < 4; i++)
                store(to + 16 * i, pairs(form, row + b * block_bytes(form), row_bytes, i));
        }
    }
}

static struct tile tile_of(const struct attend *a, size_t head, size_t p, struct ahead ahead)
{
    const struct kv_layer *kv = a->kv;
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    const uint8_t *page = a->pages[p], *k = page + kv->k_at, *v = page + kv->v_at;
    const uint8_t *k_scales = k + kv->n_heads * k_bytes + head * kv_scale_bytes(kv->type, dk);
    const uint8_t *v_scales = v + kv->n_heads * v_bytes + head * kv_scale_bytes(kv->type, dv);
    return (struct tile){
        .is_q4 = kv->type == KV_Q4_0,
        .k_blocks = dk / KV_BLOCK,
        .v_blocks = dv / KV_BLOCK,
        .k = k + head * k_bytes,
        .v = v + head * v_bytes,
        .k_scales = (const uint16_t *)k_scales,
        .v_scales = (const uint16_t *)v_scales,
        .ahead = ahead,
    };
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

/* int32 dots of block b of keys at..at+31 and n queries. */
VEC_INLINE void dots_q8(int n, const struct tile *t, size_t b, size_t at,
                        struct query *const x[2], i8x out[2][4])
{
    const __m256i ones = _mm256_set1_epi16(1);
    i8x acc[2][4];
    const int8_t *codes[2], *magnitudes[2];
    UNROLL
    for (int r = 0; r < n; r++) {
        codes[r] = x[r]->codes;
        magnitudes[r] = x[r]->magnitudes;
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i8x){0};
    }
    for (size_t d = b * KV_BLOCK; d < (b + 1) * KV_BLOCK; d += 4) {
        const uint8_t *keys = t->k + (d * PAGE_LEN + at * 4);
        __m256i q[2], magnitude[2];
        avx2_prefetch(&t->ahead, t->ahead.k, at / 4 * t->k_blocks + d / 4);
        UNROLL
        for (int r = 0; r < n; r++) {
            q[r] = four_bytes(codes[r] + d);
            magnitude[r] = four_bytes(magnitudes[r] + d);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            __m256i k = load(keys + 32 * j);
            UNROLL
            for (int r = 0; r < n; r++) {
                __m256i pairs = _mm256_maddubs_epi16(magnitude[r], _mm256_sign_epi8(k, q[r]));
                acc[r][j] = acc[r][j] + (i8x)_mm256_madd_epi16(pairs, ones);
            }
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            out[r][j] = acc[r][j];
    }
}

VEC_INLINE void dots_q4(int n, const struct tile *t, size_t b, size_t at,
                        struct query *const x[2], i8x out[2][4])
{
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(0x0f);
    i16x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i16x){0};
    }
    for (size_t d = b * KV_BLOCK; d < (b + 1) * KV_BLOCK; d += 8) {
        const uint8_t *keys = t->k + (d / 2 * PAGE_LEN + at * 4);
        __m256i q[2][2];
        avx2_prefetch(&t->ahead, t->ahead.k, at / 8 * t->k_blocks + d / 8);
        UNROLL
        for (int r = 0; r < n; r++) {
            q[r][0] = four_bytes(x[r]->codes + d);
            q[r][1] = four_bytes(x[r]->codes + d + 4);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            __m256i k = load(keys + 32 * j), k0 = _mm256_and_si256(k, low);
            __m256i k1 = _mm256_and_si256(_mm256_srli_epi16(k, 4), low);
            UNROLL
            for (int r = 0; r < n; r++) {
                __m256i sum = _mm256_maddubs_epi16(k0, q[r][0]);
                sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(k1, q[r][1]));
                acc[r][j] = acc[r][j] + (i16x)sum;
            }
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        int32_t bias = 8 * (x[r]->sums[2 * b] + x[r]->sums[2 * b + 1]);
        UNROLL
        for (int j = 0; j < 4; j++)
            out[r][j] = (i8x)_mm256_madd_epi16((__m256i)acc[r][j], ones) - bias;
    }
}

/* Block b of keys at..at+31 for n queries, added to s[r][at..]. */
VEC_INLINE void scores32(bool is_q4, int n, const struct tile *t, size_t b, size_t at,
                         struct query *const x[2], float (*s)[PAGE_LEN])
{
    i8x acc[2][4];
    if (is_q4)
        dots_q4(n, t, b, at, x, acc);
    else
        dots_q8(n, t, b, at, x, acc);
    UNROLL
    for (int j = 0; j < 4; j++) {
        f8 scale = scales8(t->k_scales + b * PAGE_LEN + at + (size_t)j * LANES);
        UNROLL
        for (int r = 0; r < n; r++) {
            float *out = s[r] + at + (size_t)j * LANES;
            f8 term =
                (vec_all(x[r]->d[b]) * scale) * (f8)_mm256_cvtepi32_ps((__m256i)acc[r][j]);
            vec_store(out, b == 0 ? term : vec_load(out) + term);
        }
    }
}

/* ---- values ---- */

/* The largest magnitude's bits of |w|, w = p · scale of keys lo..hi-1 and 0 elsewhere. */
VEC_INLINE int32_t weigh(const float *p, const float *scales, size_t lo, size_t hi,
                         f8 w[KEY_VECS])
{
    const i8x lane = {0, 1, 2, 3, 4, 5, 6, 7};
    i8x max = {0};
    UNROLL
    for (int j = 0; j < KEY_VECS; j++)
        w[j] = vec_load(p + LANES * j) * vec_load(scales + LANES * j);
    if (lo > 0 || hi < PAGE_LEN) {
        UNROLL
        for (int j = 0; j < KEY_VECS; j++) {
            i8x key = lane + (int)LANES * j;
            w[j] = (f8)((i8x)w[j] & (key >= (int)lo) & (key < (int)hi));
        }
    }
    UNROLL
    for (int j = 0; j < KEY_VECS; j++)
        max = (i8x)_mm256_max_epi32((__m256i)max, (__m256i)((i8x)w[j] & 0x7fffffff));
    return vec_max_i(max);
}

/* rne(w · inverse) as int16, keys in the order of pairs: 0 8 1 9 .. 7 15, 16 24 .. */
VEC_INLINE void round_weights(const f8 w[KEY_VECS], float inverse, int16_t *u)
{
    /* rne (numeric.h) adds 1.5 · 2^23: the low half of the sum's bits is the integer. */
    const f8 factor = vec_all(inverse), magic = vec_all(12582912.0f);
    UNROLL
    for (int j = 0; j < KEY_VECS; j += 2) {
        __m256i a = (__m256i)(w[j] * factor + magic), b = (__m256i)(w[j + 1] * factor + magic);
        store(u + LANES * j, _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa));
    }
}

/* Probabilities -> integer weights u[v_blocks][PAGE_LEN] and their steps. */
static void quantise_weights(const struct tile *t, const float *p, size_t lo, size_t hi,
                             int16_t *u, float *step)
{
    for (size_t from = 0; from < t->v_blocks; from += LANES) {
        size_t n = t->v_blocks - from < LANES ? t->v_blocks - from : LANES;
        f8 w[LANES][KEY_VECS];
        int32_t max[LANES] = {0};
        for (size_t b = 0; b < n; b++) {
            max[b] = weigh(p, t->scales + (from + b) * PAGE_LEN, lo, hi, w[b]);
            size_t half = t->k_blocks * (t->is_q4 ? 8 : 16); /* the scores did the other */
            for (size_t i = 0; i < 8; i++)
                avx2_prefetch(&t->ahead, t->ahead.k, half + (from + b) * 8 + i);
        }
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
            if (max[b] >= (int)LARGEST)
                memset(out, 0, PAGE_LEN * sizeof *out);
            else
                round_weights(w[b], inverses[b], out);
        }
    }
}

VEC_INLINE __m256i two_words(const int16_t *p)
{
    int32_t words;
    memcpy(&words, p, sizeof words);
    return _mm256_set1_epi32(words);
}

/* o[r][32 b..] = keep(step · (u · codes)) for n queries; keys lo..hi-1, multiples
 * of sixteen. */
VEC_INLINE void values32(enum form form, int n, const struct tile *t, size_t b, size_t lo,
                         size_t hi, const int16_t *const u[2], const float *const step[2],
                         float *const o[2])
{
    i8x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int i = 0; i < 4; i++)
            acc[r][i] = (i8x){0};
    }
    const size_t row_bytes = t->v_blocks * block_bytes(form);
    const uint8_t *row = t->v + lo * row_bytes + b * block_bytes(form);
    const int16_t *wide = t->wide + (pair_of(lo) * t->v_blocks + b) * 2 * KV_BLOCK;
    for (size_t j = pair_of(lo); j < hi / 2; j++) {
        __m256i weight[2];
        UNROLL
        for (int r = 0; r < n; r++)
            weight[r] = two_words(u[r] + b * PAGE_LEN + 2 * j);
        avx2_prefetch(&t->ahead, t->ahead.v, b * (PAGE_LEN / 2) + j);
        UNROLL
        for (int i = 0; i < 4; i++) {
            __m256i v = form == WIDE ? load(wide + 16 * i) : pairs(form, row, row_bytes, i);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][i] = acc[r][i] + (i8x)_mm256_madd_epi16(v, weight[r]);
        }
        row += j % 8 == 7 ? 9 * row_bytes : row_bytes;
        wide += t->v_blocks * 2 * KV_BLOCK;
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int i = 0; i < 4; i++)
            vec_store(
                o[r] + b * KV_BLOCK + (size_t)i * LANES,
                num8_keep(vec_all(step[r][b]) * (f8)_mm256_cvtepi32_ps((__m256i)acc[r][i])));
    }
}

/* ---- instances ---- */

typedef void scores_fn(const struct tile *t, size_t b, size_t at, struct query *const x[2],
                       float (*s)[PAGE_LEN]);
typedef void values_fn(const struct tile *t, size_t b, size_t lo, size_t hi,
                       const int16_t *const u[2], const float *const step[2],
                       float *const o[2]);

#define SCORES(is_q4, n)                                                            \
    static void scores_##is_q4##_##n(const struct tile *t, size_t b, size_t at,     \
                                     struct query *const x[2], float(*s)[PAGE_LEN]) \
    {                                                                               \
        scores32(is_q4, n, t, b, at, x, s);                                         \
    }
SCORES(0, 1)
SCORES(0, 2)
SCORES(1, 1)
SCORES(1, 2)

#define VALUES(form, n)                                                                    \
    static void values_##form##_##n(const struct tile *t, size_t b, size_t lo, size_t hi,  \
                                    const int16_t *const u[2], const float *const step[2], \
                                    float *const o[2])                                     \
    {                                                                                      \
        values32(form, n, t, b, lo, hi, u, step, o);                                       \
    }
VALUES(ROWS_Q8, 1)
VALUES(ROWS_Q8, 2)
VALUES(ROWS_Q4, 1)
VALUES(ROWS_Q4, 2)
VALUES(WIDE, 1)
VALUES(WIDE, 2)

static scores_fn *const scores_of[2][2] = {{scores_0_1, scores_0_2}, {scores_1_1, scores_1_2}};
static values_fn *const values_of[][2] = {
    [ROWS_Q8] = {values_ROWS_Q8_1, values_ROWS_Q8_2},
    [ROWS_Q4] = {values_ROWS_Q4_1, values_ROWS_Q4_2},
    [WIDE] = {values_WIDE_1, values_WIDE_2},
};

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
                scores_of[t->is_q4][n - i == 1 ? 0 : 1](t, b, at, x + i, s + i);
    }
}

/* ---- pages ---- */

/* n queries of at most BATCH that all see something of the page. */
static void attend_batch(const struct attend *a, const struct tile *t,
                         const struct parts *parts, struct query *const *x, size_t n)
{
    struct batch *batch = parts->batch;
    enum form form = t->wide ? WIDE : t->is_q4 ? ROWS_Q4 : ROWS_Q8;
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
            values_of[form][n_two - 1](t, b, lo / 16 * 16, (hi + 15) / 16 * 16, u, step, o);
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
    struct tile t =
        tile_of(a, kv_head, p, avx2_ahead(a, kv_head, p, x[n - 1].end, n <= FEW_QUERIES));
    t.scales = parts.scales;
    for (size_t i = 0; i < t.v_blocks * PAGE_LEN; i += LANES)
        vec_store(t.scales + i, scales8(t.v_scales + i));
    if (n > FEW_QUERIES) {
        t.wide = parts.wide;
        if (t.is_q4)
            widen_values(ROWS_Q4, &t, first / 16 * 16, (last + 15) / 16 * 16);
        else
            widen_values(ROWS_Q8, &t, first / 16 * 16, (last + 15) / 16 * 16);
    }
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

/* ---- queries ---- */

size_t avx2_query_q_bytes(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, n_blocks = dk / KV_BLOCK;
    return align64(2 * dk + n_blocks * (sizeof(float) + 2 * sizeof(int16_t)));
}

void avx2_query_q(const struct kv_layer *kv, struct query *x, void *memory)
{
    size_t dk = kv->head_dim_k;
    x->d = memory;
    x->sums = (int16_t *)(x->d + dk / KV_BLOCK);
    x->codes = (int8_t *)(x->sums + 2 * dk / KV_BLOCK);
    x->magnitudes = x->codes + dk;
    avx2_quantise(x->q, dk, x->codes, x->d, x->sums);
    for (size_t i = 0; i < dk; i += KV_BLOCK)
        store(x->magnitudes + i, _mm256_abs_epi8(load(x->codes + i)));
}
