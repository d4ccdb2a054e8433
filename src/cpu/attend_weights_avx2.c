/* Attention on AVX2 over KV types of codes: probabilities become integer weights; see
 * ref_attend_q.c for what they are. */
#include "base/numeric_c.h"
#include "cpu/attend_avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = ATTEND_LANES,
    KEY_VECS = ATTEND_KEY_VECS,
};

static void store(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* w = p · scale of keys lo..hi-1, 0 elsewhere; returns the bits of the largest magnitude of
 * each lane. Only scales of q4_0 have a sign. */
VEC_INLINE i8x weigh(bool is_q4, const float *p, const float *scales, size_t lo, size_t hi,
                     float *w)
{
    const i8x lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const bool whole = lo == 0 && hi == PAGE_LEN;
    i8x max = {0};
    UNROLL
    for (int j = 0; j < KEY_VECS; j++) {
        f8 v = vec_load(p + LANES * j) * vec_load(scales + LANES * j);
        if (!whole) {
            i8x key = lane + (int)LANES * j;
            v = (f8)((i8x)v & (key >= (int)lo) & (key < (int)hi));
        }
        vec_store(w + LANES * j, v);
        i8x size = is_q4 || !whole ? (i8x)v & 0x7fffffff : (i8x)v;
        max = j == 0 ? size : (i8x)_mm256_max_epi32((__m256i)max, (__m256i)size);
    }
    return max;
}

/* rne(w · inverse) as int16, keys in the order of pairs: 0 8 1 9 .. 7 15, 16 24 .. */
VEC_INLINE void round_weights(const float *w, float inverse, int16_t *u)
{
    /* rne (numeric.h) adds 1.5 · 2^23: the low half of the sum's bits is the integer. */
    const f8 factor = vec_all(inverse), magic = vec_all(12582912.0f);
    UNROLL
    for (int j = 0; j < KEY_VECS; j += 2) {
        __m256i a = (__m256i)(vec_load(w + LANES * j) * factor + magic);
        __m256i b = (__m256i)(vec_load(w + LANES * (j + 1)) * factor + magic);
        store(u + LANES * j, _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa));
    }
}

/* Eight rows of eight -> the largest of each row. */
VEC_INLINE i8x row_maxima(const i8x v[8])
{
    __m256i a[4], b[2];
    UNROLL
    for (int i = 0; i < 4; i++)
        a[i] =
            _mm256_max_epi32(_mm256_unpacklo_epi32((__m256i)v[2 * i], (__m256i)v[2 * i + 1]),
                             _mm256_unpackhi_epi32((__m256i)v[2 * i], (__m256i)v[2 * i + 1]));
    UNROLL
    for (int i = 0; i < 2; i++)
        b[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]),
                                _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]));
    return (i8x)_mm256_max_epi32(_mm256_permute2x128_si256(b[0], b[1], 0x20),
                                 _mm256_permute2x128_si256(b[0], b[1], 0x31));
}

/* Magnitudes of eight blocks -> their steps, and most / magnitude or 0. */
VEC_INLINE void weight_steps(i8x bits, int most, float *step, float *inverse)
{
    const i8x broken = bits >= (int)LARGEST;
    const f8 m = (f8)bits;
    f8 steps = num8_keep(m * vec_all(1.0f / (float)most));
    f8 inverses = vec_all((float)most) * num8_rcp(m);
    inverses = (f8)((i8x)inverses & ~(broken | ((i8x)steps == 0)));
    steps = (f8)_mm256_blendv_ps(steps, (f8)_mm256_set1_epi32(NUM_NAN), (__m256)broken);
    vec_store(step, steps);
    vec_store(inverse, inverses);
}

void avx2_weights(const struct batch *batch, bool is_q4, size_t n_v_scales, float *weights,
                  int16_t *u, float *step)
{
    const size_t total = batch->n * n_v_scales;
    size_t i = 0, b = 0;
    for (size_t from = 0; from < total; from += ATTEND_GROUP) {
        const size_t n = total - from < ATTEND_GROUP ? total - from : ATTEND_GROUP;
        float inverse[ATTEND_GROUP];
        for (size_t k = 0; k < n; k += LANES) {
            i8x max[LANES];
            for (size_t j = 0; j < LANES; j++) {
                if (k + j >= n) {
                    max[j] = (i8x){0};
                    continue;
                }
                const float *d = batch->scales[i] + b * PAGE_LEN;
                float *w = weights + (k + j) * PAGE_LEN;
                if (batch->lo[i] == 0 && batch->hi[i] == PAGE_LEN && !is_q4)
                    max[j] = weigh(false, batch->s[i], d, 0, PAGE_LEN, w);
                else
                    max[j] = weigh(true, batch->s[i], d, batch->lo[i], batch->hi[i], w);
                b++;
                if (b == n_v_scales) i++, b = 0;
            }
            weight_steps(row_maxima(max), attend_weight_max(is_q4), step + from + k,
                         inverse + k);
        }
        for (size_t k = 0; k < n; k++)
            round_weights(weights + k * PAGE_LEN, inverse[k], u + (from + k) * PAGE_LEN);
    }
}
