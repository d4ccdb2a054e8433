/* The path: finding it, growing it, cutting it, and what it keeps and forgets on the way. */
#include "cache/tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cache/tree_impl.h"

static void take_limits(struct tree *t, const struct tree_limits *limits)
{
    assert(limits->n_snapshots >= 2);
    t->limits = *limits;
    /* As many as there are now, or one too many before that goes. */
    const size_t n =
        limits->n_snapshots > t->n_snapshots ? limits->n_snapshots : t->n_snapshots;
    t->stamps = mem_resize(t->stamps, n + 1, sizeof *t->stamps);
}

struct tree *tree_new(struct page_pool *pool, const struct tree_limits *limits, size_t n_logits,
                      size_t state_bytes)
{
    struct tree *t = mem_zalloc(1, sizeof *t);
    t->pool = pool;
    t->n_logits = n_logits;
    t->state_bytes = state_bytes;
    take_limits(t, limits);
    t->root.newer = t->root.older = &t->root;
    return t;
}

void tree_free(struct tree *t)
{
    if (!t) return;
    tree_forget(t);
    ids_free(&t->path.ids);
    free(t->path.nodes);
    free(t->path.data[PAGE_FULL]);
    free(t->path.data[PAGE_WINDOW]);
    free(t->found.nodes);
    free(t->found.windows);
    free(t->found.snapshots);
    free(t->found.counts);
    free(t->snapshots);
    free(t->stamps);
    free(t);
}

size_t tree_n(const struct tree *t)
{
    return t->path.ids.n;
}

const int32_t *tree_ids(const struct tree *t)
{
    return t->path.ids.data;
}

void *const *tree_pages(const struct tree *t, enum page_part part)
{
    return t->path.data[part];
}

atomic_uint *tree_lend(struct tree *t, size_t i)
{
    assert(i < t->path.n_nodes);
    return page_lend(t->path.nodes[i]->page);
}

static uint64_t bytes_of(const struct tree *t, const struct node *node)
{
    uint64_t n = page_bytes(t->pool, node->page);
    for (const struct snapshot *s = node->snapshots; s; s = s->next)
        n += snapshot_bytes(t);
    return n;
}

static uint64_t total_bytes(const struct tree *t)
{
    return page_pool_bytes(t->pool) + t->snapshot_bytes;
}

/* ---- nodes ---- */

static void unlink_use(struct node *node)
{
    node->newer->older = node->older;
    node->older->newer = node->newer;
}

static void link_use(struct node *node, struct node *after)
{
    node->newer = after;
    node->older = after->older;
    after->older->newer = node;
    after->older = node;
}

static void attach(struct tree *t, struct node *node)
{
    struct node *parent = node->parent;
    node->next = parent->child;
    if (node->next) node->next->prev = node;
    parent->child = node;
    link_use(node, parent);
    node->attached = true;
    t->n_pages++;
}

static void detach(struct tree *t, struct node *node)
{
    if (node->prev)
        node->prev->next = node->next;
    else
        node->parent->child = node->next;
    if (node->next) node->next->prev = node->prev;
    unlink_use(node);
    node->attached = false;
    t->n_pages--;
}

static void set_on_path(struct tree *t, struct node *node, bool on_path)
{
    if (node->on_path == on_path) return;
    node->on_path = on_path;
    if (on_path)
        t->path_bytes += bytes_of(t, node);
    else
        t->path_bytes -= bytes_of(t, node);
}

static void node_free(struct tree *t, struct node *node)
{
    assert(!node->child);
    snapshots_drop(t, node, 0);
    set_on_path(t, node, false);
    if (node->attached) detach(t, node);
    page_unref(t->pool, node->page);
    free(node);
}

/* A snapshot of another node, whose rows before it `to` has too, becomes one of `to`. */
static void snapshot_move(struct tree *t, struct snapshot *s, struct node *to)
{
    struct node *from = s->node;
    struct snapshot *same = snapshot_at(to, s->n), **at = &from->snapshots;
    if (same) {
        same->is_passing = same->is_passing && s->is_passing;
        snapshot_free(t, s);
        return;
    }
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    s->next = to->snapshots;
    s->node = to;
    to->snapshots = s;
    if (to->on_path && !from->on_path) t->path_bytes += snapshot_bytes(t);
}

/* The sibling that has the rows before a snapshot too, rather the one on the path; NULL: none.
 */
static struct node *heir_of(const struct tree *t, const struct snapshot *s)
{
    struct node *heir = NULL;
    for (struct node *c = s->node->parent->child; c; c = c->next) {
        if (c == s->node || common(c->ids, c->n, s->node->ids, s->n) < s->n) continue;
        if (t->limits.window > 0 && c->n_window < s->n) continue;
        if (!heir || c->on_path) heir = c;
    }
    return heir;
}

