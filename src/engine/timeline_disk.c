/* The timeline and the disk: whole pages and snapshots go there, and come back as if computed.
 */
#include "engine/timeline.h"

#include <string.h>

#include "base/cancel.h"
#include "base/err.h"
#include "cache/tree.h"
#include "engine/disk.h"
#include "engine/timeline_impl.h"

void timeline_set_disk(struct timeline *tl, struct disk *disk)
{
    tl->disk = disk;
    timeline_saved_at_most(tl, 0);
}

/* Gives it the whole pages that it has not; ready only. False: the queue is full before, or
 * *stop is true. */
static bool save_pages(struct timeline *tl, const atomic_bool *stop)
{
    disk_follow(tl->disk, tree_ids(tl->tree), tree_n(tl->tree));
    for (; tl->n_saved < tree_n(tl->tree) / PAGE_LEN; tl->n_saved++)
        if (cancel_is_set(stop) || !disk_put_page(tl->disk, tl->n_saved, tl->tree))
            return false;
    return true;
}

/* The first page with rows that windowed layers see after n tokens. */
static size_t first_window_page(const struct timeline *tl, size_t n)
{
    const size_t window = tl->model.window;
    return (n + 1 > window ? n + 1 - window : 0) / PAGE_LEN;
}

/* Gives it the windowed rows before what is owed that are in whole pages; false: as above. */
static bool save_windows(struct timeline *tl, struct owed *o, const atomic_bool *stop)
{
    if (tl->model.window == 0) return true;
    void *const *pages = tree_pages(tl->tree, PAGE_WINDOW);
    for (; o->page < o->n / PAGE_LEN; o->page++)
        if (cancel_is_set(stop) || !disk_put_window(tl->disk, o->page, pages[o->page]))
            return false;
    return true;
}

/* Gives it the snapshot of what is owed, whose windowed rows are here; false: as above. */
static bool save_snapshot(struct timeline *tl, struct owed *o, const float *logits,
                          const void *states, const atomic_bool *stop)
{
    const size_t n = o->n;
    void *page[PAGE_PARTS];
    if (!save_windows(tl, o, stop) || cancel_is_set(stop)) return false;
    for (int part = 0; part < PAGE_PARTS; part++) {
        void *const *pages = tree_pages(tl->tree, part);
        page[part] = tl->program->page_bytes[part] ? pages[(n - 1) / PAGE_LEN] : NULL;
    }
    return disk_put_snapshot(tl->disk, n, logits, states, page);
}

/* The snapshot that is owed, if it is held. */
static bool save_owed(struct timeline *tl, struct owed *o, const atomic_bool *stop)
{
    const size_t n = o->n;
    if (!tree_has_window(tl->tree, n)) return true;
    if (n == tree_n(tl->tree) && states_at(&tl->states, n) && timeline_logits(tl))
        return save_snapshot(tl, o, tl->logits, states_bytes(&tl->states), stop);
    const struct plan_have *have = tree_find(tl->tree, tree_ids(tl->tree), n);
    const size_t i = have->n_snapshots - 1;
    if (have->n_snapshots == 0 || have->snapshots[i] != n) return true;
    return save_snapshot(tl, o, tree_snapshot_logits(tl->tree, i),
                         tree_snapshot_states(tl->tree, i), stop);
}

static bool is_owed(const struct timeline *tl, size_t n)
{
    for (size_t i = 0; i < tl->n_owed; i++)
        if (tl->owed[i].n == n) return true;
    return false;
}

static void drop_first_owed(struct timeline *tl)
{
    tl->n_owed--;
    memmove(tl->owed, tl->owed + 1, tl->n_owed * sizeof *tl->owed);
}

/* The disk is to have the snapshot after n tokens. */
static void owe(struct timeline *tl, size_t n)
{
    if (is_owed(tl, n)) return;
    if (tl->n_owed == TIMELINE_MOST_OWED) drop_first_owed(tl);
    tl->owed[tl->n_owed++] = (struct owed){n, first_window_page(tl, n)};
}

