/* The attention block, and how blocks fetch their tensors. */
#include <assert.h>
#include <math.h>
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

float layer_number(struct builder *b, uint32_t layer, const char *what)
{
    char name[TENSOR_NAME_CAP];
    float number = 1;
    if (weights_values(b->ws, layer_tensor(name, layer, what), 1, &number) &&
        !(fabsf(number) <= 1e6f))
        weights_fail(b->ws, ERR_FORMAT, "tensor %s: expected a number, found %g", name,
                     (double)number);
    return number;
}

void layer_norm(struct builder *b, uint32_t layer, const char *what, struct ref in,
                struct ref out)
{
    char name[TENSOR_NAME_CAP];
    build_row_norm(b, in, layer_tensor(name, layer, what), out);
}

void layer_ignore_indexer(struct builder *b, uint32_t layer)
{
    static const char *const tensors[] = {"attn_q_b.weight", "attn_k.weight", "k_norm.bias",
                                          "proj.weight",     "q_proj.weight", "k_proj.weight",
                                          "q_norm.weight",   "k_norm.weight"};
    char name[TENSOR_NAME_CAP], what[TENSOR_NAME_CAP / 2];
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        snprintf(what, sizeof what, "indexer.%s", tensors[i]);
        weights_ignore(b->ws, layer_tensor(name, layer, what));
    }
}

