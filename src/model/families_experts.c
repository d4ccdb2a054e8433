/* Families whose layers are attention, in some of them over a window, then experts. */
#include "gguf/gguf.h"
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

/* All feed-forwards, the expert of all rows and the first dense ones too, have gpt-oss's
 * activation. */
static bool read_minimax_m3(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_CLAMPED;
    return read_minimax_m2(hp, err) && hparams_shared_count(hp, err) &&
           hparams_indexer(hp, err);
}

static void layer_minimax_m3(struct builder *b, uint32_t layer, struct ref x)
{
    layer_ignore_indexer(b, layer);
    layer_qwen3(b, layer, x);
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

/* Smaller experts beside the others, as wide as a head where the file does not say. */
static bool read_grovemoe(struct hparams *hp, struct err *err)
{
    double scale = 0;
    hp->adjugate.n_ff = hp->layers[0].head_dim_k;
    if (!hparams_need_experts(hp, err) ||
        !hparams_u32(hp, "experts_per_group", 1, hp->n_expert, true, &hp->adjugate.n_share,
                     err) ||
        !hparams_u32(hp, "expert_chunk_feed_forward_length", 1, MAX_WIDTH, false,
                     &hp->adjugate.n_ff, err) ||
        !hparams_f64(hp, "expert_group_scale", 0x1p-20, 1e3, true, &scale, err))
        return false;
    hp->adjugate.scale = (float)scale;
    return hp->n_expert % hp->adjugate.n_share == 0 ||
           err_set(err, ERR_FORMAT,
                   "%s: key grovemoe.experts_per_group should divide the %u experts, but is %u",
                   gguf_path(hp->g), hp->n_expert, hp->adjugate.n_share);
}

/* bailingmoe and deepseek. */
static bool read_deepseek(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    return hparams_need_experts(hp, err) && hparams_route(hp, err) &&
           hparams_shared_count(hp, err);
}

/* The first layers are those without a router; the expert for all rows is as wide as a routed
 * one where its width is not said. */
static bool read_hy_v3(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    if (!read_minimax_m2(hp, err)) return false;
    hparams_dense_layers(hp);
    return hparams_shared_expert(hp, hp->layers[hp->n_layer - 1].n_ff_exp, err) &&
           hparams_drop_next(hp, err);
}

/* Layers that see everything do not rotate. */
static bool read_exaone_moe(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    if (!read_minimax_m2(hp, err) || !hparams_windows(hp, 4, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = hp->layers[i].window > 0;
    return hparams_shared_expert(hp, hp->layers[hp->n_layer - 1].n_ff_exp, err) &&
           hparams_drop_next(hp, err);
}

/* Layers with windows rotate without scaling. */
static bool read_mellum(struct hparams *hp, struct err *err)
{
    bool windows = false;
    if (!hparams_need_experts(hp, err) || !hparams_has_windows(hp, &windows, err)) return false;
    return !windows || (hparams_windows(hp, 4, err) &&
                        hparams_local_rope(hp, hp->n_rot, hp->rope_base, err));
}

static bool read_mimo2(struct hparams *hp, struct err *err)
{
    double scale = 1;
    hp->route = ROUTE_SIGMOID;
    if (!hparams_need_experts(hp, err) || !hparams_windows(hp, 0, err) ||
        !hparams_local_rope(hp, hp->n_rot, 10000, err) ||
        !hparams_f64(hp, "attention.value_scale", 1e-6, 1e6, false, &scale, err))
        return false;
    hp->attn_out_scale = (float)scale;
    hparams_dense_layers(hp);
    return hparams_drop_next(hp, err);
}

static void layer_mimo2(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    const bool sinks = weights_has(b->ws, layer_tensor(name, layer, "attn_sinks.weight"));
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .sinks = sinks});
}

/* Every fourth layer sees everything and does not rotate; there queries grow with the position.
 * The others see chunks, and but for the model of 128 experts rotated heads have norms without
 * factors. A file of a model without chunks says so. */
static bool read_llama4(struct hparams *hp, struct err *err)
{
    enum { CHUNK = 8192 };
    uint32_t step = 1, used = 1, window = CHUNK;
    hp->route = ROUTE_SIGMOID;
    hp->route_as_is = hp->route_first = true;
    if (!hparams_need_experts(hp, err) ||
        !hparams_u32(hp, "expert_used_count", 1, 1, true, &used, err) ||
        !hparams_u32(hp, "interleave_moe_layer_step", 1, MAX_LAYERS, true, &step, err) ||
        !hparams_u32(hp, "attention.sliding_window", 0, MAX_CONTEXT, false, &window, err))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->dense = (i + 1) % step != 0;
        l->rope = window == 0 || (i + 1) % 4 != 0;
        if (l->rope) l->window = window;
    }
    hp->window_chunks = hp->temp_unrotated = true;
    hp->temp_log_scale = 0.1;
    hp->temp_period = CHUNK;
    hp->temp_ahead = 1;
    hp->n_ff_shared = hp->layers[hp->n_layer - 1].n_ff_exp;
    return true;
}

