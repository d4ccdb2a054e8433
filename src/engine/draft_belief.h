/* What is believed of the share of drafts that are right: a weight for each of some shares. A
 * right draft and a wrong one move the weights as they should (Bayes), so one wrong draft after
 * many right ones tells little where single ones are usual, and much where a text is either
 * easy or hard; and a run that was right so far is likely to stay so.
 *
 * A text turns: with each draft, and with time, the weights go a little to what is usual here,
 * which is learned more slowly.
 *
 * The owner embeds the struct. Pure arithmetic; one thread. */
#ifndef ENGINE_DRAFT_BELIEF_H
#define ENGINE_DRAFT_BELIEF_H

#include <stdbool.h>
#include <stdint.h>

enum { DRAFT_BELIEF_SHARES = 7 };

/* Each sums to 1. */
struct draft_belief {
    double weight[DRAFT_BELIEF_SHARES];
    double usual[DRAFT_BELIEF_SHARES];
};

void draft_belief_init(struct draft_belief *b);

/* A draft was right or wrong. */
void draft_belief_learn(struct draft_belief *b, bool right);

/* The chance that the next draft is right: 0 < p < 1. */
double draft_belief_next(const struct draft_belief *b);

/* The chance of each of the next n drafts, should those before it be right, into p[n]. */
void draft_belief_run(const struct draft_belief *b, uint32_t n, double *p);

/* Moves what is believed to what it would be had the next draft been right: by `share` of the
 * way, 0..1. */
void draft_belief_suppose(struct draft_belief *b, double share);

/* Moves what is believed to what is usual: by `share` of the way, 0..1. */
void draft_belief_forget(struct draft_belief *b, double share);

#endif