/* Drops what was used longest ago; false: all that is left is the path. A node off the path
 * whose children are older than it and off the path too is met after them. Snapshots of what a
 * sibling has too are that one's from now on: a prompt keeps its own when the first of its
 * replies goes. */
static bool drop_oldest(struct tree *t)
{
    struct node *node = t->root.newer;
    while (node != &t->root && node->on_path)
        node = node->newer;
    if (node == &t->root) return false;
    for (struct snapshot *s = node->snapshots, *next; s; s = next) {
        struct node *heir = heir_of(t, s);
        next = s->next;
        if (heir) snapshot_move(t, s, heir);
    }
    node_free(t, node);
    t->n_dropped++;
    return true;
}

static void keep_limits(struct tree *t, uint64_t more)
{
    while (total_bytes(t) - t->path_bytes > t->limits.warm_bytes ||
           total_bytes(t) + more > t->limits.total_bytes)
        if (!drop_oldest(t) && !snapshot_give_up(t)) break;
}

void tree_set_limits(struct tree *t, const struct tree_limits *limits)
{
    assert(limits->window == t->limits.window);
    take_limits(t, limits);
    snapshots_thin(t);
    keep_limits(t, 0);
}

/* ---- the path ---- */

static void path_set(struct tree *t, size_t i, struct node *node)
{
    struct path *p = &t->path;
    p->nodes[i] = node;
    for (int part = 0; part < PAGE_PARTS; part++)
        p->data[part][i] = page_data(node->page, (enum page_part)part);
    set_on_path(t, node, true);
}

static void path_push(struct tree *t, struct node *node)
{
    struct path *p = &t->path;
    if (p->n_nodes == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 8;
        p->nodes = mem_resize(p->nodes, p->cap, sizeof *p->nodes);
        for (int i = 0; i < PAGE_PARTS; i++)
            p->data[i] = mem_resize(p->data[i], p->cap, sizeof *p->data[i]);
    }
    path_set(t, p->n_nodes++, node);
}

/* Lets go of the path's nodes from the first-th on, which stay in the tree. */
static void path_cut(struct tree *t, size_t first)
{
    while (t->path.n_nodes > first)
        set_on_path(t, t->path.nodes[--t->path.n_nodes], false);
}

/* The path is the most recent: its root end first. */
static void path_used(struct tree *t)
{
    for (size_t i = t->path.n_nodes; i > 0; i--) {
        unlink_use(t->path.nodes[i - 1]);
        link_use(t->path.nodes[i - 1], &t->root);
    }
}

void tree_go(struct tree *t)
{
    const struct found *f = &t->found;
    size_t n_nodes = pages_for(f->have.n), same = 0;
    while (same < n_nodes && same < t->path.n_nodes && t->path.nodes[same] == f->nodes[same])
        same++;
    path_cut(t, same);
    t->edge = 0; /* nobody has said yet what is computed next */
    t->n_tidy = least(t->n_tidy, same);
    for (size_t i = same; i < n_nodes; i++)
        path_push(t, f->nodes[i]);
    struct ids *ids = &t->path.ids;
    ids->n = common(ids->data, ids->n, f->ids, f->have.n);
    if (f->have.n > ids->n) ids_append(ids, f->ids + ids->n, f->have.n - ids->n);
    path_used(t);
    keep_limits(t, 0);
}

/* ---- growing ---- */

static struct page *page_for(struct tree *t)
{
    keep_limits(t, page_pool_page_bytes(t->pool));
    for (;;) {
        struct page *page = page_new(t->pool);
        if (page || (!drop_oldest(t) && !snapshot_give_up(t))) return page;
    }
}

static struct node *room_for(struct tree *t, struct node *parent)
{
    struct page *page = page_for(t);
    if (!page) return NULL;
    struct node *node = mem_zalloc(1, sizeof *node);
    node->parent = parent;
    node->index = parent == &t->root ? 0 : parent->index + 1;
    node->page = page;
    set_on_path(t, node, true);
    return node;
}

static bool no_room(const struct tree *t, struct err *err)
{
    return err_set(err, ERR_MEMORY, "no memory for %zu more bytes of KV cache (it has %zu)",
                   page_pool_page_bytes(t->pool), page_pool_bytes(t->pool));
}

/* The open page of the path as a copy of its own. */
static bool copy_open(struct tree *t, struct err *err)
{
    struct path *p = &t->path;
    size_t last = p->n_nodes - 1, n = p->ids.n - last * PAGE_LEN;
    struct node *from = p->nodes[last], *node = room_for(t, from->parent);
    if (!node) return no_room(t, err);
    page_copy(t->pool, node->page, from->page);
    node->n = (uint32_t)n;
    node->n_window = (uint32_t)least(from->n_window, n);
    memcpy(node->ids, from->ids, n * sizeof *node->ids);
    p->n_nodes--;
    path_push(t, node);
    p->copied = from; /* stays on the path until the copy has taken its place */
    return true;
}

