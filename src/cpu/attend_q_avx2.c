/* Attention on AVX2 over KV types that store blocks; see ref_attend_q.c for what it computes.
 *
 * Scores: a lane is a key. q8_0 multiplies int16, two products an instruction: bytes would need
 * the sign of one moved to the other, and signs, products and sums share two of the processor's
 * units (Zen 3). q4_0 multiplies codes 0..15 by q, adds a whole block within 16 bits and takes
 * 8 times the sum of q away. Values: a lane is a dim, a product takes two keys. For few queries
 * bytes are widened as they are multiplied, and the next page is fetched meanwhile; for more a
 * page's are laid out once, the keys as [half][dim/2][32][2], the values as
 * [PAGE_LEN/2][dim][2].
 */
#include <string.h>

#include "backend/kv.h"
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = ATTEND_LANES,
    KEY_VECS = ATTEND_KEY_VECS,
    FEW = 8, /* queries up to which a page is read as it is stored: four of q8_0 take 0.33 ms
                for 1024 positions so and 0.50 laid out, eight 0.62 and 0.77 (Zen 3, 2026-11) */
    HALF = PAGE_LEN / 2,
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
    int16_t *wide_k, *wide_v;            /* laid out, or NULL */
    struct ahead ahead;
};

/* The parts of the scratch of a page. Steps are written eight at a time. */
struct parts {
    struct batch *batch;
    int16_t *wide_k, *wide_v;
    float *scales; /* [v_blocks][PAGE_LEN] */
    int16_t *u;    /* [ATTEND_BATCH][v_blocks][PAGE_LEN] */
    float *step;   /* [ATTEND_BATCH][v_blocks] */
};

struct offsets {
    size_t wide_k, wide_v, scales, u, step, n_bytes;
};

static struct offsets offsets_of(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v, v_blocks = dv / KV_BLOCK;
    struct offsets at = {.wide_k = attend_align(sizeof(struct batch))};
    at.wide_v = at.wide_k + dk * PAGE_LEN * sizeof(int16_t);
    at.scales = at.wide_v + dv * PAGE_LEN * sizeof(int16_t);
    at.u = at.scales + v_blocks * PAGE_LEN * sizeof(float);
    at.step = at.u + ATTEND_BATCH * v_blocks * PAGE_LEN * sizeof(int16_t);
    at.n_bytes = at.step + attend_align((ATTEND_BATCH * v_blocks + LANES) * sizeof(float));
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
        .wide_k = (int16_t *)(base + at.wide_k),
        .wide_v = (int16_t *)(base + at.wide_v),
        .scales = (float *)(base + at.scales),
        .u = (int16_t *)(base + at.u),
        .step = (float *)(base + at.step),
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

/* By how many bits what pairs gives is too large. */
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

/* Sums of such vectors become dims 8i..8i+7. */
VEC_INLINE void order_dims(i8x v[4])
{
    const __m256i a = (__m256i)v[0], b = (__m256i)v[1], c = (__m256i)v[2], d = (__m256i)v[3];
    v[0] = (i8x)_mm256_permute2x128_si256(a, b, 0x20);
    v[1] = (i8x)_mm256_permute2x128_si256(c, d, 0x20);
    v[2] = (i8x)_mm256_permute2x128_si256(a, b, 0x31);
    v[3] = (i8x)_mm256_permute2x128_si256(c, d, 0x31);
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
        int16_t *to = t->wide_v + pair_of(key) * t->v_blocks * 2 * KV_BLOCK;
        for (size_t b = 0; b < t->v_blocks; b++, to += 2 * KV_BLOCK) {
            __m256i v[4];
            pairs(form, row + b * block_bytes(form), row_bytes, v);
            UNROLL
            for (int i = 0; i < 4; i++)
                store(to + 16 * i, _mm256_srai_epi16(v[i], pair_shift(form)));
        }
    }
}

