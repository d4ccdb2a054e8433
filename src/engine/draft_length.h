/* How many tokens to draft: the length that makes most tokens per second, zero included.
 *
 * What a step costs is learned from the clock: verifying by the number of rows, drafting by the
 * token, what share of drafts is accepted by their depth. A balance guards what the estimates
 * cannot know: tokens that came later than plain decoding would have made them are paid from
 * those that came earlier and from one percent of the time; without balance nothing is
 * drafted. Where drafting does not pay, a short draft tries again, more and more rarely.
 *
 * The owner embeds the struct. Pure arithmetic on the times that it is told: no clock, no
 * tokens. Its choice never changes a text, only how fast it comes. One thread at a time. */
#ifndef ENGINE_DRAFT_LENGTH_H
#define ENGINE_DRAFT_LENGTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRAFT_MAX = 16 }; /* tokens of one draft */

/* Whose drafts: each has a share of acceptance of its own. */
enum draft_source {
    DRAFT_MODEL,
    DRAFT_LOOKUP,      /* a long run of the same tokens was found earlier */
    DRAFT_LOOKUP_WEAK, /* a short one */
    N_DRAFT_SOURCES,
};

/* A share of accepted drafts at one depth, of those whose predecessors were all accepted. */
struct draft_share {
    double p;
    uint32_t n;    /* trials, as far as they still count */
    uint64_t when; /* step of the last one */
};

/* What something takes, from n measurements. */
struct draft_time {
    double ms;
    uint32_t n;
};

struct draft_length {
    struct draft_time verify[DRAFT_MAX + 2]; /* a step, by rows */
    double base_ms, row_ms;                  /* the line through them: a row, each more */
    struct draft_from {
        struct draft_time token; /* drafting one token */
        double token_guess;      /* until it is measured, as a share of a plain step */
        uint64_t next_try, gap;  /* steps, while its drafts do not pay */
        struct draft_share depth[DRAFT_MAX];
    } from[N_DRAFT_SOURCES];
    struct draft_time plain; /* a step of one row, interruptions included */
    double balance_ms;
    uint64_t step, next_plain;
    double reply_tokens; /* of a usual reply */
};

/* draft_cost: a guess at what a token of the draft model costs, as a share of one of the
 * target. */
void draft_length_init(struct draft_length *c, double draft_cost);

/* What could be drafted now. */
struct draft_offer {
    enum draft_source source;
    uint32_t most;   /* tokens */
    uint32_t behind; /* tokens that the draft has to read first */
};

struct draft_choice {
    uint32_t n; /* tokens to draft; 0: none */
    size_t offer;
};

/* The best of n_offers. n_done: tokens of the reply so far. */
struct draft_choice draft_length_choose(struct draft_length *c,
                                        const struct draft_offer *offers, size_t n_offers,
                                        uint32_t n_done);

/* How a step went. */
struct draft_outcome {
    enum draft_source source;
    uint32_t n_drafted, n_accepted;
    uint32_t n_judged; /* drafts that are known to be right or wrong: accepted, and one more */
    uint32_t n_read;   /* tokens that the draft read before it began */
    double draft_ms, verify_ms;
};
void draft_length_learn(struct draft_length *c, const struct draft_outcome *o);

/* A reply of n tokens is over. */
void draft_length_reply(struct draft_length *c, uint32_t n);

/* What a token takes without drafts; 0: not measured yet. */
double draft_length_plain_ms(const struct draft_length *c);

#endif
