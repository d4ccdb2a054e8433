/* Products with matrices: how they are cut into chunks for the pool. Chunks are independent, so
 * the result does not depend on who computes which. */
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/exec_impl.h"

/* The work of a chunk, as macs_per_ms has it; of a product's, the mean. At least LEAST_US:
 * where a chunk begins, its code and what it is told have left the first cache, which costs 0.2
 * us each time. Decode with 8 chunks per thread whatever they cost, and so, 2 threads: the
 * guide 128 and 112 us, Q4_0 of the 0.6B shape 8.84 and 8.61 ms (Zen 4, 2026-11). At most
 * MOST_US, as a cancel is answered between chunks; the first of a share is up to twice as long
 * (part_begin). */
enum { LEAST_US = 10, MOST_US = 1000, CHUNKS_PER_THREAD = 8 };

size_t values_per_chunk(const struct cpu_exec *x, size_t n_values, size_t n_cols, size_t n_rows)
{
    const size_t per_us = kernels_of(x)->macs_per_ms / 1000, macs = n_cols * n_rows;
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t share = (n_values + n_threads - 1) / n_threads;
    size_t n = (share + CHUNKS_PER_THREAD - 1) / CHUNKS_PER_THREAD;
    if (n < LEAST_US * per_us / macs) n = LEAST_US * per_us / macs;
    if (n > share) n = share;
    if (n > MOST_US * per_us / macs) n = MOST_US * per_us / macs;
    return mem_round_up(n > 0 ? n : 1, PANEL_ROWS);
}

/* A thread's share is the same part of each matrix, so that what later ops read of their
 * results together was mostly made by one thread. It takes one matrix after the other: of each
 * it reads one long run. */
struct matmul_loop {
    struct cpu_exec *x;
    struct matmul m[3];
    size_t n_mats, n_values[3];
    size_t n_shares, n_parts; /* parts of a share */
    size_t block_rows;        /* rows of activations per chunk */
    size_t n_blocks;
};

static size_t panels_of(size_t n_values)
{
    return (n_values + PANEL_ROWS - 1) / PANEL_ROWS;
}

/* The panel of a matrix where a share begins. */
static size_t share_begin(const struct matmul_loop *loop, size_t i, size_t share)
{
    return panels_of(loop->n_values[i]) * share / loop->n_shares;
}

/* Where a part of n panels begins. Each is about 2 n_parts^2-ths smaller than the one before,
 * and the last a single one of them, so that threads end together: with equal parts one was
 * still at its last for 2 to 4 us of 30 to 110 when the other had none left. One row, 2
 * threads, equal and so: Q4_0 8.27 and 8.16 ms, Q4_K_M 8.61 and 8.53, Q8_0 12.18 and 11.79 (Zen
 * 4, 2026-11). */
static size_t part_begin(size_t n, size_t part, size_t n_parts)
{
    const size_t left = n_parts - part, all = n_parts * n_parts;
    return n - (2 * n * left * left + all) / (2 * all);
}

/* Panels from..to-1 of matrix i, for the rows of a block. */
static void matmul_panels(const struct matmul_loop *loop, size_t i, size_t from, size_t to,
                          size_t block, int worker)
{
    const size_t n = loop->n_values[i], hi = to * PANEL_ROWS;
    const size_t first = block * loop->block_rows;
    struct matmul m = loop->m[i];
    const size_t left = m.n_rows - first;
    m.n_rows = left < loop->block_rows ? left : loop->block_rows;
    if (m.f32) m.f32 += first * m.f32_stride;
    if (m.a8.q) m.a8 = a8_from(m.a8, first);
    m.out += first * m.out_stride;
    kernels_of(loop->x)->matmul(&m, from * PANEL_ROWS, hi < n ? hi : n,
                                scratch_of(loop->x, worker));
}

