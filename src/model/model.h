/* A model: hyperparameters, bound weights and the program that computes its logits.
 *
 * Immutable after model_open, so any thread may read it. It is owned by the engine; its weights
 * belong to the backend that bound them and its names borrow from the GGUF, so close the model
 * first, then the backend, then the file. It runs nothing itself (backend.h does) and knows no
 * conversation, tokenizer or device. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"
#include "model/adapter.h"

struct backend;
struct gguf;
struct model;

struct model_params {
    enum kv_type kv_type;
    /* --ctx: tokens; 0: the model's own, as far as hearth can do what the model does. Some rope
     * scalings follow it. */
    uint32_t n_ctx;
    struct adapter adapter; /* of the file (adapter_open) */
};

/* Called on the opening thread while weights are bound. */
struct model_progress {
    void (*report)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *user;
};

/* What a model takes, known before anything is loaded. */
struct model_sizes {
    size_t n_vocab;         /* of its logits: tokens, or more */
    uint64_t weights_bytes; /* of memory, once bound; the mapped file where read in place */
    uint64_t kv_bytes_per_token;     /* of the layers that see everything before them */
    uint64_t window_bytes_per_token; /* of the others, while a window looks back on it */
    uint32_t window;                 /* 0: there are none */
    uint64_t window_rows; /* that a sequence of any length keeps for those, at most */
    uint64_t state_bytes; /* of recurrent layers; 0: there are none */
    uint64_t exec_bytes;  /* of an exec for steps of max_rows, and of recurrent states */
};

/* The context of a model, known before anything is loaded. */
struct model_context {
    uint32_t n;      /* tokens: params.n_ctx; if that is 0, as many as it can have here */
    uint32_t n_file; /* context_length of the file */
    /* It can have fewer than the file's, for beyond "this model" does what hearth cannot;
     * static. NULL: it can have all. */
    const char *beyond;
};

/* What two models take together; the window is a's, the rows are those of the one that keeps
 * more. */
struct model_sizes model_sizes_sum(struct model_sizes a, const struct model_sizes *b);

/* What a sequence of up to n_ctx tokens needs from its beginning on: exec_bytes, and room for
 * the windowed rows it keeps. */
uint64_t model_scratch_bytes(const struct model_sizes *s, uint32_t n_ctx);
/* All that it and the weights take, once it has n_ctx tokens. */
uint64_t model_bytes(const struct model_sizes *s, uint32_t n_ctx);

/* Checks the whole file against its family (keys, tensors, types, shapes), then binds the
 * weights to be. progress and cancel may be NULL; cancel is polled between tensors. NULL with
 * err: an unknown family or more tokens than it can have here (ERR_USER), keys or tensors that
 * are missing or odd (ERR_FORMAT, each named), no memory, ERR_CANCELLED. Weights bound until
 * then go with the backend. */
struct model *model_open(const struct gguf *g, struct backend *be,
                         const struct model_params *params,
                         const struct model_progress *progress, const atomic_bool *cancel,
                         struct err *err);
void model_close(struct model *m); /* NULL is fine */

/* Makes all checks of model_open and states the sizes, but binds nothing. be may be NULL: then
 * weights are counted as they lie in the file and scratch as 0. */
bool model_estimate(const struct gguf *g, const struct backend *be,
                    const struct model_params *params, uint32_t max_rows,
                    struct model_sizes *out, struct err *err);

/* The context that model_open gives the model, after its checks of keys; tensors it does not
 * look at. */
bool model_context(const struct gguf *g, const struct model_params *params,
                   struct model_context *out, struct err *err);

/* What model_estimate states, of a program whose weights are stand-ins, as of a part of a
 * model. */
void model_program_sizes(const struct program *p, const struct backend *be, uint32_t max_rows,
                         struct model_sizes *out);

/* Builds the program without binding anything and shows it: its weights have types and shapes
 * only, and go when the call returns. False: it could not be built, or look was false. */
typedef bool model_look_fn(void *user, const struct program *p, struct err *err);
bool model_outline(const struct gguf *g, const struct model_params *params, model_look_fn *look,
                   void *user, struct err *err);

const struct program *model_program(const struct model *m);
const char *model_family(const struct model *m); /* "qwen3"; static */
uint32_t model_n_vocab(const struct model *m);
uint32_t model_n_layer(const struct model *m);
uint32_t model_n_ctx_train(const struct model *m); /* context_length of the file */
uint32_t model_n_ctx(const struct model *m);       /* model_context's n */
/* File bytes of the weights that one decoded token reads, each counted once; of experts, those
 * used. */
uint64_t model_token_bytes(const struct model *m);
/* Bytes of K and V that a token at position pos reads. */
uint64_t model_kv_read_bytes(const struct model *m, uint32_t pos);

/* The i-th family that hearth runs ("llama"), NULL past the last; static. */
const char *model_family_at(size_t i);

#endif
