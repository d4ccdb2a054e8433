/* Families whose layers are those of llama but for a scale, a norm, a bias or a window, on
 * small random models: the logits against those of the second computation. No case may differ
 * by ten times what it was measured to. */
#include "second_model.h"

static const double base = 10000; /* of files that say nothing of it */

/* What a form says is all that is to be known of these. */
static void test_forms(void **unused)
{
    (void)unused;
    static const int32_t sections[] = {2, 2, 2, 0};
    const double most = 4e-12;
    static const struct {
        const char *name;
        struct form form;
        bool neighbours, sections;
        size_t n_rot; /* 0: all */
    } cases[] = {
        {"arcee", {"arcee", .norm_before = true, .squares = true}, .neighbours = true},
        {"arcee with biases",
         {"arcee", .norm_before = true, .squares = true, .biases = true},
         .neighbours = true},
        {"baichuan", {"baichuan", .norm_before = true}, .neighbours = true},
        {"bitnet", {"bitnet", .norm_before = true, .norm_inner = true}, .neighbours = false},
        {"chatglm",
         {"chatglm", .norm_before = true, .biases = true, .gate_in_up = true},
         .neighbours = true,
         .n_rot = HEAD_DIM / 2},
        {"ernie4_5", {"ernie4_5", .norm_before = true}, .neighbours = true},
        {"ernie4_5 with biases",
         {"ernie4_5", .norm_before = true, .biases = true},
         .neighbours = true},
        {"exaone", {"exaone", .norm_before = true}, .neighbours = false},
        {"gemma",
         {"gemma", .norm_before = true, .gelu = true, .scaled_embedding = true},
         .neighbours = false},
        {"hunyuan_vl",
         {"hunyuan_vl", .norm_before = true, .norm_heads = true, .norm_last = true},
         .sections = true},
        {"internlm2", {"internlm2", .norm_before = true}, .neighbours = true},
        {"maincoder",
         {"maincoder", .norm_before = true, .norm_heads = true, .norm_last = true},
         .neighbours = true},
        {"paddleocr", {"paddleocr", .norm_before = true}, .sections = true},
        {"pangu-embedded",
         {"pangu-embedded", .norm_before = true, .biases = true, .more_biases = true},
         .neighbours = false},
        {"qwen2vl", {"qwen2vl", .norm_before = true, .biases = true}, .sections = true},
        {"qwen3vl", {"qwen3vl", .norm_before = true, .norm_heads = true}, .sections = true},
        {"seed_oss",
         {"seed_oss", .norm_before = true, .norm_named = true},
         .neighbours = false},
        {"seed_oss with biases",
         {"seed_oss", .norm_before = true, .norm_named = true, .biases = true},
         .neighbours = false},
        {"xverse", {"xverse", .norm_before = true}, .neighbours = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n_rot = cases[i].n_rot > 0 ? cases[i].n_rot : HEAD_DIM;
        struct rotation r = plain_rotation(n_rot, base);
        struct file f;
        r.neighbours = cases[i].neighbours;
        file_init(&f, &cases[i].form);
        if (n_rot < HEAD_DIM) key_u32(&f, "rope.dimension_count", (uint32_t)n_rot);
        if (cases[i].sections) sections_key(&f, sections, 4);
        check_plain(most, cases[i].name, &f, LAYERS, r);
        file_free(&f);
    }
}

/* Biases and norms that all models of a family have, and a gate that none has. */
static void test_missing(void **unused)
{
    (void)unused;
    static const struct {
        struct form form;
        const char *message;
    } cases[] = {
        {{"qwen2vl", .norm_before = true},
         "m.gguf: tensor blk.0.attn_q.bias: expected [64], but it is missing"},
        {{"qwen3vl", .norm_before = true},
         "m.gguf: tensor blk.0.attn_q_norm.weight: expected [16], but it is missing"},
        {{"seed_oss", .norm_before = true},
         "m.gguf: tensor blk.0.post_attention_norm.weight: expected [64], but it is missing"},
        {{"hunyuan-dense", .norm_before = true},
         "m.gguf: tensor blk.0.attn_q_norm.weight: expected [16], but it is missing"},
        {{"arcee", .norm_before = true},
         "m.gguf: tensor blk.0.ffn_gate.weight: hearth's arcee has no such tensor, and leaving "
         "it out would change the answers"},
        {{"exaone4", .norm_after = true},
         "m.gguf: tensor blk.0.attn_q_norm.weight: expected [16], but it is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f;
        file_init(&f, &cases[i].form);
        check_refused(&f, cases[i].message);
        file_free(&f);
    }
}

/* Scores fall with the distance; in baichuan where there are 40 layers. */
static void test_slopes(void **unused)
{
    (void)unused;
    enum { MANY = 40 };
    static const struct form refact = {"refact", .norm_before = true, .n_kv = 1, .max_bias = 8};
    static const struct form large = {"baichuan", .norm_before = true, .n_blocks = MANY,
                                      .n_kv = HEADS, .max_bias = 8};
    static const struct sight layers[MANY];
    struct file f;
    file_init(&f, &refact);
    check_within(tolerance, "refact", &f, layers, LAYERS, 0);
    file_free(&f);
    file_init(&f, &large);
    for (int i = LAYERS; i < MANY; i++) {
        norm_tensors(&f, i, "attn_norm");
        attention_tensors(&f, i);
        norm_tensors(&f, i, "ffn_norm");
        feed_forward_tensors(&f, i);
    }
    check_within(tolerance, "baichuan of 40 layers", &f, layers, MANY, 0);
    file_free(&f);
}

/* Four numbers multiply or divide, and some models do not rotate. */
static void test_granite(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    static const struct form granite = {"granite", .norm_before = true};
    static const struct form biased = {"granite", .norm_before = true, .biases = true};
    struct rotation r = plain_rotation(HEAD_DIM, base);
    struct file f;
    r.neighbours = true;
    file_init(&f, &granite);
    check_plain(most, "granite without scales", &f, LAYERS, r);
    key_f32(&f, "embedding_scale", 0.5f);
    key_f32(&f, "residual_scale", 1.5f);
    key_f32(&f, "logit_scale", 8);
    f.scales = (struct scales){.embedding = 0.5, .residual = 1.5, .logits = 8};
    check_plain(most, "granite with three scales", &f, LAYERS, r);
    key_f32(&f, "attention.scale", 0.125f);
    f.scales.scores = 0.125;
    check_plain(most, "granite with a scale of scores", &f, LAYERS, r);
    key_bool(&f, "rope.scaling.finetuned", false);
    check_plain(most, "granite without rotation", &f, LAYERS, plain_rotation(0, base));
    file_free(&f);
    file_init(&f, &biased);
    key_f32(&f, "attention.scale", 0);
    key_bool(&f, "rope.scaling.finetuned", true);
    check_plain(most, "granite with biases", &f, LAYERS, r);
    file_free(&f);
}

/* What files do not name all models of the kind have. */
static void test_minicpm(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    static const struct form minicpm = {"minicpm", .norm_before = true};
    struct rotation r = plain_rotation(HEAD_DIM, base);
    struct file f;
    r.neighbours = true;
    file_init(&f, &minicpm);
    f.scales = (struct scales){
        .embedding = 12, .residual = 1.4 / sqrt(LAYERS), .logits = EMBD / 256.0};
    check_plain(most, "minicpm without scales", &f, LAYERS, r);
    key_f32(&f, "embedding_scale", 0.5f);
    key_f32(&f, "residual_scale", 1.5f);
    key_f32(&f, "logit_scale", 8);
    f.scales = (struct scales){.embedding = 0.5, .residual = 1.5, .logits = 8};
    check_plain(most, "minicpm with scales", &f, LAYERS, r);
    file_free(&f);
}

/* Both read the same row, and logits are multiplied. In cohere2 every fourth layer sees all and
 * does not rotate. */
static void test_parallel(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form forms[] = {
        {"command-r", .norm_before = true, .layer_norm = true, .parallel = true},
        {"command-r", .norm_before = true, .layer_norm = true, .parallel = true,
         .norm_each = true},
        {"cohere2", .norm_before = true, .layer_norm = true, .parallel = true, .biases = true}};
    const struct sight full = {0, plain_rotation(0, base)};
    struct sight local = {WINDOW, plain_rotation(HEAD_DIM, base)}, layers[LAYERS];
    local.rotation.neighbours = true;
    for (size_t i = 0; i < 3; i++) {
        struct file f;
        file_init(&f, &forms[i]);
        key_f32(&f, "logit_scale", 0.5f);
        f.scales.logits = 2;
        if (i == 2) key_u32(&f, "attention.sliding_window", WINDOW);
        every(layers, 4, full, local);
        if (i == 2)
            check_within(most, "cohere2", &f, layers, LAYERS, 0);
        else
            check_plain(most, i ? "command-r, norms of heads" : "command-r", &f, LAYERS,
                        local.rotation);
        file_free(&f);
    }
}

static void check_gemma2(const char *name, const struct file *f, int period, size_t window,
                         double cap)
{
    const struct rotation r = plain_rotation(HEAD_DIM, base);
    struct sight layers[LAYERS];
    every(layers, period, (struct sight){0, r}, (struct sight){window, r});
    check_within(3e-12, name, f, layers, LAYERS, cap);
}

/* Scores and logits have caps, also in files that do not say which. */
static void test_gemma2(void **unused)
{
    (void)unused;
    static const struct form gemma2 = {"gemma2", .norm_before = true, .norm_after = true,
                                       .gelu = true, .scaled_embedding = true};
    struct file f;
    file_init(&f, &gemma2);
    f.scales.score_cap = 50;
    check_gemma2("gemma2 without keys", &f, 2, 4096, 30);
    key_u32(&f, "attention.sliding_window", WINDOW);
    check_gemma2("gemma2", &f, 2, WINDOW, 30);
    key_f32(&f, "attn_logit_softcapping", 2);
    f.scales.score_cap = 2;
    check_gemma2("gemma2 with a cap of scores", &f, 2, WINDOW, 30);
    key_f32(&f, "final_logit_softcapping", 3);
    check_gemma2("gemma2 with both caps", &f, 2, WINDOW, 3);
    pattern_key(&f, 3);
    check_gemma2("gemma2 with a pattern", &f, 3, WINDOW, 3);
    file_free(&f);
}

/* What n_loops rounds of all layers give, with the output norm between them or without. */
static void compute_loops(const struct file *f, int n_loops, bool normed, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct sight all = {0, plain_rotation(HEAD_DIM, base)};
    all.rotation.neighbours = true;
    embed(f, rows);
    for (int i = 0; i < n_loops * LAYERS; i++) {
        attention(f, i % LAYERS, &all, rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, i % LAYERS, NULL, rows->x[p]);
        if (!normed || i % LAYERS != LAYERS - 1 || i == n_loops * LAYERS - 1) continue;
        for (size_t p = 0; p < N_IDS; p++)
            norm(values_of(f, -1, "output_norm"), rows->x[p], EMBD, rows->x[p]);
    }
    head(f, rows, 0, logits);
    free(rows);
}

/* With a context of n_ctx tokens, 0: the file's own, 4096. */
static struct model_sizes sizes_of(const struct file *f, uint32_t n_ctx)
{
    struct buf b = {0};
    struct err err;
    struct model_sizes sizes;
    const struct model_params params = {.kv_type = KV_F32, .n_ctx = n_ctx};
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g) fail_msg("%s", err.msg);
    if (!model_estimate(g, NULL, &params, 1, &sizes, &err)) fail_msg("%s", err.msg);
    gguf_close(g);
    buf_free(&b);
    return sizes;
}

/* The window that a file does not name is longer than these texts; what it takes tells of it.
 */
static void test_gemma2_window(void **unused)
{
    (void)unused;
    enum { BYTES = 2 * KV_HEADS * HEAD_DIM * sizeof(float) }; /* of a token in one layer */
    static const struct form gemma2 = {"gemma2", .norm_before = true, .norm_after = true};
    struct file f;
    file_init(&f, &gemma2);
    for (int named = 0; named < 2; named++) {
        if (named) key_u32(&f, "attention.sliding_window", WINDOW);
        const struct model_sizes sizes = sizes_of(&f, 0);
        assert_int_equal(sizes.window, named ? WINDOW : 4096);
        assert_int_equal(sizes.kv_bytes_per_token, LAYERS / 2 * BYTES);
        assert_int_equal(sizes.window_bytes_per_token, (LAYERS - LAYERS / 2) * BYTES);
    }
    file_free(&f);
}

/* A window longer than the context is as long as that, and the rows that are kept for it are no
 * more than the context has, in whole pages. */
static void test_long_window(void **unused)
{
    (void)unused;
    static const struct form gemma2 = {"gemma2", .norm_before = true, .norm_after = true};
    struct file f;
    file_init(&f, &gemma2);
    key_u32(&f, "attention.sliding_window", 1 << 27);
    assert_int_equal(sizes_of(&f, 0).window, 4096);
    const struct model_sizes sizes = sizes_of(&f, 1000);
    assert_int_equal(sizes.window, 1000);
    assert_int_equal(model_scratch_bytes(&sizes, 1000), 1024 * sizes.window_bytes_per_token);
    assert_int_equal(model_scratch_bytes(&sizes, 64), 64 * sizes.window_bytes_per_token);
    assert_int_equal(sizes_of(&f, 1 << 20).window, 1 << 20);
    file_free(&f);
}

/* Layers run several times, and each time they have keys and values. */
static void test_nanbeige(void **unused)
{
    (void)unused;
    enum { BYTES = 2 * KV_HEADS * HEAD_DIM * sizeof(float) }; /* of a token in one layer */
    const double most = 6e-12;
    static const struct form nanbeige = {"nanbeige", .norm_before = true};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"nanbeige", "nanbeige twice",
                                            "nanbeige three times, without norms"};
        struct file f;
        file_init(&f, &nanbeige);
        if (i > 0) key_u32(&f, "num_loops", (uint32_t)i + 1);
        if (i > 0) key_bool(&f, "skip_loop_final_norm", i == 2);
        compute_loops(&f, i + 1, i < 2, want);
        check_logits(most, names[i], &f, want);
        assert_int_equal(sizes_of(&f, 0).kv_bytes_per_token, (i + 1) * LAYERS * BYTES);
        file_free(&f);
    }
    free(want);
    struct file f;
    file_init(&f, &nanbeige);
    key_u32(&f, "num_loops", 147);
    check_refused(&f, "m.gguf: key nanbeige.num_loops should be between 1 and 146, but is 147");
    file_free(&f);
}

