/* gemma4 and gemma3n: windowed layers, layers at the end that read the cache of earlier ones,
 * an input of each layer's own per token. gemma4 has heads of their own size in windowed layers
 * and experts beside a dense feed-forward; gemma3n several streams in the place of one x, of
 * which layers work on the first, and gates of which most are cut away.
 */
#include <math.h>
#include <string.h>

#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

enum { MAX_STREAMS = 8, MAX_CUT = 100 };

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

/* h = norm(proj(act(gate x) · input)); h may be x. */
static void layer_input(struct builder *b, uint32_t layer, struct ref x, struct ref input,
                        struct ref h)
{
    struct ref gate = build_rows(b, "layer_gate", input.n);
    const struct linear in = layer_linear(b, layer, "inp_gate", x.n, gate);
    build_matmul(b, x, &in, 1);
    build_glu(b, gate, input, b->hp->glu, gate);
    const struct linear out = layer_linear(b, layer, "proj", input.n, h);
    build_matmul(b, gate, &out, 1);
    build_norm(b, h, layer_vector(b, layer, "post_norm.weight", x.n), 0, h);
}

/* out = norm(attention(h)). */
static void attention(struct builder *b, uint32_t layer, struct ref h, struct ref out)
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
    block_attention(b, layer, h, out, &a);
    build_norm(b, out, layer_vector(b, layer, "post_attention_norm.weight", h.n), 0, out);
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
    static const char what[] = "layer_output_scale.weight";
    char name[TENSOR_NAME_CAP];
    const bool has = weights_has(b->ws, layer_tensor(name, layer, what));
    return has ? layer_number(b, layer, what) : 1;
}

static void layer_gemma4(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->n_embd_layer;
    struct ref h = build_rows(b, "h", x.n), inputs = {0};
    if (n > 0) inputs = build_rows(b, "layer_inputs", n * hp->n_layer);
    if (n > 0 && layer == 0) build_layer_inputs(b, x, inputs);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    attention(b, layer, h, h);
    build_add(b, x, h, 1, x);
    build_norm(b, x, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_dense(b, layer, h, h);
    if (hp->n_expert > 0) add_experts(b, layer, x, h);
    build_norm(b, h, layer_vector(b, layer, "post_ffw_norm.weight", x.n), 0, h);
    build_add(b, x, h, 1, x);
    if (n > 0) {
        layer_input(b, layer, x, ref_part(inputs, layer * n, n), h);
        build_add(b, x, h, 1, x);
    }
    build_scale(b, x, output_scale(b, layer));
}

/* ---- gemma3n ---- */

static bool missing(const struct hparams *hp, const char *key, struct err *err)
{
    return err_set(err, ERR_FORMAT, "%s: key gemma3n.%s is missing", gguf_path(hp->g), key);
}

/* By layer how many deviations above the mean a gate is cut; -inf: it is not. */
static bool read_cuts(struct hparams *hp, struct err *err)
{
    static const char key[] = "gemma3n.activation_sparsity_scale";
    const struct gguf_kv *kv = gguf_find(hp->g, key);
    if (!kv) return missing(hp, key + strlen("gemma3n."), err);
    if (!kv->is_array || (kv->type != GGUF_F32 && kv->type != GGUF_F64) || kv->n != hp->n_layer)
        return err_set(err, ERR_FORMAT, "%s: key %s should be an array of %u numbers",
                       gguf_path(hp->g), key, hp->n_layer);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const double cut = gguf_item_float(kv, i);
        if (cut == -HUGE_VAL) continue;
        if (!(fabs(cut) <= MAX_CUT))
            return err_set(
                err, ERR_FORMAT,
                "%s: key %s should be within %d of 0 or -inf, but has %g of layer %u",
                gguf_path(hp->g), key, MAX_CUT, cut, i);
        hp->layers[i].cut_gate = true;
        hp->layers[i].gate_cut = (float)cut;
    }
    return true;
}

static bool read_gemma3n(struct hparams *hp, struct err *err)
{
    uint32_t active = 0;
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    hp->attn_scale = 1.0f;
    hp->n_streams = 4;
    hp->logit_softcap = 30;
    return hparams_u32(hp, "altup.num_inputs", 2, MAX_STREAMS, false, &hp->n_streams, err) &&
           /* Which of them layers work on: no file has another. */
           hparams_u32(hp, "altup.active_idx", 0, 0, false, &active, err) &&
           hparams_windows(hp, 5, err) && hparams_local_rope(hp, hp->n_rot, 10000.0, err) &&
           read_shared(hp, err) &&
           hparams_u32(hp, "embedding_length_per_layer_input", 1, MAX_WIDTH / hp->n_layer, true,
                       &hp->n_embd_layer, err) &&
           read_cuts(hp, err) && hparams_softcap(hp, err);
}

