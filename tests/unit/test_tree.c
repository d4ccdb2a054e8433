/* The tree on a backend whose rows are hashes of all tokens up to theirs: whatever histories it
 * goes through, a path's rows are those of its tokens, and what is found is what was there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "../soak.h"
#include "backend/impl.h"
#include "backend/ops.h"
#include "base/ids.h"
#include "cache/thin.h"
#include "cache/tree.h"

enum { PART_BYTES = PAGE_LEN * sizeof(uint64_t) };

/* ---- the backend ---- */

static struct {
    size_t n_pages, most_pages;
    uint32_t fail_in; /* 0: never; n: the n-th page from now and all after it */
} mem;

static void *fake_page_new(struct backend *be, size_t n)
{
    (void)be;
    if (mem.fail_in == 1) return NULL;
    if (mem.fail_in > 1) mem.fail_in--;
    if (++mem.n_pages > mem.most_pages) mem.most_pages = mem.n_pages;
    return malloc(n);
}

static void fake_page_free(struct backend *be, void *page, size_t n)
{
    (void)be;
    (void)n;
    mem.n_pages--;
    free(page);
}

static void fake_page_copy(struct backend *be, void *to, const void *from, size_t n)
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

static uint64_t hash(uint64_t before, int32_t id)
{
    struct philox_words {
        uint64_t a;
    } w = {before * 0x9e3779b97f4a7c15u + (uint32_t)id + 1};
    w.a ^= w.a >> 29;
    return w.a * 0xbf58476d1ce4e5b9u + 1;
}

static uint64_t hash_of(const int32_t *ids, size_t n)
{
    uint64_t h = 1;
    for (size_t i = 0; i < n; i++)
        h = hash(h, ids[i]);
    return h;
}

static void fill(void *user, enum page_part part, void *data)
{
    (void)user;
    (void)part;
    memset(data, 0xff, PART_BYTES);
}

static struct sim open_sim(struct plan_model model, uint64_t warm_bytes, uint64_t total_bytes,
                           size_t n_snapshots)
{
    struct sim s = {.model = model, .warm_bytes = warm_bytes, .state = 1};
    s.only_tidies = model.window > 0 && below(2);
    const size_t parts[PAGE_PARTS] = {PART_BYTES, model.window ? PART_BYTES : 0};
    s.pool = page_pool_new(&fake, parts);
    page_pool_on_new(s.pool, fill, NULL);
    const struct tree_limits limits = {warm_bytes, total_bytes, n_snapshots,
                                       s.only_tidies ? model.window : 0};
    s.tree = tree_new(s.pool, &limits, 2, model.is_recurrent ? sizeof(uint64_t) : 0);
    s.never_drops = warm_bytes == UINT64_MAX && total_bytes == UINT64_MAX;
    return s;
}

/* Page i of the path is read by somebody else from now on. */
static void lend(struct sim *s, size_t i)
{
    if (s->n_loans == N_LOANS) return;
    struct loan *loan = &s->loans[s->n_loans++];
    loan->data = tree_pages(s->tree, PAGE_FULL)[i];
    memcpy(loan->held, loan->data, PART_BYTES);
    loan->n_readers = tree_lend(s->tree, i);
}

/* They are done with it: nobody has changed it. */
static void give_back(struct sim *s, size_t i)
{
    assert_memory_equal(s->loans[i].data, s->loans[i].held, PART_BYTES);
    atomic_fetch_sub(s->loans[i].n_readers, 1);
    s->loans[i] = s->loans[--s->n_loans];
}

/* Where row i of the path is written: to no page that is lent, the same bits or not. */
static uint64_t *row_to_write(struct sim *s, enum page_part part, size_t i)
{
    uint64_t *data = tree_pages(s->tree, part)[i / PAGE_LEN];
    for (size_t k = 0; k < s->n_loans; k++)
        assert_ptr_not_equal(s->loans[k].data, data);
    return data + i % PAGE_LEN;
}

static void close_sim(struct sim *s)
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

static void remember(struct sim *s)
{
    if (s->n_past == s->cap_past) {
        s->cap_past = s->cap_past ? 2 * s->cap_past : 8;
        s->past = realloc(s->past, s->cap_past * sizeof *s->past);
    }
    s->past[s->n_past] = (struct ids){0};
    ids_append(&s->past[s->n_past++], tree_ids(s->tree), tree_n(s->tree));
}

static size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

