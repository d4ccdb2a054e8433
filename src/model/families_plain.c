/* Families whose layers are attention over everything before, then a feed-forward. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/real.h"
#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

/* arcee, baichuan, chatglm, ernie4_5, internlm2, llama, mistral3, smollm3 and xverse; most
 * of their converters have permuted the rows of Q and K. */
void layer_llama(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NORM});
}

void layer_qwen2(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .need_bias = true});
}

void layer_qwen3(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true});
}

/* chatglm and phi3. The sliding window of some files of phi3 was not trained with and is
 * ignored everywhere. */
static bool read_gate_in_up(struct hparams *hp, struct err *err)
{
    (void)err;
    hp->gate = GATE_IN_UP;
    return true;
}

/* Ollama's converter had names of its own, and for a while it left YaRN out, with which every
 * model is trained that has a temperature by position. */
static bool read_mistral3(struct hparams *hp, struct err *err)
{
    double beta = 0;
    if (!hparams_f64(hp, "rope.scaling_beta", 0, 100, false, &beta, err)) return false;
    if (beta > 0 && hp->scaling != SCALING_YARN)
        return err_set(
            err, ERR_FORMAT,
            "%s: with key mistral3.rope.scaling_beta, key mistral3.rope.scaling.type "
            "should be yarn, but is not: the file lacks the scaling of its model",
            gguf_path(hp->g));
    hp->temp_log_scale = beta;
    return hparams_f64(hp, "attention.temperature_scale", 0, 100, false, &hp->temp_log_scale,
                       err) &&
           hparams_f64_alias(hp, "rope.scaling.yarn_log_multiplier",
                             "rope.scaling.mscale_all_dim", 0, 1e3, &hp->yarn_log_multiplier,
                             err);
}

static bool read_smollm3(struct hparams *hp, struct err *err)
{
    (void)err;
    for (uint32_t i = 3; i < hp->n_layer; i += 4)
        hp->layers[i].rope = false;
    return true;
}

/* The second norm of a layer is named for what it follows. */
static bool read_seed_oss(struct hparams *hp, struct err *err)
{
    (void)err;
    hp->ffn_norm = "post_attention_norm.weight";
    return true;
}

void layer_neox(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x, &(struct attention){.pairs = ROPE_NEOX});
}

static bool read_gemma(struct hparams *hp, struct err *err)
{
    (void)err;
    hp->glu = GLU_GELU;
    hp->embed_scale = (float)sqrt((double)hp->n_embd);
    return true;
}

/* Converters have put the factor of long contexts into the base, where a file does not name it.
 * 0 means that there is none; one below 2^-20 would be none, and its power no base. */
static bool read_hunyuan(struct hparams *hp, struct err *err)
{
    double alpha = 0;
    if (!hparams_f64(hp, "rope.scaling.alpha", 0, 1e6, false, &alpha, err)) return false;
    const double dim = hp->layers[0].head_dim_k;
    if (alpha >= 0x1p-20 && dim > 2) hp->rope_base *= real_pow(alpha, dim / (dim - 2.0));
    return true;
}

void layer_hunyuan(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NEOX, .qk_norm = true, .norm_last = true});
}

static void layer_maincoder(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(
        b, layer, x,
        &(struct attention){.pairs = ROPE_NORM, .qk_norm = true, .norm_last = true});
}

/* The larger of the two kinds, with 40 layers, has scores that fall with the distance, in the
 * place of rotations. */
static bool read_baichuan(struct hparams *hp, struct err *err)
{
    return hp->n_layer != 40 || hparams_slopes(hp, 8, err);
}

/* So has refact. */
static bool read_refact(struct hparams *hp, struct err *err)
{
    return hparams_slopes(hp, 8, err);
}

static bool read_arcee(struct hparams *hp, struct err *err)
{
    (void)err;
    hp->glu = GLU_RELU;
    hp->gate = GATE_IS_UP;
    return true;
}

/* Its matrices are of -1, 0 and 1, and what each reads is behind a norm. */
static bool read_bitnet(struct hparams *hp, struct err *err)
{
    (void)err;
    hp->inner_norms = true;
    return true;
}

