/* The kernels of one instruction set, and what they work on.
 *
 * A kernel computes a stretch of one op on one thread: no allocation, no locks, no other
 * thread's data. cpu.c owns the memory, exec*.c cut ops into stretches. The scalar set is the
 * definition; each member states the arithmetic in ref_*.c, next to its code. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/impl.h"
#include "backend/kv.h"
#include "backend/ops.h"
#include "cpu/pack.h"

enum {
    A8_BLOCK = 32, /* values that share a scale */
    A8_HALF = 16,  /* values that share a sum */
    ROW_PARTIALS = 32,
    RECUR_COLS = 32, /* columns of a recurrent state that are advanced together */
};

/* Rows of quantised activations. `side` rows lie side by side, a strip: its block b is the
 * blocks b of all its rows, one after the other. Kernels whose a8_side is 1 take rows one after
 * the other, side 1 and first 0. d, dsum and sum may be read three blocks past the last. */
struct a8 {
    int8_t *q;
    float *d;      /* per 32 */
    float *dsum;   /* per 32: d times the sum of q; NULL where a8_side is 1 */
    int16_t *sum;  /* per 16: of q */
    size_t stride; /* values of a row, a multiple of 32 */
    size_t side;
    size_t first; /* what counts as row 0 */
};

/* dsum of a block. */
static inline float a8_dsum(float d, const int16_t sum[2])
{
    return d * (float)(sum[0] + sum[1]);
}

/* Block b of row r: its index. */
static inline size_t a8_at(const struct a8 *a, size_t r, size_t b)
{
    const size_t row = a->first + r, beside = row % a->side;
    return (row - beside) * (a->stride / A8_BLOCK) + b * a->side + beside;
}

/* The rows from row r on. */
static inline struct a8 a8_from(struct a8 a, size_t r)
{
    a.first += r;
    if (a.side > 1) return a;
    a.q += a.first * a.stride;
    a.d += a.first * a.stride / A8_BLOCK;
    a.sum += a.first * a.stride / A8_HALF;
    if (a.dsum) a.dsum += a.first * a.stride / A8_BLOCK;
    a.first = 0;
    return a;
}

/* The same rows from block b on. */
static inline struct a8 a8_columns(struct a8 a, size_t b)
{
    a.q += b * a.side * A8_BLOCK;
    a.d += b * a.side;
    a.sum += 2 * b * a.side;
    if (a.dsum) a.dsum += b * a.side;
    return a;
}

struct cpu_weight {
    struct weight base;
    const uint8_t *file; /* borrowed, the file's layout; NULL for vectors */
    uint8_t *packed;     /* panels (pack.h) of all matrices; NULL if read in place */
    float *vector;       /* of backend_vector */
    struct cpu_weight *next;
};

/* out[r][i] = keep(factor · W[i] · in[r] + bias[i]) for all n_rows rows r. */
struct matmul {
    const struct cpu_weight *w;
    size_t mat; /* which of w's matrices */
    const float *f32;
    size_t f32_stride;
    struct a8 a8; /* quantised types read this one */
    size_t n_rows;
    const float *factor; /* NULL: none; of quantised types only */
    const float *bias;   /* NULL: none */
    float *out;
    size_t out_stride;
};

/* The panel of the values from `value` on, a multiple of PANEL_ROWS. */
static inline const uint8_t *packed_panel(const struct matmul *m, size_t value)
{
    const struct weight *w = &m->w->base;
    const size_t panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    return m->w->packed +
           (m->mat * panels + value / PANEL_ROWS) * pack_panel_bytes(w->type, w->n_cols);
}

/* Rows of a strip, for kernels whose a8_side is more than 1. */
struct strip {
    const int8_t *q;
    const float *d, *dsum;
    const int16_t *sum;
    size_t beside; /* blocks from one block of a row to its next */
};

