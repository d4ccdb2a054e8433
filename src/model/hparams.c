/* What all families share. */
#include "model/hparams.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "model/hparams_impl.h"

static bool read_scaling_type(struct hparams *hp, struct err *err)
{
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv =
        gguf_find(hp->g, hparams_full_key(hp, "rope.scaling.type", name));
    hp->scaling = SCALING_LINEAR;
    if (!kv) return true;
    struct gguf_str s;
    if (!gguf_string(hp->g, name, &s))
        return err_set(err, ERR_FORMAT, "%s: key %s should be a string, but is %s",
                       gguf_path(hp->g), name, hparams_found_text(kv, found));
    /* llama3 and longrope bring their factors as tensors. */
    static const struct {
        const char *name;
        enum rope_scaling scaling;
    } known[] = {
        {"none", SCALING_NONE},     {"linear", SCALING_LINEAR},   {"yarn", SCALING_YARN},
        {"llama3", SCALING_LINEAR}, {"longrope", SCALING_LINEAR},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (s.len != strlen(known[i].name) || memcmp(s.data, known[i].name, s.len) != 0)
            continue;
        hp->scaling = known[i].scaling;
        return true;
    }
    return err_set(err, ERR_FORMAT,
                   "%s: key %s should be none, linear, yarn, llama3 or longrope, but is \"%s\"",
                   gguf_path(hp->g), name, printable(found, sizeof found, s.data, s.len));
}

static bool read_rope(struct hparams *hp, struct err *err)
{
    hp->rope_base = 10000.0;
    hp->scaling_factor = 0.0;
    hp->attn_factor = 1.0;
    hp->n_ctx_orig = hp->n_ctx_train;
    hp->yarn_beta_fast = 32.0;
    hp->yarn_beta_slow = 1.0;
    hp->yarn_ext_factor = 1.0;
    hp->yarn_log_multiplier = 0.0;
    const uint32_t head_dim = hp->layers[0].head_dim_k;
    if ((!hp->headless &&
         !hparams_n_rot(hp, "rope.dimension_count", head_dim, &hp->n_rot, err)) ||
        !hparams_rope_base(hp, "rope.freq_base", &hp->rope_base, err) ||
        !read_scaling_type(hp, err) ||
        !hparams_f64(hp, "rope.scale_linear", 0, 1e6, false, &hp->scaling_factor, err) ||
        !hparams_f64(hp, "rope.scaling.factor", 0, 1e6, false, &hp->scaling_factor, err) ||
        !hparams_f64(hp, "rope.scaling.attn_factor", 1e-3, 1e3, false, &hp->attn_factor, err) ||
        !hparams_u32(hp, "rope.scaling.original_context_length", 1, MAX_CONTEXT, false,
                     &hp->n_ctx_orig, err) ||
        !hparams_f64_alias(hp, "rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast", 1e-3,
                           1e6, &hp->yarn_beta_fast, err) ||
        !hparams_f64_alias(hp, "rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow", 1e-3,
                           1e6, &hp->yarn_beta_slow, err) ||
        !hparams_f64_alias(hp, "rope.scaling.yarn_ext_factor",
                           "rope.scaling.extrapolation_factor", 0, 1, &hp->yarn_ext_factor,
                           err) ||
        !hparams_f64(hp, "rope.scaling.yarn_log_multiplier", 0, 1e3, false,
                     &hp->yarn_log_multiplier, err))
        return false;
    hp->temp_period = hp->n_ctx_orig;
    /* A factor of 0 means that there is none; one below 2^-20 would be no factor at all. */
    if (hp->scaling == SCALING_NONE || hp->scaling_factor < 0x1p-20) hp->scaling_factor = 1.0;
    return true;
}

/* Layers without attention are among others that have it. */
static uint32_t least_heads(const struct hparams *hp)
{
    char name[KEY_CAP];
    const struct gguf_kv *kv =
        gguf_find(hp->g, hparams_full_key(hp, "attention.head_count", name));
    return hp->headless || (kv && kv->is_array) ? 0 : 1;
}