/* Its files say how wide gate and up are together. */
static bool read_qwen(struct hparams *hp, struct err *err)
{
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (hp->layers[i].n_ff % 2 != 0)
            return err_set(err, ERR_FORMAT,
                           "%s: key qwen.feed_forward_length should be even, but is %u",
                           gguf_path(hp->g), hp->layers[i].n_ff);
        hp->layers[i].n_ff /= 2;
    }
    return true;
}

/* A layer's number of an activation, whose keys have no family in front: one of all layers or
 * an array. */
static bool activation_number(const struct hparams *hp, const char *key, uint32_t layer,
                              double most, double *value, struct err *err)
{
    const struct gguf_kv *kv = gguf_find(hp->g, key);
    if (!kv) return err_set(err, ERR_FORMAT, "%s: key %s is missing", gguf_path(hp->g), key);
    const bool is_float = kv->type == GGUF_F32 || kv->type == GGUF_F64;
    if (!is_float || (kv->is_array && kv->n != hp->n_layer))
        return err_set(err, ERR_FORMAT, "%s: key %s should be a number or an array of %u",
                       gguf_path(hp->g), key, hp->n_layer);
    *value = gguf_item_float(kv, kv->is_array ? layer : 0);
    return fabs(*value) <= most ||
           err_set(err, ERR_FORMAT, "%s: key %s should be within %g of 0, but is %g",
                   gguf_path(hp->g), key, most, *value);
}

static double softplus(double x)
{
    const double tail = real_log(1.0 + real_exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}

/* Too little to be a factor (op_xielu). */
static float factor_of(double x)
{
    return fabs(x) < 0x1p-20 ? 0.0f : (float)x;
}

/* A feed-forward without a gate, whose activation has numbers of each layer. The least x that
 * it tells from 0, a guard of training's, is below what sums of rows keep. */
static bool read_apertus(struct hparams *hp, struct err *err)
{
    hp->gate = GATE_IS_UP;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        double above, below, slope, least;
        if (!activation_number(hp, "xielu.alpha_p", i, 100, &above, err) ||
            !activation_number(hp, "xielu.alpha_n", i, 100, &below, err) ||
            !activation_number(hp, "xielu.beta", i, 100, &slope, err) ||
            !activation_number(hp, "xielu.eps", i, 1e-5, &least, err))
            return false;
        struct layer_hparams *l = &hp->layers[i];
        l->has_xielu = true;
        l->xielu.square = factor_of(softplus(above));
        l->xielu.bend = factor_of(slope + softplus(below));
        l->xielu.slope = factor_of(slope);
    }
    return true;
}

/* All layers run num_loops times, with keys and values of their own each time. */
static bool read_nanbeige(struct hparams *hp, struct err *err)
{
    const uint32_t own = hp->n_layer;
    uint32_t n = 1;
    bool skip = false;
    if (!hparams_u32(hp, "num_loops", 1, MAX_LAYERS / own, false, &n, err) ||
        !hparams_bool(hp, "skip_loop_final_norm", &skip, err))
        return false;
    hp->n_layer_own = own;
    hp->n_layer = hp->n_layer_kv = n * own;
    hp->loop_norm = !skip;
    hp->layers = mem_resize(hp->layers, hp->n_layer, sizeof *hp->layers);
    for (uint32_t i = own; i < hp->n_layer; i++)
        hp->layers[i] = hp->layers[i - own];
    return true;
}

static void layer_nanbeige(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    layer_llama(b, layer % hp->n_layer_own, x);
    if (hp->loop_norm && (layer + 1) % hp->n_layer_own == 0 && layer + 1 < hp->n_layer)
        build_norm(b, x, weights_vector(b->ws, hp->output_norm, x.n), 0, x);
}

/* Two stacks of layers, of which the first runs some times, then the second, and both again so
 * many times; the file counts all that run, with keys and values of their own each time. */
