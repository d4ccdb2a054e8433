/* The choice of the draft's length against synthetic costs: never much slower than plain
 * decoding, and near the best fixed length where drafts pay. No clock runs here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "base/philox.h"
#include "engine/draft_length.h"

/* A machine, a draft and a text. Times in units of a plain step. */
struct world {
    const char *name;
    double row;       /* a row more in a step */
    double token;     /* a token of the draft */
    double accept[3]; /* share accepted, in turns of so many tokens each; and (0: the same)
                         that of a draft's tokens after its first */
    uint32_t turn;    /* 0: always the first */
    double noise;     /* steps take 1 ± noise, seldom 5 times that; 2: contended */
    uint32_t reply;   /* tokens of a reply; the draft reads the prompt at each */
    uint32_t prompt;  /* tokens of it */
    enum draft_source source;
    double least;   /* speed that must be reached, plain is 1 */
    double of_best; /* share of the best fixed length's speed that must be reached */
};

/* Whether the draft's token at a depth is right at a position of the text. */
static bool is_right(const struct world *w, uint32_t pos, uint32_t depth)
{
    const uint32_t half = w->turn ? pos / w->turn % 2 : 0;
    const double r = philox(chance.key + 1, pos, 0, 0, PHILOX_BENCH).word[0] / 4294967296.0;
    return r < (depth > 0 && w->accept[2] > 0 ? w->accept[2] : w->accept[half]);
}

static double noisy(const struct world *w, double ms)
{
    /* Others take the core away: the longer a step, the more often. */
    double taken = 0;
    if (w->noise > 1)
        for (double left = ms; left > 0; left -= 0.1)
            taken += uniform() < 0.04 ? 4 : 0;
    if (w->noise > 1) return ms + taken;
    const double spike = uniform() < 0.01 * (w->noise > 0) ? 5 : 1;
    return ms * spike * (1 + w->noise * (2 * uniform() - 1));
}

/* What a plain step takes, in ms. */
static double unit = 1;

/* Time of n tokens, by a fixed length or (length < 0) as chosen. The time that counts is the
 * true one, without the noise that the choice was made on. */
static double run(const struct world *w, uint32_t n, int length)
{
    struct draft_length c;
    draft_length_init(&c, 0.1);
    double time = 0;
    uint32_t pos = 0;
    chance.n_drawn = 0;
    while (pos < n) {
        uint32_t left = w->reply < n - pos ? w->reply : n - pos, done = 0;
        uint32_t behind = w->prompt;
        while (done < left) {
            const struct draft_offer offer = {w->source, DRAFT_MAX, behind};
            struct draft_choice choice = {0};
            if (length < 0)
                choice = draft_length_choose(&c, &offer, 1, done);
            else
                choice.n = (uint32_t)length;
            uint32_t k = choice.n, right = 0;
            while (right < k && is_right(w, pos + right, right))
                right++;
            const double reading = k ? 0.5 * w->token * behind : 0;
            const double draft = k * w->token + reading, verify = 1 + w->row * k;
            time += draft + verify;
            const struct draft_outcome outcome = {.source = w->source,
                                                  .n_drafted = k,
                                                  .n_accepted = right,
                                                  .n_judged = right < k ? right + 1 : right,
                                                  .n_read = k ? behind : 0,
                                                  .draft_ms = unit * noisy(w, draft),
                                                  .verify_ms = unit * noisy(w, verify)};
            draft_length_learn(&c, &outcome);
            behind = k ? 1 : behind + 1;
            done += right + 1;
            pos += right + 1;
        }
        draft_length_reply(&c, done);
    }
    return time / pos;
}

