/* Passes over all logits of a vocabulary, a few at a time: draws make several for every token,
 * also for those that are only guessed.
 *
 * Pure arithmetic on the caller's memory; any thread. It knows no tokens. */
#ifndef BACKEND_LOGITS_H
#define BACKEND_LOGITS_H

#include <stdbool.h>
#include <stddef.h>

/* The largest of x[n] into *max, -infinity of nothing. False, and no maximum, if one of them is
 * NaN or +infinity. */
bool logits_max(const float *x, size_t n, float *max);

/* The first i from `from` on with x[i] >= least; n if there is none. */
size_t logits_next(const float *x, size_t from, size_t n, float least);

#endif
