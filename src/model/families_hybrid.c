/* Families with recurrent layers beside attention. */
#include "model/blocks.h"
#include "model/families.h"

/* ---- qwen35, qwen35moe, qwen3next: gated delta net, every few layers gated attention ---- */

static bool read_qwen35(struct hparams *hp, struct err *err)
{
    uint32_t interval = 4;
    const bool with_experts = hp->n_expert > 0;
    if (!hparams_ssm(hp, err) || !hparams_rope_sections(hp, &hp->has_rope_sections, err) ||
        !hparams_u32(hp, "full_attention_interval", 1, MAX_LAYERS, false, &interval, err) ||
        !hparams_u32(hp, "expert_shared_feed_forward_length", with_experts, MAX_WIDTH,
                     with_experts, &hp->n_ff_shared, err))
        return false;
    hp->shared_gated = true;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        hp->layers[i].recurrent = (i + 1) % interval != 0;
        if (!hparams_layer_bool(hp, "attention.recurrent_layers", i, &hp->layers[i].recurrent,
                                err))
            return false;
    }
    return hparams_drop_next(hp, err);
}

static void layer_qwen35_by(struct builder *b, uint32_t layer, struct ref x, bool tiled)
{
    struct ref h = build_rows(b, "h", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    if (b->hp->layers[layer].recurrent)
        block_delta_net(b, layer, h, h, &(struct recurrent){.tiled = tiled});
    else
        block_attention(
            b, layer, h, h,
            &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .gated = true});
    build_add(b, x, h, 1, x);
    build_norm(b, x, layer_vector(b, layer, "post_attention_norm.weight", x.n), 0, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

static void layer_qwen35(struct builder *b, uint32_t layer, struct ref x)
{
    layer_qwen35_by(b, layer, x, true);
}

static void layer_qwen3next(struct builder *b, uint32_t layer, struct ref x)
{
    layer_qwen35_by(b, layer, x, false);
}

/* ---- granitehybrid: Mamba-2, some layers attention ---- */

static bool read_granitehybrid(struct hparams *hp, struct err *err)
{
    bool rope = true;
    double embed = 1, residual = 1, logit = 1, attention = 0;
    if (!hparams_ssm(hp, err) || !hparams_bool(hp, "rope.scaling.finetuned", &rope, err) ||
        !hparams_u32(hp, "expert_shared_feed_forward_length", 0, MAX_WIDTH, false,
                     &hp->n_ff_shared, err) ||
        !hparams_f64(hp, "embedding_scale", 1e-6, 1e6, false, &embed, err) ||
        !hparams_f64(hp, "residual_scale", 1e-6, 1e6, false, &residual, err) ||
        !hparams_f64(hp, "logit_scale", 1e-6, 1e6, false, &logit, err) ||
        !hparams_f64(hp, "attention.scale", 0, 1e6, false, &attention, err))
        return false;
    hp->embed_scale = (float)embed;
    hp->residual_scale = (float)residual;
    hp->logit_scale = (float)(1.0 / logit);
    if (attention > 0) hp->attn_scale = (float)attention;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        hp->layers[i].rope = rope;
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
    }
    return true;
}

static void layer_granitehybrid(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    struct ref h = build_rows(b, "h", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    if (hp->layers[layer].recurrent)
        block_mamba2(b, layer, h, h, &(struct recurrent){0});
    else
        block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NORM});
    build_add(b, x, h, hp->residual_scale, x);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, h, hp->residual_scale, x);
}

/* ---- falcon-h1: Mamba-2 and attention side by side in every layer ---- */

static bool read_falcon_h1(struct hparams *hp, struct err *err)
{
    return hparams_ssm(hp, err);
}

static void layer_falcon_h1(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n), side = build_rows(b, "side", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    block_mamba2(b, layer, h, side, &(struct recurrent){.attention_next = true});
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NEOX});
    build_add(b, h, side, 1, h);
    build_add(b, x, h, 1, x);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm", x.n), 0, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

/* ---- lfm2, lfm2moe: short convolutions, some layers attention ---- */

static bool read_lfm2(struct hparams *hp, struct err *err)
{
    if (!hparams_u32(hp, "shortconv.l_cache", 2, 64, true, &hp->ssm.n_taps, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
    hp->output_norm = "token_embd_norm.weight";
    return true;
}

static bool read_lfm2moe(struct hparams *hp, struct err *err)
{
    uint32_t gating = 2; /* sigmoid */
    hp->route = ROUTE_SIGMOID;
    return read_lfm2(hp, err) &&
           hparams_u32(hp, "expert_gating_func", 2, 2, false, &gating, err) &&
           hparams_u32(hp, "leading_dense_block_count", 0, hp->n_layer, false,
                       &hp->n_layer_dense, err);
}

static void layer_lfm2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    if (b->hp->layers[layer].recurrent)
        block_short_conv(b, layer, h, h);
    else
        block_attention(b, layer, h, h,
                        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true});
    build_add(b, x, h, 1, x);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

const struct family families_hybrid[] = {
    {"falcon-h1", read_falcon_h1, layer_falcon_h1},
    {"granitehybrid", read_granitehybrid, layer_granitehybrid},
    {"lfm2", read_lfm2, layer_lfm2},
    {"lfm2moe", read_lfm2moe, layer_lfm2},
    {"qwen35", read_qwen35, layer_qwen35},
    {"qwen35moe", read_qwen35, layer_qwen35},
    {"qwen3next", read_qwen35, layer_qwen3next},
    {NULL, NULL, NULL},
};
