/* Families whose feed-forward is experts, on small random models: the logits against those of
 * the second computation. No case may differ by ten times what it was measured to. */
#include "second_model.h"

enum { WIDTH = 12 };              /* of an expert, where a file says it */
static const double base = 10000; /* of files that say nothing of it */

/* What a form says is all that is to be known of these. */
static void test_forms(void **unused)
{
    (void)unused;
    static const int32_t sections[] = {2, 2, 2, 0};
    const double most = 2.5e-12;
    static const struct {
        const char *name;
        struct form form;
        size_t n_rot;
        bool neighbours, sections;
        uint32_t gating; /* 0: no key */
    } cases[] = {
        {"llama",
         {"llama", .norm_before = true, .experts = {.any = true}},
         .n_rot = HEAD_DIM,
         .neighbours = true},
        {"qwen3moe",
         {"qwen3moe", .norm_before = true, .norm_heads = true,
          .experts = {.any = true, .n_ff = WIDTH}},
         .n_rot = HEAD_DIM},
        {"qwen3vlmoe",
         {"qwen3vlmoe", .norm_before = true, .norm_heads = true,
          .experts = {.any = true, .n_ff = WIDTH}},
         .n_rot = HEAD_DIM,
         .sections = true},
        {"olmoe",
         {"olmoe", .norm_before = true, .norm_all = true,
          .experts = {.any = true, .as_is = true}},
         .n_rot = HEAD_DIM},
        {"minimax-m2",
         {"minimax-m2", .norm_before = true, .norm_all = true,
          .experts = {.any = true, .sigmoid = true, .select = true, .n_ff = FF}},
         .n_rot = HEAD_DIM / 2,
         .gating = 2},
        {"minimax-m2 by softmax",
         {"minimax-m2", .norm_before = true, .norm_all = true,
          .experts = {.any = true, .select = true, .n_ff = FF}},
         .n_rot = HEAD_DIM / 2,
         .gating = 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rotation r = plain_rotation(cases[i].n_rot, base);
        struct file f;
        r.neighbours = cases[i].neighbours;
        file_init(&f, &cases[i].form);
        if (cases[i].n_rot < HEAD_DIM)
            key_u32(&f, "rope.dimension_count", (uint32_t)cases[i].n_rot);
        if (cases[i].gating > 0) key_u32(&f, "expert_gating_func", cases[i].gating);
        if (cases[i].sections) sections_key(&f, sections, 4);
        /* A softmax over the chosen is one of all, renormalised. */
        if (strcmp(cases[i].name, "qwen3moe") == 0) key_u32(&f, "expert_gating_func", 3);
        check_plain(most, cases[i].name, &f, LAYERS, r);
        file_free(&f);
    }
}

/* The scale of what a layer adds is of experts, too, and of the one that all rows use. */
static void test_granitemoe(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form forms[] = {
        {"granitemoe", .norm_before = true, .experts = {.any = true}},
        {"granitemoe", .norm_before = true, .experts = {.any = true, .n_shared = 24}},
    };
    struct rotation r = plain_rotation(HEAD_DIM, base);
    r.neighbours = true;
    for (size_t i = 0; i < 2; i++) {
        struct file f;
        file_init(&f, &forms[i]);
        if (i > 0) key_u32(&f, "expert_shared_feed_forward_length", 24);
        key_f32(&f, "residual_scale", 1.5f);
        key_f32(&f, "logit_scale", 8);
        f.scales = (struct scales){.residual = 1.5, .logits = 8};
        check_plain(most, i > 0 ? "granitemoe with a shared one" : "granitemoe", &f, LAYERS, r);
        file_free(&f);
    }
}

/* The one that all rows use is as wide as a key says, or as a dense feed-forward would be. */
static void check_shared(double most, const char *name, struct form form, size_t n_shared)
{
    struct file f;
    form.experts.n_shared = n_shared;
    file_init(&f, &form);
    if (n_shared < FF) key_u32(&f, "expert_shared_feed_forward_length", (uint32_t)n_shared);
    check_plain(most, name, &f, LAYERS, plain_rotation(HEAD_DIM, base));
    file_free(&f);
}

static const struct form qwen2moe = {
    "qwen2moe", .norm_before = true, .biases = true,
    .experts = {.any = true, .as_is = true, .shared_gated = true, .n_ff = WIDTH}};

static void test_qwen2moe(void **unused)
{
    (void)unused;
    const double most = 2.5e-12;
    check_shared(most, "qwen2moe", qwen2moe, 24);
    check_shared(most, "qwen2moe without a width", qwen2moe, FF);
}

static void test_hunyuan_moe(void **unused)
{
    (void)unused;
    static const struct form hunyuan = {"hunyuan-moe", .norm_before = true, .norm_heads = true,
                                        .norm_last = true, .experts = {.any = true}};
    const double most = 1e-11;
    check_shared(most, "hunyuan-moe", hunyuan, 24);
    check_shared(most, "hunyuan-moe without a width", hunyuan, FF);
}

/* Dense layers in front; an expert for all rows or none, and a bias of the choice or none. */
static void test_ernie(void **unused)
{
    (void)unused;
    const double most = 4.5e-12;
    static const struct form ernie = {"ernie4_5-moe", .norm_before = true,
                                      .experts = {.any = true, .n_ff = WIDTH}};
    static const struct {
        const char *name;
        int n_dense;
        size_t n_shared;
        bool select;
    } cases[] = {
        {"ernie4_5-moe", 0, 0, false},
        {"ernie4_5-moe with a bias of the choice", 1, 24, true},
        {"ernie4_5-moe with dense layers", 2, 0, true},
        {"ernie4_5-moe with a shared one", 0, 24, false},
    };
    struct rotation r = plain_rotation(HEAD_DIM, base);
    struct file f;
    r.neighbours = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct form form = ernie;
        form.experts.n_dense = cases[i].n_dense;
        form.experts.n_shared = cases[i].n_shared;
        form.experts.select = cases[i].select;
        file_init(&f, &form);
        key_u32(&f, "interleave_moe_layer_step", 1);
        if (cases[i].n_dense > 0)
            key_u32(&f, "leading_dense_block_count", (uint32_t)cases[i].n_dense);
        key_u32(&f, "expert_shared_feed_forward_length", (uint32_t)cases[i].n_shared);
        check_plain(most, cases[i].name, &f, LAYERS, r);
        file_free(&f);
    }
    file_init(&f, &ernie);
    key_u32(&f, "interleave_moe_layer_step", 2);
    check_refused(&f, "m.gguf: key ernie4_5-moe.interleave_moe_layer_step should be between 1 "
                      "and 1, but is 2");
    file_free(&f);
}

