/* The feed-forward block, dense and with experts. */
#include "model/blocks.h"

void block_feedforward(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                       bool gate_in_up)
{
    const size_t n_ff = b->hp->layers[layer].n_ff;
    struct ref both = build_rows(b, "gate_up", 2 * n_ff);
    struct ref gate = ref_part(both, 0, n_ff), up = ref_part(both, n_ff, n_ff);
    struct linear mats[2];
    if (gate_in_up) {
        mats[0] = layer_linear(b, layer, "ffn_up", in.n, both);
        build_matmul(b, in, mats, 1);
    } else {
        mats[0] = layer_linear(b, layer, "ffn_gate", in.n, gate);
        mats[1] = layer_linear(b, layer, "ffn_up", in.n, up);
        build_matmul(b, in, mats, 2);
    }
    build_glu(b, gate, up, GLU_SILU, gate);
    const struct linear down = layer_linear(b, layer, "ffn_down", n_ff, out);
    build_matmul(b, gate, &down, 1);
}

static const struct weight *experts(struct builder *b, uint32_t layer, const char *what,
                                    size_t n_rows, size_t n_cols)
{
    char name[TENSOR_NAME_CAP];
    return weights_experts(b->ws, layer_tensor(name, layer, what), b->hp->n_expert,
                           b->hp->n_expert_used, n_rows, n_cols);
}

void block_experts(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    const size_t n_ff = hp->layers[layer].n_ff_exp, n_used = hp->n_expert_used;
    struct ref scores = build_rows(b, "scores", hp->n_expert);
    struct ref route = build_route_rows(b, "route", n_used);
    const struct linear router = layer_linear(b, layer, "ffn_gate_inp", in.n, scores);
    build_matmul(b, in, &router, 1);
    build_route(b, &(struct op_route){.scores = scores,
                                      .out = route,
                                      .kind = ROUTE_SOFTMAX,
                                      .renormalise = true,
                                      .scale = hp->expert_scale});

    struct ref both = build_rows(b, "gate_up", 2 * n_used * n_ff);
    struct ref gate = ref_part(both, 0, n_used * n_ff);
    struct ref up = ref_part(both, n_used * n_ff, n_used * n_ff);
    struct op_matmul_experts ex = {.route = route, .n_parts = 1};
    ex.w = experts(b, layer, "ffn_gate_exps.weight", n_ff, in.n);
    ex.out = gate;
    build_experts(b, in, &ex);
    ex.w = experts(b, layer, "ffn_up_exps.weight", n_ff, in.n);
    ex.out = up;
    build_experts(b, in, &ex);
    build_glu(b, gate, up, GLU_SILU, gate);
    struct ref each = build_rows(b, "expert_out", n_used * out.n);
    ex.w = experts(b, layer, "ffn_down_exps.weight", out.n, n_ff);
    ex.out = each;
    ex.split = true;
    build_experts(b, gate, &ex);
    build_combine(b, each, route, out);
}
