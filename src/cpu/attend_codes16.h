/* Attention over KV types of codes, a lane a query: what AVX-512 and AMX share, which is all
 * but how codes are laid out and multiplied. For attend_q_*.c only; ref_attend_q.c has the
 * arithmetic. */
#ifndef CPU_ATTEND_CODES16_H
#define CPU_ATTEND_CODES16_H

#include "cpu/attend_avx512.h"
#include "cpu/avx2.h"

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

VEC_INLINE struct queries queries_at(struct shares of, size_t lines, const void *q)
{
    bz *codes = (bz *)q;
    return (struct queries){codes, (fz *)(codes + of.n * lines)};
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
    const struct queries to = queries_at(of, lines, q);
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

/* Sixteen codes of a value of q4_0: dims e.. of a row. */
VEC_INLINE iz value_codes(const uint8_t *row, size_t e)
{
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
    if (!is_q4) return z_columns(from + key * dv + e, dv);
    const float *d = scales + e / KV_BLOCK * PAGE_LEN;
    iz v[4];
    UNROLL for (size_t i = 0; i < 4; i++)
    {
        v[i] = value_codes(from + (key + i) * dv / 2, e);
        if (d[key + i] < 0) v[i] = -v[i];
    }
    return z_quad(v[0], v[1], v[2], v[3]);
}

static void drop_signs(float *scales, size_t n)
{
    for (size_t i = 0; i < n * PAGE_LEN; i += Z_LANES)
        z_store(scales + i, (bz)((iz)z_load_f(scales + i) & 0x7fffffff));
}

/* ---- weights ---- */

/* Of the keys of a page: the logarithm and the inverse of the scale of a weight, and with q4_0
 * the scales as shares of it. The scales are not negative, but for a NaN. */
static void weigh_page(const struct kv_layer *kv, float *scales, float *log2, float *inverse)
{
    const size_t n = shares_of(kv, kv->head_dim_v).n;
    for (size_t j = 0; j < PAGE_LEN; j += Z_LANES) {
        iz max = {0};
        for (size_t b = 0; b < n; b++)
            max = z_max_i(max, (iz)((uz)z_load_f(scales + b * PAGE_LEN + j) & NUM_ABS));
        const fz d = num16_weight_scale((fz)max);
        const fz r = num16_weight_inverse(d) * z_all(attend_weight_unit(kv));
        z_store_f(log2 + j, num16_weight_log2(d));
        z_store_f(inverse + j, r);
        for (size_t b = 0; kv->type == KV_Q4_0 && b < n; b++) {
            float *share = scales + b * PAGE_LEN + j;
            z_store_f(share, z_load_f(share) * r);
        }
    }
}

/* A weight with its scale, which of keys that are not seen may be anything. */
VEC_INLINE fz share_of(const struct item *x, const float *shares, size_t key)
{
    const fz w = x->s[key] * z_all(shares[key]);
    return x->t.whole ? w : z_choose(seen_by(&x->t, key), w, z_all(0));
}

/* Weights of a scale as integers, in fours: 0 for keys that a lane does not see. */
static void make_weights(const struct item *x, const float *shares, bz *u)
{
    if (!x->t.whole) memset(u, 0, PAGE_LEN / 4 * sizeof *u);
    for (size_t j = x->t.from / KEY_TILE * KEY_TILE; j < x->t.to; j += STRIPE) {
        UNROLL for (size_t i = 0; i < STRIPE; i += 4)
        {
            fz w[4];
            UNROLL for (size_t k = 0; k < 4; k++) w[k] = share_of(x, shares, j + i + k);
            u[(j + i) / 4] = z_bytes(w);
        }
    }
}

/* ---- values ---- */

/* The values of a page, laid out. */
struct page_values {
    struct shares of;
    const float *shares; /* [scales][PAGE_LEN] */
    const int8_t *codes; /* as the kernels read them, PAGE_LEN for each dim */
    iz *sums;            /* [AT_ONCE][PAGE_LEN]: room for sum_values, or NULL */
};

/* The dims from e to end, of one scale, of n items, whose weights are made: the integer sums
 * join the outputs. */
typedef void sum_values_fn(int n, const struct item *x, const struct page_values *v, size_t e,
                           size_t end);

VEC_INLINE void values_of(int n, const struct kv_layer *kv, const struct page_values *v,
                          const struct item *x, sum_values_fn *sum_values)
{
    const struct shares of = v->of;
    for (size_t b = 0; b < of.n; b++) {
        for (int r = 0; kv->type == KV_Q4_0 && r < n; r++)
            make_weights(&x[r], v->shares + b * PAGE_LEN, x[r].u);
        sum_values(n, x, v, b * of.dims, (b + 1) * of.dims);
    }
}

/* Of a page: groups that see all of it go together. */
VEC_INLINE void values_of_items(const struct kv_layer *kv, const struct page_values *v,
                                const struct item *x, size_t n, sum_values_fn *sum_values)
{
    if (both_whole(x, n)) {
        values_of(2, kv, v, x, sum_values);
        return;
    }
    for (size_t i = 0; i < n; i++)
        values_of(1, kv, v, &x[i], sum_values);
}

#endif
