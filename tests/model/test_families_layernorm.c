/* Families whose norms are LayerNorms with biases, or bare, or have biases alone, on small
 * random models: the logits against those of the second computation. No case may differ by ten
 * times what it was measured to. */
#include "second_model.h"

static const double base = 10000; /* of files that say nothing of it */

/* LayerNorms with biases before both parts of a layer. */
#define BIASED .norm_before = true, .layer_norm = true, .norm_biases = true
/* Two matrices with biases, and what is between them. */
#define GELU .alone = true, .gelu = true
#define SQUARES .squares = true
/* Learned positions in the place of rotations, and biases everywhere. */
#define PLACED BIASED, GELU, .biases = true, .more_biases = true, .n_places = N_IDS

struct layernorm_case {
    const char *name;
    struct form form;
    size_t n_rot; /* 0: all, without the key */
    bool neighbours, fused;
    bool sequential; /* the key use_parallel_residual is false */
    float limit;     /* the key attention.clamp_kqv; 0: none */
    float max_bias;  /* the key attention.max_alibi_bias; 0: without it */
    double scores;   /* they are multiplied by; 0: one over the root */
    double most;     /* 0: 1e-12 */
};

static const struct layernorm_case cases[] = {
    {.name = "phi2",
     .form = {"phi2", BIASED, GELU, .parallel = true, .biases = true, .more_biases = true,
              .head_bias = true},
     .n_rot = 8},
    {.name = "starcoder2",
     .form = {"starcoder2", BIASED, GELU, .biases = true, .more_biases = true}},
    {.name = "starcoder2 without biases of products", .form = {"starcoder2", BIASED, GELU}},
    {.name = "stablelm", .form = {"stablelm", BIASED, .biases = true}, .n_rot = 4},
    {.name = "stablelm with norms of heads",
     .form = {"stablelm", BIASED, .norm_each = true},
     .n_rot = 4},
    {.name = "stablelm, parallel, with norms of heads",
     .form = {"stablelm", BIASED, .norm_each = true, .parallel = true},
     .n_rot = 4},
    {.name = "nemotron", .form = {"nemotron", BIASED, SQUARES}, .n_rot = 8},
    {.name = "nemotron with biases of products",
     .form = {"nemotron", BIASED, SQUARES, .biases = true, .more_biases = true},
     .n_rot = 8},
    {.name = "jais2", .form = {"jais2", BIASED, SQUARES, .biases = true, .more_biases = true}},
    {.name = "gptneox",
     .form = {"gptneox", BIASED, GELU, .parallel = true, .feed_norm = "ffn_norm",
              .more_biases = true},
     .n_rot = 4,
     .fused = true},
    {.name = "gptneox, one after the other",
     .form = {"gptneox", BIASED, GELU, .more_biases = true},
     .n_rot = 4,
     .fused = true,
     .sequential = true},
    {.name = "falcon", .form = {"falcon", BIASED, GELU, .parallel = true}, .fused = true},
    {.name = "falcon with two norms",
     .form = {"falcon", BIASED, GELU, .parallel = true, .attn_norm = "attn_norm_2",
              .feed_norm = "attn_norm"},
     .fused = true},
    {.name = "gpt2", .form = {"gpt2", PLACED, .n_kv = HEADS}, .fused = true},
    {.name = "gpt2 with heads in groups", .form = {"gpt2", PLACED}, .fused = true},
    {.name = "codeshell",
     .form = {"codeshell", BIASED, GELU, .biases = true, .more_biases = true},
     .fused = true},
    {.name = "codeshell without biases of products, apart",
     .form = {"codeshell", BIASED, GELU}},
    {.name = "starcoder", .form = {"starcoder", PLACED, .n_kv = 1}, .fused = true},
    {.name = "orion", .form = {"orion", BIASED}},
    {.name = "olmo",
     .form = {"olmo", .norm_before = true, .layer_norm = true, .norm_bare = true},
     .neighbours = true},
    {.name = "olmo with limits",
     .form = {"olmo", .norm_before = true, .layer_norm = true, .norm_bare = true},
     .neighbours = true,
     .limit = 0.5f},
    {.name = "dbrx",
     .form = {"dbrx", .norm_before = true, .layer_norm = true, .feed_norm = "attn_output_norm",
              .experts = {.any = true}},
     .fused = true,
     .limit = 0.5f,
     .most = 5e-12},
    {.name = "bloom",
     .form = {"bloom", BIASED, GELU, .biases = true, .more_biases = true, .n_kv = HEADS,
              .embedding_norm = true, .max_bias = 8},
     .fused = true},
    {.name = "mpt",
     .form = {"mpt", .norm_before = true, .layer_norm = true, GELU, .n_kv = HEADS,
              .max_bias = 8},
     .fused = true,
     .max_bias = 8},
    {.name = "mpt with limits, biases and heads in groups",
     .form = {"mpt", BIASED, GELU, .biases = true, .more_biases = true, .max_bias = 4},
     .fused = true,
     .limit = 0.5f,
     .max_bias = 4},
    {.name = "mpt with learned positions",
     .form = {"mpt", .norm_before = true, .layer_norm = true, GELU, .n_places = N_IDS},
     .fused = true},
    {.name = "jais",
     .form = {"jais", BIASED, .biases = true, .more_biases = true, .n_kv = HEADS,
              .max_bias = 8},
     .fused = true,
     .max_bias = 8,
     .scores = 1.0 / HEAD_DIM},
    {.name = "phimoe",
     .form = {"phimoe", .norm_before = true, .norm_biases = true, .biases = true,
              .head_bias = true, .experts = {.any = true}}},
};

