/* Granite and MiniCPM: numbers that multiply embeddings, scores and what layers add and divide
 * the logits; with experts; some layers Mamba-2 (granitehybrid). */
#include <math.h>

#include "model/blocks.h"
#include "model/families.h"

static bool read_scales(struct hparams *hp, struct err *err)
{
    double embed = hp->embed_scale, residual = hp->residual_scale, attention = 0;
    double logit = 1.0 / hp->logit_scale;
    if (!hparams_f64(hp, "embedding_scale", 1e-6, 1e6, false, &embed, err) ||
        !hparams_f64(hp, "residual_scale", 1e-6, 1e6, false, &residual, err) ||
        !hparams_f64(hp, "logit_scale", 1e-6, 1e6, false, &logit, err) ||
        !hparams_f64(hp, "attention.scale", 0, 1e6, false, &attention, err))
        return false;
    hp->embed_scale = (float)embed;
    hp->residual_scale = (float)residual;
    hp->logit_scale = (float)(1.0 / logit);
    if (attention > 0) hp->attn_scale = (float)attention;
    return true;
}

static bool read_granite(struct hparams *hp, struct err *err)
{
    bool rope = true;
    if (!read_scales(hp, err) || !hparams_bool(hp, "rope.scaling.finetuned", &rope, err) ||
        !hparams_shared_expert(hp, 0, err))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = rope;
    return true;
}

/* Some layers see a window, some do not rotate; all have sinks. Gate and up of the expert for
 * all rows are one matrix. */
static bool read_granite_swa(struct hparams *hp, struct err *err)
{
    hp->shared_in_up = true;
    if (!read_scales(hp, err) || !hparams_shared_expert(hp, 0, err) ||
        !hparams_windows(hp, 0, err))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (!hparams_layer_bool(hp, "attention.rope_pattern", i, &hp->layers[i].rope, err))
            return false;
    return true;
}

static void layer_granite_swa(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NORM, .sinks = true});
}

/* The first files do not name what all models of the kind had. */
static bool read_minicpm(struct hparams *hp, struct err *err)
{
    hp->embed_scale = 12;
    hp->residual_scale = (float)(1.4 / sqrt(hp->n_layer));
    hp->logit_scale = (float)(256.0 / hp->n_embd);
    return read_scales(hp, err);
}

static bool read_granitehybrid(struct hparams *hp, struct err *err)
{
    if (!hparams_ssm(hp, err) || !read_granite(hp, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
    return true;
}

static void layer_granitehybrid(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    if (b->hp->layers[layer].recurrent)
        block_mamba2(b, layer, h, h, &(struct recurrent){0});
    else
        block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NORM});
    block_end(b, layer, x, h);
}

const struct family families_granite[] = {
    {"granite", read_granite, layer_llama},
    {"granite_swa", read_granite_swa, layer_granite_swa},
    {"granitehybrid", read_granitehybrid, layer_granitehybrid},
    {"granitemoe", read_granite, layer_llama},
    {"minicpm", read_minicpm, layer_llama},
    {NULL, NULL, NULL},
};