static const struct world worlds[] = {
    /* Drafts that are never right, cheap and dear; half right where a row costs much. */
    {"wrong", 0.1, 0.1, {0.02}, 0, 0, 150, 50, DRAFT_MODEL, 0.98, 0},
    {"wrong, dear rows", 0.7, 0.1, {0.02}, 0, 0.2, 150, 50, DRAFT_MODEL, 0.98, 0},
    {"wrong and as large as the target", 0.1, 1, {0}, 0, 0, 150, 50, DRAFT_MODEL, 0.98, 0},
    {"half right, dear rows", 0.76, 0.15, {0.59}, 0, 0.2, 128, 30, DRAFT_MODEL, 0.98, 0},
    {"lookup, mostly wrong", 0.3, 0, {0.1}, 0, 0.2, 150, 0, DRAFT_LOOKUP_WEAK, 0.98, 0},
    {"no gain at all", 0.9, 0.1, {1}, 0, 0.2, 150, 30, DRAFT_MODEL, 0.98, 0},
    /* Drafts that pay. */
    {"right, large target", 0.05, 0.08, {0.9}, 0, 0.1, 200, 100, DRAFT_MODEL, 2.5, 0.9},
    {"right, small target", 0.5, 0.1, {0.97}, 0, 0.2, 150, 30, DRAFT_MODEL, 1.2, 0.92},
    {"three of four right", 0.1, 0.1, {0.75}, 0, 0.2, 200, 50, DRAFT_MODEL, 1.5, 0.9},
    {"lookup, right", 0.15, 0, {0.95}, 0, 0.2, 300, 0, DRAFT_LOOKUP, 3, 0.9},
    /* On a machine that others use too. */
    {"right, contended", 0.5, 0.1, {0.97}, 0, 2, 150, 30, DRAFT_MODEL, 1.08, 0.8},
    {"wrong, contended", 0.5, 0.1, {0.1}, 0, 2, 150, 30, DRAFT_MODEL, 0.96, 0},
    /* A text that changes its character. */
    {"in turns", 0.2, 0.1, {0.95, 0.1}, 100, 0.1, 200, 50, DRAFT_MODEL, 1, 0.95},
    {"wrong for long, then right",
     0.2,
     0.1,
     {0.02, 0.95},
     1500,
     0.1,
     150,
     30,
     DRAFT_MODEL,
     1.2,
     0},
    {"in short turns", 0.5, 0.1, {0.95, 0.05}, 40, 0.2, 200, 50, DRAFT_MODEL, 0.98, 0},
    /* Only the first token of a draft is good. */
    {"worse with depth", 0.2, 0.1, {0.9, 0, 0.3}, 0, 0.2, 200, 50, DRAFT_MODEL, 1.28, 0.93},
};

static void test_worlds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const struct world *w = &worlds[i];
        double best = 1, sum = 0;
        enum { SEEDS = 25, N = 3000 };
        for (uint32_t s = 0; s < SEEDS; s++) {
            chance_begin(100 * i + s);
            sum += run(w, N, -1) / SEEDS;
        }
        for (int length = 1; length <= DRAFT_MAX; length++) {
            const double t = run(w, N, length);
            best = t < best ? t : best;
        }
        printf("# %s: %.3f of plain, best fixed %.3f\n", w->name, 1 / sum, 1 / best);
        if (1 / sum < w->least)
            fail_msg("%s: speed %.3f, at least %.3f was wanted", w->name, 1 / sum, w->least);
        if (best / sum < w->of_best)
            fail_msg("%s: %.3f of the best fixed length, at least %.3f was wanted", w->name,
                     best / sum, w->of_best);
    }
}

/* How fast the machine is does not matter: the same choices to the last one. */
static void test_unit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        double times[2];
        for (int k = 0; k < 2; k++) {
            chance_begin(i);
            unit = k ? 64 : 1;
            times[k] = run(&worlds[i], 2000, -1);
        }
        unit = 1;
        assert_true(times[0] == times[1]);
    }
}

/* The reply ended at the first of its drafts, and nothing is known of them: the step is no
 * plain one, and each draft took its time. */
static void test_ended(void **state)
{
    (void)state;
    const struct draft_outcome plain = {.source = DRAFT_MODEL, .verify_ms = 1},
                               ended = {.source = DRAFT_MODEL,
                                        .n_drafted = 4,
                                        .n_read = 1,
                                        .draft_ms = 0.5,
                                        .verify_ms = 2};
    struct draft_length c;
    draft_length_init(&c, 0.1);
    for (int i = 0; i < 20; i++)
        draft_length_learn(&c, &plain);
    for (int i = 0; i < 2; i++)
        draft_length_learn(&c, &ended);
    assert_true(draft_length_plain_ms(&c) == 1);
    assert_int_equal(c.verify[5].n, 2);
    assert_true(c.verify[5].steps == 2);
    assert_true(c.from[DRAFT_MODEL].token.ms == 0.125);
    assert_int_equal(c.from[DRAFT_MODEL].judged, 0);
}

