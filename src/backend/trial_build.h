/* The small programs of a trial (trial.h): one for each kernel that an op of a program takes.
 *
 * Types, head sizes and options are those of the program, sizes that change no kernel are cut,
 * and weights are made up from a seed, the same on every backend. The caller owns the struct
 * and runs what is in it. It knows ops, no device and no model; one thread at a time. */
#ifndef BACKEND_TRIAL_BUILD_H
#define BACKEND_TRIAL_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"

struct backend;

/* Rows of the steps: those that other kernels may be chosen for, and a first step that in
 * attention reaches into a second page. */
enum { TRIAL_FEW = 9, TRIAL_MANY = PAGE_LEN + 6, TRIAL_STEPS = 4 };
/* Rows of all steps together, at most. */
enum { TRIAL_ROWS = TRIAL_MANY + 4 + 2 + 1 };

enum { TRIAL_BUFFERS = 8, TRIAL_OPS = 8, TRIAL_KEPT = 16, TRIAL_KEY_WORDS = 6 };

struct trial {
    /* Set by the caller, the rest zero. */
    struct backend *be;       /* that the weights are bound to */
    const struct program *of; /* need not be bound */
    uint64_t seed;
    uint32_t first_rows; /* of the first step; attention makes it TRIAL_MANY */
    struct err *err;

    /* By trial_build. */
    struct row_buffer buffers[TRIAL_BUFFERS];
    struct op ops[TRIAL_OPS];
    struct kv_layer kv;
    struct state_part state;
    struct program p;       /* points into this struct */
    void *kept[TRIAL_KEPT]; /* data of weights, which a backend may read until it is reset */
    size_t n_kept;
    bool failed; /* a weight could not be bound, *err says why */
};

/* How many kernels an op of t->of is tried as; 0: it is tried within others, or the CPU's
 * alone. */
uint32_t trial_kernels(const struct op *op);

/* What an op is tried as: ops with the same key take the same kernels. */
struct trial_key {
    uint32_t words[TRIAL_KEY_WORDS];
};
struct trial_key trial_key(const struct program *p, const struct op *op, uint32_t i);

/* Makes t->p the program of kernel i of op, one of t->of's. Returns its result, which are the
 * logits too. */
struct ref trial_build(struct trial *t, const struct op *op, uint32_t i);
/* After the backend was reset. */
void trial_free(struct trial *t);

#endif
