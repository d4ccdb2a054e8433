/* The tables of model families. A row and small functions over the blocks (blocks.h) are all
 * that a family is; files of families share what is alike in their layers. */
#ifndef MODEL_FAMILIES_H
#define MODEL_FAMILIES_H

#include "model/program.h"

struct family {
    const char *name; /* general.architecture */
    /* Reads keys that only this family has or reads in its own way; NULL: none. */
    bool (*read)(struct hparams *hp, struct err *err);
    /* Adds the ops of one layer, from x to x. */
    void (*layer)(struct builder *b, uint32_t layer, struct ref x);
};

/* One list per file, each ending with a row without a name. */
extern const struct family families_plain[], families_delta[], families_experts[],
    families_latent[], families_parallel[], families_post[], families_gemma4[],
    families_gpt_oss[], families_granite[], families_hybrid[], families_hyper[],
    families_layernorm[], families_recurrent[];

/* The sizes of what families with latent attention make keys and values from, and of heads
 * (families_latent.c); which layers are recurrent is known then. */
bool hparams_latent(struct hparams *hp, struct err *err);

/* Layers of families in several files (families_plain.c): block_plain_layer with pairs of
 * neighbours; of halves; with biases of Q, K and V; with norms of their heads; with these norms
 * behind the rotation. */
void layer_llama(struct builder *b, uint32_t layer, struct ref x);
void layer_neox(struct builder *b, uint32_t layer, struct ref x);
void layer_qwen2(struct builder *b, uint32_t layer, struct ref x);
void layer_qwen3(struct builder *b, uint32_t layer, struct ref x);
void layer_hunyuan(struct builder *b, uint32_t layer, struct ref x);

/* Whether no layer of the family has attention: it is of families_recurrent. */
bool family_is_headless(const struct family *f);

/* The family a file names; ERR_USER with the name if there is none. */
const struct family *family_find(const struct gguf *g, struct err *err);

#endif
