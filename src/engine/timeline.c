/* Ids in, rows and logits out: plan what is there, restore it, compute the rest in chunks. */
#include "engine/timeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/kv_rows.h"
#include "base/file.h"
#include "base/mem.h"
#include "cache/page.h"
#include "cache/plan.h"
#include "cache/tree.h"
#include "engine/states.h"
#include "engine/timeline_impl.h"
#include "engine/verify.h"

/* A chunk that takes about this long shows progress and loses little when cancelled, and is
 * large enough for the weights to be read once for many rows. */
static const double CHUNK_MS = 400;
enum { MIN_CHUNK = 32 };
/* Logits of all rows are delivered in buffers of about this size. */
static const size_t ROWS_BYTES = 32u << 20;

static size_t most_snapshots(const struct timeline_need *need, uint64_t warm_bytes)
{
    enum { LEAST = 6, MOST = 512 };
    if (need->state_bytes == 0 && need->window == 0) return TIMELINE_SNAPSHOTS;
    const uint64_t window = need->window ? need->window / PAGE_LEN + 1 : 0;
    const uint64_t n =
        warm_bytes / 2 /
        (need->n_vocab * sizeof(float) + need->state_bytes + window * need->window_page_bytes);
    return n < LEAST ? LEAST : n > MOST ? MOST : (size_t)n;
}

struct tree_limits timeline_tree_limits(const struct timeline_need *need,
                                        const struct timeline_limits *limits)
{
    return (struct tree_limits){.warm_bytes = limits->warm_bytes,
                                .total_bytes =
                                    limits->total_bytes ? limits->total_bytes : UINT64_MAX,
                                .n_snapshots = most_snapshots(need, limits->warm_bytes),
                                .window = need->window};
}

static struct tree_limits tree_limits_of(const struct program *p,
                                         const struct timeline_limits *limits)
{
    const struct timeline_need need = {.n_vocab = p->n_vocab,
                                       .state_bytes = p->state_bytes,
                                       .window = p->window,
                                       .window_page_bytes = p->page_bytes[PAGE_WINDOW]};
    return timeline_tree_limits(&need, limits);
}

struct timeline *timeline_new(struct backend *be, const struct program *program,
                              const struct timeline_limits *limits, struct err *err)
{
    struct exec *exec = exec_new(be, program, TIMELINE_MAX_ROWS, err);
    if (!exec) return NULL;
    struct timeline *tl = mem_zalloc(1, sizeof *tl);
    if (!states_init(&tl->states, be, program, err)) {
        exec_free(exec);
        free(tl);
        return NULL;
    }
    tl->be = be;
    tl->program = program;
    tl->exec = exec;
    tl->pool = page_pool_new(be, program->page_bytes, program->page_unit);
    const struct tree_limits tree_limits = tree_limits_of(program, limits);
    tl->tree = tree_new(tl->pool, &tree_limits, program->n_vocab, program->state_bytes);
    tl->model.is_recurrent = program->state_bytes > 0;
    tl->model.window = program->window;
    tl->n_ctx = limits->n_ctx;
    tl->n_vocab = program->n_vocab;
    tl->logits = mem_zalloc(tl->n_vocab, sizeof *tl->logits);
    return tl;
}

void timeline_set_limits(struct timeline *tl, const struct timeline_limits *limits)
{
    const struct tree_limits tree_limits = tree_limits_of(tl->program, limits);
    tl->n_ctx = limits->n_ctx;
    tree_set_limits(tl->tree, &tree_limits);
}

void timeline_free(struct timeline *tl)
{
    if (!tl) return;
    tree_free(tl->tree);
    page_pool_free(tl->pool);
    exec_free(tl->exec);
    if (tl->rows) mem_free_pages(tl->rows, tl->rows_bytes);
    states_free(&tl->states);
    free(tl->logits);
    free(tl);
}

/* What is wanted of the last n_logits rows of a step. */
struct want {
    uint32_t n_logits;
    float *logits;           /* where they go; NULL with draw */
    const struct draw *draw; /* NULL: just the logits */
    bool is_block;           /* some of its rows may be forgotten */
};

/* Computes the rows from..from+n_rows-1 of ids (theirs) in one step. The only place where the
 * timeline grows: the tree takes the ids, and the states the rows, only when the step is done.
 * Rows that are there already are written again with the same bits. The states are those after
 * `from` tokens. */
