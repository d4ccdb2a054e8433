/* A mixture of shares: the weights are their odds. Each share is strictly between 0 and 1, and
 * forgetting keeps each weight above 0, so no sum here is 0. */
#include "engine/draft_belief.h"

enum { N = DRAFT_BELIEF_SHARES };

/* The last is that of a text which the draft knows by heart. */
static const double shares[N] = {0.05, 0.25, 0.5, 0.7, 0.85, 0.94, 0.99};
/* Before anything is known. */
static const double first[N] = {0.1, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2};
/* The share that is forgotten with each draft: a text stays as it is for some 40 drafts. */
static const double TURNS = 0.025;
/* With each draft what is usual moves by USUAL_WEIGHT of the way to what is believed, of which
 * USUAL_FIRST is replaced by what it was at first. */
static const double USUAL_WEIGHT = 0.015, USUAL_FIRST = 0.1;

void draft_belief_init(struct draft_belief *b)
{
    for (int i = 0; i < N; i++)
        b->weight[i] = b->usual[i] = first[i];
}

double draft_belief_next(const struct draft_belief *b)
{
    double p = 0;
    for (int i = 0; i < N; i++)
        p += b->weight[i] * shares[i];
    return p;
}

void draft_belief_run(const struct draft_belief *b, uint32_t n, double *p)
{
    double weight[N], all = 1; /* the chance that all so far are right: by share, and in all */
    for (int i = 0; i < N; i++)
        weight[i] = b->weight[i];
    for (uint32_t k = 0; k < n; k++) {
        double next = 0;
        for (int i = 0; i < N; i++)
            next += weight[i] *= shares[i];
        p[k] = next / all;
        all = next;
    }
}

void draft_belief_suppose(struct draft_belief *b, double share)
{
    const double p = draft_belief_next(b);
    for (int i = 0; i < N; i++)
        b->weight[i] *= 1 + share * (shares[i] / p - 1);
}

void draft_belief_forget(struct draft_belief *b, double share)
{
    for (int i = 0; i < N; i++)
        b->weight[i] += share * (b->usual[i] - b->weight[i]);
}

void draft_belief_learn(struct draft_belief *b, bool right)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += b->weight[i] *= right ? shares[i] : 1 - shares[i];
    for (int i = 0; i < N; i++)
        b->weight[i] /= sum;
    for (int i = 0; i < N; i++) {
        const double to = b->weight[i] + USUAL_FIRST * (first[i] - b->weight[i]);
        b->usual[i] += USUAL_WEIGHT * (to - b->usual[i]);
    }
    draft_belief_forget(b, TURNS);
}
