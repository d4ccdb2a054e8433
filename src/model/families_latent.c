/* Families whose keys and values of all heads come from one narrow row. */
#include <math.h>
#include <stdio.h>

#include "base/real.h"
#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

/* Whether the first layer with attention has that matrix. */
static bool has_matrix(const struct hparams *hp, const char *what)
{
    char name[64];
    uint32_t i = 0;
    while (i + 1 < hp->n_layer && hp->layers[i].recurrent)
        i++;
    snprintf(name, sizeof name, "blk.%u.%s.weight", i, what);
    return gguf_tensor_find(hp->g, name) != NULL;
}

/* Keys for the size of a head speak of the cache, their "_mla" of what a head's matrices make;
 * files without these have keys and values of all heads in the cache. */
bool hparams_latent(struct hparams *hp, struct err *err)
{
    struct layer_hparams *l = hp->layers;
    hp->latent.head_dim_k = l->head_dim_k;
    hp->latent.head_dim_v = l->head_dim_v;
    if (!hparams_u32(hp, "attention.q_lora_rank", 0, MAX_WIDTH, false, &hp->latent.n_q, err) ||
        !hparams_u32(hp, "attention.kv_lora_rank", 1, MAX_HEAD_DIM, true, &hp->latent.n_kv,
                     err) ||
        !hparams_u32(hp, "attention.key_length_mla", 2, MAX_HEAD_DIM, false,
                     &hp->latent.head_dim_k, err) ||
        !hparams_u32(hp, "attention.value_length_mla", 2, MAX_HEAD_DIM, false,
                     &hp->latent.head_dim_v, err))
        return false;
    /* The first files of models without it name it, too. */
    if (has_matrix(hp, "attn_q")) hp->latent.n_q = 0;
    if (hp->latent.head_dim_k <= hp->n_rot)
        return err_set(err, ERR_FORMAT,
                       "%s: keys of %u values should be longer than what is rotated, %u",
                       gguf_path(hp->g), hp->latent.head_dim_k, hp->n_rot);
    const bool narrow = has_matrix(hp, "attn_k_b");
    hp->latent.by_heads = !narrow;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        l = &hp->layers[i];
        if (l->n_head == 0 && !l->recurrent)
            return err_set(err, ERR_FORMAT, "%s: layer %u has no heads, which %s needs",
                           gguf_path(hp->g), i, hp->arch);
        l->n_head_kv = narrow ? 1 : l->n_head;
        l->head_dim_k = narrow ? hp->n_rot + hp->latent.n_kv : hp->latent.head_dim_k;
        l->head_dim_v = narrow ? hp->latent.n_kv : hp->latent.head_dim_v;
    }
    return true;
}

/* The factor by which YaRN makes scores larger: that of multiplier 1, or the file's, which is a
 * tenth of the model's. */
static double score_factor(const struct hparams *hp, double multiplier)
{
    return hp->attn_factor * (1.0 + 0.1 * multiplier * real_log(hp->scaling_factor));
}

/* Scores are scaled by the square of one factor, cos and sin by the ratio of two: in deepseek2
 * 1, in the others that of multiplier 1 and the file's. */
static void scale_scores(struct hparams *hp, bool ratio_is_1)
{
    const double multiplier = 10.0 * hp->yarn_log_multiplier;
    double factor = hp->attn_factor;
    if (hp->scaling == SCALING_YARN && hp->scaling_factor > 1.0 && hp->yarn_ext_factor > 0) {
        const bool own = ratio_is_1 && multiplier > 0;
        factor = score_factor(hp, own ? multiplier : 1.0);
        hp->attn_factor_whole = own;
        hp->yarn_log_multiplier = multiplier;
    }
    hp->attn_scale = (float)(factor * factor / sqrt((double)hp->latent.head_dim_k));
}

static bool read_temperature(struct hparams *hp, struct err *err)
{
    if (!hparams_f64(hp, "attention.temperature_scale", 0, 100, false, &hp->temp_log_scale,
                     err))
        return false;
    return hparams_u32(hp, "attention.temperature_length", 1, MAX_CONTEXT,
                       hp->temp_log_scale > 0, &hp->temp_period, err);
}