static bool run_chunk(struct timeline *tl, const int32_t *ids, size_t from, uint32_t n_rows,
                      const struct want *want, const atomic_bool *cancel, struct err *err)
{
    assert(n_rows > 0 && from + n_rows <= tl->n_ctx && states_at(&tl->states, from));
    tl->has_logits = tl->is_far = false;
    tl->n_drawn = 0;
    if (!tree_grow(tl->tree, from, from + n_rows, err)) return false;
    struct step step = {
        .n_rows = n_rows,
        .pos = (uint32_t)from,
        .tokens = ids,
        .pages = {tree_pages(tl->tree, PAGE_FULL), tree_pages(tl->tree, PAGE_WINDOW)},
        .n_logits = want->n_logits,
        .logits = want->n_logits ? want->logits : NULL,
        .draw = want->draw,
        .drawn = want->draw ? tl->drawn : NULL,
        .cancel = cancel};
    states_lend(&tl->states, &step);
    step.keeps_trail = tl->model.is_recurrent && want->is_block;
    if (!exec_run(tl->exec, &step, err)) {
        tree_cancel(tl->tree);
        return false;
    }
    states_take(&tl->states, n_rows);
    tree_commit(tl->tree, ids, from, n_rows);
    tree_tidy(tl->tree);
    tl->n_steps++;
    tl->is_far = want->draw != NULL;
    tl->far_row = 0;
    tl->n_drawn = want->draw ? want->n_logits : 0;
    tl->has_logits =
        want->n_logits == 1 && !want->is_block && (tl->is_far || want->logits == tl->logits);
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

/* ---- making the sequence another ---- */

/* What the wanted tokens have in common with those held before. */
static size_t compare(const struct timeline *tl, const int32_t *ids, size_t n,
                      struct timeline_cost *cost)
{
    const size_t n_old = tree_n(tl->tree);
    const int32_t *old = tree_ids(tl->tree);
    size_t same = 0;
    *cost = (struct timeline_cost){0};
    while (same < n && same < n_old && old[same] == ids[same])
        same++;
    if (same < n && same < n_old) {
        cost->diverged = true;
        cost->diverged_at = same;
        cost->old_id = old[same];
        cost->new_id = ids[same];
    }
    return same;
}

/* The plan for ids[0..n), of which the first `same` were held before, with its cost. Logits and
 * states that are held anyway are as good as a snapshot: then there is none. */
static struct plan make_plan(struct timeline *tl, const int32_t *ids, size_t n, size_t same,
                             struct timeline_cost *cost)
{
    struct plan plan = plan_make(&tl->model, tree_find(tl->tree, ids, n), n);
    const struct states *held = &tl->states;
    if (same == n && n == tree_n(tl->tree) && tl->has_logits && states_at(held, n))
        plan.from = n, plan.snapshot = PLAN_NO_SNAPSHOT;
    else if (timeline_knows_states(tl, same) && held->n < n && held->n > plan.from)
        plan.from = held->n, plan.snapshot = PLAN_NO_SNAPSHOT;
    cost->n_cached = plan.from;
    cost->n_restored = plan.from > same ? plan.from - same : 0;
    cost->n_prefilled = n - plan.from;
    return plan;
}

struct timeline_cost timeline_plan(struct timeline *tl, const int32_t *ids, size_t n)
{
    assert(n > 0);
    struct timeline_cost cost;
    size_t same = compare(tl, ids, n, &cost);
    make_plan(tl, ids, n, same, &cost);
    return cost;
}

/* What the snapshot keeps becomes what is held; without one, the states before row `from`. */
static void restore(struct timeline *tl, const struct plan *plan)
{
    if (plan->snapshot == PLAN_NO_SNAPSHOT) {
        if (plan->from == 0) states_reset(&tl->states);
        return;
    }
    memcpy(tl->logits, tree_snapshot_logits(tl->tree, plan->snapshot),
           tl->n_vocab * sizeof *tl->logits);
    tl->is_far = false;
    states_load(&tl->states, plan->from, tree_snapshot_states(tl->tree, plan->snapshot));
    if (tl->breaks_states) states_break(&tl->states);
    tree_snapshot_used(tl->tree, plan->snapshot);
}

/* Rows of the next chunk. It ends where a snapshot is due. */
static uint32_t next_rows(const struct timeline *tl, size_t at, size_t n)
{
    uint32_t rows = chunk_rows(tl, n - at);
    size_t mark = (at / TIMELINE_MARK_ROWS + 1) * TIMELINE_MARK_ROWS;
    if (tl->mark > at && tl->mark < mark) mark = tl->mark;
    return timeline_needs_marks(tl) && at + rows > mark ? (uint32_t)(mark - at) : rows;
}

/* Whether coming back to just n tokens, of which `from` were there before, should cost little,
 * though nothing ends there: rows of drafts mostly pass what single ones come to. */
static bool is_mark(const struct timeline *tl, size_t from, size_t n)
{
    const bool passes = from / TIMELINE_MARK_ROWS != n / TIMELINE_MARK_ROWS;
    return timeline_needs_marks(tl) && (passes || n == tl->mark);
}

static void snapshot_at_mark(struct timeline *tl, size_t n)
{
    if (n == tl->mark)
        timeline_snapshot(tl);
    else
        timeline_snapshot_passing(tl);
}

/* Computes rows from..n-1 of ids[0..n) and the logits after the last. */
static bool prefill(struct timeline *tl, const int32_t *ids, size_t from, size_t n,
                    const struct timeline_watch *watch, struct err *err)
{
    /* A slow machine takes seconds for the first chunk: it is known before how much there is.
     */
    if (watch && watch->progress && n - from > MIN_CHUNK)
        watch->progress(watch->user, from, n, from);
    for (size_t at = from; at < n;) {
        uint32_t rows = next_rows(tl, at, n);
        bool wants = at + rows == n || is_mark(tl, at, at + rows);
        const struct want want = {.n_logits = wants, .logits = tl->logits};
        double start = clock_ms();
        if (!run_chunk(tl, ids + at, at, rows, &want, watch ? watch->cancel : NULL, err))
            return false;
        const size_t before = at;
        at += rows;
        if (rows >= MIN_CHUNK) tl->row_ms = (clock_ms() - start) / rows;
        /* Rows that are there already lie behind: their snapshots are, or were thinned out. */
        if (is_mark(tl, before, at) && at == tree_n(tl->tree)) snapshot_at_mark(tl, at);
        if (watch && watch->progress) watch->progress(watch->user, at, n, from);
    }
    return true;
}

bool timeline_sync(struct timeline *tl, const int32_t *ids, size_t n,
                   const struct timeline_watch *watch, struct timeline_cost *cost,
                   struct err *err)
{
    if (!check_ids(tl, ids, n, err)) {
        tl->mark = 0;
        return false;
    }
    if (tl->mark >= n) tl->mark = 0;
    struct timeline_cost own;
    if (!cost) cost = &own;
    size_t same = compare(tl, ids, n, cost);
    bool is_held = same == n && n == tree_n(tl->tree) && tl->has_logits;
    timeline_saved_at_most(tl, same);
    double start_read = clock_ms();
    if (!is_held) cost->n_read = timeline_fetch(tl, ids, n, same, watch ? watch->cancel : NULL);
    if (cost->n_read > 0) cost->read_ms = clock_ms() - start_read;
    const struct plan plan = make_plan(tl, ids, n, same, cost);
    /* Of what was read some may be computed again. */
    const size_t n_again = tree_n(tl->tree) > plan.from ? tree_n(tl->tree) - plan.from : 0;
    cost->n_read -= cost->n_read < n_again ? cost->n_read : n_again;
    cost->n_restored -= cost->n_read;
    states_cut(&tl->states, same); /* of tokens that are left */
    restore(tl, &plan);
    tree_go(tl->tree);
    tl->has_logits = plan.from == n;
    tl->n_drawn = 0;
    const bool ok = prefill(tl, ids, plan.from, n, watch, err);
    tl->n_prompt = tl->mark > 0 ? tl->mark : n;
    tl->mark = 0;
    return ok;
}

/* Brings the states and the windowed rows to all tokens of the sequence, after some were
 * dropped.
 */
static bool catch_up(struct timeline *tl, const atomic_bool *cancel, struct err *err)
{
    const size_t n = tree_n(tl->tree);
    if (n == 0) states_reset(&tl->states);
    if (states_at(&tl->states, n) && tree_has_window(tl->tree, n)) return true;
    struct timeline_cost cost;
    tl->has_logits = false; /* logits alone are no place to go on from */
    const int32_t *ids = tree_ids(tl->tree);
    const struct plan plan = make_plan(tl, ids, n, n, &cost);
    const struct timeline_watch watch = {.cancel = cancel};
    restore(tl, &plan);
    return prefill(tl, ids, plan.from, n, &watch, err);
}

size_t timeline_rows_behind(const struct timeline *tl, size_t n)
{
    const size_t n_all = tree_n(tl->tree);
    if (!timeline_knows_states(tl, n_all) || n_all - tl->states.n + n > TIMELINE_MAX_VERIFY)
        return 0;
    return tree_has_window(tl->tree, tl->states.n) ? n_all - tl->states.n : 0;
}

void timeline_draw(struct timeline *tl, const struct draw *draw)
{
    tl->draw = exec_draws(tl->exec) ? draw : NULL;
}

int32_t timeline_drawn(const struct timeline *tl, size_t i)
{
    return i < tl->n_drawn ? tl->drawn[i] : -1;
}

/* The draw that was asked for, if any: for one step. */
static const struct draw *take_draw(struct timeline *tl)
{
    const struct draw *draw = tl->draw;
    tl->draw = NULL;
    return draw;
}

bool timeline_extend(struct timeline *tl, const int32_t *ids, size_t n,
                     const atomic_bool *cancel, struct err *err)
{
    const size_t from = tree_n(tl->tree), behind = timeline_rows_behind(tl, n);
    const struct want want = {.n_logits = 1, .logits = tl->logits, .draw = take_draw(tl)};
    assert(n > 0 && n <= TIMELINE_MAX_ROWS);
    int32_t again[TIMELINE_MAX_VERIFY];
    if (behind > 0) {
        memcpy(again, tree_ids(tl->tree) + from - behind, behind * sizeof *ids);
        memcpy(again + behind, ids, n * sizeof *ids);
        ids = again;
    } else if (!catch_up(tl, cancel, err)) {
        return false;
    }
    if (!run_chunk(tl, ids, from - behind, (uint32_t)(behind + n), &want, cancel, err))
        return false;
    if (is_mark(tl, from, from + n)) snapshot_at_mark(tl, from + n);
    return true;
}

bool timeline_append(struct timeline *tl, int32_t id, const atomic_bool *cancel,
                     struct err *err)
{
    assert(id >= 0 && (size_t)id < tl->n_vocab);
    return timeline_extend(tl, &id, 1, cancel, err);
}

/* ---- drafts ---- */

static bool make_rows(struct timeline *tl, struct err *err)
{
    if (tl->rows) return true;
    size_t n_floats = 0;
    if (mem_mul(TIMELINE_MAX_VERIFY, tl->n_vocab, &n_floats) &&
        mem_mul(n_floats, sizeof *tl->rows, &tl->rows_bytes))
        tl->rows = mem_try_pages(tl->rows_bytes);
    return tl->rows ||
           err_set(err, ERR_MEMORY, "no memory for the logits of %d rows", TIMELINE_MAX_VERIFY);
}

bool timeline_append_rows(struct timeline *tl, const int32_t *ids, size_t n,
                          const atomic_bool *cancel, struct err *err)
{
    assert(n > 0 && n <= TIMELINE_MAX_VERIFY);
    const size_t from = tree_n(tl->tree);
    const struct draw *draw = take_draw(tl);
    if ((!draw && !make_rows(tl, err)) || !catch_up(tl, cancel, err)) return false;
    const struct want want = {
        .n_logits = (uint32_t)n, .logits = tl->rows, .draw = draw, .is_block = true};
    tl->rows_from = from;
    return run_chunk(tl, ids, from, (uint32_t)n, &want, cancel, err);
}

const float *timeline_row(struct timeline *tl, size_t i)
{
    struct err ignored;
    assert(tl->rows_from + i < tree_n(tl->tree));
    if (tl->is_far)
        return exec_logits(tl->exec, (uint32_t)i, tl->logits, &ignored) ? tl->logits : NULL;
    return tl->rows + i * tl->n_vocab;
}

void timeline_keep_rows(struct timeline *tl, size_t n)
{
    const size_t n_all = tl->rows_from + n;
    assert(n > 0 && n_all <= tree_n(tl->tree));
    states_keep(&tl->states, tl->exec, n);
    if (n_all < tree_n(tl->tree)) timeline_truncate(tl, n_all);
    if (!tl->is_far)
        memcpy(tl->logits, tl->rows + (n - 1) * tl->n_vocab, tl->n_vocab * sizeof *tl->logits);
    tl->far_row = (uint32_t)n - 1;
    tl->has_logits = true;
    if (is_mark(tl, tl->rows_from, n_all)) snapshot_at_mark(tl, n_all);
}

bool timeline_all_rows(struct timeline *tl, const int32_t *ids, size_t n, uint32_t chunk,
                       timeline_rows_fn *rows, void *user, struct err *err)
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
    timeline_forget(tl);
    states_reset(&tl->states);
    bool ok = true, wanted = true;
    for (size_t at = 0; ok && wanted && at < n;) {
        uint32_t n_rows = n - at < chunk ? (uint32_t)(n - at) : chunk;
        const struct want want = {.n_logits = n_rows, .logits = logits};
        ok = run_chunk(tl, ids + at, at, n_rows, &want, NULL, err);
        wanted = ok && rows(user, at, n_rows, logits);
        at += n_rows;
    }
    mem_free_pages(logits, n_bytes);
    return ok;
}

