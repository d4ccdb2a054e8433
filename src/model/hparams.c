/* Keys to numbers, each checked once, here. */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "gguf/gguf.h"

enum { KEY_CAP = 192 };

static const char *full_key(const struct hparams *hp, const char *key, char out[KEY_CAP])
{
    snprintf(out, KEY_CAP, "%s.%s", hp->arch, key);
    return out;
}

static bool missing(const struct hparams *hp, const char *key, struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: key %s.%s is missing", gguf_path(hp->g), hp->arch,
                   key);
}

/* What stands at the key, for messages. */
static const char *found_text(const struct gguf_kv *kv, char out[64])
{
    if (kv->is_array)
        snprintf(out, 64, "an array of %zu %s", kv->n, gguf_type_name(kv->type));
    else if (gguf_is_int(kv->type))
        snprintf(out, 64, "%lld", (long long)gguf_item_int(kv, 0));
    else if (kv->type == GGUF_F32 || kv->type == GGUF_F64)
        snprintf(out, 64, "%g", gguf_item_float(kv, 0));
    else
        snprintf(out, 64, "a %s", gguf_type_name(kv->type));
    return out;
}

static bool item_u32(const struct hparams *hp, const char *key, const struct gguf_kv *kv,
                     size_t item, uint32_t lo, uint32_t hi, uint32_t *value, struct err *err)
{
    if (gguf_is_int(kv->type)) {
        int64_t v = gguf_item_int(kv, item);
        if (v >= lo && v <= hi) {
            *value = (uint32_t)v;
            return true;
        }
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.%s should be between %u and %u, but is %lld",
                       gguf_path(hp->g), hp->arch, key, lo, hi, (long long)v);
    }
    char found[64];
    return err_set(err, ERR_FORMAT, "%s: key %s.%s should be an integer, but is %s",
                   gguf_path(hp->g), hp->arch, key, found_text(kv, found));
}

bool hparams_u32(const struct hparams *hp, const char *key, uint32_t lo, uint32_t hi,
                 bool required, uint32_t *value, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv) return required ? missing(hp, key, err) : true;
    if (kv->is_array)
        return err_set(err, ERR_FORMAT, "%s: key %s should be an integer, but is %s",
                       gguf_path(hp->g), name, found_text(kv, found));
    return item_u32(hp, key, kv, 0, lo, hi, value, err);
}

/* The same for a key that is one number or an array of n_layer; layer's entry. */
static bool layer_u32(const struct hparams *hp, const char *key, uint32_t layer, uint32_t lo,
                      uint32_t hi, bool required, uint32_t *value, struct err *err)
{
    char name[KEY_CAP];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv) return required ? missing(hp, key, err) : true;
    if (kv->is_array && kv->n != hp->n_layer)
        return err_set(err, ERR_FORMAT, "%s: key %s has %zu items, but there are %u layers",
                       gguf_path(hp->g), name, kv->n, hp->n_layer);
    return item_u32(hp, key, kv, kv->is_array ? layer : 0, lo, hi, value, err);
}

bool hparams_f64(const struct hparams *hp, const char *key, double lo, double hi, bool required,
                 double *value, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv) return required ? missing(hp, key, err) : true;
    double v;
    if (!gguf_f64(hp->g, name, &v))
        return err_set(err, ERR_FORMAT, "%s: key %s should be a number, but is %s",
                       gguf_path(hp->g), name, found_text(kv, found));
    if (!(v >= lo && v <= hi))
        return err_set(err, ERR_FORMAT, "%s: key %s should be between %g and %g, but is %g",
                       gguf_path(hp->g), name, lo, hi, v);
    *value = v;
    return true;
}

bool hparams_layer_f64(const struct hparams *hp, const char *key, uint32_t layer, double lo,
                       double hi, double *value, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv) return true;
    const bool is_float = kv->type == GGUF_F32 || kv->type == GGUF_F64;
    if (!is_float || (kv->is_array && kv->n != hp->n_layer))
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be a number or an array of %u floats, but is %s",
                       gguf_path(hp->g), name, hp->n_layer, found_text(kv, found));
    const double v = gguf_item_float(kv, kv->is_array ? layer : 0);
    if (!(v >= lo && v <= hi))
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be between %g and %g, but is %g in layer %u",
                       gguf_path(hp->g), name, lo, hi, v, layer);
    *value = v;
    return true;
}

