/* Families with recurrent layers beside attention. */
#include <stdio.h>

#include "gguf/gguf.h"
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
    hp->ffn_norm = "post_attention_norm.weight";
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
    struct ref h = block_begin(b, layer, x);
    if (b->hp->layers[layer].recurrent)
        block_delta_net(b, layer, h, h, &(struct recurrent){.tiled = tiled});
    else
        block_attention(
            b, layer, h, h,
            &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .gates = GATES_IN_Q});
    block_end(b, layer, x, h);
}

static void layer_qwen35(struct builder *b, uint32_t layer, struct ref x)
{
    layer_qwen35_by(b, layer, x, true);
}

static void layer_qwen3next(struct builder *b, uint32_t layer, struct ref x)
{
    layer_qwen35_by(b, layer, x, false);
}

/* ---- falcon-h1: Mamba-2 and attention side by side in every layer ---- */

static bool read_falcon_h1(struct hparams *hp, struct err *err)
{
    hp->ffn_norm = "ffn_norm";
    return hparams_ssm(hp, err);
}

static void layer_falcon_h1(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x), side = build_rows(b, "side", x.n);
    block_mamba2(b, layer, h, side, &(struct recurrent){.attention_next = true});
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NEOX});
    build_add(b, h, side, 1, h);
    block_end(b, layer, x, h);
}

/* ---- jamba: Mamba-1, some layers attention that does not rotate; some have experts ---- */

static bool read_jamba(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    hp->ssm.normed = true;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        char name[64];
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", i);
        l->dense = !gguf_tensor_find(hp->g, name);
        l->recurrent = l->n_head_kv == 0;
        l->rope = false;
    }
    return hparams_ssm1(hp, err);
}

static void layer_jamba(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    if (b->hp->layers[layer].recurrent)
        block_mamba(b, layer, h, h);
    else
        block_attention(b, layer, h, h, &(struct attention){0});
    block_end(b, layer, x, h);
}

/* ---- lfm2, lfm2moe: short convolutions, some layers attention ---- */

static bool read_lfm2(struct hparams *hp, struct err *err)
{
    if (!hparams_u32(hp, "shortconv.l_cache", 2, 64, true, &hp->ssm.n_taps, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
    /* Files that Ollama made have it under the usual name. */
    if (gguf_tensor_find(hp->g, "token_embd_norm.weight"))
        hp->output_norm = "token_embd_norm.weight";
    return true;
}

static bool read_lfm2moe(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    return read_lfm2(hp, err) && hparams_route(hp, err);
}

static void layer_lfm2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    if (b->hp->layers[layer].recurrent)
        block_short_conv(b, layer, h, h);
    else
        block_attention(b, layer, h, h,
                        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true});
    block_end(b, layer, x, h);
}

/* ---- minimax-01: lightning attention, every few layers attention; what attention and
 * feed-forward are added to is the norm that they read ---- */

static bool read_minimax_01(struct hparams *hp, struct err *err)
{
    uint32_t interval = 8;
    double scale = 1;
    if (!hparams_need_experts(hp, err) ||
        !hparams_f64(hp, "residual_scale", 1e-3, 1e3, true, &scale, err) ||
        !hparams_u32(hp, "full_attention_interval", 1, MAX_LAYERS, false, &interval, err))
        return false;
    if (hp->expert_scale != 1.0f)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.expert_weights_scale is %g, but hearth's %s has weights "
                       "that add up to 1",
                       gguf_path(hp->g), hp->arch, (double)hp->expert_scale, hp->arch);
    hp->residual_scale = (float)scale;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->recurrent = (i + 1) % interval != 0;
        if (!hparams_layer_bool(hp, "attention.recurrent_layers", i, &l->recurrent, err))
            return false;
        if (l->head_dim_k != l->head_dim_v || l->n_head == 0)
            return err_set(
                err, ERR_FORMAT,
                "%s: layer %u has %u heads, with keys of %u and values of %u: %s has "
                "heads, and both are as long",
                gguf_path(hp->g), i, l->n_head, l->head_dim_k, l->head_dim_v, hp->arch);
    }
    return true;
}

static void layer_minimax_01(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    struct ref h = block_begin(b, layer, x), out = build_rows(b, "attended", x.n);
    if (hp->layers[layer].recurrent)
        block_lightning(b, layer, h, out);
    else
        block_attention(b, layer, h, out, &(struct attention){.pairs = ROPE_NEOX});
    build_add(b, out, h, hp->residual_scale, x);
    layer_norm(b, layer, hp->ffn_norm, x, h);
    block_feedforward(b, layer, h, out);
    build_add(b, out, h, hp->residual_scale, x);
}

/* ---- nemotron_h: each layer is Mamba-2, attention or a feed-forward of squares ---- */

static bool read_nemotron_h(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_RELU;
    hp->gate = GATE_IS_UP;
    hp->route = ROUTE_SIGMOID;
    if (!hparams_ssm(hp, err) || !hparams_route(hp, err) ||
        !hparams_shared_expert(hp, 0, err) ||
        !hparams_u32(hp, "moe_latent_size", 0, MAX_WIDTH, false, &hp->n_ff_narrow, err) ||
        !hparams_drop_next(hp, err))
        return false;
    hp->n_layer_kv = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->rope = false;
        l->recurrent = l->n_ff == 0 && l->n_head_kv == 0;
        if (l->n_ff == 0) hp->n_layer_kv = i + 1;
    }
    return true;
}

static void layer_nemotron_h(struct builder *b, uint32_t layer, struct ref x)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    struct ref h = block_begin(b, layer, x);
    if (l->recurrent)
        block_mamba2(b, layer, h, h, &(struct recurrent){0});
    else if (l->n_ff == 0)
        block_attention(b, layer, h, h, &(struct attention){0});
    else
        block_feedforward(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

const struct family families_hybrid[] = {
    {"falcon-h1", read_falcon_h1, layer_falcon_h1},
    {"jamba", read_jamba, layer_jamba},
    {"lfm2", read_lfm2, layer_lfm2},
    {"lfm2moe", read_lfm2moe, layer_lfm2},
    {"minimax-01", read_minimax_01, layer_minimax_01},
    {"nemotron_h", read_nemotron_h, layer_nemotron_h},
    {"nemotron_h_moe", read_nemotron_h, layer_nemotron_h},
    {"qwen35", read_qwen35, layer_qwen35},
    {"qwen35moe", read_qwen35, layer_qwen35},
    {"qwen3next", read_qwen35, layer_qwen3next},
    {NULL, NULL, NULL},
};