bool timeline_verify(struct timeline *tl, const struct timeline_watch *watch,
                     struct verify_verdict *out, struct err *err)
{
    const size_t n = tree_n(tl->tree);
    const struct plan_have *have = tree_find(tl->tree, tree_ids(tl->tree), n);
    struct verify_held *held = mem_zalloc(have->n_snapshots + 2, sizeof *held);
    const struct states *s = &tl->states;
    size_t n_held = 0;
    for (size_t i = 0; i < have->n_snapshots; i++)
        held[n_held++] =
            (struct verify_held){have->snapshots[i], tree_snapshot_logits(tl->tree, i),
                                 tree_snapshot_states(tl->tree, i)};
    if (timeline_logits(tl)) held[n_held++] = (struct verify_held){n, tl->logits, NULL};
    if (s->n_bytes > 0 && s->is_known && s->n > 0) {
        size_t at = n_held++;
        for (; at > 0 && held[at - 1].n > s->n; at--)
            held[at] = held[at - 1];
        held[at] = (struct verify_held){s->n, NULL, states_bytes(&tl->states)};
    }
    const struct verify_subject subject = {
        .be = tl->be,
        .program = tl->program,
        .exec = tl->exec,
        .max_rows = TIMELINE_MAX_ROWS,
        .ids = tree_ids(tl->tree),
        .n = n,
        .pages = {tree_pages(tl->tree, PAGE_FULL), tree_pages(tl->tree, PAGE_WINDOW)},
        .windows = have->windows,
        .held = held,
        .n_held = n_held};
    bool ok = verify_run(&subject, watch, out, err);
    free(held);
    return ok;
}