static void layer_llama4(struct builder *b, uint32_t layer, struct ref x)
{
    const bool bare = b->hp->n_expert != 128 && b->hp->layers[layer].rope;
    block_plain_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NORM, .norm_bare = bare, .norm_last = true});
}

/* The first of every four layers sees everything and does not rotate, if others do not see
 * everything. */
static bool read_smallthinker(struct hparams *hp, struct err *err)
{
    bool windows = false;
    hp->glu = GLU_RELU;
    if (!read_minimax_m2(hp, err) || !hparams_has_windows(hp, &windows, err)) return false;
    if (!windows) return true;
    for (uint32_t i = 0; i < hp->n_layer; i += 4)
        hp->layers[i].rope = false;
    return hparams_windows_behind(hp, 4, err);
}

/* Experts are chosen by what the layer is given, before attention. */
static void layer_smallthinker(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x), attended = build_rows(b, "attended", x.n);
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NEOX});
    build_add(b, x, h, 1, attended);
    build_norm(b, attended, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_experts_by(b, layer, x, h, h);
    build_add(b, attended, h, 1, x);
}

/* Beside the experts each layer has a feed-forward as wide as a row. */
static bool read_arctic(struct hparams *hp, struct err *err)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].n_ff = hp->n_embd;
    return hparams_need_experts(hp, err);
}

/* The experts, behind a norm of their own, read what the layer is given, before attention. */
static void layer_arctic(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref e = build_rows(b, "experts_in", x.n), h = block_begin(b, layer, x);
    layer_norm(b, layer, "ffn_norm_exps.weight", x, e);
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NORM});
    build_add(b, x, h, 1, x);
    layer_norm(b, layer, b->hp->ffn_norm, x, h);
    block_dense(b, layer, h, h);
    build_add(b, x, h, 1, x);
    block_experts_by(b, layer, e, e, e);
    build_add(b, x, e, 1, x);
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

/* Layers that see everything rotate half as many dims as are said, and those with windows all
 * of them, by a base of their own; the file has factors of frequencies for the latter, which
 * have no use for them. */
static bool step35_rope(struct hparams *hp, struct err *err)
{
    const uint32_t said = hp->n_rot;
    if (hp->attn_factor != 1.0)
        return err_set(
            err, ERR_FORMAT,
            "%s: key step35.rope.scaling.attn_factor should be 1, for cos and sin have "
            "no factor in hearth's step35, but is %g",
            gguf_path(hp->g), hp->attn_factor);
    if (!hparams_windows(hp, 0, err) || !hparams_local_dims(hp, said, 10000, err)) return false;
    if (said % 4 != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: key step35.rope.dimension_count should be a multiple of 4, of "
                       "which half are rotated, but is %u",
                       gguf_path(hp->g), said);
    hp->n_rot = said / 2;
    uint32_t most = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const uint32_t n = hp->layers[i].window > 0 ? hp->rope_local.n_rot : hp->n_rot;
        if (n > most) most = n;
    }
    hp->n_factors = most / 2;
    return true;
}

static bool read_step35(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    if (!read_minimax_m2(hp, err) || !step35_rope(hp, err) || !hparams_unit_limits(hp, err))
        return false;
    hparams_dense_layers(hp);
    return hparams_shared_expert(hp, 0, err) && hparams_drop_next(hp, err);
}

static void layer_step35(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    const bool gates = weights_has(b->ws, layer_tensor(name, layer, "attn_gate.weight"));
    block_plain_layer(b, layer, x,
                      &(struct attention){.pairs = ROPE_NEOX,
                                          .norm_if = true,
                                          .gates = gates ? GATES_HEADS : GATES_NONE});
}