static bool renew_window(struct tree *t, size_t i)
{
    struct node *node = t->path.nodes[i];
    uint64_t before = page_bytes(t->pool, node->page);
    if (!page_renew_window(t->pool, node->page)) return false;
    t->path_bytes += page_bytes(t->pool, node->page) - before;
    t->path.data[PAGE_WINDOW][i] = page_data(node->page, PAGE_WINDOW);
    return true;
}

/* What is read elsewhere is not written: a copy takes its place. */
static bool own_page(struct tree *t, size_t i)
{
    struct node *node = t->path.nodes[i];
    if (!page_is_lent(node->page)) return true;
    struct page *copy = page_for(t);
    if (!copy) return false;
    page_copy(t->pool, copy, node->page);
    page_unref(t->pool, node->page);
    node->page = copy;
    for (int part = 0; part < PAGE_PARTS; part++)
        t->path.data[part][i] = page_data(copy, (enum page_part)part);
    return true;
}

/* A page of the path that is written to, but for one that is copied in any case. */
static bool ready(struct tree *t, size_t i, bool is_copied)
{
    return renew_window(t, i) && (is_copied || own_page(t, i));
}

bool tree_grow(struct tree *t, size_t from, size_t to, struct err *err)
{
    struct path *p = &t->path;
    const size_t n = p->ids.n;
    assert(from <= n && to > from && !p->copied && p->n_nodes == pages_for(n));
    const bool copies =
        to > n && n % PAGE_LEN != 0 && p->nodes[p->n_nodes - 1]->n > n % PAGE_LEN;
    bool ok = true;
    t->edge = from;
    t->n_tidy = least(t->n_tidy, from / PAGE_LEN);
    for (size_t i = from / PAGE_LEN; ok && i < p->n_nodes && i * PAGE_LEN < to; i++)
        ok = ready(t, i, copies && i + 1 == p->n_nodes) || no_room(t, err);
    if (ok && copies) ok = copy_open(t, err);
    while (ok && p->n_nodes * PAGE_LEN < to) {
        struct node *node = room_for(t, p->n_nodes ? p->nodes[p->n_nodes - 1] : &t->root);
        ok = node || no_room(t, err);
        if (node) path_push(t, node);
    }
    if (!ok) tree_cancel(t);
    return ok;
}

void tree_cancel(struct tree *t)
{
    struct path *p = &t->path;
    while (p->n_nodes > 0 && !p->nodes[p->n_nodes - 1]->attached)
        node_free(t, p->nodes[--p->n_nodes]);
    if (p->copied) path_push(t, p->copied);
    p->copied = NULL;
}

void tree_shrink(struct tree *t, size_t to)
{
    struct path *p = &t->path;
    assert(to >= p->ids.n && to <= p->n_nodes * PAGE_LEN);
    while (p->n_nodes > pages_for(to))
        node_free(t, p->nodes[--p->n_nodes]);
}

/* A sibling that holds nothing but rows this node has too goes; its snapshots move. Which of
 * the two goes when both are whole is up to the children: this one has none yet. */
static void absorb(struct tree *t, struct node *keep, struct node *gone)
{
    while (gone->snapshots)
        snapshot_move(t, gone->snapshots, keep);
    node_free(t, gone);
}

/* Siblings whose rows this open page, the path's last, has too: the same reply made again
 * leaves no page behind. */
static void absorb_shorter(struct tree *t, struct node *node)
{
    for (struct node *s = node->parent->child, *next; s; s = next) {
        next = s->next;
        if (s == node || s->on_path || s->child || s->n > node->n) continue;
        if (s->n_window > node->n_window) continue;
        if (common(s->ids, s->n, node->ids, node->n) == s->n) absorb(t, node, s);
    }
}

/* Two pages with the same rows; the first is off the path, the second on it. */
static void swap_pages(struct tree *t, struct node *a, struct node *b)
{
    t->path_bytes += page_bytes(t->pool, a->page) - page_bytes(t->pool, b->page);
    struct page *page = a->page;
    uint32_t n_window = a->n_window;
    a->page = b->page, a->n_window = b->n_window;
    b->page = page, b->n_window = n_window;
}

