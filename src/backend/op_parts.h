/* What an op points at: the rows it reads and writes, the weights it is bound to. For whoever
 * follows rows through a program or moves an op to another one.
 *
 * Pure, any thread; it knows where an op keeps its operands, not what it does with them. */
#ifndef BACKEND_OP_PARTS_H
#define BACKEND_OP_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/ops.h"

/* Values of a row that an op reads, writes, or both (in place: reads, then writes). */
struct op_ref {
    struct ref *ref; /* within the op; n > 0 */
    bool reads, writes;
};

enum { OP_MOST_REFS = 6, OP_MOST_WEIGHTS = 9 };

/* All of them, each once; returns how many. */
size_t op_refs(struct op *op, struct op_ref out[OP_MOST_REFS]);
/* Where the op keeps its weights, those that are NULL left out; returns how many. */
size_t op_weights(struct op *op, const struct weight **out[OP_MOST_WEIGHTS]);
/* Where it keeps the index of its KV layer, and of its part of the state; NULL: it has none. */
uint32_t *op_kv_index(struct op *op);
uint32_t *op_state_index(struct op *op);

#endif
