/* Families with experts whose layers differ in what they see and how they rotate, or whose
 * routers and shared experts are their own, on small random models: the logits against those of
 * the second computation. No case may differ by ten times what it was measured to. */
#include "backend/positions.h"
#include "second_model.h"

enum { WIDTH = 12 };              /* of an expert */
static const double base = 10000; /* of files that say nothing of it */

static struct rotation rotation_of(size_t n_rot, double of, bool neighbours)
{
    struct rotation r = plain_rotation(n_rot, of);
    r.neighbours = neighbours;
    return r;
}

/* Of every four layers the last sees everything, or the first. */
static void fourth(struct sight *layers, bool first, struct sight full, struct sight local)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (first ? i : i + 1) % 4 == 0 ? full : local;
}

/* A pattern key of integers, for the first n layers. */
static void pattern_of_ints(struct file *f, bool first, size_t n)
{
    int32_t windowed[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        windowed[i] = (first ? i : i + 1) % 4 != 0;
    array_key(f, "attention.sliding_window_pattern", windowed, n);
}

static void scale_key(struct file *f, const char *name, double *scale, float v)
{
    key_f32(f, name, v);
    *scale = (double)v;
}

/* deepseek, whose weights are as they are, and bailingmoe, whose files say so or otherwise. */
static void test_deepseek(void **unused)
{
    (void)unused;
    const double most = 8e-12;
    static const char *const archs[] = {"deepseek", "bailingmoe"};
    for (int i = 0; i < 4; i++) {
        const bool renormalised = i == 3;
        const struct form form = {archs[i / 2], .norm_before = true,
                                  .experts = {.any = true,
                                              .as_is = !renormalised,
                                              .n_dense = i == 1,
                                              .n_ff = WIDTH,
                                              .n_shared = 2 * WIDTH}};
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "expert_shared_count", 2);
        if (i == 1) key_u32(&f, "leading_dense_block_count", 1);
        if (renormalised) key_bool(&f, "expert_weights_norm", true);
        if (i == 1) scale_key(&f, "expert_weights_scale", &f.scales.experts, 2.5f);
        check_plain(most, form.arch, &f, LAYERS, rotation_of(HEAD_DIM, base, true));
        file_free(&f);
    }
}

/* Dense layers are those without a router; a bias has a name of its own. */
static void test_hy_v3(void **unused)
{
    (void)unused;
    const double most = 9e-12;
    for (int n_dense = 0; n_dense < 3; n_dense++) {
        const struct form form = {"hy_v3", .norm_before = true, .norm_heads = true,
                                  .experts = {.any = true,
                                              .sigmoid = n_dense != 1,
                                              .select = true,
                                              .select_bare = true,
                                              .as_is = n_dense == 2,
                                              .n_dense = n_dense,
                                              .n_ff = WIDTH,
                                              .n_shared = n_dense == 2 ? 20 : WIDTH}};
        struct file f;
        file_init(&f, &form);
        if (n_dense < 2) key_bool(&f, "expert_weights_norm", true);
        if (n_dense == 1) key_u32(&f, "expert_gating_func", 1);
        if (n_dense == 2) key_u32(&f, "expert_shared_feed_forward_length", 20);
        check_plain(most, "hy_v3", &f, LAYERS, plain_rotation(HEAD_DIM, base));
        if (n_dense == 0) {
            key_u32(&f, "nextn_predict_layers", 1);
            check_plain(most, "hy_v3 with a next block", &f, LAYERS - 1,
                        plain_rotation(HEAD_DIM, base));
        }
        file_free(&f);
    }
}

/* Layers that see everything do not rotate. A pattern may say nothing of the next block. */
static void test_exaone_moe(void **unused)
{
    (void)unused;
    const double most = 1e-11;
    static const struct form exaone = {"exaone-moe", .norm_before = true, .norm_heads = true,
                                       .experts = {.any = true,
                                                   .sigmoid = true,
                                                   .select = true,
                                                   .as_is = true,
                                                   .n_dense = 1,
                                                   .n_ff = WIDTH,
                                                   .n_shared = WIDTH}};
    const struct sight full = {0, plain_rotation(0, base)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    fourth(layers, false, full, local);
    for (int next = 0; next < 2; next++) {
        struct file f;
        file_init(&f, &exaone);
        key_u32(&f, "attention.sliding_window", WINDOW);
        key_u32(&f, "leading_dense_block_count", 1);
        if (next) {
            key_u32(&f, "nextn_predict_layers", 1);
            pattern_of_ints(&f, false, LAYERS - 1);
        }
        check_within(most, next ? "exaone-moe with a next block" : "exaone-moe", &f, layers,
                     LAYERS - next, 0);
        file_free(&f);
    }
}

/* YaRN is for layers that see everything alone. */
static void test_mellum(void **unused)
{
    (void)unused;
    const double most = 2.5e-12;
    static const struct form mellum = {"mellum", .norm_before = true, .norm_heads = true,
                                       .experts = {.any = true, .n_ff = WIDTH}};
    const struct rotation yarn = yarn_rotation(HEAD_DIM, 500, 8, 64);
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &mellum);
    key_f32(&f, "rope.freq_base", 500);
    key_str(&f, "rope.scaling.type", "yarn");
    key_f32(&f, "rope.scaling.factor", 8);
    key_u32(&f, "rope.scaling.original_context_length", 64);
    check_plain(most, "mellum without windows", &f, LAYERS, yarn);
    key_u32(&f, "attention.sliding_window", WINDOW);
    fourth(layers, false, (struct sight){0, yarn},
           (struct sight){WINDOW, plain_rotation(HEAD_DIM, 500)});
    check_within(most, "mellum", &f, layers, LAYERS, 0);
    file_free(&f);
}

