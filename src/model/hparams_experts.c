/* What files say of experts: how many, how they are chosen, and what the others are kept
 * within. */
#include <stdio.h>

#include "gguf/gguf.h"
#include "model/hparams_impl.h"

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

bool hparams_read_experts(struct hparams *hp, struct err *err)
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

bool hparams_experts_agree(const struct hparams *hp, struct err *err)
{
    return router_agrees(hp, err) && weights_agree(hp, err) && groups_agree(hp, err);
}
