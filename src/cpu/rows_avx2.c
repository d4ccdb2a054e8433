/* The ops along a row on AVX2; see ref_rows.c for what they compute. Odd ends go to ref_*. */
#include <string.h>

#include "base/numeric_c.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8, N_PARTIALS = ROW_PARTIALS / LANES };

/* The partials of the sum of squares of n values, a multiple of ROW_PARTIALS. */
static void partials(const float *x, size_t n, float *out)
{
    f8 sum[N_PARTIALS];
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++)
    {
        const f8 v = vec_load(x + LANES * j);
        sum[j] = v * v;
    }
    for (size_t i = ROW_PARTIALS; i < n; i += ROW_PARTIALS) {
        UNROLL for (size_t j = 0; j < N_PARTIALS; j++)
        {
            const f8 v = vec_load(x + i + LANES * j);
            sum[j] = sum[j] + v * v;
        }
    }
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++) vec_store(out + LANES * j, sum[j]);
}

static void normalise(const struct norm_group *g, size_t n, float r)
{
    const float *x = g->x, *w = g->w, *bias = g->bias;
    for (size_t i = 0; i < n; i += LANES) {
        f8 y = num8_keep(vec_load(x + i) * vec_all(r));
        if (w) y = num8_keep(y * vec_load(w + i));
        if (bias) y = num8_keep(y + vec_load(bias + i));
        vec_store(g->out + i, y);
    }
}

/* 1/sqrt of the mean squares of some groups: folding the partials of one is a chain of 31
 * additions, those of eight go side by side. */
static void inverses(const struct norm_group *of, size_t n, size_t n_groups, float eps,
                     float out[LANES])
{
    float partial[LANES][ROW_PARTIALS], total[LANES] = {0};
    for (size_t g = 0; g < n_groups; g++) {
        partials(of[g].x, n, partial[g]);
        total[g] = partial[g][0];
    }
    for (size_t i = 1; i < ROW_PARTIALS; i++)
        for (size_t g = 0; g < n_groups; g++)
            total[g] = total[g] + partial[g][i];
    const f8 mean = vec_load(total) * vec_all((float)(1.0 / (double)n));
    vec_store(out, num8_rsqrt(mean + vec_all(eps)));
}

void avx2_norm(const struct norm *o)
{
    const size_t n = o->n, most = norm_at_once(n, LANES);
    if (n % ROW_PARTIALS != 0) {
        ref_norm(o);
        return;
    }
    struct norm_group next = norm_first(o);
    while (next.row < o->n_rows) {
        struct norm_group g[LANES];
        float r[LANES];
        size_t count = 0;
        for (; count < most && next.row < o->n_rows; norm_next(o, &next))
            g[count++] = next;
        inverses(g, n, count, o->eps, r);
        for (size_t i = 0; i < count; i++)
            normalise(&g[i], n, r[i]);
    }
}

/* x, but at most or at least that; a NaN stays one. */
VEC_INLINE f8 at_most(f8 x, float most)
{
    return _mm256_min_ps(vec_all(most), x);
}

VEC_INLINE f8 at_least(f8 x, float least)
{
    return _mm256_max_ps(vec_all(least), x);
}

/* What a mean is of: values, or their squares. */
VEC_INLINE f8 term_at(const bool squares, const float *x)
{
    const f8 v = vec_load(x);
    return squares ? v * v : v;
}

/* The mean of n values, a multiple of ROW_PARTIALS, or of their squares. */
VEC_INLINE float mean_of(const bool squares, const float *x, size_t n)
{
    float partial[ROW_PARTIALS];
    f8 sum[N_PARTIALS];
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++) sum[j] = term_at(squares, x + LANES * j);
    for (size_t i = ROW_PARTIALS; i < n; i += ROW_PARTIALS)
        UNROLL for (size_t j = 0; j < N_PARTIALS; j++) sum[j] =
            sum[j] + term_at(squares, x + i + LANES * j);
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++) vec_store(partial + LANES * j, sum[j]);
    float total = partial[0];
    for (size_t i = 1; i < ROW_PARTIALS; i++)
        total = total + partial[i];
    return total * (float)(1.0 / (double)n);
}

void avx2_centre(const float *x, size_t n, float *out)
{
    if (n % ROW_PARTIALS != 0) {
        ref_centre(x, n, out);
        return;
    }
    const f8 mean = vec_all(mean_of(false, x, n));
    for (size_t i = 0; i < n; i += LANES)
        vec_store(out + i, num8_keep(vec_load(x + i) - mean));
}

void avx2_cut(const float *x, size_t n, float factor, float *out)
{
    if (n % ROW_PARTIALS != 0) {
        ref_cut(x, n, factor, out);
        return;
    }
    const float mean = mean_of(true, x, n), size = num_keep(mean * num_rsqrt(mean));
    const f8 least = vec_all(num_keep(size * factor));
    for (size_t i = 0; i < n; i += LANES)
        vec_store(out + i, num8_keep(at_least(vec_load(x + i) - least, 0)));
}