/* Layers with windows alone rotate, by what is said of theirs. Gates and up of experts are
 * within 7 of 0 in a file that does not say how far. */
static bool read_maple(struct hparams *hp, struct err *err)
{
    const float least = 0.46f; /* its SiLU is above LEAST_UNIT_LIMIT */
    hp->limit_first = true;
    if (!hparams_need_experts(hp, err) || !hparams_windows(hp, 0, err) ||
        !hparams_local_dims(hp, hp->n_rot, hp->rope_base, err))
        return false;
    hp->n_rot = hp->rope_local.n_rot;
    hp->rope_base = hp->rope_local.base;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->rope = l->window > 0;
        l->rope_local = false;
        l->experts_limit = 7;
        if (!hparams_unit_limit(hp, "swiglu_clamp_exp", i, least, &l->experts_limit, err))
            return false;
    }
    return true;
}

/* One expert for all rows, unless there are said to be more; their width may be said, too. */
static bool laguna_shared(struct hparams *hp, struct err *err)
{
    const uint32_t n_ff = hp->layers[hp->n_layer - 1].n_ff_exp;
    uint32_t n = 1;
    return hparams_u32(hp, "expert_shared_count", 0, n_ff ? MAX_WIDTH / n_ff : MAX_EXPERTS,
                       false, &n, err) &&
           hparams_shared_expert(hp, n * n_ff, err);
}

/* Layers with windows rotate by a base and dims of their own, without scaling. */
static bool read_laguna(struct hparams *hp, struct err *err)
{
    bool windows = false;
    hp->route_as_is = true;
    if (!read_minimax_m2(hp, err) || !hparams_has_windows(hp, &windows, err)) return false;
    if (windows && (!hparams_windows_behind(hp, 4, err) ||
                    !hparams_local_dims(hp, hp->n_rot, hp->rope_base, err)))
        return false;
    return laguna_shared(hp, err);
}

/* Some models have a gate for each head, and some for each value. */
static void layer_laguna(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    const struct layer_hparams *l = &b->hp->layers[layer];
    const size_t n = weights_dim(b->ws, layer_tensor(name, layer, "attn_gate.weight"), 1);
    const bool values = n == (size_t)l->n_head * l->head_dim_v;
    block_plain_layer(b, layer, x,
                      &(struct attention){.pairs = ROPE_NEOX,
                                          .qk_norm = true,
                                          .gates = values ? GATES_APART : GATES_HEADS,
                                          .softplus = true});
}

/* minimax-m2 and olmoe. */
static void layer_norm_all(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .norm_all = true});
}

const struct family families_experts[] = {
    {"arctic", read_arctic, layer_arctic},
    {"bailingmoe", read_deepseek, layer_llama},
    {"bailingmoe2", read_bailingmoe2, layer_qwen3},
    {"deepseek", read_deepseek, layer_llama},
    {"dots1", read_dots1, layer_qwen3},
    {"ernie4_5-moe", read_ernie_moe, layer_llama},
    {"exaone-moe", read_exaone_moe, layer_qwen3},
    {"glm4moe", read_glm4moe, layer_glm4moe},
    {"grovemoe", read_grovemoe, layer_qwen3},
    {"hunyuan-moe", read_hunyuan_moe, layer_hunyuan},
    {"hy_v3", read_hy_v3, layer_qwen3},
    {"laguna", read_laguna, layer_laguna},
    {"llama4", read_llama4, layer_llama4},
    {"maple", read_maple, layer_qwen3},
    {"mellum", read_mellum, layer_qwen3},
    {"mimo2", read_mimo2, layer_mimo2},
    {"minimax-m2", read_minimax_m2, layer_norm_all},
    {"minimax-m3", read_minimax_m3, layer_minimax_m3},
    {"olmoe", read_olmoe, layer_norm_all},
    {"qwen2moe", read_qwen2moe, layer_qwen2},
    {"qwen3moe", hparams_need_experts, layer_qwen3},
    {"qwen3vlmoe", hparams_need_experts, layer_qwen3},
    {"smallthinker", read_smallthinker, layer_smallthinker},
    {"step35", read_step35, layer_step35},
    {NULL, NULL, NULL},
};
