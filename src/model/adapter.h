/* An adapter: matrices of low rank that change what a model's matrices make, as they come out
 * of fine-tuning (LoRA).
 *
 * For a matrix W of the model the adapter has A and B, and the product W x becomes
 * W x + scale · B (A x). The adapter's file is joined to the model's: its tensors are named
 * after the model's with .lora_a and .lora_b behind, and whatever asks for the content of the
 * model's files gets the adapter's, too. One thread, at open.
 *
 * Source: Hu et al. 2021, LoRA; keys and names as llama.cpp's converter writes them. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include <stdbool.h>

#include "base/err.h"

struct gguf;

/* What an adapter counts; {0}: there is none. */
struct adapter {
    float scale;
    bool by_rank; /* divided by the rank of each matrix */
};

/* Opens the model's file, as gguf_open does, and joins that of the adapter to it, unless path
 * is NULL or strength 0. strength: what the user wants of it, 1: all. ERR_USER: it is no
 * adapter, one of another kind, or for another model; ERR_FORMAT. */
struct gguf *adapter_open(const char *model, const char *path, float strength,
                          struct adapter *out, struct err *err);

#endif