static const struct form glm4moe = {
    "glm4moe", .norm_before = true, .norm_named = true,
    .experts = {
        .any = true, .sigmoid = true, .select = true, .n_ff = WIDTH, .n_shared = WIDTH}};

static void glm4moe_file(struct file *f, const struct form *form)
{
    file_init(f, form);
    key_u32(f, "rope.dimension_count", HEAD_DIM / 2);
    key_u32(f, "expert_shared_count", (uint32_t)form->experts.n_shared / WIDTH);
    key_u32(f, "leading_dense_block_count", (uint32_t)form->experts.n_dense);
    key_bool(f, "expert_weights_norm", !form->experts.as_is);
}

/* The one for all rows is as wide as several; how experts count may be scaled. */
static void test_glm4moe(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    const struct rotation r = plain_rotation(HEAD_DIM / 2, base);
    struct file f;
    glm4moe_file(&f, &glm4moe);
    check_plain(most, "glm4moe", &f, LAYERS, r);
    key_f32(&f, "expert_weights_scale", 2.5f);
    f.scales.experts = 2.5;
    check_plain(most, "glm4moe with a scale", &f, LAYERS, r);
    file_free(&f);
    struct form softmax = glm4moe;
    softmax.experts.sigmoid = false;
    glm4moe_file(&f, &softmax);
    key_u32(&f, "expert_gating_func", 1);
    check_plain(most, "glm4moe by softmax", &f, LAYERS, r);
    file_free(&f);
    softmax.experts.as_is = true;
    glm4moe_file(&f, &softmax);
    key_u32(&f, "expert_gating_func", 1);
    check_plain(most, "glm4moe by softmax with weights as they are", &f, LAYERS, r);
    file_free(&f);
}

