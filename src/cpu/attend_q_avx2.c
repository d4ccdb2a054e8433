/* Attention on AVX2 over KV types of codes; see ref_attend_q.c for what it computes.
 *
 * Scores: a lane is a key. q8_0 multiplies int16, two products an instruction: bytes would need
 * the sign of one moved to the other, and signs and products share two of the processor's units
 * (Zen 3). The codes are the upper bytes: dims 0 and 2 of four by a shift, 1 and 3 by a mask,
 * and a sum is shifted back. q4_0 multiplies codes 0..15 by q, adds a whole block within 16
 * bits and takes 8 times the sum of q away. Values: a lane is a dim, a product takes two keys.
 * For few queries bytes are widened as they are multiplied, and what is read next is fetched
 * meanwhile; for more a page's are laid out once, the keys as [half][dim/2][32][2], the values
 * as [block][PAGE_LEN/2][32][2].
 *
 * Two of 16 products each, and two sums, are four instructions for 32 products, and four start
 * in a cycle: 512 cycles for a query and a page of 128 dims. Sums take the turn of products on
 * the two units that do both, which makes it 650; with scores, softmax, weights and outputs it
 * is 1270 with 128 queries and 1430 with two (Zen 3, 2026-11). No faster were the dims of a
 * block without a loop, keys and values as operands in memory, and a later page prefetched or
 * part of it during the softmax, the products of two queries before their sums (1475), and the
 * scales of keys made floats where they are used (1475). */
#include <string.h>

#include "backend/kv.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = ATTEND_LANES,
    /* Queries up to which a page is read as it is stored. Cycles per query and page of 128 dims
     * so and laid out (Zen 3, 2026-11): q8_0 with four queries 1413 and 1642, with eight 1374
     * and 1501; q4_0 1593 and 1584, 1561 and 1363. */
    FEW_Q8 = 8,
    FEW_Q4 = 4,
    HALF = PAGE_LEN / 2,
};

/* Sums are typed as what they count: gcc copies registers between views of other types. */
typedef int16_t i16x __attribute__((vector_size(32)));

struct offsets {
    size_t wide_k, wide_v, k_scales, weights, u, n_bytes;
};

static struct offsets offsets_of(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v;
    const size_t n_k = kv_scales(kv->type, dk), n_v = kv_scales(kv->type, dv);
    struct offsets at = {.wide_k = mem_round_up(sizeof(struct batch), 64)};
    at.wide_v = at.wide_k + dk * PAGE_LEN * sizeof(int16_t);
    at.k_scales = at.wide_v + dv * PAGE_LEN * sizeof(int16_t);
    at.weights = at.k_scales + n_k * PAGE_LEN * sizeof(float);
    at.u = at.weights + LANES * (2 + n_v) * PAGE_LEN * sizeof(float);
    at.n_bytes = at.u + ATTEND_BATCH * n_v * PAGE_LEN * sizeof(int16_t);
    return at;
}

size_t avx2_pages_q_scratch(const struct kv_layer *kv)
{
    return offsets_of(kv).n_bytes;
}

static struct block_parts parts_of(const struct kv_layer *kv, void *scratch)
{
    uint8_t *base = scratch;
    struct offsets at = offsets_of(kv);
    return (struct block_parts){
        .batch = scratch,
        .wide_k = (int16_t *)(base + at.wide_k),
        .wide_v = (int16_t *)(base + at.wide_v),
        .k_scales = (float *)(base + at.k_scales),
        .weights = (float *)(base + at.weights),
        .u = (int16_t *)(base + at.u),
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

/* How keys or values are read: rows of q8_0 or q4_0, or laid out. */
enum form { ROWS_Q8, ROWS_Q4, WIDE };

VEC_INLINE size_t block_bytes(enum form form)
{
    return form == ROWS_Q4 ? KV_BLOCK / 2 : KV_BLOCK;
}

/* A block of a row as bytes, codes of four bits times 16. */
VEC_INLINE __m256i row32(enum form form, const uint8_t *p)
{
    if (form == ROWS_Q8) return load(p);
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_slli_epi16(x, 4)), x, 1);
    both = _mm256_and_si256(both, _mm256_set1_epi8((char)0xf0));
    return _mm256_xor_si256(both, _mm256_set1_epi8((char)0x80)); /* without the bias of 8 */
}

