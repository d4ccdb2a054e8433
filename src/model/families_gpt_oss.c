/* gpt-oss: attention sinks, a window in every other layer, experts with biases. */
#include "model/blocks.h"
#include "model/families.h"

static bool read_gpt_oss(struct hparams *hp, struct err *err)
{
    uint32_t n_expert = 0;
    hp->glu = GLU_CLAMPED;
    return hparams_u32(hp, "expert_count", 1, MAX_EXPERTS, true, &n_expert, err) &&
           hparams_windows(hp, 2, err);
}

static void layer_gpt_oss(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NEOX, .sinks = true});
    build_add(b, x, h, 1, x);
    build_norm(b, x, layer_vector(b, layer, "post_attention_norm.weight", x.n), 0, h);
    block_experts(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

const struct family families_gpt_oss[] = {
    {"gpt-oss", read_gpt_oss, layer_gpt_oss},
    {NULL, NULL, NULL},
};
