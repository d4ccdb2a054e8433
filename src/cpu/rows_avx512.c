/* The ops along a row in sixteen lanes; see ref_rows.c for what they compute. A tail of less
 * than sixteen values is a vector whose other lanes nobody reads or stores. */
#include <string.h>

#include "base/numeric_c.h"
#include "cpu/avx512.h"
#include "cpu/lanes16.h"
#include "cpu/ref.h"

enum { N_PARTIALS = ROW_PARTIALS / Z_LANES };

/* ---- parts of vectors ---- */

#ifdef __AVX512VNNI__

static __mmask16 first_lanes(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

VEC_INLINE fz load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}

VEC_INLINE void store_part(float *p, size_t n, fz v)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), v);
}

#else

VEC_INLINE fz load_part(const float *p, size_t n)
{
    fz v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}

VEC_INLINE void store_part(float *p, size_t n, fz v)
{
    memcpy(p, &v, n * sizeof *p);
}

#endif

/* The first n values, all of sixteen or less. */
VEC_INLINE fz load(const float *p, size_t n)
{
    return n >= Z_LANES ? z_load_f(p) : load_part(p, n);
}

VEC_INLINE void store(float *p, size_t n, fz v)
{
    if (n >= Z_LANES)
        z_store_f(p, v);
    else
        store_part(p, n, v);
}

/* Statements for sixteen values from `i` on, of which `left` are there: a constant for all but
 * the last. */
#define FOR_LANES(n, ...)                          \
    do {                                           \
        size_t i = 0;                              \
        for (; i + Z_LANES <= (n); i += Z_LANES) { \
            const size_t left = Z_LANES;           \
            __VA_ARGS__                            \
        }                                          \
        if (i < (n)) {                             \
            const size_t left = (n)-i;             \
            __VA_ARGS__                            \
        }                                          \
    } while (0)

/* ---- norms ---- */

/* The partials of the sum of squares of n values, a multiple of ROW_PARTIALS. */
VEC_INLINE void partials(const float *x, size_t n, fz sum[N_PARTIALS])
{
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++)
    {
        const fz v = z_load_f(x + Z_LANES * j);
        sum[j] = v * v;
    }
    for (size_t i = ROW_PARTIALS; i < n; i += ROW_PARTIALS) {
        UNROLL for (size_t j = 0; j < N_PARTIALS; j++)
        {
            const fz v = z_load_f(x + i + Z_LANES * j);
            sum[j] = sum[j] + v * v;
        }
    }
}

static void normalise(const struct norm_group *g, size_t n, float r)
{
    const float *x = g->x, *w = g->w, *bias = g->bias;
    for (size_t i = 0; i < n; i += Z_LANES) {
        fz y = z_load_f(x + i) * z_all(r);
        if (w) y = z_clip(y) * z_load_f(w + i);
        if (bias) y = z_clip(y) + z_load_f(bias + i);
        z_store_f(g->out + i, z_kept(y));
    }
}

/* 1/sqrt of the mean square of one group. */
static float inverse_of_one(const float *x, size_t n, float eps)
{
    fz sum[N_PARTIALS];
    partials(x, n, sum);
    float partial[ROW_PARTIALS];
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++) z_store_f(partial + Z_LANES * j, sum[j]);
    float total = partial[0];
    for (size_t i = 1; i < ROW_PARTIALS; i++)
        total = total + partial[i];
    return num_rsqrt(total * (float)(1.0 / (double)n) + eps);
}

/* The same of up to sixteen groups: a lane folds the partials of one. */
static void inverses(const struct norm_group *of, size_t n, size_t n_groups, float eps,
                     float out[Z_LANES])
{
    fz sum[N_PARTIALS][Z_LANES] = {{{0}}}, total = {0};
    for (size_t g = 0; g < n_groups; g++) {
        fz s[N_PARTIALS];
        partials(of[g].x, n, s);
        UNROLL for (size_t j = 0; j < N_PARTIALS; j++) sum[j][g] = s[j];
    }
    UNROLL for (size_t j = 0; j < N_PARTIALS; j++)
    {
        z_transpose((iz *)sum[j]);
        UNROLL for (size_t i = 0; i < Z_LANES; i++) total =
            i + j == 0 ? sum[0][0] : total + sum[j][i];
    }
    z_store_f(out, num16_rsqrt(total * z_all((float)(1.0 / (double)n)) + z_all(eps)));
}