static void file_of(struct file *f, const struct layernorm_case *c)
{
    file_init(f, &c->form);
    if (c->n_rot > 0) key_u32(f, "rope.dimension_count", (uint32_t)c->n_rot);
    if (c->sequential) key_bool(f, "use_parallel_residual", false);
    if (c->limit > 0) key_f32(f, "attention.clamp_kqv", c->limit);
    if (c->max_bias > 0) key_f32(f, "attention.max_alibi_bias", c->max_bias);
    f->scales.qkv_limit = (double)c->limit;
    f->scales.scores = c->scores;
}

static void test_families(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct layernorm_case *c = &cases[i];
        struct sight s = {0, plain_rotation(c->n_rot > 0 ? c->n_rot : HEAD_DIM, base)};
        struct sight layers[LAYERS];
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        struct file f;
        s.rotation.neighbours = c->neighbours;
        if (c->form.n_places > 0 || c->form.max_bias > 0) s.rotation.n_rot = 0;
        every(layers, 1, s, s);
        file_of(&f, c);
        compute(&f, layers, LAYERS, 0, want);
        if (c->fused) fuse(&f);
        check_logits(c->most > 0 ? c->most : 1e-12, c->name, &f, want);
        free(want);
        file_free(&f);
    }
}

/* Files of codeshell may have the embedding as the head alone, which no other family's may. */
static void test_head_alone(void **unused)
{
    (void)unused;
    static const struct form form = {"codeshell", BIASED, GELU, .biases = true,
                                     .more_biases = true};
    static const struct form other = {"starcoder2", BIASED, GELU};
    const struct sight s = {0, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    every(layers, 1, s, s);
    file_init(&f, &form);
    struct values *table = tensor_named(&f, "token_embd.weight");
    memcpy(table->v, tensor_named(&f, "output.weight")->v, EMBD * VOCAB * sizeof *table->v);
    compute(&f, layers, LAYERS, 0, want);
    snprintf(table->name, sizeof table->name, "elsewhere.weight");
    check_logits(1e-12, "codeshell, the head alone", &f, want);
    snprintf(tensor_named(&f, "output.weight")->name, sizeof table->name, "nowhere.weight");
    check_refused(&f, "m.gguf: tensor output.weight: expected [64, vocabulary], but it is "
                      "missing");
    file_free(&f);
    file_init(&f, &other);
    table = tensor_named(&f, "token_embd.weight");
    snprintf(table->name, sizeof table->name, "elsewhere.weight");
    check_refused(&f, "m.gguf: tensor token_embd.weight: expected [64, vocabulary], but it is "
                      "missing");
    file_free(&f);
    free(want);
}

/* Norms without the biases that they should have, and with some that they should not. */
static void test_refused(void **unused)
{
    (void)unused;
    static const struct form rms = {"orion", .norm_before = true};
    static const struct form bare = {"orion", .norm_before = true, .layer_norm = true};
    static const struct form unplaced = {"gpt2", BIASED, GELU, .biases = true};
    static const struct form bare_products = {"gpt2", BIASED, GELU, .n_places = N_IDS};
    static const struct form sloped = {"mpt", .norm_before = true, .layer_norm = true, GELU};
    static const struct form named = {"llama", .norm_before = true, .norm_biases = true};
    struct file f;
    file_init(&f, &rms);
    check_refused(&f, "m.gguf: key orion.attention.layer_norm_epsilon is missing");
    file_free(&f);
    file_init(&f, &bare);
    check_refused(&f, "m.gguf: tensor blk.0.attn_norm.bias: expected [64], but it is missing");
    file_free(&f);
    file_init(&f, &unplaced);
    check_refused(&f, "m.gguf: tensor position_embd.weight: expected [64, 4096], but it is "
                      "missing");
    file_free(&f);
    file_init(&f, &bare_products);
    check_refused(&f, "m.gguf: tensor blk.0.attn_q.bias: expected [64], but it is missing");
    file_free(&f);
    file_init(&f, &sloped);
    key_f32(&f, "attention.max_alibi_bias", 0x1p-11f);
    check_refused(&f, "m.gguf: key mpt.attention.max_alibi_bias should be 0 or at least 0.001, "
                      "but is 0.000488281");
    file_free(&f);
    file_init(&f, &named);
    check_refused(&f, "m.gguf: tensor output_norm.bias: hearth's llama has no such tensor, and "
                      "leaving it out would change the answers");
    file_free(&f);
}

/* No more positions than were learned; a longer table is of another model. */
static void test_places_end(void **unused)
{
    (void)unused;
    static const struct form form = {"gpt2", PLACED};
    struct model_params params = {.kv_type = KV_F32, .n_ctx = N_IDS};
    struct model_sizes sizes;
    struct buf b = {0};
    struct err err;
    struct file f;
    file_init(&f, &form);
    write_file(&f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g) fail_msg("%s", err.msg);
    if (!model_estimate(g, NULL, &params, 1, &sizes, &err)) fail_msg("%s", err.msg);
    params.n_ctx++;
    assert_false(model_estimate(g, NULL, &params, 1, &sizes, &err));
    assert_int_equal(err.code, ERR_USER);
    assert_string_equal(err.msg,
                        "m.gguf: a context of 41 tokens is longer than the 40 positions that "
                        "the model has learned, and beyond these it has none");
    gguf_close(g);
    buf_free(&b);
    tensor_named(&f, "position_embd.weight")->n_out--;
    check_refused(&f, "m.gguf: tensor position_embd.weight: expected [64, 40], found [64, 39]");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_head_alone),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_places_end),
    };
    return cmocka_run_group_tests_name("families_layernorm", tests, NULL, NULL);
}
