/* Finding what is warm of a sequence. */
#include <assert.h>

#include "base/mem.h"
#include "cache/tree_impl.h"

static void found_node(struct found *f, size_t i, struct node *node)
{
    if (i == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 8;
        f->nodes = mem_resize(f->nodes, f->cap, sizeof *f->nodes);
        f->windows = mem_resize(f->windows, f->cap, sizeof *f->windows);
    }
    f->nodes[i] = node;
    f->windows[i] = node->n_window;
}

static void found_snapshots(struct found *f, const struct node *node, size_t before, size_t n)
{
    for (struct snapshot *s = node->snapshots; s; s = s->next) {
        if (s->n > n) continue;
        size_t at = f->have.n_snapshots, count = before + s->n;
        if (at == f->cap_snapshots) {
            f->cap_snapshots = at ? 2 * at : 8;
            f->snapshots = mem_resize(f->snapshots, f->cap_snapshots, sizeof *f->snapshots);
            f->counts = mem_resize(f->counts, f->cap_snapshots, sizeof *f->counts);
        }
        for (; at > 0 && f->counts[at - 1] > count; at--) {
            f->counts[at] = f->counts[at - 1];
            f->snapshots[at] = f->snapshots[at - 1];
        }
        f->counts[at] = count;
        f->snapshots[at] = s;
        f->have.n_snapshots++;
    }
}

/* How good a child is to go on with. */
struct match {
    size_t same;   /* rows it begins with that are wanted */
    size_t window; /* of these, windowed ones */
    bool ends;     /* it has no others and can grow in place */
};

static bool better(const struct match *a, const struct match *b)
{
    if (a->same != b->same) return a->same > b->same;
    if (a->window != b->window) return a->window > b->window;
    return a->ends && !b->ends;
}

/* The child that begins most like ids[0..n), NULL if none does at all. Snapshots of all of them
 * count: they tell the same. */
static struct node *best_child(struct found *f, const struct node *node, const int32_t *ids,
                               size_t n, size_t before, size_t *same)
{
    struct node *best = NULL;
    struct match of_best = {0};
    for (struct node *c = node->child; c; c = c->next) {
        size_t l = common(c->ids, c->n, ids, least(n, PAGE_LEN));
        if (l == 0) continue;
        found_snapshots(f, c, before, l);
        const struct match m = {l, least(c->n_window, l), c->n == l};
        if (!best || better(&m, &of_best)) best = c, of_best = m;
    }
    *same = of_best.same;
    return best;
}

const struct plan_have *tree_find(struct tree *t, const int32_t *ids, size_t n)
{
    assert(!t->path.copied && t->path.n_nodes == pages_for(tree_n(t)));
    struct found *f = &t->found;
    f->have = (struct plan_have){0};
    f->ids = ids;
    const struct node *node = &t->root;
    for (size_t i = 0, same = PAGE_LEN; same == PAGE_LEN && f->have.n < n; i++) {
        struct node *child =
            best_child(f, node, ids + f->have.n, n - f->have.n, f->have.n, &same);
        if (!child) break;
        found_node(f, i, child);
        f->have.n += same;
        node = child;
    }
    f->have.windows = page_pool_has_windows(t->pool) ? f->windows : NULL;
    f->have.snapshots = f->counts;
    return &f->have;
}

const float *tree_snapshot_logits(const struct tree *t, size_t i)
{
    assert(i < t->found.have.n_snapshots);
    return t->found.snapshots[i]->logits;
}

const void *tree_snapshot_states(const struct tree *t, size_t i)
{
    assert(i < t->found.have.n_snapshots);
    return t->state_bytes ? snapshot_states(t, t->found.snapshots[i]) : NULL;
}

void tree_snapshot_used(struct tree *t, size_t i)
{
    assert(i < t->found.have.n_snapshots);
    snapshot_used(t, t->found.snapshots[i]);
}
