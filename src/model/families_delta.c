/* Families whose layers have Kimi delta attention, and now and then attention over compressed
 * keys and values. */
#include <math.h>

#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

/* Layers without keys and values of their own have states. */
static void mark_recurrent(struct hparams *hp)
{
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].recurrent = hp->layers[i].n_head_kv == 0;
}

static bool read_delta_heads(struct hparams *hp, struct err *err)
{
    const uint32_t n_head = hp->layers[0].n_head;
    uint32_t n_dim = 0;
    if (!hparams_u32(hp, "ssm.conv_kernel", 2, 64, true, &hp->ssm.n_taps, err) ||
        !hparams_u32(hp, "kda.head_dim", 1, MAX_WIDTH / MAX_HEADS, true, &n_dim, err))
        return false;
    hp->ssm.n_dim = n_dim;
    hp->ssm.n_group = hp->ssm.n_head = n_head;
    hp->ssm.n_inner = n_head * n_dim;
    return true;
}

static void attend(struct builder *b, uint32_t layer, struct ref h, enum attention_gates gates)
{
    if (b->hp->layers[layer].recurrent)
        block_delta_attention(b, layer, h, h);
    else
        block_latent_attention(b, layer, h, h, gates);
}

static void layer_delta(struct builder *b, uint32_t layer, struct ref x,
                        enum attention_gates gates)
{
    struct ref h = block_begin(b, layer, x);
    attend(b, layer, h, gates);
    block_end(b, layer, x, h);
}

/* ---- bailingmoe3: decays have a bound, attention a gate for each head ---- */

/* exp(bound) is still a number that states can be multiplied by. */
static bool read_bound(struct hparams *hp, bool required, struct err *err)
{
    double bound = 0;
    if (!hparams_f64(hp, "kda.gate_lower_bound", -30, -1e-3, required, &bound, err))
        return false;
    hp->ssm.decay_bound = (float)bound;
    return true;
}

static bool read_bailingmoe3(struct hparams *hp, struct err *err)
{
    bool safe = true;
    hp->route_as_is = true;
    hp->route = ROUTE_SIGMOID;
    mark_recurrent(hp);
    if (!hparams_need_experts(hp, err) || !hparams_route(hp, err) ||
        !hparams_shared_count(hp, err) || !hparams_shared_expert(hp, hp->n_ff_shared, err) ||
        !read_delta_heads(hp, err) || !hparams_bool(hp, "kda.safe_gate", &safe, err) ||
        !read_bound(hp, true, err) || !hparams_latent(hp, err) ||
        !hparams_unit_limits(hp, err) || !hparams_drop_next(hp, err))
        return false;
    if (!safe)
        return err_set(err, ERR_FORMAT,
                       "%s: key %s.kda.safe_gate is false, but hearth's %s "
                       "has decays with a bound only",
                       gguf_path(hp->g), hp->arch, hp->arch);
    hp->attn_scale = (float)(1.0 / sqrt((double)hp->latent.head_dim_k));
    return true;
}

static void layer_bailingmoe3(struct builder *b, uint32_t layer, struct ref x)
{
    layer_delta(b, layer, x, GATES_HEADS);
}

/* ---- kimi-linear: nothing rotates ---- */

static bool read_kimi_linear(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    mark_recurrent(hp);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = false;
    if (!hparams_need_experts(hp, err) || !hparams_route(hp, err) ||
        !hparams_shared_count(hp, err) || !read_delta_heads(hp, err) ||
        !hparams_latent(hp, err))
        return false;
    hp->route_as_is = false; /* whatever the file says, or it is refused */
    hp->attn_scale = (float)(1.0 / sqrt((double)hp->latent.head_dim_k));
    return true;
}

static void layer_kimi_linear(struct builder *b, uint32_t layer, struct ref x)
{
    layer_delta(b, layer, x, GATES_NONE);
}

const struct family families_delta[] = {
    {"bailingmoe3", read_bailingmoe3, layer_bailingmoe3},
    {"kimi-linear", read_kimi_linear, layer_kimi_linear},
    {NULL, NULL, NULL},
};
