/* What exec.c (a program running), exec_runs.c (ops that run together) and exec_matmul.c,
 * exec_rows.c, exec_attend.c, exec_experts.c and exec_recurrent.c (some of its ops) share.
 */
#ifndef CPU_EXEC_IMPL_H
#define CPU_EXEC_IMPL_H

#include "cpu/cpu_impl.h"

/* A row buffer; rows start at multiples of 64 bytes. */
struct rows {
    size_t stride; /* values per row */
    float *f32;
    struct a8 a8;
    int32_t *ids;   /* ROW_ROUTE */
    float *weights; /* ROW_ROUTE */
};

/* Ops from one on that run together, tile by tile. */
struct run {
    uint32_t n_ops;   /* 0: the op has no tiles */
    uint32_t n_units; /* equal parts of a row that go each their own way */
    bool stores;      /* keys and values */
    size_t n_values;  /* the longest row's */
    size_t cost;      /* of a row: as that of so many values of a norm */
};

/* Rows lo..hi-1, and of each row the units from..to-1 of n_units. */
struct tile {
    size_t lo, hi;
    size_t from, to, n_units;
    void *scratch;
};

struct cpu_exec {
    struct exec base;
    struct program own;      /* with ops that are cut for runs, owned */
    const struct program *p; /* own */
    uint32_t max_rows;
    struct rows *rows; /* per buffer */
    float **cos_sin;   /* per rope: [max_rows][n_rot], cosines then sines of each row */
    float **factors;   /* per row scale: [max_rows] */
    struct run *runs;  /* [2][n_ops]: from each op on, without attention and with it */
    size_t head_rows;  /* index of OP_HEAD_ROWS, or n_ops */
    size_t direct;     /* the buffer that is the caller's logits, or n_buffers */
    uint8_t *arena;
    size_t arena_bytes;
    uint8_t *scratch; /* per worker */
    size_t scratch_bytes;
    float *sums; /* what attention that is cut by pages leaves of them: attend_sums_bytes */
    uint32_t *pairs, *pair_starts, *chosen; /* of experts (exec_experts.c) */
    float **trail; /* per state: TRAIL_ROWS rows of what its op takes in */

    /* of the step under way */
    const struct step *step;
    const struct op *op;
    size_t lo, hi; /* rows that are computed */
    size_t side;   /* of quantised rows */
    size_t chunk_rows;
};

typedef void rows_fn(struct cpu_exec *x, size_t lo, size_t hi);

/* Runs fn over the step's rows, each of n_values values. */
bool for_rows(struct cpu_exec *x, size_t n_values, rows_fn *fn);

/* Values per row of the trail of an op; 0: it has no state. */
size_t trail_width(const struct op *op);
/* The index of its state. */
static inline uint32_t op_state(const struct op *op)
{
    return op->kind == OP_CONV ? op->conv.state : op->recur.state;
}

/* Values per chunk of matrices of n_values rows in all and n_cols columns, a multiple of
 * PANEL_ROWS: enough that it is worth a chunk's cost, yet chunks enough that a thread which is
 * held up leaves its share to the others, and a millisecond's work at most. */
size_t values_per_chunk(const struct cpu_exec *x, size_t n_values, size_t n_cols,
                        size_t n_rows);
/* Scratch of a worker for an op with experts. */
size_t experts_scratch(const struct kernels *k, const struct op_matmul_experts *op);

/* The tables of positions of the step. */
bool run_positions(struct cpu_exec *x);

/* Up to so many rows are one chunk of attention: of smaller chunks each would read all pages,
 * and for fewer rows. */
enum { FEW_ROWS = 16 };

/* The ops of a program, some of them cut in two so that they join longer runs; to be freed. */
struct op *runs_ops(const struct program *p, size_t *n);
/* The runs of a program that begin at each of its ops: [2][n_ops], without attention, and with
 * that of at most FEW_ROWS, to be freed. */
struct run *runs_find(const struct program *p);
/* The run that begins at op i in the step under way; of n_ops 0 if it has none. */
const struct run *runs_at(struct cpu_exec *x, size_t i);
/* The run that begins at x->op; returns false if it was cancelled. */
bool runs_run(struct cpu_exec *x, const struct run *run);

/* An op on a tile of a run, without regard to others. */
void run_tile(const struct cpu_exec *x, const struct op *op, const struct tile *t);
void attend_tile(const struct cpu_exec *x, const struct op_attend *op, const struct tile *t);
/* Into how many chunks attention of FEW_ROWS at most is cut, by its KV heads. */
size_t attend_head_chunks(const struct cpu_exec *x, const struct op_attend *op);
/* Whether attention is cut by pages or by query heads in the step under way. Then it is no part
 * of a run. */
bool attend_is_apart(struct cpu_exec *x, const struct op_attend *op);

/* Pages of a KV head: the first n_first are one part, the others come per_part at a time.
 * n_parts is of all; 0: cutting is not worth it. */
struct page_cut {
    size_t n_first, per_part, n_parts;
};
/* How n_pages pages of n_heads KV heads are cut, of so many bytes each and head, where there is
 * room for the sums of n_room stretches. */
struct page_cut attend_cut(size_t n_pages, size_t page_bytes, size_t n_heads, size_t n_threads,
                           size_t n_room);
/* Room for sums. A model of 1 KV head of 256 dims with 8 queries has 960 pages, 61,000 tokens,
 * before the first part grows to what has none; 8 KV heads of 128 dims with 4 queries 455. */
enum { SUMS_BYTES = 8 << 20 };
/* What a program needs of it: all or nothing. */
size_t attend_sums_bytes(const struct backend *be, const struct program *p);

/* x->op, which is of that kind. */
bool run_logits(struct cpu_exec *x);
bool run_attend(struct cpu_exec *x);
bool run_matmul(struct cpu_exec *x);
bool run_experts(struct cpu_exec *x);
bool run_conv(struct cpu_exec *x);
bool run_decay(struct cpu_exec *x);
bool run_recur(struct cpu_exec *x);

static inline struct cpu_backend *backend_of(const struct cpu_exec *x)
{
    return (struct cpu_backend *)x->base.be;
}

static inline const struct kernels *kernels_of(const struct cpu_exec *x)
{
    return backend_of(x)->kernels;
}

static inline float *row_f32(const struct cpu_exec *x, const struct ref *ref, size_t row)
{
    const struct rows *b = &x->rows[ref->buf];
    return b->f32 + row * b->stride + ref->at;
}

static inline struct a8 row_a8(const struct cpu_exec *x, const struct ref *ref, size_t row)
{
    struct a8 a = x->rows[ref->buf].a8;
    a.side = x->side;
    return a8_columns(a8_from(a, row), ref->at / A8_BLOCK);
}

static inline void *scratch_of(const struct cpu_exec *x, int worker)
{
    return x->scratch + (size_t)worker * x->scratch_bytes;
}

static inline const float *vector_of(const struct weight *w)
{
    return w ? ((const struct cpu_weight *)w)->vector : NULL;
}

#endif
