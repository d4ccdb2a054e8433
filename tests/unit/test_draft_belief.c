/* What is believed of drafts: it finds a steady share, knows a text that turns from one with
 * single mistakes, and stays a belief. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../chance.h"
#include "engine/draft_belief.h"

static bool happens(double p)
{
    return uniform() < p;
}

static void check(const struct draft_belief *b)
{
    double weight = 0, usual = 0;
    for (int i = 0; i < DRAFT_BELIEF_SHARES; i++) {
        assert_true(b->weight[i] > 0 && b->usual[i] > 0);
        weight += b->weight[i], usual += b->usual[i];
    }
    assert_true(fabs(weight - 1) < 1e-9 && fabs(usual - 1) < 1e-9);
    assert_true(draft_belief_next(b) > 0 && draft_belief_next(b) < 1);
}

static void test_steady(void **state)
{
    (void)state;
    const double share[] = {0.1, 0.4, 0.75, 0.9, 0.98};
    for (size_t k = 0; k < sizeof share / sizeof *share; k++) {
        struct draft_belief b;
        draft_belief_init(&b);
        double sum = 0;
        enum { BEFORE = 200, N = 4000 };
        for (int i = 0; i < BEFORE + N; i++) {
            if (i >= BEFORE) sum += draft_belief_next(&b) / N;
            draft_belief_learn(&b, happens(share[k]));
        }
        check(&b);
        printf("# share %.2f: believed %.3f\n", share[k], sum);
        assert_true(fabs(sum - share[k]) < 0.06);
    }
}

/* What a wrong draft after twenty right ones leaves of the chance of the next, and two of them,
 * where the text has turns of so many tokens or (0) single mistakes. */
static void after_wrong(int turn, double *one, double *two)
{
    struct draft_belief b;
    draft_belief_init(&b);
    for (int i = 0; i < 2000; i++)
        draft_belief_learn(&b, turn == 0 ? happens(0.9) : happens(i / turn % 2 ? 0.05 : 0.99));
    for (int i = 0; i < 20; i++)
        draft_belief_learn(&b, true);
    assert_true(draft_belief_next(&b) > 0.9);
    draft_belief_learn(&b, false);
    *one = draft_belief_next(&b);
    draft_belief_learn(&b, false);
    *two = draft_belief_next(&b);
}

static void test_turns(void **state)
{
    (void)state;
    double one, two, one_turned, two_turned;
    after_wrong(0, &one, &two);
    after_wrong(40, &one_turned, &two_turned);
    printf("# single mistakes: %.2f, then %.2f; turns: %.2f, then %.2f\n", one, two, one_turned,
           two_turned);
    assert_true(one > 0.8 && two > 0.7);
    assert_true(one_turned < 0.75 && two_turned < 0.25);
}

/* A run that was right so far is likely to stay so; half supposed is less. */
static void test_suppose(void **state)
{
    (void)state;
    struct draft_belief b, half;
    draft_belief_init(&b);
    double last = draft_belief_next(&b), run[16];
    draft_belief_run(&b, 16, run);
    for (int i = 0; i < 16; i++) {
        assert_true(fabs(run[i] - draft_belief_next(&b)) < 1e-9);
        half = b;
        draft_belief_suppose(&half, 0.5);
        draft_belief_suppose(&b, 1);
        check(&b);
        check(&half);
        assert_true(draft_belief_next(&half) > last);
        assert_true(draft_belief_next(&b) > draft_belief_next(&half));
        last = draft_belief_next(&b);
    }
}

static void test_forget(void **state)
{
    (void)state;
    struct draft_belief b, fresh;
    draft_belief_init(&b);
    draft_belief_init(&fresh);
    for (int i = 0; i < 10000; i++)
        draft_belief_learn(&b, false);
    check(&b);
    assert_true(draft_belief_next(&b) < 0.1);
    /* What is usual was learned too, but not for ever. */
    draft_belief_forget(&b, 1);
    check(&b);
    assert_true(draft_belief_next(&b) < 0.25);
    for (int i = 0; i < 100; i++)
        draft_belief_learn(&b, true);
    assert_true(draft_belief_next(&b) > 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_suppose),
        cmocka_unit_test(test_forget),
    };
    return cmocka_run_group_tests_name("draft_belief", tests, NULL, NULL);
}
