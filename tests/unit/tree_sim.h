/* A timeline without a model, for tests of the tree: on a backend whose rows are hashes of all
 * tokens up to theirs, so that a path's rows tell whether they are those of its tokens. What is
 * wrong in here fails the cmocka test that called. */
#ifndef TESTS_TREE_SIM_H
#define TESTS_TREE_SIM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "backend/impl.h"
#include "backend/ops.h"
#include "base/ids.h"
#include "cache/tree.h"

enum { PART_BYTES = PAGE_LEN * sizeof(uint64_t) };

/* ---- the backend ---- */

static struct {
    size_t n_pages, most_pages;
    uint32_t fail_in; /* 0: never; n: the n-th page from now and all after it */
} mem;

static inline void *fake_page_new(struct backend *be, size_t n, size_t unit)
{
    (void)unit;
    (void)be;
    if (mem.fail_in == 1) return NULL;
    if (mem.fail_in > 1) mem.fail_in--;
    if (++mem.n_pages > mem.most_pages) mem.most_pages = mem.n_pages;
    return malloc(n);
}

static inline void fake_page_free(struct backend *be, void *page, size_t n)
{
    (void)be;
    (void)n;
    mem.n_pages--;
    free(page);
}

static inline void fake_page_copy(struct backend *be, void *to, const void *from, size_t n)
{
    (void)be;
    memcpy(to, from, n);
}

static const struct backend_impl fake_impl = {
    .page_new = fake_page_new, .page_free = fake_page_free, .page_copy = fake_page_copy};
static struct backend fake = {&fake_impl};

/* ---- a timeline without a model ---- */

/* A page that somebody else reads: where it lies, and what was in it. */
struct loan {
    atomic_uint *n_readers;
    const void *data;
    uint8_t held[PART_BYTES];
};
enum { N_LOANS = 6 };

struct sim {
    struct page_pool *pool;
    struct tree *tree;
    struct plan_model model;
    uint64_t warm_bytes;
    struct ids *past; /* every sequence that was ever held, for the brute force */
    size_t n_past, cap_past;
    uint64_t state; /* of the recurrent layers */
    bool never_drops;
    bool only_tidies; /* windowed rows go by tree_tidy alone: snapshots keep theirs */
    struct loan loans[N_LOANS];
    size_t n_loans;
};

static inline uint64_t hash(uint64_t before, int32_t id)
{
    struct philox_words {
        uint64_t a;
    } w = {before * 0x9e3779b97f4a7c15u + (uint32_t)id + 1};
    w.a ^= w.a >> 29;
    return w.a * 0xbf58476d1ce4e5b9u + 1;
}

static inline uint64_t hash_of(const int32_t *ids, size_t n)
{
    uint64_t h = 1;
    for (size_t i = 0; i < n; i++)
        h = hash(h, ids[i]);
    return h;
}

static inline void fill(void *user, enum page_part part, void *data)
{
    (void)user;
    (void)part;
    memset(data, 0xff, PART_BYTES);
}

static inline struct sim open_sim(struct plan_model model, uint64_t warm_bytes,
                                  uint64_t total_bytes, size_t n_snapshots)
{
    struct sim s = {.model = model, .warm_bytes = warm_bytes, .state = 1};
    s.only_tidies = model.window > 0 && below(2);
    const size_t parts[PAGE_PARTS] = {PART_BYTES, model.window ? PART_BYTES : 0};
    s.pool = page_pool_new(&fake, parts, NULL);
    page_pool_on_new(s.pool, fill, NULL);
    const struct tree_limits limits = {warm_bytes, total_bytes, n_snapshots,
                                       s.only_tidies ? model.window : 0};
    s.tree = tree_new(s.pool, &limits, 2, model.is_recurrent ? sizeof(uint64_t) : 0);
    s.never_drops = warm_bytes == UINT64_MAX && total_bytes == UINT64_MAX;
    return s;
}

/* Page i of the path is read by somebody else from now on. */
static inline void lend(struct sim *s, size_t i)
{
    if (s->n_loans == N_LOANS) return;
    struct loan *loan = &s->loans[s->n_loans++];
    loan->data = tree_pages(s->tree, PAGE_FULL)[i];
    memcpy(loan->held, loan->data, PART_BYTES);
    loan->n_readers = tree_lend(s->tree, i);
}

