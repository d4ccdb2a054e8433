/* Whether a backend that takes blocks of drafts makes of them what the host makes step by step:
 * a part of trial.h's self-test.
 *
 * A few blocks in a row on made-up logits from a fixed seed, by a draft that knows fewer
 * tokens, with penalties whose window drafts fill, and leave again. It knows no device and no
 * model. The threads are trial.h's. */
#ifndef BACKEND_TRIAL_BLOCK_H
#define BACKEND_TRIAL_BLOCK_H

#include <stdbool.h>

#include "base/err.h"

struct backend;

/* True at once for a backend that takes none. All weights that it had are lost (backend_reset).
 * ERR_DEVICE names the backend. */
bool trial_blocks(struct backend *be, struct err *err);

#endif
