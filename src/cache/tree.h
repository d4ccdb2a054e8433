/* The tree of everything warm: a trie of pages, and in it the path that is the current
 * sequence.
 *
 * A node is a page with the ids of its rows, compared as they are, so that nothing is found
 * that is not the same. Whole pages have children; sequences that differ share the pages
 * before. The path grows in its open page where that is free; where another branch has rows
 * there, the page is copied first. Rows once computed stay for whoever comes back, until memory
 * is short: then the branch that was used longest ago goes, never the path.
 *
 * A snapshot keeps what rows do not: the logits after exactly n tokens, and recurrent states.
 * Nodes own pages and snapshots; the timeline owns the tree. One thread at a time. It computes
 * nothing and knows no text. */
#ifndef CACHE_TREE_H
#define CACHE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cache/page.h"
#include "cache/plan.h"

struct tree;

struct tree_limits {
    uint64_t warm_bytes;  /* of pages and snapshots off the path */
    uint64_t total_bytes; /* of all, for as long as there is something off the path to drop */
    size_t n_snapshots;   /* at least 2 */
    size_t window;        /* of plan_model: what tree_tidy keeps; 0: all rows */
};

/* An empty tree over a pool, which it does not own. A snapshot has n_logits floats and
 * state_bytes of recurrent states. */
struct tree *tree_new(struct page_pool *pool, const struct tree_limits *limits, size_t n_logits,
                      size_t state_bytes);
void tree_free(struct tree *t); /* NULL is fine; before the pool */
/* Other limits from now on, with the window that it has. What is too much goes. */
void tree_set_limits(struct tree *t, const struct tree_limits *limits);

/* The path. */
size_t tree_n(const struct tree *t);
const int32_t *tree_ids(const struct tree *t); /* until the next change */
/* Its pages, one pointer per page and part: the argument of a step. Until the next change. */
void *const *tree_pages(const struct tree *t, enum page_part part);
/* Lends page i of the path, as page_lend does: until it is given back, rows that are computed
 * there go to a copy. */
atomic_uint *tree_lend(struct tree *t, size_t i);

/* The longest warm beginning of ids[0..n) with its snapshots, for plan_make. Lives until the
 * next call of a function that changes the tree. Changes nothing. */
const struct plan_have *tree_find(struct tree *t, const int32_t *ids, size_t n);
/* Makes the path what tree_find found last, and drops what is over the limits. */
void tree_go(struct tree *t);
/* Logits and states (NULL without any; bytes without alignment) of the i-th snapshot that
 * tree_find found last. */
const float *tree_snapshot_logits(const struct tree *t, size_t i);
const void *tree_snapshot_states(const struct tree *t, size_t i);
/* The i-th of them is used: it becomes the most recent one. */
void tree_snapshot_used(struct tree *t, size_t i);

/* Makes room for rows from..to-1, from at most tree_n: fresh pages at the end, a copy of the
 * open page if another branch goes on in it, and of those that are lent. ERR_MEMORY: no row has
 * changed. */
bool tree_grow(struct tree *t, size_t from, size_t to, struct err *err);
/* Rows from..from+n-1, of ids[0..n), are computed in the room that tree_grow made: those that
 * the path does not have yet become its end. */
void tree_commit(struct tree *t, const int32_t *ids, size_t from, size_t n);
/* Gives back the room behind row to-1; of the room before it at least a row is left. */
void tree_shrink(struct tree *t, size_t to);
/* The rows were not computed: gives back the room, and the path is as before tree_grow. */
void tree_cancel(struct tree *t);

/* The path is its first n tokens; rows behind them are forgotten unless another branch runs
 * through them. */
void tree_truncate(struct tree *t, size_t n);
/* Keeps logits and states (NULL if state_bytes is 0) for the path's tokens. One that is there
 * becomes the most recent; older ones thin out. Without memory none is kept. The path is not
 * empty. */
void tree_snapshot(struct tree *t, const float *logits, const void *states);
/* The same where nothing begins or ends, inside of a long prompt or reply or of a line that is
 * being typed: these thin out before all others. */
void tree_snapshot_passing(struct tree *t, const float *logits, const void *states);
/* Drops everything, the path too. */
void tree_forget(struct tree *t);

/* Drops the windowed rows of pages first..end-1 of the path, but for the first n_kept rows of
 * page first. */
void tree_drop_windows(struct tree *t, size_t first, size_t end, size_t n_kept);
/* Drops the windowed rows of the path that nothing looks back on: neither the row that was
 * committed last, nor PAGE_LEN rows before it, nor the tokens after a snapshot. Costs next to
 * nothing where no page has come out of the window since the last call. */
void tree_tidy(struct tree *t);
/* Whether the rows are there that the windowed layers of the token after the first n of the
 * path see. */
bool tree_has_window(const struct tree *t, size_t n);
/* How many windowed rows of page i of the path are there, its first. */
size_t tree_window_rows(const struct tree *t, size_t i);

struct tree_usage {
    size_t n_pages, n_snapshots; /* all */
    size_t n_path_pages;
    uint64_t bytes, path_bytes; /* of pages and snapshots */
    uint64_t n_dropped;         /* pages given up for the limits, ever */
};
struct tree_usage tree_usage(const struct tree *t);

/* Calls fn with every page and the number of rows that hold something, in all and in the
 * windowed part, for tests. */
void tree_each_page(const struct tree *t,
                    void (*fn)(void *user, struct page *page, size_t n, size_t n_window),
                    void *user);

#endif
