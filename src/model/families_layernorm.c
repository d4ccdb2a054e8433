/* Families whose norms are LayerNorms, which take the mean off first, most with biases; and one
 * of RMS norms with biases. */
#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

static bool read_centred(struct hparams *hp, struct err *err)
{
    double eps = 0;
    hp->centred = true;
    if (!hparams_f64(hp, "attention.layer_norm_epsilon", 1e-12, 1, true, &eps, err))
        return false;
    hp->norm_eps = (float)eps;
    return true;
}

/* orion and stablelm; what files of the latter say of parallel layers is not what they have. */
static bool read_biased(struct hparams *hp, struct err *err)
{
    hp->norm_vectors = NORM_BIASED;
    return read_centred(hp, err);
}

/* falcon, phi2, starcoder2 and others: two matrices, between them the GELU. */
static bool read_gelu(struct hparams *hp, struct err *err)
{
    hp->gate = GATE_IS_UP;
    hp->glu = GLU_GELU_ALONE;
    return read_biased(hp, err);
}

/* The head of some files is the embedding, too. */
static bool read_codeshell(struct hparams *hp, struct err *err)
{
    if (!gguf_tensor_find(hp->g, hp->embed_table)) hp->embed_table = "output.weight";
    return read_gelu(hp, err);
}

/* gpt2 and starcoder: no rotation, but learned positions. */
static bool read_placed(struct hparams *hp, struct err *err)
{
    return read_gelu(hp, err) && hparams_places(hp, err);
}

/* bloom: scores fall with the distance, in the place of rotations. */
static bool read_bloom(struct hparams *hp, struct err *err)
{
    return read_gelu(hp, err) && hparams_slopes(hp, 8, err);
}

/* Its muP scales are in the weights but for that of scores. */
static bool read_jais(struct hparams *hp, struct err *err)
{
    hp->attn_scale = 1.0f / (float)hp->layers[0].head_dim_k;
    return read_biased(hp, err) && hparams_slopes(hp, 0, err);
}

/* jais2 and nemotron: between them squares of what is above 0. */
static bool read_squares(struct hparams *hp, struct err *err)
{
    hp->gate = GATE_IS_UP;
    hp->glu = GLU_RELU;
    return read_biased(hp, err);
}

static bool read_gptneox(struct hparams *hp, struct err *err)
{
    hp->parallel = true;
    return hparams_bool(hp, "use_parallel_residual", &hp->parallel, err) && read_gelu(hp, err);
}

/* Its files are run by RMS norms and the softmax of the chosen experts, though the model was
 * trained with LayerNorms and a router of its own. The window is ignored as phi3's is. */
static bool read_phimoe(struct hparams *hp, struct err *err)
{
    hp->norm_vectors = NORM_BIASED;
    return hparams_need_experts(hp, err);
}

static bool read_limit(struct hparams *hp, bool required, struct err *err)
{
    double limit = 0;
    if (!hparams_f64(hp, "attention.clamp_kqv", 0, 1e6, required, &limit, err)) return false;
    hp->qkv_limit = limit < 0x1p-20 ? 0.0f : (float)limit;
    return true;
}

/* Norms of most files have no biases; some have learned positions in the place of slopes. */
static bool read_mpt(struct hparams *hp, struct err *err)
{
    if (!read_gelu(hp, err) || !read_limit(hp, false, err) || !hparams_slopes(hp, 0, err))
        return false;
    if (!gguf_tensor_find(hp->g, "output_norm.bias")) hp->norm_vectors = NORM_SCALED;
    return !gguf_tensor_find(hp->g, "position_embd.weight") || hparams_places(hp, err);
}

static bool read_olmo(struct hparams *hp, struct err *err)
{
    hp->norm_vectors = NORM_BARE;
    return read_centred(hp, err) && read_limit(hp, false, err);
}

/* The second norm of a layer is named for what it follows. */
static bool read_dbrx(struct hparams *hp, struct err *err)
{
    hp->ffn_norm = "attn_output_norm.weight";
    return hparams_need_experts(hp, err) && read_centred(hp, err) && read_limit(hp, true, err);
}

static bool has(struct builder *b, uint32_t layer, const char *what)
{
    char name[TENSOR_NAME_CAP];
    return weights_has(b->ws, layer_tensor(name, layer, what));
}

static void layer_bloom(struct builder *b, uint32_t layer, struct ref x)
{
    if (layer == 0) build_row_norm(b, x, "token_embd_norm.weight", x);
    layer_qwen2(b, layer, x);
}

static void layer_phi2(struct builder *b, uint32_t layer, struct ref x)
{
    block_parallel_layer(b, layer, x, "attn_norm.weight", NULL,
                         &(struct attention){.pairs = ROPE_NEOX});
}

/* Layers without a second norm are parallel. */
static void layer_stablelm(struct builder *b, uint32_t layer, struct ref x)
{
    const struct attention a = {.pairs = ROPE_NEOX, .layer_norm_if = true};
    if (has(b, layer, "ffn_norm.weight"))
        block_plain_layer(b, layer, x, &a);
    else
        block_parallel_layer(b, layer, x, "attn_norm.weight", NULL, &a);
}

static void layer_gptneox(struct builder *b, uint32_t layer, struct ref x)
{
    const struct attention a = {.pairs = ROPE_NEOX};
    if (b->hp->parallel)
        block_parallel_layer(b, layer, x, "attn_norm.weight", "ffn_norm.weight", &a);
    else
        block_plain_layer(b, layer, x, &a);
}

/* Where there are two norms, the second is that of attention. */
static void layer_falcon(struct builder *b, uint32_t layer, struct ref x)
{
    const struct attention a = {.pairs = ROPE_NEOX};
    if (has(b, layer, "attn_norm_2.weight"))
        block_parallel_layer(b, layer, x, "attn_norm_2.weight", "attn_norm.weight", &a);
    else
        block_parallel_layer(b, layer, x, "attn_norm.weight", NULL, &a);
}

const struct family families_layernorm[] = {
    {"bloom", read_bloom, layer_bloom},
    {"codeshell", read_codeshell, layer_neox},
    {"dbrx", read_dbrx, layer_neox},
    {"falcon", read_gelu, layer_falcon},
    {"gpt2", read_placed, layer_qwen2},
    {"gptneox", read_gptneox, layer_gptneox},
    {"jais", read_jais, layer_qwen2},
    {"jais2", read_squares, layer_neox},
    {"mpt", read_mpt, layer_neox},
    {"nemotron", read_squares, layer_neox},
    {"olmo", read_olmo, layer_llama},
    {"orion", read_biased, layer_neox},
    {"phi2", read_gelu, layer_phi2},
    {"phimoe", read_phimoe, layer_neox},
    {"stablelm", read_biased, layer_stablelm},
    {"starcoder", read_placed, layer_qwen2},
    {"starcoder2", read_gelu, layer_neox},
    {NULL, NULL, NULL},
};