bool hparams_f64_alias(const struct hparams *hp, const char *key, const char *alias, double lo,
                       double hi, double *value, struct err *err)
{
    return hparams_f64(hp, alias, lo, hi, false, value, err) &&
           hparams_f64(hp, key, lo, hi, false, value, err);
}

static bool even_u32(const struct hparams *hp, const char *key, uint32_t most, uint32_t *value,
                     struct err *err)
{
    if (!hparams_u32(hp, key, 2, most, false, value, err)) return false;
    return *value % 2 == 0 ||
           err_set(err, ERR_FORMAT, "%s: key %s.%s should be even, but is %u", gguf_path(hp->g),
                   hp->arch, key, *value);
}

bool hparams_n_rot(const struct hparams *hp, const char *key, uint32_t head_dim,
                   uint32_t *n_rot, struct err *err)
{
    *n_rot = head_dim;
    return even_u32(hp, key, head_dim, n_rot, err);
}

bool hparams_rope_base(const struct hparams *hp, const char *key, double *base, struct err *err)
{
    return hparams_f64(hp, key, 1.0009765625, 1e15, false, base, err);
}

bool hparams_bool(const struct hparams *hp, const char *key, bool *value, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv || gguf_bool(hp->g, name, value)) return true;
    return err_set(err, ERR_FORMAT, "%s: key %s should be a bool, but is %s", gguf_path(hp->g),
                   name, found_text(kv, found));
}

bool hparams_layer_bool(const struct hparams *hp, const char *key, uint32_t layer, bool *value,
                        struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, key, name));
    if (!kv) return true;
    if (!kv->is_array || kv->type != GGUF_BOOL || kv->n != hp->n_layer)
        return err_set(err, ERR_FORMAT, "%s: key %s should be an array of %u bools, but is %s",
                       gguf_path(hp->g), name, hp->n_layer, found_text(kv, found));
    *value = gguf_item_int(kv, layer) != 0;
    return true;
}

bool hparams_unit_limit(const struct hparams *hp, const char *key, uint32_t layer, float least,
                        float *limit, struct err *err)
{
    double value = (double)*limit;
    if (!hparams_layer_f64(hp, key, layer, -1e6, 1e6, &value, err)) return false;
    if (value <= 1e-6) value = 0;
    *limit = (float)value;
    return value == 0 || value >= (double)least ||
           err_set(err, ERR_FORMAT,
                   "%s: key %s.%s should be 0 or at least %g, but is %g in layer %u",
                   gguf_path(hp->g), hp->arch, key, (double)least, value, layer);
}

bool hparams_unit_limits(struct hparams *hp, struct err *err)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        if (!hparams_unit_limit(hp, "swiglu_clamp_exp", i, LEAST_UNIT_LIMIT, &l->experts_limit,
                                err) ||
            !hparams_unit_limit(hp, "swiglu_clamp_shexp", i, LEAST_UNIT_LIMIT, &l->unit_limit,
                                err))
            return false;
    }
    return true;
}

bool hparams_indexer(struct hparams *hp, struct err *err)
{
    uint32_t top_k = 0, block = 1;
    if (!hparams_u32(hp, "attention.indexer.top_k", 1, MAX_CONTEXT, true, &top_k, err) ||
        !hparams_u32(hp, "attention.indexer.block_size", 1, MAX_CONTEXT, false, &block, err))
        return false;
    const uint64_t n = (uint64_t)top_k * block;
    hp->reach.n = n < MAX_CONTEXT ? (uint32_t)n : MAX_CONTEXT;
    hp->reach.beyond = "attends to what its indexer chooses";
    hp->reach.key = "attention.indexer.top_k";
    return true;
}

