/* The feed-forward block, dense and with experts. */
#include <assert.h>
#include <stdio.h>

#include "base/real.h"
#include "model/blocks.h"

/* The tensors of a width of 0 would only be said to have a wrong shape. */
static bool has_width(struct builder *b, uint32_t layer, const char *key, size_t n)
{
    return n > 0 ||
           weights_fail(b->ws, ERR_FORMAT,
                        "key %s.%s should be positive for layer %u, but is missing or 0",
                        b->hp->arch, key, layer);
}

/* Places for n values of gate and up. */
struct gate_up {
    struct ref both, gate, up;
};

static struct gate_up gate_up_rows(struct builder *b, enum gate_rows gate, size_t n)
{
    struct gate_up r;
    const bool one = gate == GATE_IS_UP;
    r.both = build_rows(b, "gate_up", one ? n : 2 * n);
    r.gate = ref_part(r.both, 0, n);
    r.up = one ? r.gate : ref_part(r.both, n, n);
    return r;
}

/* What SiLUs of gates are kept below. Of gates that are kept below a positive limit they are
 * what they are of all, kept below that of the limit. */
static float silu_limit(const struct hparams *hp, float limit)
{
    const double x = (double)limit;
    return hp->limit_first ? (float)(x / (1.0 + real_exp(-x))) : limit;
}

/* The SiLU of the gate kept below its limit, times up kept within limit: no SiLU is as far
 * below 0 as a limit may be. */
static void limited_unit(struct builder *b, const struct gate_up *r, float limit)
{
    const float most = silu_limit(b->hp, limit);
    assert(b->hp->glu == GLU_SILU && most >= LEAST_UNIT_LIMIT);
    build_glu(b, r->gate, r->gate, GLU_SIGMOID, r->gate);
    build_limit(b, r->gate, most);
    build_limit(b, r->up, limit);
    build_glu(b, r->gate, r->up, GLU_LINEAR, r->gate);
}

/* gate = s tanh(gate / s) sigmoid(gate) · u tanh(up / u), s and u the numbers of hparams.situ.
 */
static void situ_unit(struct builder *b, const struct gate_up *r)
{
    const float s = b->hp->situ.gate, u = b->hp->situ.up;
    if (u > 0) {
        build_scale(b, r->up, 1.0f / u);
        build_glu(b, r->up, r->up, GLU_TANH_ALONE, r->up);
    }
    build_scale(b, r->up, u > 0 ? s * u : s);
    build_glu(b, r->gate, r->up, GLU_SIGMOID, r->up);
    build_scale(b, r->gate, 1.0f / s);
    build_glu(b, r->gate, r->gate, GLU_TANH_ALONE, r->gate);
    build_glu(b, r->gate, r->up, GLU_LINEAR, r->gate);
}

static void gate_unit(struct builder *b, const struct gate_up *r, float limit)
{
    if (b->hp->situ.gate > 0)
        situ_unit(b, r);
    else if (limit == 0.0f)
        build_glu(b, r->gate, r->up, b->hp->glu, r->gate);
    else
        limited_unit(b, r, limit);
}

/* What becomes of n_ff values of gate and up, by the matrices of these names. */
static struct ref gated_unit(struct builder *b, uint32_t layer, struct ref in, size_t n_ff,
                             enum gate_rows gate, const char *gate_name, const char *up_name)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    const struct gate_up r = gate_up_rows(b, gate, n_ff);
    struct linear mats[2];
    uint32_t n_mats = 0;
    if (gate == GATE_APART) {
        mats[n_mats++] = layer_linear(b, layer, gate_name, in.n, r.gate);
        mats[n_mats++] = layer_linear(b, layer, up_name, in.n, r.up);
    } else {
        mats[n_mats++] = layer_linear(b, layer, up_name, in.n, r.both);
    }
    build_matmul(b, in, mats, n_mats);
    if (l->cut_gate) {
        build_centre(b, r.gate, 0, r.gate);
        build_cut(b, r.gate, l->gate_cut, r.gate);
    }
    if (l->has_xielu)
        build_xielu(b, r.gate, l->xielu.square, l->xielu.bend, l->xielu.slope);
    else
        gate_unit(b, &r, l->unit_limit);
    return r.gate;
}

