/* Families whose layers differ in more than a golden case shows, on small random models: the
 * logits against those of the second computation. */
#include "second_model.h"

static const struct form olmo2 = {"olmo2", .norm_after = true, .norm_all = true};
static const struct form gemma3 = {"gemma3",           .norm_before = true,
                                   .norm_after = true, .norm_heads = true,
                                   .gelu = true,       .scaled_embedding = true};
static const struct form gemma4 = {
    "gemma4",     .norm_before = true,      .norm_after = true,  .norm_heads = true,
    .gelu = true, .scaled_embedding = true, .norm_values = true, .plain_scores = true};
static const struct form mistral3 = {"mistral3", .norm_before = true};
static const struct form glm4 = {"glm4", .norm_before = true, .norm_after = true,
                                 .gate_in_up = true};
static const struct form plamo3 = {"plamo3", .norm_before = true, .norm_after = true,
                                   .norm_heads = true, .gate_in_up = true};

static void yarn_keys(struct file *f)
{
    key_str(f, "rope.scaling.type", "yarn");
    key_f32(f, "rope.scaling.factor", 8);
    key_u32(f, "rope.scaling.original_context_length", 512);
}

/* OLMo 3 is an olmo2 file with windows: three layers of four see the window only and rotate by
 * the plain frequencies, the fourth sees all and rotates by those of YaRN. */
static void test_olmo3(void **unused)
{
    (void)unused;
    const double base = 500;
    const struct sight yarn = {0, yarn_rotation(HEAD_DIM, base, 8, 512)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, base)};
    const struct sight other = {WINDOW, plain_rotation(HEAD_DIM, 100)};
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &olmo2);
    key_f32(&f, "rope.freq_base", (float)base);
    yarn_keys(&f);
    every(layers, 1, yarn, local);
    check("olmo2 with YaRN", &f, layers, LAYERS, 0);
    key_u32(&f, "attention.sliding_window", WINDOW);
    every(layers, 4, yarn, local);
    check("olmo2 with windows", &f, layers, LAYERS, 0);
    pattern_key(&f, 3);
    every(layers, 3, yarn, local);
    check("olmo2 with windows in a pattern", &f, layers, LAYERS, 0);
    key_f32(&f, "rope.freq_base_swa", 100);
    every(layers, 3, yarn, other);
    check("olmo2 with another base in windows", &f, layers, LAYERS, 0);
    file_free(&f);
    file_init(&f, &olmo2);
    key_f32(&f, "rope.freq_base", (float)base);
    yarn_keys(&f);
    key_u32(&f, "attention.sliding_window", 0);
    every(layers, 1, yarn, local);
    check("olmo2 with a window of 0", &f, layers, LAYERS, 0);
    /* As allenai/Olmo-3's attention_factor: the whole factor, not one beside that of YaRN. */
    struct sight whole = yarn;
    whole.rotation.scale = 1.25;
    key_f32(&f, "rope.scaling.attn_factor", 1.25F);
    every(layers, 1, whole, local);
    check("olmo2 with the factor of cos and sin", &f, layers, LAYERS, 0);
    file_free(&f);
}

/* The files of glm4 whose models see images, too, have the rows of Q and K in another order,
 * and some count a block that is not to run. */
static void test_glm4(void **unused)
{
    (void)unused;
    enum { N_ROT = HEAD_DIM / 2 };
    static const int32_t three[] = {1, 2, 1, 0}, none[] = {0, 0, 0, 0}, four[] = {1, 1, 1, 1};
    static const struct {
        const char *name;
        const int32_t *sections;
        bool neighbours, next;
    } cases[] = {
        {"glm4", NULL, true, false},
        {"glm4 with sections", three, false, false},
        {"glm4 with sections of nothing", none, true, false},
        {"glm4 with a block of the next token", three, false, true},
    };
    struct sight layers[LAYERS], s = {0, plain_rotation(N_ROT, 10000)};
    struct file f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_init(&f, &glm4);
        key_u32(&f, "rope.dimension_count", N_ROT);
        if (cases[i].sections) sections_key(&f, cases[i].sections, 4);
        if (cases[i].next) key_u32(&f, "nextn_predict_layers", 1);
        s.rotation.neighbours = cases[i].neighbours;
        every(layers, 1, s, s);
        check(cases[i].name, &f, layers, LAYERS - cases[i].next, 0);
        file_free(&f);
    }
    file_init(&f, &glm4);
    sections_key(&f, four, 4);
    check_refused(&f, "m.gguf: key glm4.rope.dimension_sections should end in a section of 0, "
                      "but that is 1");
    file_free(&f);
}

/* gemma3 has windows and rotates in them by another base; Rnj-1, a gemma3 without windows, does
 * everywhere what gemma3 does in the layers that see all. */