/* A page that has become whole: one with the same rows may be there already. */
static void merge(struct tree *t, size_t i)
{
    struct node *node = t->path.nodes[i], *next;
    for (struct node *s = node->parent->child; s; s = next) {
        next = s->next;
        if (s == node || common(s->ids, s->n, node->ids, node->n) < s->n) continue;
        if (s->n < PAGE_LEN) {
            absorb(t, node, s);
            continue;
        }
        if (s->n_window < node->n_window) swap_pages(t, s, node);
        path_set(t, i, s);
        /* Behind it is room at most, which is no child yet. */
        if (i + 1 < t->path.n_nodes) t->path.nodes[i + 1]->parent = s;
        absorb(t, s, node);
        break;
    }
}

static void windows_computed(struct path *p, size_t from, size_t to)
{
    for (size_t i = from / PAGE_LEN; i * PAGE_LEN < to; i++) {
        struct node *node = p->nodes[i];
        size_t first = i * PAGE_LEN, lo = from > first ? from - first : 0;
        if (node->n_window >= lo && node->n_window < to - first)
            node->n_window = (uint32_t)least(to - first, PAGE_LEN);
    }
}

void tree_commit(struct tree *t, const int32_t *ids, size_t from, size_t n)
{
    struct path *p = &t->path;
    assert(from <= p->ids.n);
    t->edge = from + n;
    windows_computed(p, from, from + n);
    size_t known = least(p->ids.n - from, n);
    ids += known;
    n -= known;
    if (p->copied) {
        set_on_path(t, p->copied, false);
        p->copied = NULL;
    }
    while (n > 0) {
        size_t i = p->ids.n / PAGE_LEN, at = p->ids.n % PAGE_LEN, m = least(n, PAGE_LEN - at);
        struct node *node = p->nodes[i];
        assert(i < p->n_nodes && node->n == at);
        memcpy(node->ids + at, ids, m * sizeof *ids);
        node->n += (uint32_t)m;
        if (!node->attached) attach(t, node);
        ids_append(&p->ids, ids, m);
        ids += m;
        n -= m;
        if (node->n == PAGE_LEN) merge(t, i);
    }
    keep_limits(t, 0);
}

static void snapshot(struct tree *t, bool is_passing, const float *logits, const void *states)
{
    assert(tree_n(t) > 0 && !t->path.copied);
    struct node *node = t->path.nodes[t->path.n_nodes - 1];
    absorb_shorter(t, node);
    size_t n = (tree_n(t) - 1) % PAGE_LEN + 1;
    struct snapshot *s = snapshot_at(node, n);
    if (!s) {
        snapshot_take(t, node, n, is_passing, logits, states);
        return;
    }
    snapshot_used(t, s);
    s->is_passing = s->is_passing && is_passing;
}

void tree_snapshot(struct tree *t, const float *logits, const void *states)
{
    snapshot(t, false, logits, states);
}

void tree_snapshot_passing(struct tree *t, const float *logits, const void *states)
{
    snapshot(t, true, logits, states);
}

/* ---- shrinking ---- */

void tree_truncate(struct tree *t, size_t n)
{
    struct path *p = &t->path;
    assert(n <= p->ids.n && !p->copied);
    size_t n_nodes = pages_for(n);
    bool ours = true; /* until another branch runs through a node */
    while (p->n_nodes > n_nodes) {
        struct node *node = p->nodes[p->n_nodes - 1];
        ours = ours && !node->child;
        path_cut(t, p->n_nodes - 1);
        if (ours) node_free(t, node);
    }
    p->ids.n = n;
    t->edge = least(t->edge, n);
    t->n_tidy = least(t->n_tidy, n / PAGE_LEN);
    if (n % PAGE_LEN == 0) return;
    struct node *open = p->nodes[n_nodes - 1];
    if (open->child) return;
    snapshots_drop(t, open, n % PAGE_LEN);
    open->n = (uint32_t)(n % PAGE_LEN);
    open->n_window = (uint32_t)least(open->n_window, open->n);
}

void tree_forget(struct tree *t)
{
    path_cut(t, 0);
    ids_clear(&t->path.ids);
    t->n_tidy = t->edge = 0;
    while (t->root.newer != &t->root)
        node_free(t, t->root.newer);
}

/* ---- what there is ---- */

struct tree_usage tree_usage(const struct tree *t)
{
    return (struct tree_usage){.n_pages = t->n_pages,
                               .n_snapshots = t->n_snapshots,
                               .n_path_pages = t->path.n_nodes,
                               .bytes = total_bytes(t),
                               .path_bytes = t->path_bytes,
                               .n_dropped = t->n_dropped};
}

void tree_each_page(const struct tree *t,
                    void (*fn)(void *user, struct page *page, size_t n, size_t n_window),
                    void *user)
{
    for (const struct node *node = t->root.older; node != &t->root; node = node->older)
        fn(user, node->page, node->n, node->n_window);
}