/* By how many bits what pairs gives is too large. With weights below 256 sums of a page fit in
 * 32 bits so. */
VEC_INLINE int pair_shift(enum form form)
{
    return form == ROWS_Q8 ? 8 : form == ROWS_Q4 ? 12 : 0;
}

/* A block of two keys, of which the second is the eighth after the first, as int16 pairs: the
 * codes are the upper bytes, for putting a zero below is cheaper than widening (Zen 3: half a
 * cycle, not one and a quarter). Vector i has dims 4i..4i+3 and 16+4i..16+4i+3. */
VEC_INLINE void pairs(enum form form, const uint8_t *p, size_t row_bytes, __m256i out[4])
{
    const __m256i x = row32(form, p), y = row32(form, p + 8 * row_bytes);
    const __m256i a = _mm256_unpacklo_epi8(x, y), b = _mm256_unpackhi_epi8(x, y);
    const __m256i zero = _mm256_setzero_si256();
    out[0] = _mm256_unpacklo_epi8(zero, a);
    out[1] = _mm256_unpackhi_epi8(zero, a);
    out[2] = _mm256_unpacklo_epi8(zero, b);
    out[3] = _mm256_unpackhi_epi8(zero, b);
}

/* Such vectors, or sums of them, become those of dims 8i..8i+7. */
VEC_INLINE void order_dims(__m256i v[4])
{
    const __m256i a = v[0], b = v[1], c = v[2], d = v[3];
    v[0] = _mm256_permute2x128_si256(a, b, 0x20);
    v[1] = _mm256_permute2x128_si256(c, d, 0x20);
    v[2] = _mm256_permute2x128_si256(a, b, 0x31);
    v[3] = _mm256_permute2x128_si256(c, d, 0x31);
}

/* The index of the pair of a key and the eighth after it. */
VEC_INLINE size_t pair_of(size_t key)
{
    return key / 16 * 8 + key % 8;
}

/* Keys lo..hi-1, multiples of sixteen. */
VEC_INLINE void widen_values(enum form form, const struct block_tile *t, size_t lo, size_t hi)
{
    size_t row_bytes = t->v_blocks * block_bytes(form);
    for (size_t key = lo; key < hi; key += key % 8 == 7 ? 9 : 1) {
        const uint8_t *row = t->v + key * row_bytes;
        int16_t *to = t->wide_v + pair_of(key) * 2 * KV_BLOCK;
        for (size_t b = 0; b < t->v_blocks; b++, to += PAGE_LEN * KV_BLOCK) {
            __m256i v[4];
            pairs(form, row + b * block_bytes(form), row_bytes, v);
            order_dims(v);
            UNROLL
            for (int i = 0; i < 4; i++)
                store(to + 16 * i, _mm256_srai_epi16(v[i], pair_shift(form)));
        }
    }
}

/* Keys at + 8 j.., eight, of their i-th four bytes of n. */
VEC_INLINE const uint8_t *keys_at(const struct block_tile *t, size_t n, size_t i, size_t at,
                                  int j)
{
    return t->k + 4 * kv_key_at(n, i, at + (size_t)j * LANES);
}

/* Eight keys of four dims: dims 0 and 2 of each, or 1 and 3, as upper bytes. */
VEC_INLINE __m256i key_pairs(int odd, const uint8_t *p)
{
    const __m256i k = load(p);
    return odd ? _mm256_and_si256(k, _mm256_set1_epi16((short)0xff00))
               : _mm256_slli_epi16(k, 8);
}

/* All keys of a page of q8_0. */
static void widen_keys(const struct block_tile *t)
{
    const size_t n_quads = t->k_blocks * KV_BLOCK / 4;
    int16_t *to = t->wide_k;
    for (size_t half = 0; half < 2; half++) {
        for (size_t g = 0; g < n_quads; g++, to += 4 * HALF) {
            UNROLL
            for (int j = 0; j < 4; j++) {
                const uint8_t *from = keys_at(t, n_quads, g, half * HALF, j);
                store(to + 16 * j, key_pairs(0, from));
                store(to + 2 * HALF + 16 * j, key_pairs(1, from));
            }
        }
    }
}

