/* What a timeline holds: its tokens, the logits and states behind them, snapshots of these. */
#include <assert.h>

#include "backend/backend.h"
#include "cache/page.h"
#include "cache/tree.h"
#include "engine/timeline_impl.h"

size_t timeline_n(const struct timeline *tl)
{
    return tree_n(tl->tree);
}

const int32_t *timeline_ids(const struct timeline *tl)
{
    return tree_ids(tl->tree);
}

uint32_t timeline_n_ctx(const struct timeline *tl)
{
    return tl->n_ctx;
}

const float *timeline_logits(struct timeline *tl)
{
    struct err ignored; /* a device that failed says so at the next step */
    if (tl->has_logits && tl->is_far) {
        tl->has_logits = exec_logits(tl->exec, tl->far_row, tl->logits, &ignored);
        tl->is_far = false;
    }
    return tl->has_logits ? tl->logits : NULL;
}

struct timeline_usage timeline_usage(const struct timeline *tl)
{
    struct tree_usage u = tree_usage(tl->tree);
    return (struct timeline_usage){.n_pages = u.n_pages,
                                   .n_current_pages = u.n_path_pages,
                                   .n_snapshots = u.n_snapshots,
                                   .bytes = u.bytes,
                                   .current_bytes = u.path_bytes,
                                   .n_steps = tl->n_steps,
                                   .n_state_returns = tl->states.n_returns,
                                   .state_return_bytes = tl->states.written_bytes};
}

static bool has_all_for_snapshot(struct timeline *tl)
{
    const size_t n = tree_n(tl->tree);
    return n > 0 && states_at(&tl->states, n) && timeline_logits(tl);
}

void timeline_snapshot(struct timeline *tl)
{
    if (has_all_for_snapshot(tl))
        tree_snapshot(tl->tree, tl->logits, states_bytes(&tl->states));
}

void timeline_snapshot_passing(struct timeline *tl)
{
    if (has_all_for_snapshot(tl))
        tree_snapshot_passing(tl->tree, tl->logits, states_bytes(&tl->states));
}

void timeline_mark(struct timeline *tl, size_t n)
{
    tl->mark = n;
}

size_t timeline_n_marked(const struct timeline *tl)
{
    return tl->n_prompt;
}

bool timeline_needs_marks(const struct timeline *tl)
{
    return tl->model.is_recurrent || tl->model.window > 0;
}

void timeline_prepare(struct timeline *tl, const atomic_bool *stop)
{
    page_pool_prepare(tl->pool, stop);
}

void timeline_truncate(struct timeline *tl, size_t n)
{
    assert(n <= tree_n(tl->tree));
    if (n == tree_n(tl->tree)) return;
    tree_truncate(tl->tree, n);
    states_cut(&tl->states, n);
    tl->has_logits = false;
    tl->n_drawn = 0;
    timeline_saved_at_most(tl, n);
}

void timeline_hold(struct timeline *tl)
{
    if (states_at(&tl->states, tree_n(tl->tree))) states_hold(&tl->states);
}

void timeline_forget(struct timeline *tl)
{
    tree_forget(tl->tree);
    states_lose(&tl->states);
    tl->has_logits = false;
    timeline_saved_at_most(tl, 0);
}
