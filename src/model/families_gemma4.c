/* gemma4: windowed layers with heads of their own size, layers at the end that read the cache
 * of earlier ones, an input of each layer's own per token, experts beside a dense feed-forward.
 */
#include <math.h>

#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

static bool read_heads(struct hparams *hp, struct err *err)
{
    uint32_t dim_k = hp->layers[0].head_dim_k, dim_v = hp->layers[0].head_dim_v;
    if (!hparams_u32(hp, "attention.key_length_swa", 2, MAX_HEAD_DIM, false, &dim_k, err) ||
        !hparams_u32(hp, "attention.value_length_swa", 2, MAX_HEAD_DIM, false, &dim_v, err))
        return false;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (hp->layers[i].window == 0) continue;
        hp->layers[i].head_dim_k = dim_k;
        hp->layers[i].head_dim_v = dim_v;
    }
    uint32_t n_rot;
    return hparams_n_rot(hp, "rope.dimension_count_swa", dim_k, &n_rot, err) &&
           hparams_local_rope(hp, n_rot, 10000.0, err);
}

/* The layer whose cache a layer from n_layer_kv on reads: the last one of its kind. */
static uint32_t shared_with(const struct hparams *hp, uint32_t layer)
{
    return hp->n_layer_kv - (hp->layers[layer].window > 0 ? 2 : 1);
}

/* The last two layers with a cache are a windowed and a full one, if any is shared. */
static bool read_shared(struct hparams *hp, struct err *err)
{
    uint32_t n_shared = 0;
    if (!hparams_u32(hp, "attention.shared_kv_layers", 0, hp->n_layer - 1, false, &n_shared,
                     err))
        return false;
    hp->n_layer_kv = hp->n_layer - n_shared;
    for (uint32_t i = hp->n_layer_kv; i < hp->n_layer; i++) {
        const struct layer_hparams *l = &hp->layers[i], *s = NULL;
        if (hp->n_layer_kv >= 2) s = &hp->layers[shared_with(hp, i)];
        if (s && s->window == l->window && s->n_head_kv == l->n_head_kv) continue;
        return err_set(err, ERR_FORMAT,
                       "%s: layer %u reads the keys of an earlier layer, but no layer like it "
                       "is at the end of the %u that have some",
                       gguf_path(hp->g), i, hp->n_layer_kv);
    }
    return true;
}

static bool read_gemma4(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    hp->attn_scale = 1.0f;
    return hparams_windows(hp, 0, err) && read_heads(hp, err) && read_shared(hp, err) &&
           hparams_u32(hp, "embedding_length_per_layer_input", 0, MAX_WIDTH / hp->n_layer,
                       false, &hp->n_embd_layer, err) &&
           hparams_softcap(hp, err);
}

/* What all layers add for a token: of its id and of its embedding x. */
static void build_layer_inputs(struct builder *b, struct ref x, struct ref inputs)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->n_embd_layer;
    const float half_root = (float)sqrt(0.5);
    struct ref from_x = build_rows(b, "layer_inputs_x", inputs.n);
    const struct linear proj = {
        .w = weights_matrix(b->ws, "per_layer_model_proj.weight", inputs.n, x.n),
        .out = from_x};
    build_matmul(b, x, &proj, 1);
    build_scale(b, from_x, (float)(1.0 / sqrt((double)x.n)));
    build_norm(b, from_x, weights_vector(b->ws, "per_layer_proj_norm.weight", n), n, from_x);
    build_embed(b, weights_table(b->ws, "per_layer_token_embd.weight", hp->n_vocab, inputs.n),
                (float)sqrt((double)n * 0.5), inputs);
    build_add(b, inputs, from_x, half_root, inputs);
}

/* x += norm(proj(act(gate x) · input)). */
static void add_layer_input(struct builder *b, uint32_t layer, struct ref x, struct ref h,
                            struct ref input)
{
    struct ref gate = build_rows(b, "layer_gate", input.n);
    const struct linear in = layer_linear(b, layer, "inp_gate", x.n, gate);
    build_matmul(b, x, &in, 1);
    build_glu(b, gate, input, b->hp->glu, gate);
    const struct linear out = layer_linear(b, layer, "proj", input.n, h);
    build_matmul(b, gate, &out, 1);
    build_norm(b, h, layer_vector(b, layer, "post_norm.weight", x.n), 0, h);
    build_add(b, x, h, 1, x);
}

static void attention(struct builder *b, uint32_t layer, struct ref x, struct ref h)
{
    struct attention a = {.pairs = ROPE_NEOX, .qk_norm = true, .v_norm = true};
    if (layer >= b->hp->n_layer_kv) {
        /* Converters keep what such layers have and do not use. */
        static const char *const unused[] = {"attn_k.weight", "attn_v.weight",
                                             "attn_k_norm.weight"};
        char name[TENSOR_NAME_CAP];
        for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
            weights_ignore(b->ws, layer_tensor(name, layer, unused[i]));
        a.kv = shared_with(b->hp, layer);
    }
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    block_attention(b, layer, h, h, &a);
    build_norm(b, h, layer_vector(b, layer, "post_attention_norm.weight", x.n), 0, h);
    build_add(b, x, h, 1, x);
}

/* Adds to h, the dense part, what the experts make of x. */
static void add_experts(struct builder *b, uint32_t layer, struct ref x, struct ref h)
{
    struct ref router_in = build_rows(b, "router_in", x.n);
    struct ref e = build_rows(b, "experts", x.n);
    build_norm(b, h, layer_vector(b, layer, "post_ffw_norm_1.weight", x.n), 0, h);
    build_norm(b, x, layer_vector(b, layer, "ffn_gate_inp.scale", x.n), 0, router_in);
    build_scale(b, router_in, (float)(1.0 / sqrt((double)x.n)));
    build_norm(b, x, layer_vector(b, layer, "pre_ffw_norm_2.weight", x.n), 0, e);
    block_experts_by(b, layer, router_in, e, e);
    build_norm(b, e, layer_vector(b, layer, "post_ffw_norm_2.weight", x.n), 0, e);
    build_add(b, h, e, 1, h);
}

/* The number that the layer's output is multiplied by; 1: the file has none. */
static float output_scale(struct builder *b, uint32_t layer)
{
    char name[TENSOR_NAME_CAP];
    float scale = 1;
    layer_tensor(name, layer, "layer_output_scale.weight");
    if (weights_has(b->ws, name) && weights_values(b->ws, name, 1, &scale) &&
        !(fabsf(scale) <= 1e6f))
        weights_fail(b->ws, ERR_FORMAT, "tensor %s: expected a number, found %g", name,
                     (double)scale);
    return scale;
}

static void layer_gemma4(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->n_embd_layer;
    struct ref h = build_rows(b, "h", x.n), inputs = {0};
    if (n > 0) inputs = build_rows(b, "layer_inputs", n * hp->n_layer);
    if (n > 0 && layer == 0) build_layer_inputs(b, x, inputs);
    attention(b, layer, x, h);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_dense(b, layer, h, h);
    if (hp->n_expert > 0) add_experts(b, layer, x, h);
    build_norm(b, h, layer_vector(b, layer, "post_ffw_norm.weight", x.n), 0, h);
    build_add(b, x, h, 1, x);
    if (n > 0) add_layer_input(b, layer, x, h, ref_part(inputs, layer * n, n));
    build_scale(b, x, output_scale(b, layer));
}

const struct family families_gemma4[] = {
    {"gemma4", read_gemma4, layer_gemma4},
    {NULL, NULL, NULL},
};