/* One base in all layers: a file may say it twice, or of layers with windows that it has not.
 */
static void test_one_base(void **unused)
{
    (void)unused;
    static const char *const archs[] = {"gemma2", "exaone4", "afmoe", "gpt-oss"};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const struct form form = {archs[i], .experts = {.any = i >= 2, .n_ff = FF}};
        char message[128];
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "expert_shared_count", 0);
        key_u32(&f, "attention.sliding_window", WINDOW);
        key_f32(&f, "rope.freq_base", 500);
        key_f32(&f, "rope.freq_base_swa", 100);
        snprintf(message, sizeof message,
                 "m.gguf: key %s.rope.freq_base_swa is 100, but hearth's %s rotates by one "
                 "base, 500, in all layers",
                 archs[i], archs[i]);
        check_refused(&f, message);
        file_free(&f);
    }
    static const struct form exaone4 = {"exaone4", .norm_after = true, .norm_heads = true};
    for (int windows = 0; windows < 2; windows++) {
        struct file f;
        file_init(&f, &exaone4);
        key_f32(&f, "rope.freq_base", 500);
        key_f32(&f, "rope.freq_base_swa", windows ? 500 : 100);
        if (windows) key_u32(&f, "attention.sliding_window", WINDOW);
        assert_int_equal(sizes_of(&f, 0).window, windows ? WINDOW : 0);
        file_free(&f);
    }
}