void block_dense(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const size_t n_ff = b->hp->layers[layer].n_ff;
    if (!has_width(b, layer, "feed_forward_length", n_ff)) return;
    struct ref unit = gated_unit(b, layer, in, n_ff, b->hp->gate, "ffn_gate", "ffn_up");
    if (b->hp->inner_norms) layer_norm(b, layer, "ffn_sub_norm.weight", unit, unit);
    const struct linear down = layer_linear(b, layer, "ffn_down", n_ff, out);
    build_matmul(b, unit, &down, 1);
}

/* Experts that a route leads to: those of "ffn_gate_<name>" and so on. */
struct expert_kind {
    const char *name;
    size_t n_ff;      /* of one */
    uint32_t n_share; /* as in struct op_matmul_experts */
    float limit;      /* of their units; 0: none */
};

/* Whether factors of what experts give count in the weights of the route, which one kind alone
 * reads. */
static bool scales_in_route(const struct hparams *hp)
{
    return !hp->route_first && hp->adjugate.n_share == 0;
}

/* The product of "ffn_<part>_<kind>.weight", and ".scale" and ".bias" where the file has them,
 * for the chosen experts. */
static void product(struct builder *b, uint32_t layer, const struct expert_kind *kind,
                    const char *part, struct ref in, struct op_matmul_experts ex,
                    struct ref out)
{
    const struct hparams *hp = b->hp;
    char stem[TENSOR_NAME_CAP / 4], what[TENSOR_NAME_CAP / 2], name[TENSOR_NAME_CAP];
    const size_t n_out = out.n / ex.route.n, n_experts = hp->n_expert / experts_n_share(&ex);
    const size_t n_used = hp->n_expert_used < n_experts ? hp->n_expert_used : n_experts;
    snprintf(stem, sizeof stem, "ffn_%s_%s", part, kind->name);
    snprintf(what, sizeof what, "%s.weight", stem);
    ex.w = weights_experts(b->ws, layer_tensor(name, layer, what), n_experts, n_used,
                           ex.n_parts, n_out, ex.split ? in.n / ex.route.n : in.n);
    snprintf(what, sizeof what, "%s.scale", stem);
    if (!ex.split || !scales_in_route(hp))
        ex.factors =
            weights_factors_if(b->ws, layer_tensor(name, layer, what), ex.w, n_experts);
    snprintf(what, sizeof what, "%s.bias", stem);
    if (weights_has(b->ws, layer_tensor(name, layer, what)))
        ex.bias = weights_expert_vectors(b->ws, name, n_experts, n_used, n_out);
    ex.out = out;
    build_experts(b, in, &ex);
}

/* cap · tanh(scores / cap). */
static void cap_scores(struct builder *b, struct ref scores, float cap)
{
    if (cap == 0.0f) return;
    build_scale(b, scores, 1.0f / cap);
    build_glu(b, scores, scores, GLU_TANH_ALONE, scores);
    build_scale(b, scores, cap);
}

static struct ref route(struct builder *b, uint32_t layer, struct ref in)
{
    const struct hparams *hp = b->hp;
    char name[TENSOR_NAME_CAP];
    struct ref scores = build_rows(b, "scores", hp->n_expert);
    struct op_route op = {.scores = scores,
                          .out = build_route_rows(b, "route", hp->n_expert_used),
                          .kind = hp->route,
                          .renormalise = !hp->route_as_is,
                          .n_groups = hp->n_expert_groups,
                          .n_groups_used = hp->n_expert_groups_used,
                          .scale = hp->expert_scale};
    const struct linear router = layer_linear(b, layer, "ffn_gate_inp", in.n, scores);
    build_matmul(b, in, &router, 1);
    cap_scores(b, scores, hp->route_softcap);
    op.select =
        weights_vector_if(b->ws, layer_tensor(name, layer, "exp_probs_b.bias"), hp->n_expert);
    if (!op.select) /* as hy_v3 calls it */
        op.select =
            weights_vector_if(b->ws, layer_tensor(name, layer, "exp_probs_b"), hp->n_expert);
    if (scales_in_route(hp))
        op.scales = weights_vector_if(b->ws, layer_tensor(name, layer, "ffn_down_exps.scale"),
                                      hp->n_expert);
    build_route(b, &op);
    return op.out;
}