/* Layers with windows have a base of their own; sinks in some files; what attention adds has a
 * factor. */
static void test_mimo2(void **unused)
{
    (void)unused;
    const double most = 9e-12;
    for (int i = 0; i < 2; i++) {
        const struct form form = {
            "mimo2", .norm_before = true, .sinks = i == 0,
            .experts = {
                .any = true, .sigmoid = true, .select = i == 0, .n_dense = i, .n_ff = WIDTH}};
        struct sight layers[LAYERS];
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "rope.dimension_count", HEAD_DIM / 2);
        key_f32(&f, "rope.freq_base", 500);
        key_u32(&f, "attention.sliding_window", WINDOW);
        check_refused(&f, "m.gguf: key mimo2.attention.sliding_window_pattern is missing");
        pattern_of_ints(&f, true, LAYERS);
        if (i == 0) key_f32(&f, "rope.freq_base_swa", 100);
        if (i == 0) scale_key(&f, "attention.value_scale", &f.scales.attention, 0.75f);
        fourth(layers, true, (struct sight){0, plain_rotation(HEAD_DIM / 2, 500)},
               (struct sight){WINDOW, plain_rotation(HEAD_DIM / 2, i == 0 ? 100 : base)});
        check_within(most, "mimo2", &f, layers, LAYERS, 0);
        key_u32(&f, "nextn_predict_layers", 1);
        check_within(most, "mimo2 with a next block", &f, layers, LAYERS - 1, 0);
        file_free(&f);
    }
}

/* With windows the first of every four layers sees everything and does not rotate; the router
 * reads what attention has not added to yet. */
static void test_smallthinker(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    struct form form = {
        "smallthinker", .norm_before = true, .relu = true,
        .experts = {.any = true, .sigmoid = true, .early = true, .n_ff = WIDTH}};
    struct sight layers[LAYERS];
    struct file f;
    file_init(&f, &form);
    check_plain(most, "smallthinker without windows", &f, LAYERS,
                plain_rotation(HEAD_DIM, base));
    key_u32(&f, "attention.sliding_window", WINDOW);
    fourth(layers, true, (struct sight){0, plain_rotation(0, base)},
           (struct sight){WINDOW, plain_rotation(HEAD_DIM, base)});
    check_within(most, "smallthinker", &f, layers, LAYERS, 0);
    form.experts.sigmoid = false;
    key_u32(&f, "expert_gating_func", 1);
    check_within(most, "smallthinker by softmax", &f, layers, LAYERS, 0);
    file_free(&f);
}

/* Which layers scale queries by their position, and how. */
static bool temperatures(void *user, const struct program *p, struct err *err)
{
    bool *layers = user;
    (void)err;
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_ROW_SCALE) layers[p->ops[i].layer] = true;
    assert_int_equal(p->n_row_scales, 1);
    assert_true(p->row_scales[0].log_scale == 0.1);
    /* Not yet at position 8190, then by the logarithms of 2 and 3. */
    static const size_t at[] = {0, 8190, 8191, 16382, 16383};
    static const double steps[] = {1, 1, 2, 2, 3};
    for (size_t i = 0; i < 5; i++) {
        const double want = 1 + 0.1 * log(steps[i]);
        assert_true(fabs((double)positions_factor(p->row_scales, at[i]) - want) < 1e-7);
    }
    return true;
}