/* Of a turn: after all of it, and, for states and windows, where its prompt ended: the next
 * prompt goes on from there if it repeats the reply in another way, without its thoughts. */
static void owe_turn(struct timeline *tl)
{
    const size_t n = tree_n(tl->tree);
    if (timeline_needs_marks(tl) && tl->n_prompt > 0 && tl->n_prompt < n) owe(tl, tl->n_prompt);
    owe(tl, n);
}

/* Whole pages and what is owed. False: the queue was full before all was given, the disk is not
 * ready yet, or *stop is true. */
static bool give(struct timeline *tl, const atomic_bool *stop)
{
    if (tl->n_saved == tree_n(tl->tree) / PAGE_LEN && tl->n_owed == 0) return true;
    if (!disk_is_ready(tl->disk)) return disk_is_never_ready(tl->disk);
    if (!save_pages(tl, stop)) return false;
    for (; tl->n_owed > 0; drop_first_owed(tl))
        if (!save_owed(tl, &tl->owed[0], stop)) return false;
    return true;
}

bool timeline_save(struct timeline *tl, const atomic_bool *stop)
{
    if (!tl->disk || tree_n(tl->tree) == 0) return true;
    owe_turn(tl);
    return give(tl, stop);
}

bool timeline_save_whole(struct timeline *tl, const atomic_bool *stop)
{
    return !tl->disk || give(tl, stop);
}

void timeline_save_all(struct timeline *tl, const atomic_bool *cancel)
{
    if (!tl->disk || tree_n(tl->tree) == 0 || !disk_make_ready(tl->disk, cancel)) return;
    owe_turn(tl);
    while (!give(tl, NULL))
        disk_drain(tl->disk);
    disk_touch(tl->disk);
}

/* Whole pages from row `at` on, as many as there are before row n, into the tree, which takes
 * them as if computed. Returns their rows. */
static size_t fetch_pages(struct timeline *tl, const int32_t *ids, size_t at, size_t n,
                          const atomic_bool *cancel)
{
    struct err ignored; /* no memory for them: then none is read, and computing says so */
    size_t first = at / PAGE_LEN, n_pages = disk_n_pages(tl->disk, first);
    /* The page where rows end may have windowed ones, and a snapshot that needs them. */
    const size_t n_here = tree_n(tl->tree) - at;
    size_t n_window = n_here > 0 ? tree_window_rows(tl->tree, first) : 0;
    if (n_window > n_here) n_window = n_here;
    if (n_pages > n / PAGE_LEN - first) n_pages = n / PAGE_LEN - first;
    if (n_pages == 0 || !tree_grow(tl->tree, at, at + n_pages * PAGE_LEN, &ignored)) return 0;
    void *const *pages = tree_pages(tl->tree, PAGE_FULL) + first;
    size_t n_got = disk_get_pages(tl->disk, first, n_pages, pages, cancel);
    if (n_got > 0) tree_commit(tl->tree, ids + at, at, n_got * PAGE_LEN);
    if (n_got > 0 && tl->model.window)
        tree_drop_windows(tl->tree, first, first + n_got, n_window);
    if (n_got < n_pages) tree_cancel(tl->tree);
    if (tl->n_saved == first) tl->n_saved += n_got;
    return n_got * PAGE_LEN;
}

/* The snapshot of k tokens with the rows since the last whole page, which begins at `at`.
 * False: a miss, and nothing has changed. */