static size_t longest_known(const struct sim *s, const int32_t *ids, size_t n)
{
    size_t most = common(tree_ids(s->tree), tree_n(s->tree), ids, n);
    for (size_t i = 0; i < s->n_past; i++) {
        size_t l = common(s->past[i].data, s->past[i].n, ids, n);
        most = l > most ? l : most;
    }
    return most;
}

static void check_path(const struct sim *s, const int32_t *ids, size_t n)
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

static void logits_of(uint64_t h, float out[2])
{
    uint32_t words[2] = {(uint32_t)h >> 2, (uint32_t)(h >> 32) >> 2}; /* no NaN */
    memcpy(out, words, sizeof words);
}

static void keep_moment(struct sim *s, bool is_passing)
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

static void take_snapshot(struct sim *s)
{
    keep_moment(s, false);
}

/* "Computes" rows from..to-1 of ids: each needs all rows before it. */
static void compute(struct sim *s, const int32_t *ids, size_t from, size_t to)
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
static void scribble(struct sim *s, size_t from, size_t to)
{
    for (size_t i = from > tree_n(s->tree) ? from : tree_n(s->tree); i < to; i++)
        *row_to_write(s, PAGE_FULL, i) = 7;
}

/* One chunk, which may be cancelled or find no memory; false: it was not done. */
static bool chunk(struct sim *s, const int32_t *ids, size_t from, size_t to)
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

static size_t sync(struct sim *s, const int32_t *ids, size_t n, bool may_give_up)
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

/* Drops windowed rows as a timeline may: all but those near the end and now and then a page. */
static void drop_windows(struct sim *s)
{
    size_t n = tree_n(s->tree);
    if (!s->model.window || s->only_tidies || n < s->model.window) return;
    size_t last = (n - s->model.window + 1) / PAGE_LEN;
    for (size_t i = 0; i < last; i++)
        if (below(8)) tree_drop_windows(s->tree, i, i + 1);
}

/* ---- histories ---- */

/* A conversation: turns of a user, a thought and an answer; thoughts of earlier turns are
 * stripped when it is rendered again, as templates do. */
enum { N_TURNS = 12 };
struct turn {
    struct ids user, thought, answer;
};

static void babble(struct ids *ids, uint32_t most)
{
    for (uint32_t n = 1 + below(most); n > 0; n--)
        ids_push(ids, (int32_t)below(50));
}

static void render(const struct turn *turns, size_t n, bool with_last, struct ids *out)
{
    ids_clear(out);
    for (int32_t i = 0; i < 20; i++)
        ids_push(out, i); /* the system message */
    for (size_t i = 0; i < n; i++) {
        ids_push(out, 1000);
        ids_append(out, turns[i].user.data, turns[i].user.n);
        ids_push(out, 1001);
        if (i + 1 == n && !with_last) continue;
        ids_append(out, turns[i].answer.data, turns[i].answer.n);
    }
}

/* Token by token; a turn that has its answer already gives the same again. */
static void answer(struct sim *s, struct turn *turn)
{
    if (turn->answer.n == 0) {
        babble(&turn->thought, 60);
        babble(&turn->answer, 60);
    }
    struct ids all = {0};
    ids_append(&all, tree_ids(s->tree), tree_n(s->tree));
    ids_append(&all, turn->thought.data, turn->thought.n);
    ids_append(&all, turn->answer.data, turn->answer.n);
    for (size_t at = tree_n(s->tree); at < all.n;) {
        at += chunk(s, all.data, at, at + 1);
        if (below(10) == 0) keep_moment(s, below(2));
    }
    check_path(s, all.data, all.n);
    take_snapshot(s);
    ids_free(&all);
}

static void turn_free(struct turn *t)
{
    ids_free(&t->user);
    ids_free(&t->thought);
    ids_free(&t->answer);
}

