/* How attention is cut into chunks for the pool: by KV heads and rows; as part of a run
 * (exec_runs.c) by KV heads; and of few queries over many pages by pages, too. */
#include <assert.h>

#include "backend/kv.h"
#include "base/mem.h"
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

/* ---- by pages ---- */

/* Where there are more threads than KV heads, some would have nothing to do. So the pages of a
 * group of KV heads are cut into a first part, whose pages are folded as they come, and smaller
 * ones that leave the sums of each page; when all are there, they are folded in their order. */
struct page_loop {
    struct cpu_exec *x;
    struct attend a;
    size_t n_rows, at_once, n_groups; /* KV heads of a group; groups */
    size_t begin, first_end, end;     /* pages: of the first part, and of the others */
    size_t per_part, n_parts;         /* pages of one of the others; parts of a group */
};

/* Cutting by pages is worth it where a thread would read so much more than its share: three
 * more times all threads meet, and sums are written and read, which costs a page a third more.
 * Where each thread has a KV head it loses: 26.5 and 27.3 ms a step with an eighth of the pages
 * cut. One row at a depth of 8192, 1 KV head of 128 dims, 4 queries, 2 threads, attention and
 * what stands beside it: f16 7.67 and 5.82 ms, q8_0 3.62 and 3.35 (Zen 4, 2026-11). */
enum { WORTH_BYTES = 256 << 10, PART_BYTES = 128 << 10 };

static size_t sums_stride(const struct kv_layer *kv)
{
    return mem_round_up(kv->head_dim_v + ATTEND_SUM_ENDS, 16);
}

/* Of what all queries have of a page. */
static size_t sums_floats(const struct kv_layer *kv, size_t n_rows, size_t n_heads)
{
    return n_rows * n_heads * sums_stride(kv);
}

/* Of a page. */
static size_t head_bytes(const struct kv_layer *kv)
{
    return (kv_layer_k_bytes(kv) + kv_layer_v_bytes(kv)) / kv->n_heads;
}

static bool can_cut_pages(const struct cpu_exec *x, const struct op_attend *op)
{
    const struct kv_layer *kv = &x->p->kv[op->kv];
    const size_t n_rows = x->hi - x->lo, n_group = op->n_heads / kv->n_heads;
    const size_t floats = sums_floats(kv, n_rows, op->n_heads);
    return kernels_of(x)->attend_part && n_rows * n_group <= ATTEND_HEADS_QUERIES &&
           kv->head_dim_v % 8 == 0 && 2 * floats * sizeof(float) <= SUMS_BYTES;
}

/* The pages that rows see. */
static void set_pages(const struct cpu_exec *x, const struct op_attend *op,
                      struct page_loop *loop)
{
    const size_t first_end = x->step->pos + x->lo + 1;
    const size_t first = op->window && first_end > op->window ? first_end - op->window : 0;
    loop->begin = first / PAGE_LEN;
    loop->end = pages_for(x->step->pos + x->hi);
}

static size_t quotient_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

/* Whether threads that take KV heads would wait for one longer than all of them would work. */
static bool is_uneven(const struct cpu_exec *x, const struct op_attend *op, size_t n_pages)
{
    const struct kv_layer *kv = &x->p->kv[op->kv];
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t n_parts = attend_parts(x, op), at_once = quotient_up(kv->n_heads, n_parts);
    const size_t bytes = n_pages * head_bytes(kv);
    const size_t longest = bytes * at_once * quotient_up(n_parts, n_threads);
    const size_t even = bytes * kv->n_heads / n_threads;
    return longest >= 2 * even && longest >= even + WORTH_BYTES;
}

/* KV heads of a group: as many as are taken together, all groups alike, and one for each thread
 * if there are so many. */
static size_t heads_of_group(size_t n_heads, size_t n_queries, size_t n_threads)
{
    size_t best = 1;
    for (size_t n = 2; n <= n_heads && n * n_queries <= ATTEND_HEADS_QUERIES; n++)
        if (n_heads % n == 0 && n_heads / n >= n_threads) best = n;
    return best;
}

/* The first part is three quarters of a thread's share of a group, or more if there is no room
 * for the sums of all other pages. Of these a thread has four parts, or fewer of PART_BYTES. */