/* The largest magnitude's bits of 32 values. */
static int32_t block_max(const float *x)
{
    __m256i mask = _mm256_set1_epi32(0x7fffffff), m = _mm256_setzero_si256();
    for (int j = 0; j < 4; j++) {
        __m256i v = _mm256_castps_si256((__m256)vec_load(x + LANES * j));
        m = _mm256_max_epi32(m, _mm256_and_si256(v, mask));
    }
    return vec_max_i((i8x)m);
}

static void quantise_block(const float *x, f8 inverse, int8_t *q, int16_t *sum)
{
    const __m256i codes = vec_codes32(x, inverse);
    _mm256_storeu_si256((__m256i *)q, codes);
    vec_sums16(codes, sum);
}

/* Scales of eight blocks at a time. */
void avx2_quantise(const struct quantise *o)
{
    const size_t n_blocks = o->n_rows * o->n / A8_BLOCK;
    struct quantise_block next = quantise_first(o);
    for (size_t first = 0; first < n_blocks; first += LANES) {
        const size_t count = n_blocks - first < LANES ? n_blocks - first : LANES;
        const float *from[LANES];
        int32_t max[LANES] = {0};
        for (size_t i = 0; i < count; i++, quantise_next(o, &next)) {
            from[i] = next.x;
            max[i] = block_max(from[i]);
        }
        i8x bits = (i8x)_mm256_loadu_si256((const __m256i *)max);
        f8 m = (f8)bits, zero = vec_all(0);
        f8 scale = num8_keep(m * (1.0f / 127.0f));
        f8 inverse = vec_all(127.0f) * num8_rcp(m);
        inverse = (f8)_mm256_blendv_ps(inverse, zero, (__m256)vec_equal(scale, zero));
        i8x broken = vec_more_i(bits, 0x71800000);
        f8 nan = (f8)_mm256_set1_epi32(NUM_NAN);
        scale = (f8)_mm256_blendv_ps(scale, nan, (__m256)broken);
        float scales[LANES], inverses[LANES];
        vec_store(scales, scale);
        vec_store(inverses, inverse);
        for (size_t i = 0; i < count; i++) {
            const size_t b = first + i;
            o->d[b] = scales[i];
            if (max[i] > 0x71800000) {
                memset(o->q + b * A8_BLOCK, 0, A8_BLOCK);
                o->sum[2 * b] = o->sum[2 * b + 1] = 0;
            } else {
                quantise_block(from[i], vec_all(inverses[i]), o->q + b * A8_BLOCK,
                               o->sum + 2 * b);
            }
            if (o->dsum) o->dsum[b] = a8_dsum(o->d[b], o->sum + 2 * b);
        }
    }
}

static void rope_neox(float *x, size_t n_pairs, const float *cos_sin)
{
    for (size_t i = 0; i < n_pairs; i += LANES) {
        f8 c = vec_load(cos_sin + i), s = vec_load(cos_sin + n_pairs + i);
        f8 a = vec_load(x + i), b = vec_load(x + n_pairs + i);
        vec_store(x + i, num8_keep(a * c - b * s));
        vec_store(x + n_pairs + i, num8_keep(a * s + b * c));
    }
}

/* Pairs lie side by side: even lanes x0 c - x1 s, odd lanes x1 c + x0 s. */
static void rope_norm(float *x, size_t n_pairs, const float *cos_sin)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (size_t i = 0; i < n_pairs; i += LANES / 2) {
        __m256 c = _mm256_castps128_ps256(_mm_loadu_ps(cos_sin + i));
        __m256 s = _mm256_castps128_ps256(_mm_loadu_ps(cos_sin + n_pairs + i));
        c = _mm256_permutevar8x32_ps(c, twice);
        s = _mm256_permutevar8x32_ps(s, twice);
        __m256 v = _mm256_loadu_ps(x + 2 * i), swapped = _mm256_permute_ps(v, 0xb1);
        __m256 y = _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s));
        vec_store(x + 2 * i, num8_keep((f8)y));
    }
}

void avx2_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin)
{
    if (n_pairs % LANES != 0)
        ref_rope(x, pairs, n_pairs, cos_sin);
    else if (pairs == ROPE_NEOX)
        rope_neox(x, n_pairs, cos_sin);
    else
        rope_norm(x, n_pairs, cos_sin);
}

void avx2_scale(float *x, size_t n, float factor)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(x + i, num8_keep(vec_load(x + i) * vec_all(factor)));
    ref_scale(x + i, n - i, factor);
}

void avx2_xielu(float *x, size_t n, float square, float bend, float slope)
{
    const f8 s = vec_all(square), b = vec_all(bend), by = vec_all(slope);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(x + i, num8_xielu(vec_load(x + i), s, b, by));
    ref_xielu(x + i, n - i, square, bend, slope);
}

