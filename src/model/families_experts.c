/* Families whose layers are attention over everything before, then experts. */
#include "model/blocks.h"
#include "model/families.h"

/* The router's weights are a softmax over all experts, not over the chosen ones. */
static bool read_olmoe(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    return hparams_need_experts(hp, err);
}

static bool read_qwen2moe(struct hparams *hp, struct err *err)
{
    hp->shared_gated = true;
    return read_olmoe(hp, err) && hparams_shared_expert(hp, hp->layers[0].n_ff, err);
}

static bool read_hunyuan_moe(struct hparams *hp, struct err *err)
{
    return hparams_need_experts(hp, err) && hparams_shared_expert(hp, hp->layers[0].n_ff, err);
}

static bool read_minimax_m2(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    return hparams_need_experts(hp, err) && hparams_route(hp, err);
}

/* In files with other steps than 1 some layers between would be dense. */
static bool read_ernie_moe(struct hparams *hp, struct err *err)
{
    uint32_t step = 1;
    return hparams_need_experts(hp, err) && hparams_shared_expert(hp, 0, err) &&
           hparams_u32(hp, "interleave_moe_layer_step", 1, 1, false, &step, err) &&
           hparams_u32(hp, "leading_dense_block_count", 0, hp->n_layer, false,
                       &hp->n_layer_dense, err);
}

/* The experts for all rows may have a width of their own. */
static bool read_bailingmoe2(struct hparams *hp, struct err *err)
{
    uint32_t n_ff = hp->layers[hp->n_layer - 1].n_ff_exp;
    if (!read_minimax_m2(hp, err) || !hparams_shared_count(hp, err)) return false;
    const uint32_t n_shared = n_ff > 0 ? hp->n_ff_shared / n_ff : 0;
    if (n_shared > 0 && !hparams_u32(hp, "expert_shared_feed_forward_length", 1,
                                     MAX_WIDTH / n_shared, false, &n_ff, err))
        return false;
    hp->n_ff_shared = n_shared * n_ff;
    return hparams_drop_next(hp, err);
}

static bool read_dots1(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    return read_minimax_m2(hp, err) && hparams_shared_count(hp, err);
}

static bool read_glm4moe(struct hparams *hp, struct err *err)
{
    hp->ffn_norm = "post_attention_norm.weight";
    return read_minimax_m2(hp, err) && hparams_shared_count(hp, err) &&
           hparams_drop_next(hp, err);
}

static void layer_glm4moe(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .norm_if = true});
}

/* minimax-m2 and olmoe. */
static void layer_norm_all(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .norm_all = true});
}

const struct family families_experts[] = {
    {"bailingmoe2", read_bailingmoe2, layer_qwen3},
    {"dots1", read_dots1, layer_qwen3},
    {"ernie4_5-moe", read_ernie_moe, layer_llama},
    {"glm4moe", read_glm4moe, layer_glm4moe},
    {"hunyuan-moe", read_hunyuan_moe, layer_hunyuan},
    {"minimax-m2", read_minimax_m2, layer_norm_all},
    {"olmoe", read_olmoe, layer_norm_all},
    {"qwen2moe", read_qwen2moe, layer_qwen2},
    {"qwen3moe", hparams_need_experts, layer_qwen3},
    {"qwen3vlmoe", hparams_need_experts, layer_qwen3},
    {NULL, NULL, NULL},
};
