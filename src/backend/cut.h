/* Cutting a program in two, for a model whose last layers run on another backend than its
 * first.
 *
 * The front is all that comes before a layer, the back that layer and all behind it. Rows that
 * the front wrote and the back reads are handed over as one row of floats (OP_OUTPUT,
 * OP_INPUT). The KV layers and states of a half are those that it stores: its page and its
 * state are the beginning of the whole's, or the rest. Pure, any thread; it knows ops, no
 * backend. */
#ifndef BACKEND_CUT_H
#define BACKEND_CUT_H

#include <stdint.h>

#include "backend/ops.h"

uint32_t program_n_layers(const struct program *p);

/* Where p can be cut: the last layer that is at most `layer` and may begin a back. None parts a
 * layer from keys and values that it shares, comes behind OP_HEAD_ROWS, or leaves rows of codes
 * to be handed over; and where the two parts of a page have the same size, their beginnings
 * have, too, so that the size tells how a page is cut. Layer 0 always can: then the front is
 * the embedding. */
uint32_t program_cut_at(const struct program *p, uint32_t layer);

enum { CUT_FRONT, CUT_BACK, CUT_SIDES };

/* The two programs that p becomes. They borrow its ropes, row scales and names. */
struct program_cut {
    struct program side[CUT_SIDES];
    struct op *ops[CUT_SIDES]; /* theirs, for who binds the halves apart (op_parts.h) */
};

/* Cuts in front of a layer that program_cut_at gives. */
void program_cut(const struct program *p, uint32_t layer, struct program_cut *out);
void program_cut_free(struct program_cut *cut); /* a zeroed one is fine */

#endif
