/* What the files of the timeline share: its fields, and the steps that more than one file
 * takes. timeline_held.c says what is there, timeline.c computes the rest, timeline_disk.c
 * saves it and gets it back. The thread is timeline.h's. Nobody else includes it. */
#ifndef ENGINE_TIMELINE_IMPL_H
#define ENGINE_TIMELINE_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "cache/plan.h"
#include "engine/states.h"
#include "engine/timeline.h"

/* Of snapshots: those of a turn, and one more at the end. */
enum { TIMELINE_MOST_OWED = 3 };

/* A snapshot that the disk is to have and did not take yet, after n tokens. Windowed rows go
 * there before it: those of pages before `page` were given. What was given is not looked for
 * again: a folder that may keep little has lost it by then, and saving would never end. */
struct owed {
    size_t n, page;
};

struct timeline {
    struct backend *be;
    const struct program *program;
    struct exec *exec;
    struct page_pool *pool;
    struct tree *tree;
    struct disk *disk; /* NULL: none */
    size_t n_saved; /* pages at the beginning of the sequence that are on disk, or on the way */
    struct owed owed[TIMELINE_MOST_OWED]; /* [n_owed], the oldest first */
    size_t n_owed;
    struct plan_model model;
    struct states states; /* after tokens of the sequence; it may be behind them */
    size_t mark; /* a snapshot is wanted after so many tokens of the next sync; 0: no */
    bool breaks_states;
    size_t n_prompt; /* tokens of the last sync, up to its mark */
    uint32_t n_ctx;
    size_t n_vocab;
    float *logits; /* [n_vocab] */
    bool has_logits;
    /* Logits that a draw left on the device: row far_row of the last step is what logits is to
     * hold, and rows lie there, too. */
    bool is_far;
    uint32_t far_row;
    const struct draw *draw; /* for the next step; NULL: none */
    int32_t drawn[TIMELINE_MAX_VERIFY];
    size_t n_drawn; /* rows of the last step that were drawn from */
    float *rows;    /* [TIMELINE_MAX_VERIFY][n_vocab], of timeline_append_rows; NULL: not yet */
    uint64_t n_steps;
    size_t rows_bytes, rows_from; /* the tokens before the first of them */
    double row_ms;                /* measured cost of a prefilled row; 0: not yet */
};

/* Whether there are recurrent states after some of the first n tokens, which are held. */
static inline bool timeline_knows_states(const struct timeline *tl, size_t n)
{
    return tl->model.is_recurrent && tl->states.is_known && tl->states.n <= n;
}

/* The sequence keeps only its first n tokens: of what is behind them nothing is saved any more,
 * nor owed. */
static inline void timeline_saved_at_most(struct timeline *tl, size_t n)
{
    size_t n_left = 0;
    if (tl->n_saved > n / PAGE_LEN) tl->n_saved = n / PAGE_LEN;
    for (size_t i = 0; i < tl->n_owed; i++)
        if (tl->owed[i].n <= n) tl->owed[n_left++] = tl->owed[i];
    tl->n_owed = n_left;
}

/* Tokens that states which were held are behind the sequence, if they may be read again in one
 * step with n new ones; else 0. */
size_t timeline_rows_behind(const struct timeline *tl, size_t n);

/* Makes the sequence as much of ids[0..n) as is warm or on disk: whole pages, then the snapshot
 * of the most tokens behind them. The first `same` were held before. Returns the tokens that
 * were read. */
size_t timeline_fetch(struct timeline *tl, const int32_t *ids, size_t n, size_t same,
                      const atomic_bool *cancel);

#endif
