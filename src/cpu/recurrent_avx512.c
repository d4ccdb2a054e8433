/* The ops of recurrent layers in sixteen lanes; see ref_recurrent.c for what they compute.
 * Lanes are channels or columns, never tokens. Odd ends go to ref_*. */
#include "cpu/avx512.h"
#include "cpu/lanes16.h"
#include "cpu/ref.h"

enum { MAX_TAPS = 8, N_VECS = RECUR_COLS / Z_LANES, MAX_BESIDE = 256 };

/* ---- convolution ---- */

/* The channels of n vectors from i on of a row whose taps read rows[0..n_taps). */
VEC_INLINE void conv_lanes(const struct conv *c, const float *const *rows, size_t i,
                           const int n, float *out)
{
    fz y[Z_AT_ONCE], s[Z_AT_ONCE];
    UNROLL for (int v = 0; v < n; v++)
    {
        const size_t at = i + Z_LANES * (size_t)v;
        fz sum = z_load_f(rows[0] + at) * z_load_f(c->w + at);
        for (size_t j = 1; j < c->n_taps; j++)
            sum = sum + z_load_f(rows[j] + at) * z_load_f(c->w + j * c->n + at);
        if (c->bias) sum = sum + z_load_f(c->bias + at);
        y[v] = z_kept(sum);
    }
    if (c->silu) {
        z_sigmoids(y, n, s);
        UNROLL for (int v = 0; v < n; v++) y[v] = z_kept(y[v] * s[v]);
    }
    UNROLL for (int v = 0; v < n; v++) z_store_f(out + i + Z_LANES * (size_t)v, y[v]);
}

void avx512_conv(const struct conv *c, size_t lo, size_t hi)
{
    if (c->n_taps > MAX_TAPS || c->n % Z_LANES != 0) {
        ref_conv(c, lo, hi);
        return;
    }
    for (size_t r = lo; r < hi; r++) {
        const float *rows[MAX_TAPS];
        for (size_t j = 0; j < c->n_taps; j++)
            rows[j] = conv_row(c, r + j);
        float *out = c->out + r * c->out_stride;
        size_t i = 0;
        for (; i + Z_AT_ONCE * Z_LANES <= c->n; i += Z_AT_ONCE * Z_LANES)
            conv_lanes(c, rows, i, Z_AT_ONCE, out);
        for (; i < c->n; i += Z_LANES)
            conv_lanes(c, rows, i, 1, out);
    }
}

/* ---- states ---- */

/* Columns of one head: where their states lie, and what comes and goes by row. */
struct columns {
    const struct recur *r;
    const float *q, *k, *v, *gates; /* of row 0 */
    const float *in;                /* the states before row 0 */
    float *to, *out;
    float *between; /* the states between two rows */
    size_t between_stride, head;
};

/* What of a head's state counts in a row, and how its decays are laid out. */
enum rule { RULE_PLAIN, RULE_DIMS, RULE_DELTA, RULE_DELTA_DIMS, RULE_EACH, RULE_ERASE };

/* Whether what a row puts in depends on S k. */
VEC_INLINE bool holds(const enum rule rule)
{
    return rule == RULE_DELTA || rule == RULE_DELTA_DIMS;
}

/* What the states are multiplied by in S k: with a decay of each dim k after it. */
VEC_INLINE fz key(const float *k, const float *decay, size_t i, const enum rule rule)
{
    return rule == RULE_DELTA_DIMS ? z_clip(z_all(k[i]) * z_all(decay[i])) : z_all(k[i]);
}

/* S k in the states before the first row. */
VEC_INLINE void hold(const struct columns *c, const int n_vecs, const enum rule rule, fz *held)
{
    const float *decay = c->gates + recur_decay_at(c->r, c->head);
    UNROLL for (int e = 0; e < n_vecs; e++) held[e] = (fz){0};
    for (size_t i = 0; i < c->r->n_dim; i++) {
        const fz k = key(c->k, decay, i, rule);
        UNROLL for (int e = 0; e < n_vecs; e++) held[e] =
            held[e] + z_load_f(c->in + i * c->r->n_width + Z_LANES * e) * k;
    }
}

/* One row: S = decay S + k d, and q S; also S k of the next row, so that the states are read
 * once. What only later rows see is clipped as in recurrent_avx2.c; sums begin at 0 instead of
 * with the first term, which differs only where a sum is -0, and keep hides that. */
