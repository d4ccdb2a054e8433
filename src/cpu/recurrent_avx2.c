/* The ops of recurrent layers on AVX2; see ref_recurrent.c for what they compute. Lanes are
 * channels, heads or columns, never tokens. Odd ends go to ref_*. */
#include <math.h>
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

/* The logarithms of decays whose x + bias is y, with a bound; factor is not below 0. */
VEC_INLINE f8 log_bounded(f8 y, f8 factor, float bound)
{
    return num8_keep(num8_keep(num8_sigmoid(num8_keep(y * factor))) * vec_all(bound));
}

/* With one or without. */
VEC_INLINE f8 log_decay(f8 y, f8 factor, float bound)
{
    if (bound == 0.0f) return num8_keep(num8_softplus(y) * factor);
    return log_bounded(y, factor, bound);
}

/* Heads with several decays each; their steps are few. */
static void decay_many(const struct op_decay *op, const float *in, const float *bias,
                       const float *a, float *out)
{
    const size_t n_each = decay_n_each(op), n_heads = decay_n_heads(op), run = op->run;
    if (n_each % LANES != 0) {
        ref_decay(op, in, bias, a, out);
        return;
    }
    for (size_t h = 0; h < n_heads; h++) {
        const float *runs = in + h / run * run * (n_each + 1),
                    *x = runs + run + h % run * n_each;
        const f8 factor = vec_all(op->bound < 0 ? fabsf(a[h]) : a[h]);
        for (size_t i = 0; i < n_each; i += LANES) {
            const f8 shift = vec_load(bias + h * n_each + i);
            const f8 y = num8_keep(vec_load(x + i) + shift);
            vec_store(out + h * n_each + i, num8_exp(log_decay(y, factor, op->bound)));
        }
        out[n_heads * n_each + h] = num_keep(num_sigmoid(runs[h % run]));
    }
}

void avx2_decay(const struct op_decay *op, const float *in, const float *bias, const float *a,
                float *out)
{
    const size_t n_heads = decay_n_heads(op), run = op->betas ? op->run : n_heads;
    if (decay_n_each(op) > 1) {
        decay_many(op, in, bias, a, out);
        return;
    }
    if (run % LANES != 0 || op->in.n == 0) {
        ref_decay(op, in, bias, a, out);
        return;
    }
    for (size_t h = 0; h < n_heads; h += LANES) {
        const float *runs = in + (op->betas ? h / run * 2 * run : 0);
        const f8 x = vec_load(runs + h % run + (op->betas ? run : 0)), factor = vec_load(a + h);
        const f8 y = num8_keep(x + vec_load(bias + h));
        f8 dt = op->by_exp ? num8_exp(y) : num8_softplus(y);
        const f8 log = op->bound < 0 ? log_bounded(y, (f8)((i8x)factor & 0x7fffffff), op->bound)
                                     : num8_keep(dt * factor);
        vec_store(out + h, num8_exp(log));
        if (op->betas) dt = num8_keep(num8_sigmoid(vec_load(runs + h % run)));
        vec_store(out + n_heads + h, dt);
    }
}

/* ---- states ---- */

/* What a row asks of n_vecs vectors of columns of one head. */
struct row {
    const float *q, *k, *v, *decay;
    float step;
    bool delta;
};

/* What the states are multiplied by in k S: with a decay of each dim k after it. */
VEC_INLINE f8 key(const struct row *w, size_t i, bool by_dim)
{
    const f8 k = vec_all(w->k[i]);
    return by_dim ? vec_clip(k * vec_all(w->decay[i])) : k;
}

/* d of each column: what is new times the step. */
VEC_INLINE void target(const struct row *w, const float *s, size_t stride, size_t n_dim,
                       size_t n_vecs, bool by_dim, f8 *d)
{
    f8 held[N_VECS];
    UNROLL
    for (size_t e = 0; e < n_vecs; e++)
        d[e] = vec_load(w->v + LANES * e);
    if (w->delta) {
        f8 k = key(w, 0, by_dim);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            held[e] = vec_load(s + LANES * e) * k;
        for (size_t i = 1; i < n_dim; i++) {
            k = key(w, i, by_dim);
            UNROLL
            for (size_t e = 0; e < n_vecs; e++)
                held[e] = held[e] + vec_load(s + i * stride + LANES * e) * k;
        }
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            held[e] = num8_keep(held[e]);
            if (!by_dim) held[e] = held[e] * vec_all(w->decay[0]);
            d[e] = num8_keep(d[e] - held[e]);
        }
    }
    UNROLL
    for (size_t e = 0; e < n_vecs; e++)
        d[e] = num8_keep(vec_all(w->step) * d[e]);
}

/* S = decay S + k d, and q S. S is clipped instead of kept: within a step nothing depends on
 * the bits of a NaN, and what leaves the step is kept. Half the instructions, where most of
 * them are. */