/* Rows of m from row r on, up to the end of their strip; *n of them. */
static inline struct strip strip_at(const struct matmul *m, size_t r, size_t *n)
{
    const struct a8 *a = &m->a8;
    const size_t i = a8_at(a, r, 0), to_end = a->side - (a->first + r) % a->side;
    *n = m->n_rows - r < to_end ? m->n_rows - r : to_end;
    return (struct strip){a->q + A8_BLOCK * i, a->d + i, a->dsum + i, a->sum + 2 * i, a->side};
}

/* n values of each of n_rows rows, a multiple of 32, and the strip that they become: its block
 * b is the blocks b of all of them, one after the other. */
struct quantise {
    const float *x; /* row 0 */
    size_t x_stride, n_rows, n;
    int8_t *q; /* this and the next as in struct a8, of the first block */
    float *d;
    float *dsum; /* NULL: not wanted */
    int16_t *sum;
};

/* The values of a block of the strip, from which quantise_next goes to those of the next. */
struct quantise_block {
    const float *x;
    size_t row;
};

static inline struct quantise_block quantise_first(const struct quantise *o)
{
    return (struct quantise_block){o->x, 0};
}

static inline void quantise_next(const struct quantise *o, struct quantise_block *b)
{
    if (++b->row < o->n_rows) {
        b->x += o->x_stride;
        return;
    }
    b->row = 0;
    b->x -= (o->n_rows - 1) * o->x_stride;
    b->x += A8_BLOCK;
}

/* Rows of groups of n values, each group normalised on its own. */
struct norm {
    const float *x; /* row 0; n_groups groups, one after the other */
    float *out;     /* row 0; may be x */
    size_t x_stride, out_stride, n_rows;
    const float *w;    /* NULL: ones */
    const float *bias; /* NULL: none; not without w */
    size_t w_step; /* from the weights of a group to those of the next: n, or 0 if they share */
    size_t n, n_groups;
    float eps;
};

/* A group of a norm, from which norm_next goes to the next one of the row, then of the next. */
struct norm_group {
    const float *x, *w, *bias;
    float *out;
    size_t row, i;
};

static inline struct norm_group norm_first(const struct norm *o)
{
    return (struct norm_group){.x = o->x, .w = o->w, .bias = o->bias, .out = o->out};
}

static inline void norm_next(const struct norm *o, struct norm_group *g)
{
    g->i++;
    g->x += o->n;
    g->out += o->n;
    if (g->w) g->w += o->w_step;
    if (g->bias) g->bias += o->w_step;
    if (g->i < o->n_groups) return;
    g->row++;
    g->i = 0;
    g->x = o->x + g->row * o->x_stride;
    g->out = o->out + g->row * o->out_stride;
    g->w = o->w;
    g->bias = o->bias;
}

/* How many groups of n values to take at once, `lanes` at most: they are read twice, and are to
 * stay in the first cache. */
static inline size_t norm_at_once(size_t n, size_t lanes)
{
    enum { VALUES = 8192 };
    const size_t most = n < VALUES ? VALUES / n : 1;
    return most < lanes ? most : lanes;
}

/* Attention of rows at consecutive positions over the pages of their sequence. */
struct attend {
    const struct kv_layer *kv;
    void *const *pages;
    const float *q; /* row 0, head 0 */
    size_t q_stride;
    float *out;
    size_t out_stride;
    uint32_t pos;              /* of row 0 */
    size_t n_group;            /* query heads per KV head */
    struct kv_factors factors; /* of products and scores */
    uint32_t window;           /* 0: all */
    const float *sinks;        /* per query head, or NULL */
    struct attend_slopes {
        float step;              /* 0: none; see op_attend */
        uint32_t n_heads, first; /* in all; the number of the one that is 0 here */
    } slopes;
    const atomic_bool *cancel; /* or NULL; polled between pages */
};

/* What attention that is cut by pages leaves of stretches of them, as they are folded
 * (ref_attend.c): for each stretch and query head_dim_v outputs, the largest score, the sum of
 * probabilities, and 1 if the query sees a key of it; else 0, and the others are undefined.
 * Memory is the caller's, aligned to 64. */