/* No more tokens are chosen than a source has, and where all are right no fewer. */
static void test_most(void **state)
{
    (void)state;
    for (uint32_t most = 1; most <= DRAFT_MAX; most++) {
        struct draft_length c;
        uint32_t longest = 0;
        draft_length_init(&c, 0.1);
        for (int i = 0; i < 400; i++) {
            const struct draft_offer offer = {DRAFT_LOOKUP, most, 0};
            const uint32_t k = draft_length_choose(&c, &offer, 1, 0).n;
            const struct draft_outcome outcome = {.source = DRAFT_LOOKUP,
                                                  .n_drafted = k,
                                                  .n_accepted = k,
                                                  .n_judged = k,
                                                  .verify_ms = 1 + 0.01 * k};
            assert_true(k <= most);
            longest = k > longest ? k : longest;
            draft_length_learn(&c, &outcome);
        }
        assert_int_equal(longest, most);
    }
}

/* A reply of blocks of four rows, each `slower` times as slow as it should be. */
static void blocks(struct draft_length *c, double slower)
{
    const struct draft_outcome block = {.source = DRAFT_MODEL,
                                        .n_drafted = 3,
                                        .n_accepted = 3,
                                        .n_judged = 3,
                                        .n_read = 1,
                                        .draft_ms = 0.6 * slower,
                                        .verify_ms = 1.5 * slower};
    for (int i = 0; i < 12; i++)
        draft_length_learn(c, &block);
    draft_length_reply(c, 48);
}

/* Of a reply that has only its first blocks, which find cold caches, nobody knows. */
static void test_no_weather(void **state)
{
    (void)state;
    const struct draft_outcome plain = {.source = DRAFT_MODEL, .verify_ms = 1},
                               first = {.source = DRAFT_MODEL,
                                        .n_drafted = 1,
                                        .draft_ms = 0.2,
                                        .verify_ms = 2};
    struct draft_length c;
    draft_length_init(&c, 0.2);
    for (int i = 0; i < 20; i++)
        draft_length_learn(&c, &plain);
    draft_length_reply(&c, 20);
    for (int i = 0; i < 2; i++)
        draft_length_learn(&c, &first);
    draft_length_reply(&c, 2);
    assert_true(draft_length_plain_ms(&c) == 0);
}

/* What a reply would have taken without drafts is said of the machine as that reply found it:
 * where others used it, plain steps would have been slower, too, though none was made. */
static void test_weather(void **state)
{
    (void)state;
    const struct draft_outcome plain = {.source = DRAFT_MODEL, .verify_ms = 1};
    struct draft_length c;
    draft_length_init(&c, 0.2);
    for (int i = 0; i < 20; i++)
        draft_length_learn(&c, &plain);
    draft_length_reply(&c, 20);
    assert_true(draft_length_plain_ms(&c) == 1);
    blocks(&c, 1);
    assert_true(fabs(draft_length_plain_ms(&c) - 1) < 1e-9);
    blocks(&c, 1.3);
    assert_true(draft_length_plain_ms(&c) > 1.2 && draft_length_plain_ms(&c) < 1.31);
    for (int i = 0; i < 8; i++)
        blocks(&c, 1);
    blocks(&c, 4); /* a token takes 2.1 */
    assert_true(draft_length_plain_ms(&c) > 3 && draft_length_plain_ms(&c) < 4.1);
    /* A reply of plain steps alone has been measured itself. */
    for (int i = 0; i < 20; i++)
        draft_length_learn(&c, &plain);
    draft_length_reply(&c, 20);
    assert_true(fabs(draft_length_plain_ms(&c) - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds),  cmocka_unit_test(test_unit),
        cmocka_unit_test(test_ended),   cmocka_unit_test(test_most),
        cmocka_unit_test(test_weather), cmocka_unit_test(test_no_weather)};
    return cmocka_run_group_tests_name("draft_length", tests, NULL, NULL);
}