/* All but items. */
static void set_tile(const struct kv_layer *kv, const void *page, const struct kv_head *at,
                     struct block_tile *t)
{
    const uint8_t *base = page;
    t->is_q4 = kv->type == KV_Q4_0;
    t->k_blocks = kv->head_dim_k / KV_BLOCK;
    t->v_blocks = kv->head_dim_v / KV_BLOCK;
    t->n_k_scales = kv_scales(kv->type, kv->head_dim_k);
    t->n_v_scales = kv_scales(kv->type, kv->head_dim_v);
    t->k = base + at->k;
    t->v = base + at->v;
    t->k_scales = (const uint16_t *)(base + at->k_scales);
    t->v_scales = (const uint16_t *)(base + at->v_scales);
    t->wide_k = t->wide_v = NULL;
    t->after_k = t->after_v = (struct ahead){page, page, 0};
}

/* ---- scores ---- */

VEC_INLINE __m256i four_bytes(const int8_t *p)
{
    int32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

/* Two int16, or four, in every lane. */
VEC_INLINE __m256i two_words(const int16_t *p)
{
    int32_t words;
    memcpy(&words, p, sizeof words);
    return _mm256_set1_epi32(words);
}

/* Dots of block b of keys at..at+31 and n queries, as stored or laid out, join acc; they are
 * 256 times too large, which 512 dims leave room for in 32 bits. */
VEC_INLINE void dots_q8(enum form form, int n, const struct block_tile *t, size_t b, size_t at,
                        struct query *const *x, i8x acc[2][4])
{
    const size_t n_quads = t->k_blocks * KV_BLOCK / 4;
    size_t wide = (at / HALF * t->k_blocks + b) * KV_BLOCK * HALF;
    const size_t line = (at / HALF * t->k_blocks + b) * (KV_BLOCK * HALF / 64);
    const int16_t *q[2];
    UNROLL
    for (int r = 0; r < n; r++)
        q[r] = x[r]->wide + b * KV_BLOCK;
    for (size_t d = 0; d < KV_BLOCK; d += 4) {
        UNROLL
        for (int odd = 0; odd < 2; odd++) {
            __m256i pair[2];
            if (form == ROWS_Q8)
                avx2_prefetch(t->after_k.step, t->after_k.codes, line + d / 2 + (size_t)odd);
            UNROLL
            for (int r = 0; r < n; r++)
                pair[r] = two_words(q[r] + d + 2 * odd);
            UNROLL
            for (int j = 0; j < 4; j++) {
                __m256i k =
                    form == WIDE
                        ? load(t->wide_k + wide + 16 * j)
                        : key_pairs(odd, keys_at(t, n_quads, b * KV_BLOCK / 4 + d / 4, at, j));
                VEC_HOLD(k);
                UNROLL
                for (int r = 0; r < n; r++) {
                    i8x product = (i8x)_mm256_madd_epi16(k, pair[r]);
                    acc[r][j] = acc[r][j] + product;
                    VEC_HOLD(acc[r][j]);
                }
            }
            wide += 2 * HALF;
        }
    }
}

VEC_INLINE void dots_q4(int n, const struct block_tile *t, size_t b, size_t at,
                        struct query *const *x, i8x out[2][4])
{
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(0x0f);
    const size_t line = (at / HALF * t->k_blocks + b) * (KV_BLOCK / 2 * HALF / 64);
    i16x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i16x){0};
    }
    for (size_t d = 0; d < KV_BLOCK; d += 8) {
        __m256i q[2][2];
        avx2_prefetch(t->after_k.step, t->after_k.codes, line + d / 4);
        avx2_prefetch(t->after_k.step, t->after_k.codes, line + d / 4 + 1);
        UNROLL
        for (int r = 0; r < n; r++) {
            q[r][0] = four_bytes(x[r]->codes + b * KV_BLOCK + d);
            q[r][1] = four_bytes(x[r]->codes + b * KV_BLOCK + d + 4);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            const size_t eighth = (b * KV_BLOCK + d) / 8;
            __m256i k = load(keys_at(t, t->k_blocks * KV_BLOCK / 8, eighth, at, j));
            __m256i k0 = _mm256_and_si256(k, low);
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

/* Scores of keys at..at+31 for n queries: s[r][at..]. */
VEC_INLINE void scores32(enum form form, int n, const struct block_tile *t, size_t at,
                         struct query *const *x, float (*s)[PAGE_LEN])
{
    i8x acc[2][4] = {{{0}}};
    for (size_t b = 0; b < t->k_blocks; b++) {
        if (form == ROWS_Q4) {
            dots_q4(n, t, b, at, x, acc);
        } else {
            dots_q8(form, n, t, b, at, x, acc);
            if (b + 1 < t->k_blocks) continue;
        }
        const size_t scale = form == ROWS_Q4 ? b : 0;
        const float *scales = t->wide_k_scales + scale * PAGE_LEN + at;
        UNROLL
        for (int r = 0; r < n; r++) {
            const f8 d = vec_all(x[r]->d[scale]);
            UNROLL
            for (int j = 0; j < 4; j++) {
                float *out = s[r] + at + (size_t)j * LANES;
                const i8x sum = form == ROWS_Q4 ? acc[r][j] : acc[r][j] >> 8;
                f8 term =
                    (d * vec_load(scales + LANES * j)) * (f8)_mm256_cvtepi32_ps((__m256i)sum);
                vec_store(out, scale == 0 ? term : vec_load(out) + term);
            }
        }
    }
}

/* ---- values ---- */

/* Sums over keys lo..hi-1, multiples of sixteen; as many times too large as pairs. */
VEC_INLINE void sum_values(enum form form, int n, const struct block_tile *t, size_t b,
                           size_t lo, size_t hi, const int16_t *const u[2], i8x acc[2][4])
{
    const size_t row_bytes = t->v_blocks * block_bytes(form);
    const uint8_t *row = t->v + lo * row_bytes + b * block_bytes(form);
    size_t wide = (b * (PAGE_LEN / 2) + pair_of(lo)) * 2 * KV_BLOCK;
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i8x){0};
    }
    for (size_t key = pair_of(lo); key < hi / 2; key++) {
        __m256i weight[2], v[4];
        UNROLL
        for (int r = 0; r < n; r++)
            weight[r] = two_words(u[r] + 2 * key);
        if (form == WIDE) {
            UNROLL
            for (int j = 0; j < 4; j++)
                v[j] = load(t->wide_v + wide + 16 * j);
        } else {
            const size_t i = b * (PAGE_LEN / 2) + key;
            avx2_prefetch(t->after_v.step, t->after_v.codes, form == ROWS_Q4 ? i / 2 : i);
            pairs(form, row, row_bytes, v);
        }
        UNROLL
        for (int j = 0; j < 4; j++) {
            VEC_HOLD(v[j]);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][j] = acc[r][j] + (i8x)_mm256_madd_epi16(v[j], weight[r]);
        }
        row += key % 8 == 7 ? 9 * row_bytes : row_bytes;
        wide += 2 * KV_BLOCK;
    }
}

