/* What some families have and ask for: windows, rotations of their own, blocks left out,
 * indexers, slopes, recurrent layers. */
#include "gguf/gguf.h"
#include "model/hparams_impl.h"

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
    char found[FOUND_CAP];
    uint32_t n_next;
    if (!read_n_next(hp, &n_next, err)) return false;
    if ((kv->type == GGUF_BOOL || gguf_is_int(kv->type)) &&
        (kv->n == hp->n_layer || kv->n == hp->n_layer - n_next))
        return true;
    return err_set(err, ERR_FORMAT,
                   "%s: key %s should be a number or an array of %u bools, but is %s",
                   gguf_path(hp->g), name, hp->n_layer, hparams_found_text(kv, found));
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
    const struct gguf_kv *kv = gguf_find(hp->g, hparams_full_key(hp, pattern, name));
    if (!hparams_u32(hp, "attention.sliding_window", 1, MAX_CONTEXT, true, &window, err))
        return false;
    if (kv && !kv->is_array && !hparams_u32(hp, pattern, 1, MAX_LAYERS, true, &period, err))
        return false;
    if (!kv && period == 0) return hparams_missing(hp, pattern, err);
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
    return hparams_even_u32(hp, "rope.dimension_count_swa", hp->layers[0].head_dim_k, &n_rot,
                            err) &&
           hparams_local_rope(hp, n_rot, base, err);
}

bool hparams_bases_agree(const struct hparams *hp, struct err *err)
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
    char name[KEY_CAP], found[FOUND_CAP];
    const struct gguf_kv *kv =
        gguf_find(hp->g, hparams_full_key(hp, "rope.dimension_sections", name));
    *has = kv != NULL;
    if (!kv) return true;
    if (!kv->is_array || !gguf_is_int(kv->type) || kv->n < 3)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s should be an array of 3 integers or more, but is %s",
                       gguf_path(hp->g), name, hparams_found_text(kv, found));
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

bool hparams_softcap(struct hparams *hp, struct err *err)
{
    double cap = (double)hp->logit_softcap;
    if (!hparams_f64(hp, "final_logit_softcapping", 0, 1e6, false, &cap, err)) return false;
    hp->logit_softcap = cap < 0x1p-20 ? 0.0f : (float)cap;
    return true;
}