static void run_history(struct sim *s, uint32_t n_steps)
{
    struct turn turns[N_TURNS] = {0};
    size_t n = 0;
    struct ids ids = {0};
    while (n_steps-- > 0) {
        uint32_t what = below(6);
        bool replies = false;
        if (n == N_TURNS || (what == 0 && n > 0)) { /* undo */
            for (size_t left = below((uint32_t)n); n > left;) {
                turn_free(&turns[--n]);
                turns[n] = (struct turn){0};
            }
        } else if (what == 1 && n > 0) { /* retry: another answer, or the same once more */
            replies = true;
            if (below(2)) turns[n - 1].answer.n = turns[n - 1].thought.n = 0;
        } else if (what == 2 && n > 0) { /* edit */
            turn_free(&turns[n - 1]);
            turns[n - 1] = (struct turn){0};
            babble(&turns[n - 1].user, 100);
        } else {
            babble(&turns[n++].user, 150);
        }
        replies = replies || (n > 0 && turns[n - 1].answer.n == 0);
        render(turns, n, !replies, &ids);
        sync(s, ids.data, ids.n, false);
        take_snapshot(s);
        size_t n_have = tree_find(s->tree, ids.data, ids.n)->n_snapshots;
        assert_true(n_have > 0);
        if (replies) answer(s, &turns[n - 1]);
        /* The same again, from wherever that was. */
        if (below(3) == 0) sync(s, ids.data, ids.n, false);
        if (below(4) == 0 && s->n_past > 0) { /* back to some other branch */
            const struct ids old = s->past[below((uint32_t)s->n_past)];
            if (old.n > 0) {
                struct ids copy = {0};
                ids_append(&copy, old.data, 1 + below((uint32_t)old.n));
                sync(s, copy.data, copy.n, true);
                ids_free(&copy);
            }
        }
        drop_windows(s);
        if (below(3) && tree_n(s->tree) > 0)
            lend(s, below((uint32_t)pages_for(tree_n(s->tree))));
        if (below(3) == 0 && s->n_loans > 0) give_back(s, below((uint32_t)s->n_loans));
        if (below(10) == 0) {
            remember(s);
            s->never_drops = false; /* a truncate forgets */
            tree_truncate(s->tree, below((uint32_t)tree_n(s->tree) + 1));
            s->state = hash_of(tree_ids(s->tree), tree_n(s->tree));
        }
    }
    for (size_t i = 0; i < n; i++)
        turn_free(&turns[i]);
    ids_free(&ids);
}

static void histories(struct plan_model model, uint64_t warm, uint64_t total, size_t n)
{
    for (uint32_t i = 0; i < 12 * soak(); i++) {
        chance_begin(100 + i);
        struct sim s = open_sim(model, warm, total, n);
        run_history(&s, 60);
        close_sim(&s);
    }
}

