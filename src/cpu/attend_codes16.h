/* Attention over KV types of codes, a lane a query: what AVX-512 and AMX share, which is all
 * but how codes are laid out and multiplied. For attend_q_*.c only; ref_attend_q.c has the
 * arithmetic. */
#ifndef CPU_ATTEND_CODES16_H
#define CPU_ATTEND_CODES16_H

#include "cpu/attend_avx512.h"
#include "cpu/avx2.h"

enum { STEPS_AT_ONCE = 4 /* scales whose steps of weights are found together */ };

/* Of scales, and of the dims of one: all of q8_0, blocks of q4_0. */
struct shares {
    size_t n, dims;
};

VEC_INLINE struct shares shares_of(const struct kv_layer *kv, size_t dim)
{
    const size_t n = kv_scales(kv->type, dim);
    return (struct shares){n, dim / n};
}

/* ---- queries ---- */

/* A group's queries: four codes of a lane's query in each, and their scales. Those of a scale
 * take as many lines as the kernels ask for, of which the last may hold anything. */
struct queries {
    bz *codes; /* [scales][lines] */
    fz *d;     /* [scales] */
};

VEC_INLINE struct queries queries_at(const struct kv_layer *kv, size_t lines, const void *q)
{
    bz *codes = (bz *)q;
    return (struct queries){codes, (fz *)(codes + shares_of(kv, kv->head_dim_k).n * lines)};
}

static size_t queries_bytes(const struct kv_layer *kv, size_t lines)
{
    const size_t dk = kv->head_dim_k, n = shares_of(kv, dk).n;
    /* And where a query is quantised before it becomes a lane. */
    return n * (lines * sizeof(bz) + sizeof(fz) + sizeof(float)) + dk +
           dk / A8_HALF * sizeof(int16_t);
}

static void lay_queries(const struct attend *a, size_t lines, const float *const x[Z_LANES],
                        void *q)
{
    const struct kv_layer *kv = a->kv;
    const struct shares of = shares_of(kv, kv->head_dim_k);
    const struct queries to = queries_at(kv, lines, q);
    float *d = (float *)(to.d + of.n);
    int16_t *sums = (int16_t *)(d + of.n);
    int8_t *row = (int8_t *)(sums + kv->head_dim_k / A8_HALF);
    for (size_t i = 0; i < Z_LANES; i++) {
        avx2_query_codes(kv, a->factors.query, x[i], row, d, sums);
        for (size_t b = 0; b < of.n; b++) {
            uint8_t *codes = (uint8_t *)(to.codes + b * lines) + 4 * i;
            for (size_t k = 0; k < of.dims / 4; k++)
                memcpy(codes + k * sizeof(bz), row + b * of.dims + 4 * k, 4);
            to.d[b][i] = d[b];
        }
    }
}

/* ---- codes and scales of a page ---- */

static void read_scales(const uint16_t *from, size_t n, float *to)
{
    for (size_t i = 0; i < n * PAGE_LEN; i += Z_LANES)
        z_store_f(to + i, z_bf16(from + i));
}

/* Codes 0..15 of q4_0 in bytes, less their bias. */
VEC_INLINE bz nibbles(bz x, int high)
{
    return ((high ? z_shift_right(x, 4) : x) & 0x0f) - 8;
}

/* Sixteen codes of a value: dims e.. of a row. */
VEC_INLINE iz value_codes(bool is_q4, const uint8_t *row, size_t e)
{
    if (!is_q4) return z_widen(row + e);
    const iz x = z_widen(row + e / KV_BLOCK * 16);
    return ((e % KV_BLOCK ? x >> 4 : x) & 15) - 8;
}

/* Part i of n of what a head has in the next page is asked for. */
VEC_INLINE void fetch_part(const struct kv_layer *kv, const struct head_page *p, size_t i,
                           size_t n)
{
    const size_t k = kv_code_bytes(kv->type, kv->head_dim_k) / 64;
    const size_t v = kv_code_bytes(kv->type, kv->head_dim_v) / 64;
    const uint8_t *base = p->next;
    for (size_t line = k * i / n; line < k * (i + 1) / n; line++)
        z_fetch_far(base + p->at->k + 64 * line);
    for (size_t line = v * i / n; line < v * (i + 1) / n; line++)
        z_fetch_far(base + p->at->v + 64 * line);
}