/* What experts of a kind give for the row, weighed by the route. */
static void chosen_experts(struct builder *b, uint32_t layer, const struct expert_kind *kind,
                           struct ref route, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    struct op_matmul_experts ex = {.route = route, .n_parts = 1, .n_share = kind->n_share};
    const struct gate_up r = gate_up_rows(b, hp->gate, route.n * kind->n_ff);
    char what[TENSOR_NAME_CAP / 2], name[TENSOR_NAME_CAP];
    snprintf(what, sizeof what, "ffn_gate_up_%s.weight", kind->name);
    if (weights_has(b->ws, layer_tensor(name, layer, what))) {
        ex.n_parts = 2;
        product(b, layer, kind, "gate_up", in, ex, r.gate);
        ex.part = 1;
        product(b, layer, kind, "gate_up", in, ex, r.up);
        ex.n_parts = 1, ex.part = 0;
    } else {
        if (hp->gate != GATE_IS_UP) product(b, layer, kind, "gate", in, ex, r.gate);
        product(b, layer, kind, "up", in, ex, r.up);
    }
    gate_unit(b, &r, kind->limit);
    ex.split = true;
    if (hp->route_first) {
        product(b, layer, kind, "down", r.gate, ex, out);
        return;
    }
    struct ref each = build_rows(b, "expert_out", route.n * out.n);
    product(b, layer, kind, "down", r.gate, ex, each);
    build_combine(b, each, route, out);
}

/* Adds what the smaller experts beside the others give. They read the same row and count by the
 * weights of the same route, as the authors' code has it; llama.cpp's read what the others give
 * and weigh by scores of other experts. */
static void add_adjugate(struct builder *b, uint32_t layer, struct ref route, struct ref in,
                         struct ref routed, struct ref out)
{
    const struct hparams *hp = b->hp;
    const struct expert_kind kind = {
        .name = "chexps", .n_ff = hp->adjugate.n_ff, .n_share = hp->adjugate.n_share};
    struct ref beside = build_rows(b, "adjugate", out.n);
    chosen_experts(b, layer, &kind, route, in, beside);
    build_add(b, routed, beside, hp->adjugate.scale, out);
}

void block_experts_by(struct builder *b, uint32_t layer, struct ref router_in, struct ref in,
                      struct ref out)
{
    const struct hparams *hp = b->hp;
    const struct layer_hparams *l = &hp->layers[layer];
    const struct expert_kind kind = {
        .name = "exps", .n_ff = l->n_ff_exp, .limit = l->experts_limit};
    if (!has_width(b, layer, "expert_feed_forward_length", kind.n_ff)) return;
    const struct ref by = route(b, layer, router_in);
    if (hp->route_first) {
        struct ref weighed = build_rows(b, "weighed", in.n);
        build_combine(b, in, by, weighed);
        in = weighed;
    }
    if (hp->adjugate.n_share == 0) {
        chosen_experts(b, layer, &kind, by, in, out);
        return;
    }
    struct ref routed = build_rows(b, "routed", out.n);
    chosen_experts(b, layer, &kind, by, in, routed);
    add_adjugate(b, layer, by, in, routed, out);
}

/* Experts whose input is narrower than the row that the router reads: a product before and one
 * behind them. */
