/* The attention block, and how blocks fetch their tensors. */
#include <stdio.h>

#include "model/blocks.h"

const char *layer_tensor(char out[TENSOR_NAME_CAP], uint32_t layer, const char *what)
{
    snprintf(out, TENSOR_NAME_CAP, "blk.%u.%s", layer, what);
    return out;
}

const struct weight *layer_vector(struct builder *b, uint32_t layer, const char *what, size_t n)
{
    char name[TENSOR_NAME_CAP];
    return weights_vector(b->ws, layer_tensor(name, layer, what), n);
}

static struct linear linear(struct builder *b, uint32_t layer, const char *stem, size_t n_cols,
                            struct ref out, bool need_bias)
{
    char what[TENSOR_NAME_CAP / 2], name[TENSOR_NAME_CAP];
    struct linear l = {.out = out};
    snprintf(what, sizeof what, "%s.weight", stem);
    l.w = weights_matrix(b->ws, layer_tensor(name, layer, what), out.n, n_cols);
    snprintf(what, sizeof what, "%s.bias", stem);
    layer_tensor(name, layer, what);
    l.bias =
        need_bias ? weights_vector(b->ws, name, out.n) : weights_vector_if(b->ws, name, out.n);
    return l;
}

struct linear layer_linear(struct builder *b, uint32_t layer, const char *stem, size_t n_cols,
                           struct ref out)
{
    return linear(b, layer, stem, n_cols, out, false);
}

struct linear layer_linear_bias(struct builder *b, uint32_t layer, const char *stem,
                                size_t n_cols, struct ref out)
{
    return linear(b, layer, stem, n_cols, out, true);
}

/* Q, K and V lie after each other in one buffer, so fused and separate projections write the
 * same rows and one op rotates Q and K. */
struct qkv {
    struct ref all, q, k, v;
};

static struct qkv project(struct builder *b, uint32_t layer, struct ref in,
                          const struct attention *a)
{
    const struct hparams *hp = b->hp;
    const struct layer_hparams *l = &hp->layers[layer];
    const size_t nq = (size_t)l->n_head * hp->head_dim_k;
    const size_t nk = (size_t)l->n_head_kv * hp->head_dim_k;
    const size_t nv = (size_t)l->n_head_kv * hp->head_dim_v;
    struct qkv r = {.all = build_rows(b, "qkv", nq + nk + nv)};
    r.q = ref_part(r.all, 0, nq);
    r.k = ref_part(r.all, nq, nk);
    r.v = ref_part(r.all, nq + nk, nv);
    char name[TENSOR_NAME_CAP];
    struct linear mats[3];
    if (weights_has(b->ws, layer_tensor(name, layer, "attn_qkv.weight"))) {
        mats[0] = linear(b, layer, "attn_qkv", in.n, r.all, a->need_bias);
        build_matmul(b, in, mats, 1);
    } else {
        mats[0] = linear(b, layer, "attn_q", in.n, r.q, a->need_bias);
        mats[1] = linear(b, layer, "attn_k", in.n, r.k, a->need_bias);
        mats[2] = linear(b, layer, "attn_v", in.n, r.v, a->need_bias);
        build_matmul(b, in, mats, 3);
    }
    return r;
}

void block_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     const struct attention *a)
{
    const struct hparams *hp = b->hp;
    const struct layer_hparams *l = &hp->layers[layer];
    if (l->n_head_kv == 0) {
        weights_fail(b->ws, ERR_FORMAT, "layer %u has no KV heads, which %s needs", layer,
                     hp->arch);
        return;
    }
    struct qkv r = project(b, layer, in, a);
    if (a->qk_norm) {
        const size_t dim = hp->head_dim_k;
        build_norm(b, r.q, layer_vector(b, layer, "attn_q_norm.weight", dim), dim, r.q);
        build_norm(b, r.k, layer_vector(b, layer, "attn_k_norm.weight", dim), dim, r.k);
    }
    if (l->rope)
        build_rope(b, ref_part(r.all, 0, r.q.n + r.k.n), hp->head_dim_k,
                   block_rope(b, a->pairs));
    if (hp->temp_log_scale > 0)
        build_row_scale(b, r.q, build_row_scale_table(b, hp->temp_log_scale, hp->n_ctx_orig));
    const uint32_t kv = build_kv(b, l->n_head_kv, hp->head_dim_k, hp->head_dim_v);
    build_kv_store(b, r.k, r.v, kv);
    if (layer + 1 == hp->n_layer) build_head_rows(b);

    struct ref heads = build_rows(b, "heads", (size_t)l->n_head * hp->head_dim_v);
    build_attend(b, &(struct op_attend){.q = r.q,
                                        .out = heads,
                                        .kv = kv,
                                        .n_heads = l->n_head,
                                        .scale = hp->attn_scale,
                                        .window = a->window});
    const struct linear o = layer_linear(b, layer, "attn_output", heads.n, out);
    build_matmul(b, heads, &o, 1);
}
