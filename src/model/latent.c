/* Attention over compressed keys and values (MLA). A head's rotated part stands in front, where
 * files have it behind: scores are the same. */
#include <assert.h>
#include <math.h>

#include "model/blocks.h"

/* The sizes of a layer. */
struct parts {
    size_t n_rot, n_plain; /* of a head of queries or keys: with a rotation and without one */
    size_t n_kv;           /* of the narrow row */
    size_t n_v;            /* of a head of values */
};

/* Rotates the parts of heads that rotate, in layers that do. */
static void rotate(struct builder *b, uint32_t layer, struct ref x)
{
    if (!b->hp->layers[layer].rope) return;
    const enum rope_pairs pairs = b->hp->rope_halves ? ROPE_NEOX : ROPE_NORM;
    build_rope(b, x, b->hp->n_rot, block_rope(b, layer, pairs));
}

static bool is_local(const struct builder *b, uint32_t layer)
{
    return b->hp->latent_local.n_kv > 0 && b->hp->layers[layer].window > 0;
}

static struct parts parts_of(const struct builder *b, uint32_t layer)
{
    const struct hparams *hp = b->hp;
    struct parts n = {hp->n_rot, hp->latent.head_dim_k - hp->n_rot, hp->latent.n_kv,
                      hp->latent.head_dim_v};
    if (is_local(b, layer)) {
        n.n_plain = hp->latent_local.head_dim_k - hp->n_rot;
        n.n_kv = hp->latent_local.n_kv;
        n.n_v = hp->latent_local.head_dim_v;
    }
    return n;
}

/* Queries of all heads as the file has them, the rotated part behind the plain one. */
static struct ref project_queries(struct builder *b, uint32_t layer, struct ref in)
{
    const struct hparams *hp = b->hp;
    const uint32_t n_q = hp->latent.n_q;
    const struct parts n = parts_of(b, layer);
    struct ref q = build_rows(b, "q", hp->layers[layer].n_head * (n.n_rot + n.n_plain));
    if (n_q == 0) {
        const struct linear all = layer_linear(b, layer, "attn_q", in.n, q);
        build_matmul(b, in, &all, 1);
        return q;
    }
    struct ref narrow = build_rows(b, "q_narrow", n_q);
    const struct linear down = layer_linear(b, layer, "attn_q_a", in.n, narrow);
    build_matmul(b, in, &down, 1);
    build_norm(b, narrow, layer_vector(b, layer, "attn_q_a_norm.weight", n_q), 0, narrow);
    const struct linear up = layer_linear(b, layer, "attn_q_b", n_q, q);
    build_matmul(b, narrow, &up, 1);
    return q;
}

/* The plain parts of all heads, and the others rotated, each after each other. */
static void split_queries(struct builder *b, uint32_t layer, struct ref q, struct ref *rot,
                          struct ref *plain)
{
    const struct parts n = parts_of(b, layer);
    const size_t n_head = b->hp->layers[layer].n_head;
    *plain = build_rows(b, "q_plain", n_head * n.n_plain);
    *rot = build_rows(b, "q_rot", n_head * n.n_rot);
    build_deal(b, q, n.n_plain, n.n_rot, *plain, *rot);
    rotate(b, layer, *rot);
}

/* The narrow row, and the part of the keys that all heads share, rotated. */
static void project_keys(struct builder *b, uint32_t layer, struct ref in, struct ref *narrow,
                         struct ref *rot)
{
    const struct hparams *hp = b->hp;
    const size_t n_kv = parts_of(b, layer).n_kv;
    struct ref both = build_rows(b, "kv_narrow", n_kv + hp->n_rot);
    *narrow = ref_part(both, 0, n_kv);
    *rot = ref_part(both, n_kv, hp->n_rot);
    const struct linear down = layer_linear(b, layer, "attn_kv_a_mqa", in.n, both);
    build_matmul(b, in, &down, 1);
    build_norm(b, *narrow, layer_vector(b, layer, "attn_kv_a_norm.weight", n_kv), 0, *narrow);
    if (hp->latent.key_norm)
        build_norm(b, *rot, layer_vector(b, layer, "attn_k_norm.weight", rot->n), 0, *rot);
    rotate(b, layer, *rot);
}

/* Each head's product with a matrix of its own. */
static void product_by_head(struct builder *b, uint32_t layer, const char *what, struct ref in,
                            struct ref out)
{
    const size_t n_head = b->hp->layers[layer].n_head;
    char name[TENSOR_NAME_CAP];
    struct op_route each = {.out = build_route_rows(b, "each", n_head), .kind = ROUTE_EACH};
    build_route(b, &each);
    build_experts(b, in,
                  &(struct op_matmul_experts){
                      .route = each.out,
                      .w = weights_experts(b->ws, layer_tensor(name, layer, what), n_head,
                                           n_head, 1, out.n / n_head, in.n / n_head),
                      .out = out,
                      .split = true,
                      .n_parts = 1});
}