static void test_attention(void **state)
{
    (void)state;
    histories((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
}

static void test_attention_in_little_memory(void **state)
{
    (void)state;
    histories((struct plan_model){0}, 0, UINT64_MAX, 2);
    histories((struct plan_model){0}, 6 * PART_BYTES, UINT64_MAX, 5);
    histories((struct plan_model){0}, UINT64_MAX, 20 * PART_BYTES, 5);
}

static void test_windows(void **state)
{
    (void)state;
    histories((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 24);
    histories((struct plan_model){.window = 100}, 20 * PART_BYTES, UINT64_MAX, 10);
}

static void test_recurrent(void **state)
{
    (void)state;
    histories((struct plan_model){.is_recurrent = true}, UINT64_MAX, UINT64_MAX, 24);
    histories((struct plan_model){.window = 70, .is_recurrent = true}, 20 * PART_BYTES,
              UINT64_MAX, 10);
}

/* What a turn costs, case by case: the rows that must be computed. */
static void test_costs(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[300];
    for (int32_t i = 0; i < 300; i++)
        ids[i] = i;
    assert_int_equal(sync(&s, ids, 200, false), 0);
    assert_int_equal(sync(&s, ids, 200, false), 199); /* no logits were kept */
    take_snapshot(&s);
    assert_int_equal(sync(&s, ids, 200, false), 200);
    assert_int_equal(sync(&s, ids, 260, false), 200);
    take_snapshot(&s);
    assert_int_equal(sync(&s, ids, 200, false), 200); /* undone */
    ids[210] = 5;
    assert_int_equal(sync(&s, ids, 250, false), 210); /* edited: rows of the other branch */
    take_snapshot(&s);
    ids[210] = 210;
    assert_int_equal(sync(&s, ids, 260, false), 260); /* switched back */
    ids[210] = 5;
    assert_int_equal(sync(&s, ids, 250, false), 250);
    assert_int_equal(sync(&s, ids, 300, false), 250);
    close_sim(&s);
}

/* Where nothing else is kept warm, the path keeps its own snapshots, also those that another
 * branch took before the two parted. */
static void test_costs_of_the_path(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){.is_recurrent = true}, 0, UINT64_MAX, 24);
    int32_t ids[100];
    for (int32_t i = 0; i < 100; i++)
        ids[i] = i;
    sync(&s, ids, 20, false);
    take_snapshot(&s);
    for (int32_t retry = 0; retry < 4; retry++) {
        ids[80] = 1000 + retry;
        assert_int_equal(sync(&s, ids, 80, false), retry ? 80 : 20);
        take_snapshot(&s);
        assert_int_equal(sync(&s, ids, 90, false), 80);
        take_snapshot(&s);
    }
    ids[30] = 1000; /* the message before is another */
    assert_int_equal(sync(&s, ids, 90, false), 20);
    close_sim(&s);
}

/* Where nothing begins or ends goes first, all but the newest; what was passed and becomes an
 * end stays. */
static void test_passing(void **state)
{
    (void)state;
    chance_begin(7);
    struct sim s =
        open_sim((struct plan_model){.is_recurrent = true}, UINT64_MAX, UINT64_MAX, 6);
    int32_t ids[3000];
    for (int32_t i = 0; i < 3000; i++)
        ids[i] = i % 89;
    for (size_t n = 50; n <= 3000; n += 50) {
        sync(&s, ids, n, false);
        keep_moment(&s, n > 150 && n != 1000);
        if (n == 900) keep_moment(&s, false);
    }
    static const size_t kept[] = {50, 100, 150, 900, 1000, 3000};
    const struct plan_have *have = tree_find(s.tree, ids, 3000);
    assert_int_equal(have->n_snapshots, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(have->snapshots[i], kept[i]);
    close_sim(&s);
}

/* Of all that are ends a few go, which lie closest by their age in uses; never one that was
 * just passed, if it is the newest. */
static void test_thinning(void **state)
{
    (void)state;
    enum { MOST = 12, NEWEST = 8, ROUNDS = 60, STEP = 10 };
    chance_begin(10);
    struct sim s =
        open_sim((struct plan_model){.is_recurrent = true}, UINT64_MAX, UINT64_MAX, MOST);
    int32_t ids[(ROUNDS + 1) * STEP];
    uint64_t kept[MOST + 1];
    size_t n_kept = 0;
    for (int32_t i = 0; i < (ROUNDS + 1) * STEP; i++)
        ids[i] = i % 89;
    for (size_t i = 1; i <= ROUNDS + 1; i++) {
        sync(&s, ids, i * STEP, false);
        keep_moment(&s, i > ROUNDS);
        kept[n_kept++] = i;
        if (n_kept <= MOST) continue;
        const size_t gone = thin_victim(kept, n_kept, NEWEST);
        memmove(kept + gone, kept + gone + 1, (--n_kept - gone) * sizeof *kept);
    }
    const struct plan_have *have = tree_find(s.tree, ids, (ROUNDS + 1) * STEP);
    assert_int_equal(have->n_snapshots, MOST);
    for (size_t i = 0; i < MOST; i++)
        assert_int_equal(have->snapshots[i], kept[i] * STEP);
    close_sim(&s);
}

/* 0, 1, 2 ..: all ids differ. */
static void count_up(int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        ids[i] = i;
}

static void assert_snapshots(const struct sim *s, const int32_t *ids, size_t n,
                             const size_t *want, size_t n_want)
{
    const struct plan_have *have = tree_find(s->tree, ids, n);
    assert_int_equal(have->n_snapshots, n_want);
    for (size_t i = 0; i < n_want; i++)
        assert_int_equal(have->snapshots[i], want[i]);
}

/* What was used last goes last; of three that were passed and are not the newest, the second.
 */
static void test_use(void **state)
{
    (void)state;
    chance_begin(5);
    int32_t ids[200];
    count_up(ids, 200);
    for (int passing = 0; passing < 2; passing++) {
        struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 3);
        for (size_t n = 50; n <= 150; n += 50) {
            sync(&s, ids, n, false);
            keep_moment(&s, passing);
        }
        tree_find(s.tree, ids, 150);
        if (!passing) tree_snapshot_used(s.tree, 0);
        sync(&s, ids, 200, false);
        keep_moment(&s, passing);
        const size_t kept[] = {50, passing ? 150 : 100, 200};
        assert_snapshots(&s, ids, 200, kept, 3);
        close_sim(&s);
    }
}

/* Of two snapshots that become one, for their pages do, an end stays one. */
static void test_use_of_two(void **state)
{
    (void)state;
    chance_begin(5);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 3);
    int32_t ids[50], other[30];
    count_up(ids, 50);
    count_up(other, 30);
    other[25] = 99;
    sync(&s, ids, 20, false);
    take_snapshot(&s);
    sync(&s, ids, 30, false);
    sync(&s, other, 30, false);
    tree_truncate(s.tree, 20);
    keep_moment(&s, true);
    assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
    for (size_t n = 30; n <= 50; n += 10) {
        sync(&s, ids, n, false);
        take_snapshot(&s);
        if (n == 30) assert_int_equal(tree_usage(s.tree).n_pages, 1);
    }
    assert_snapshots(&s, ids, 50, (const size_t[]){20, 40, 50}, 3);
    close_sim(&s);
}