/* Of keys key..key+3: dims e.. to e + 15. The sign of a scale of q4_0 goes to its codes. */
VEC_INLINE bz value_quad(bool is_q4, const uint8_t *from, const float *scales, size_t dv,
                         size_t key, size_t e)
{
    const size_t row_bytes = is_q4 ? dv / 2 : dv;
    const float *d = is_q4 ? scales + e / KV_BLOCK * PAGE_LEN : scales;
    iz v[4];
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        v[i] = value_codes(is_q4, from + (key + i) * row_bytes, e);
        if (is_q4 && d[key + i] < 0) v[i] = -v[i];
    }
    return z_quad(v[0], v[1], v[2], v[3]);
}

static void drop_signs(float *scales, size_t n)
{
    for (size_t i = 0; i < n * PAGE_LEN; i += Z_LANES)
        z_store(scales + i, (bz)((iz)z_load_f(scales + i) & 0x7fffffff));
}

/* ---- weights ---- */

/* Whether the softmax can make the weights. */
VEC_INLINE bool one_value_scale(const struct kv_layer *kv)
{
    return shares_of(kv, kv->head_dim_v).n == 1;
}

/* A probability times a scale of the values, or with NULL the weight that is there,
 * which is 0 where a lane sees nothing. */
VEC_INLINE fz weight_of(bool whole, const struct seen *t, const fz *p, const float *d,
                        size_t key)
{
    if (!d) return p[key];
    const fz w = p[key] * z_all(d[key]);
    return whole ? w : z_choose(seen_by(t, key), w, z_all(0));
}

/* What makes integers of the weights of a scale, and numbers of their sums. */
struct weights_step {
    fz inverse, step;
};

VEC_INLINE struct weights_step weights_step(iz max, int most)
{
    const mz fine = z_less(max, z_all_i(LARGEST));
    const fz step = num16_keep((fz)max * z_all(1.0f / (float)most));
    const fz inverse = z_all((float)most) * num16_rcp((fz)max);
    const mz some = z_less(z_all_i(0), (iz)step) & fine;
    return (struct weights_step){z_choose(some, inverse, z_all(0)),
                                 z_choose(fine, step, (fz)z_all_u(NUM_NAN))};
}

/* Of n scales at once, whose long chains go on side by side. The scales d are not negative:
 * only a NaN that is one of the lane's own probabilities is. */
VEC_INLINE void weights_steps_of(bool whole, const size_t n, const struct seen *t, const fz *p,
                                 const float *d, int most, struct weights_step *out)
{
    iz max[2][STEPS_AT_ONCE] = {{{0}}};
    const size_t to = (t->to + KEY_TILE - 1) / KEY_TILE * KEY_TILE;
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < to; j += 2) {
        UNROLL for (size_t i = 0; i < 2; i++)
        {
            UNROLL for (size_t b = 0; b < n; b++) max[i][b] =
                z_max_i(max[i][b], (iz)weight_of(whole, t, p, d + b * PAGE_LEN, j + i));
        }
    }
    UNROLL for (size_t b = 0; b < n; b++) out[b] =
        weights_step(z_max_i(max[0][b], max[1][b]), most);
}

VEC_INLINE void weights_steps(bool whole, size_t n, const struct seen *t, const fz *p,
                              const float *d, int most, struct weights_step *out)
{
    size_t b = 0;
    for (; b + STEPS_AT_ONCE <= n; b += STEPS_AT_ONCE)
        weights_steps_of(whole, STEPS_AT_ONCE, t, p, d + b * PAGE_LEN, most, out + b);
    for (; b < n; b++)
        weights_steps_of(whole, 1, t, p, d + b * PAGE_LEN, most, out + b);
}

/* The weight of a key as an integer, in the low byte of each lane: rne (numeric.h) adds
 * 1.5 · 2^23. */
VEC_INLINE iz weight_code(bool whole, const struct seen *t, const fz *p, const float *d,
                          fz inverse, size_t key)
{
    return (iz)(weight_of(whole, t, p, d, key) * inverse + z_all(12582912.0f));
}