/* What a gate is the sigmoid of. */
VEC_INLINE f8 argument(const enum glu_kind kind, f8 gate)
{
    if (kind == GLU_CLAMPED) return vec_all(1.702f) * at_most(gate, 7);
    if (kind != GLU_GELU && kind != GLU_GELU_ALONE) return gate;
    const f8 y = num8_flush(at_least(at_most(gate, 30), -30)), y2 = num8_flush(y * y);
    return vec_all(1.59576912f) * y * (vec_all(1.0f) + vec_all(0.044715f) * y2);
}

VEC_INLINE f8 gated(const enum glu_kind kind, f8 gate, f8 sigmoid, f8 up)
{
    if (kind == GLU_CLAMPED)
        return num8_keep(num8_keep(at_most(gate, 7) * sigmoid) *
                         (at_least(at_most(up, 7), -7) + vec_all(1.0f)));
    if (kind == GLU_GELU_ALONE) return num8_keep(gate * sigmoid);
    if (kind != GLU_SIGMOID) return num8_keep(num8_keep(gate * sigmoid) * up);
    const __m256 is_nan = (__m256)~vec_equal(gate, gate);
    return num8_keep((f8)_mm256_blendv_ps(sigmoid, gate, is_nan) * up);
}

/* All values but less than eight, which are returned as how many are done. */
VEC_INLINE size_t glu(const enum glu_kind kind, const float *gate, const float *up, size_t n,
                      float *out)
{
    enum { STEP = VEC_AT_ONCE * LANES };
    f8 x[VEC_AT_ONCE], s[VEC_AT_ONCE];
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        UNROLL for (size_t j = 0; j < VEC_AT_ONCE; j++) x[j] =
            argument(kind, vec_load(gate + i + LANES * j));
        vec_sigmoids(x, VEC_AT_ONCE, s);
        UNROLL for (size_t j = 0; j < VEC_AT_ONCE; j++)
        {
            const size_t at = i + LANES * j;
            vec_store(out + at, gated(kind, vec_load(gate + at), s[j], vec_load(up + at)));
        }
    }
    for (; i + LANES <= n; i += LANES) {
        x[0] = argument(kind, vec_load(gate + i));
        vec_sigmoids(x, 1, s);
        vec_store(out + i, gated(kind, vec_load(gate + i), s[0], vec_load(up + i)));
    }
    return i;
}

void avx2_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out)
{
    size_t i = 0;
    switch (kind) {
    case GLU_SILU: i = glu(GLU_SILU, gate, up, n, out); break;
    case GLU_GELU: i = glu(GLU_GELU, gate, up, n, out); break;
    case GLU_SIGMOID: i = glu(GLU_SIGMOID, gate, up, n, out); break;
    case GLU_CLAMPED: i = glu(GLU_CLAMPED, gate, up, n, out); break;
    case GLU_GELU_ALONE: i = glu(GLU_GELU_ALONE, gate, up, n, out); break;
    case GLU_TANH_ALONE: break; /* of a few values */
    case GLU_LINEAR:
        for (; i + LANES <= n; i += LANES)
            vec_store(out + i, num8_keep(vec_load(gate + i) * vec_load(up + i)));
        break;
    case GLU_RELU:
        for (; i + LANES <= n; i += LANES)
            vec_store(out + i, num8_keep(at_least(vec_load(gate + i), 0) * vec_load(up + i)));
        break;
    case GLU_SOFTPLUS:
        for (; i + LANES <= n; i += LANES)
            vec_store(out + i, num8_keep(num8_softplus(vec_load(gate + i)) * vec_load(up + i)));
        break;
    }
    ref_glu(kind, gate + i, up + i, n - i, out + i);
}

void avx2_add(const float *a, const float *b, float scale, size_t n, float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vec_store(out + i, num8_keep(vec_load(a + i) + vec_load(b + i) * vec_all(scale)));
    ref_add(a + i, b + i, scale, n - i, out + i);
}

void avx2_combine(const float *in, size_t stride, const float *weights, size_t n_used, size_t n,
                  float *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 sum = vec_load(in + i) * vec_all(weights[0]);
        for (size_t j = 1; j < n_used; j++)
            sum = sum + vec_load(in + j * stride + i) * vec_all(weights[j]);
        vec_store(out + i, num8_keep(sum));
    }
    ref_combine(in + i, stride, weights, n_used, n - i, out + i);
}

void avx2_logits(const float *x, size_t n, float scale, float softcap, float *out)
{
    f8 inverse = vec_all(softcap == 0.0f ? 0.0f : (float)(1.0 / (double)softcap));
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        f8 y = num8_keep(vec_load(x + i) * vec_all(scale));
        if (softcap != 0.0f) y = num8_keep(vec_all(softcap) * num8_tanh(y * inverse));
        vec_store(out + i, y);
    }
    ref_logits(x + i, n - i, scale, softcap, out + i);
}