void avx512_norm(const struct norm *o)
{
    const size_t n = o->n, most = norm_at_once(n, Z_LANES);
    if (n % ROW_PARTIALS != 0) {
        ref_norm(o);
        return;
    }
    struct norm_group next = norm_first(o);
    while (next.row < o->n_rows) {
        struct norm_group g[Z_LANES];
        float r[Z_LANES];
        size_t count = 0;
        for (; count < most && next.row < o->n_rows; norm_next(o, &next))
            g[count++] = next;
        if (count == 1)
            r[0] = inverse_of_one(g[0].x, n, o->eps);
        else
            inverses(g, n, count, o->eps, r);
        for (size_t i = 0; i < count; i++)
            normalise(&g[i], n, r[i]);
    }
}

/* ---- activations of eight bits ---- */

enum { BLOCKS_AT_ONCE = Z_LANES }; /* a lane for the scale of each */

/* Of two vectors the dwords with these places in `a, b`. */
#define LOW2 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH2 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define EVEN4 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define ODD4 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
#define UNPACK_LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define UNPACK_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define UNPACK_LOW2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define UNPACK_HIGH2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define SHUFFLE __builtin_shufflevector

/* Lane i is the largest of v[i], which is overwritten. Each step leaves half as many vectors,
 * of which each holds half as much of twice as many. */
VEC_INLINE iz largest(iz v[Z_LANES])
{
    UNROLL for (int i = 0; i < 12; i++)
    {
        if (i % 8 >= 4) continue;
        const iz a = v[i], b = v[i + 4];
        v[i] = z_max_i(SHUFFLE(a, b, LOW2), SHUFFLE(a, b, HIGH2));
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        const iz a = v[i], b = v[i + 8];
        v[i] = z_max_i(SHUFFLE(a, b, EVEN4), SHUFFLE(a, b, ODD4));
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        const iz a = v[i], b = v[i + 2];
        v[i] = z_max_i(SHUFFLE(a, b, UNPACK_LOW), SHUFFLE(a, b, UNPACK_HIGH));
    }
    return z_max_i(SHUFFLE(v[0], v[1], UNPACK_LOW), SHUFFLE(v[0], v[1], UNPACK_HIGH));
}

/* The lowest bytes of the lanes of v[0], then of v[1] and so on. */
VEC_INLINE bz low_bytes(const uz v[4])
{
    const bz all = (bz)((v[0] & 0xff) | (v[1] & 0xff) << 8 | (v[2] & 0xff) << 16 | v[3] << 24);
    /* Within each quarter, then quarters: at once would need VBMI, which came after VNNI. */
#define FOURTHS(j)                                                                             \
    j, j + 4, j + 8, j + 12, j + 1, j + 5, j + 9, j + 13, j + 2, j + 6, j + 10, j + 14, j + 3, \
        j + 7, j + 11, j + 15
    const iz fourths = (iz)SHUFFLE(all, all, FOURTHS(0), FOURTHS(16), FOURTHS(32), FOURTHS(48));
    return (bz)SHUFFLE(fourths, fourths, FOURTHS(0));
}

