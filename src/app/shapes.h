/* Shapes of models for benchmarks and tests: the keys and tensors that a file of a family and
 * size has, with no weights in them. Pure data; nothing here knows how a model computes. */
#ifndef APP_SHAPES_H
#define APP_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum shape_family {
    SHAPE_LLAMA,
    SHAPE_QWEN2,
    SHAPE_QWEN3,
    SHAPE_QWEN35,
    SHAPE_GEMMA2,
    SHAPE_GEMMA3,
    SHAPE_GPT_OSS,
    SHAPE_OLMO2,
    SHAPE_GLM4,
    SHAPE_MAMBA2,
    SHAPE_MAMBA,
    SHAPE_GPT2,
};

struct shape {
    uint32_t family; /* enum shape_family */
    uint32_t n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff, n_vocab, n_ctx;
    uint32_t n_expert, n_expert_used;        /* 0: dense */
    uint32_t window;                         /* sliding window of gemma2, gemma3 and gpt-oss */
    uint32_t ssm_heads, ssm_groups, ssm_dim; /* value heads, key heads, head size of qwen35;
                                                heads, groups, state size of mamba2;
                                                state size of mamba */
    uint32_t rope_base;
};

/* What a tensor is for: decides its weight type and its values. */
enum shape_role {
    SHAPE_NORM,     /* F32, about 1 */
    SHAPE_BIAS,     /* F32, about 0 */
    SHAPE_DECAY,    /* F32, about -1 */
    SHAPE_F32,      /* a matrix that files keep as F32 */
    SHAPE_EMBED,    /* token embedding, also the head */
    SHAPE_MATRIX,   /* any other matrix */
    SHAPE_V,        /* attention values */
    SHAPE_ATTN_OUT, /* attention output */
    SHAPE_DOWN,     /* feed-forward down */
};

struct shape_tensor {
    char name[64];
    enum shape_role role;
    bool experts; /* one matrix per expert */
    uint32_t layer;
    uint32_t n_dims;
    size_t ne[4];
};

/* Reads a preset's name, KEY=VALUE,... or a preset followed by changes of it
 * ("qwen3-0.6b,n_layer=4"). Errors name the word and list what there is. */
bool shape_parse(const char *spec, struct shape *out, struct err *err);
/* The i-th preset's name, NULL past the end. */
const char *shape_preset(size_t i);
/* general.architecture of the shape. */
const char *shape_architecture(const struct shape *s);
/* Of how many values mamba makes its steps: a sixteenth of a row, as published models do. */
uint32_t shape_mamba_step(const struct shape *s);
/* All tensors in file order; free() it. */
struct shape_tensor *shape_tensors(const struct shape *s, size_t *n);

#endif
