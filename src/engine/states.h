/* The recurrent states of one sequence: those after exactly n of its tokens, and the room in
 * which a step makes the next.
 *
 * Two objects that change places when a step is done, so one that fails or is cancelled leaves
 * no trace. States to come back to are a third that stays where it is while steps go on:
 * nothing is copied. For a model without recurrent layers there are none, and every call does
 * nothing. The owner knows which tokens n counts. One thread; it borrows the backend. */
#ifndef ENGINE_STATES_H
#define ENGINE_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct exec;
struct program;
struct step;

struct states {
    struct backend *be;
    size_t n_bytes; /* 0: the model is not recurrent */
    void *now, *next;
    const void *before; /* what the last step began with */
    size_t n, n_before; /* tokens that `now` has taken, and that `before` has */
    void *spare;        /* the third object, while it is neither held nor in use; or NULL */
    void *held;         /* states to come back to, `now` or the third; NULL: none */
    size_t n_held;      /* tokens that they have taken */
    uint64_t n_returns, written_bytes; /* how often tokens were taken back; what that wrote */
    bool is_known;                     /* false: nothing is known of now */
    void *host;                        /* a copy, made by states_bytes */
};

/* The states before the first token. ERR_MEMORY. */
bool states_init(struct states *s, struct backend *be, const struct program *p,
                 struct err *err);
void states_free(struct states *s);

/* Whether the states of now are those after n tokens; without recurrent layers always. */
bool states_at(const struct states *s, size_t n);
/* Makes the states of now those before the first token. */
void states_reset(struct states *s);
/* Makes the states of now those after n tokens, from the bytes that states_bytes gave. */
void states_load(struct states *s, size_t n, const void *bytes);
/* The states as n_bytes bytes, until the next call; NULL without any. */
const void *states_bytes(struct states *s);
/* Keeps the states of now for states_cut to come back to, until the next hold. Without memory
 * for a third object none are kept. */
void states_hold(struct states *s);
/* The tokens after the first n are others from now on. States that have taken one of them are
 * given up for the held ones, if these have taken none; otherwise nothing is known. */
void states_cut(struct states *s, size_t n);
/* For tests: puts zeros in place of the states of now, and goes on as if they were right. */
void states_break(struct states *s);
/* Gives up all states, held ones too: none has taken the tokens that there are now. */
void states_lose(struct states *s);

/* Sets what a step reads and writes. Once it is done, states_take makes what it wrote the
 * states of now, which have taken n_rows more tokens. */
void states_lend(const struct states *s, struct step *step);
void states_take(struct states *s, size_t n_rows);
/* The same for a block of steps in one submission: sets what the first of them reads and
 * writes, and in *end where the states after the last go. Nothing is held any more. ERR_MEMORY.
 */
bool states_lend_ahead(struct states *s, struct step *step, void **end, struct err *err);
/* The block is done: takes the n_rows of the first step and holds the states after them, then
 * takes the n_more rows of the others, if any. */
void states_take_ahead(struct states *s, size_t n_rows, size_t n_more);
/* Of the rows taken last, in a step of this exec that kept its trail, only the first n count,
 * n > 0. If the device fails, nothing is known of the states. */
void states_keep(struct states *s, struct exec *x, size_t n);

#endif
