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

/* Attention comes first, for behind it rows without logits end. */
static void layer_command_r(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x), attended = build_rows(b, "attended", x.n);
    block_attention(b, layer, h, attended, &(struct attention){.pairs = ROPE_NORM});
    block_feedforward(b, layer, h, h);
    build_add(b, x, attended, 1, x);
    build_add(b, x, h, 1, x);
}

const struct family families_parallel[] = {
    {"cohere2", read_cohere2, layer_command_r},
    {"command-r", read_command_r, layer_command_r},
    {NULL, NULL, NULL},
};
