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
        block_latent_attention(b, layer, h, h, gates, false);
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

/* ---- kimi-k3: every few layers x is put by and begun anew, and what layers read is a mix of
 * all that were put by and x ---- */

/* What a mix is of at most: the weights of more are no row of a route on all devices. */
enum { MOST_MIXED = 32 };

static bool read_bank(struct hparams *hp, struct err *err)
{
    if (!hparams_u32(hp, "attn_res.block_size", 0, MAX_LAYERS, true, &hp->n_layer_bank, err))
        return false;
    const uint32_t n = hp->n_layer_bank;
    return n == 0 || (hp->n_layer + n - 1) / n < MOST_MIXED ||
           err_set(
               err, ERR_FORMAT,
               "%s: key %s.attn_res.block_size of %u puts by the rows of more than %d of %u "
               "layers",
               gguf_path(hp->g), hp->arch, n, MOST_MIXED - 1, hp->n_layer);
}

static bool read_situ(struct hparams *hp, struct err *err)
{
    double gate = 0, up = 0;
    if (!hparams_f64(hp, "activation.situ_beta", 1e-3, 1e3, true, &gate, err) ||
        !hparams_f64(hp, "activation.situ_linear_beta", -1e3, 1e3, true, &up, err))
        return false;
    hp->situ.gate = (float)gate;
    hp->situ.up = up < 1e-3 ? 0.0f : (float)up;
    return true;
}

static bool read_kimi_k3(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    hp->route_as_is = true;
    mark_recurrent(hp);
    for (uint32_t i = 0; i < hp->n_layer; i++)
        hp->layers[i].rope = false;
    if (!hparams_need_experts(hp, err) || !hparams_route(hp, err) ||
        !hparams_shared_count(hp, err) || !read_delta_heads(hp, err) ||
        !read_bound(hp, false, err) || !hparams_latent(hp, err) ||
        !hparams_u32(hp, "expert_latent_length", 0, MAX_WIDTH, false, &hp->n_ff_narrow, err) ||
        !read_situ(hp, err) || !read_bank(hp, err))
        return false;
    hp->attn_scale = (float)(1.0 / sqrt((double)hp->latent.head_dim_k));
    return true;
}

/* Row i of those put by, behind which is x as it grows. */
static struct ref banked(struct builder *b, size_t i)
{
    const struct hparams *hp = b->hp;
    const size_t most = (hp->n_layer - 1) / hp->n_layer_bank + 2;
    return ref_part(build_rows(b, "bank", most * hp->n_embd), i * hp->n_embd, hp->n_embd);
}

/* The first n values of a fall that leaves weights, which are at most 1, no say in the order.
 */
static const struct weight *in_order(struct builder *b, size_t n)
{
    float values[MOST_MIXED];
    for (size_t i = 0; i < n; i++)
        values[i] = 2.0f * (float)(n - 1 - i);
    return weights_given(b->ws, n, values);
}

/* out = the sum of the first n + 1 rows, each by its weight: a softmax of what they give, at a
 * size of 1, by the vector of that name. */
static void mix(struct builder *b, size_t n, const char *name, struct ref out)
{
    const size_t n_embd = b->hp->n_embd, n_mixed = n + 1;
    struct ref all = banked(b, 0);
    all.n = n_mixed * n_embd;
    struct ref sized = build_rows(b, "bank_sized", banked(b, 0).n * n_mixed);
    struct ref scores = build_rows(b, "bank_scores", n_mixed);
    build_norm(b, all, NULL, n_embd, sized);
    for (size_t i = 0; i < n_mixed; i++) {
        const struct linear score = {.w = weights_matrix(b->ws, name, 1, n_embd),
                                     .out = ref_part(scores, i, 1)};
        build_matmul(b, ref_part(sized, i * n_embd, n_embd), &score, 1);
    }
    /* Chosen are all, in their order. */
    const struct op_route weights = {.scores = scores,
                                     .out = build_route_rows(b, "bank_weights", n_mixed),
                                     .kind = ROUTE_SOFTMAX,
                                     .scale = 1,
                                     .select = in_order(b, n_mixed)};
    build_route(b, &weights);
    build_combine(b, all, weights.out, out);
}

static void mix_layer(struct builder *b, uint32_t layer, size_t n, const char *what,
                      struct ref out)
{
    char name[TENSOR_NAME_CAP];
    mix(b, n, layer_tensor(name, layer, what), out);
}

/* The first layer reads x alone, whatever its vector for a mix is. */
static void begin_bank(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    weights_ignore(b->ws, layer_tensor(name, layer, "attn_res_score.weight"));
    build_add(b, x, x, 0, banked(b, 0));
}

/* The layer with x in its place behind the n rows put by so far. */
static void layer_banked(struct builder *b, uint32_t layer, struct ref x,
                         enum attention_gates gates)
{
    const struct hparams *hp = b->hp;
    const uint32_t every = hp->n_layer_bank;
    size_t n = (layer + every - 1) / every;
    struct ref h = build_rows(b, "h", x.n);
    if (n == 0)
        begin_bank(b, layer, x);
    else
        mix_layer(b, layer, n, "attn_res_score.weight", x);
    layer_norm(b, layer, "attn_norm.weight", x, h);
    attend(b, layer, h, gates);
    const bool anew = layer % every == 0;
    if (anew) n++;
    struct ref grown = banked(b, n);
    build_add(b, h, anew ? h : grown, anew ? 0 : 1, grown);
    mix_layer(b, layer, n, "ffn_res_score.weight", x);
    layer_norm(b, layer, hp->ffn_norm, x, h);
    block_feedforward(b, layer, h, h);
    build_add(b, grown, h, 1, grown);
    if (layer + 1 == hp->n_layer) mix(b, n, "output_res_score.weight", x);
}

static void layer_kimi_k3(struct builder *b, uint32_t layer, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    const bool gated = weights_has(b->ws, layer_tensor(name, layer, "attn_gate.weight"));
    const enum attention_gates gates = gated ? GATES_APART : GATES_NONE;
    if (b->hp->n_layer_bank > 0)
        layer_banked(b, layer, x, gates);
    else
        layer_delta(b, layer, x, gates);
}

const struct family families_delta[] = {
    {"bailingmoe3", read_bailingmoe3, layer_bailingmoe3},
    {"kimi-k3", read_kimi_k3, layer_kimi_k3},
    {"kimi-linear", read_kimi_linear, layer_kimi_linear},
    {NULL, NULL, NULL},
};