static bool fetch_rows(struct timeline *tl, const int32_t *ids, size_t at, size_t k)
{
    struct err ignored;
    const void *states;
    if (!tree_grow(tl->tree, at, k, &ignored)) return false;
    void *page[PAGE_PARTS];
    for (int part = 0; part < PAGE_PARTS; part++)
        page[part] = tree_pages(tl->tree, part)[at / PAGE_LEN];
    if (!disk_get_snapshot(tl->disk, k, tl->logits, &states, page)) {
        tree_cancel(tl->tree);
        return false;
    }
    tree_commit(tl->tree, ids + at, at, k - at);
    tree_snapshot(tl->tree, tl->logits, states);
    return true;
}

/* The same of k tokens whose rows are here, but perhaps not the windowed ones since the last
 * whole page: the snapshot has them. */
static bool fetch_logits(struct timeline *tl, const int32_t *ids, size_t k)
{
    struct err ignored;
    const void *states;
    const size_t i = k / PAGE_LEN, at = i * PAGE_LEN;
    const bool lacks = tl->model.window && k > at && tree_window_rows(tl->tree, i) < k - at;
    void *page[PAGE_PARTS] = {NULL};
    if (lacks && !tree_grow(tl->tree, at, k, &ignored)) return false;
    if (lacks) page[PAGE_WINDOW] = tree_pages(tl->tree, PAGE_WINDOW)[i];
    if (!disk_get_snapshot(tl->disk, k, tl->logits, &states, page)) {
        tree_cancel(tl->tree);
        return false;
    }
    if (lacks) tree_commit(tl->tree, ids + at, at, k - at);
    tree_snapshot(tl->tree, tl->logits, states);
    return true;
}

/* The snapshot of the most tokens of ids[0..n) that ends in the page which begins at `at`:
 * where a prompt or a reply ended before. */
static void fetch_tail(struct timeline *tl, const int32_t *ids, size_t at, size_t n)
{
    size_t least = tree_n(tl->tree), k = at + PAGE_LEN - 1 < n ? at + PAGE_LEN - 1 : n;
    while (k > least && !disk_has_snapshot(tl->disk, k))
        k--;
    if (k > least)
        fetch_rows(tl, ids, at, k);
    else if (k == n && disk_has_snapshot(tl->disk, n)) /* all rows are here */
        fetch_logits(tl, ids, n);
}

/* Whether the windowed rows before token n that are in whole pages are here or on disk. The
 * first n_pages pages are here. */
static bool windows_exist(struct timeline *tl, size_t n, size_t n_pages)
{
    for (size_t i = first_window_page(tl, n); tl->model.window && i < n / PAGE_LEN; i++)
        if ((i >= n_pages || tree_window_rows(tl->tree, i) < PAGE_LEN) &&
            !disk_has_window(tl->disk, i))
            return false;
    return true;
}

/* Reads the windowed rows before token n that are not here from disk, into pages that are
 * here. False: some are not to be had. */
static bool fetch_windows(struct timeline *tl, const int32_t *ids, size_t n)
{
    struct err ignored;
    for (size_t i = first_window_page(tl, n); tl->model.window && i < n / PAGE_LEN; i++) {
        const size_t at = i * PAGE_LEN;
        if (tree_window_rows(tl->tree, i) == PAGE_LEN) continue;
        if (!tree_grow(tl->tree, at, at + PAGE_LEN, &ignored)) return false;
        if (!disk_get_window(tl->disk, i, tree_pages(tl->tree, PAGE_WINDOW)[i])) {
            tree_cancel(tl->tree);
            return false;
        }
        tree_commit(tl->tree, ids + at, at, PAGE_LEN);
    }
    return true;
}

/* The most tokens, more than n_held and at most `most`, of which there may be a snapshot with
 * all that goes before it; 0: none. */
static size_t find_marked(struct timeline *tl, size_t n_held, size_t most)
{
    const size_t n_pages = tree_n(tl->tree) / PAGE_LEN;
    const size_t whole = (n_pages + disk_n_pages(tl->disk, n_pages)) * PAGE_LEN;
    if (whole + PAGE_LEN - 1 < most) most = whole + PAGE_LEN - 1;
    size_t k = disk_find_snapshot(tl->disk, n_held, most);
    while (k > 0 && !windows_exist(tl, k, n_pages))
        k = disk_find_snapshot(tl->disk, n_held, k - 1);
    return k;
}

