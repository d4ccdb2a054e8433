/* The ops of recurrent layers on AVX2; see ref_recurrent.c for what they compute. Lanes are
 * channels, heads or columns, never tokens. Odd ends go to ref_*. */
#include <string.h>

#include "base/numeric_c.h"
#include "cpu/avx2.h"
#include "cpu/ref.h"
#include "cpu/vec_avx2.h"

enum { LANES = 8, MAX_TAPS = 8, N_VECS = RECUR_COLS / LANES, MAX_BESIDE = 256 };

/* ---- convolution ---- */

/* The channels of n vectors from i on of a row whose taps read rows[0..n_taps). */
VEC_INLINE void conv_lanes(const struct conv *c, const float *const *rows, size_t i,
                           const int n, float *out)
{
    f8 y[VEC_AT_ONCE], s[VEC_AT_ONCE];
    UNROLL for (int v = 0; v < n; v++)
    {
        const size_t at = i + LANES * (size_t)v;
        f8 sum = vec_load(rows[0] + at) * vec_load(c->w + at);
        for (size_t j = 1; j < c->n_taps; j++)
            sum = sum + vec_load(rows[j] + at) * vec_load(c->w + j * c->n + at);
        if (c->bias) sum = sum + vec_load(c->bias + at);
        y[v] = num8_keep(sum);
    }
    if (c->silu) {
        vec_sigmoids(y, n, s);
        UNROLL for (int v = 0; v < n; v++) y[v] = num8_keep(y[v] * s[v]);
    }
    UNROLL for (int v = 0; v < n; v++) vec_store(out + i + LANES * (size_t)v, y[v]);
}

void avx2_conv(const struct conv *c, size_t lo, size_t hi)
{
    if (c->n_taps > MAX_TAPS || c->n % LANES != 0) {
        ref_conv(c, lo, hi);
        return;
    }
    for (size_t r = lo; r < hi; r++) {
        const float *rows[MAX_TAPS];
        for (size_t j = 0; j < c->n_taps; j++)
            rows[j] = conv_row(c, r + j);
        size_t i = 0;
        for (; i + VEC_AT_ONCE * LANES <= c->n; i += VEC_AT_ONCE * LANES)
            conv_lanes(c, rows, i, VEC_AT_ONCE, c->out + r * c->out_stride);
        for (; i < c->n; i += LANES)
            conv_lanes(c, rows, i, 1, c->out + r * c->out_stride);
    }
}

/* ---- decays ---- */

void avx2_decay(const struct op_decay *op, const float *in, const float *bias, const float *a,
                float *out)
{
    const size_t n_heads = op->out.n / 2, run = op->betas ? op->run : n_heads;
    if (run % LANES != 0) {
        ref_decay(op, in, bias, a, out);
        return;
    }
    for (size_t h = 0; h < n_heads; h += LANES) {
        const float *runs = in + (op->betas ? h / run * 2 * run : 0);
        f8 x = vec_load(runs + h % run + (op->betas ? run : 0));
        f8 dt = num8_softplus(num8_keep(x + vec_load(bias + h)));
        vec_store(out + h, num8_exp(num8_keep(dt * vec_load(a + h))));
        if (op->betas) dt = num8_keep(num8_sigmoid(vec_load(runs + h % run)));
        vec_store(out + n_heads + h, dt);
    }
}

/* ---- states ---- */

/* What a row asks of n_vecs vectors of columns of one head. */
struct row {
    const float *q, *k, *v;
    float decay, step;
    bool delta;
};