static void narrow_experts(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const size_t n = b->hp->n_ff_narrow;
    struct ref narrow = build_rows(b, "narrow", n);
    char name[TENSOR_NAME_CAP];
    /* As kimi-k3 calls it. */
    const bool routed = weights_has(b->ws, layer_tensor(name, layer, "ffn_routed_down.weight"));
    const struct linear down =
        layer_linear(b, layer, routed ? "ffn_routed_down" : "ffn_latent_down", in.n, narrow);
    build_matmul(b, in, &down, 1);
    block_experts_by(b, layer, in, narrow, narrow);
    if (weights_has(b->ws, layer_tensor(name, layer, "ffn_routed_norm.weight")))
        build_norm(b, narrow, weights_vector(b->ws, name, n), 0, narrow);
    const struct linear up =
        layer_linear(b, layer, routed ? "ffn_routed_up" : "ffn_latent_up", n, out);
    build_matmul(b, narrow, &up, 1);
}

static void routed_experts(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    if (b->hp->n_ff_narrow > 0)
        narrow_experts(b, layer, in, out);
    else
        block_experts_by(b, layer, in, in, out);
}

/* Adds to `routed` what the expert gives that all rows use; out may be in. */
static void shared_expert(struct builder *b, uint32_t layer, struct ref in, struct ref routed,
                          struct ref out)
{
    const size_t n_ff = b->hp->n_ff_shared;
    struct ref shared = build_rows(b, "shared", out.n);
    const enum gate_rows gate = b->hp->shared_in_up ? GATE_IN_UP : b->hp->gate;
    struct ref unit = gated_unit(b, layer, in, n_ff, gate, "ffn_gate_shexp", "ffn_up_shexp");
    const struct linear down = layer_linear(b, layer, "ffn_down_shexp", n_ff, shared);
    build_matmul(b, unit, &down, 1);
    if (b->hp->shared_gated) {
        struct ref weight = build_rows(b, "shared_gate", 1);
        const struct linear w = layer_linear(b, layer, "ffn_gate_inp_shexp", in.n, weight);
        build_matmul(b, in, &w, 1);
        build_row_gate(b, shared, weight, GLU_SIGMOID);
    }
    build_add(b, routed, shared, 1, out);
}

void block_feedforward(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    if (hp->n_expert == 0 || layer < hp->n_layer_dense || hp->layers[layer].dense) {
        block_dense(b, layer, in, out);
    } else if (hp->n_ff_shared == 0) {
        routed_experts(b, layer, in, out);
    } else {
        struct ref routed = build_rows(b, "routed", out.n);
        routed_experts(b, layer, in, routed);
        shared_expert(b, layer, in, routed, out);
    }
}

struct ref block_begin(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n);
    layer_norm(b, layer, "attn_norm.weight", x, h);
    return h;
}

void block_add_feedforward(struct builder *b, uint32_t layer, struct ref x, struct ref h)
{
    const struct hparams *hp = b->hp;
    layer_norm(b, layer, hp->ffn_norm, x, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, h, hp->residual_scale, x);
}

void block_end(struct builder *b, uint32_t layer, struct ref x, struct ref h)
{
    build_add(b, x, h, b->hp->residual_scale * b->hp->attn_out_scale, x);
    block_add_feedforward(b, layer, x, h);
}

void block_plain_layer(struct builder *b, uint32_t layer, struct ref x,
                       const struct attention *a)
{
    struct ref h = block_begin(b, layer, x);
    block_attention(b, layer, h, h, a);
    block_end(b, layer, x, h);
}

/* Attention comes first, for behind it rows without logits end. */
void block_parallel_layer(struct builder *b, uint32_t layer, struct ref x, const char *norm,
                          const char *ffn_norm, const struct attention *a)
{
    struct ref h = build_rows(b, "h", x.n), attended = build_rows(b, "attended", x.n);
    layer_norm(b, layer, norm, x, h);
    block_attention(b, layer, h, attended, a);
    if (ffn_norm) layer_norm(b, layer, ffn_norm, x, h);
    block_feedforward(b, layer, h, h);
    build_add(b, x, attended, 1, x);
    build_add(b, x, h, 1, x);
}