/* Dense layers in front, a block behind that is not to run, none or many for all rows. */
static void test_glm4moe_layers(void **unused)
{
    (void)unused;
    static const int32_t sections[] = {1, 2, 1, 0};
    const double most = 2.5e-12;
    const struct rotation r = plain_rotation(HEAD_DIM / 2, base);
    struct form form = glm4moe;
    struct file f;
    form.biases = form.norm_heads = true;
    form.experts.n_dense = 2;
    form.experts.n_shared = 3 * WIDTH;
    glm4moe_file(&f, &form);
    sections_key(&f, sections, 4);
    check_plain(most, "glm4moe with biases and norms", &f, LAYERS, r);
    key_u32(&f, "nextn_predict_layers", 1);
    layer_tensor(&f, LAYERS - 1, "nextn.eh_proj", 2 * EMBD, EMBD);
    check_plain(most, "glm4moe with a block of the next token", &f, LAYERS - 1, r);
    file_free(&f);
    form.experts.as_is = true;
    form.experts.n_shared = 0;
    glm4moe_file(&f, &form);
    key_u32(&f, "expert_gating_func", 2);
    key_f32(&f, "expert_weights_scale", 0);
    check_plain(most, "glm4moe with weights as they are", &f, LAYERS, r);
    file_free(&f);
}

/* As the first layers of glm4moe, without its name for a norm; where files do not say it
 * weights count as they are. */
static void test_dots1(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    static const struct form dots1 = {"dots1", .norm_before = true, .norm_heads = true,
                                      .experts = {.any = true,
                                                  .sigmoid = true,
                                                  .select = true,
                                                  .as_is = true,
                                                  .n_dense = 2,
                                                  .n_ff = WIDTH,
                                                  .n_shared = 2 * WIDTH}};
    struct file f;
    file_init(&f, &dots1);
    key_u32(&f, "expert_shared_count", 2);
    key_u32(&f, "leading_dense_block_count", 2);
    check_plain(most, "dots1", &f, LAYERS, plain_rotation(HEAD_DIM, base));
    file_free(&f);
}

/* Experts of the better half, those for all rows of a width of their own, a block for the next
 * token. */
static void test_bailingmoe2(void **unused)
{
    (void)unused;
    enum { SHARED = 20 };
    const double most = 1e-11;
    static const struct form bailing = {"bailingmoe2", .norm_before = true, .norm_heads = true,
                                        .experts = {.any = true,
                                                    .sigmoid = true,
                                                    .select = true,
                                                    .halves = true,
                                                    .n_dense = 1,
                                                    .n_ff = WIDTH,
                                                    .n_shared = 2 * SHARED}};
    struct file f;
    file_init(&f, &bailing);
    key_u32(&f, "rope.dimension_count", HEAD_DIM / 2);
    key_u32(&f, "expert_shared_count", 2);
    key_u32(&f, "expert_shared_feed_forward_length", SHARED);
    key_u32(&f, "leading_dense_block_count", 1);
    check_plain(most, "bailingmoe2", &f, LAYERS, plain_rotation(HEAD_DIM / 2, base));
    key_u32(&f, "nextn_predict_layers", 1);
    check_plain(most, "bailingmoe2 with a next block", &f, LAYERS - 1,
                plain_rotation(HEAD_DIM / 2, base));
    file_free(&f);
}

/* Every fourth layer sees all and does not rotate; without windows it does not rotate either.
 */
