/* Families whose attention and feed-forward read the same row, behind one norm. */
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

/* Experts behind dense layers, which rotate even if they see everything; of every four layers
 * the first does. A file that says the epsilon of RMS norms has these. */
static bool read_cohere2moe(struct hparams *hp, struct err *err)
{
    uint32_t n_shared = 0;
    double logit = 1, rms = 0;
    hp->route = ROUTE_SIGMOID;
    hp->route_as_is = true;
    if (!hparams_f64(hp, "attention.layer_norm_rms_epsilon", 0, 1, false, &rms, err) ||
        !hparams_f64(hp, "logit_scale", 1e-6, 1e6, true, &logit, err) ||
        !hparams_need_experts(hp, err) || !hparams_route(hp, err) ||
        !hparams_windows_behind(hp, 4, err) ||
        !hparams_u32(hp, "expert_shared_count", 0, MAX_EXPERTS, false, &n_shared, err))
        return false;
    hp->centred = rms == 0;
    hp->logit_scale = (float)logit;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = hp->layers[i].window > 0 || i < hp->n_layer_dense;
    if (n_shared > 0 &&
        (!hparams_shared_count(hp, err) || !hparams_shared_expert(hp, hp->n_ff_shared, err)))
        return false;
    return hparams_drop_next(hp, err);
}

/* Where there is an expert for all rows, it and those that are routed count half. */
static float share_of_experts(const struct hparams *hp, uint32_t layer)
{
    return hp->n_ff_shared > 0 && layer >= hp->n_layer_dense ? 0.5f : 1.0f;
}

static void layer_command_r(struct builder *b, uint32_t layer, struct ref x)
{
    block_parallel_layer(b, layer, x, "attn_norm.weight", NULL,
                         &(struct attention){.pairs = ROPE_NORM, .layer_norm_if = true});
}

/* Behind an RMS norm. */
static void layer_plamo(struct builder *b, uint32_t layer, struct ref x)
{
    block_parallel_layer(b, layer, x, "attn_norm.weight", NULL,
                         &(struct attention){.pairs = ROPE_NEOX});
}

/* Attention comes first, for behind it rows without logits end. */
static void layer_cohere2moe(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x), attended = build_rows(b, "attended", x.n);
    block_attention(b, layer, h, attended, &(struct attention){.pairs = ROPE_NORM});
    block_feedforward(b, layer, h, h);
    build_add(b, x, attended, 1, x);
    build_add(b, x, h, share_of_experts(b->hp, layer), x);
}

const struct family families_parallel[] = {
    {"cohere2", read_cohere2, layer_command_r},
    {"cohere2moe", read_cohere2moe, layer_cohere2moe},
    {"command-r", read_command_r, layer_command_r},
    {"plamo", NULL, layer_plamo},
    {NULL, NULL, NULL},
};