static struct linear linear(struct builder *b, uint32_t layer, const char *stem, size_t n_cols,
                            struct ref out, bool need_bias)
{
    char what[TENSOR_NAME_CAP / 2], name[TENSOR_NAME_CAP];
    struct linear l = {.out = out};
    snprintf(what, sizeof what, "%s.weight", stem);
    l.w = weights_matrix(b->ws, layer_tensor(name, layer, what), out.n, n_cols);
    snprintf(what, sizeof what, "%s.scale", stem);
    l.factor = weights_factors_if(b->ws, layer_tensor(name, layer, what), l.w, 1);
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

/* Q, K and V lie after each other in one buffer, so fused and separate projections write the
 * same rows and one op rotates Q and K. Only where a fused one has gates, too, K and V are left
 * where it puts them. */
struct qkv {
    struct ref all, q, k, v;
};

static struct qkv rows_of(struct builder *b, const struct layer_hparams *l)
{
    const size_t nq = (size_t)l->n_head * l->head_dim_k;
    const size_t nk = (size_t)l->n_head_kv * l->head_dim_k;
    const size_t nv = (size_t)l->n_head_kv * l->head_dim_v;
    struct qkv r = {.all = build_rows(b, "qkv", nq + nk + nv)};
    r.q = ref_part(r.all, 0, nq);
    r.k = ref_part(r.all, nq, nk);
    r.v = ref_part(r.all, nq + nk, nv);
    return r;
}

/* What the heads' results are gated by, if they are. */
static struct ref gate_rows(struct builder *b, size_t n)
{
    return build_rows(b, "gate", n);
}

/* The gate: what the rows of Q have beside Q, or what a matrix of its own gives. */
static void project_gate(struct builder *b, uint32_t layer, struct ref in,
                         const struct attention *a, struct ref q_and_gate, struct ref q)
{
    const size_t dim = b->hp->layers[layer].head_dim_k;
    if (a->gates == GATES_IN_Q) build_deal(b, q_and_gate, dim, dim, q, gate_rows(b, q.n));
    if (a->gates != GATES_APART && a->gates != GATES_HEADS) return;
    const size_t n = a->gates == GATES_APART ? q.n : b->hp->layers[layer].n_head;
    const struct linear gate = layer_linear(b, layer, "attn_gate", in.n, gate_rows(b, n));
    build_matmul(b, in, &gate, 1);
}

static void project(struct builder *b, uint32_t layer, struct ref in, const struct attention *a,
                    struct qkv *r)
{
    char name[TENSOR_NAME_CAP];
    struct linear mats[3];
    uint32_t n_mats = 0;
    const bool fused = weights_has(b->ws, layer_tensor(name, layer, "attn_qkv.weight"));
    const size_t nk = r->k.n, nv = r->v.n;
    /* Without a matrix of their own values are what keys are, if they are as long. */
    const bool has_v = fused || !a->v_norm || nk != nv ||
                       weights_has(b->ws, layer_tensor(name, layer, "attn_v.weight"));
    struct ref all = r->all, q = r->q;
    if (a->gates == GATES_IN_Q) {
        const size_t nq = 2 * q.n;
        all = build_rows(b, "q_gate", fused ? nq + nk + nv : nq);
        q = ref_part(all, 0, nq);
        if (fused) r->k = ref_part(all, nq, nk), r->v = ref_part(all, nq + nk, nv);
    }
    if (fused) {
        mats[n_mats++] = linear(b, layer, "attn_qkv", in.n, all, a->need_bias);
    } else {
        mats[n_mats++] = linear(b, layer, "attn_q", in.n, q, a->need_bias);
        mats[n_mats++] = linear(b, layer, "attn_k", in.n, r->k, a->need_bias);
        if (has_v) mats[n_mats++] = linear(b, layer, "attn_v", in.n, r->v, a->need_bias);
    }
    build_matmul(b, in, mats, n_mats);
    assert(b->hp->qkv_limit == 0.0f || a->gates != GATES_IN_Q);
    build_limit(b, all, b->hp->qkv_limit);
    project_gate(b, layer, in, a, q, r->q);
    if (a->v_norm)
        build_norm(b, has_v ? r->v : r->k, NULL, b->hp->layers[layer].head_dim_v, r->v);
}

static void norm_heads(struct builder *b, uint32_t layer, const struct attention *a,
                       const char *norm, struct ref x)
{
    char name[TENSOR_NAME_CAP];
    if (a->norm_bare) {
        build_norm(b, x, NULL, b->hp->layers[layer].head_dim_k, x);
        return;
    }
    const bool maybe = a->norm_if || a->layer_norm_if;
    if (!a->qk_norm && !(maybe && weights_has(b->ws, layer_tensor(name, layer, norm)))) return;
    const size_t dim = b->hp->layers[layer].head_dim_k, group = a->norm_all ? x.n : dim;
    if (a->layer_norm_if) build_centre(b, x, dim, x);
    if (a->layer_norm_if || a->norm_each) {
        layer_tensor(name, layer, norm);
        build_norm(b, x, weights_flat(b->ws, name, x.n / dim, dim, false), dim, x);
    } else {
        build_norm(b, x, layer_vector(b, layer, norm, group), group, x);
    }
}

/* A norm of each head of Q, then a factor for each. */
static void norm_with_gains(struct builder *b, uint32_t layer, struct ref q)
{
    char name[TENSOR_NAME_CAP];
    const size_t dim = b->hp->layers[layer].head_dim_k;
    layer_tensor(name, layer, "attn_q_norm.weight");
    build_norm(b, q, weights_repeated(b->ws, name, q.n / dim, dim), dim, q);
}

static void norm_q_and_k(struct builder *b, uint32_t layer, const struct attention *a,
                         const struct qkv *r)
{
    if (a->head_gains)
        norm_with_gains(b, layer, r->q);
    else
        norm_heads(b, layer, a, "attn_q_norm.weight", r->q);
    norm_heads(b, layer, a, "attn_k_norm.weight", r->k);
}

/* Q, K and V of a layer up to its cache, whose index this returns. */
static uint32_t store(struct builder *b, uint32_t layer, struct ref in,
                      const struct attention *a, struct qkv *r)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    const size_t dim = l->head_dim_k;
    project(b, layer, in, a, r);
    if (!a->norm_last) norm_q_and_k(b, layer, a, r);
    if (l->rope) {
        const uint32_t rope = block_rope(b, layer, a->pairs);
        const bool apart = r->k.buf != r->q.buf;
        build_rope(b, apart ? r->q : ref_part(r->all, 0, r->q.n + r->k.n), dim, rope);
        if (apart) build_rope(b, r->k, dim, rope);
    }
    if (a->norm_last) norm_q_and_k(b, layer, a, r);
    const uint32_t kv = build_kv(b, l->n_head_kv, dim, l->head_dim_v, l->window);
    build_kv_store(b, r->k, r->v, kv);
    return kv;
}

