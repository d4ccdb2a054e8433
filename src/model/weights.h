/* Weights: tensors of a GGUF file, checked for type and shape and bound to a backend.
 *
 * A struct weights lives while a program is built. Without a backend it checks and counts only
 * and hands out stand-ins with type and shape, so that a file is known to be whole before its
 * first byte is loaded. The first error sticks: later calls return NULL and change nothing, so
 * that a family's code need not look at each result. One thread. */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct gguf;
struct weight;

struct weights {
    const struct gguf *g;
    struct backend *be;        /* NULL: check and count only */
    const atomic_bool *cancel; /* NULL: never */
    void (*report)(void *user, uint64_t done_bytes, uint64_t total_bytes); /* NULL: silent */
    void *user;
    uint64_t total_bytes; /* for report: file bytes of all tensors that will be bound */

    /* [tensors of the file]: what each was bound as, or NULL */
    const struct weight **of_tensor;
    struct weight **stand_ins; /* [n_stand_ins], owned */
    size_t n_stand_ins, cap_stand_ins;
    bool *used;           /* [tensors of the file] */
    size_t *read;         /* [tensors of the file]: bytes that one token reads of each */
    uint64_t file_bytes;  /* of what was bound */
    uint64_t token_bytes; /* file bytes one token reads: the sum of read */
    bool failed;
    struct err *err;
};

/* g, be, cancel and err are borrowed until weights_free. */
void weights_init(struct weights *ws, const struct gguf *g, struct backend *be,
                  struct err *err);
void weights_free(struct weights *ws);

/* Whether the file has the tensor. */
bool weights_has(const struct weights *ws, const char *name);
/* ne[i] of a tensor, 0 if there is no such tensor. */
size_t weights_dim(const struct weights *ws, const char *name, unsigned i);

/* The tensor as a matrix [n_rows][n_cols] (ne = {n_cols, n_rows}) of any type. The same name
 * again gives the same weight. */
const struct weight *weights_matrix(struct weights *ws, const char *name, size_t n_rows,
                                    size_t n_cols);
/* The same for an embedding, of which a token reads one row. */
const struct weight *weights_table(struct weights *ws, const char *name, size_t n_rows,
                                   size_t n_cols);
/* n_parts matrices each for n_experts (ne = {n_cols, n_parts · n_rows, n_experts}), of which a
 * token reads n_used. */
const struct weight *weights_experts(struct weights *ws, const char *name, size_t n_experts,
                                     size_t n_used, size_t n_parts, size_t n_rows,
                                     size_t n_cols);
/* n values in F32 for each of n_experts (ne = {n, n_experts}), as one vector. */
const struct weight *weights_expert_vectors(struct weights *ws, const char *name,
                                            size_t n_experts, size_t n_used, size_t n);
/* n values in F32. */
const struct weight *weights_vector(struct weights *ws, const char *name, size_t n);
/* n factors of the quantised matrix w, if the file has such a tensor: of NVFP4 what scales of
 * blocks count in. NULL: it has none, or w is of floats, or of another number of them, and the
 * tensor stays unused. */
const struct weight *weights_factors_if(struct weights *ws, const char *name,
                                        const struct weight *w, size_t n);
/* n_rows · n_cols values in F32 (ne = {n_cols, n_rows}) as one vector: row after row or, if
 * transposed, column after column. */
const struct weight *weights_flat(struct weights *ws, const char *name, size_t n_rows,
                                  size_t n_cols, bool transposed);
/* n values in F32 (ne = {1, n}), each `times` times in a row, as one vector. */
const struct weight *weights_repeated(struct weights *ws, const char *name, size_t n,
                                      size_t times);
/* n equal values that no file has. */
const struct weight *weights_constant(struct weights *ws, size_t n, float value);
/* n values that no file has, copied. */
const struct weight *weights_given(struct weights *ws, size_t n, const float *values);
/* A vector of n values if the file has it, else NULL. */
const struct weight *weights_vector_if(struct weights *ws, const char *name, size_t n);
/* n values in F32 for the host (rope factors), copied to out; they are not bound. */
bool weights_values(struct weights *ws, const char *name, size_t n, float *out);

/* The two matrices of an adapter for a matrix that was bound from the file, A [rank][n_cols]
 * and B [n_rows][rank]. Returns the rank; 0: there are none. */
size_t weights_adapter(struct weights *ws, const struct weight *w, const struct weight **a,
                       const struct weight **b);

/* Whether products with it read A8 rows; NULL does not. */
bool weight_quantised(const struct weight *w);

/* Says that the tensor, which may be there, does not matter. */
void weights_ignore(struct weights *ws, const char *name);
/* Refuses tensors nobody asked for that would change the result: any of a layer below n_layer,
 * and biases and norms outside the layers. Others (vision, extra heads, layers beyond) are of
 * no concern. */
bool weights_all_used(struct weights *ws, uint32_t n_layer, const char *family);

/* Records the first error; always false. */
bool weights_fail(struct weights *ws, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