static void check_temperatures(const struct file *f)
{
    const struct model_params params = {.kv_type = KV_F32};
    bool layers[LAYERS] = {false};
    struct buf b = {0};
    struct err err;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_outline(g, &params, temperatures, layers, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(layers[i], i % 4 == 3);
    gguf_close(g);
    buf_free(&b);
}

/* Every fourth layer sees everything and does not rotate, the others see chunks; an expert
 * reads the row times its weight; layers between may be dense. */
static void test_llama4(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    for (int step = 1; step < 3; step++) {
        const struct form form = {"llama4", .norm_before = true, .norm_heads_bare = true,
                                  .experts = {.any = true,
                                              .sigmoid = true,
                                              .as_is = true,
                                              .first = true,
                                              .step = step,
                                              .n_ff = WIDTH,
                                              .n_shared = WIDTH}};
        const struct rotation r = rotation_of(HEAD_DIM, base, true);
        const struct sight full = {.rotation = plain_rotation(0, base)};
        struct sight chunk = {.window = WINDOW_CHUNKS | 8192, .rotation = r}, layers[LAYERS];
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "interleave_moe_layer_step", (uint32_t)step);
        fourth(layers, false, full, chunk);
        check_within(most, "llama4", &f, layers, LAYERS, 0);
        check_temperatures(&f);
        key_u32(&f, "attention.sliding_window", step == 1 ? WINDOW : 0);
        chunk.window = WINDOW_CHUNKS | WINDOW;
        if (step == 1) {
            fourth(layers, false, full, chunk);
            check_within(most, "llama4 in chunks", &f, layers, LAYERS, 0);
        } else {
            check_plain(most, "llama4 without chunks", &f, LAYERS, r);
        }
        file_free(&f);
    }
}

/* Windows and rotations are two patterns; every layer has sinks. */
static void test_granite_swa(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const bool rotates[LAYERS] = {true, false, true, true, true, false, true};
    for (int i = 0; i < 3; i++) {
        const struct form form = {
            "granite_swa", .norm_before = true, .sinks = true,
            .experts = {.any = i > 0, .n_shared = i == 2 ? 24 : 0, .shared_in_up = i == 2}};
        struct sight layers[LAYERS];
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "attention.sliding_window", WINDOW);
        pattern_of_ints(&f, true, LAYERS);
        if (i == 2) key_u32(&f, "expert_shared_feed_forward_length", 24);
        scale_key(&f, "residual_scale", &f.scales.residual, 1.5f);
        scale_key(&f, "logit_scale", &f.scales.logits, 8);
        fourth(layers, true, (struct sight){0, rotation_of(HEAD_DIM, base, true)},
               (struct sight){WINDOW, rotation_of(HEAD_DIM, base, true)});
        check_within(most, "granite_swa", &f, layers, LAYERS, 0);
        bools_key(&f, "attention.rope_pattern", rotates, LAYERS);
        for (int l = 0; l < LAYERS; l++)
            if (!rotates[l]) layers[l].rotation.n_rot = 0;
        check_within(most, "granite_swa with layers that do not rotate", &f, layers, LAYERS, 0);
        file_free(&f);
    }
}

/* Both kinds of norms; what experts give counts half where there is one for all rows. */
static void test_cohere2moe(void **unused)
{
    (void)unused;
    const double most = 3e-12;
    for (int i = 0; i < 3; i++) {
        const struct form form = {"cohere2moe", .norm_before = true, .parallel = true,
                                  .layer_norm = i != 1,
                                  .experts = {.any = true,
                                              .sigmoid = i != 2,
                                              .as_is = true,
                                              .n_dense = i == 0,
                                              .n_ff = WIDTH,
                                              .n_shared = i == 0   ? 2 * WIDTH
                                                          : i == 1 ? 20
                                                                   : 0,
                                              .half = i < 2}};
        struct sight layers[LAYERS];
        struct file f;
        file_init(&f, &form);
        key_f32(&f, "logit_scale", 0.5f);
        f.scales.logits = 2;
        key_u32(&f, "attention.sliding_window", WINDOW);
        if (i < 2) key_u32(&f, "expert_shared_count", 2);
        if (i == 0) key_u32(&f, "leading_dense_block_count", 1);
        if (i == 1) key_u32(&f, "expert_shared_feed_forward_length", 20);
        if (i == 2) key_u32(&f, "expert_gating_func", 1);
        fourth(layers, true, (struct sight){0, plain_rotation(0, base)},
               (struct sight){WINDOW, rotation_of(HEAD_DIM, base, true)});
        if (i == 0) layers[0].rotation = layers[1].rotation;
        check_within(most, i == 1 ? "cohere2moe with RMS norms" : "cohere2moe", &f, layers,
                     LAYERS, 0);
        file_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deepseek),   cmocka_unit_test(test_hy_v3),
        cmocka_unit_test(test_exaone_moe), cmocka_unit_test(test_mellum),
        cmocka_unit_test(test_mimo2),      cmocka_unit_test(test_smallthinker),
        cmocka_unit_test(test_llama4),     cmocka_unit_test(test_granite_swa),
        cmocka_unit_test(test_cohere2moe),
    };
    return cmocka_run_group_tests_name("families_mixed", tests, NULL, NULL);
}
