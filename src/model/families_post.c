/* Families that norm what a block gives before they add it. */
#include <math.h>

#include "model/blocks.h"
#include "model/families.h"

/* h = norm(h), x += h. */
static void add_normed(struct builder *b, uint32_t layer, struct ref x, struct ref h,
                       const char *norm)
{
    build_norm(b, h, layer_vector(b, layer, norm, x.n), 0, h);
    build_add(b, x, h, 1, x);
}

/* Norms before each block, too. */
static void sandwich_layer(struct builder *b, uint32_t layer, struct ref x,
                           const struct attention *a, bool gate_in_up)
{
    struct ref h = build_rows(b, "h", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    block_attention(b, layer, h, h, a);
    add_normed(b, layer, x, h, "post_attention_norm.weight");
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_feedforward(b, layer, h, h, gate_in_up);
    add_normed(b, layer, x, h, "post_ffw_norm.weight");
}

static bool read_gemma3(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    /* The one of 62 layers divides scores by another root. */
    if (hp->n_layer == 62)
        hp->attn_scale = (float)(1.0 / sqrt((double)hp->n_embd / hp->layers[0].n_head));
    return hparams_windows(hp, 6, err) && hparams_local_rope(hp, hp->n_rot, 10000.0, err) &&
           hparams_softcap(hp, err);
}

static void layer_gemma3(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true},
                   false);
}

static void layer_glm4(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(b, layer, x, &(struct attention){.pairs = ROPE_NORM}, true);
}

/* A file with windows is OLMo 3: there YaRN is for the layers that see everything alone. */
static bool read_olmo2(struct hparams *hp, struct err *err)
{
    bool windows = false;
    if (!hparams_has_windows(hp, &windows, err)) return false;
    return !windows || (hparams_windows(hp, 4, err) &&
                        hparams_local_rope(hp, hp->n_rot, hp->rope_base, err));
}

static void layer_olmo2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n);
    block_attention(b, layer, x, h,
                    &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .norm_all = true});
    add_normed(b, layer, x, h, "post_attention_norm.weight");
    block_feedforward(b, layer, x, h, false);
    add_normed(b, layer, x, h, "post_ffw_norm.weight");
}

const struct family families_post[] = {
    {"gemma3", read_gemma3, layer_gemma3},
    {"glm4", NULL, layer_glm4},
    {"olmo2", read_olmo2, layer_olmo2},
    {NULL, NULL, NULL},
};