static uint64_t bytes_of_snapshot(struct plan_model model)
{
    struct sim s = open_sim(model, UINT64_MAX, UINT64_MAX, 3);
    const int32_t id = 0;
    sync(&s, &id, 1, false);
    const uint64_t before = tree_usage(s.tree).bytes;
    take_snapshot(&s);
    const uint64_t n = tree_usage(s.tree).bytes - before;
    close_sim(&s);
    return n;
}

/* Where there is no room but the path's, snapshots with states are given up, first those that
 * were passed, then the ones that were not used for longest, but for two; those of logits alone
 * stay. */
static void test_giving_up(void **state)
{
    (void)state;
    chance_begin(5);
    const struct plan_model recurrent = {.is_recurrent = true};
    const uint64_t total = 3 * PART_BYTES + 3 * bytes_of_snapshot(recurrent);
    int32_t ids[640];
    count_up(ids, 640);
    for (int has_states = 0; has_states < 2; has_states++) {
        struct sim s =
            open_sim(has_states ? recurrent : (struct plan_model){0}, UINT64_MAX, total, 24);
        for (size_t n = 20; n <= 80; n += 20) {
            sync(&s, ids, n, false);
            keep_moment(&s, n == 20 || n == 60);
        }
        sync(&s, ids, 180, false); /* a third page */
        const size_t all[] = {20, 40, 60, 80, 180}, ends[] = {40, 80, 180};
        assert_snapshots(&s, ids, 180, has_states ? all + 1 : all, has_states ? 3 : 4);
        keep_moment(&s, true);
        sync(&s, ids, 181, false);
        assert_snapshots(&s, ids, 181, has_states ? ends : all, has_states ? 3 : 5);
        sync(&s, ids, 640, false);
        assert_snapshots(&s, ids, 640, has_states ? ends + 1 : all, has_states ? 2 : 5);
        close_sim(&s);
    }
}

/* Of branches that begin with the same, the one is gone on with whose windowed rows are there,
 * or that needs no copy. */
static void test_which_branch(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* windowed rows go by hand here */
    int32_t ids[30], other[30];
    count_up(ids, 30);
    count_up(other, 30);
    other[10] = 99;
    sync(&s, ids, 30, false);
    const void *page = tree_pages(s.tree, PAGE_FULL)[0];
    sync(&s, other, 30, false);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    tree_find(s.tree, ids, 30);
    tree_go(s.tree);
    tree_truncate(s.tree, 10); /* nothing lies behind these rows, unlike the other's */
    tree_find(s.tree, ids, 10);
    tree_go(s.tree);
    assert_ptr_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    tree_drop_windows(s.tree, 0, 1);
    assert_int_equal(tree_find(s.tree, ids, 10)->windows[0], 30);
    tree_go(s.tree);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[0], page);
    close_sim(&s);
}

/* Windowed rows are there where a token looks back on them, behind the end or behind a
 * snapshot, and nowhere else. */
static void test_windows_go(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    assert_true(s.only_tidies);
    int32_t ids[640];
    for (int32_t i = 0; i < 640; i++)
        ids[i] = i % 97;
    sync(&s, ids, 100, false);
    take_snapshot(&s);
    sync(&s, ids, 252, false);
    take_snapshot(&s);
    sync(&s, ids, 640, false);
    /* In front of 100: pages 0 and 1; of 252: page 3; of the end, from which a page may be
     * taken back: 8 and 9. */
    assert_int_equal(page_pool_bytes(s.pool), (10 + 5) * PART_BYTES);
    take_snapshot(&s); /* that at 252 goes */
    assert_int_equal(page_pool_bytes(s.pool), (10 + 4) * PART_BYTES);
    close_sim(&s);
}

/* Pages with windowed rows. */
static size_t n_windowed(const struct sim *s)
{
    size_t n = 0;
    for (size_t i = 0; i < tree_usage(s->tree).n_path_pages; i++)
        if (tree_window_rows(s->tree, i) > 0) n++;
    return n;
}