static struct ref attend(struct builder *b, uint32_t layer, struct ref q, struct ref k,
                         struct ref v, bool sinks)
{
    const struct hparams *hp = b->hp;
    const struct layer_hparams *l = &hp->layers[layer];
    const struct parts n = parts_of(b, layer);
    const uint32_t kv = build_kv(b, l->n_head_kv, l->head_dim_k, l->head_dim_v, l->window);
    const float local = (float)(1.0 / sqrt((double)(n.n_rot + n.n_plain)));
    build_kv_store(b, k, v, kv);
    if (hp->temp_log_scale > 0)
        build_row_scale(b, q, build_row_scale_table(b, hp->temp_log_scale, hp->temp_period, 0));
    if (layer + 1 == hp->n_layer_kv) build_head_rows(b);
    struct ref heads = build_rows(b, "heads", (size_t)l->n_head * l->head_dim_v);
    build_attend(
        b, &(struct op_attend){
               .q = q,
               .out = heads,
               .kv = kv,
               .n_heads = l->n_head,
               .window = l->window,
               .scale = is_local(b, layer) ? local : hp->attn_scale,
               .sinks = sinks ? layer_vector(b, layer, "attn_sinks.weight", l->n_head) : NULL});
    return heads;
}

/* The cache has the narrow row. */
static struct ref attend_narrow(struct builder *b, uint32_t layer, struct ref q_rot,
                                struct ref q_plain, struct ref narrow, struct ref k_rot,
                                bool sinks)
{
    const struct parts n = parts_of(b, layer);
    const size_t n_head = b->hp->layers[layer].n_head, n_kv = n.n_kv, n_rot = n.n_rot;
    struct ref q_narrow = build_rows(b, "q_brought", n_head * n_kv);
    struct ref q = build_rows(b, "q_wide", n_head * (n_rot + n_kv));
    struct ref k = build_rows(b, "k_wide", n_rot + n_kv);
    product_by_head(b, layer, "attn_k_b.weight", q_plain, q_narrow);
    build_join(b, q_rot, n_rot, q_narrow, n_kv, q);
    build_join(b, k_rot, n_rot, narrow, n_kv, k);
    struct ref heads = attend(b, layer, q, k, narrow, sinks);
    struct ref v = build_rows(b, "v", n_head * n.n_v);
    product_by_head(b, layer, "attn_v_b.weight", heads, v);
    return v;
}

/* The cache has keys and values of all heads. */
static struct ref attend_heads(struct builder *b, uint32_t layer, struct ref q_rot,
                               struct ref q_plain, struct ref narrow, struct ref k_rot,
                               bool sinks)
{
    const struct parts n = parts_of(b, layer);
    const size_t n_head = b->hp->layers[layer].n_head, n_v = n.n_v;
    struct ref kv = build_rows(b, "kv", n_head * (n.n_plain + n_v));
    struct ref k_plain = build_rows(b, "k_plain", n_head * n.n_plain);
    struct ref v = build_rows(b, "v", n_head * n_v);
    struct ref q = build_rows(b, "q_wide", n_head * (n.n_rot + n.n_plain));
    struct ref k = build_rows(b, "k_wide", q.n);
    const struct linear up = layer_linear(b, layer, "attn_kv_b", narrow.n, kv);
    build_matmul(b, narrow, &up, 1);
    build_deal(b, kv, n.n_plain, n_v, k_plain, v);
    build_join(b, q_rot, n.n_rot, q_plain, n.n_plain, q);
    build_join(b, k_rot, n.n_rot, k_plain, n.n_plain, k);
    return attend(b, layer, q, k, v, sinks);
}

/* Heads, or each of their values, by the sigmoid of a product of the row that attention reads.
 */
static void gate_heads(struct builder *b, uint32_t layer, struct ref in,
                       enum attention_gates gates, struct ref heads)
{
    assert(gates != GATES_IN_Q);
    if (gates == GATES_NONE) return;
    const size_t n = gates == GATES_HEADS ? b->hp->layers[layer].n_head : heads.n;
    struct ref gate = build_rows(b, "gate", n);
    const struct linear mat = layer_linear(b, layer, "attn_gate", in.n, gate);
    build_matmul(b, in, &mat, 1);
    if (gates == GATES_HEADS)
        build_row_gate(b, heads, gate, GLU_SIGMOID);
    else
        build_glu(b, gate, heads, GLU_SIGMOID, heads);
}

void block_latent_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                            enum attention_gates gates, bool sinks)
{
    struct ref q_rot, q_plain, narrow, k_rot;
    struct ref q = project_queries(b, layer, in);
    split_queries(b, layer, q, &q_rot, &q_plain);
    project_keys(b, layer, in, &narrow, &k_rot);
    struct ref heads = b->hp->latent.by_heads
                           ? attend_heads(b, layer, q_rot, q_plain, narrow, k_rot, sinks)
                           : attend_narrow(b, layer, q_rot, q_plain, narrow, k_rot, sinks);
    gate_heads(b, layer, in, gates, heads);
    const struct linear o = layer_linear(b, layer, "attn_output", heads.n, out);
    build_matmul(b, heads, &o, 1);
}