bool hparams_slopes(struct hparams *hp, double most, struct err *err)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = false;
    if (!hparams_f64(hp, "attention.max_alibi_bias", 0, 32, false, &most, err)) return false;
    hp->max_bias = (float)most;
    return most == 0 || most >= 1e-3 ||
           err_set(err, ERR_FORMAT,
                   "%s: key %s.attention.max_alibi_bias should be 0 or at least 0.001, but is "
                   "%g",
                   gguf_path(hp->g), hp->arch, most);
}

static bool read_ssm_sizes(struct hparams *hp, struct err *err)
{
    return hparams_u32(hp, "ssm.conv_kernel", 2, 64, true, &hp->ssm.n_taps, err) &&
           hparams_u32(hp, "ssm.state_size", 1, MAX_HEAD_DIM, true, &hp->ssm.n_dim, err) &&
           hparams_u32(hp, "ssm.inner_size", 1, MAX_WIDTH, true, &hp->ssm.n_inner, err);
}

bool hparams_ssm1(struct hparams *hp, struct err *err)
{
    hp->ssm.n_group = hp->ssm.n_head = 1;
    return read_ssm_sizes(hp, err) &&
           hparams_u32(hp, "ssm.time_step_rank", 1, MAX_WIDTH, true, &hp->ssm.n_step, err);
}

static bool ssm_shares(const struct hparams *hp, struct err *err)
{
    if (hp->ssm.n_head % hp->ssm.n_group == 0 && hp->ssm.n_inner % hp->ssm.n_head == 0)
        return true;
    return err_set(err, ERR_FORMAT,
                   "%s: recurrent layers have %u values, %u heads and %u groups, which do not "
                   "share evenly",
                   gguf_path(hp->g), hp->ssm.n_inner, hp->ssm.n_head, hp->ssm.n_group);
}

bool hparams_ssm(struct hparams *hp, struct err *err)
{
    return read_ssm_sizes(hp, err) &&
           hparams_u32(hp, "ssm.group_count", 1, MAX_HEADS, true, &hp->ssm.n_group, err) &&
           hparams_u32(hp, "ssm.time_step_rank", 1, MAX_HEADS, true, &hp->ssm.n_head, err) &&
           ssm_shares(hp, err);
}

bool hparams_ssm_heads(struct hparams *hp, struct err *err)
{
    uint32_t n_said = 0;
    hp->ssm.n_group = 1;
    if (!hparams_u32(hp, "ssm.group_count", 0, MAX_HEADS, false, &n_said, err)) return false;
    if (n_said > 0)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.ssm.group_count is %u, but heads of hearth's %s are in no "
                       "groups",
                       gguf_path(hp->g), hp->arch, n_said, hp->arch);
    return read_ssm_sizes(hp, err) &&
           hparams_u32(hp, "ssm.time_step_rank", 1, MAX_HEADS, true, &hp->ssm.n_head, err) &&
           ssm_shares(hp, err);
}

static bool read_scaling_type(struct hparams *hp, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, "rope.scaling.type", name));
    hp->scaling = SCALING_LINEAR;
    if (!kv) return true;
    struct gguf_str s;
    if (!gguf_string(hp->g, name, &s))
        return err_set(err, ERR_FORMAT, "%s: key %s should be a string, but is %s",
                       gguf_path(hp->g), name, found_text(kv, found));
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
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, "attention.head_count", name));
    return hp->headless || (kv && kv->is_array) ? 0 : 1;
}

