/* Whether a backend that draws gives the ids of draw_host: a part of trial.h's self-test.
 *
 * A few requests that between them take every stage of a draw, on made-up logits from a fixed
 * seed. It knows no device and no model. The threads are trial.h's. */
#ifndef BACKEND_TRIAL_DRAW_H
#define BACKEND_TRIAL_DRAW_H

#include <stdbool.h>

#include "base/err.h"

struct backend;

/* True at once for a backend that does not draw. All weights that it had are lost
 * (backend_reset). ERR_DEVICE names the backend and what was drawn. */
bool trial_draws(struct backend *be, struct err *err);

#endif
