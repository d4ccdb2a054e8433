/* The largest count, from the longest beginning down, at which nothing is missing. */
#include "cache/plan.h"

#include <assert.h>

#include "backend/ops.h"

/* Whether the windowed rows that position n looks back on are there: n-window+1 .. n-1. */
static bool window_is_there(const struct plan_model *model, const struct plan_have *have,
                            size_t n)
{
    if (model->window == 0 || !have->windows || n == 0) return true;
    size_t first = n >= model->window ? n - model->window + 1 : 0;
    for (size_t page = first / PAGE_LEN; first < n && page * PAGE_LEN < n; page++) {
        size_t left = n - page * PAGE_LEN;
        if (have->windows[page] < (left < PAGE_LEN ? left : PAGE_LEN)) return false;
    }
    return true;
}

static size_t snapshot_at(const struct plan_have *have, size_t n)
{
    for (size_t i = have->n_snapshots; i > 0 && have->snapshots[i - 1] >= n; i--)
        if (have->snapshots[i - 1] == n) return i - 1;
    return PLAN_NO_SNAPSHOT;
}

struct plan plan_make(const struct plan_model *model, const struct plan_have *have,
                      size_t n_want)
{
    assert(n_want > 0 && have->n <= n_want);
    struct plan plan = {.keep = have->n, .snapshot = PLAN_NO_SNAPSHOT};
    for (size_t n = have->n; n > 0; n--) {
        if (!window_is_there(model, have, n)) continue;
        size_t snapshot = snapshot_at(have, n);
        bool has = snapshot != PLAN_NO_SNAPSHOT;
        /* The logits of the last token come from its row or from a snapshot. */
        if (n == n_want ? !has : model->is_recurrent && !has) continue;
        plan.from = n;
        if (n == n_want || model->is_recurrent) plan.snapshot = snapshot;
        break;
    }
    return plan;
}