static bool read_layers(struct hparams *hp, struct err *err)
{
    const uint32_t least = least_heads(hp);
    hp->layers = mem_zalloc(hp->n_layer, sizeof *hp->layers);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        l->rope = true;
        if (!layer_u32(hp, "attention.head_count", i, least, MAX_HEADS, true, &l->n_head, err))
            return false;
        l->n_head_kv = l->n_head;
        if (!layer_u32(hp, "attention.head_count_kv", i, 0, MAX_HEADS, false, &l->n_head_kv,
                       err) ||
            !layer_u32(hp, "feed_forward_length", i, 0, MAX_WIDTH, false, &l->n_ff, err))
            return false;
        l->n_ff_exp = l->n_ff;
        if (!layer_u32(hp, "expert_feed_forward_length", i, 0, MAX_WIDTH, false, &l->n_ff_exp,
                       err))
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

/* One group of all experts is none. */
static bool read_expert_groups(struct hparams *hp, struct err *err)
{
    uint32_t n = 0, n_used = 0;
    if (!hparams_u32(hp, "expert_group_count", 0, MAX_ROUTE_GROUPS, false, &n, err))
        return false;
    if (n <= 1) return true;
    if (!hparams_u32(hp, "expert_group_used_count", 1, n, true, &n_used, err)) return false;
    const uint32_t len = hp->n_expert / n;
    if (hp->n_expert % n != 0 || len < 2 || hp->n_expert_used > len * n_used)
        return err_set(err, ERR_FORMAT,
                       "%s: %u experts in %u groups, of which %u are used, do not give %u",
                       gguf_path(hp->g), hp->n_expert, n, n_used, hp->n_expert_used);
    hp->n_expert_groups = n;
    hp->n_expert_groups_used = n_used;
    return true;
}

static bool read_experts(struct hparams *hp, struct err *err)
{
    if (!hparams_u32(hp, "expert_count", 0, MAX_EXPERTS, false, &hp->n_expert, err))
        return false;
    double scale = 1.0;
    if (!hparams_f64(hp, "expert_weights_scale", 0, 1e6, false, &scale, err)) return false;
    hp->expert_scale = scale < 0x1p-20 ? 1.0f : (float)scale;
    if (hp->n_expert == 0) return true;
    return hparams_u32(hp, "expert_used_count", 1, hp->n_expert, true, &hp->n_expert_used,
                       err) &&
           read_expert_groups(hp, err);
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
    return read_layers(hp, err) && read_heads(hp, err) && read_experts(hp, err) &&
           read_rope(hp, err);
}

/* Blocks at the end that predict tokens further on. */
static bool read_n_next(const struct hparams *hp, uint32_t *n, struct err *err)
{
    *n = 0;
    return hparams_u32(hp, "nextn_predict_layers", 0, hp->n_layer - 1, false, n, err);
}

/* Some converters write numbers for bools, and some nothing of the blocks at the end. */
static bool pattern_fits(const struct hparams *hp, const char *name, const struct gguf_kv *kv,
                         struct err *err)
{
    char found[64];
    uint32_t n_next;
    if (!read_n_next(hp, &n_next, err)) return false;
    if ((kv->type == GGUF_BOOL || gguf_is_int(kv->type)) &&
        (kv->n == hp->n_layer || kv->n == hp->n_layer - n_next))
        return true;
    return err_set(err, ERR_FORMAT,
                   "%s: key %s should be a number or an array of %u bools, but is %s",
                   gguf_path(hp->g), name, hp->n_layer, found_text(kv, found));
}

bool hparams_has_windows(const struct hparams *hp, bool *has, struct err *err)
{
    uint32_t window = 0;
    if (!hparams_u32(hp, "attention.sliding_window", 0, MAX_CONTEXT, false, &window, err))
        return false;
    *has = window > 0;
    return true;
}

/* first: of every period layers the first sees everything, not the last. */
static bool set_windows(struct hparams *hp, uint32_t period, bool first, struct err *err)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    char name[KEY_CAP];
    uint32_t window = 0;
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, pattern, name));
    if (!hparams_u32(hp, "attention.sliding_window", 1, MAX_CONTEXT, true, &window, err))
        return false;
    if (kv && !kv->is_array && !hparams_u32(hp, pattern, 1, MAX_LAYERS, true, &period, err))
        return false;
    if (!kv && period == 0) return missing(hp, pattern, err);
    const bool array = kv && kv->is_array;
    if (array && !pattern_fits(hp, name, kv, err)) return false;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        bool windowed = period > 0 && (first ? i : i + 1) % period != 0;
        if (array) windowed = i < kv->n && gguf_item_int(kv, i) != 0;
        hp->layers[i].window = windowed ? window : 0;
    }
    return true;
}

bool hparams_windows(struct hparams *hp, uint32_t period, struct err *err)
{
    return set_windows(hp, period, false, err);
}

bool hparams_windows_behind(struct hparams *hp, uint32_t period, struct err *err)
{
    return set_windows(hp, period, true, err);
}