/* They are done with it: nobody has changed it. */
static inline void give_back(struct sim *s, size_t i)
{
    assert_memory_equal(s->loans[i].data, s->loans[i].held, PART_BYTES);
    atomic_fetch_sub(s->loans[i].n_readers, 1);
    s->loans[i] = s->loans[--s->n_loans];
}

/* Where row i of the path is written: to no page that is lent, the same bits or not. */
static inline uint64_t *row_to_write(struct sim *s, enum page_part part, size_t i)
{
    uint64_t *data = tree_pages(s->tree, part)[i / PAGE_LEN];
    for (size_t k = 0; k < s->n_loans; k++)
        assert_ptr_not_equal(s->loans[k].data, data);
    return data + i % PAGE_LEN;
}

static inline void close_sim(struct sim *s)
{
    /* Accounts of the path that leave nothing when it is empty were right. */
    tree_find(s->tree, NULL, 0);
    tree_go(s->tree);
    assert_int_equal(tree_usage(s->tree).path_bytes, 0);
    tree_free(s->tree);
    while (s->n_loans > 0)
        give_back(s, 0);
    page_pool_free(s->pool);
    for (size_t i = 0; i < s->n_past; i++)
        ids_free(&s->past[i]);
    free(s->past);
    assert_int_equal(mem.n_pages, 0);
}

static inline void remember(struct sim *s)
{
    if (s->n_past == s->cap_past) {
        s->cap_past = s->cap_past ? 2 * s->cap_past : 8;
        s->past = realloc(s->past, s->cap_past * sizeof *s->past);
    }
    s->past[s->n_past] = (struct ids){0};
    ids_append(&s->past[s->n_past++], tree_ids(s->tree), tree_n(s->tree));
}

static inline size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

static inline size_t longest_known(const struct sim *s, const int32_t *ids, size_t n)
{
    size_t most = common(tree_ids(s->tree), tree_n(s->tree), ids, n);
    for (size_t i = 0; i < s->n_past; i++) {
        size_t l = common(s->past[i].data, s->past[i].n, ids, n);
        most = l > most ? l : most;
    }
    return most;
}

static inline void check_path(const struct sim *s, const int32_t *ids, size_t n)
{
    assert_int_equal(tree_n(s->tree), n);
    if (n > 0) assert_memory_equal(tree_ids(s->tree), ids, n * sizeof *ids);
    uint64_t h = 1;
    for (size_t i = 0; i < n; i++) {
        h = hash(h, ids[i]);
        const uint64_t *full = tree_pages(s->tree, PAGE_FULL)[i / PAGE_LEN];
        assert_true(full[i % PAGE_LEN] == h);
        if (!s->model.window || i + s->model.window <= n) continue;
        const uint64_t *windowed = tree_pages(s->tree, PAGE_WINDOW)[i / PAGE_LEN];
        assert_non_null(windowed);
        assert_true(windowed[i % PAGE_LEN] == ~h);
    }
    struct tree_usage u = tree_usage(s->tree);
    assert_true(u.bytes >= u.path_bytes);
    assert_true(u.bytes - u.path_bytes <= s->warm_bytes);
}

static inline void logits_of(uint64_t h, float out[2])
{
    uint32_t words[2] = {(uint32_t)h >> 2, (uint32_t)(h >> 32) >> 2}; /* no NaN */
    memcpy(out, words, sizeof words);
}

static inline void keep_moment(struct sim *s, bool is_passing)
{
    if (tree_n(s->tree) == 0) return;
    float logits[2];
    const uint64_t *states = s->model.is_recurrent ? &s->state : NULL;
    logits_of(hash_of(tree_ids(s->tree), tree_n(s->tree)), logits);
    if (is_passing)
        tree_snapshot_passing(s->tree, logits, states);
    else
        tree_snapshot(s->tree, logits, states);
}

static inline void take_snapshot(struct sim *s)
{
    keep_moment(s, false);
}

