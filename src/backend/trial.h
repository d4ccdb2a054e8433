/* Whether a backend gives the bits of another: for the self-test of a device before it is used.
 *
 * For each op of a program that takes another kernel, a small program of that op (with the same
 * types, head sizes and options, and few heads and rows) runs on both backends, on made-up data
 * from a fixed seed, in steps of several row counts, and every bit is compared; then draws and
 * blocks of drafts, if it makes them (trial_draw.h, trial_block.h). It knows ops, no device and
 * no model. One thread, which has both backends to itself. */
#ifndef BACKEND_TRIAL_H
#define BACKEND_TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct backend;
struct program;

/* p need not be bound: of its weights only types and shapes are read. Weights, pages and states
 * that both backends had are lost (backend_reset). *n_ops (may be NULL): kinds of op that were
 * compared. ERR_DEVICE names the backend, the op and the first value that differs;
 * ERR_CANCELLED once *cancel (may be NULL) is true. */
bool trial_program(struct backend *be, struct backend *reference, const struct program *p,
                   const atomic_bool *cancel, size_t *n_ops, struct err *err);

#endif