struct attend_sums {
    float *at;      /* [n_kv_heads][n_rows][n_group][stride], of the first stretch */
    size_t stride;  /* floats, a multiple of 16 that is at least head_dim_v + ATTEND_SUM_ENDS */
    size_t stretch; /* floats from one to the next */
};
enum { ATTEND_SUM_ENDS = 3 };

/* Pages from..to-1, for rows 0..n_rows-1 of a KV head. */
struct attend_part {
    size_t kv_head, n_rows, from, to;
    size_t end;              /* pages from `to` on to here are likely read next; at least to */
    bool folded;             /* all of them are one stretch, else each its own */
    struct attend_sums sums; /* from that of page `from` on */
};

/* Keys and values of rows at consecutive positions, of one head. */
struct kv_rows {
    const float *k, *v; /* row 0 */
    size_t k_stride, v_stride, n;
};

/* The rows from row n on. */
static inline struct kv_rows kv_rows_after(struct kv_rows rows, size_t n)
{
    rows.k += n * rows.k_stride;
    rows.v += n * rows.v_stride;
    rows.n -= n;
    return rows;
}

/* Convolution of rows at consecutive positions. */
struct conv {
    const float *x; /* row 0 */
    size_t x_stride;
    const float *state; /* [n_taps-1][n]: the rows before row 0, oldest first */
    const float *w;     /* [n_taps][n] */
    const float *bias;  /* NULL: none */
    size_t n_taps, n;
    bool silu;
    float *out;
    size_t out_stride;
};

/* Row `at` of the state and, behind it, of x: tap j of row r reads row r + j. */
static inline const float *conv_row(const struct conv *c, size_t at)
{
    const size_t n_before = c->n_taps - 1;
    return at < n_before ? c->state + at * c->n : c->x + (at - n_before) * c->x_stride;
}

/* The states of one recurrent layer, advanced by rows at consecutive positions. */
struct recur {
    const float *q, *k, *v, *gates; /* row 0 */
    size_t q_stride, k_stride, v_stride, gates_stride;
    const float *skip; /* per head, or NULL */
    const float *a;    /* as in, or NULL: gates have a value per column, and decays follow */
    const float *in;   /* states before row 0: [n_heads][n_dim][n_width] */
    float *to;         /* states after the last row; not in */
    bool streams;      /* to is not read soon: stored past the caches. It is aligned to 64 then,
                        * and n_width a multiple of RECUR_COLS */
    float *out;        /* row 0; NULL: only the states are wanted */
    size_t out_stride;
    size_t n_rows, n_heads, n_groups, n_dim, n_width;
    bool delta, tiled, by_dim, erase;
};

/* Where a head's decay, or the first of them, stands in a row of gates; where its step. */
static inline size_t recur_decay_at(const struct recur *r, size_t head)
{
    return r->by_dim ? head * r->n_dim : head;
}

static inline size_t recur_step_at(const struct recur *r, size_t head)
{
    return (r->by_dim ? r->n_heads * r->n_dim : r->n_heads) + head;
}

/* From a head's decays to its vector e of an erasure, and from there to f. */
static inline size_t recur_erase_apart(const struct recur *r)
{
    return r->n_heads * r->n_dim;
}

/* The group of q and k that a head reads. */
static inline size_t recur_group(const struct recur *r, size_t head)
{
    return r->tiled ? head % r->n_groups : head / (r->n_heads / r->n_groups);
}

enum { ATTEND_HEADS_QUERIES = 8 };

struct kernels {
    const char *name;
    bool packs;          /* matrices are packed into panels when bound */
    bool bytes_unsigned; /* codes of 8 bits are packed plus 128 */
    /* Multiplications per millisecond, roughly: how much to put into one chunk. */
    size_t macs_per_ms;
    size_t a8_side; /* rows of quantised activations that lie side by side at most */

