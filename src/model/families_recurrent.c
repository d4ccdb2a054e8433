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

static bool read_wkv(struct hparams *hp, bool gates, struct err *err)
{
    uint32_t n = 0;
    if (!hparams_u32(hp, "wkv.head_size", 1, MAX_WIDTH, true, &n, err) ||
        !hparams_u32(hp, "attention.decay_lora_rank", 1, MAX_WIDTH, true, &hp->wkv.n_decay,
                     err) ||
        !hparams_u32(hp, "attention.iclr_lora_rank", 1, MAX_WIDTH, true, &hp->wkv.n_rate,
                     err) ||
        !hparams_u32(hp, "attention.value_residual_mix_lora_rank", 1, MAX_WIDTH, true,
                     &hp->wkv.n_value, err) ||
        !hparams_u32(hp, "attention.gate_lora_rank", gates ? 1 : 0, MAX_WIDTH, gates,
                     &hp->wkv.n_gate, err))
        return false;
    if (hp->n_embd % n != 0)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.wkv.head_size of %u does not divide rows of %u values",
                       gguf_path(hp->g), hp->arch, n, hp->n_embd);
    hp->ssm.n_dim = n;
    hp->ssm.n_group = hp->ssm.n_head = hp->n_embd / n;
    hp->ssm.n_inner = hp->n_embd;
    return true;
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
    block_channel_mix(b, layer, h, h);
    build_add(b, x, h, 1, x);
}

static void layer_arwkv7(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = block_begin(b, layer, x);
    block_time_mix(b, layer, h, h);
    if (layer + 1 == b->hp->n_layer) build_head_rows(b);
    block_end(b, layer, x, h);
}

const struct family families_recurrent[] = {
    {"arwkv7", read_arwkv7, layer_arwkv7},
    {"mamba", read_mamba, layer_mamba},
    {"mamba2", hparams_ssm, layer_mamba2},
    {"rwkv7", read_rwkv7, layer_rwkv7},
    {NULL, NULL, NULL},
};