/* Q and K rotate first; old files have the factor of long contexts beside the base. */
static void test_hunyuan(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    static const struct form hunyuan = {"hunyuan-dense", .norm_before = true,
                                        .norm_heads = true, .norm_last = true};
    /* Too small to be a factor: the power of the first is 0, the second has no logarithm. */
    static const double none[] = {1e-300, 0x1p-1070};
    struct file f;
    file_init(&f, &hunyuan);
    check_plain(most, "hunyuan-dense", &f, LAYERS, plain_rotation(HEAD_DIM, base));
    key_f32(&f, "rope.freq_base", 500);
    key_f32(&f, "rope.scaling.alpha", 0);
    check_plain(most, "hunyuan-dense with a factor of 0", &f, LAYERS,
                plain_rotation(HEAD_DIM, 500));
    file_free(&f);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        file_init(&f, &hunyuan);
        key_f64(&f, "rope.scaling.alpha", none[i]);
        check_plain(most, "hunyuan-dense with no factor", &f, LAYERS,
                    plain_rotation(HEAD_DIM, base));
        file_free(&f);
    }
    file_init(&f, &hunyuan);
    key_f32(&f, "rope.freq_base", 500);
    key_f32(&f, "rope.scaling.alpha", 1000);
    check_plain(most, "hunyuan-dense with a factor of the base", &f, LAYERS,
                plain_rotation(HEAD_DIM, 500 * pow(1000, HEAD_DIM / (HEAD_DIM - 2.0))));
    file_free(&f);
}