/* d of each column: what is new times the step. */
VEC_INLINE void target(const struct row *w, const float *s, size_t stride, size_t n_dim,
                       size_t n_vecs, f8 *d)
{
    f8 held[N_VECS];
    UNROLL
    for (size_t e = 0; e < n_vecs; e++)
        d[e] = vec_load(w->v + LANES * e);
    if (w->delta) {
        f8 k = vec_all(w->k[0]);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            held[e] = vec_load(s + LANES * e) * k;
        for (size_t i = 1; i < n_dim; i++) {
            k = vec_all(w->k[i]);
            UNROLL
            for (size_t e = 0; e < n_vecs; e++)
                held[e] = held[e] + vec_load(s + i * stride + LANES * e) * k;
        }
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            d[e] = num8_keep(d[e] - num8_keep(held[e]) * vec_all(w->decay));
    }
    UNROLL
    for (size_t e = 0; e < n_vecs; e++)
        d[e] = num8_keep(vec_all(w->step) * d[e]);
}

/* S = decay S + k d, and q S. S is clipped instead of kept: within a step nothing depends on
 * the bits of a NaN, and what leaves the step is kept. Half the instructions, where most of
 * them are. */
VEC_INLINE void advance(const struct row *w, float *s, size_t stride, size_t n_dim,
                        size_t n_vecs, const f8 *d, f8 *sum)
{
    const f8 decay = vec_all(w->decay);
    f8 k = vec_all(w->k[0]), q = vec_all(w->q[0]);
    UNROLL
    for (size_t e = 0; e < n_vecs; e++) {
        const f8 x = vec_clip(vec_load(s + LANES * e) * decay + k * d[e]);
        vec_store(s + LANES * e, x);
        sum[e] = x * q;
    }
    for (size_t i = 1; i < n_dim; i++) {
        k = vec_all(w->k[i]), q = vec_all(w->q[i]);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            float *at = s + i * stride + LANES * e;
            const f8 x = vec_clip(vec_load(at) * decay + k * d[e]);
            vec_store(at, x);
            sum[e] = sum[e] + x * q;
        }
    }
}

/* All rows of n_vecs vectors of columns from column lo on. Between rows their states are on the
 * stack, if they fit, so that r->to is written once. */
VEC_INLINE void columns(const struct recur *r, size_t head, size_t lo, size_t n_vecs)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo, n_bytes = n_vecs * sizeof(f8);
    _Alignas(32) float beside[MAX_BESIDE * RECUR_COLS];
    const bool fits = r->n_dim <= MAX_BESIDE;
    float *s = fits ? beside : r->to + at;
    const size_t stride = fits ? LANES * n_vecs : r->n_width;
    for (size_t i = 0; i < r->n_dim; i++)
        memcpy(s + i * stride, r->in + at + i * r->n_width, n_bytes);
    for (size_t row = 0; row < r->n_rows; row++) {
        const float *gates = r->gates + row * r->gates_stride;
        const struct row w = {.q = r->q + row * r->q_stride + group,
                              .k = r->k + row * r->k_stride + group,
                              .v = r->v + row * r->v_stride + first,
                              .decay = gates[head],
                              .step = gates[r->n_heads + head],
                              .delta = r->delta};
        f8 d[N_VECS], sum[N_VECS];
        target(&w, s, stride, r->n_dim, n_vecs, d);
        advance(&w, s, stride, r->n_dim, n_vecs, d, sum);
        if (!r->out) continue;
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            if (r->skip) sum[e] = sum[e] + vec_all(r->skip[head]) * vec_load(w.v + LANES * e);
            vec_store(r->out + row * r->out_stride + first + LANES * e, num8_keep(sum[e]));
        }
    }
    for (size_t i = 0; i < r->n_dim; i++) {
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            const f8 x = num8_keep(vec_load(s + i * stride + LANES * e));
            float *to = r->to + at + i * r->n_width + LANES * e;
            if (r->streams)
                _mm256_stream_ps(to, x);
            else
                vec_store(to, x);
        }
    }
}

void avx2_recur(const struct recur *r, size_t head, size_t lo, size_t hi)
{
    if (hi - lo == RECUR_COLS) {
        columns(r, head, lo, N_VECS);
        lo = hi;
    }
    for (; lo + LANES <= hi; lo += LANES)
        columns(r, head, lo, 1);
    if (r->streams) _mm_sfence();
    if (lo < hi) ref_recur(r, head, lo, hi);
}
