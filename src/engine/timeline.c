#include "engine/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "cache/page.h"
#include "engine/verify.h"

struct timeline {
    struct backend *be;
    const struct program *program;
    struct exec *exec;
    struct page_pool *pool;
    struct page_table table;
    struct ids ids;
    uint32_t n_ctx;
    size_t n_vocab;
    float *logits; /* [n_vocab] */
    bool has_logits;
    double row_ms; /* measured cost of a prefilled row; 0: not yet */
};

/* A chunk that takes about this long shows progress and loses little when cancelled, and is
 * large enough for the weights to be read once for many rows. */
static const double CHUNK_MS = 400;
enum { MIN_CHUNK = 32 };
/* Logits of all rows are delivered in buffers of about this size. */
static const size_t ROWS_BYTES = 32u << 20;

struct timeline *timeline_new(struct backend *be, const struct program *program, uint32_t n_ctx,
                              struct err *err)
{
    struct exec *exec = exec_new(be, program, TIMELINE_MAX_ROWS, err);
    if (!exec) return NULL;
    struct timeline *tl = mem_zalloc(1, sizeof *tl);
    tl->be = be;
    tl->program = program;
    tl->exec = exec;
    tl->pool = page_pool_new(be, program->page_bytes);
    tl->n_ctx = n_ctx;
    tl->n_vocab = program->n_vocab;
    tl->logits = mem_zalloc(tl->n_vocab, sizeof *tl->logits);
    return tl;
}

void timeline_free(struct timeline *tl)
{
    if (!tl) return;
    page_table_free(&tl->table, tl->pool);
    page_pool_free(tl->pool);
    exec_free(tl->exec);
    ids_free(&tl->ids);
    free(tl->logits);
    free(tl);
}

size_t timeline_n(const struct timeline *tl)
{
    return tl->ids.n;
}

const int32_t *timeline_ids(const struct timeline *tl)
{
    return tl->ids.data;
}

uint32_t timeline_n_ctx(const struct timeline *tl)
{
    return tl->n_ctx;
}

const float *timeline_logits(const struct timeline *tl)
{
    return tl->has_logits ? tl->logits : NULL;
}

size_t timeline_kv_bytes(const struct timeline *tl)
{
    return page_pool_bytes(tl->pool);
}

void *timeline_page(const struct timeline *tl, size_t i)
{
    assert(i < tl->table.n);
    return tl->table.data[i];
}

static size_t pages_for(size_t n_tokens)
{
    return (n_tokens + PAGE_LEN - 1) / PAGE_LEN;
}

void timeline_truncate(struct timeline *tl, size_t n)
{
    assert(n <= tl->ids.n);
    if (n == tl->ids.n) return;
    tl->ids.n = n;
    tl->has_logits = false;
    page_table_trim(&tl->table, tl->pool, pages_for(n));
}

/* Appends n_rows tokens in one step, with the logits of the last n_logits rows. The only place
 * where the timeline grows: the ids follow only when the step is done. */
static bool run_chunk(struct timeline *tl, const int32_t *ids, uint32_t n_rows,
                      uint32_t n_logits, float *logits, const atomic_bool *cancel,
                      struct err *err)
{
    assert(n_rows > 0 && tl->ids.n + n_rows <= tl->n_ctx);
    tl->has_logits = false;
    if (!page_table_grow(&tl->table, tl->pool, pages_for(tl->ids.n + n_rows), err))
        return false;
    const struct step step = {.n_rows = n_rows,
                              .pos = (uint32_t)tl->ids.n,
                              .tokens = ids,
                              .pages = tl->table.data,
                              .n_logits = n_logits,
                              .logits = n_logits ? logits : NULL,
                              .cancel = cancel};
    if (!exec_run(tl->exec, &step, err)) return false;
    ids_append(&tl->ids, ids, n_rows);
    tl->has_logits = n_logits > 0 && logits == tl->logits;
    return true;
}

static bool check_ids(const struct timeline *tl, const int32_t *ids, size_t n, struct err *err)
{
    if (n == 0) return err_set(err, ERR_USER, "the prompt is empty: it has no tokens");
    if (n > tl->n_ctx)
        return err_set(err, ERR_USER, "the prompt has %zu tokens, the context holds %u", n,
                       tl->n_ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= tl->n_vocab)
            return err_set(err, ERR_USER, "token id %d is outside the vocabulary of %zu",
                           (int)ids[i], tl->n_vocab);
    return true;
}

static size_t common_prefix(const struct ids *have, const int32_t *ids, size_t n)
{
    size_t most = have->n < n ? have->n : n, i = 0;
    while (i < most && have->data[i] == ids[i])
        i++;
    return i;
}

