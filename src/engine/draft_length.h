/* How many tokens to draft: the length that makes most tokens per second, zero included.
 *
 * What a step costs is learned from the clock: verifying by the number of rows, drafting by the
 * token, what share of drafts is right, and how that differs by depth. What a plain step costs
 * is learned from plain steps among their like alone: one after a prompt or after drafts finds
 * the caches full of other things and is slower than plain decoding is.
 *
 * A balance bounds what the estimates cannot know. Tokens that came later than plain decoding
 * would have made them are paid from those that came earlier, from .6 percent of the time and
 * from the few steps it begins with. A draft is made only if it can be paid should nothing of
 * it be right, so by the measured times no text, however it turns, loses more than that and
 * what one wrong first guess at a cost is off by. Where drafts do not pay, one is tried again
 * when what is known of them is old.
 *
 * The owner embeds the struct. Pure arithmetic on the times that it is told: no clock, no
 * tokens. Its choice never changes a text, only how fast it comes. One thread at a time. */
#ifndef ENGINE_DRAFT_LENGTH_H
#define ENGINE_DRAFT_LENGTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/draft_belief.h"

enum { DRAFT_MAX = 16 }; /* tokens of one draft */

/* Whose drafts: each has a share of acceptance of its own. */
enum draft_source {
    DRAFT_MODEL,
    DRAFT_LOOKUP,      /* a long run of the same tokens was found earlier */
    DRAFT_LOOKUP_WEAK, /* a short one */
    N_DRAFT_SOURCES,
};

/* The drafts at one depth, the i-th tokens of drafts that were right up to there: how many were
 * right, and how many should have been by what was believed of all depths. What is old counts
 * less. */
struct draft_depth {
    double right, believed;
};

/* What something takes, from n measurements. */
struct draft_time {
    double ms;
    uint32_t n;
};

/* What a step of some rows takes, in plain steps. */
struct draft_rows {
    double steps;
    uint32_t n;
    uint64_t when; /* step of the last measurement */
};

struct draft_length {
    struct draft_time plain;                 /* a step of one row */
    struct draft_time busy;                  /* the same, interruptions included */
    struct draft_rows verify[DRAFT_MAX + 2]; /* of more, by their number */
    double row; /* by the line through them: what each row after the first adds */
    struct draft_from {
        struct draft_time token; /* drafting one token */
        struct draft_time read;  /* reading one, of many */
        bool is_awake;           /* it has drafted before */
        double token_guess;      /* until it is measured, as a share of a plain step */
        struct draft_belief belief;
        uint64_t judged; /* step of the last draft that was */
        struct draft_depth depth[DRAFT_MAX];
    } from[N_DRAFT_SOURCES];
    double balance;      /* plain steps */
    uint64_t step;       /* steps so far */
    uint64_t next_plain; /* the step from which a run of plain ones is made */
    uint32_t n_steps;    /* of the reply under way */
    uint32_t n_plain;    /* the newest of them in a row that were plain */
    double reply_tokens; /* of a usual reply */
    /* What blocks took by their rows as the reply under way began, in plain steps, 0: not
     * known. */
    double usual[DRAFT_MAX + 2];
    /* How many it has; what those that can be compared took, and would have taken so. */
    uint32_t n_blocks;
    double took_ms, usual_ms;
    double slower; /* the one by the other, of the reply before; 0: not known */
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
    uint32_t n_drafted; /* each took its time, those behind the end of a turn too */
    uint32_t n_accepted;
    uint32_t n_judged; /* drafts that are known to be right or wrong: accepted, and one more */
    uint32_t n_read;   /* tokens that the draft read before it began */
    double draft_ms, verify_ms;
};
void draft_length_learn(struct draft_length *c, const struct draft_outcome *o);

/* A reply of n tokens is over. */
void draft_length_reply(struct draft_length *c, uint32_t n);

/* What a token of the last reply would have taken without drafts: a plain step as measured, by
 * as much slower as the blocks of that reply were than such had been before; 0: nobody
 * knows. */
double draft_length_plain_ms(const struct draft_length *c);

#endif