static bool read_hrm_text(struct hparams *hp, struct err *err)
{
    uint32_t n_stack = 0, n_high = 0, n_low = 0;
    bool prefix = false;
    double scale = 1;
    if (!hparams_u32(hp, "hrm.layers_per_stack", 1, MAX_LAYERS, true, &n_stack, err) ||
        !hparams_u32(hp, "hrm.h_cycles", 1, MAX_LAYERS, true, &n_high, err) ||
        !hparams_u32(hp, "hrm.l_cycles", 1, MAX_LAYERS, true, &n_low, err) ||
        !hparams_bool(hp, "hrm.prefix_lm", &prefix, err) ||
        !hparams_f64(hp, "embedding_scale", 1e-6, 1e6, false, &scale, err))
        return false;
    if (prefix)
        return err_set(err, ERR_FORMAT,
                       "%s: key hrm_text.hrm.prefix_lm is true: tokens of a prompt see those "
                       "behind them, too, which hearth has not",
                       gguf_path(hp->g));
    const uint64_t n = (uint64_t)n_stack * n_high * (n_low + 1);
    if (n != hp->n_layer)
        return err_set(
            err, ERR_FORMAT,
            "%s: key hrm_text.block_count should be %u layers of a stack, %u and one "
            "times, %u times, but is %u",
            gguf_path(hp->g), n_stack, n_low, n_high, hp->n_layer);
    hp->norm_vectors = NORM_BARE;
    hp->embed_scale = (float)scale;
    hp->stack.n_layer = n_stack;
    hp->stack.n_low = n_low;
    return true;
}

/* A stack begins with the sum of what both gave last and ends in a norm: x is of the second,
 * whose last is the network's own. */
static void layer_hrm_text(struct builder *b, uint32_t layer, struct ref x)
{
    const struct hparams *hp = b->hp;
    const uint32_t n = hp->stack.n_layer, n_low = hp->stack.n_low, at = layer % n;
    const bool high = layer / n % (n_low + 1) == n_low, last = layer >= hp->n_layer - n;
    struct ref low = build_rows(b, "low", x.n), s = last ? x : build_rows(b, "stack", x.n);
    if (layer == 0) build_fill(b, x, weights_vector(b->ws, "hrm.z_l_init", x.n), low);
    if (at == 0) build_add(b, x, low, 1, s);
    block_plain_layer(b, at + (high ? n : 0), s,
                      &(struct attention){.pairs = ROPE_NEOX, .gates = GATES_APART});
    if (at + 1 == n && !last) build_norm(b, s, NULL, 0, high ? x : low);
}

/* Models from which layers have been taken away: some have no attention, or a matrix in place
 * of it, and some nothing at all. */
static bool read_deci(struct hparams *hp, struct err *err)
{
    hp->n_layer_kv = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct layer_hparams *l = &hp->layers[i];
        if (l->n_head > 0 && l->n_ff == 0)
            return err_set(
                err, ERR_FORMAT,
                "%s: layer %u has attention and no feed-forward, which hearth's deci "
                "has not",
                gguf_path(hp->g), i);
        if (l->n_head_kv > 0) hp->n_layer_kv = i + 1;
    }
    return true;
}

static void layer_deci(struct builder *b, uint32_t layer, struct ref x)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    if (l->n_head == 0) {
        if (l->n_ff > 0) block_add_feedforward(b, layer, x, build_rows(b, "h", x.n));
        return;
    }
    struct ref h = block_begin(b, layer, x);
    if (l->n_head_kv > 0) {
        block_attention(b, layer, h, h, &(struct attention){.pairs = ROPE_NORM});
    } else {
        const struct linear w =
            layer_linear(b, layer, "attn_output", h.n, build_rows(b, "attended", x.n));
        build_matmul(b, h, &w, 1);
        h = w.out;
    }
    block_end(b, layer, x, h);
}

/* Layers with windows rotate by a base of their own, and may rotate other dims. */
static bool read_spark2_5(struct hparams *hp, struct err *err)
{
    hp->glu = GLU_GELU;
    return hparams_windows(hp, 0, err) &&
           hparams_local_dims(hp, hp->n_rot, hp->rope_base, err) && hparams_unscaled(hp, err);
}

static void layer_spark2_5(struct builder *b, uint32_t layer, struct ref x)
{
    block_plain_layer(b, layer, x,
                      &(struct attention){.pairs = ROPE_NEOX, .gates = GATES_HEADS});
}

/* Logits are multiplied by what divides them in others. */
static bool read_talkie(struct hparams *hp, struct err *err)
{
    double logit = 1;
    hp->norm_vectors = NORM_BARE;
    if (!hparams_f64(hp, "logit_scale", 1e-6, 1e6, true, &logit, err)) return false;
    hp->logit_scale = (float)logit;
    return true;
}