/* "Computes" rows from..to-1 of ids: each needs all rows before it. */
static inline void compute(struct sim *s, const int32_t *ids, size_t from, size_t to)
{
    uint64_t h = hash_of(ids, from), *all = malloc((to + 1) * sizeof *all);
    if (s->model.is_recurrent) assert_true(s->state == h);
    all[0] = 1;
    for (size_t i = 0; i < to; i++)
        all[i + 1] = hash(all[i], ids[i]);
    for (size_t i = from; i < to; i++) {
        for (size_t back = 1; back < s->model.window && back <= i; back++) {
            const uint64_t *page = tree_pages(s->tree, PAGE_WINDOW)[(i - back) / PAGE_LEN];
            assert_non_null(page);
            assert_true(page[(i - back) % PAGE_LEN] == ~all[i - back + 1]);
        }
        h = hash(h, ids[i]);
        *row_to_write(s, PAGE_FULL, i) = h;
        if (s->model.window) *row_to_write(s, PAGE_WINDOW, i) = ~h;
    }
    s->state = h;
    free(all);
}

/* Rows that a cancelled step had begun. */
static inline void scribble(struct sim *s, size_t from, size_t to)
{
    for (size_t i = from > tree_n(s->tree) ? from : tree_n(s->tree); i < to; i++)
        *row_to_write(s, PAGE_FULL, i) = 7;
}

/* One chunk, which may be cancelled or find no memory; false: it was not done. */
static inline bool chunk(struct sim *s, const int32_t *ids, size_t from, size_t to)
{
    struct err err;
    size_t n = tree_n(s->tree);
    uint64_t state = s->state;
    if (!s->never_drops && below(20) == 0) mem.fail_in = 1 + below(2); /* makes it drop */
    bool room = tree_grow(s->tree, from, to, &err);
    mem.fail_in = 0;
    if (room && below(8)) {
        compute(s, ids, from, to);
        tree_commit(s->tree, ids + from, from, to - from);
        if (s->only_tidies) tree_tidy(s->tree);
        return true;
    }
    if (room) scribble(s, from, to);
    if (room)
        tree_cancel(s->tree);
    else
        assert_int_equal(err.code, ERR_MEMORY);
    assert_int_equal(tree_n(s->tree), n);
    s->state = state;
    return false;
}

static inline size_t sync(struct sim *s, const int32_t *ids, size_t n, bool may_give_up)
{
    remember(s);
    size_t known = longest_known(s, ids, n);
    const struct plan_have *have = tree_find(s->tree, ids, n);
    if (s->never_drops) assert_int_equal(have->n, known);
    assert_true(have->n <= known);
    assert_true(have->n >= common(tree_ids(s->tree), tree_n(s->tree), ids, n));
    for (size_t i = 0; i < have->n_snapshots; i++) {
        float want[2];
        logits_of(hash_of(ids, have->snapshots[i]), want);
        assert_memory_equal(tree_snapshot_logits(s->tree, i), want, sizeof want);
        assert_true(have->snapshots[i] <= have->n);
        assert_true(i == 0 || have->snapshots[i - 1] <= have->snapshots[i]);
    }
    struct plan plan = plan_make(&s->model, have, n);
    /* Along the path each snapshot is a place to go on from. */
    size_t along = common(tree_ids(s->tree), tree_n(s->tree), ids, n);
    for (size_t i = 0; s->only_tidies && have->n == along && i < have->n_snapshots; i++)
        assert_true(plan.from >= have->snapshots[i] || have->snapshots[i] == n);
    s->state = 1;
    if (plan.snapshot != PLAN_NO_SNAPSHOT) {
        tree_snapshot_used(s->tree, plan.snapshot);
        if (s->model.is_recurrent)
            memcpy(&s->state, tree_snapshot_states(s->tree, plan.snapshot), sizeof s->state);
    }
    tree_go(s->tree);
    size_t keep = plan.keep, done = plan.from;
    while (done < n) {
        size_t to = done + 1 + below(100);
        if (to > n) to = n;
        if (chunk(s, ids, done, to))
            done = to;
        else if (may_give_up && !s->model.is_recurrent)
            break;
    }
    /* A replay that was given up leaves the rows that were known, but perhaps no windows. */
    size_t now = done > keep ? done : keep;
    if (done >= keep)
        check_path(s, ids, now);
    else
        assert_int_equal(tree_n(s->tree), keep);
    return plan.from;
}

/* 0, 1, 2 ..: all ids differ. */
static inline void count_up(int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        ids[i] = i;
}

#endif