/* ---- for tests ---- */

void *timeline_page(const struct timeline *tl, size_t i)
{
    assert(i * PAGE_LEN < tree_n(tl->tree));
    return tree_pages(tl->tree, PAGE_FULL)[i];
}

/* Rows from..PAGE_LEN-1 of a part of a page, which only the backend reads and writes. */
static void poison_rows(const struct timeline *tl, enum page_part part, void *data, size_t from)
{
    const struct program *p = tl->program;
    const size_t n_bytes = p->page_bytes[part];
    if (!data || n_bytes == 0 || from == PAGE_LEN) return; /* whole: it may be lent */
    void *host = mem_zalloc(1, n_bytes);
    if (from > 0) backend_page_read(tl->be, data, n_bytes, host);
    kv_rows_poison(p->kv, p->n_kv, part, host, from);
    backend_page_write(tl->be, data, n_bytes, host);
    free(host);
}

static void poison_part(void *user, enum page_part part, void *data)
{
    poison_rows(user, part, data, 0);
}

static void poison_page(void *user, struct page *page, size_t n, size_t n_window)
{
    poison_rows(user, PAGE_FULL, page_data(page, PAGE_FULL), n);
    poison_rows(user, PAGE_WINDOW, page_data(page, PAGE_WINDOW), n_window);
}

void timeline_poison(struct timeline *tl)
{
    page_pool_on_new(tl->pool, poison_part, tl);
    tree_each_page(tl->tree, poison_page, tl);
}

void timeline_break_states(struct timeline *tl)
{
    tl->breaks_states = true;
}