/* Those of a scale, in fours. */
VEC_INLINE void make_weights(bool whole, const struct seen *t, const fz *p, const float *d,
                             fz inverse, bz *u)
{
    for (size_t j = t->from / KEY_TILE * KEY_TILE; j < t->to; j += STRIPE) {
        UNROLL for (size_t i = 0; i < STRIPE; i += 4)
        {
            iz w[4];
            UNROLL for (size_t k = 0; k < 4; k++) w[k] =
                weight_code(whole, t, p, d, inverse, j + i + k);
            u[(j + i) / 4] = z_quad(w[0], w[1], w[2], w[3]);
        }
    }
}

/* ---- values ---- */

enum { SCALES = 8 /* whose weights are prepared before values are read */ };

/* The values of a page, laid out. */
struct page_values {
    const float *scales; /* [scales][PAGE_LEN] */
    const int8_t *codes; /* as the kernels read them, PAGE_LEN for each dim */
    bz *u;               /* [AT_ONCE][PAGE_LEN/4]: weights of four keys each, of one scale; 0
                          * for keys that no lane sees */
    iz *sums;            /* [AT_ONCE][PAGE_LEN]: room for sum_values, or NULL */
};

/* The dims from e to end, of one scale, of n items, whose weights are made: the integer sums,
 * times step, join the outputs. */
typedef void sum_values_fn(int n, const struct item *x, const struct page_values *v,
                           const fz *const step[AT_ONCE], size_t e, size_t end);

/* With one scale: the weights are there. */
VEC_INLINE void values_of_one(bool whole, int n, size_t dv, int most,
                              const struct page_values *v, const struct item *x,
                              sum_values_fn *sum_values)
{
    struct weights_step w[AT_ONCE];
    const fz *step[AT_ONCE];
    for (int r = 0; r < n; r++) {
        w[r] = weights_step(x[r].largest, most);
        step[r] = &w[r].step;
        make_weights(whole, &x[r].t, x[r].s, NULL, w[r].inverse, v->u + r * PAGE_LEN / 4);
    }
    sum_values(n, x, v, step, 0, dv);
}

VEC_INLINE void values_of(bool whole, int n, const struct kv_layer *kv,
                          const struct page_values *v, const struct item *x,
                          sum_values_fn *sum_values)
{
    const struct shares of = shares_of(kv, kv->head_dim_v);
    const int most = attend_weight_max(kv->type == KV_Q4_0);
    struct weights_step w[AT_ONCE][SCALES];
    if (!whole) memset(v->u, 0, (size_t)n * PAGE_LEN / 4 * sizeof *v->u);
    if (one_value_scale(kv)) {
        values_of_one(whole, n, of.dims, most, v, x, sum_values);
        return;
    }
    for (size_t from = 0; from < of.n; from += SCALES) {
        const size_t n_here = of.n - from < SCALES ? of.n - from : SCALES;
        const float *d = v->scales + from * PAGE_LEN;
        for (int r = 0; r < n; r++)
            weights_steps(whole, n_here, &x[r].t, x[r].s, d, most, w[r]);
        for (size_t b = 0; b < n_here; b++) {
            const fz *step[AT_ONCE];
            for (int r = 0; r < n; r++) {
                bz *u = v->u + r * PAGE_LEN / 4;
                step[r] = &w[r][b].step;
                make_weights(whole, &x[r].t, x[r].s, d + b * PAGE_LEN, w[r][b].inverse, u);
            }
            sum_values(n, x, v, step, (from + b) * of.dims, (from + b + 1) * of.dims);
        }
    }
}

/* Of a page: groups that see all of it go together. */
VEC_INLINE void values_of_items(const struct kv_layer *kv, const struct page_values *v,
                                const struct item *x, size_t n, sum_values_fn *sum_values)
{
    if (both_whole(x, n)) {
        values_of(true, 2, kv, v, x, sum_values);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (x[i].t.whole)
            values_of(true, 1, kv, v, &x[i], sum_values);
        else
            values_of(false, 1, kv, v, &x[i], sum_values);
    }
}

#endif
