/* The choice of the draft's length against recorded replies: which drafts of the bundled
 * guide's draft model were right, token by token, in the workloads of hearth bench --spec. What
 * a step takes is modelled on measurements of the same machine, as the choice sees them: the
 * first step after a prompt or after another model's is cold, some are interrupted. Counted is
 * the time that was spent, against plain decoding of the same replies. No clock runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "engine/draft_length.h"

/* A reply: one character a token, whether the draft model says it; the first came with the
 * prompt. n_prompt: tokens that the draft reads before its first draft. */
struct text {
    const char *name;
    uint32_t n_prompt;
    const char *right;
    const char *source; /* of what is looked up; NULL: the draft model's */
};

/* Qwen3-shaped guide, Q8_0, greedy; 2026-11-21. "on" ones never draw an end. */
static const struct text texts[] = {
    {"code", 19, "?111011111111111111111111111111111111111111111111", NULL},
    {"code, on", 19,
     "?1110111111111111111111111111111111111111111111110000100000010100000100000000000000000"
     "00011111111111111111111111111111111111111?",
     NULL},
    {"list", 18,
     "?1111111111111111111111111111111111111111111111111111111111111111111111111111111111111"
     "11111111111111111111111111111111111111111?",
     NULL},
    {"list, on", 18,
     "?1111111111111111111111111111111111111111111111111111111111111111111111111111111111111"
     "1111111111111111111111111111111111?111111?",
     NULL},
    {"prose", 14, "?1111111111111111111111111111111111111111111111111111111111111111111111111",
     NULL},
    {"prose, on", 14,
     "?1111111111111111111111111111111111111111111111111111111111111111111111111000111011000"
     "00000000110111111111111111111110110110110?",
     NULL},
    {"chat short", 15, "?11111111111111111111111111111111111", NULL},
    {"chat short, on", 15,
     "?1111111111111111111111111111111111100100001101011101001111101100110001010110001111111"
     "11111111111111111111111111000101110111111?",
     NULL},
    {"chat long", 140, "?11111111111111111111", NULL},
    {"chat long, on", 140,
     "?1111111111111111111100000001000010001101110110111111001100111101110111101111111111111"
     "11111111101101011010111111111111011101111?",
     NULL},
    {"edit", 318,
     "?0010000010000000000010000000000000000000000000000000010000000000000000000001000000000"
     "0000000000100000000000000000000100000000100000000000000000000000000000000000000010000000"
     "0000000000000000100000001000100000100000000100000000011000000001000000000000000000000111"
     "0000000010000000001010000000000001011000001001?",
     NULL},
};
/* The edit again, looked up in its prompt: how many of the 16 tokens that followed there are
 * right (in base 17), and whether the run before was long (L). */
static const struct text edit = {
    "edit, looked up", 0,
    "?ggggggfedcba98765432100ggggggggggggggggggggggfedcba987654321000gggggggggggggggggggg"
    "gggfedcba98765432100000ggggggggggggggggggggfedcba98765432100gggggggggggggggggggggggg"
    "gggggggggfedcba9876543210ggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg"
    "ggggggggggggggggggggggggggggggggggfedcba987654321000010000",
    "?wwwwLLLLLLLLLLLLLLLLLLwwwwwwLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLwwwwwwwLLLLLLLLLLLLLLL"
    "LLLLLLLLLLLLLLLLLLLwwwwwwwwwLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLwwwwwwLLLLLLLLLLLLLLLLLLL"
    "LLLLLLLLLLLLLLLLLLLLLLLLLwwwwwLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL"
    "LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLwwwwwwwL"};

enum { N_TEXTS = sizeof texts / sizeof *texts, N_REPLIES = 15, N_SEEDS = 40 };
/* Steps that a session may lose once, while nothing is known; the first text bears them. */
static const double FIRST_LOSS = 8;
static const double LESS_AFTER = 0.55;

/* In plain steps: what a row more takes, of these many at a time; a token of the draft, one
 * that it only reads. cold: what the first step of a reply takes more; after: what the plain
 * step behind a block takes more, for each of its drafts, and each one after it LESS_AFTER of
 * that (measured behind 1, 2, 3, 4 and 6 drafts: 0.09 0.19 0.27 0.42 0.46; then 0.09, 0.06,
 * 0.04 and 0.01 behind 2). */
struct machine {
    const char *name;
    double row, four; /* a row more, and each four of them */
    double token, read;
    double cold, after;
    double wake; /* what the very first draft takes more, as it is seen: nothing of it is in
                    memory yet; once, and not counted */
    double noise, spikes;
    double least; /* speed of each text against plain, over all replies */
    double list;  /* that of the list, which is right throughout */
};

