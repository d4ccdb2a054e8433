/* How attention is cut into chunks for the pool: by KV heads and rows; as part of a run
 * (exec_runs.c) by KV heads; where these are fewer than threads by query heads, too; and of few
 * queries over many pages by pages. */
#include <assert.h>

#include "backend/kv.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/attend.h"
#include "cpu/exec_impl.h"

static size_t quotient_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

struct attend_loop {
    struct cpu_exec *x;
    struct attend a;
    size_t per_chunk, n_row_chunks;
    size_t n_shares; /* of a KV head */
};

/* KV heads that a thread takes at once: of few queries as many as are taken together, unless
 * threads would wait for one that has more of them than it must. */
static size_t heads_at_once(const struct cpu_exec *x, size_t n_queries, size_t n_heads)
{
    if (!kernels_of(x)->attend_heads) return 1;
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    size_t best = 1, least = quotient_up(n_heads, n_threads);
    for (size_t n = 2; n <= n_heads && n * n_queries <= ATTEND_HEADS_QUERIES; n++) {
        const size_t n_chunks = quotient_up(n_heads, n);
        if (quotient_up(n_chunks, n_threads) * n <= least) best = n;
    }
    return best;
}

/* Rows per chunk: as many as the kernel takes, fewer where KV heads alone would leave threads
 * without work. */
static size_t attend_rows(const struct cpu_exec *x, size_t n_rows, size_t n_heads,
                          size_t n_group)
{
    const size_t wanted = 2 * (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t per_head = quotient_up(wanted, n_heads);
    const size_t most = kernels_of(x)->attend_rows(n_group);
    size_t n = quotient_up(n_rows, per_head);
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
                           .slopes = {op->slope_step, op->n_heads, 0},
                           .cancel = x->step->cancel};
}

/* ---- shares ---- */

/* A share of the query heads of a KV head, as if it had no others: what kernels find by the
 * number of a query head lies `skipped` heads further on. */
struct share {
    struct attend a;
    size_t kv_head, skipped;
};

static struct share share_of(const struct attend *a, size_t n_shares, size_t i)
{
    struct share s = {.a = *a, .kv_head = i / n_shares};
    const size_t of_head = i % n_shares, lo = a->n_group * of_head / n_shares;
    s.a.n_group = a->n_group * (of_head + 1) / n_shares - lo;
    s.skipped = s.kv_head * (a->n_group - s.a.n_group) + lo;
    s.a.q += s.skipped * a->kv->head_dim_k;
    s.a.out += s.skipped * a->kv->head_dim_v;
    if (a->sinks) s.a.sinks += s.skipped;
    s.a.slopes.first += (uint32_t)s.skipped;
    return s;
}

/* Into how many shares the query heads of each KV head go, of n_rows rows that are one chunk.
 * More than ATTEND_HEADS_QUERIES queries compute for longer than their keys are read, so where
 * there are fewer KV heads than threads, several threads read them. As few shares as give the
 * busiest thread the least. One row of 20 query heads and 1 KV head of 576 and 512 dims at a
 * depth of 4096, 8 layers: 26.5 ms of attention as one share, 14.6 as two (Zen 4, 2 threads,
 * 2026-11). */
static size_t shares_in(const struct cpu_exec *x, const struct attend *a, size_t n_rows)
{
    if (n_rows * a->n_group <= ATTEND_HEADS_QUERIES) return 1;
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t n_heads = a->kv->n_heads;
    size_t best = 1, least = quotient_up(n_heads, n_threads) * a->n_group;
    for (size_t n = 2; n <= a->n_group && n <= n_threads; n++) {
        const size_t most = quotient_up(n_heads * n, n_threads) * quotient_up(a->n_group, n);
        if (most < least) best = n, least = most;
    }
    return best;
}

static void attend_chunk(void *ctx, size_t chunk, int worker)
{
    const struct attend_loop *loop = ctx;
    const struct share s = share_of(&loop->a, loop->n_shares, chunk / loop->n_row_chunks);
    size_t lo = chunk % loop->n_row_chunks * loop->per_chunk, hi = lo + loop->per_chunk;
    size_t n = loop->x->hi - loop->x->lo;
    kernels_of(loop->x)->attend(&s.a, s.kv_head, lo, hi < n ? hi : n,
                                scratch_of(loop->x, worker));
}