/* The number that a matrix of the layer has beside it. The product of one of codes has it
 * already, as its factor, and there is nothing left to do. */
static float gain_of(struct builder *b, uint32_t layer, const char *stem, size_t n_in)
{
    char what[TENSOR_NAME_CAP / 2], name[TENSOR_NAME_CAP];
    snprintf(what, sizeof what, "%s.bias", stem);
    if (weights_has(b->ws, layer_tensor(name, layer, what)))
        weights_fail(b->ws, ERR_FORMAT, "tensor %s: hearth's talkie has no such tensor", name);
    snprintf(what, sizeof what, "%s.weight", stem);
    const struct weight *w =
        weights_matrix(b->ws, layer_tensor(name, layer, what), b->hp->n_embd, n_in);
    snprintf(what, sizeof what, "%s.scale", stem);
    const bool has = weights_has(b->ws, layer_tensor(name, layer, what));
    return has && !weight_quantised(w) ? layer_number(b, layer, what) : 1;
}

/* No norm has factors but that of Q's heads. What each layer gives gets the embedding behind a
 * norm, times a number of the layer, and what attention and feed-forward add has numbers, too.
 */
static void layer_talkie(struct builder *b, uint32_t layer, struct ref x)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    struct ref first = build_rows(b, "first", x.n);
    if (layer == 0) {
        build_norm(b, x, NULL, 0, first);
        build_norm(b, x, NULL, 0, x);
    }
    struct ref h = block_begin(b, layer, x);
    block_attention(
        b, layer, h, h,
        &(struct attention){
            .pairs = ROPE_NEOX, .norm_bare = true, .norm_last = true, .head_gains = true});
    build_scale(b, h, gain_of(b, layer, "attn_output", (size_t)l->n_head * l->head_dim_v));
    build_add(b, x, h, 1, x);
    layer_norm(b, layer, b->hp->ffn_norm, x, h);
    block_dense(b, layer, h, h);
    build_scale(b, h, gain_of(b, layer, "ffn_down", l->n_ff));
    build_add(b, x, h, 1, x);
    build_add(b, x, first, layer_number(b, layer, "layer_output_scale.weight"), x);
}

const struct family families_plain[] = {
    {"apertus", read_apertus, layer_qwen3},
    {"arcee", read_arcee, layer_llama},
    {"baichuan", read_baichuan, layer_llama},
    {"bitnet", read_bitnet, layer_neox},
    {"chatglm", read_gate_in_up, layer_llama},
    {"deci", read_deci, layer_deci},
    {"ernie4_5", NULL, layer_llama},
    {"exaone", NULL, layer_neox},
    {"gemma", read_gemma, layer_neox},
    {"hrm_text", read_hrm_text, layer_hrm_text},
    {"hunyuan-dense", read_hunyuan, layer_hunyuan},
    {"hunyuan_vl", read_hunyuan, layer_hunyuan},
    {"internlm2", NULL, layer_llama},
    {"llama", NULL, layer_llama},
    {"maincoder", NULL, layer_maincoder},
    {"mistral3", read_mistral3, layer_llama},
    {"nanbeige", read_nanbeige, layer_nanbeige},
    {"openelm", NULL, layer_qwen3},
    {"paddleocr", NULL, layer_neox},
    {"pangu-embedded", NULL, layer_neox},
    {"phi3", read_gate_in_up, layer_neox},
    {"qwen", read_qwen, layer_qwen2},
    {"qwen2", NULL, layer_qwen2},
    {"qwen25vl", NULL, layer_qwen2}, /* Ollama's name for the same */
    {"qwen2vl", NULL, layer_qwen2},
    {"qwen3", NULL, layer_qwen3},
    {"qwen3vl", NULL, layer_qwen3},
    {"refact", read_refact, layer_llama},
    {"seed_oss", read_seed_oss, layer_neox},
    {"smollm3", read_smollm3, layer_llama},
    {"spark2_5", read_spark2_5, layer_spark2_5},
    {"talkie", read_talkie, layer_talkie},
    {"xverse", NULL, layer_llama},
    {NULL, NULL, NULL},
};