/* How many pages a snapshot at `at` keeps, beside those in front of the end; they go with it.
 */
static size_t pages_kept(size_t window, size_t at)
{
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = window}, UINT64_MAX, UINT64_MAX, 2);
    assert_true(s.only_tidies);
    int32_t ids[640];
    count_up(ids, 640);
    sync(&s, ids, at, false);
    keep_moment(&s, true);
    sync(&s, ids, 639, false);
    take_snapshot(&s);
    const size_t n = n_windowed(&s);
    sync(&s, ids, 640, false);
    take_snapshot(&s);
    const size_t n_end = n_windowed(&s);
    assert_int_equal(n_end, window == 3 ? 2 : 4);
    close_sim(&s);
    return n - n_end;
}

/* To the row: the token after a snapshot sees window - 1 rows before it. */
static void test_windows_to_the_row(void **state)
{
    (void)state;
    assert_int_equal(pages_kept(3, 65), 2);
    assert_int_equal(pages_kept(3, 66), 1);
    assert_int_equal(pages_kept(131, 257), 4);
    assert_int_equal(pages_kept(131, 258), 3);
}

/* A snapshot of another branch keeps windowed rows of this one if both begin with all before
 * it. */
static void test_windows_of_siblings(void **state)
{
    (void)state;
    enum { PARTS = 30 };
    int32_t ids[640], other[640];
    count_up(ids, 640);
    count_up(other, 640);
    other[PARTS] = 999;
    for (size_t at = PARTS; at <= PARTS + 1; at++) {
        chance_begin(12);
        struct sim s = open_sim((struct plan_model){.window = 3}, UINT64_MAX, UINT64_MAX, 2);
        sync(&s, ids, at, false);
        take_snapshot(&s);
        sync(&s, ids, PARTS + 10, false);
        sync(&s, other, 640, false);
        assert_int_equal(tree_window_rows(s.tree, 0), at == PARTS ? PAGE_LEN : 0);
        close_sim(&s);
    }
}

/* Rows that are computed again keep no more windowed ones than the first time. */
static void test_windows_go_again(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 3}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[640];
    struct err err;
    count_up(ids, 640);
    sync(&s, ids, 640, false);
    assert_int_equal(n_windowed(&s), 2);
    for (size_t n = 0; n < 640; n += 40) {
        assert_true(tree_grow(s.tree, n, n + 40, &err));
        compute(&s, ids, n, n + 40);
        tree_commit(s.tree, ids + n, n, 40);
        tree_tidy(s.tree);
    }
    assert_int_equal(n_windowed(&s), 2);
    close_sim(&s);
}

/* A page whose windowed rows are there is not given up for one that has only the others. */
static void test_windows_not_absorbed(void **state)
{
    (void)state;
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* they go by hand here */
    int32_t ids[30], other[30];
    count_up(ids, 30);
    count_up(other, 30);
    other[25] = 99;
    sync(&s, ids, 30, false);
    sync(&s, other, 30, false);
    tree_truncate(s.tree, 20);
    for (int has_windows = 0; has_windows < 2; has_windows++) {
        tree_find(s.tree, ids, 30);
        tree_go(s.tree);
        if (!has_windows) tree_drop_windows(s.tree, 0, 1);
        if (has_windows) sync(&s, ids, 30, false);
        take_snapshot(&s);
        assert_int_equal(tree_usage(s.tree).n_pages, has_windows ? 1 : 2);
        assert_true(tree_find(s.tree, ids, 20)->windows[0] >= 20);
    }
    close_sim(&s);
}

/* What is told of windowed rows that are dropped and computed again; a tree without a window
 * keeps all. */