/* The sums of sixteen bytes each, of four vectors. */
VEC_INLINE void half_sums(const bz q[4], int16_t *sum)
{
    typedef int16_t h16 __attribute__((vector_size(32)));
    const bz ones = (bz)z_all_u(0x01010101u);
    iz s[4];
    UNROLL for (int k = 0; k < 4; k++) s[k] = z_dot((iz){0}, ones, q[k]);
    const iz s01 = SHUFFLE(s[0], s[1], UNPACK_LOW) + SHUFFLE(s[0], s[1], UNPACK_HIGH);
    const iz s23 = SHUFFLE(s[2], s[3], UNPACK_LOW) + SHUFFLE(s[2], s[3], UNPACK_HIGH);
    /* Now four sums, those of a place in each of q; they belong to four places of each. */
    const iz all = SHUFFLE(s01, s23, UNPACK_LOW2) + SHUFFLE(s01, s23, UNPACK_HIGH2);
    const iz sums = SHUFFLE(all, all, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const h16 narrow = __builtin_convertvector(sums, h16);
    memcpy(sum, &narrow, sizeof narrow);
}

/* The blocks whose values are at `from`, to o's first. */
static void quantise_blocks(const float *const from[BLOCKS_AT_ONCE], const struct quantise *o)
{
    enum { HALVES_IN_FOUR = 4 * sizeof(bz) / A8_HALF };
    const iz limit = z_all_i(0x71800000);
    iz m[BLOCKS_AT_ONCE];
    UNROLL for (int b = 0; b < BLOCKS_AT_ONCE; b++) m[b] = z_max_i(
        (iz)((uz)z_load_f(from[b]) & NUM_ABS), (iz)((uz)z_load_f(from[b] + Z_LANES) & NUM_ABS));
    const iz max = largest(m);
    if (z_any(z_less(limit, max))) {
        for (int b = 0; b < BLOCKS_AT_ONCE; b++)
            ref_quantise_row(from[b], A8_BLOCK, o->q + A8_BLOCK * b, o->d + b, o->sum + 2 * b);
        return;
    }
    const fz scale = z_kept((fz)max * z_all(1.0f / 127.0f));
    float inverse[Z_LANES];
    z_store_f(inverse, z_choose(z_less((iz){0}, (iz)scale), z_all(127.0f) * num16_rcp((fz)max),
                                (fz){0}));
    z_store_f(o->d, scale);
    for (size_t h = 0; h < 2 * BLOCKS_AT_ONCE; h += HALVES_IN_FOUR) {
        bz packed[4];
        UNROLL for (size_t k = 0; k < 4; k++)
        {
            const size_t b = (h + 4 * k) / 2;
            uz v[4];
            /* The low byte of the sum is that of the nearest integer. */
            UNROLL for (size_t j = 0; j < 4; j++) v[j] =
                (uz)(z_load_f(from[b + j / 2] + Z_LANES * (j % 2)) * z_all(inverse[b + j / 2]) +
                     z_all(12582912.0f));
            packed[k] = low_bytes(v);
            z_store(o->q + A8_BLOCK * b, packed[k]);
        }
        half_sums(packed, o->sum + h);
    }
}

/* a8_dsum of sixteen blocks. */
static void find_dsums(const float *d, const int16_t *sum, float *to)
{
    const iz both = (iz)z_load(sum);
    const iz first = (iz)((uz)both << 16) >> 16, second = both >> 16;
    z_store_f(to, z_load_f(d) * z_float(first + second));
}

void avx512_quantise(const struct quantise *o)
{
    static const float none[A8_BLOCK];
    const size_t n_blocks = o->n_rows * o->n / A8_BLOCK;
    struct quantise_block next = quantise_first(o);
    for (size_t i = 0; i < n_blocks; i += BLOCKS_AT_ONCE) {
        const size_t left = n_blocks - i;
        const float *from[BLOCKS_AT_ONCE];
        struct quantise to = {.q = o->q + A8_BLOCK * i, .d = o->d + i, .sum = o->sum + 2 * i};
        for (size_t b = 0; b < BLOCKS_AT_ONCE; b++) {
            from[b] = b < left ? next.x : none;
            if (b < left) quantise_next(o, &next);
        }
        if (left >= BLOCKS_AT_ONCE) {
            quantise_blocks(from, &to);
            if (o->dsum) find_dsums(to.d, to.sum, o->dsum + i);
            continue;
        }
        int8_t q[BLOCKS_AT_ONCE * A8_BLOCK];
        float d[BLOCKS_AT_ONCE], dsum[BLOCKS_AT_ONCE];
        int16_t sum[2 * BLOCKS_AT_ONCE];
        quantise_blocks(from, &(struct quantise){.q = q, .d = d, .sum = sum});
        find_dsums(d, sum, dsum);
        memcpy(to.q, q, left * A8_BLOCK);
        memcpy(to.d, d, left * sizeof *d);
        memcpy(to.sum, sum, 2 * left * sizeof *sum);
        if (o->dsum) memcpy(o->dsum + i, dsum, left * sizeof *dsum);
    }
}

/* ---- rotations ---- */

static void rope_neox(float *x, size_t n_pairs, const float *cos_sin)
{
    FOR_LANES(n_pairs, {
        const fz c = load(cos_sin + i, left), s = load(cos_sin + n_pairs + i, left);
        const fz a = load(x + i, left), b = load(x + n_pairs + i, left);
        store(x + i, left, z_kept(a * c - b * s));
        store(x + n_pairs + i, left, z_kept(a * s + b * c));
    });
}

/* Pairs that lie side by side: even lanes x0 c - x1 s, odd lanes x1 c + x0 s. c and s come
 * twice, s with the sign of its lane. */
VEC_INLINE fz turned(fz x, fz c, fz s)
{
    const fz swapped = SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return z_kept(x * c + swapped * s);
}

static void rope_norm(float *x, size_t n_pairs, const float *cos_sin)
{
    FOR_LANES(n_pairs, {
        const fz c = load(cos_sin + i, left), s = load(cos_sin + n_pairs + i, left);
        const fz minus = (fz)((uz)s ^ NUM_SIGN);
        const size_t low = 2 * left < Z_LANES ? 2 * left : Z_LANES;
        float *const at = x + 2 * i;
        store(
            at, low,
            turned(load(at, low), SHUFFLE(c, c, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                   SHUFFLE(minus, s, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)));
        if (2 * left > Z_LANES) {
            const size_t high = 2 * left - Z_LANES;
            store(at + Z_LANES, high,
                  turned(
                      load(at + Z_LANES, high),
                      SHUFFLE(c, c, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15),
                      SHUFFLE(minus, s, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                              15, 31)));
        }
    });
}

void avx512_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin)
{
    if (pairs == ROPE_NEOX)
        rope_neox(x, n_pairs, cos_sin);
    else
        rope_norm(x, n_pairs, cos_sin);
}

/* ---- value by value ---- */

void avx512_scale(float *x, size_t n, float factor)
{
    FOR_LANES(n, { store(x + i, left, z_kept(load(x + i, left) * z_all(factor))); });
}

void avx512_add(const float *a, const float *b, float scale, size_t n, float *out)
{
    FOR_LANES(n, {
        store(out + i, left, z_kept(load(a + i, left) + load(b + i, left) * z_all(scale)));
    });
}

void avx512_combine(const float *in, size_t stride, const float *weights, size_t n_used,
                    size_t n, float *out)
{
    FOR_LANES(n, {
        fz sum = load(in + i, left) * z_all(weights[0]);
        for (size_t j = 1; j < n_used; j++)
            sum = sum + load(in + j * stride + i, left) * z_all(weights[j]);
        store(out + i, left, z_kept(sum));
    });
}

void avx512_logits(const float *x, size_t n, float scale, float softcap, float *out)
{
    if (softcap == 0.0f) {
        FOR_LANES(n, { store(out + i, left, z_kept(load(x + i, left) * z_all(scale))); });
        return;
    }
    const fz inverse = z_all((float)(1.0 / (double)softcap));
    FOR_LANES(n, {
        const fz y = z_kept(load(x + i, left) * z_all(scale));
        store(out + i, left, z_kept(z_all(softcap) * num16_tanh(y * inverse)));
    });
}

/* x, but at most or at least that; a NaN stays one. */
VEC_INLINE fz at_most(fz x, float most)
{
    return -z_max(z_all(-most), -x);
}

VEC_INLINE fz at_least(fz x, float least)
{
    return z_max(z_all(least), x);
}

VEC_INLINE fz flushed(fz x)
{
    const iz size = (iz)((uz)x & NUM_ABS);
    return z_choose(z_less(size, z_all_i(0x0d800000)), (fz){0}, x);
}

/* What a gate is the sigmoid of. */
VEC_INLINE fz argument(const enum glu_kind kind, fz gate)
{
    if (kind == GLU_CLAMPED) return z_all(1.702f) * at_most(gate, 7);
    if (kind != GLU_GELU && kind != GLU_GELU_ALONE) return gate;
    const fz y = flushed(at_least(at_most(gate, 30), -30));
    const fz y2 = flushed(y * y);
    return z_all(1.59576912f) * y * (z_all(1.0f) + z_all(0.044715f) * y2);
}

VEC_INLINE fz gated(const enum glu_kind kind, fz gate, fz sigmoid, fz up)
{
    if (kind == GLU_CLAMPED)
        return z_kept(z_clip(at_most(gate, 7) * sigmoid) *
                      (at_least(at_most(up, 7), -7) + z_all(1.0f)));
    if (kind == GLU_GELU_ALONE) return z_kept(gate * sigmoid);
    if (kind != GLU_SIGMOID) return z_kept(z_clip(gate * sigmoid) * up);
    const iz size = (iz)((uz)gate & NUM_ABS);
    return z_kept(z_choose(z_less(z_all_i((int32_t)NUM_INF), size), gate, sigmoid) * up);
}

VEC_INLINE void glu(const enum glu_kind kind, const float *gate, const float *up, size_t n,
                    float *out)
{
    enum { STEP = Z_AT_ONCE * Z_LANES };
    fz x[Z_AT_ONCE], s[Z_AT_ONCE];
    size_t at = 0;
    for (; at + STEP <= n; at += STEP) {
        UNROLL for (size_t j = 0; j < Z_AT_ONCE; j++) x[j] =
            argument(kind, z_load_f(gate + at + Z_LANES * j));
        z_sigmoids(x, Z_AT_ONCE, s);
        UNROLL for (size_t j = 0; j < Z_AT_ONCE; j++)
        {
            const fz g = z_load_f(gate + at + Z_LANES * j);
            z_store_f(out + at + Z_LANES * j,
                      gated(kind, g, s[j], z_load_f(up + at + Z_LANES * j)));
        }
    }
    FOR_LANES(n - at, {
        const fz g = load(gate + at + i, left);
        x[0] = argument(kind, g);
        z_sigmoids(x, 1, s);
        store(out + at + i, left, gated(kind, g, s[0], load(up + at + i, left)));
    });
}

void avx512_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out)
{
    switch (kind) {
    case GLU_SILU: glu(GLU_SILU, gate, up, n, out); break;
    case GLU_GELU: glu(GLU_GELU, gate, up, n, out); break;
    case GLU_SIGMOID: glu(GLU_SIGMOID, gate, up, n, out); break;
    case GLU_CLAMPED: glu(GLU_CLAMPED, gate, up, n, out); break;
    case GLU_GELU_ALONE: glu(GLU_GELU_ALONE, gate, up, n, out); break;
    case GLU_TANH_ALONE: ref_glu(kind, gate, up, n, out); break; /* of a few values */
    case GLU_SOFTPLUS: avx2_glu(kind, gate, up, n, out); break;  /* of few layers */
    case GLU_LINEAR:
        FOR_LANES(n,
                  { store(out + i, left, z_kept(load(gate + i, left) * load(up + i, left))); });
        break;
    case GLU_RELU:
        FOR_LANES(n, {
            const fz g = at_least(load(gate + i, left), 0);
            store(out + i, left, z_kept(g * load(up + i, left)));
        });
        break;
    }
}
