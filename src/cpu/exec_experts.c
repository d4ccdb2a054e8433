/* Products with experts: the rows that chose an expert are computed together, so that its
 * weights are read once for all of them.
 *
 * Pairs of a row and a rank are sorted by expert; a chunk is a stretch of one expert's values
 * for all its pairs. Their inputs lie apart: groups of them are copied side by side, which the
 * kernels for many rows need, and so are the results copied back. */
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "cpu/exec_impl.h"

enum { GROUP = 32 }; /* pairs side by side */

struct experts {
    struct cpu_exec *x;
    const struct op_matmul_experts *op;
    size_t n_values, n_cols;
    size_t per_chunk, n_chunks; /* of one expert */
    size_t n_used;              /* experts that some row chose */
};

static size_t a8_stride(size_t n_cols)
{
    return mem_round_up(n_cols, 64);
}

static size_t align64(size_t n)
{
    return mem_round_up(n, 64);
}

size_t experts_scratch(const struct kernels *k, const struct op_matmul_experts *op)
{
    size_t n_cols = op->w->n_cols, stride = a8_stride(n_cols);
    size_t in = op->in_a8.n ? stride + stride / A8_BLOCK * 2 * sizeof(float) +
                                  stride / A8_HALF * sizeof(int16_t)
                            : n_cols * sizeof(float);
    size_t out = op->out.n / op->route.n * sizeof(float);
    return align64(k->matmul_scratch(n_cols)) + GROUP * (align64(in) + align64(out));
}

/* ---- who chose whom ---- */

/* Sorts the pairs by expert, those that share a matrix being one: x->pairs, and where each
 * one's begin in x->pair_starts. Returns how many experts have some; x->chosen lists them. */
static size_t sort_pairs(struct cpu_exec *x, const struct op_matmul_experts *op)
{
    const struct rows *route = &x->rows[op->route.buf];
    const int32_t n_share = (int32_t)experts_n_share(op);
    size_t n_experts = op->w->n_mats / op->n_parts, n_chosen = 0;
    uint32_t *starts = x->pair_starts, at = 0;
    memset(starts, 0, (n_experts + 1) * sizeof *starts);
    for (size_t r = x->lo; r < x->hi; r++)
        for (size_t j = 0; j < op->route.n; j++)
            starts[route->ids[r * route->stride + op->route.at + j] / n_share]++;
    for (size_t e = 0; e < n_experts; e++) {
        uint32_t n = starts[e];
        if (n > 0) x->chosen[n_chosen++] = (uint32_t)e;
        starts[e] = at;
        at += n;
    }
    for (size_t r = x->lo; r < x->hi; r++)
        for (size_t j = 0; j < op->route.n; j++) {
            const int32_t e = route->ids[r * route->stride + op->route.at + j] / n_share;
            x->pairs[starts[e]++] = (uint32_t)((r - x->lo) * op->route.n + j);
        }
    /* Each start has moved to the end of its expert's, which is the next one's beginning. */
    memmove(starts + 1, starts, n_experts * sizeof *starts);
    starts[0] = 0;
    return n_chosen;
}

/* ---- one stretch ---- */

/* A pair's input. */
static struct matmul input_of(const struct experts *e, uint32_t pair)
{
    const struct op_matmul_experts *op = e->op;
    size_t row = e->x->lo + pair / op->route.n, rank = pair % op->route.n;
    size_t at = op->split ? rank * e->n_cols : 0;
    struct matmul m = {0};
    if (op->in_f32.n) {
        m.f32 = row_f32(e->x, &op->in_f32, row) + at;
        m.f32_stride = e->n_cols;
    }
    if (op->in_a8.n) {
        const struct ref part = {op->in_a8.buf, op->in_a8.at + at, e->n_cols};
        m.a8 = row_a8(e->x, &part, row);
    }
    return m;
}

static float *output_of(const struct experts *e, uint32_t pair)
{
    size_t row = e->x->lo + pair / e->op->route.n, rank = pair % e->op->route.n;
    return row_f32(e->x, &e->op->out, row) + rank * e->n_values;
}

static void copy_block(const struct a8 *from, size_t i, const struct a8 *to, size_t at)
{
    memcpy(to->q + A8_BLOCK * at, from->q + A8_BLOCK * i, A8_BLOCK);
    memcpy(to->sum + 2 * at, from->sum + 2 * i, 2 * sizeof *to->sum);
    to->d[at] = from->d[i];
    if (from->dsum) to->dsum[at] = from->dsum[i];
}

