/* Softmax and weights of few queries on AVX-512; see ref_attend.c and ref_attend_q.c for what
 * they are. A lane is a key until a sum or a largest is taken: those of eight items together,
 * for one alone would wait for its own chain. What the next step reads is fetched meanwhile:
 * memory would else rest for a quarter of the time. */
#include "cpu/attend_few_softmax_avx512.h"
#include "cpu/lanes16.h"

enum {
    ITEMS = ATTEND_LANES,
    KEY_VECS = PAGE_LEN / Z_LANES,
};

/* Lines per call of far_fetch: of two queries and 128 dims, as many as a page of q8_0 has
 * beyond those that the products fetch (attend_few_avx512.c). Fewer at a time gain: the
 * processor waits for those beyond its buffers. */
enum { SOFTMAX_LINES = 6, WEIGHT_LINES = 2 };

/* Of the next step, if that is fetched at all. */
VEC_INLINE void fetch_next(struct far *far, size_t n)
{
    if (far->now.n_lines > 0) far_fetch(far, n);
}

VEC_INLINE fz low_lanes(fz a, fz b)
{
    return _mm512_unpacklo_ps(a, b);
}

VEC_INLINE fz high_lanes(fz a, fz b)
{
    return _mm512_unpackhi_ps(a, b);
}

/* Four rows of four become columns, in each quarter of the vectors. */
VEC_INLINE void transpose_quarters(fz v[4])
{
    const fz a = low_lanes(v[0], v[1]), b = low_lanes(v[2], v[3]);
    const fz c = high_lanes(v[0], v[1]), d = high_lanes(v[2], v[3]);
    v[0] = _mm512_shuffle_ps(a, b, 0x44);
    v[1] = _mm512_shuffle_ps(a, b, 0xee);
    v[2] = _mm512_shuffle_ps(c, d, 0x44);
    v[3] = _mm512_shuffle_ps(c, d, 0xee);
}

/* ---- softmax ---- */

/* Dots -> scores; returns the largest of each lane, as plain_scores (attend_avx2.c). */
VEC_INLINE fz scores(fz dot, const float *log2, float *s)
{
    fz v[KEY_VECS];
    UNROLL for (int j = 0; j < KEY_VECS; j++)
    {
        v[j] = z_clip(z_load_f(s + Z_LANES * j) * dot);
        if (log2) v[j] = v[j] + z_load_f(log2 + Z_LANES * j);
        z_store_f(s + Z_LANES * j, v[j]);
    }
    return z_max(z_max(v[0], v[1]), z_max(v[2], v[3]));
}

/* Eight rows of sixteen -> the largest of each row. */
VEC_INLINE f8 row_maxima(const fz v[ITEMS])
{
    fz a[4], b[2];
    UNROLL for (int i = 0; i < 4; i++) a[i] =
        z_max(low_lanes(v[2 * i], v[2 * i + 1]), high_lanes(v[2 * i], v[2 * i + 1]));
    UNROLL for (int i = 0; i < 2; i++) b[i] =
        z_max(_mm512_shuffle_ps(a[2 * i], a[2 * i + 1], 0x44),
              _mm512_shuffle_ps(a[2 * i], a[2 * i + 1], 0xee));
    fz c =
        z_max(_mm512_shuffle_f32x4(b[0], b[1], 0x88), _mm512_shuffle_f32x4(b[0], b[1], 0xdd));
    c = _mm512_shuffle_f32x4(c, c, 0xd8);
    return _mm256_max_ps(_mm512_castps512_ps256(c), _mm512_extractf32x8_ps(c, 1));
}

/* Scores of two items -> probabilities, with inverses i0 and i1 weights. Returns the sums of
 * their runs of eight keys: quarters are the first item's even runs, its odd ones, and the
 * second's. */
VEC_INLINE fz probabilities(bool narrow, const float *i0, const float *i1, float *s0, float *s1,
                            float m0, float m1, struct far *far)
{
    fz v[2 * KEY_VECS], low[4], high[4];
    UNROLL for (int j = 0; j < KEY_VECS; j++)
    {
        v[j] = z_load_f(s0 + Z_LANES * j) - z_all(m0);
        v[KEY_VECS + j] = z_load_f(s1 + Z_LANES * j) - z_all(m1);
    }
    fetch_next(far, SOFTMAX_LINES);
    if (!i0) z_exp2_below(v, 2 * KEY_VECS);
    UNROLL for (int j = 0; j < 2 * KEY_VECS; j++)
    {
        if (i0) v[j] = z_exp2_weight(false, v[j]);
        if (narrow) v[j] = z_narrow(v[j]);
    }
    fetch_next(far, SOFTMAX_LINES);
    UNROLL for (int j = 0; j < KEY_VECS; j++)
    {
        z_store_f(s0 + Z_LANES * j, v[j]);
        z_store_f(s1 + Z_LANES * j, v[KEY_VECS + j]);
        low[j] = i0 ? v[j] * z_load_f(i0 + Z_LANES * j) : v[j];
        high[j] = i0 ? v[KEY_VECS + j] * z_load_f(i1 + Z_LANES * j) : v[KEY_VECS + j];
    }
    transpose_quarters(low);
    fetch_next(far, SOFTMAX_LINES);
    transpose_quarters(high);
    fz sum = _mm512_shuffle_f32x4(low[0], high[0], 0x88);
    UNROLL for (int i = 1; i < 4; i++) sum = sum + _mm512_shuffle_f32x4(low[i], high[i], 0x88);
    UNROLL for (int i = 0; i < 4; i++) sum = sum + _mm512_shuffle_f32x4(low[i], high[i], 0xdd);
    return sum;
}

