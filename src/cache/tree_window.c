/* Which windowed rows stay: those before the end of the path and before every snapshot. */
#include <assert.h>

#include "cache/tree_impl.h"

/* A node loses its windowed rows. */
static void window_drop(struct tree *t, struct node *node)
{
    uint64_t before = page_bytes(t->pool, node->page);
    page_drop_window(t->pool, node->page);
    node->n_window = 0;
    if (!node->on_path) return;
    t->path_bytes -= before - page_bytes(t->pool, node->page);
    /* A node whose copy is to replace it is marked so still, but the path has the copy. */
    if (node->index < t->path.n_nodes && t->path.nodes[node->index] == node)
        t->path.data[PAGE_WINDOW][node->index] = NULL;
}

void tree_drop_windows(struct tree *t, size_t first, size_t end, size_t n_kept)
{
    assert(first < end && end <= t->path.n_nodes);
    assert(n_kept <= t->path.nodes[first]->n_window);
    if (n_kept > 0) t->path.nodes[first++]->n_window = (uint32_t)n_kept;
    for (size_t i = first; i < end; i++)
        window_drop(t, t->path.nodes[i]);
}

/* Whether a token that has `after` rows from the beginning of a page to itself sees one of that
 * page's. */
static bool looks_back(const struct tree *t, size_t after)
{
    return t->limits.window > 1 && after < t->limits.window + PAGE_LEN - 1;
}

/* Whether the tokens after a snapshot of node, or of one below it, see rows of the page that
 * begins `before` rows before node's. */
static bool snapshot_looks_back(const struct tree *t, const struct node *node, size_t before)
{
    for (const struct snapshot *s = node->snapshots; s; s = s->next)
        if (looks_back(t, before + s->n)) return true;
    if (!looks_back(t, before + PAGE_LEN + 1)) return false;
    for (const struct node *c = node->child; c; c = c->next)
        if (snapshot_looks_back(t, c, before + PAGE_LEN)) return true;
    return false;
}

/* The same of a snapshot that a sibling has of rows they have in common: it is found for both.
 */
static bool sibling_looks_back(const struct tree *t, const struct node *node)
{
    for (const struct node *s = node->parent->child; s; s = s->next) {
        if (s == node || !s->snapshots) continue;
        size_t same = common(s->ids, s->n, node->ids, node->n);
        for (const struct snapshot *snap = s->snapshots; snap; snap = snap->next)
            if (snap->n <= same && looks_back(t, snap->n)) return true;
    }
    return false;
}

/* Whether the path goes on from rows that see the page, or may after a few were taken back. */
static bool edge_looks_back(const struct tree *t, size_t index)
{
    size_t first = index * PAGE_LEN, edge = t->edge > PAGE_LEN ? t->edge - PAGE_LEN : 0;
    return edge <= first || looks_back(t, edge - first);
}

static void drop_unless_seen(struct tree *t, struct node *node)
{
    if (!page_data(node->page, PAGE_WINDOW)) return;
    if (!snapshot_looks_back(t, node, 0) && !sibling_looks_back(t, node)) window_drop(t, node);
}

void tree_tidy(struct tree *t)
{
    if (t->limits.window == 0) return;
    while (t->n_tidy < t->path.n_nodes && !edge_looks_back(t, t->n_tidy))
        drop_unless_seen(t, t->path.nodes[t->n_tidy++]);
}

void windows_released(struct tree *t, struct node *node)
{
    for (size_t before = 0; node != &t->root && looks_back(t, before + 1);
         node = node->parent, before += PAGE_LEN)
        if (!node->on_path || !edge_looks_back(t, node->index)) drop_unless_seen(t, node);
}

bool tree_has_window(const struct tree *t, size_t n)
{
    size_t window = t->limits.window, first = n + 1 > window ? n + 1 - window : 0;
    if (window == 0) return true;
    for (size_t i = first / PAGE_LEN; i * PAGE_LEN < n && first < n; i++)
        if (t->path.nodes[i]->n_window < least(n - i * PAGE_LEN, PAGE_LEN)) return false;
    return true;
}

size_t tree_window_rows(const struct tree *t, size_t i)
{
    assert(i < t->path.n_nodes);
    return t->path.nodes[i]->n_window;
}