VEC_INLINE void advance(const struct row *w, float *s, size_t stride, size_t n_dim,
                        size_t n_vecs, bool by_dim, const f8 *d, f8 *sum)
{
    f8 decay = vec_all(w->decay[0]);
    f8 k = vec_all(w->k[0]), q = vec_all(w->q[0]);
    UNROLL
    for (size_t e = 0; e < n_vecs; e++) {
        const f8 x = vec_clip(vec_load(s + LANES * e) * decay + k * d[e]);
        vec_store(s + LANES * e, x);
        sum[e] = x * q;
    }
    for (size_t i = 1; i < n_dim; i++) {
        k = vec_all(w->k[i]), q = vec_all(w->q[i]);
        if (by_dim) decay = vec_all(w->decay[i]);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            float *at = s + i * stride + LANES * e;
            const f8 x = vec_clip(vec_load(at) * decay + k * d[e]);
            vec_store(at, x);
            sum[e] = sum[e] + x * q;
        }
    }
}

/* States of some columns between rows. */
struct held_states {
    float *at;
    size_t stride;
};

/* The states of n_vecs vectors of columns, which are at `at` of r: beside, if they fit. */
VEC_INLINE struct held_states take_states(const struct recur *r, size_t at, size_t n_vecs,
                                          float *beside)
{
    const bool fits = r->n_dim <= MAX_BESIDE;
    const struct held_states s = {fits ? beside : r->to + at,
                                  fits ? LANES * n_vecs : r->n_width};
    for (size_t i = 0; i < r->n_dim; i++)
        memcpy(s.at + i * s.stride, r->in + at + i * r->n_width, n_vecs * sizeof(f8));
    return s;
}

VEC_INLINE void put_states(const struct recur *r, size_t at, size_t n_vecs,
                           const struct held_states *s)
{
    for (size_t i = 0; i < r->n_dim; i++) {
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            const f8 x = num8_keep(vec_load(s->at + i * s->stride + LANES * e));
            float *to = r->to + at + i * r->n_width + LANES * e;
            if (r->streams)
                _mm256_stream_ps(to, x);
            else
                vec_store(to, x);
        }
    }
}

/* All rows of n_vecs vectors of columns from column lo on. Between rows their states are on the
 * stack, if they fit, so that r->to is written once. */
VEC_INLINE void columns(const struct recur *r, size_t head, size_t lo, size_t n_vecs,
                        bool by_dim)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo;
    _Alignas(32) float beside[MAX_BESIDE * RECUR_COLS];
    const struct held_states s = take_states(r, at, n_vecs, beside);
    for (size_t row = 0; row < r->n_rows; row++) {
        const float *gates = r->gates + row * r->gates_stride;
        const struct row w = {.q = r->q + row * r->q_stride + group,
                              .k = r->k + row * r->k_stride + group,
                              .v = r->v + row * r->v_stride + first,
                              .decay = gates + recur_decay_at(r, head),
                              .step = gates[recur_step_at(r, head)],
                              .delta = r->delta};
        f8 d[N_VECS], sum[N_VECS];
        target(&w, s.at, s.stride, r->n_dim, n_vecs, by_dim, d);
        advance(&w, s.at, s.stride, r->n_dim, n_vecs, by_dim, d, sum);
        if (!r->out) continue;
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            if (r->skip) sum[e] = sum[e] + vec_all(r->skip[head]) * vec_load(w.v + LANES * e);
            vec_store(r->out + row * r->out_stride + first + LANES * e, num8_keep(sum[e]));
        }
    }
    put_states(r, at, n_vecs, &s);
}

/* ---- states whose values decay each by itself ---- */

/* Whether no a of the columns is above 0: then no decay is more than 1. */
VEC_INLINE bool all_decay(const struct recur *r, size_t at, size_t n_vecs)
{
    i8x above = {0};
    for (size_t i = 0; i < r->n_dim; i++)
        for (size_t e = 0; e < n_vecs; e++)
            above |= vec_less((f8){0}, vec_load(r->a + at + i * r->n_width + LANES * e));
    return _mm256_testz_si256((__m256i)above, (__m256i)above);
}

/* What one row makes of the states s: sums of S q. a is as far from row to row as the states in
 * memory. */
VEC_INLINE void advance_each(const struct row *w, const float *a, size_t a_stride, float *s,
                             size_t stride, size_t n_dim, size_t n_vecs, bool decays, f8 *sum)
{
    f8 step[N_VECS], d[N_VECS], x[N_VECS];
    UNROLL
    for (size_t e = 0; e < n_vecs; e++) {
        step[e] = num8_softplus(vec_load(w->decay + LANES * e));
        d[e] = num8_keep(step[e] * vec_load(w->v + LANES * e));
        sum[e] = (f8){0};
    }
    for (size_t i = 0; i < n_dim; i++) {
        const f8 k = vec_all(w->k[i]), q = vec_all(w->q[i]);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            x[e] = vec_clip(step[e] * vec_load(a + i * a_stride + LANES * e));
        if (decays) {
            vec_exp_below(x, (int)n_vecs);
        } else {
            UNROLL
            for (size_t e = 0; e < n_vecs; e++)
                x[e] = num8_exp(x[e]);
        }
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            float *at = s + i * stride + LANES * e;
            x[e] = vec_clip(vec_load(at) * x[e] + k * d[e]);
            vec_store(at, x[e]);
            sum[e] = sum[e] + x[e] * q;
        }
    }
}