static const struct machine machines[] = {
    /* EPYC with AVX2, one thread: 2 rows take 1.63, 4 2.91, 5 3.79, 9 6.66, 17 12.33. */
    {"AVX2", 0.64, 0.25, 0.13, 0.04, 0.9, 0.09, 25, 0.1, 0.01, 0.98, 1.14},
    /* The same while others read much memory, which a plain step waits for most. */
    {"AVX2, shared", 0.52, 0.15, 0.11, 0.025, 0.9, 0.09, 25, 0.1, 0.01, 0.98, 1.37},
    {"AVX2, busy", 0.64, 0.25, 0.13, 0.04, 0.9, 0.09, 25, 0.3, 0.04, 0.97, 1.12},
    {"dear rows", 0.95, 0, 0.16, 0.04, 0.9, 0.09, 25, 0.1, 0.01, 0.98, 0.98},
    {"cheap rows", 0.10, 0, 0.08, 0.01, 0.2, 0.01, 25, 0.1, 0.01, 0.98, 4.0},
};

static double seen(const struct machine *m, double ms)
{
    const double spike = uniform() < m->spikes * ms ? 2 + 6 * uniform() : 0;
    return ms * (1 + m->noise * (2 * uniform() - 1)) + spike;
}

static enum draft_source source_at(const struct text *t, uint32_t pos)
{
    if (!t->source) return DRAFT_MODEL;
    return t->source[pos] == 'L' ? DRAFT_LOOKUP : DRAFT_LOOKUP_WEAK;
}

/* How many tokens of a draft of k are right. */
static uint32_t right_at(const struct text *t, uint32_t pos, uint32_t k)
{
    uint32_t right = 0;
    if (t->source) {
        const char r = t->right[pos];
        right = (uint32_t)(r <= '9' ? r - '0' : r - 'a' + 10);
        return right < k ? right : k;
    }
    while (right < k && t->right[pos + right] == '1')
        right++;
    return right;
}

/* Time of one reply, by length or (length < 0) as chosen; plain: what it takes without. */
static double reply(struct draft_length *c, const struct machine *m, const struct text *t,
                    int length, double *plain)
{
    const uint32_t n = (uint32_t)strlen(t->right);
    uint32_t pos = 1, behind = t->n_prompt + 1;
    double time = 0, after = 0;
    *plain = n - 1 + m->cold;
    while (pos < n) {
        const uint32_t left = n - pos - 1;
        const enum draft_source source = source_at(t, pos);
        const struct draft_offer offer = {source, left < DRAFT_MAX ? left : DRAFT_MAX,
                                          t->source ? 1 : behind};
        uint32_t k = (uint32_t)length;
        if (length < 0) k = draft_length_choose(c, &offer, 1, pos).n;
        if (k > offer.most) k = offer.most;
        const uint32_t right = right_at(t, pos, k);
        const double draft = t->source ? 0.001 : k ? k * m->token + (behind - 1) * m->read : 0;
        const double verify = 1 + m->row * k + m->four * (k / 4) + (pos == 1 ? m->cold : 0) +
                              (k == 0 ? after : 0);
        after = k == 0 ? LESS_AFTER * after : m->after * k;
        time += draft + verify;
        const double wake = c->from[source].is_awake ? 0 : m->wake;
        const struct draft_outcome o = {.source = source,
                                        .n_drafted = k,
                                        .n_accepted = right,
                                        .n_judged = right < k ? right + 1 : right,
                                        .n_read = k && !t->source ? behind : 0,
                                        .draft_ms = k ? seen(m, draft) + wake : 0,
                                        .verify_ms = seen(m, verify)};
        draft_length_learn(c, &o);
        behind = k == 0 ? behind + 1 : right == k ? 2 : 1;
        pos += right + 1;
    }
    draft_length_reply(c, pos);
    return time;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All texts in turn, as the bench does; sums, and medians of replies, over some seeds. */
static bool run(const struct machine *m)
{
    double time[N_TEXTS] = {0}, plain[N_TEXTS] = {0};
    double ratio[N_TEXTS][N_REPLIES * N_SEEDS];
    size_t n = 0;
    for (uint64_t key = 1; key <= N_SEEDS; key++, n += N_REPLIES) {
        struct draft_length c;
        draft_length_init(&c, 0.1);
        chance_begin(key);
        for (size_t i = 0; i < N_TEXTS; i++) {
            for (size_t k = 0; k < N_REPLIES; k++) {
                double p, t = reply(&c, m, &texts[i], -1, &p);
                time[i] += t, plain[i] += p;
                ratio[i][n + k] = p / t;
            }
        }
    }
    bool ok = true;
    for (size_t i = 0; i < N_TEXTS; i++) {
        double best = 0, p;
        for (int length = 1; length <= DRAFT_MAX; length++) {
            struct draft_length c;
            draft_length_init(&c, 0.1);
            double t = reply(&c, m, &texts[i], length, &p);
            if (p / t > best) best = p / t;
        }
        qsort(ratio[i], n, sizeof *ratio[i], by_size);
        printf("# %-12s %-15s mean %.3f median %.3f low %.3f, best fixed %.3f\n", m->name,
               texts[i].name, plain[i] / time[i], ratio[i][n / 2], ratio[i][n / 20], best);
        const double least = strcmp(texts[i].name, "list") == 0 ? m->list : m->least;
        const double once = i == 0 ? FIRST_LOSS * N_SEEDS : 0;
        ok = ok && plain[i] / (time[i] - once) >= least;
    }
    return ok;
}

static void test_replies(void **state)
{
    (void)state;
    bool ok = true;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        ok = run(&machines[i]) && ok;
    assert_true(ok);
}

/* A text that is copied with changes, where a row more costs little: the first reply, when
 * nothing is known yet, and those after it. */
static const struct machine large[] = {
    {"0.6B Q4_0", 0.14, 0, 0, 0, 0.2, 0.01, 0, 0.1, 0.01, 2.7, 3.0},
    {"0.6B, busy", 0.20, 0.6, 0, 0, 0.2, 0.01, 0, 0.3, 0.04, 1.8, 1.9},
};

static void test_edit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        const struct machine *m = &large[i];
        double first = 0, later = 0, p, best = 0;
        for (uint64_t key = 1; key <= N_SEEDS; key++) {
            struct draft_length c;
            draft_length_init(&c, 0.1);
            chance_begin(key);
            for (size_t k = 0; k < N_REPLIES; k++)
                *(k == 0 ? &first : &later) += reply(&c, m, &edit, -1, &p);
        }
        for (int length = 1; length <= DRAFT_MAX; length++) {
            struct draft_length c;
            draft_length_init(&c, 0.1);
            const double t = reply(&c, m, &edit, length, &p);
            if (p / t > best) best = p / t;
        }
        first = p * N_SEEDS / first;
        later = p * N_SEEDS * (N_REPLIES - 1) / later;
        printf("# %-12s %s first %.3f, later %.3f, best fixed %.3f\n", m->name, edit.name,
               first, later, best);
        assert_true(first >= m->least);
        assert_true(later >= m->list);
    }
}