/* In a file with windows the layers that see everything do not rotate, in one without all do.
 */
static void test_exaone4(void **unused)
{
    (void)unused;
    const double most = 7e-12;
    static const struct form exaone4 = {"exaone4", .norm_after = true, .norm_heads = true};
    const struct sight full = {0, plain_rotation(0, base)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &exaone4);
    check_plain(most, "exaone4", &f, LAYERS, local.rotation);
    key_u32(&f, "attention.sliding_window", WINDOW);
    every(layers, 4, full, local);
    check_within(most, "exaone4 with windows", &f, layers, LAYERS, 0);
    pattern_key(&f, 3);
    every(layers, 3, full, local);
    check_within(most, "exaone4 with windows in a pattern", &f, layers, LAYERS, 0);
    key_u32(&f, "nextn_predict_layers", 1);
    check_within(most, "exaone4 with a block of the next token", &f, layers, LAYERS - 1, 0);
    file_free(&f);
    file_init(&f, &exaone4);
    key_u32(&f, "attention.sliding_window", 0);
    check_plain(most, "exaone4 with a window of 0", &f, LAYERS, local.rotation);
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),         cmocka_unit_test(test_missing),
        cmocka_unit_test(test_granite),       cmocka_unit_test(test_minicpm),
        cmocka_unit_test(test_parallel),      cmocka_unit_test(test_gemma2),
        cmocka_unit_test(test_gemma2_window), cmocka_unit_test(test_long_window),
        cmocka_unit_test(test_hunyuan),       cmocka_unit_test(test_exaone4),
        cmocka_unit_test(test_slopes),        cmocka_unit_test(test_one_base),
        cmocka_unit_test(test_nanbeige),
    };
    return cmocka_run_group_tests_name("families_more", tests, NULL, NULL);
}