/* ---- states with an erasure ---- */

/* What one row makes of the states s: sums of S q. The vector e is as far behind the decays as
 * f is behind e. */
VEC_INLINE void advance_erase(const struct row *w, size_t apart, float *s, size_t stride,
                              size_t n_dim, size_t n_vecs, f8 *sum)
{
    const float *ei = w->decay + apart, *fi = ei + apart;
    f8 held[N_VECS], v[N_VECS];
    UNROLL
    for (size_t e = 0; e < n_vecs; e++) {
        v[e] = vec_load(w->v + LANES * e);
        held[e] = sum[e] = (f8){0};
    }
    for (size_t i = 0; i < n_dim; i++) {
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            held[e] = held[e] + vec_load(s + i * stride + LANES * e) * vec_all(ei[i]);
    }
    UNROLL
    for (size_t e = 0; e < n_vecs; e++)
        held[e] = num8_keep(held[e]);
    for (size_t i = 0; i < n_dim; i++) {
        const f8 decay = vec_all(w->decay[i]), k = vec_all(w->k[i]), f = vec_all(fi[i]);
        UNROLL
        for (size_t e = 0; e < n_vecs; e++) {
            float *at = s + i * stride + LANES * e;
            const f8 x = vec_clip(vec_load(at) * decay + k * v[e] - f * held[e]);
            vec_store(at, x);
            sum[e] = sum[e] + x * vec_all(w->q[i]);
        }
    }
}

/* How states advance but for the rules of columns: values that decay each by itself, all of
 * them surely or not, and an erasure. */
enum own { OWN_EACH, OWN_EACH_DECAYS, OWN_ERASE };

/* As columns. */
VEC_INLINE void columns_own(const struct recur *r, size_t head, size_t lo, size_t n_vecs,
                            const enum own own)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo;
    const size_t gate = own == OWN_ERASE ? recur_decay_at(r, head) : first;
    _Alignas(32) float beside[MAX_BESIDE * RECUR_COLS];
    const struct held_states s = take_states(r, at, n_vecs, beside);
    for (size_t row = 0; row < r->n_rows; row++) {
        const struct row w = {.q = r->q + row * r->q_stride + group,
                              .k = r->k + row * r->k_stride + group,
                              .v = r->v + row * r->v_stride + first,
                              .decay = r->gates + row * r->gates_stride + gate};
        f8 sum[N_VECS];
        if (own == OWN_ERASE)
            advance_erase(&w, recur_erase_apart(r), s.at, s.stride, r->n_dim, n_vecs, sum);
        else
            advance_each(&w, r->a + at, r->n_width, s.at, s.stride, r->n_dim, n_vecs,
                         own == OWN_EACH_DECAYS, sum);
        if (!r->out) continue;
        UNROLL
        for (size_t e = 0; e < n_vecs; e++)
            vec_store(r->out + row * r->out_stride + first + LANES * e, num8_keep(sum[e]));
    }
    put_states(r, at, n_vecs, &s);
}

/* ---- all columns of a stretch ---- */

/* How the states of a head advance. */
enum rule { RULE_HEAD, RULE_BY_DIM, RULE_EACH, RULE_ERASE };

/* n_vecs vectors of columns by some rule. */
VEC_INLINE void columns_by(const struct recur *r, size_t head, size_t lo, size_t n_vecs,
                           const enum rule rule)
{
    if (rule == RULE_ERASE)
        columns_own(r, head, lo, n_vecs, OWN_ERASE);
    else if (rule != RULE_EACH)
        columns(r, head, lo, n_vecs, rule == RULE_BY_DIM);
    else if (all_decay(r, head * r->n_dim * r->n_width + lo, n_vecs))
        columns_own(r, head, lo, n_vecs, OWN_EACH_DECAYS);
    else
        columns_own(r, head, lo, n_vecs, OWN_EACH);
}

/* Columns lo.. in as many vectors as are whole; returns where they end. */
VEC_INLINE size_t whole_columns(const struct recur *r, size_t head, size_t lo, size_t hi,
                                const enum rule rule)
{
    if (hi - lo == RECUR_COLS) {
        columns_by(r, head, lo, N_VECS, rule);
        return hi;
    }
    for (; lo + LANES <= hi; lo += LANES)
        columns_by(r, head, lo, 1, rule);
    return lo;
}

void avx2_recur(const struct recur *r, size_t head, size_t lo, size_t hi)
{
    if (r->a)
        lo = whole_columns(r, head, lo, hi, RULE_EACH);
    else if (r->erase)
        lo = whole_columns(r, head, lo, hi, RULE_ERASE);
    else if (r->by_dim)
        lo = whole_columns(r, head, lo, hi, RULE_BY_DIM);
    else
        lo = whole_columns(r, head, lo, hi, RULE_HEAD);
    if (r->streams) _mm_sfence();
    if (lo < hi) ref_recur(r, head, lo, hi);
}
