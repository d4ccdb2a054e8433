/* Families that norm what a block gives before they add it. */
#include <math.h>

#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

/* h = norm(h), x += h. */
static void add_normed(struct builder *b, uint32_t layer, struct ref x, struct ref h,
                       const char *norm)
{
    build_post_norm(b, h, layer_vector(b, layer, norm, x.n), h);
    build_add(b, x, h, 1, x);
}

/* What norms behind attention and feed-forward are called, and in files of PLaMo. */
static const char *const post_norms[2] = {"post_attention_norm.weight", "post_ffw_norm.weight"};
static const char *const plamo_norms[2] = {"post_attention_norm", "post_ffw_norm"};

/* A layer with norms before each block, too, behind attention or what stands in its place,
 * whose result is h. */
static void sandwich_end(struct builder *b, uint32_t layer, struct ref x, struct ref h,
                         const char *const norms[2])
{
    add_normed(b, layer, x, h, norms[0]);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_feedforward(b, layer, h, h);
    add_normed(b, layer, x, h, norms[1]);
}

static void sandwich_layer(struct builder *b, uint32_t layer, struct ref x,
                           const struct attention *a, const char *const norms[2])
{
    struct ref h = block_begin(b, layer, x);
    block_attention(b, layer, h, h, a);
    sandwich_end(b, layer, x, h, norms);
}

/* A window in every other layer, from the first on; the first converters did not say how long.
 */
static bool read_gemma2(struct hparams *hp, struct err *err)
{
    double scores = 50, logits = 30;
    bool windows = false;
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    /* The one of 46 layers divides scores by another root. */
    if (hp->n_layer == 46)
        hp->attn_scale = (float)(1.0 / sqrt((double)hp->n_embd / hp->layers[0].n_head));
    if (!hparams_f64(hp, "attn_logit_softcapping", 1, 1e6, false, &scores, err) ||
        !hparams_f64(hp, "final_logit_softcapping", 1, 1e6, false, &logits, err))
        return false;
    hp->attn_softcap = (float)scores;
    hp->logit_softcap = (float)logits;
    if (!hparams_has_windows(hp, &windows, err)) return false;
    if (windows) return hparams_windows(hp, 2, err);
    for (uint32_t i = 0; i < hp->n_layer; i += 2)
        hp->layers[i].window = 4096;
    return true;
}

static void layer_gemma2(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX}, post_norms);
}

/* Files that Ollama made name neither the epsilon nor the base, nor that long contexts are
 * stretched. */
static void assume_gemma3(struct hparams *hp)
{
    static const char *const marks[] = {"gemma3.mm.tokens_per_image",
                                        "gemma3.rope.global.freq_base",
                                        "gemma3.rope.local.freq_base"};
    bool is_ollama = !gguf_find(hp->g, "gemma3.attention.layer_norm_rms_epsilon");
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        is_ollama = is_ollama || gguf_find(hp->g, marks[i]);
    if (hp->norm_eps == 0) hp->norm_eps = hp->post_norm_eps = 1e-6f;
    hp->rope_base = 1e6;
    if (!is_ollama || hp->n_ctx_train < 131072 ||
        gguf_find(hp->g, "gemma3.rope.scaling.factor") ||
        gguf_find(hp->g, "gemma3.rope.scaling.type"))
        return;
    hp->scaling = SCALING_LINEAR;
    hp->scaling_factor = 8;
}

static bool read_gemma3(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    /* The one of 62 layers divides scores by another root. */
    if (hp->n_layer == 62)
        hp->attn_scale = (float)(1.0 / sqrt((double)hp->n_embd / hp->layers[0].n_head));
    bool windows = false;
    double local_base = 10000.0;
    assume_gemma3(hp);
    if (!hparams_softcap(hp, err) || !hparams_has_windows(hp, &windows, err) ||
        /* As Ollama's converter names the two bases; the common names win. */
        !hparams_rope_base(hp, "rope.global.freq_base", &hp->rope_base, err) ||
        !hparams_rope_base(hp, "rope.freq_base", &hp->rope_base, err) ||
        !hparams_rope_base(hp, "rope.local.freq_base", &local_base, err))
        return false;
    /* Rnj-1 is written as a gemma3 without any. */
    return !windows ||
           (hparams_windows(hp, 6, err) && hparams_local_rope(hp, hp->n_rot, local_base, err));
}

static void layer_gemma3(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true},
                   post_norms);
}

/* A file with sections is of a model that sees images, too: its converter has put the pairs of
 * Q and K into halves, and in text all sections turn by the same position. */
static bool read_glm4(struct hparams *hp, struct err *err)
{
    bool sections = false;
    hp->gate = GATE_IN_UP;
    if (!hparams_rope_sections(hp, &sections, err)) return false;
    hp->rope_halves = sections && hp->rope_sections[0] > 0 && hp->rope_sections[1] > 0;
    if (hp->rope_halves && hp->rope_sections[3] > 0)
        return err_set(err, ERR_FORMAT,
                       "%s: key glm4.rope.dimension_sections should end in a section of 0, but "
                       "that is %u",
                       gguf_path(hp->g), hp->rope_sections[3]);
    return hparams_drop_next(hp, err);
}