void hparams_limit_windows(struct hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (hp->layers[i].window > hp->n_ctx) hp->layers[i].window = hp->n_ctx;
}

bool hparams_local_rope(struct hparams *hp, uint32_t n_rot, double base, struct err *err)
{
    hp->rope_local.n_rot = n_rot;
    hp->rope_local.base = base;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope_local = hp->layers[i].window > 0;
    return hparams_rope_base(hp, "rope.freq_base_swa", &hp->rope_local.base, err);
}

bool hparams_local_dims(struct hparams *hp, uint32_t n_rot, double base, struct err *err)
{
    return even_u32(hp, "rope.dimension_count_swa", hp->layers[0].head_dim_k, &n_rot, err) &&
           hparams_local_rope(hp, n_rot, base, err);
}

bool hparams_places(struct hparams *hp, struct err *err)
{
    hp->places = true;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = false;
    return hp->n_ctx <= hp->n_ctx_train ||
           err_set(err, ERR_USER,
                   "%s: a context of %u tokens is longer than the %u positions that the model "
                   "has learned, and beyond these it has none",
                   gguf_path(hp->g), hp->n_ctx, hp->n_ctx_train);
}

bool hparams_unscaled(const struct hparams *hp, struct err *err)
{
    return (hp->scaling_factor == 1.0 && hp->attn_factor == 1.0) ||
           err_set(err, ERR_FORMAT,
                   "%s: the file scales its rotations (context by %g, cos and sin by %g), "
                   "which hearth's %s does not",
                   gguf_path(hp->g), hp->scaling_factor, hp->attn_factor, hp->arch);
}

bool hparams_rope_sections(struct hparams *hp, bool *has, struct err *err)
{
    char name[KEY_CAP], found[64];
    const struct gguf_kv *kv = gguf_find(hp->g, full_key(hp, "rope.dimension_sections", name));
    *has = kv != NULL;
    if (!kv) return true;
    if (!kv->is_array || !gguf_is_int(kv->type) || kv->n < 3)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be an array of 3 integers or more, but is %s",
                       gguf_path(hp->g), name, found_text(kv, found));
    for (size_t i = 0; i < 4 && i < kv->n; i++) {
        const int64_t n = gguf_item_int(kv, i);
        hp->rope_sections[i] = n < 0 ? 0 : n > MAX_HEAD_DIM ? MAX_HEAD_DIM : (uint32_t)n;
    }
    return true;
}

bool hparams_drop_next(struct hparams *hp, struct err *err)
{
    uint32_t n;
    if (!read_n_next(hp, &n, err)) return false;
    hp->n_layer -= n;
    hp->n_layer_kv = hp->n_layer;
    return true;
}

/* As files number routers; a softmax over the chosen is one of all, renormalised. */
enum { UNSAID, BY_SOFTMAX, BY_SIGMOID, BY_SOFTMAX_OF_CHOSEN };

static uint32_t gating_of(const struct hparams *hp)
{
    return hp->route == ROUTE_SIGMOID ? BY_SIGMOID : BY_SOFTMAX;
}

bool hparams_need_experts(struct hparams *hp, struct err *err)
{
    return hparams_u32(hp, "expert_count", 1, MAX_EXPERTS, true, &hp->n_expert, err);
}

bool hparams_route(struct hparams *hp, struct err *err)
{
    uint32_t gating = gating_of(hp);
    bool renormalised = !hp->route_as_is;
    if (!hparams_u32(hp, "expert_gating_func", BY_SOFTMAX, BY_SIGMOID, false, &gating, err) ||
        !hparams_bool(hp, "expert_weights_norm", &renormalised, err) ||
        !hparams_u32(hp, "leading_dense_block_count", 0, hp->n_layer, false, &hp->n_layer_dense,
                     err))
        return false;
    hp->route = gating == BY_SIGMOID ? ROUTE_SIGMOID : ROUTE_SOFTMAX;
    hp->route_as_is = !renormalised;
    return true;
}