/* Copies the inputs of n pairs side by side into scratch, which m then reads. */
static uint8_t *gather(const struct experts *e, const uint32_t *pairs, size_t n,
                       uint8_t *scratch, struct matmul *m)
{
    size_t n_cols = e->n_cols, n_blocks = n_cols / A8_BLOCK;
    if (e->op->in_f32.n) {
        float *to = (float *)scratch;
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * n_cols, input_of(e, pairs[i]).f32, n_cols * sizeof *to);
        m->f32 = to;
        m->f32_stride = n_cols;
        return scratch + align64(GROUP * n_cols * sizeof *to);
    }
    const size_t stride = a8_stride(n_cols), side = kernels_of(e->x)->a8_side;
    struct a8 to = {.q = (int8_t *)scratch, .stride = stride, .side = side < n ? side : n};
    to.d = (float *)(to.q + GROUP * stride);
    to.dsum = to.d + GROUP * (stride / A8_BLOCK);
    to.sum = (int16_t *)(to.dsum + GROUP * (stride / A8_BLOCK));
    for (size_t i = 0; i < n; i++) {
        const struct a8 from = input_of(e, pairs[i]).a8;
        for (size_t b = 0; b < n_blocks; b++)
            copy_block(&from, a8_at(&from, 0, b), &to, a8_at(&to, i, b));
    }
    m->a8 = to;
    return (uint8_t *)(to.sum + GROUP * (stride / A8_HALF));
}

/* Values lo..hi-1 of expert id for n pairs. */
static void group(const struct experts *e, size_t id, const uint32_t *pairs, size_t n,
                  size_t lo, size_t hi, uint8_t *scratch)
{
    const struct kernels *k = kernels_of(e->x);
    const float *bias = vector_of(e->op->bias), *factors = vector_of(e->op->factors);
    struct matmul m = n == 1 ? input_of(e, pairs[0]) : (struct matmul){0};
    m.w = (const struct cpu_weight *)e->op->w;
    m.mat = id * e->op->n_parts + e->op->part;
    m.factor = factors ? factors + id : NULL;
    m.bias = bias ? bias + id * e->n_values : NULL;
    m.n_rows = n;
    m.out_stride = e->n_values;
    if (n == 1) {
        m.out = output_of(e, pairs[0]);
        k->matmul(&m, lo, hi, scratch);
        return;
    }
    float *out =
        (float *)gather(e, pairs, n, scratch + align64(k->matmul_scratch(e->n_cols)), &m);
    m.out = out;
    k->matmul(&m, lo, hi, scratch);
    for (size_t i = 0; i < n; i++)
        memcpy(output_of(e, pairs[i]) + lo, out + i * e->n_values + lo,
               (hi - lo) * sizeof *out);
}

static void chunk(void *ctx, size_t index, int worker)
{
    const struct experts *e = ctx;
    struct cpu_exec *x = e->x;
    size_t id = x->chosen[index / e->n_chunks];
    size_t lo = index % e->n_chunks * e->per_chunk, hi = lo + e->per_chunk;
    size_t n = x->pair_starts[id + 1] - x->pair_starts[id];
    const uint32_t *pairs = x->pairs + x->pair_starts[id];
    for (size_t i = 0; i < n; i += GROUP)
        group(e, id, pairs + i, n - i < GROUP ? n - i : GROUP, lo,
              hi < e->n_values ? hi : e->n_values, scratch_of(x, worker));
}

bool run_experts(struct cpu_exec *x)
{
    const struct op_matmul_experts *op = &x->op->experts;
    struct experts e = {
        .x = x, .op = op, .n_values = op->out.n / op->route.n, .n_cols = op->w->n_cols};
    e.n_used = sort_pairs(x, op);
    size_t n_rows = (x->hi - x->lo) * op->route.n / e.n_used; /* of an expert, about */
    e.per_chunk = values_per_chunk(x, e.n_values, e.n_cols, n_rows);
    e.n_chunks = (e.n_values + e.per_chunk - 1) / e.per_chunk;
    return pool_run(backend_of(x)->pool, e.n_used * e.n_chunks, chunk, &e, x->step->cancel);
}
