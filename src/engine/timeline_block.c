/* Both timelines make room for all rows there may be, and keep those that came true. */
#include "engine/timeline_block.h"

#include <assert.h>
#include <string.h>

#include "backend/backend.h"
#include "cache/tree.h"
#include "engine/timeline_impl.h"

bool timeline_takes_blocks(const struct timeline *target, const struct timeline *draft)
{
    return exec_takes_blocks(target->exec, draft->exec);
}

/* Whether states and windowed rows are there after all tokens; or, of the draft, before some
 * that are read again with the n it lacks. */
static bool is_ready(const struct timeline *tl, size_t n)
{
    const size_t n_all = tree_n(tl->tree);
    if (n > 0 && timeline_rows_behind(tl, n) > 0) return true;
    return states_at(&tl->states, n_all) && tree_has_window(tl->tree, n_all);
}

bool timeline_takes_block_now(const struct timeline *target, const struct timeline *draft,
                              size_t n)
{
    return timeline_takes_blocks(target, draft) && is_ready(target, 0) && is_ready(draft, n);
}

/* The step that reads n_rows from a place of a timeline, which has room. */
static struct step step_of(const struct timeline *tl, size_t from, const int32_t *ids,
                           size_t n_rows, const struct draw *draw, const atomic_bool *cancel)
{
    return (struct step){
        .n_rows = (uint32_t)n_rows,
        .pos = (uint32_t)from,
        .tokens = ids,
        .pages = {tree_pages(tl->tree, PAGE_FULL), tree_pages(tl->tree, PAGE_WINDOW)},
        .n_logits = 1,
        .draw = draw,
        .cancel = cancel};
}

/* Rows that were computed from a place on, as far as they count. */
static void keep(struct timeline *tl, size_t from, const int32_t *ids, size_t n, size_t n_steps)
{
    tree_shrink(tl->tree, from + n);
    tree_commit(tl->tree, ids, from, n);
    tree_tidy(tl->tree);
    tl->n_steps += n_steps;
    tl->has_logits = tl->is_far = false;
    tl->n_drawn = 0;
}

/* What the draft reads before its first guess: ids[0..n), the last of which is the newest
 * token, as its rows from.. on. */
struct reading {
    size_t from, n;
    const int32_t *ids;
};

static bool run(struct timeline *target, struct timeline *draft, const struct reading *r,
                struct timeline_block *b, const atomic_bool *cancel, struct err *err)
{
    const int32_t *newest = r->ids + r->n - 1;
    struct step read = step_of(draft, r->from, r->ids, r->n, b->draft_draw, cancel);
    struct step check =
        step_of(target, tree_n(target->tree), newest, b->n_drafts + 1, b->draw, cancel);
    struct draft_block block = {
        .draft = draft->exec, .model = target->exec, .read = &read, .check = &check};
    check.n_logits = check.n_rows;
    check.drawn = target->drawn;
    check.keeps_trail = target->model.is_recurrent;
    states_lend(&target->states, &check);
    target->has_logits = target->is_far = draft->has_logits = draft->is_far = false;
    target->n_drawn = draft->n_drawn = 0;
    if (!states_lend_ahead(&draft->states, &read, &block.state_end, err) ||
        !exec_block(&block, err))
        return false;
    states_take(&target->states, check.n_rows); /* timeline_keep_rows takes the wrong back */
    states_take_ahead(&draft->states, r->n, b->n_drafts - 1);
    b->n_right = block.n_right;
    b->draft_share = block.draft_share;
    return true;
}

bool timeline_block(struct timeline *target, struct timeline *draft, struct timeline_block *b,
                    const atomic_bool *cancel, struct err *err)
{
    const size_t n_draft = tree_n(draft->tree), n_target = tree_n(target->tree);
    const size_t behind = timeline_rows_behind(draft, b->n), from = n_draft - behind;
    assert(b->n > 0 && b->n <= TIMELINE_MAX_VERIFY && n_draft + b->n == n_target + 1);
    assert(b->n_drafts > 0 && b->n_drafts < TIMELINE_MAX_VERIFY);
    assert(states_at(&target->states, n_target) && states_at(&draft->states, from));
    assert(n_target + b->n_drafts < target->n_ctx && n_target + b->n_drafts <= draft->n_ctx);
    int32_t ids[2 * TIMELINE_MAX_VERIFY];
    const size_t n = behind + b->n;
    memcpy(ids, tree_ids(draft->tree) + from, behind * sizeof *ids);
    memcpy(ids + behind, b->ids, b->n * sizeof *ids);
    if (!tree_grow(draft->tree, from, n_target + b->n_drafts, err)) return false;
    if (!tree_grow(target->tree, n_target, n_target + 1 + b->n_drafts, err)) {
        tree_cancel(draft->tree);
        return false;
    }
    const struct reading reading = {from, n, ids};
    if (!run(target, draft, &reading, b, cancel, err)) {
        tree_cancel(target->tree);
        tree_cancel(draft->tree);
        return false;
    }
    /* The draft has not read its last guess. */
    const size_t n_read = b->n_right < b->n_drafts ? b->n_right : b->n_drafts - 1;
    memcpy(ids + n, target->drawn, b->n_right * sizeof *ids);
    keep(draft, from, ids, n + n_read, b->n_drafts);
    keep(target, n_target, ids + n - 1, b->n_right + 1, 1);
    states_cut(&draft->states, tree_n(draft->tree));
    target->rows_from = n_target;
    target->is_far = true;
    target->far_row = 0;
    target->n_drawn = b->n_right + 1;
    return true;
}