void hparams_dense_layers(struct hparams *hp)
{
    char name[64];
    hp->n_layer_dense = 0;
    do
        snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight", hp->n_layer_dense);
    while (!gguf_tensor_find(hp->g, name) && ++hp->n_layer_dense < hp->n_layer);
}

static bool router_agrees(const struct hparams *hp, struct err *err)
{
    uint32_t said = UNSAID;
    if (hp->n_expert == 0) return true;
    if (!hparams_u32(hp, "expert_gating_func", 0, UINT32_MAX, false, &said, err)) return false;
    if (said == BY_SOFTMAX_OF_CHOSEN && !hp->route_as_is) said = BY_SOFTMAX;
    return said == UNSAID || said == gating_of(hp) ||
           err_set(err, ERR_FORMAT,
                   "%s: key %s.expert_gating_func is %u, but hearth's %s chooses experts by %s",
                   gguf_path(hp->g), hp->arch, said, hp->arch,
                   hp->route == ROUTE_SIGMOID ? "sigmoids" : "a softmax");
}

static bool weights_agree(const struct hparams *hp, struct err *err)
{
    bool renormalised = !hp->route_as_is;
    if (hp->n_expert == 0) return true;
    if (!hparams_bool(hp, "expert_weights_norm", &renormalised, err)) return false;
    return renormalised != hp->route_as_is ||
           err_set(err, ERR_FORMAT, "%s: key %s.expert_weights_norm is %s, but hearth's %s %s",
                   gguf_path(hp->g), hp->arch, renormalised ? "true" : "false", hp->arch,
                   hp->route_as_is ? "takes weights as they are" : "renormalises weights");
}

static bool groups_agree(const struct hparams *hp, struct err *err)
{
    return hp->n_expert_groups == 0 || hp->route == ROUTE_SIGMOID ||
           err_set(err, ERR_FORMAT,
                   "%s: key %s.expert_group_count is %u; experts in groups are chosen by "
                   "sigmoids, but the file's are not",
                   gguf_path(hp->g), hp->arch, hp->n_expert_groups);
}

static bool base_agrees(const struct hparams *hp, struct err *err)
{
    double said = hp->rope_base;
    bool has_windows = false;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct layer_hparams *l = &hp->layers[i];
        has_windows = has_windows || (l->window > 0 && l->rope && !l->rope_local);
    }
    if (!has_windows) return true;
    if (!hparams_rope_base(hp, "rope.freq_base_swa", &said, err)) return false;
    return said == hp->rope_base ||
           err_set(err, ERR_FORMAT,
                   "%s: key %s.rope.freq_base_swa is %g, but hearth's %s rotates by one base, "
                   "%g, in all layers",
                   gguf_path(hp->g), hp->arch, said, hp->arch, hp->rope_base);
}

bool hparams_agree(const struct hparams *hp, struct err *err)
{
    /* Some families know their own. */
    if (hp->norm_eps == 0) return missing(hp, "attention.layer_norm_rms_epsilon", err);
    return router_agrees(hp, err) && weights_agree(hp, err) && groups_agree(hp, err) &&
           base_agrees(hp, err);
}

bool hparams_shared_expert(struct hparams *hp, uint32_t width, struct err *err)
{
    hp->n_ff_shared = width;
    return hparams_u32(hp, "expert_shared_feed_forward_length", 0, MAX_WIDTH, false,
                       &hp->n_ff_shared, err);
}

bool hparams_shared_count(struct hparams *hp, struct err *err)
{
    const uint32_t n_ff = hp->layers[hp->n_layer - 1].n_ff_exp;
    uint32_t n = 0;
    if (!hparams_u32(hp, "expert_shared_count", 0, n_ff ? MAX_WIDTH / n_ff : MAX_EXPERTS, true,
                     &n, err))
        return false;
    hp->n_ff_shared = n * n_ff;
    return true;
}

bool hparams_softcap(struct hparams *hp, struct err *err)
{
    double cap = (double)hp->logit_softcap;
    if (!hparams_f64(hp, "final_logit_softcapping", 0, 1e6, false, &cap, err)) return false;
    hp->logit_softcap = cap < 0x1p-20 ? 0.0f : (float)cap;
    return true;
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