/* Block b of the values for items i..i+n-1; keys lo..hi-1, multiples of sixteen. */
VEC_INLINE void values32(enum form form, int n, const struct block_tile *t,
                         const struct block_parts *parts, size_t b, size_t lo, size_t hi,
                         size_t i)
{
    const struct batch *batch = parts->batch;
    const size_t scale = t->n_v_scales > 1 ? b : 0;
    const f8 unit = vec_all(1 / (float)(1 << pair_shift(form))); /* a power of two: exact */
    const int16_t *u[2];
    i8x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++)
        u[r] = parts->u + ((i + (size_t)r) * t->n_v_scales + scale) * PAGE_LEN;
    sum_values(form, n, t, b, lo, hi, u, acc);
    UNROLL
    for (int r = 0; r < n; r++) {
        const size_t at = i + (size_t)r;
        const f8 before = vec_all(batch->a[at]), page = vec_all(batch->b[at]);
        float *o = batch->x[at]->o + b * KV_BLOCK;
        const bool is_first = batch->is_first[at];
        __m256i sum[4];
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] = (__m256i)acc[r][j];
        if (form != WIDE) order_dims(sum);
        UNROLL
        for (int j = 0; j < 4; j++)
            avx2_fold(is_first, before, page, unit * (f8)_mm256_cvtepi32_ps(sum[j]),
                      o + (size_t)j * LANES);
    }
}

/* ---- instances ---- */

typedef void scores_fn(const struct block_tile *t, size_t at, struct query *const *x,
                       float (*s)[PAGE_LEN]);