static bool read_layers(struct hparams *hp, struct err *err)
{
    const uint32_t least = least_heads(hp);
    hp->layers = mem_zalloc(hp->n_layer, sizeof *hp->layers);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->rope = true;
        if (!hparams_layer_u32(hp, "attention.head_count", i, least, MAX_HEADS, true,
                               &l->n_head, err))
            return false;
        l->n_head_kv = l->n_head;
        if (!hparams_layer_u32(hp, "attention.head_count_kv", i, 0, MAX_HEADS, false,
                               &l->n_head_kv, err) ||
            !hparams_layer_u32(hp, "feed_forward_length", i, 0, MAX_WIDTH, false, &l->n_ff,
                               err))
            return false;
        l->n_ff_exp = l->n_ff;
        if (!hparams_layer_u32(hp, "expert_feed_forward_length", i, 0, MAX_WIDTH, false,
                               &l->n_ff_exp, err))
            return false;
    }
    return true;
}

/* Of the first layer that has some. */
static uint32_t n_heads_of(const struct hparams *hp)
{
    uint32_t i = 0;
    while (i < hp->n_layer && hp->layers[i].n_head == 0)
        i++;
    return i < hp->n_layer ? hp->layers[i].n_head : 0;
}

static bool read_heads(struct hparams *hp, struct err *err)
{
    const uint32_t n_head = n_heads_of(hp);
    if (hp->headless) return true;
    if (n_head == 0)
        return err_set(err, ERR_FORMAT, "%s: key %s.attention.head_count has heads in no layer",
                       gguf_path(hp->g), hp->arch);
    uint32_t dim_k = hp->n_embd / n_head;
    if (!hparams_u32(hp, "attention.key_length", 2, MAX_HEAD_DIM, false, &dim_k, err))
        return false;
    uint32_t dim_v = dim_k;
    if (!hparams_u32(hp, "attention.value_length", 2, MAX_HEAD_DIM, false, &dim_v, err))
        return false;
    if (dim_k < 2 || dim_k > MAX_HEAD_DIM)
        return err_set(
            err, ERR_FORMAT,
            "%s: %u values per row and %u heads give a head size of %u; it should be "
            "between 2 and %d",
            gguf_path(hp->g), hp->n_embd, n_head, dim_k, MAX_HEAD_DIM);
    hp->attn_scale = (float)(1.0 / sqrt((double)dim_k));
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->head_dim_k = dim_k;
        l->head_dim_v = dim_v;
        if (l->n_head_kv && (l->n_head == 0 || l->n_head % l->n_head_kv))
            return err_set(err, ERR_FORMAT,
                           "%s: layer %u has %u heads, which is no multiple of its %u KV heads",
                           gguf_path(hp->g), i, l->n_head, l->n_head_kv);
    }
    return true;
}

static bool read_all(struct hparams *hp, uint32_t n_ctx, struct err *err)
{
    double eps = 0;
    if (!hparams_u32(hp, "block_count", 1, MAX_LAYERS, true, &hp->n_layer, err) ||
        !hparams_u32(hp, "embedding_length", 1, MAX_WIDTH, true, &hp->n_embd, err) ||
        !hparams_u32(hp, "context_length", 1, MAX_CONTEXT, true, &hp->n_ctx_train, err) ||
        !hparams_f64_alias(hp, "attention.layer_norm_rms_epsilon",
                           "attention.layer_norm_epsilon", 1e-12, 1, &eps, err))
        return false;
    hp->norm_eps = hp->post_norm_eps = (float)eps;
    hp->embed_scale = hp->residual_scale = hp->logit_scale = hp->attn_out_scale = 1;
    hp->embed_table = "token_embd.weight";
    hp->output_norm = "output_norm.weight";
    hp->ffn_norm = "ffn_norm.weight";
    hp->n_ctx = n_ctx ? n_ctx : hp->n_ctx_train;
    hp->n_layer_kv = hp->n_layer;
    return read_layers(hp, err) && read_heads(hp, err) && hparams_read_experts(hp, err) &&
           read_rope(hp, err);
}

bool hparams_agree(const struct hparams *hp, struct err *err)
{
    /* Some families know their own. */
    if (hp->norm_eps == 0) return hparams_missing(hp, "attention.layer_norm_rms_epsilon", err);
    return hparams_experts_agree(hp, err) && hparams_bases_agree(hp, err);
}

bool hparams_read(struct hparams *hp, uint32_t n_ctx, struct err *err)
{
    if (read_all(hp, n_ctx, err)) return true;
    hparams_free(hp);
    return false;
}

void hparams_free(struct hparams *hp)
{
    free(hp->layers);
    hp->layers = NULL;
}
