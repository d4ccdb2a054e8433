/* Families whose layers are all recurrent: none has attention, keys or values. */
#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

/* ---- mamba: Mamba-1, some files with norms of what makes steps, B and C ---- */

static bool read_mamba(struct hparams *hp, struct err *err)
{
    hp->ssm.norm_bare = true;
    return hparams_ssm1(hp, err) && hparams_bool(hp, "ssm.dt_b_c_rms", &hp->ssm.normed, err);
}

static void layer_mamba(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_mamba(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

/* ---- mamba2 ---- */

static void layer_mamba2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_mamba2(b, layer, h, h, &(struct recurrent){0});
    build_add(b, x, h, 1, x);
}

/* ---- rwkv7, and arwkv7, which has RMS norms and the feed-forward of a transformer ---- */

/* Rows that a layer keeps for the next token. */
static bool read_shifts(struct hparams *hp, uint32_t n, struct err *err)
{
    uint32_t found = n;
    if (!hparams_u32(hp, "token_shift_count", 0, 2, false, &found, err)) return false;
    return found == n || err_set(err, ERR_FORMAT,
                                 "%s: key %s.token_shift_count is %u, but hearth's %s has %u",
                                 gguf_path(hp->g), hp->arch, found, hp->arch, n);
}

static bool read_wkv_heads(struct hparams *hp, struct err *err)
{
    uint32_t n = 0;
    if (!hparams_u32(hp, "wkv.head_size", 1, MAX_WIDTH, true, &n, err)) return false;
    if (hp->n_embd % n != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.wkv.head_size of %u does not divide rows of %u values",
                       gguf_path(hp->g), hp->arch, n, hp->n_embd);
    hp->ssm.n_dim = n;
    hp->ssm.n_group = hp->ssm.n_head = hp->n_embd / n;
    hp->ssm.n_inner = hp->n_embd;
    return true;
}

static bool read_wkv(struct hparams *hp, bool gates, struct err *err)
{
    return read_wkv_heads(hp, err) &&
           hparams_u32(hp, "attention.decay_lora_rank", 1, MAX_WIDTH, true, &hp->wkv.n_decay,
                       err) &&
           hparams_u32(hp, "attention.iclr_lora_rank", 1, MAX_WIDTH, true, &hp->wkv.n_rate,
                       err) &&
           hparams_u32(hp, "attention.value_residual_mix_lora_rank", 1, MAX_WIDTH, true,
                       &hp->wkv.n_value, err) &&
           hparams_u32(hp, "attention.gate_lora_rank", gates ? 1 : 0, MAX_WIDTH, gates,
                       &hp->wkv.n_gate, err);
}

static bool read_rwkv7(struct hparams *hp, struct err *err)
{
    hp->centred = true;
    hp->norm_vectors = NORM_BIASED;
    return read_shifts(hp, 2, err) && read_wkv(hp, true, err);
}

static bool read_arwkv7(struct hparams *hp, struct err *err)
{
    return read_shifts(hp, 1, err) && read_wkv(hp, false, err);
}

static void layer_rwkv7(struct builder *b, uint32_t layer, struct ref x)
{
    if (layer == 0) build_row_norm(b, x, "token_embd_norm.weight", x);
    struct ref h = block_begin(b, layer, x);
    block_time_mix(b, layer, h, h);
    build_add(b, x, h, 1, x);
    layer_norm(b, layer, "attn_norm_2.weight", x, h);
    block_channel_mix(b, layer, h, h, false);
    build_add(b, x, h, 1, x);
}

static void layer_arwkv7(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_time_mix(b, layer, h, h);
    if (layer + 1 == b->hp->n_layer) build_head_rows(b);
    block_end(b, layer, x, h);
}

/* ---- rwkv6, and rwkv6qwen2, which is to it as arwkv7 is to rwkv7 ---- */

/* Heads of keys and values serve as many of the others each. */
static bool kv_heads_fit(const struct hparams *hp, struct err *err)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const uint32_t n = hp->layers[i].n_head_kv;
        if (n > 0 && hp->ssm.n_head % n != 0)
            return err_set(err, ERR_FORMAT,
                           "%s: layer %u has %u heads, which is no multiple of its %u KV heads",
                           gguf_path(hp->g), i, hp->ssm.n_head, n);
    }
    return true;
}

static bool read_wkv6(struct hparams *hp, uint32_t most_halved, struct err *err)
{
    return read_wkv_heads(hp, err) && kv_heads_fit(hp, err) &&
           hparams_u32(hp, "time_mix_extra_dim", 1, MAX_WIDTH, true, &hp->wkv.n_mix, err) &&
           hparams_u32(hp, "time_decay_extra_dim", 1, MAX_WIDTH, true, &hp->wkv.n_decay, err) &&
           hparams_u32(hp, "rescale_every_n_layers", 0, most_halved, false, &hp->wkv.n_halved,
                       err);
}

static bool read_rwkv6(struct hparams *hp, struct err *err)
{
    hp->centred = true;
    hp->norm_vectors = NORM_BIASED;
    return read_shifts(hp, 2, err) && read_wkv6(hp, MAX_LAYERS, err);
}

static bool read_rwkv6qwen2(struct hparams *hp, struct err *err)
{
    return read_shifts(hp, 1, err) && read_wkv6(hp, 0, err);
}

static void layer_rwkv6(struct builder *b, uint32_t layer, struct ref x)
{
    const uint32_t n = b->hp->wkv.n_halved;
    if (layer == 0) build_row_norm(b, x, "token_embd_norm.weight", x);
    struct ref h = block_begin(b, layer, x);
    block_time_mix6(b, layer, h, h, false);
    build_add(b, x, h, 1, x);
    layer_norm(b, layer, "attn_norm_2.weight", x, h);
    block_channel_mix(b, layer, h, h, true);
    build_add(b, x, h, 1, x);
    if (n > 0 && (layer + 1) % n == 0) build_scale(b, x, 0.5f);
}

static void layer_rwkv6qwen2(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_time_mix6(b, layer, h, h, true);
    if (layer + 1 == b->hp->n_layer) build_head_rows(b);
    block_end(b, layer, x, h);
}

const struct family families_recurrent[] = {
    {"arwkv7", read_arwkv7, layer_arwkv7},
    {"mamba", read_mamba, layer_mamba},
    {"mamba2", hparams_ssm, layer_mamba2},
    {"rwkv6", read_rwkv6, layer_rwkv6},
    {"rwkv6qwen2", read_rwkv6qwen2, layer_rwkv6qwen2},
    {"rwkv7", read_rwkv7, layer_rwkv7},
    {NULL, NULL, NULL},
};