static void test_gemma3(void **unused)
{
    (void)unused;
    const double base = 1000000, cap = 3;
    const struct sight yarn = {0, yarn_rotation(HEAD_DIM, base, 8, 512)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 10000)};
    struct sight layers[LAYERS];
    static const struct {
        const char *name;
        bool has_key;
        uint32_t window;
    } cases[] = {
        {"gemma3", true, WINDOW},
        {"gemma3 without windows", false, 0},
        {"gemma3 with a window of 0", true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f;
        file_init(&f, &gemma3);
        key_f32(&f, "rope.freq_base", (float)base);
        yarn_keys(&f);
        if (cases[i].has_key) key_u32(&f, "attention.sliding_window", cases[i].window);
        every(layers, cases[i].window > 0 ? 6 : 1, yarn, local);
        check(cases[i].name, &f, layers, LAYERS, 0);
        key_f32(&f, "final_logit_softcapping", (float)cap);
        check("the same with a cap", &f, layers, LAYERS, cap);
        file_free(&f);
    }
}

/* As PLaMo's converter has it: Q, K and V are one tensor, and the names of norms behind
 * attention and feed-forward end at what they are of. */
static void name_as_plamo(struct file *f)
{
    static const char *const norms[] = {"post_attention_norm", "post_ffw_norm"};
    fuse(f);
    for (int i = 0; i < LAYERS; i++)
        for (size_t k = 0; k < 2; k++) {
            struct values *t = tensor_of(f, i, norms[k]);
            snprintf(t->name, sizeof t->name, "blk.%d.%s", i, norms[k]);
        }
}

/* Windows in seven layers of eight, or as the file says, which rotate by another base and are
 * not scaled; or none. */
static void test_plamo3(void **unused)
{
    (void)unused;
    const double most = 9e-12, base = 1000000;
    const struct sight yarn = {0, yarn_rotation(HEAD_DIM, base, 8, 512)};
    static const struct {
        const char *name;
        uint32_t window;
        int period;
        float local; /* base; 0: there is no key */
    } cases[] = {
        {"plamo3", WINDOW, 0, 0},
        {"plamo3 with windows in a pattern", WINDOW, 3, 0},
        {"plamo3 with a base in windows", WINDOW, 3, 100},
        {"plamo3 with a window of 0", 0, 3, 100},
    };
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double local = cases[i].local > 0 ? (double)cases[i].local : 10000;
        const int period = cases[i].window == 0 ? 1 : cases[i].period ? cases[i].period : 8;
        struct sight layers[LAYERS];
        struct file f;
        file_init(&f, &plamo3);
        key_f32(&f, "rope.freq_base", (float)base);
        yarn_keys(&f);
        key_u32(&f, "attention.sliding_window", cases[i].window);
        if (cases[i].period)
            key_u32(&f, "attention.sliding_window_pattern", (uint32_t)cases[i].period);
        if (cases[i].local > 0) key_f32(&f, "rope.freq_base_swa", cases[i].local);
        every(layers, period, yarn, (struct sight){WINDOW, plain_rotation(HEAD_DIM, local)});
        compute(&f, layers, LAYERS, 0, want);
        name_as_plamo(&f);
        check_logits(most, cases[i].name, &f, want);
        file_free(&f);
    }
    free(want);
}

/* gemma4 with n_shared layers that read the keys of others. */
static void gemma4_file(struct file *f, uint32_t n_shared)
{
    file_init(f, &gemma4);
    key_u32(f, "attention.sliding_window", WINDOW);
    key_u32(f, "attention.shared_kv_layers", n_shared);
    pattern_key(f, 3);
}

/* The values of gemma4 are normed, whether their rows are a tensor or a part of one; a layer
 * that reads the keys of another may have some, too. */
static void test_gemma4(void **unused)
{
    (void)unused;
    const struct sight full = {0, plain_rotation(HEAD_DIM, 10000)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 10000)};
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    struct sight layers[LAYERS];
    struct file f;
    gemma4_file(&f, 0);
    every(layers, 3, full, local);
    check("gemma4", &f, layers, LAYERS, 0);
    file_free(&f);
    for (uint32_t n_shared = 0; n_shared < 2; n_shared++) {
        gemma4_file(&f, n_shared);
        run(&f, want);
        fuse(&f);
        run(&f, got);
        assert_memory_equal(got, want, n * sizeof *got);
        file_free(&f);
    }
    gemma4_file(&f, 0);
    key_u32(&f, "rope.dimension_count_swa", 7);
    check_refused(&f, "m.gguf: key gemma4.rope.dimension_count_swa should be even, but is 7");
    file_free(&f);
    gemma4_file(&f, 0);
    key_u32(&f, "attention.value_length_swa", 12);
    struct values *v = tensor_of(&f, 0, "attn_v");
    free(v->v);
    *v = f.tensors[--f.n_tensors];
    check_refused(&f,
                  "m.gguf: tensor blk.0.attn_v.weight: expected [64, 24], but it is missing");
    file_free(&f);
    free(want);
    free(got);
}