static void set_parts(struct page_loop *loop)
{
    const struct kv_layer *kv = loop->a.kv;
    const size_t n_threads = (size_t)pool_n_threads(backend_of(loop->x)->pool);
    const size_t n_queries = loop->n_rows * loop->a.n_group, n = loop->end - loop->begin;
    loop->at_once = heads_of_group(kv->n_heads, n_queries, n_threads);
    loop->n_groups = kv->n_heads / loop->at_once;
    const size_t n_shares = n_threads * quotient_up(loop->n_groups, n_threads);
    const size_t page_bytes =
        sums_floats(kv, loop->n_rows, loop->a.n_group * kv->n_heads) * sizeof(float);
    const size_t most = SUMS_BYTES / page_bytes - 1;
    size_t n_first = 3 * n * loop->n_groups / (4 * n_shares);
    if (n_first < 1) n_first = 1;
    if (n - n_first > most) n_first = n - most;
    const size_t n_others = n - n_first,
                 share = quotient_up(n_others * loop->n_groups, n_threads);
    const size_t least = quotient_up(PART_BYTES, loop->at_once * head_bytes(kv));
    loop->first_end = loop->begin + n_first;
    loop->per_part = least < share / 4 ? share / 4 : least;
    loop->n_parts = 1 + quotient_up(n_others, loop->per_part);
}

bool attend_is_deep(const struct cpu_exec *x, const struct op_attend *op)
{
    struct page_loop loop;
    set_pages(x, op, &loop);
    return can_cut_pages(x, op) && is_uneven(x, op, loop.end - loop.begin);
}

/* Of KV heads from one on, the sums of the first part and of each other page. */
static struct attend_part part_of(const struct page_loop *loop, size_t kv_head, size_t n_heads)
{
    const struct kv_layer *kv = loop->a.kv;
    return (struct attend_part){
        .kv_head = kv_head,
        .n_heads = n_heads,
        .n_rows = loop->n_rows,
        .to = 1 + loop->end - loop->first_end,
        .sums = loop->x->sums,
        .stride = sums_stride(kv),
        .page_stride = sums_floats(kv, loop->n_rows, loop->a.n_group * kv->n_heads),
    };
}

static void pages_chunk(void *ctx, size_t chunk, int worker)
{
    const struct page_loop *loop = ctx;
    const size_t group = chunk / loop->n_parts, i = chunk % loop->n_parts;
    struct attend_part part = part_of(loop, group * loop->at_once, loop->at_once);
    part.folded = i == 0;
    part.end = loop->end;
    part.from = loop->begin;
    part.to = loop->first_end;
    if (!part.folded) {
        part.from = loop->first_end + (i - 1) * loop->per_part;
        part.to =
            loop->end - part.from < loop->per_part ? loop->end : part.from + loop->per_part;
        part.sums += (1 + part.from - loop->first_end) * part.page_stride;
    }
    kernels_of(loop->x)->attend_part(&loop->a, &part, scratch_of(loop->x, worker));
}

static void join_chunk(void *ctx, size_t chunk, int worker)
{
    const struct page_loop *loop = ctx;
    const struct attend_part part = part_of(loop, chunk, 1);
    kernels_of(loop->x)->attend_join(&loop->a, &part, scratch_of(loop->x, worker));
}

static bool run_pages(struct cpu_exec *x)
{
    const struct op_attend *op = &x->op->attend;
    struct pool *pool = backend_of(x)->pool;
    struct page_loop loop = {.x = x, .a = attend_of(x, op), .n_rows = x->hi - x->lo};
    set_pages(x, op, &loop);
    set_parts(&loop);
    return pool_run(pool, loop.n_groups * loop.n_parts, pages_chunk, &loop, x->step->cancel) &&
           pool_run(pool, loop.a.kv->n_heads, join_chunk, &loop, x->step->cancel);
}

static bool run_heads(struct cpu_exec *x)
{
    struct attend_loop loop = {.x = x, .a = attend_of(x, &x->op->attend)};
    const size_t n_rows = x->hi - x->lo, n_heads = loop.a.kv->n_heads;
    loop.per_chunk = attend_rows(x, n_rows, n_heads, loop.a.n_group);
    loop.n_row_chunks = quotient_up(n_rows, loop.per_chunk);
    return pool_run(backend_of(x)->pool, loop.n_row_chunks * n_heads, attend_chunk, &loop,
                    x->step->cancel);
}

bool run_attend(struct cpu_exec *x)
{
    return attend_is_deep(x, &x->op->attend) ? run_pages(x) : run_heads(x);
}