/* The sequence is at most its first n tokens, of which some were read: what it does without
 * belongs to a snapshot that missed. */
static void cut_read(struct timeline *tl, size_t n)
{
    if (n >= tree_n(tl->tree)) return;
    tree_truncate(tl->tree, n);
    timeline_saved_at_most(tl, n);
}

/* The snapshot of k tokens and what goes before it. The first n_warm rows were here before
 * anything was read, perhaps without their windowed part. False: a miss; what was read of that
 * is here. */
static bool fetch_mark(struct timeline *tl, const int32_t *ids, size_t n_warm, size_t k,
                       const atomic_bool *cancel)
{
    const size_t want = k / PAGE_LEN * PAGE_LEN;
    if (k <= n_warm) {
        tree_find(tl->tree, ids, k);
        tree_go(tl->tree);
        return fetch_windows(tl, ids, k) && fetch_logits(tl, ids, k);
    }
    cut_read(tl, want > n_warm ? want : n_warm);
    const size_t first = tree_n(tl->tree) / PAGE_LEN * PAGE_LEN;
    const size_t at = first + (want > first ? fetch_pages(tl, ids, first, want, cancel) : 0);
    if (at < want || !fetch_windows(tl, ids, k)) return false;
    return k > at ? fetch_rows(tl, ids, at, k) : fetch_logits(tl, ids, k);
}

/* After a miss: how many of n tokens it goes on from, n_held or more. Windows that were read
 * are as good as a snapshot where there are no states, but for the logits after all of them. */
static size_t held_now(struct timeline *tl, size_t n_held, size_t n)
{
    size_t k = tree_n(tl->tree) < n ? tree_n(tl->tree) : n - 1;
    while (k > n_held && (tl->model.is_recurrent || !tree_has_window(tl->tree, k)))
        k--;
    return k > n_held ? k : n_held;
}

/* Where there are states or windows only a snapshot is of use, and the rows before it. Files
 * are not forced to disk: the newest are those that a power cut tears, and then an older
 * snapshot is the next best. */
static void fetch_marked(struct timeline *tl, const int32_t *ids, size_t n_held, size_t n,
                         const atomic_bool *cancel)
{
    const size_t n_warm = tree_n(tl->tree);
    size_t k = find_marked(tl, n_held, n);
    while (k > 0 && !fetch_mark(tl, ids, n_warm, k, cancel) && !cancel_is_set(cancel)) {
        n_held = held_now(tl, n_held, n);
        k = find_marked(tl, n_held, k - 1);
    }
}

size_t timeline_fetch(struct timeline *tl, const int32_t *ids, size_t n, size_t same,
                      const atomic_bool *cancel)
{
    const struct plan_have *have = tree_find(tl->tree, ids, n);
    const size_t n_warm = have->n;
    size_t n_held = have->n_snapshots ? have->snapshots[have->n_snapshots - 1] : 0;
    if (n_held == n || !tl->disk || !disk_is_ready(tl->disk)) return 0;
    if (timeline_knows_states(tl, same) && tl->states.n > n_held) n_held = tl->states.n;
    tree_go(tl->tree);
    tl->has_logits = false;
    timeline_saved_at_most(tl, n_warm);
    disk_follow(tl->disk, ids, n);
    if (timeline_needs_marks(tl)) {
        fetch_marked(tl, ids, n_held, n, cancel);
    } else {
        size_t at = n_warm / PAGE_LEN * PAGE_LEN;
        at += fetch_pages(tl, ids, at, n, cancel);
        fetch_tail(tl, ids, at, n);
    }
    return tree_n(tl->tree) > n_warm ? tree_n(tl->tree) - n_warm : 0;
}
