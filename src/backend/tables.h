/* The tables that rows are read of by token or by position (OP_EMBED): whether a step stays
 * within them. For backends, which read without looking. Pure, any thread. */
#ifndef BACKEND_TABLES_H
#define BACKEND_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"

struct step;

/* Whether the first n_tokens tokens of a step, and all of its positions, have rows in every
 * table of p that they are read of. ERR_USER with the first that has none. */
bool tables_have(const struct program *p, const struct step *step, uint32_t n_tokens,
                 struct err *err);

#endif