/* ---- the bound ---- */

enum foe { CHANCE, TURNS, LURES, N_FOES };

/* Of a draft of k tokens so many are right: by chance, in turns, or all until the balance is
 * good and none as long as drafts are made. */
static uint32_t n_right(enum foe foe, uint32_t k, uint32_t pos, double share, uint32_t turn,
                        bool *lures)
{
    uint32_t right = 0;
    if (foe == LURES) {
        if (pos % (4 * turn) == 0 || uniform() < 0.01) *lures = !*lures;
        return *lures ? k : 0;
    }
    const bool good = foe == TURNS ? pos / turn % 2 == 0 : true;
    while (right < k && uniform() < (good ? share : 0))
        right++;
    return right;
}

/* Whatever the text does, what is lost stays within the allowance and a constant: the first
 * balance, one draft that was dearer than its first estimate, one reading. */
static void test_bound(void **state)
{
    (void)state;
    enum { CASES = 400, TOKENS = 4000 };
    double most = 0;
    for (uint64_t key = 1000; key < 1000 + CASES; key++) {
        chance_begin(key);
        const enum foe foe = (enum foe)(key % N_FOES);
        const double row = uniform(), token = 0.5 * uniform(), share = uniform();
        const uint32_t turn = 2 + (uint32_t)(100 * uniform());
        const uint32_t prompt = (uint32_t)(60 * uniform());
        struct draft_length c;
        draft_length_init(&c, token * (0.5 + 1.5 * uniform())); /* a guess by size */
        double time = 0;
        bool lures = true;
        uint32_t behind = prompt + 1, pos = 0, reply = 0;
        while (pos < TOKENS) {
            const struct draft_offer offer = {DRAFT_MODEL, DRAFT_MAX, behind};
            const uint32_t k = draft_length_choose(&c, &offer, 1, reply).n;
            const uint32_t right = n_right(foe, k, pos, share, turn, &lures);
            const double draft = k ? k * token + 0.25 * token * (behind - 1) : 0;
            const struct draft_outcome o = {.source = DRAFT_MODEL,
                                            .n_drafted = k,
                                            .n_accepted = right,
                                            .n_judged = right < k ? right + 1 : right,
                                            .n_read = k ? behind : 0,
                                            .draft_ms = draft,
                                            .verify_ms = 1 + row * k};
            draft_length_learn(&c, &o);
            time += draft + o.verify_ms;
            behind = k == 0 ? behind + 1 : right == k ? 2 : 1;
            pos += right + 1, reply += right + 1;
            const double lost = time - pos - 0.01 * time;
            if (lost > most) most = lost;
            if (reply >= 200) {
                draft_length_reply(&c, reply);
                reply = 0, behind = prompt + 1;
            }
        }
    }
    printf("# most that was lost beyond the allowance: %.2f steps\n", most);
    assert_true(most <= 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies),
        cmocka_unit_test(test_edit),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests_name("draft_replay", tests, NULL, NULL);
}
