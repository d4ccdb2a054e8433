/* What of a wanted sequence of tokens need not be computed: a pure function.
 *
 * Rows of full-attention layers are good for as long as their tokens are the same. Windowed
 * layers may have dropped rows; recurrent layers have states at a few exact counts only. The
 * plan finds where computing may begin so that nothing is missing. No memory, no pages, no
 * ids: only counts. Any thread. */
#ifndef CACHE_PLAN_H
#define CACHE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a model asks for. */
struct plan_model {
    size_t window; /* rows its windowed layers see, the row's own included; 0: it has none */
    bool is_recurrent;
};

/* What is warm of the wanted tokens. */
struct plan_have {
    size_t n; /* the longest common beginning: its full-attention rows are all there */
    /* [pages of n] how many of page i's windowed rows are there, its first; NULL: all are. */
    const uint32_t *windows;
    /* Token counts at which there are recurrent states and the logits: ascending, at most n. */
    const size_t *snapshots;
    size_t n_snapshots;
};

struct plan {
    size_t keep;     /* tokens whose full-attention rows stay: all that are common */
    size_t from;     /* rows from here to the end of want are computed; want: none */
    size_t snapshot; /* whose states are restored, and logits if from is want */
};

/* plan.snapshot: nothing is restored. */
#define PLAN_NO_SNAPSHOT ((size_t)-1)

/* The plan that computes fewest rows. It ends with the rows and states of n_want tokens, n_want
 * > 0, and their logits. have->n is at most n_want. */
struct plan plan_make(const struct plan_model *model, const struct plan_have *have,
                      size_t n_want);

#endif