/* The gates of qwen35 come with the rows of Q, whether those are a tensor or a part of one. */
static void test_gates(void **unused)
{
    (void)unused;
    static const struct form qwen35 = {"qwen35", .norm_before = true, .norm_heads = true};
    static const char *const ssm[] = {"conv_kernel", "state_size", "group_count",
                                      "time_step_rank", "inner_size"};
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    struct file f;
    file_init(&f, &qwen35);
    key_u32(&f, "full_attention_interval", 1);
    for (size_t i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "ssm.%s", ssm[i]);
        key_u32(&f, name, 2);
    }
    for (int i = 0; i < LAYERS; i++) {
        struct values *q = tensor_of(&f, i, "attn_q"), *norm = tensor_of(&f, i, "ffn_norm");
        snprintf(norm->name, sizeof norm->name, "blk.%d.post_attention_norm.weight", i);
        free(q->v);
        *q = f.tensors[--f.n_tensors];
        layer_tensor(&f, i, "attn_q", EMBD, 2 * HEADS * HEAD_DIM);
    }
    run(&f, want);
    fuse(&f);
    run(&f, got);
    assert_memory_equal(got, want, n * sizeof *got);
    file_free(&f);
    free(want);
    free(got);
}

/* A key that Ollama's converter names otherwise. */
struct alias {
    const char *key, *alias;
    float value;
};

/* Logits of a file with YaRN and those keys: NULL ends the list. Each has its common name, or
 * Ollama's, or both, of which Ollama's is wrong; the one called `without` is left out. */
static void run_named(const struct form *form, const struct alias *list, bool common,
                      bool ollama, const char *without, float *logits)
{
    struct file f;
    file_init(&f, form);
    key_str(&f, "rope.scaling.type", "yarn");
    key_f32(&f, "rope.scaling.factor", 8);
    key_u32(&f, "rope.scaling.original_context_length", 16);
    key_u32(&f, "attention.sliding_window", WINDOW); /* no matter to mistral3 */
    for (const struct alias *a = list; a->key; a++) {
        if (without && strcmp(without, a->key) == 0) continue;
        if (common) key_f32(&f, a->key, a->value);
        if (ollama) key_f32(&f, a->alias, common ? a->value * 0.5f : a->value);
    }
    run(&f, logits);
    file_free(&f);
}

static void check_aliases(const struct form *form, const struct alias *list)
{
    const size_t n = N_IDS * VOCAB;
    float *want = mem_zalloc(n, sizeof *want), *got = mem_zalloc(n, sizeof *got);
    run_named(form, list, true, false, NULL, want);
    run_named(form, list, false, true, NULL, got);
    assert_memory_equal(got, want, n * sizeof *got);
    run_named(form, list, true, true, NULL, got);
    assert_memory_equal(got, want, n * sizeof *got);
    for (const struct alias *a = list; a->key; a++) { /* that the test would see it */
        run_named(form, list, true, false, a->key, got);
        if (golden_nmse(want, got, n) < 1e-6) fail_msg("%s changes nothing", a->key);
    }
    free(want);
    free(got);
}

static void test_aliases(void **unused)
{
    (void)unused;
    static const struct alias of_gemma3[] = {
        {"rope.freq_base", "rope.global.freq_base", 30000}, /* not the model's own */
        {"rope.freq_base_swa", "rope.local.freq_base", 500},
        {"rope.scaling.yarn_ext_factor", "rope.scaling.extrapolation_factor", 0.5f},
        {NULL, NULL, 0},
    };
    static const struct alias of_mistral3[] = {
        {"rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast", 0.5f},
        {"rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow", 0.125f},
        {"rope.scaling.yarn_log_multiplier", "rope.scaling.mscale_all_dim", 1},
        {"attention.temperature_scale", "rope.scaling_beta", 0.5f},
        {NULL, NULL, 0},
    };
    check_aliases(&gemma3, of_gemma3);
    check_aliases(&mistral3, of_mistral3);
    struct file f;
    file_init(&f, &mistral3);
    key_f32(&f, "rope.scaling_beta", 0.1f);
    key_u32(&f, "rope.scaling.original_context_length", 16);
    check_refused(&f, "m.gguf: with key mistral3.rope.scaling_beta, key "
                      "mistral3.rope.scaling.type should be yarn, but is not: the file lacks "
                      "the scaling of its model");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_olmo3),   cmocka_unit_test(test_glm4),
        cmocka_unit_test(test_gemma3),  cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_plamo3),  cmocka_unit_test(test_gates),
        cmocka_unit_test(test_aliases),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