/* Q alone, for a layer that reads the cache of another; a fused projection makes K and V, too,
 * which nothing reads. */
static void query(struct builder *b, uint32_t layer, struct ref in, const struct attention *a,
                  const struct qkv *r)
{
    char name[TENSOR_NAME_CAP];
    const struct ref q = r->q;
    const bool fused = weights_has(b->ws, layer_tensor(name, layer, "attn_qkv.weight"));
    const struct layer_hparams *l = &b->hp->layers[layer];
    const size_t dim = l->head_dim_k;
    const struct linear mat =
        linear(b, layer, fused ? "attn_qkv" : "attn_q", in.n, fused ? r->all : q, a->need_bias);
    build_matmul(b, in, &mat, 1);
    norm_heads(b, layer, a, "attn_q_norm.weight", q);
    if (l->rope) build_rope(b, q, dim, block_rope(b, layer, a->pairs));
}

/* Whether values of heads have gates of their own. */
static bool gates_values(const struct attention *a)
{
    return a->gates == GATES_IN_Q || a->gates == GATES_APART;
}

/* Whether the file's heads can be what the family's attention takes. */
static bool heads_fit(struct builder *b, uint32_t layer, const struct attention *a)
{
    const char *arch = b->hp->arch;
    const struct layer_hparams *l = &b->hp->layers[layer];
    if (l->n_head_kv == 0)
        return weights_fail(b->ws, ERR_FORMAT, "layer %u has no KV heads, which %s needs",
                            layer, arch);
    return !gates_values(a) || l->head_dim_v == l->head_dim_k ||
           weights_fail(b->ws, ERR_FORMAT,
                        "key %s.attention.value_length should be %u as the length of keys, "
                        "which gates have, but is %u",
                        arch, l->head_dim_k, l->head_dim_v);
}

static void gate_results(struct builder *b, const struct attention *a, uint32_t n_head,
                         struct ref heads)
{
    const enum glu_kind kind = a->softplus ? GLU_SOFTPLUS : GLU_SIGMOID;
    if (gates_values(a))
        build_glu(b, gate_rows(b, heads.n), heads, kind, heads);
    else if (a->gates == GATES_HEADS)
        build_row_gate(b, heads, gate_rows(b, n_head), kind);
}

static uint32_t window_of(const struct hparams *hp, const struct layer_hparams *l)
{
    return l->window | (hp->window_chunks && l->window > 0 ? (uint32_t)WINDOW_CHUNKS : 0);
}

void block_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     const struct attention *a)
{
    if (!heads_fit(b, layer, a)) return;
    const struct hparams *hp = b->hp;
    const struct layer_hparams *l = &hp->layers[layer];
    struct qkv r = rows_of(b, l);
    uint32_t kv = a->kv;
    if (layer < hp->n_layer_kv)
        kv = store(b, layer, in, a, &r);
    else
        query(b, layer, in, a, &r);
    if (hp->temp_log_scale > 0 && !(hp->temp_unrotated && l->rope))
        build_row_scale(
            b, r.q,
            build_row_scale_table(b, hp->temp_log_scale, hp->temp_period, hp->temp_ahead));
    /* Not `layer`: where tensors are of several layers, it is the first of these. */
    if ((uint32_t)b->layer + 1 == hp->n_layer_kv) build_head_rows(b);

    struct ref heads = build_rows(b, "heads", (size_t)l->n_head * l->head_dim_v);
    build_attend(
        b,
        &(struct op_attend){
            .q = r.q,
            .out = heads,
            .kv = kv,
            .n_heads = l->n_head,
            .scale = hp->attn_scale,
            .softcap = hp->attn_softcap,
            .window = window_of(hp, l),
            .slope_step = hp->max_bias / (float)attend_even_heads(l->n_head),
            .sinks = a->sinks ? layer_vector(b, layer, "attn_sinks.weight", l->n_head) : NULL,
        });
    gate_results(b, a, l->n_head, heads);
    if (hp->inner_norms) layer_norm(b, layer, "attn_sub_norm.weight", heads, heads);
    const struct linear o = layer_linear(b, layer, "attn_output", heads.n, out);
    build_matmul(b, heads, &o, 1);
}