VEC_INLINE void advance(const struct columns *c, size_t row, const int n_vecs,
                        const enum rule rule, const bool is_last, fz *held)
{
    const struct recur *r = c->r;
    const float *from = row == 0 ? c->in : c->between, *v = c->v + row * r->v_stride;
    float *to = is_last ? c->to : c->between;
    const size_t from_stride = row == 0 ? r->n_width : c->between_stride;
    const size_t to_stride = is_last ? r->n_width : c->between_stride;
    const float *q = c->q + row * r->q_stride, *k = c->k + row * r->k_stride;
    const float *next = is_last ? k : k + r->k_stride;
    const float *gates = c->gates + row * r->gates_stride;
    const float *decays = gates + recur_decay_at(r, c->head);
    const float *next_decays = is_last ? decays : decays + r->gates_stride;
    const fz step = z_all(gates[recur_step_at(r, c->head)]);
    fz decay = z_all(decays[0]);
    fz d[N_VECS], sum[N_VECS];
    UNROLL for (int e = 0; e < n_vecs; e++)
    {
        fz target = z_load_f(v + Z_LANES * e);
        if (rule == RULE_DELTA) target = z_kept(target - z_kept(held[e]) * decay);
        if (rule == RULE_DELTA_DIMS) target = z_kept(target - z_kept(held[e]));
        d[e] = z_kept(step * target);
        sum[e] = held[e] = (fz){0};
    }
    for (size_t i = 0; i < r->n_dim; i++) {
        const fz ki = z_all(k[i]), qi = z_all(q[i]);
        const fz next_i = key(next, next_decays, i, rule);
        if (rule == RULE_DELTA_DIMS || rule == RULE_DIMS) decay = z_all(decays[i]);
        UNROLL for (int e = 0; e < n_vecs; e++)
        {
            fz x = z_load_f(from + i * from_stride + Z_LANES * e) * decay + ki * d[e];
            float *at = to + i * to_stride + Z_LANES * e;
            x = is_last ? z_kept(x) : z_clip(x);
            if (is_last && r->streams)
                z_stream_f(at, x);
            else
                z_store_f(at, x);
            sum[e] = sum[e] + x * qi;
            if (holds(rule) && !is_last) held[e] = held[e] + x * next_i;
        }
    }
    if (!c->out) return;
    UNROLL for (int e = 0; e < n_vecs; e++)
    {
        if (r->skip) sum[e] = sum[e] + z_all(r->skip[c->head]) * z_load_f(v + Z_LANES * e);
        z_store_f(c->out + row * r->out_stride + Z_LANES * e, z_kept(sum[e]));
    }
}

/* All rows of n_vecs vectors of columns from column lo on. Between rows their states are on the
 * stack, if they fit, so that r->to is written once. */
VEC_INLINE void columns(const struct recur *r, size_t head, size_t lo, const int n_vecs,
                        const enum rule rule)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo;
    _Alignas(64) float beside[MAX_BESIDE * N_VECS * Z_LANES];
    const bool fits = r->n_dim <= MAX_BESIDE;
    const struct columns c = {.r = r,
                              .q = r->q + group,
                              .k = r->k + group,
                              .v = r->v + first,
                              .gates = r->gates,
                              .in = r->in + at,
                              .to = r->to + at,
                              .out = r->out ? r->out + first : NULL,
                              .between = fits ? beside : r->to + at,
                              .between_stride = fits ? Z_LANES * (size_t)n_vecs : r->n_width,
                              .head = head};
    fz held[N_VECS] = {{0}};
    if (holds(rule)) hold(&c, n_vecs, rule, held);
    for (size_t row = 0; row + 1 < r->n_rows; row++)
        advance(&c, row, n_vecs, rule, false, held);
    advance(&c, r->n_rows - 1, n_vecs, rule, true, held);
}

/* ---- states that are read twice by a row ---- */

/* States of some columns between rows. */
struct held_states {
    float *at;
    size_t stride;
};

/* The states of n_vecs vectors of columns, which are at `at` of r: beside, if they fit. */
VEC_INLINE struct held_states take_states(const struct recur *r, size_t at, const int n_vecs,
                                          float *beside)
{
    const bool fits = r->n_dim <= MAX_BESIDE;
    const struct held_states s = {fits ? beside : r->to + at,
                                  fits ? Z_LANES * (size_t)n_vecs : r->n_width};
    for (size_t i = 0; i < r->n_dim; i++) {
        UNROLL for (int e = 0; e < n_vecs; e++)
            z_store_f(s.at + i * s.stride + Z_LANES * e,
                      z_load_f(r->in + at + i * r->n_width + Z_LANES * e));
    }
    return s;
}