static void layer_glm4(struct builder *b, uint32_t layer, struct ref x)
{
    const enum rope_pairs pairs = b->hp->rope_halves ? ROPE_NEOX : ROPE_NORM;
    sandwich_layer(b, layer, x, &(struct attention){.pairs = pairs}, post_norms);
}

/* Every fourth layer does not rotate, with windows or without. */
static bool read_afmoe(struct hparams *hp, struct err *err)
{
    bool windows = false;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    hp->route = ROUTE_SIGMOID;
    if (!hparams_has_windows(hp, &windows, err) || (windows && !hparams_windows(hp, 4, err)))
        return false;
    for (uint32_t i = 3; i < hp->n_layer; i += 4)
        hp->layers[i].rope = false;
    return hparams_route(hp, err) && hparams_shared_count(hp, err);
}

static void layer_afmoe(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .gates = GATES_APART},
        post_norms);
}

/* Layers without heads are recurrent. How wide the row is that steps are made from follows from
 * the embedding. */
static bool read_plamo2(struct hparams *hp, struct err *err)
{
    enum { LEAST_STEP = 64, STEP_SHARE = 16 };
    hp->gate = GATE_IN_UP;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
    hp->ssm.n_step = hp->n_embd / STEP_SHARE;
    if (hp->ssm.n_step < LEAST_STEP) hp->ssm.n_step = LEAST_STEP;
    return hparams_ssm_heads(hp, err);
}

static void layer_plamo2(struct builder *b, uint32_t layer, struct ref x)
{
    const struct attention a = {.pairs = ROPE_NEOX, .qk_norm = true, .norm_each = true};
    struct ref h = block_begin(b, layer, x);
    if (b->hp->layers[layer].recurrent)
        block_mamba_by_heads(b, layer, h, h);
    else
        block_attention(b, layer, h, h, &a);
    sandwich_end(b, layer, x, h, plamo_norms);
}

/* Windows, if there are some, in seven layers of eight; they rotate by a base of their own. */
static bool read_plamo3(struct hparams *hp, struct err *err)
{
    bool windows = false;
    hp->gate = GATE_IN_UP;
    if (!hparams_has_windows(hp, &windows, err)) return false;
    return !windows ||
           (hparams_windows(hp, 8, err) && hparams_local_rope(hp, hp->n_rot, 10000.0, err));
}

static void layer_plamo3(struct builder *b, uint32_t layer, struct ref x)
{
    sandwich_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true},
                   plamo_norms);
}

/* A file with windows is OLMo 3: there YaRN is for the layers that see everything alone. Files
 * of 2025 name the model's factor of cos and sin, which that of YaRN is part of. */
static bool read_olmo2(struct hparams *hp, struct err *err)
{
    bool windows = false;
    double whole = 0;
    if (!hparams_f64(hp, "rope.scaling.attn_factor", 1e-3, 1e3, false, &whole, err) ||
        !hparams_has_windows(hp, &windows, err))
        return false;
    hp->attn_factor_whole = whole > 0;
    return !windows || (hparams_windows(hp, 4, err) &&
                        hparams_local_rope(hp, hp->n_rot, hp->rope_base, err));
}

/* Norms behind each block alone. */
static void post_layer(struct builder *b, uint32_t layer, struct ref x,
                       const struct attention *a)
{
    struct ref h = build_rows(b, "h", x.n);
    block_attention(b, layer, x, h, a);
    add_normed(b, layer, x, h, post_norms[0]);
    block_feedforward(b, layer, x, h);
    add_normed(b, layer, x, h, post_norms[1]);
}

static void layer_olmo2(struct builder *b, uint32_t layer, struct ref x)
{
    post_layer(b, layer, x,
               &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .norm_all = true});
}

/* In a file with windows the layers that see everything do not rotate. */
static bool read_exaone4(struct hparams *hp, struct err *err)
{
    bool windows = false;
    if (!hparams_has_windows(hp, &windows, err) || (windows && !hparams_windows(hp, 4, err)))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = !windows || hp->layers[i].window > 0;
    return hparams_drop_next(hp, err);
}

static void layer_exaone4(struct builder *b, uint32_t layer, struct ref x)
{
    post_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true});
}

/* Layers with windows alone rotate. Norms of what blocks give have an epsilon that no file
 * names. */
static bool read_muse_glimmer(struct hparams *hp, struct err *err)
{
    double logit = 1;
    hp->post_norm_eps = 1e-8f;
    hp->logit_softcap = 30;
    if (!hparams_f64(hp, "logit_scale", 1e-6, 1e6, true, &logit, err) ||
        !hparams_softcap(hp, err) || !hparams_windows(hp, 4, err) ||
        !hparams_local_dims(hp, hp->n_rot, hp->rope_base, err) || !hparams_unscaled(hp, err))
        return false;
    hp->logit_scale = (float)logit;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = hp->layers[i].window > 0;
    return true;
}