static struct timeline_cost cost_of(const struct timeline *tl, const int32_t *ids, size_t n,
                                    size_t keep)
{
    struct timeline_cost cost = {.n_cached = keep, .n_prefilled = n - keep};
    size_t same = common_prefix(&tl->ids, ids, n);
    if (same == n || same == tl->ids.n) return cost;
    cost.diverged = true;
    cost.diverged_at = same;
    cost.old_id = tl->ids.data[same];
    cost.new_id = ids[same];
    return cost;
}

static uint32_t chunk_rows(const struct timeline *tl, size_t left)
{
    size_t rows = MIN_CHUNK;
    if (tl->row_ms > 0) {
        double fit = CHUNK_MS / tl->row_ms;
        rows = fit >= TIMELINE_MAX_ROWS ? TIMELINE_MAX_ROWS : (size_t)fit & ~(size_t)31;
        if (rows < MIN_CHUNK) rows = MIN_CHUNK;
    }
    return (uint32_t)(rows < left ? rows : left);
}

bool timeline_sync(struct timeline *tl, const int32_t *ids, size_t n,
                   const struct timeline_watch *watch, struct timeline_cost *cost,
                   struct err *err)
{
    if (!check_ids(tl, ids, n, err)) return false;
    size_t keep = common_prefix(&tl->ids, ids, n);
    /* Logits are not kept per position: a shorter history computes its last row again, which
     * writes the same bits over its keys and values. */
    if (keep == n && !(tl->has_logits && tl->ids.n == n)) keep--;
    if (cost) *cost = cost_of(tl, ids, n, keep);
    timeline_truncate(tl, keep);
    while (tl->ids.n < n) {
        uint32_t rows = chunk_rows(tl, n - tl->ids.n);
        bool last = tl->ids.n + rows == n;
        double start = clock_ms();
        if (!run_chunk(tl, ids + tl->ids.n, rows, last ? 1 : 0, tl->logits,
                       watch ? watch->cancel : NULL, err))
            return false;
        if (rows >= MIN_CHUNK) tl->row_ms = (clock_ms() - start) / rows;
        if (watch && watch->progress) watch->progress(watch->user, tl->ids.n, n, keep);
    }
    return true;
}

bool timeline_append(struct timeline *tl, int32_t id, const atomic_bool *cancel,
                     struct err *err)
{
    assert(id >= 0 && (size_t)id < tl->n_vocab);
    return run_chunk(tl, &id, 1, 1, tl->logits, cancel, err);
}

bool timeline_all_rows(struct timeline *tl, const int32_t *ids, size_t n, uint32_t chunk,
                       timeline_rows_fn *rows, void *user, const atomic_bool *cancel,
                       struct err *err)
{
    if (!check_ids(tl, ids, n, err)) return false;
    size_t most = ROWS_BYTES / (tl->n_vocab * sizeof(float));
    if (chunk == 0) chunk = most < MIN_CHUNK ? MIN_CHUNK : (uint32_t)most;
    if (chunk > TIMELINE_MAX_ROWS) chunk = TIMELINE_MAX_ROWS;
    size_t n_floats = 0, n_bytes = 0;
    float *logits = NULL;
    if (mem_mul(chunk < n ? chunk : n, tl->n_vocab, &n_floats) &&
        mem_mul(n_floats, sizeof *logits, &n_bytes))
        logits = mem_try_pages(n_bytes);
    if (!logits) return err_set(err, ERR_MEMORY, "no memory for the logits of %u rows", chunk);
    timeline_truncate(tl, 0);
    bool ok = true, wanted = true;
    while (ok && wanted && tl->ids.n < n) {
        size_t first = tl->ids.n, left = n - first;
        uint32_t n_rows = left < chunk ? (uint32_t)left : chunk;
        ok = run_chunk(tl, ids + first, n_rows, n_rows, logits, cancel, err);
        wanted = ok && rows(user, first, n_rows, logits);
    }
    mem_free_pages(logits, n_bytes);
    return ok;
}

bool timeline_verify(struct timeline *tl, const struct timeline_watch *watch,
                     struct verify_verdict *out, struct err *err)
{
    const struct verify_logits held = {tl->ids.n, tl->logits};
    const struct verify_subject subject = {.be = tl->be,
                                           .program = tl->program,
                                           .exec = tl->exec,
                                           .max_rows = TIMELINE_MAX_ROWS,
                                           .ids = tl->ids.data,
                                           .n = tl->ids.n,
                                           .pages = tl->table.data,
                                           .held = &held,
                                           .n_held = tl->has_logits};
    return verify_run(&subject, watch, out, err);
}