/* What a layer has beside x: all streams, the first n_embd values of which are the one that
 * layers work on, and what they are predicted to be. */
struct streams {
    struct ref all, predicted;
    size_t n; /* of each */
};

static struct streams streams_of(struct builder *b)
{
    const size_t n = b->hp->n_embd, n_all = b->hp->n_streams * n;
    return (struct streams){build_rows(b, "streams", n_all), build_rows(b, "predicted", n_all),
                            n};
}

static struct ref stream(const struct streams *s, struct ref all, size_t i)
{
    return ref_part(all, i * s->n, s->n);
}

static struct ref others(const struct streams *s)
{
    return ref_part(s->all, s->n, s->all.n - s->n);
}

/* out = the sum of coefs.n equal parts of in, each by its coefficient, which rows have for
 * themselves. */
static void mix(struct builder *b, struct ref coefs, struct ref in, struct ref out)
{
    const struct op_route given = {
        .scores = coefs, .out = build_route_rows(b, "coefs", coefs.n), .kind = ROUTE_GIVEN};
    build_route(b, &given);
    build_combine(b, in, given.out, out);
}

/* Each of the streams but the first by a matrix of its own, with a size of 1: from one row, or
 * if split, from all of them. */
static void other_streams(struct builder *b, const char *name, bool split, struct ref in,
                          struct ref out)
{
    const size_t n = b->hp->n_embd, n_mats = b->hp->n_streams - 1;
    const struct op_route each = {.out = build_route_rows(b, "each", n_mats),
                                  .kind = ROUTE_EACH};
    build_route(b, &each);
    build_experts(
        b, in,
        &(struct op_matmul_experts){.route = each.out,
                                    .w = weights_experts(b->ws, name, n_mats, n_mats, 1, n, n),
                                    .out = out,
                                    .split = split,
                                    .n_parts = 1});
    build_unit(b, out, n);
}

/* The first is x; the others are made from it and have its size. */
static void open_streams(struct builder *b, struct ref x, const struct streams *s)
{
    struct ref size = build_rows(b, "size", 1), made = others(s);
    struct ref rest = ref_part(s->predicted, 0, made.n); /* room until it is predicted */
    build_size(b, x, size);
    other_streams(b, "altup_proj.weight", false, x, rest);
    build_add(b, x, x, 0, stream(s, s->all, 0));
    for (size_t i = 1; i < b->hp->n_streams; i++)
        mix(b, size, ref_part(rest, (i - 1) * s->n, s->n), stream(s, s->all, i));
}

/* x = the mean of all, the others brought back and given the size of the first. */
static void close_streams(struct builder *b, const struct streams *s, struct ref x)
{
    const size_t n_others = b->hp->n_streams - 1;
    const struct op_route each = {.out = build_route_rows(b, "each", n_others),
                                  .kind = ROUTE_EACH};
    struct ref size = build_rows(b, "size", 1), h = build_rows(b, "h", s->n);
    struct ref first = stream(s, s->all, 0),
               rest = ref_part(s->predicted, s->n, n_others * s->n);
    build_size(b, first, size);
    other_streams(b, "altup_unembd_proj.weight", true, others(s), rest);
    build_route(b, &each);
    build_combine(b, rest, each.out, h);
    mix(b, size, h, x);
    build_add(b, first, x, 1, x);
    build_scale(b, x, 1.0f / (float)b->hp->n_streams);
}

/* What the router of a layer says of a row of the first stream: one value for each. */
static struct ref modalities(struct builder *b, uint32_t layer, struct ref row)
{
    struct ref in = build_rows(b, "router_in", row.n);
    struct ref out = build_rows(b, "modalities", b->hp->n_streams);
    build_norm(b, row, layer_vector(b, layer, "altup_router_norm.weight", row.n), 0, in);
    const struct linear router = layer_linear(b, layer, "altup_router", row.n, out);
    build_matmul(b, in, &router, 1);
    build_scale(b, out, 1.0f / (float)row.n);
    build_glu(b, out, out, GLU_TANH_ALONE, out);
    return out;
}