/* Panels of a share are counted through its matrices. */
static void matmul_chunk(void *ctx, size_t chunk, int worker)
{
    const struct matmul_loop *loop = ctx;
    const size_t block = chunk % loop->n_blocks, part = chunk / loop->n_blocks % loop->n_parts;
    const size_t share = chunk / loop->n_blocks / loop->n_parts;
    size_t n_panels = 0;
    for (size_t i = 0; i < loop->n_mats; i++)
        n_panels += share_begin(loop, i, share + 1) - share_begin(loop, i, share);
    size_t at = part_begin(n_panels, part, loop->n_parts);
    size_t left = part_begin(n_panels, part + 1, loop->n_parts) - at;
    for (size_t i = 0; i < loop->n_mats && left > 0; i++) {
        const size_t begin = share_begin(loop, i, share);
        const size_t here = share_begin(loop, i, share + 1) - begin;
        if (at >= here) {
            at -= here;
            continue;
        }
        const size_t n = left < here - at ? left : here - at;
        matmul_panels(loop, i, begin + at, begin + at + n, block, worker);
        left -= n;
        at = 0;
    }
}

/* Rows of activations per chunk, so that sixteen values of all of them take four milliseconds
 * at most: a cancel is answered between chunks. */
static size_t rows_per_block(const struct cpu_exec *x, size_t n_cols, size_t n_rows)
{
    size_t most = 4 * kernels_of(x)->macs_per_ms / (PANEL_ROWS * n_cols);
    most = most / PANEL_ROWS * PANEL_ROWS; /* whole strips */
    if (most < PANEL_ROWS) most = PANEL_ROWS;
    return n_rows < most ? n_rows : most;
}

/* One of the matrices, all rows. */
static struct matmul matmul_of(const struct cpu_exec *x, const struct op_matmul *op, size_t i)
{
    struct matmul m = {
        .w = (const struct cpu_weight *)op->mat[i].w,
        .n_rows = x->hi - x->lo,
        .factor = vector_of(op->mat[i].factor),
        .bias = vector_of(op->mat[i].bias),
        .out = row_f32(x, &op->mat[i].out, x->lo),
        .out_stride = x->rows[op->mat[i].out.buf].stride,
    };
    if (op->in_f32.n) {
        m.f32 = row_f32(x, &op->in_f32, x->lo);
        m.f32_stride = x->rows[op->in_f32.buf].stride;
    }
    if (op->in_a8.n) m.a8 = row_a8(x, &op->in_a8, x->lo);
    return m;
}

/* Less work than this is not worth waking the pool: one chunk, and no other thread. A step of
 * the guide's draft model, 2 threads: 18.0 us, so 17.0 (Zen 4, 2026-11). */
enum { ALONE_US = 1 };

static bool is_for_one(const struct cpu_exec *x, size_t n_values, size_t n_cols)
{
    return n_values * n_cols * (x->hi - x->lo) < kernels_of(x)->macs_per_ms / 1000 * ALONE_US;
}

bool run_matmul(struct cpu_exec *x)
{
    const struct op_matmul *op = &x->op->matmul;
    struct pool *pool = backend_of(x)->pool;
    struct matmul_loop loop = {.x = x, .n_mats = op->n_mats, .n_shares = 1, .n_parts = 1};
    const size_t n_rows = x->hi - x->lo, n_cols = op->mat[0].w->n_cols;
    size_t n_values = 0;
    for (size_t i = 0; i < loop.n_mats; i++) {
        loop.n_values[i] = op->mat[i].out.n;
        loop.m[i] = matmul_of(x, op, i);
        n_values += loop.n_values[i];
    }
    loop.block_rows = rows_per_block(x, n_cols, n_rows);
    loop.n_blocks = (n_rows + loop.block_rows - 1) / loop.block_rows;
    if (!is_for_one(x, n_values, n_cols)) {
        loop.n_shares = (size_t)pool_n_threads(pool);
        const size_t share = (n_values + loop.n_shares - 1) / loop.n_shares;
        const size_t per_chunk = values_per_chunk(x, n_values, n_cols, loop.block_rows);
        loop.n_parts = (share + per_chunk - 1) / per_chunk;
    }
    return pool_run(pool, loop.n_shares * loop.n_parts * loop.n_blocks, matmul_chunk, &loop,
                    x->step->cancel);
}