/* All keys of a page of q8_0. */
static void widen_keys(const struct tile *t)
{
    /* Eight keys of four dims: dims 0 and 1 of each, or 2 and 3, as upper bytes. */
    const __m128i low = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    const __m128i high =
        _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15);
    const __m256i dims01 = _mm256_broadcastsi128_si256(low);
    const __m256i dims23 = _mm256_broadcastsi128_si256(high);
    const size_t n_quads = t->k_blocks * KV_BLOCK / 4;
    int16_t *to = t->wide_k;
    for (size_t half = 0; half < 2; half++) {
        for (size_t g = 0; g < n_quads; g++, to += 4 * HALF) {
            const uint8_t *from = t->k + (g * PAGE_LEN + half * HALF) * 4;
            UNROLL
            for (int j = 0; j < 4; j++) {
                const __m256i k = load(from + 32 * j);
                __m256i k01 = _mm256_shuffle_epi8(k, dims01),
                        k23 = _mm256_shuffle_epi8(k, dims23);
                store(to + 16 * j, _mm256_srai_epi16(k01, 8));
                store(to + 2 * HALF + 16 * j, _mm256_srai_epi16(k23, 8));
            }
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

/* Two int16, or four, in every lane. */
VEC_INLINE __m256i two_words(const int16_t *p)
{
    int32_t words;
    memcpy(&words, p, sizeof words);
    return _mm256_set1_epi32(words);
}

VEC_INLINE __m256i four_words(const int16_t *p)
{
    int64_t words;
    memcpy(&words, p, sizeof words);
    return _mm256_set1_epi64x(words);
}

/* int32 dots of block b of keys at..at+31 and n queries; keys laid out. */
VEC_INLINE void dots_wide(int n, const struct tile *t, size_t b, size_t at,
                          struct query *const *x, i8x out[2][4])
{
    const int16_t *k = t->wide_k + (at / HALF * t->k_blocks + b) * KV_BLOCK * HALF;
    const int16_t *q[2];
    i8x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++) {
        q[r] = x[r]->wide + b * KV_BLOCK;
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i8x){0};
    }
    for (size_t d = 0; d < KV_BLOCK; d += 2, k += 2 * HALF) {
        __m256i pair[2];
        UNROLL
        for (int r = 0; r < n; r++)
            pair[r] = two_words(q[r] + d);
        UNROLL
        for (int j = 0; j < 4; j++) {
            __m256i keys = load(k + 16 * j);
            VEC_HOLD(keys);
            UNROLL
            for (int r = 0; r < n; r++)
                acc[r][j] = acc[r][j] + (i8x)_mm256_madd_epi16(keys, pair[r]);
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            out[r][j] = acc[r][j];
    }
}

/* As they are stored, the codes as upper bytes of int16: sums of dims 0 and 1 and of 2 and 3 of
 * a key lie side by side, and are 256 times too large. */
VEC_INLINE void dots_q8(int n, const struct tile *t, size_t b, size_t at,
                        struct query *const *x, i8x out[2][4])
{
    const __m256i zero = _mm256_setzero_si256();
    UNROLL
    for (int part = 0; part < 2; part++) {
        i8x acc[2][4];
        UNROLL
        for (int r = 0; r < n; r++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                acc[r][j] = (i8x){0};
        }
        for (size_t d = b * KV_BLOCK; d < (b + 1) * KV_BLOCK; d += 4) {
            const uint8_t *keys = t->k + (d * PAGE_LEN + at * 4) + 64 * part;
            __m256i q[2], k[4];
            if (part == 0) avx2_prefetch(&t->ahead, t->ahead.k, at / 4 * t->k_blocks + d / 4);
            UNROLL
            for (int r = 0; r < n; r++)
                q[r] = four_words(x[r]->wide + d);
            UNROLL
            for (int j = 0; j < 4; j += 2) {
                const __m256i eight = load(keys + 16 * j);
                k[j] = _mm256_unpacklo_epi8(zero, eight);
                k[j + 1] = _mm256_unpackhi_epi8(zero, eight);
            }
            UNROLL
            for (int r = 0; r < n; r++) {
                UNROLL
                for (int j = 0; j < 4; j++)
                    acc[r][j] = acc[r][j] + (i8x)_mm256_madd_epi16(k[j], q[r]);
            }
        }
        UNROLL
        for (int r = 0; r < n; r++) {
            UNROLL
            for (int j = 0; j < 4; j += 2) {
                __m256i sum = _mm256_hadd_epi32((__m256i)acc[r][j], (__m256i)acc[r][j + 1]);
                out[r][2 * part + j / 2] = (i8x)_mm256_srai_epi32(sum, 8);
            }
        }
    }
}

VEC_INLINE void dots_q4(int n, const struct tile *t, size_t b, size_t at,
                        struct query *const *x, i8x out[2][4])
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
VEC_INLINE void scores32(enum form form, int n, const struct tile *t, size_t b, size_t at,
                         struct query *const *x, float (*s)[PAGE_LEN])
{
    i8x acc[2][4];
    if (form == ROWS_Q4)
        dots_q4(n, t, b, at, x, acc);
    else if (form == ROWS_Q8)
        dots_q8(n, t, b, at, x, acc);
    else
        dots_wide(n, t, b, at, x, acc);
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

/* Sums over keys lo..hi-1, multiples of sixteen, at most 32 as they are stored: more would not
 * fit in 32 bits. */
VEC_INLINE void sum_values(enum form form, int n, const struct tile *t, size_t b, size_t lo,
                           size_t hi, const int16_t *const u[2], i8x acc[2][4])
{
    const size_t row_bytes = t->v_blocks * block_bytes(form);
    const uint8_t *row = t->v + lo * row_bytes + b * block_bytes(form);
    const int16_t *wide = t->wide_v + (pair_of(lo) * t->v_blocks + b) * 2 * KV_BLOCK;
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
                v[j] = load(wide + 16 * j);
        } else {
            avx2_prefetch(&t->ahead, t->ahead.v, b * (PAGE_LEN / 2) + key);
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
        wide += t->v_blocks * 2 * KV_BLOCK;
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            acc[r][j] = (i8x)_mm256_srai_epi32((__m256i)acc[r][j], pair_shift(form));
    }
}

/* Block b of the values for queries i..i+n-1; keys lo..hi-1, multiples of sixteen. */
VEC_INLINE void values32(enum form form, int n, const struct tile *t, const struct parts *parts,
                         size_t b, size_t lo, size_t hi, size_t i)
{
    const int16_t *u[2];
    i8x acc[2][4];
    UNROLL
    for (int r = 0; r < n; r++)
        u[r] = parts->u + ((i + (size_t)r) * t->v_blocks + b) * PAGE_LEN;
    if (form == WIDE || hi <= HALF || lo >= HALF) {
        sum_values(form, n, t, b, lo, hi, u, acc);
    } else {
        i8x more[2][4];
        sum_values(form, n, t, b, lo, HALF, u, acc);
        sum_values(form, n, t, b, HALF, hi, u, more);
        UNROLL
        for (int r = 0; r < n; r++) {
            UNROLL
            for (int j = 0; j < 4; j++)
                acc[r][j] = acc[r][j] + more[r][j];
        }
    }
    UNROLL
    for (int r = 0; r < n; r++) {
        const size_t at = i + (size_t)r;
        const f8 step = vec_all(parts->step[at * t->v_blocks + b]);
        order_dims(acc[r]);
        /* Without keep: step is 0, 2^-50 at least or a NaN, and so is its product. */
        UNROLL
        for (int j = 0; j < 4; j++)
            avx2_fold(parts->batch, at, b * KV_BLOCK + (size_t)j * LANES,
                      step * (f8)_mm256_cvtepi32_ps((__m256i)acc[r][j]));
    }
}

/* ---- instances ---- */

typedef void scores_fn(const struct tile *t, size_t b, size_t at, struct query *const *x,
                       float (*s)[PAGE_LEN]);
typedef void values_fn(const struct tile *t, const struct parts *parts, size_t b, size_t lo,
                       size_t hi, size_t i);

#define INSTANCE(form, n)                                                                      \
    static void scores_##form##_##n(const struct tile *t, size_t b, size_t at,                 \
                                    struct query *const *x, float(*s)[PAGE_LEN])               \
    {                                                                                          \
        scores32(form, n, t, b, at, x, s);                                                     \
    }                                                                                          \
    static void values_##form##_##n(const struct tile *t, const struct parts *parts, size_t b, \
                                    size_t lo, size_t hi, size_t i)                            \
    {                                                                                          \
        values32(form, n, t, parts, b, lo, hi, i);                                             \
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

/* Sums of the keys that are seen, and of some more that softmax leaves out. */
static void all_scores(const struct tile *t, struct batch *batch)
{
    const enum form form = t->is_q4 ? ROWS_Q4 : t->wide_k ? WIDE : ROWS_Q8;
    for (size_t at = 0; at < PAGE_LEN; at += HALF) {
        if (at >= batch->to || at + HALF <= batch->from) continue;
        for (size_t i = 0; i < batch->n; i += 2)
            for (size_t b = 0; b < t->k_blocks; b++)
                scores_of[form][batch->n - i > 1](t, b, at, batch->x + i, batch->s + i);
    }
}

static void attend_batch(const struct attend *a, const struct tile *t,
                         const struct parts *parts)
{
    struct batch *batch = parts->batch;
    const enum form form = t->wide_v ? WIDE : t->is_q4 ? ROWS_Q4 : ROWS_Q8;
    all_scores(t, batch);
    avx2_softmax(a, batch);
    for (size_t i = 0; i < batch->n; i++)
        quantise_weights(t, batch->s[i], batch->lo[i], batch->hi[i],
                         parts->u + i * t->v_blocks * PAGE_LEN, parts->step + i * t->v_blocks);
    /* Weights of keys that a query does not see are 0. */
    const size_t lo = batch->from / 16 * 16, hi = (batch->to + 15) / 16 * 16;
    for (size_t b = 0; b < t->v_blocks; b++)
        for (size_t i = 0; i < batch->n; i += 2)
            values_of[form][batch->n - i > 1](t, parts, b, lo, hi, i);
    for (size_t i = 0; i < batch->n; i++)
        batch->x[i]->begun = true;
}

/* The window moves with the row: the first query sees the earliest key, the last the last. */
static void widen_page(struct tile *t, const struct parts *parts, size_t p,
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

/* The scales of the values as floats; a block's are two lines. */
static void read_scales(const struct tile *t)
{
    for (size_t b = 0; b < t->v_blocks; b++) {
        for (size_t line = 2 * b; line < 2 * b + 2; line++) {
            avx2_prefetch(&t->ahead, t->ahead.k_scales, line);
            avx2_prefetch(&t->ahead, t->ahead.v_scales, line);
        }
        for (size_t i = b * PAGE_LEN; i < (b + 1) * PAGE_LEN; i += LANES)
            vec_store(t->scales + i, scales8(t->v_scales + i));
    }
}

void avx2_page_q(const struct attend *a, size_t kv_head, size_t p, struct query *x, size_t n,
                 void *scratch)
{
    const struct parts parts = parts_of(a->kv, scratch);
    const bool few = n <= FEW;
    struct tile t = tile_of(a, kv_head, p, avx2_ahead(a, kv_head, p, x[n - 1].end, few));
    t.scales = parts.scales;
    read_scales(&t);
    if (!few) widen_page(&t, &parts, p, x, n);
    for (size_t i = 0; avx2_batch(parts.batch, x, n, p, &i);)
        attend_batch(a, &t, &parts);
}

/* ---- queries ---- */

size_t avx2_query_q_bytes(const struct kv_layer *kv)
{
    size_t dk = kv->head_dim_k, n_blocks = dk / KV_BLOCK;
    return attend_align(3 * dk + n_blocks * (sizeof(float) + 2 * sizeof(int16_t)));
}

void avx2_query_q(const struct kv_layer *kv, struct query *x, void *memory)
{
    size_t dk = kv->head_dim_k;
    x->d = memory;
    x->sums = (int16_t *)(x->d + dk / KV_BLOCK);
    x->wide = x->sums + 2 * dk / KV_BLOCK;
    x->codes = (int8_t *)(x->wide + dk);
    avx2_quantise(x->q, dk, x->codes, x->d, x->sums);
    for (size_t i = 0; i < dk; i += 16)
        store(x->wide + i,
              _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(x->codes + i))));
}
