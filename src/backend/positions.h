/* The tables of a step's positions, made on the host whatever computes the step: arithmetic in
 * double, the same on every machine. Pure, any thread. */
#ifndef BACKEND_POSITIONS_H
#define BACKEND_POSITIONS_H

#include <stddef.h>

#include "backend/ops.h"

/* The rotation of a position: the cosines of all pairs, then the sines, n_rot floats in all. */
void positions_rope(const struct rope *rope, size_t pos, float *cos_sin);

/* The factor of the row at a position. */
float positions_factor(const struct row_scale *s, size_t pos);

#endif