typedef void values_fn(const struct block_tile *t, const struct block_parts *parts, size_t b,
                       size_t lo, size_t hi, size_t i);

#define INSTANCE(form, n)                                                                 \
    static void scores_##form##_##n(const struct block_tile *t, size_t at,                \
                                    struct query *const *x, float(*s)[PAGE_LEN])          \
    {                                                                                     \
        scores32(form, n, t, at, x, s);                                                   \
    }                                                                                     \
    static void values_##form##_##n(const struct block_tile *t,                           \
                                    const struct block_parts *parts, size_t b, size_t lo, \
                                    size_t hi, size_t i)                                  \
    {                                                                                     \
        values32(form, n, t, parts, b, lo, hi, i);                                        \
    }
INSTANCE(ROWS_Q8, 1)
INSTANCE(ROWS_Q8, 2)
INSTANCE(ROWS_Q4, 1)
INSTANCE(ROWS_Q4, 2)
INSTANCE(WIDE, 1)
INSTANCE(WIDE, 2)

static scores_fn *const scores_of[][2] = {
    [ROWS_Q8] = {scores_ROWS_Q8_1, scores_ROWS_Q8_2},
    [ROWS_Q4] = {scores_ROWS_Q4_1, scores_ROWS_Q4_2},
    [WIDE] = {scores_WIDE_1, scores_WIDE_2},
};
static values_fn *const values_of[][2] = {
    [ROWS_Q8] = {values_ROWS_Q8_1, values_ROWS_Q8_2},
    [ROWS_Q4] = {values_ROWS_Q4_1, values_ROWS_Q4_2},
    [WIDE] = {values_WIDE_1, values_WIDE_2},
};

/* ---- pages ---- */

/* Scales as floats; those of a block, or of all dims, are two lines. */
static void read_scales(const uint16_t *scales, size_t n, float *out)
{
    for (size_t b = 0; b < n; b++, scales += PAGE_LEN, out += PAGE_LEN) {
        UNROLL
        for (int j = 0; j < PAGE_LEN; j += LANES)
            vec_store(out + j, avx2_scales8(scales + j));
    }
}

static void prefetch_scales(const struct ahead *a, size_t n)
{
    for (size_t line = 0; line < 2 * n; line++)
        avx2_prefetch(a->step, a->scales, line);
}

/* Sums of the keys that are seen, and of some more that softmax leaves out. */
static void scores_of_page(const struct kv_layer *kv, const struct block_tile *t,
                           const struct attend_few *few, struct batch *batch)
{
    const enum form form = t->is_q4 ? ROWS_Q4 : t->wide_k ? WIDE : ROWS_Q8;
    const size_t end = t->items.at + t->items.n;
    const struct ahead own = {NULL, t->v_scales, t->after_k.step};
    prefetch_scales(&own, t->n_v_scales);
    prefetch_scales(&t->after_k, t->n_k_scales);
    for (size_t i = t->items.at; i < end; i++)
        batch->weights[i] = &t->weights;
    if (few) {
        few->block_scores(t, batch);
        few->weigh_keys(kv, t);
        return;
    }
    read_scales(t->k_scales, t->n_k_scales, t->wide_k_scales);
    for (size_t at = 0; at < PAGE_LEN; at += HALF) {
        if (at >= t->items.to || at + HALF <= t->items.from) continue;
        for (size_t i = t->items.at; i < end; i += 2)
            scores_of[form][end - i > 1](t, at, batch->x + i, batch->s + i);
    }
    avx2_weigh_keys(kv, t);
}

static void values_of_page(const struct block_tile *t, const struct attend_few *few,
                           const struct block_parts *parts)
{
    const enum form form = t->wide_v ? WIDE : t->is_q4 ? ROWS_Q4 : ROWS_Q8;
    const size_t end = t->items.at + t->items.n;
    /* Weights of keys that a query does not see are 0. */
    const size_t lo = t->items.from / 16 * 16, hi = (t->items.to + 15) / 16 * 16;
    prefetch_scales(&t->after_v, t->n_v_scales);
    if (few) {
        few->block_values(t, parts);
        return;
    }
    for (size_t b = 0; b < t->v_blocks; b++)
        for (size_t i = t->items.at; i < end; i += 2)
            values_of[form][end - i > 1](t, parts, b, lo, hi, i);
}