/* Each stream plus a sum of all. */
static void predict(struct builder *b, uint32_t layer, const struct streams *s)
{
    const size_t n = b->hp->n_streams;
    struct ref coefs = build_rows(b, "stream_coefs", n * n);
    struct ref from = modalities(b, layer, stream(s, s->all, 0));
    const struct linear mat = layer_linear(b, layer, "altup_predict_coef", n, coefs);
    build_matmul(b, from, &mat, 1);
    for (size_t i = 0; i < n; i++)
        mix(b, ref_part(coefs, i * n, n), s->all, stream(s, s->predicted, i));
    build_add(b, s->predicted, s->all, 1, s->predicted);
}

/* Each stream is its prediction and part of what the first turned out to be beside its own. h
 * is overwritten. */
static void correct(struct builder *b, uint32_t layer, const struct streams *s, struct ref h)
{
    const size_t n = b->hp->n_streams;
    struct ref coefs = build_rows(b, "stream_coefs", n);
    struct ref from = modalities(b, layer, h);
    struct linear mat = layer_linear(b, layer, "altup_correct_coef", n, coefs);
    mat.bias = weights_constant(b->ws, n, 1);
    build_matmul(b, from, &mat, 1);
    build_add(b, h, stream(s, s->predicted, 0), -1, h);
    for (size_t i = 0; i < n; i++)
        mix(b, ref_part(coefs, i, 1), h, stream(s, s->all, i));
    build_add(b, s->all, s->predicted, 1, s->all);
}

/* out = h + norm(right(left(h))), where left makes few values. */
static void laurel(struct builder *b, uint32_t layer, struct ref h, struct ref out)
{
    char name[TENSOR_NAME_CAP];
    const size_t n = weights_dim(b->ws, layer_tensor(name, layer, "laurel_l.weight"), 1);
    if (n == 0) {
        weights_fail(b->ws, ERR_FORMAT, "tensor %s is missing or empty", name);
        return;
    }
    struct ref few = build_rows(b, "laurel_few", n);
    const struct linear left = layer_linear(b, layer, "laurel_l", h.n, few);
    build_matmul(b, h, &left, 1);
    const struct linear right = layer_linear(b, layer, "laurel_r", few.n, out);
    build_matmul(b, few, &right, 1);
    build_norm(b, out, layer_vector(b, layer, "laurel_post_norm.weight", h.n), 0, out);
    build_add(b, out, h, 1, out);
}

/* What becomes of the prediction of the first stream, in h. */
static void first_stream(struct builder *b, uint32_t layer, struct ref x, struct ref h)
{
    struct ref attended = build_rows(b, "attended", x.n), beside = build_rows(b, "laurel", x.n);
    build_norm(b, x, layer_vector(b, layer, "attn_norm.weight", x.n), 0, h);
    attention(b, layer, h, attended);
    laurel(b, layer, h, beside);
    build_add(b, attended, x, 1, attended);
    build_add(b, attended, beside, 1, attended);
    build_scale(b, attended, (float)sqrt(0.5));
    build_norm(b, attended, layer_vector(b, layer, "ffn_norm.weight", x.n), 0, h);
    block_dense(b, layer, h, h);
    build_norm(b, h, layer_vector(b, layer, "post_ffw_norm.weight", x.n), 0, h);
    build_add(b, h, attended, 1, h);
}

static void layer_gemma3n(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->n_embd_layer;
    const struct streams s = streams_of(b);
    struct ref h = build_rows(b, "h", x.n),
               inputs = build_rows(b, "layer_inputs", n * hp->n_layer);
    if (layer == 0) {
        build_layer_inputs(b, x, inputs);
        open_streams(b, x, &s);
    }
    predict(b, layer, &s);
    first_stream(b, layer, stream(&s, s.predicted, 0), h);
    correct(b, layer, &s, h);
    build_factors(b, stream(&s, s.all, 0),
                  layer_vector(b, layer, "altup_correct_scale.weight", x.n), NULL, h);
    layer_input(b, layer, h, ref_part(inputs, layer * n, n), h);
    for (size_t i = 1; i < hp->n_streams; i++)
        build_add(b, stream(&s, s.all, i), h, 1, stream(&s, s.all, i));
    if (layer + 1 == hp->n_layer) close_streams(b, &s, x);
}

const struct family families_gemma4[] = {
    {"gemma3n", read_gemma3n, layer_gemma3n},
    {"gemma4", read_gemma4, layer_gemma4},
    {NULL, NULL, NULL},
};