VEC_INLINE void put_states(const struct recur *r, size_t at, const int n_vecs,
                           const struct held_states *s)
{
    for (size_t i = 0; i < r->n_dim; i++) {
        UNROLL for (int e = 0; e < n_vecs; e++)
        {
            const fz x = z_kept(z_load_f(s->at + i * s->stride + Z_LANES * e));
            float *to = r->to + at + i * r->n_width + Z_LANES * e;
            if (r->streams)
                z_stream_f(to, x);
            else
                z_store_f(to, x);
        }
    }
}

/* ---- states whose values decay each by itself ---- */

/* Whether no a of the columns is above 0: then no decay is more than 1. */
VEC_INLINE bool all_decay(const struct recur *r, size_t at, const int n_vecs)
{
    bool above = false;
    for (size_t i = 0; i < r->n_dim; i++) {
        UNROLL for (int e = 0; e < n_vecs; e++)
        {
            const fz a = z_load_f(r->a + at + i * r->n_width + Z_LANES * e);
            above = above || z_any(~z_reaches(z_all(0), a));
        }
    }
    return !above;
}

/* What a row gives columns whose values have decays: it comes from memory that goes on by
 * row. */
struct each {
    const float *q, *k, *v, *gates, *a;
    size_t a_stride; /* from dim to dim */
};

/* One row: S = exp(step a) S + k d, and sums of q S. A NaN of a is made the one NaN, as which
 * z_exp_below takes it. */
VEC_INLINE void advance_each(const struct each *c, float *s, size_t stride, size_t n_dim,
                             const int n_vecs, const bool decays, fz *sum)
{
    fz step[N_VECS], d[N_VECS], x[N_VECS];
    UNROLL for (int e = 0; e < n_vecs; e++)
    {
        step[e] = num16_softplus(z_load_f(c->gates + Z_LANES * e));
        d[e] = z_kept(step[e] * z_load_f(c->v + Z_LANES * e));
        sum[e] = (fz){0};
    }
    for (size_t i = 0; i < n_dim; i++) {
        const fz k = z_all(c->k[i]), q = z_all(c->q[i]);
        UNROLL for (int e = 0; e < n_vecs; e++) x[e] =
            z_kept(step[e] * z_load_f(c->a + i * c->a_stride + Z_LANES * e));
        if (decays) {
            z_exp_below(x, n_vecs);
        } else {
            UNROLL for (int e = 0; e < n_vecs; e++) x[e] = num16_exp(x[e]);
        }
        UNROLL for (int e = 0; e < n_vecs; e++)
        {
            float *at = s + i * stride + Z_LANES * e;
            x[e] = z_clip(z_load_f(at) * x[e] + k * d[e]);
            z_store_f(at, x[e]);
            sum[e] = sum[e] + x[e] * q;
        }
    }
}

/* As columns. */
VEC_INLINE void columns_each(const struct recur *r, size_t head, size_t lo, const int n_vecs,
                             const bool decays)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo;
    _Alignas(64) float beside[MAX_BESIDE * N_VECS * Z_LANES];
    const struct held_states s = take_states(r, at, n_vecs, beside);
    for (size_t row = 0; row < r->n_rows; row++) {
        const struct each c = {.q = r->q + row * r->q_stride + group,
                               .k = r->k + row * r->k_stride + group,
                               .v = r->v + row * r->v_stride + first,
                               .gates = r->gates + row * r->gates_stride + first,
                               .a = r->a + at,
                               .a_stride = r->n_width};
        fz sum[N_VECS];
        advance_each(&c, s.at, s.stride, r->n_dim, n_vecs, decays, sum);
        if (!r->out) continue;
        UNROLL for (int e = 0; e < n_vecs; e++)
            z_store_f(r->out + row * r->out_stride + first + Z_LANES * e, z_kept(sum[e]));
    }
    put_states(r, at, n_vecs, &s);
}

/* ---- states with an erasure ---- */

/* What a row gives columns of one head. */
struct erasing {
    const float *q, *k, *v, *decay, *e, *f;
};