size_t attend_head_chunks(const struct cpu_exec *x, const struct op_attend *op)
{
    const size_t n_heads = x->p->kv[op->kv].n_heads;
    const size_t at_once = heads_at_once(x, (x->hi - x->lo) * (op->n_heads / n_heads), n_heads);
    return quotient_up(n_heads, at_once);
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

/* Where there are twice as many threads as KV heads, or more, some would have nothing to do. So
 * the pages of a KV head are cut into a first part, whose pages are folded as they come, and
 * smaller ones that leave the sums of each page; when all are there, they are folded in their
 * order. */
struct page_loop {
    struct cpu_exec *x;
    struct attend a;
    size_t n_rows, n_shares; /* of a KV head */
    size_t begin, end;       /* pages */
    struct page_cut cut;
    struct attend_sums sums;
};

/* What cutting by pages costs: three more times all threads meet, and sums are written and
 * read, for a page a third of what it takes. It is worth it where a thread reads WORTH_BYTES
 * less. One row at a depth of 8192, 1 KV head of 128 dims, 4 queries, 2 threads, attention and
 * what stands beside it: f16 7.67 and 5.82 ms, q8_0 3.62 and 3.35. Where each thread has a KV
 * head it loses: 26.5 and 27.3 ms a step with an eighth of the pages so (Zen 4, 2026-11). A
 * part reads PART_BYTES, or a quarter of a thread's share. */
enum { WORTH_BYTES = 256 << 10, PART_BYTES = 128 << 10 };

struct page_cut attend_cut(size_t n_pages, size_t page_bytes, size_t n_heads, size_t n_threads,
                           size_t n_room)
{
    const struct page_cut none = {0};
    if (2 * n_heads > n_threads || n_room < 2 || n_pages < 2) return none;
    const size_t even = n_pages * n_heads / n_threads;
    size_t n_first = 3 * n_pages * n_heads / (4 * n_threads);
    if (n_first < 1) n_first = 1;
    if (n_pages - n_first > n_room - 1) n_first = n_pages - (n_room - 1);
    const size_t longest = n_first > even ? n_first : even;
    if ((n_pages - longest) * page_bytes < WORTH_BYTES) return none;
    const size_t n_others = n_pages - n_first;
    const size_t least = quotient_up(PART_BYTES, page_bytes);
    const size_t quarter = quotient_up(n_others * n_heads, n_threads) / 4;
    struct page_cut cut = {.n_first = n_first, .per_part = least < quarter ? quarter : least};
    cut.n_parts = 1 + quotient_up(n_others, cut.per_part);
    return cut;
}

static size_t sums_stride(const struct kv_layer *kv)
{
    return mem_round_up(kv->head_dim_v + ATTEND_SUM_ENDS, 16);
}

/* Whether threads may cut such attention, if a step has few enough queries. */
static bool may_cut(const struct backend *be, const struct kv_layer *kv)
{
    const struct cpu_backend *cpu = (const struct cpu_backend *)be;
    return cpu->kernels->attend_part && kv->head_dim_v % 8 == 0 &&
           2 * (size_t)kv->n_heads <= (size_t)pool_n_threads(cpu->pool);
}

size_t attend_sums_bytes(const struct backend *be, const struct program *p)
{
    for (size_t i = 0; i < p->n_kv; i++)
        if (may_cut(be, &p->kv[i])) return SUMS_BYTES;
    return 0;
}

static struct page_loop page_loop_of(struct cpu_exec *x, const struct op_attend *op)
{
    const struct kv_layer *kv = &x->p->kv[op->kv];
    const size_t n_threads = (size_t)pool_n_threads(backend_of(x)->pool);
    struct page_loop loop = {
        .x = x, .a = attend_of(x, op), .n_rows = x->hi - x->lo, .n_shares = 1};
    loop.begin = attend_first(op->window, loop.a.pos) / PAGE_LEN;
    loop.end = pages_for(x->step->pos + x->hi);
    if (!may_cut(x->base.be, kv) || loop.n_rows > ATTEND_HEADS_QUERIES) return loop;
    /* A part takes so many queries at most; to the cut a share is a KV head. */
    loop.n_shares = quotient_up(loop.a.n_group, ATTEND_HEADS_QUERIES / loop.n_rows);
    loop.sums.at = x->sums;
    loop.sums.stride = sums_stride(kv);
    loop.sums.stretch = loop.n_rows * op->n_heads * loop.sums.stride;
    loop.cut = attend_cut(loop.end - loop.begin, kv_head_bytes(kv), kv->n_heads * loop.n_shares,
                          n_threads, SUMS_BYTES / sizeof(float) / loop.sums.stretch);
    return loop;
}

bool attend_is_apart(struct cpu_exec *x, const struct op_attend *op)
{
    const struct page_loop pages = page_loop_of(x, op);
    if (pages.cut.n_parts > 0) return true;
    const size_t n_shares = shares_in(x, &pages.a, pages.n_rows);
    const size_t bytes = (pages.end - pages.begin) * kv_head_bytes(pages.a.kv);
    return bytes / n_shares * (n_shares - 1) >= WORTH_BYTES;
}

static struct attend_sums sums_of(const struct page_loop *loop, const struct share *s)
{
    struct attend_sums sums = loop->sums;
    sums.at += s->skipped * loop->n_rows * sums.stride;
    return sums;
}

static void pages_chunk(void *ctx, size_t chunk, int worker)
{
    const struct page_loop *loop = ctx;
    const struct page_cut *cut = &loop->cut;
    const size_t i = chunk % cut->n_parts, others = loop->begin + cut->n_first;
    const struct share s = share_of(&loop->a, loop->n_shares, chunk / cut->n_parts);
    struct attend_part part = {.kv_head = s.kv_head,
                               .n_rows = loop->n_rows,
                               .from = loop->begin,
                               .to = others,
                               .end = loop->end,
                               .folded = i == 0,
                               .sums = sums_of(loop, &s)};
    if (i > 0) {
        part.from = others + (i - 1) * cut->per_part;
        part.to = loop->end - part.from < cut->per_part ? loop->end : part.from + cut->per_part;
        part.sums.at += (1 + part.from - others) * part.sums.stretch;
    }
    kernels_of(loop->x)->attend_part(&s.a, &part, scratch_of(loop->x, worker));
}

static void join_chunk(void *ctx, size_t chunk, int worker)
{
    const struct page_loop *loop = ctx;
    const size_t n = 1 + loop->end - loop->begin - loop->cut.n_first;
    const struct share s = share_of(&loop->a, loop->n_shares, chunk);
    kernels_of(loop->x)->attend_join(&s.a, s.kv_head, loop->n_rows, sums_of(loop, &s), n,
                                     scratch_of(loop->x, worker));
}

static bool run_pages(struct page_loop *loop)
{
    struct pool *pool = backend_of(loop->x)->pool;
    const atomic_bool *cancel = loop->x->step->cancel;
    const size_t n_heads = loop->a.kv->n_heads * loop->n_shares;
    return pool_run(pool, n_heads * loop->cut.n_parts, pages_chunk, loop, cancel) &&
           pool_run(pool, n_heads, join_chunk, loop, cancel);
}

static bool run_heads(struct cpu_exec *x)
{
    struct attend_loop loop = {.x = x, .a = attend_of(x, &x->op->attend)};
    const size_t n_rows = x->hi - x->lo, n_heads = loop.a.kv->n_heads;
    loop.per_chunk = attend_rows(x, n_rows, n_heads, loop.a.n_group);
    loop.n_row_chunks = quotient_up(n_rows, loop.per_chunk);
    loop.n_shares = loop.n_row_chunks == 1 ? shares_in(x, &loop.a, n_rows) : 1;
    return pool_run(backend_of(x)->pool, loop.n_row_chunks * n_heads * loop.n_shares,
                    attend_chunk, &loop, x->step->cancel);
}

bool run_attend(struct cpu_exec *x)
{
    struct page_loop pages = page_loop_of(x, &x->op->attend);
    return pages.cut.n_parts > 0 ? run_pages(&pages) : run_heads(x);
}