static void attend_batch(const struct attend *a, const struct block_tile *tiles, size_t n_tiles,
                         const struct attend_few *few, const struct block_parts *parts)
{
    for (size_t k = 0; k < n_tiles; k++)
        if (tiles[k].items.n > 0) scores_of_page(a->kv, &tiles[k], few, parts->batch);
    avx2_softmax(a, few, parts->batch);
    if (few)
        few->weights(parts->batch, tiles->n_v_scales, parts->u);
    else
        avx2_weights(parts->batch, tiles->n_v_scales, parts->u);
    for (size_t k = 0; k < n_tiles; k++)
        if (tiles[k].items.n > 0) values_of_page(&tiles[k], few, parts);
}

/* The window moves with the row: the first query sees the earliest key, the last the last. */
static void widen_page(struct block_tile *t, const struct block_parts *parts, size_t p,
                       const struct query *x, size_t n)
{
    const size_t at = p * PAGE_LEN, first = x[0].first, end = x[n - 1].end;
    const size_t lo = first > at ? (first - at) / 16 * 16 : 0;
    const size_t hi = end - at < PAGE_LEN ? (end - at + 15) / 16 * 16 : PAGE_LEN;
    t->wide_v = parts->wide_v;
    if (t->is_q4) {
        widen_values(ROWS_Q4, t, lo, hi);
        return;
    }
    t->wide_k = parts->wide_k;
    widen_keys(t);
    widen_values(ROWS_Q8, t, lo, hi);
}

void avx2_pages_q(struct walk *w, void *scratch)
{
    const struct kv_layer *kv = w->a->kv;
    const struct block_parts parts = parts_of(kv, scratch);
    const bool is_few = w->few || w->n <= (size_t)(kv->type == KV_Q4_0 ? FEW_Q4 : FEW_Q8);
    const size_t n_tiles = avx2_tiles(w);
    struct block_tile tiles[LANES];
    for (size_t k = 0; k < n_tiles; k++) {
        struct block_tile *t = &tiles[k];
        set_tile(kv, w->a->pages[w->p + k / w->n_heads], &w->heads[k % w->n_heads], t);
        t->wide_k_scales = parts.k_scales;
        float *log2 = parts.weights + k * (2 + t->n_v_scales) * PAGE_LEN;
        float *inverse = log2 + PAGE_LEN, *shares = inverse + PAGE_LEN;
        t->weights = (struct key_weights){log2, inverse, t->is_q4 ? shares : NULL};
        if (is_few) avx2_look_ahead(w, k, &t->after_k, &t->after_v);
    }
    if (!is_few) widen_page(tiles, &parts, w->p, w->x, w->n);
    parts.batch->far = &w->far;
    for (size_t at = 0, i = 0; at < w->n; at = i) {
        parts.batch->n = 0;
        for (size_t k = 0; k < n_tiles; k++) {
            i = at;
            tiles[k].items = avx2_batch(parts.batch, avx2_tile_queries(w, k), w->n,
                                        w->p + k / w->n_heads, &i);
        }
        attend_batch(w->a, tiles, n_tiles, w->few, &parts);
    }
}

/* ---- queries ---- */

size_t avx2_query_q_bytes(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, n_blocks = dk / KV_BLOCK;
    return mem_round_up(3 * dk + n_blocks * (sizeof(float) + 2 * sizeof(int16_t)), 64);
}

void avx2_query_q(const struct attend *a, struct query *x, void *memory)
{
    const struct kv_layer *kv = a->kv;
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
    size_t dk = kv->head_dim_k;
    x->d = memory;
    x->sums = (int16_t *)(x->d + dk / KV_BLOCK);
    x->wide = x->sums + 2 * dk / KV_BLOCK;
    x->codes = (int8_t *)(x->wide + dk);
    avx2_query_codes(kv, a->factors.query, x->q, x->codes, x->d, x->sums);
    x->sum = 0;
    for (size_t i = 0; i < dk / A8_HALF; i++)
        x->sum += x->sums[i];
    for (size_t i = 0; i < dk; i += 16) {
        __m256i q = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(x->codes + i)));
        store(x->wide + i, _mm256_shuffle_epi8(q, order));
    }
}