static void test_windows_told(void **state)
{
    (void)state;
    enum { N = 300 };
    int32_t ids[N];
    struct err err;
    count_up(ids, N);
    chance_begin(12);
    struct sim s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    s.only_tidies = false; /* they go by hand here */
    sync(&s, ids, N, false);
    tree_drop_windows(s.tree, 1, 3);
    for (size_t i = 0; i < 5; i++) {
        const bool gone = i == 1 || i == 2;
        assert_int_equal(tree_window_rows(s.tree, i), gone    ? 0
                                                      : i < 4 ? PAGE_LEN
                                                              : N % PAGE_LEN);
        assert_int_equal(tree_pages(s.tree, PAGE_WINDOW)[i] == NULL, gone);
    }
    for (size_t n = 0; n <= N; n++)
        assert_int_equal(tree_has_window(s.tree, n), n <= 64 || n >= 192 + 39);
    assert_true(tree_grow(s.tree, 64, 100, &err));
    compute(&s, ids, 64, 100);
    tree_commit(s.tree, ids + 64, 64, 36);
    for (size_t n = 0; n <= N; n++)
        assert_int_equal(tree_has_window(s.tree, n), n <= 100 || n >= 192 + 39);
    tree_truncate(s.tree, 270);
    assert_int_equal(tree_window_rows(s.tree, 4), 270 % PAGE_LEN);
    close_sim(&s);
    chance_begin(5);
    s = open_sim((struct plan_model){.window = 40}, UINT64_MAX, UINT64_MAX, 2);
    assert_false(s.only_tidies);
    sync(&s, ids, N, false);
    tree_tidy(s.tree);
    assert_int_equal(n_windowed(&s), 5);
    assert_true(tree_has_window(s.tree, 0) && tree_has_window(s.tree, N));
    close_sim(&s);
}

/* Room is made before it is taken. */
static void test_total(void **state)
{
    (void)state;
    enum { MOST = 8, N = 4 * PAGE_LEN };
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, MOST * PART_BYTES, 2);
    int32_t ids[N] = {0};
    mem.most_pages = 0;
    for (int32_t i = 0; i < 6; i++) {
        ids[0] = i;
        sync(&s, ids, N, false);
    }
    assert_int_equal(mem.most_pages, MOST);
    close_sim(&s);
}

/* Room that turns out not to be needed is given back. */
static void test_shrink(void **state)
{
    (void)state;
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[200];
    struct err err;
    count_up(ids, 200);
    sync(&s, ids, 100, false);
    assert_true(tree_grow(s.tree, 100, 300, &err));
    assert_int_equal(tree_usage(s.tree).n_path_pages, 5);
    tree_shrink(s.tree, 192);
    assert_int_equal(tree_usage(s.tree).n_path_pages, 3);
    assert_int_equal(page_pool_bytes(s.pool), 3 * PART_BYTES);
    compute(&s, ids, 100, 192);
    tree_commit(s.tree, ids + 100, 100, 92);
    check_path(&s, ids, 192);
    close_sim(&s);
}

/* Without memory for a copy of the open page the other branch keeps its rows. */
static void test_no_copy(void **state)
{
    (void)state;
    chance_begin(13);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 2);
    int32_t ids[30];
    struct err err;
    count_up(ids, 30);
    sync(&s, ids, 30, false);
    tree_find(s.tree, ids, 20);
    tree_go(s.tree);
    mem.fail_in = 1;
    assert_false(tree_grow(s.tree, 20, 21, &err));
    mem.fail_in = 0;
    assert_int_equal(err.code, ERR_MEMORY);
    check_path(&s, ids, 20);
    assert_int_equal(tree_find(s.tree, ids, 30)->n, 30);
    tree_go(s.tree);
    check_path(&s, ids, 30);
    close_sim(&s);
}

/* Two branches over a long beginning share its pages. */
static void test_sharing(void **state)
{
    (void)state;
    chance_begin(6);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[640];
    for (int32_t i = 0; i < 640; i++)
        ids[i] = i % 97;
    sync(&s, ids, 640, false);
    assert_int_equal(tree_usage(s.tree).n_pages, 10);
    ids[600] = 99;
    sync(&s, ids, 640, false);
    assert_int_equal(tree_usage(s.tree).n_pages, 11);
    assert_int_equal(page_pool_bytes(s.pool), 11 * PART_BYTES);
    /* The same again through another page becomes the same page. */
    ids[600] = 600 % 97;
    tree_find(s.tree, ids, 600);
    tree_go(s.tree);
    struct err err;
    for (size_t n = 600; n < 640; n++) {
        assert_true(tree_grow(s.tree, n, n + 1, &err));
        compute(&s, ids, n, n + 1);
        tree_commit(s.tree, ids + n, n, 1);
    }
    check_path(&s, ids, 640);
    assert_int_equal(tree_usage(s.tree).n_pages, 11);
    tree_forget(s.tree);
    assert_int_equal(tree_n(s.tree), 0);
    assert_int_equal(tree_usage(s.tree).bytes, 0);
    close_sim(&s);
}

/* A page that is lent stays as it is: rows computed again go to a copy, which other branches go
 * on from too; and it outlives the branch. What only the borrower has is not counted. */
