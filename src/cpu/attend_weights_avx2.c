/* Attention on AVX2 over KV types of codes: what makes weights of probabilities, and integers
 * of weights; see ref_attend_q.c for what they are. */
#include "cpu/attend_avx2.h"
#include "cpu/vec_avx2.h"

enum {
    LANES = ATTEND_LANES,
    KEY_VECS = ATTEND_KEY_VECS,
};

void avx2_weigh_keys(const struct kv_layer *kv, const struct block_tile *t)
{
    const struct key_weights *w = &t->weights;
    const f8 unit = vec_all(attend_weight_unit(kv));
    const size_t n = t->n_v_scales;
    for (size_t j = 0; j < PAGE_LEN; j += LANES) {
        __m256i max = _mm256_setzero_si256();
        for (size_t b = 0; b < n; b++)
            max = _mm256_max_epi32(
                max, (__m256i)((i8x)avx2_scales8(t->v_scales + b * PAGE_LEN + j) & 0x7fffffff));
        const f8 d = num8_weight_scale((f8)max), r = num8_weight_inverse(d) * unit;
        vec_store(w->log2 + j, num8_weight_log2(d));
        vec_store(w->inverse + j, r);
        for (size_t b = 0; w->shares && b < n; b++)
            vec_store(w->shares + b * PAGE_LEN + j,
                      avx2_scales8(t->v_scales + b * PAGE_LEN + j) * r);
    }
}

/* rne of weights, or with shares of what those make of them, as int16, keys in the order of
 * pairs: 0 8 1 9 .. 7 15, 16 24 .. */
VEC_INLINE void round_weights(const float *w, const float *shares, int16_t *u)
{
    /* rne (numeric.h) adds 1.5 · 2^23: the low half of the sum's bits is the integer. */
    const f8 magic = vec_all(12582912.0f);
    UNROLL
    for (int j = 0; j < KEY_VECS; j += 2) {
        f8 v[2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            v[i] = vec_load(w + LANES * (j + i));
            if (shares) v[i] = v[i] * vec_load(shares + LANES * (j + i));
        }
        const __m256i a = (__m256i)(v[0] + magic), b = (__m256i)(v[1] + magic);
        _mm256_storeu_si256((__m256i *)(u + LANES * j),
                            _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa));
    }
}

/* Keys that an item does not see may have any share, but their weight is to be 0. */
static void seen_shares(const struct batch *t, size_t i, const float *shares, float *out)
{
    for (size_t j = 0; j < PAGE_LEN; j++)
        out[j] = j >= t->lo[i] && j < t->hi[i] ? shares[j] : 0;
}

void avx2_weights(const struct batch *t, size_t n_v_scales, int16_t *u)
{
    for (size_t i = 0; i < t->n; i++) {
        const bool whole = t->lo[i] == 0 && t->hi[i] == PAGE_LEN;
        for (size_t b = 0; b < n_v_scales; b++, u += PAGE_LEN) {
            const float *shares = t->weights[i]->shares;
            float seen[PAGE_LEN];
            if (!shares) {
                round_weights(t->s[i], NULL, u);
            } else if (whole) {
                round_weights(t->s[i], shares + b * PAGE_LEN, u);
            } else {
                seen_shares(t, i, shares + b * PAGE_LEN, seen);
                round_weights(t->s[i], seen, u);
            }
        }
    }
}
