/* What the files of the tree share: its nodes, path and snapshots, and the steps on them that
 * more than one file takes. The thread is tree.h's. Nobody else includes it. */
#ifndef CACHE_TREE_IMPL_H
#define CACHE_TREE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/ids.h"
#include "cache/page.h"
#include "cache/plan.h"
#include "cache/tree.h"

struct snapshot {
    struct node *node;
    struct snapshot *next; /* of the same node */
    uint64_t stamp;        /* of its last use */
    uint32_t n;            /* the node's rows before it, 1..PAGE_LEN */
    bool is_passing;       /* of tree_snapshot_passing */
    float logits[];        /* [n_logits], then state_bytes of states */
};

struct node {
    struct node *parent, *child, *next, *prev; /* next and prev are siblings */
    struct node *newer, *older; /* by use, a ring through the root; parents before children */
    struct page *page;
    struct snapshot *snapshots;
    uint32_t n;        /* rows that hold something; PAGE_LEN where there are children */
    uint32_t n_window; /* rows, the first, whose windowed part holds something too */
    uint32_t index;    /* its page is this one of every path through it */
    bool attached, on_path;
    int32_t ids[PAGE_LEN];
};

/* The current sequence. Its last nodes may be room: not attached to the tree yet. */
struct path {
    struct node **nodes;
    void **data[PAGE_PARTS];
    size_t n_nodes, cap;
    struct ids ids;
    struct node *copied; /* what the open page, not attached, is a copy of; NULL: none is */
};

struct found {
    struct plan_have have;
    const int32_t *ids;
    struct node **nodes; /* one per page of have.n */
    uint32_t *windows;
    size_t cap;
    struct snapshot **snapshots;
    size_t *counts;
    size_t cap_snapshots;
};

struct tree {
    struct page_pool *pool;
    struct tree_limits limits;
    size_t n_logits, state_bytes;
    struct node root; /* no page, no rows */
    struct path path;
    struct found found;
    struct snapshot **snapshots; /* all, the longest unused first */
    size_t n_snapshots, cap_snapshots;
    uint64_t *stamps; /* room for one more than there may be, for snapshots_thin */
    uint64_t clock;
    size_t n_pages;
    uint64_t snapshot_bytes, path_bytes, n_dropped;
    size_t n_tidy; /* pages at the beginning of the path that tree_tidy has looked at */
    size_t edge;   /* the next row that is computed, at most; its window stays */
};

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t most = least(n_a, n_b), i = 0;
    while (i < most && a[i] == b[i])
        i++;
    return i;
}

/* Windowed rows (tree_window.c). */

/* After a snapshot of node has gone: drops the rows before it that nothing else looks back on.
 */
void windows_released(struct tree *t, struct node *node);

/* Snapshots of one node and of all (tree_snapshot.c). */

size_t snapshot_bytes(const struct tree *t); /* of one */
void *snapshot_states(const struct tree *t, struct snapshot *s);
/* The one after the first n rows of node; NULL: there is none. */
struct snapshot *snapshot_at(const struct node *node, size_t n);
/* A new one after the first n rows of the path's last node, most recent of all; then older ones
 * thin out. */
void snapshot_take(struct tree *t, struct node *node, size_t n, bool is_passing,
                   const float *logits, const void *states);
/* As many go as there are too many. */
void snapshots_thin(struct tree *t);
/* Makes s the snapshot that was used last. */
void snapshot_used(struct tree *t, struct snapshot *s);
void snapshot_free(struct tree *t, struct snapshot *s);
/* Drops those after more than the first n rows. */
void snapshots_drop(struct tree *t, struct node *node, size_t n);
/* Gives up the one that was used longest ago, first of the passing ones, for its states and the
 * windowed rows it keeps; false: there are neither, or no more than two snapshots. */
bool snapshot_give_up(struct tree *t);

#endif