static void test_lending(void **state)
{
    (void)state;
    chance_begin(8);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[200];
    struct err err;
    for (int32_t i = 0; i < 200; i++)
        ids[i] = i;
    sync(&s, ids, 128, false);
    const void *own = tree_pages(s.tree, PAGE_FULL)[1];
    assert_int_equal(sync(&s, ids, 128, false), 127);
    assert_ptr_equal(tree_pages(s.tree, PAGE_FULL)[1], own);
    lend(&s, 1);
    /* The last row again, for its logits. */
    assert_true(tree_grow(s.tree, 127, 128, &err));
    assert_int_equal(page_pool_bytes(s.pool), 2 * PART_BYTES);
    assert_ptr_not_equal(tree_pages(s.tree, PAGE_FULL)[1], s.loans[0].data);
    compute(&s, ids, 127, 128);
    tree_commit(s.tree, ids + 127, 127, 1);
    check_path(&s, ids, 128);
    /* No memory for the copy: it is the borrower's as before. */
    lend(&s, 0);
    mem.fail_in = 1;
    while (tree_grow(s.tree, 60, 128, &err)) /* as long as there are spare ones */
        lend(&s, 0);
    mem.fail_in = 0;
    assert_int_equal(err.code, ERR_MEMORY);
    check_path(&s, ids, 128);
    /* Rows that were drafted and refused. */
    tree_truncate(s.tree, 100);
    ids[100] = 7;
    sync(&s, ids, 200, false);
    tree_forget(s.tree);
    assert_int_equal(page_pool_bytes(s.pool), 0);
    assert_true(mem.n_pages >= s.n_loans);
    while (s.n_loans > 0)
        give_back(&s, 0);
    close_sim(&s);
}

/* The same reply to the same prompt, again and again, leaves no pages and snapshots behind. */
static void test_repeats(void **state)
{
    (void)state;
    chance_begin(7);
    struct sim s = open_sim((struct plan_model){0}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[100];
    for (int32_t i = 0; i < 100; i++)
        ids[i] = i;
    sync(&s, ids, 70, false);
    take_snapshot(&s);
    for (int round = 0; round < 50; round++) {
        struct err err;
        assert_int_equal(sync(&s, ids, 70, false), 70);
        for (size_t n = 70; n < 100; n++) {
            assert_true(tree_grow(s.tree, n, n + 1, &err));
            compute(&s, ids, n, n + 1);
            tree_commit(s.tree, ids + n, n, 1);
        }
        take_snapshot(&s);
        assert_true(tree_usage(s.tree).n_pages <= 3);
        assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
    }
    check_path(&s, ids, 100);
    close_sim(&s);
}

/* The same in blocks of several rows, of which some lie behind a page's end. */
static void test_repeats_in_blocks(void **state)
{
    (void)state;
    chance_begin(9);
    enum { PROMPT = 60, END = 200, BLOCK = 7 };
    struct sim s = open_sim((struct plan_model){.window = 30}, UINT64_MAX, UINT64_MAX, 24);
    int32_t ids[END];
    for (int32_t i = 0; i < END; i++)
        ids[i] = i;
    sync(&s, ids, PROMPT, false);
    take_snapshot(&s);
    for (int round = 0; round < 20; round++) {
        struct err err;
        assert_int_equal(sync(&s, ids, PROMPT, false), PROMPT);
        for (size_t n = PROMPT; n < END; n += BLOCK) {
            const size_t end = n + BLOCK < END ? n + BLOCK : END;
            assert_true(tree_grow(s.tree, n, end, &err));
            compute(&s, ids, n, end);
            tree_commit(s.tree, ids + n, n, end - n);
        }
        take_snapshot(&s);
        assert_int_equal(tree_usage(s.tree).n_pages, 4);
        assert_int_equal(tree_usage(s.tree).n_snapshots, 2);
        check_path(&s, ids, END);
    }
    close_sim(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_in_blocks),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_costs_of_the_path),
        cmocka_unit_test(test_passing),
        cmocka_unit_test(test_thinning),
        cmocka_unit_test(test_use),
        cmocka_unit_test(test_use_of_two),
        cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_which_branch),
        cmocka_unit_test(test_windows_go),
        cmocka_unit_test(test_windows_to_the_row),
        cmocka_unit_test(test_windows_of_siblings),
        cmocka_unit_test(test_windows_not_absorbed),
        cmocka_unit_test(test_windows_told),
        cmocka_unit_test(test_windows_go_again),
        cmocka_unit_test(test_total),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_no_copy),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_in_little_memory),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_lending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
