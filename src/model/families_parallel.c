/* Families whose attention and feed-forward read the same row, behind a LayerNorm. */
#include "model/blocks.h"
#include "model/families.h"

/* Logits are multiplied by what divides them in others. */
static bool read_command_r(struct hparams *hp, struct err *err)
{
    double logit = 1, eps = 0;
    hp->centred = true;
    if (!hparams_f64(hp, "logit_scale", 1e-6, 1e6, true, &logit, err) ||
        !hparams_f64(hp, "attention.layer_norm_epsilon", 1e-12, 1, true, &eps, err))
        return false;
    hp->logit_scale = (float)logit;
    hp->norm_eps = (float)eps;
    return true;
}

/* Every fourth layer sees everything and does not rotate. */
static bool read_cohere2(struct hparams *hp, struct err *err)
{
    if (!read_command_r(hp, err) || !hparams_windows(hp, 4, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = hp->layers[i].window > 0;
    return true;
}

static void layer_command_r(struct builder *b, uint32_t layer, struct ref x)
{
    block_parallel_layer(b, layer, x, "attn_norm.weight", NULL,
                         &(struct attention){.pairs = ROPE_NORM, .layer_norm_if = true});
}

const struct family families_parallel[] = {
    {"cohere2", read_cohere2, layer_command_r},
    {"command-r", read_command_r, layer_command_r},
    {NULL, NULL, NULL},
};