static void test_afmoe(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form afmoe = {"afmoe",
                                      .norm_before = true,
                                      .norm_after = true,
                                      .norm_heads = true,
                                      .gate_heads = true,
                                      .scaled_embedding = true,
                                      .experts = {.any = true,
                                                  .sigmoid = true,
                                                  .select = true,
                                                  .n_dense = 1,
                                                  .n_ff = WIDTH,
                                                  .n_shared = WIDTH}};
    const struct sight full = {0, plain_rotation(0, base)};
    struct sight local = {0, plain_rotation(HEAD_DIM, base)}, layers[LAYERS];
    struct file f;
    file_init(&f, &afmoe);
    key_u32(&f, "expert_shared_count", 1);
    key_u32(&f, "leading_dense_block_count", 1);
    every(layers, 4, full, local);
    check_within(most, "afmoe without windows", &f, layers, LAYERS, 0);
    key_u32(&f, "attention.sliding_window", WINDOW);
    local.window = WINDOW;
    every(layers, 4, full, local);
    check_within(most, "afmoe", &f, layers, LAYERS, 0);
    key_u32(&f, "attention.value_length", 12);
    check_refused(&f, "m.gguf: key afmoe.attention.value_length should be 16 as the length of "
                      "keys, which gates have, but is 12");
    file_free(&f);
}

/* Experts that are not counted or are chosen in another way than the family's, and what a model
 * needs that its file has not. */
static void test_refused(void **unused)
{
    (void)unused;
    static const char *const archs[] = {"ernie4_5-moe", "glm4moe",   "hunyuan-moe",
                                        "minimax-m2",   "olmoe",     "qwen2moe",
                                        "qwen3moe",     "qwen3vlmoe"};
    static const struct form minimax = {
        "minimax-m2", .norm_before = true, .norm_all = true,
        .experts = {.any = true, .sigmoid = true, .select = true, .n_ff = FF}};
    struct form unbiased = qwen2moe;
    struct file f;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        const struct form form = {archs[i], .norm_before = true};
        char message[96];
        file_init(&f, &form);
        snprintf(message, sizeof message, "m.gguf: key %s.expert_count is missing", archs[i]);
        check_refused(&f, message);
        file_free(&f);
    }
    file_init(&f, &glm4moe);
    check_refused(&f, "m.gguf: key glm4moe.expert_shared_count is missing");
    file_free(&f);
    file_init(&f, &minimax);
    key_u32(&f, "expert_group_count", 4);
    key_u32(&f, "expert_group_used_count", 1);
    check_refused(&f, "m.gguf: 6 experts in 4 groups, of which 1 are used, do not give 2");
    file_free(&f);
    file_init(&f, &minimax);
    key_u32(&f, "expert_group_count", 3);
    key_u32(&f, "expert_group_used_count", 2);
    key_u32(&f, "expert_gating_func", 1);
    check_refused(&f, "m.gguf: key minimax-m2.expert_group_count is 3; experts in groups are "
                      "chosen by sigmoids, but the file's are not");
    file_free(&f);
    file_init(&f, &minimax);
    key_u32(&f, "expert_gating_func", 3);
    check_refused(&f, "m.gguf: key minimax-m2.expert_gating_func should be between 1 and 2, "
                      "but is 3");
    file_free(&f);
    file_init(&f, &qwen2moe);
    key_u32(&f, "expert_gating_func", 2);
    check_refused(&f, "m.gguf: key qwen2moe.expert_gating_func is 2, but hearth's qwen2moe "
                      "chooses experts by a softmax");
    file_free(&f);
    file_init(&f, &qwen2moe);
    key_bool(&f, "expert_weights_norm", true);
    check_refused(&f, "m.gguf: key qwen2moe.expert_weights_norm is true, but hearth's qwen2moe "
                      "takes weights as they are");
    file_free(&f);
    unbiased.biases = false;
    file_init(&f, &unbiased);
    check_refused(&f, "m.gguf: tensor blk.0.attn_q.bias: expected [64], but it is missing");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),          cmocka_unit_test(test_granitemoe),
        cmocka_unit_test(test_qwen2moe),       cmocka_unit_test(test_hunyuan_moe),
        cmocka_unit_test(test_ernie),          cmocka_unit_test(test_glm4moe),
        cmocka_unit_test(test_glm4moe_layers), cmocka_unit_test(test_bailingmoe2),
        cmocka_unit_test(test_dots1),          cmocka_unit_test(test_afmoe),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_experts", tests, NULL, NULL);
}