/* The embedding is behind a norm without factors. */
static void layer_muse_glimmer(struct builder *b, uint32_t layer, struct ref x)
{
    if (layer == 0) build_norm(b, x, NULL, 0, x);
    sandwich_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NORM, .qk_norm = true, .gates = GATES_APART},
        post_norms);
}

/* Grok-2 makes scores of late rows larger behind their cap, which OP_ATTEND has not: up to the
 * position that the file names nothing is done. */
static bool grok_temperature(struct hparams *hp, struct err *err)
{
    hp->reach.beyond = "scales scores by a temperature";
    hp->reach.key = "attention.temperature_length";
    return hparams_u32(hp, hp->reach.key, 0, MAX_CONTEXT, false, &hp->reach.n, err);
}

/* A factor of cos and sin beside that of YaRN is one that nothing applies. */
static bool grok_rope(struct hparams *hp, struct err *err)
{
    double own = 1;
    hp->yarn_beta_fast = 8;
    return hparams_f64_alias(hp, "rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast", 1e-3,
                             1e6, &hp->yarn_beta_fast, err) &&
           hparams_f64(hp, "rope.scaling.yarn_attn_factor", 1, 1, false, &own, err);
}

/* A file that does not say otherwise has the numbers of Grok-1. Weights of the chosen experts
 * are not renormalised, and the router's scores have a cap, as the authors' code has it and
 * llama.cpp has not. */
static bool read_grok(struct hparams *hp, struct err *err)
{
    double embed = 78.38367176906169, logit = 0.5773502691896257;
    double score = 0.08838834764831845, score_cap = 30, route_cap = 0;
    hp->glu = GLU_GELU;
    hp->route_as_is = true;
    if (!hparams_need_experts(hp, err) ||
        !hparams_f64(hp, "embedding_scale", 1e-6, 1e6, false, &embed, err) ||
        !hparams_f64(hp, "logit_scale", 1e-6, 1e6, false, &logit, err) ||
        !hparams_f64(hp, "attention.output_scale", 1e-6, 1e6, false, &score, err) ||
        !hparams_f64(hp, "attn_logit_softcapping", 1, 1e6, false, &score_cap, err) ||
        !hparams_f64(hp, "router_logit_softcapping", 0, 1e6, false, &route_cap, err))
        return false;
    hp->embed_scale = (float)embed;
    hp->logit_scale = (float)logit;
    hp->attn_scale = (float)score;
    hp->attn_softcap = (float)score_cap;
    hp->route_softcap = route_cap < 0x1p-20 ? 0.0f : (float)route_cap;
    return hparams_softcap(hp, err) && grok_rope(hp, err) && grok_temperature(hp, err);
}

/* Experts, in Grok-2 with a dense feed-forward beside them; both then count by one over the
 * root of 2. */
static void grok_experts(struct builder *b, uint32_t layer, struct ref h)
{
    char name[TENSOR_NAME_CAP];
    if (!weights_has(b->ws, layer_tensor(name, layer, "ffn_up.weight"))) {
        block_experts_by(b, layer, h, h, h);
        return;
    }
    struct ref dense = build_rows(b, "dense", h.n);
    block_dense(b, layer, h, dense);
    block_experts_by(b, layer, h, h, h);
    build_add(b, h, dense, 1, h);
    build_scale(b, h, (float)sqrt(0.5));
}

static void layer_grok(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    struct ref h = block_begin(b, layer, x);
    block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NEOX});
    add_normed(b, layer, x, h, "attn_output_norm.weight");
    layer_norm(b, layer, b->hp->ffn_norm, x, h);
    grok_experts(b, layer, h);
    const bool old = weights_has(b->ws, layer_tensor(name, layer, "layer_output_norm.weight"));
    add_normed(b, layer, x, h, old ? "layer_output_norm.weight" : "post_ffw_norm.weight");
}

const struct family families_post[] = {
    {"afmoe", read_afmoe, layer_afmoe},
    {"exaone4", read_exaone4, layer_exaone4},
    {"gemma2", read_gemma2, layer_gemma2},
    {"gemma3", read_gemma3, layer_gemma3},
    {"glm4", read_glm4, layer_glm4},
    {"grok", read_grok, layer_grok},
    {"muse-glimmer", read_muse_glimmer, layer_muse_glimmer},
    {"olmo2", read_olmo2, layer_olmo2},
    {"olmo3", read_olmo2, layer_olmo2}, /* as Ollama calls those with windows */
    {"plamo2", read_plamo2, layer_plamo2},
    {"plamo3", read_plamo3, layer_plamo3},
    {NULL, NULL, NULL},
};