    /* Rows of one call of attend, where a KV head has n_group query heads. */
    size_t (*attend_rows)(size_t n_group);

    /* Scratch of a worker, aligned to 64. */
    size_t (*matmul_scratch)(size_t n_cols);
    size_t (*attend_scratch)(const struct kv_layer *kv, size_t n_group);

    /* Values lo..hi-1 of all rows; lo is a multiple of PANEL_ROWS. */
    void (*matmul)(const struct matmul *m, size_t lo, size_t hi, void *scratch);
    /* Query heads of one KV head, rows lo..hi-1, at most attend_rows. */
    void (*attend)(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);
    /* The same of several KV heads, page by page for all of them: what they have of a page lies
     * side by side, so memory is read in long runs. At most ATTEND_HEADS_QUERIES queries, which
     * are a row and query head each. NULL: there is none. */
    void (*attend_heads)(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                         size_t hi, void *scratch);
    /* The sums of some pages, for at most ATTEND_HEADS_QUERIES queries and values of a multiple
     * of 8 dims. NULL: there is none. */
    void (*attend_part)(const struct attend *a, const struct attend_part *part, void *scratch);
    /* The result of rows 0..n_rows-1 of a KV head from the sums of n stretches that follow each
     * other, which are used up. NULL where attend_part is. */
    void (*attend_join)(const struct attend *a, size_t kv_head, size_t n_rows,
                        struct attend_sums sums, size_t n, void *scratch);
    /* Rows of one KV head into the slots from slot on, all of one page. */
    void (*kv_store)(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                     struct kv_rows rows);
    void (*norm)(const struct norm *o);
    /* x less its mean; out may be x. */
    void (*centre)(const float *x, size_t n, float *out);
    /* What of x is above its size times factor; out may be x. */
    void (*cut)(const float *x, size_t n, float factor, float *out);
    void (*quantise)(const struct quantise *o);
    /* One head in place; n_pairs cosines, then as many sines. */
    void (*rope)(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin);
    void (*scale)(float *x, size_t n, float factor);
    void (*glu)(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out);
    /* In place. */
    void (*xielu)(float *x, size_t n, float square, float bend, float slope);
    void (*add)(const float *a, const float *b, float scale, size_t n, float *out);
    /* out[i] = the sum of weights[j] · in[j · stride + i], n_used of them, at least one. */
    void (*combine)(const float *in, size_t stride, const float *weights, size_t n_used,
                    size_t n, float *out);
    void (*logits)(const float *x, size_t n, float scale, float softcap, float *out);
    /* Rows lo..hi-1. */
    void (*conv)(const struct conv *c, size_t lo, size_t hi);
    /* One row. */
    void (*decay)(const struct op_decay *op, const float *in, const float *bias, const float *a,
                  float *out);
    /* Columns lo..hi-1 of one head, all rows; hi - lo <= RECUR_COLS, lo a multiple of it. */
    void (*recur)(const struct recur *r, size_t head, size_t lo, size_t hi);
};

extern const struct kernels kernels_scalar, kernels_simd, kernels_dotprod, kernels_avx2,
    kernels_avxvnni, kernels_avx512, kernels_amx;
/* kernels_avx512 with GFNI, both as AMD's processors like to read memory, and for its Zen 5
 * (zen5.h). */
extern const struct kernels kernels_gfni, kernels_avx512_amd, kernels_gfni_amd, kernels_zen5;

/* Ops that have one form for all instruction sets. */
void ref_embed(const struct cpu_weight *table, size_t row, float scale, float *out);
/* The root mean square. */
float ref_size(const float *x, size_t n);
/* In place. */
void ref_limit(float *x, size_t n, float limit);
/* scores[n_expert] -> the best, by rank: ids and weights. scores is overwritten; select and
 * scales are the op's vectors, or NULL. */
void ref_route(const struct op_route *op, float *scores, const float *select,
               const float *scales, int32_t *ids, float *weights);

#endif
