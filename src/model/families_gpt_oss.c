/* gpt-oss: attention sinks, a window in every other layer, experts with biases. */
#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

static bool read_gpt_oss(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_CLAMPED;
    hp->ffn_norm = "post_attention_norm.weight";
    return hparams_need_experts(hp, err) && hparams_windows(hp, 2, err);
}

/* As Ollama's converter writes it, which says nothing of YaRN and names the norm as others do
 * (other_names.h has the rest). */
static bool read_gptoss(struct hparams *hp, struct err *err)
{
    if (!read_gpt_oss(hp, err)) return false;
    if (!gguf_find(hp->g, "gptoss.rope.scaling.type")) hp->scaling = SCALING_YARN;
    hp->ffn_norm = "ffn_norm.weight";
    return true;
}

static void layer_gpt_oss(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .sinks = true});
}

const struct family families_gpt_oss[] = {
    {"gpt-oss", read_gpt_oss, layer_gpt_oss},
    {"gptoss", read_gptoss, layer_gpt_oss},
    {NULL, NULL, NULL},
};
