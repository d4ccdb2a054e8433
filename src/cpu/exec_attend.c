/* How attention is cut into chunks for the pool: by KV heads and rows, and as part of a run
 * (exec_runs.c) by KV heads. */
#include <assert.h>

#include "cpu/exec_impl.h"

struct attend_loop {
    struct cpu_exec *x;
    struct attend a;
    size_t per_chunk, n_row_chunks;
};

static void attend_chunk(void *ctx, size_t chunk, int worker)
{
    const struct attend_loop *loop = ctx;
    size_t lo = chunk % loop->n_row_chunks * loop->per_chunk, hi = lo + loop->per_chunk;
    size_t n = loop->x->hi - loop->x->lo;
    kernels_of(loop->x)->attend(&loop->a, chunk / loop->n_row_chunks, lo, hi < n ? hi : n,
                                scratch_of(loop->x, worker));
}

/* KV heads that a thread takes at once: of few queries as many as are taken together, unless
 * threads would wait for one that has more of them than it must. */
static size_t heads_at_once(const struct cpu_exec *x, size_t n_queries, size_t n_heads)
{
    if (!kernels_of(x)->attend_heads) return 1;
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    size_t best = 1, least = (n_heads + n_threads - 1) / n_threads;
    for (size_t n = 2; n <= n_heads && n * n_queries <= ATTEND_HEADS_QUERIES; n++) {
        const size_t n_chunks = (n_heads + n - 1) / n;
        if ((n_chunks + n_threads - 1) / n_threads * n <= least) best = n;
    }
    return best;
}

/* Rows per chunk: as many as the kernel takes, fewer where KV heads alone would leave threads
 * without work. */
static size_t attend_rows(const struct cpu_exec *x, size_t n_rows, size_t n_heads,
                          size_t n_group)
{
    const size_t wanted = 2 * (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t per_head = (wanted + n_heads - 1) / n_heads;
    const size_t most = kernels_of(x)->attend_rows(n_group);
    size_t n = (n_rows + per_head - 1) / per_head;
    if (n < FEW_ROWS) n = FEW_ROWS;
    return n < most ? n : most;
}

static struct attend attend_of(const struct cpu_exec *x, const struct op_attend *op)
{
    const struct kv_layer *kv = &x->p->kv[op->kv];
    return (struct attend){.kv = kv,
                           .pages = x->step->pages[kv->part],
                           .q = row_f32(x, &op->q, x->lo),
                           .q_stride = x->rows[op->q.buf].stride,
                           .out = row_f32(x, &op->out, x->lo),
                           .out_stride = x->rows[op->out.buf].stride,
                           .pos = x->step->pos + (uint32_t)x->lo,
                           .n_group = op->n_heads / kv->n_heads,
                           .factors = kv_factors(kv, op->scale, op->softcap),
                           .window = op->window,
                           .sinks = vector_of(op->sinks),
                           .cancel = x->step->cancel};
}

bool run_attend(struct cpu_exec *x)
{
    struct attend_loop loop = {.x = x, .a = attend_of(x, &x->op->attend)};
    const size_t n_rows = x->hi - x->lo, n_heads = loop.a.kv->n_heads;
    loop.per_chunk = attend_rows(x, n_rows, n_heads, loop.a.n_group);
    loop.n_row_chunks = (n_rows + loop.per_chunk - 1) / loop.per_chunk;
    return pool_run(backend_of(x)->pool, loop.n_row_chunks * n_heads, attend_chunk, &loop,
                    x->step->cancel);
}

size_t attend_parts(const struct cpu_exec *x, const struct op_attend *op)
{
    const size_t n_heads = x->p->kv[op->kv].n_heads;
    const size_t at_once = heads_at_once(x, (x->hi - x->lo) * (op->n_heads / n_heads), n_heads);
    return (n_heads + at_once - 1) / at_once;
}

void attend_tile(const struct cpu_exec *x, const struct op_attend *op, const struct tile *t)
{
    const struct attend a = attend_of(x, op);
    const size_t n_heads = a.kv->n_heads, lo = t->lo - x->lo, hi = t->hi - x->lo;
    const size_t at_once = heads_at_once(x, (hi - lo) * a.n_group, n_heads);
    const size_t to = n_heads * t->to / t->n_units;
    assert(hi - lo <= kernels_of(x)->attend_rows(a.n_group));
    for (size_t head = n_heads * t->from / t->n_units, n; head < to; head += n) {
        n = to - head < at_once ? to - head : at_once;
        if (n == 1)
            kernels_of(x)->attend(&a, head, lo, hi, t->scratch);
        else
            kernels_of(x)->attend_heads(&a, head, n, lo, hi, t->scratch);
    }
}
