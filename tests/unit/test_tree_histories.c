/* Random histories: whatever a tree goes through, a path's rows are those of its tokens, and
 * what is found is what was there. */
#include "../soak.h"
#include "tree_sim.h"

/* Drops windowed rows as a timeline may: all but those near the end and now and then a page. */
static void drop_windows(struct sim *s)
{
    size_t n = tree_n(s->tree);
    if (!s->model.window || s->only_tidies || n < s->model.window) return;
    size_t last = (n - s->model.window + 1) / PAGE_LEN;
    for (size_t i = 0; i < last; i++) {
        const uint32_t n_rows = (uint32_t)tree_window_rows(s->tree, i);
        if (below(8)) tree_drop_windows(s->tree, i, i + 1, below(8) ? 0 : below(n_rows + 1));
    }
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_in_little_memory),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_recurrent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