/* One row, and sums of q S. */
VEC_INLINE void advance_erase(const struct erasing *c, float *s, size_t stride, size_t n_dim,
                              const int n_vecs, fz *sum)
{
    fz held[N_VECS], v[N_VECS];
    UNROLL for (int e = 0; e < n_vecs; e++)
    {
        v[e] = z_load_f(c->v + Z_LANES * e);
        held[e] = sum[e] = (fz){0};
    }
    for (size_t i = 0; i < n_dim; i++) {
        const fz ei = z_all(c->e[i]);
        UNROLL for (int e = 0; e < n_vecs; e++) held[e] =
            held[e] + z_load_f(s + i * stride + Z_LANES * e) * ei;
    }
    UNROLL for (int e = 0; e < n_vecs; e++) held[e] = z_kept(held[e]);
    for (size_t i = 0; i < n_dim; i++) {
        const fz decay = z_all(c->decay[i]), k = z_all(c->k[i]), f = z_all(c->f[i]);
        const fz q = z_all(c->q[i]);
        UNROLL for (int e = 0; e < n_vecs; e++)
        {
            float *at = s + i * stride + Z_LANES * e;
            const fz x = z_clip(z_load_f(at) * decay + k * v[e] - f * held[e]);
            z_store_f(at, x);
            sum[e] = sum[e] + x * q;
        }
    }
}

/* As columns. */
VEC_INLINE void columns_erase(const struct recur *r, size_t head, size_t lo, const int n_vecs)
{
    const size_t group = recur_group(r, head) * r->n_dim, first = head * r->n_width + lo;
    const size_t at = head * r->n_dim * r->n_width + lo;
    _Alignas(64) float beside[MAX_BESIDE * N_VECS * Z_LANES];
    const struct held_states s = take_states(r, at, n_vecs, beside);
    for (size_t row = 0; row < r->n_rows; row++) {
        const float *decay = r->gates + row * r->gates_stride + recur_decay_at(r, head);
        const struct erasing c = {.q = r->q + row * r->q_stride + group,
                                  .k = r->k + row * r->k_stride + group,
                                  .v = r->v + row * r->v_stride + first,
                                  .decay = decay,
                                  .e = decay + recur_erase_apart(r),
                                  .f = decay + 2 * recur_erase_apart(r)};
        fz sum[N_VECS];
        advance_erase(&c, s.at, s.stride, r->n_dim, n_vecs, sum);
        if (!r->out) continue;
        UNROLL for (int e = 0; e < n_vecs; e++)
            z_store_f(r->out + row * r->out_stride + first + Z_LANES * e, z_kept(sum[e]));
    }
    put_states(r, at, n_vecs, &s);
}

/* ---- all columns of a stretch ---- */

/* n_vecs vectors of columns by some rule. */
VEC_INLINE void columns_by(const struct recur *r, size_t head, size_t lo, const int n_vecs,
                           const enum rule rule)
{
    if (rule == RULE_ERASE)
        columns_erase(r, head, lo, n_vecs);
    else if (rule != RULE_EACH)
        columns(r, head, lo, n_vecs, rule);
    else if (all_decay(r, head * r->n_dim * r->n_width + lo, n_vecs))
        columns_each(r, head, lo, n_vecs, true);
    else
        columns_each(r, head, lo, n_vecs, false);
}

/* Columns lo.. in as many vectors as are whole; returns where they end. */
VEC_INLINE size_t whole_columns(const struct recur *r, size_t head, size_t lo, size_t hi,
                                const enum rule rule)
{
    for (; lo + N_VECS * Z_LANES <= hi; lo += N_VECS * Z_LANES)
        columns_by(r, head, lo, N_VECS, rule);
    for (; lo + Z_LANES <= hi; lo += Z_LANES)
        columns_by(r, head, lo, 1, rule);
    return lo;
}

void avx512_recur(const struct recur *r, size_t head, size_t lo, size_t hi)
{
    if (r->n_rows > 0 && r->a)
        lo = whole_columns(r, head, lo, hi, RULE_EACH);
    else if (r->n_rows > 0 && r->erase)
        lo = whole_columns(r, head, lo, hi, RULE_ERASE);
    else if (r->n_rows > 0 && r->delta && r->by_dim)
        lo = whole_columns(r, head, lo, hi, RULE_DELTA_DIMS);
    else if (r->n_rows > 0 && r->delta)
        lo = whole_columns(r, head, lo, hi, RULE_DELTA);
    else if (r->n_rows > 0 && r->by_dim)
        lo = whole_columns(r, head, lo, hi, RULE_DIMS);
    else if (r->n_rows > 0)
        lo = whole_columns(r, head, lo, hi, RULE_PLAIN);
    if (r->streams) z_streamed();
    if (lo < hi) ref_recur(r, head, lo, hi);
}