/* Such sums of four pairs of items -> the sum of each item's from the left. */
VEC_INLINE f8 sums_of_runs(fz v[4])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    f8 sum = {0};
    transpose_quarters(v);
    UNROLL for (int i = 0; i < 4; i++)
    {
        const fz x = _mm512_shuffle_f32x4(v[i], v[i], 0xd8);
        const f8 even = _mm512_castps512_ps256(x), odd = _mm512_extractf32x8_ps(x, 1);
        sum = (i == 0 ? even : sum + even) + odd;
    }
    return _mm256_permutevar8x32_ps(sum, order);
}

void avx512_few_softmax(const struct attend *a, struct batch *t, size_t at, size_t n)
{
    const bool narrow = a->kv->type == KV_F16;
    fz v[ITEMS], sums[4];
    const fz dot = z_all(a->factors.dot);
    for (size_t r = 0; r < ITEMS; r++) {
        const struct key_weights *w = r < n ? t->weights[at + r] : NULL;
        v[r] = r < n ? scores(dot, w ? w->log2 : NULL, t->s[at + r]) : z_all(0);
        fetch_next(t->far, SOFTMAX_LINES);
    }
    vec_store(t->m + at, row_maxima(v));
    for (size_t r = 0; r < ITEMS; r += 2) {
        sums[r / 2] = z_all(0);
        if (r >= n) continue;
        const size_t i = at + r, j = r + 1 < n ? i + 1 : i;
        if (t->weights[i])
            sums[r / 2] = probabilities(false, t->weights[i]->inverse, t->weights[j]->inverse,
                                        t->s[i], t->s[j], t->m[i], t->m[j], t->far);
        else
            sums[r / 2] =
                probabilities(narrow, NULL, NULL, t->s[i], t->s[j], t->m[i], t->m[j], t->far);
        fetch_next(t->far, SOFTMAX_LINES);
    }
    vec_store(t->l + at, sums_of_runs(sums));
}

/* ---- weights ---- */

void avx512_few_weigh_keys(const struct kv_layer *kv, const struct block_tile *t)
{
    const struct key_weights *w = &t->weights;
    const fz unit = z_all(attend_weight_unit(kv));
    UNROLL for (size_t j = 0; j < PAGE_LEN; j += Z_LANES)
    {
        iz max = {0};
        for (size_t b = 0; b < t->n_v_scales; b++)
            max = z_max_i(max, (iz)((uz)z_bf16(t->v_scales + b * PAGE_LEN + j) & NUM_ABS));
        const fz d = num16_weight_scale((fz)max), r = num16_weight_inverse(d) * unit;
        z_store_f(w->log2 + j, num16_weight_log2(d));
        z_store_f(w->inverse + j, r);
        for (size_t b = 0; w->shares && b < t->n_v_scales; b++)
            z_store_f(w->shares + b * PAGE_LEN + j, z_bf16(t->v_scales + b * PAGE_LEN + j) * r);
    }
}

/* The low bytes of what lies in four vectors, as few_weights_at has it. */
VEC_INLINE bz low_bytes(const iz v[KEY_VECS])
{
    __m512i x[KEY_VECS];
    UNROLL for (int j = 0; j < KEY_VECS; j++) x[j] = (__m512i)(v[j] & 0xff);
    return (bz)_mm512_packus_epi16(_mm512_packs_epi32(x[0], x[1]),
                                   _mm512_packs_epi32(x[2], x[3]));
}

/* rne of the weights, with shares (or NULL) of what those make of them, as bytes. */
VEC_INLINE void round_weights(const struct batch *t, size_t i, const float *shares, int8_t *u)
{
    const uint64_t seen = ~(uint64_t)0 << t->lo[i] & ~(uint64_t)0 >> (PAGE_LEN - t->hi[i]);
    /* As in attend_weights_avx2.c. */
    const fz magic = z_all(12582912.0f);
    iz v[KEY_VECS];
    UNROLL for (int j = 0; j < KEY_VECS; j++)
    {
        fz w = z_load_f(t->s[i] + Z_LANES * j);
        if (shares)
            w = z_product_where((mz)(seen >> Z_LANES * j), w, z_load_f(shares + Z_LANES * j));
        v[j] = (iz)(w + magic);
    }
    z_store(u, low_bytes(v));
}

void avx512_few_weights(const struct batch *t, size_t n_v_scales, int16_t *u)
{
    int8_t *out = (int8_t *)u;
    for (size_t i = 0; i < t->n; i++) {
        for (size_t b = 0; b < n_v_scales; b++, out += PAGE_LEN) {
            const float *shares = t->weights[i]->shares;
            if (shares)
                round_weights(t, i, shares + b * PAGE_LEN, out);
            else
                round_weights(t, i, NULL, out);
            fetch_next(t->far, WEIGHT_LINES);
        }
    }
}