static bool read_latent(struct hparams *hp, struct err *err)
{
    hp->route_as_is = true;
    /* The first files of GLM-4.7-Flash do not say it. */
    if ((hp->n_layer == 47 || hp->n_layer == 48) && hp->n_vocab == 154880)
        hp->route = ROUTE_SIGMOID;
    return hparams_need_experts(hp, err) && hparams_route(hp, err) &&
           hparams_shared_count(hp, err) && hparams_latent(hp, err) &&
           read_temperature(hp, err) && hparams_drop_next(hp, err);
}

static bool read_deepseek2(struct hparams *hp, struct err *err)
{
    if (!read_latent(hp, err)) return false;
    scale_scores(hp, true);
    return true;
}

static bool read_mistral4(struct hparams *hp, struct err *err)
{
    if (!read_latent(hp, err)) return false;
    scale_scores(hp, false);
    return true;
}

/* deepseek32 and glm-dsa, whose factors are those of mistral4. */
static bool read_indexed(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    return read_mistral4(hp, err) && hparams_indexer(hp, err);
}

/* What layers with windows make keys and values from. */
static bool read_local_sizes(struct hparams *hp, struct err *err)
{
    if (!hparams_u32(hp, "attention.kv_lora_rank_swa", 1, MAX_HEAD_DIM, true,
                     &hp->latent_local.n_kv, err) ||
        !hparams_u32(hp, "attention.key_length_mla_swa", hp->n_rot + 1, MAX_HEAD_DIM, true,
                     &hp->latent_local.head_dim_k, err) ||
        !hparams_u32(hp, "attention.value_length_mla_swa", 2, MAX_HEAD_DIM, true,
                     &hp->latent_local.head_dim_v, err))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        if (l->window == 0) continue;
        l->head_dim_k = hp->n_rot + hp->latent_local.n_kv;
        l->head_dim_v = hp->latent_local.n_kv;
    }
    return true;
}

/* Layers with windows have heads of their own, in number and in size, and a base of their own.
 * All have gates of heads. */
static bool read_dots3note(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    hp->latent.key_norm = true;
    if (!hparams_windows(hp, 0, err) ||
        !hparams_local_rope(hp, hp->n_rot, hp->rope_base, err) || !hparams_unscaled(hp, err) ||
        !read_mistral4(hp, err))
        return false;
    if (hp->latent.by_heads)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor blk.0.attn_k_b.weight is missing, without which hearth has "
                       "no dots3note",
                       gguf_path(hp->g));
    return read_local_sizes(hp, err) && hparams_indexer(hp, err);
}

/* The scales of MiniCPM, which files do not name. */
static bool read_minicpm3(struct hparams *hp, struct err *err)
{
    hp->rope_halves = true;
    hp->embed_scale = 12;
    hp->residual_scale = (float)(1.4 / sqrt(hp->n_layer));
    hp->logit_scale = (float)(256.0 / hp->n_embd);
    return hparams_latent(hp, err);
}

static bool read_plm(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_RELU;
    hp->gate = GATE_IS_UP;
    return hparams_latent(hp, err);
}

static void layer_latent(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_latent_attention(b, layer, h, h, GATES_NONE, false);
    block_end(b, layer, x, h);
}

/* deepseek32 and glm-dsa. */
static void layer_indexed(struct builder *b, uint32_t layer, struct ref x)
{
    layer_ignore_indexer(b, layer);
    layer_latent(b, layer, x);
}

static void layer_dots3note(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    layer_ignore_indexer(b, layer);
    block_latent_attention(b, layer, h, h, GATES_HEADS, false);
    block_end(b, layer, x, h);
}

const struct family families_latent[] = {
    {"deepseek2", read_deepseek2, layer_latent},
    {"deepseek32", read_indexed, layer_indexed},
    {"dots3note", read_dots3note, layer_dots3note},
    {"glm-dsa", read_indexed, layer_indexed},
    {"minicpm3", read_minicpm3, layer_latent},
    {"mistral4", read_mistral4, layer_latent},
    {"plm", read_plm, layer_latent},
    {NULL, NULL, NULL},
};
