/* Families that gate what each head of attention gives by one value, on small random models:
 * the logits against those of a second computation in double. No case may differ by ten times
 * what it was measured to. */
#include "second_model.h"

enum { WIDTH = 24, SHARED = 12 };

static void windows_keys(struct file *f, double full_base, double local_base)
{
    key_u32(f, "attention.sliding_window", WINDOW);
    key_f32(f, "rope.freq_base", (float)full_base);
    if (local_base > 0) key_f32(f, "rope.freq_base_swa", (float)local_base);
}

/* The first of every four layers sees everything. */
static void first_of_four(struct sight *layers, struct sight full, struct sight local)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] = i % 4 == 0 ? full : local;
}

static void first_pattern(struct file *f)
{
    bool windowed[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        windowed[i] = i % 4 != 0;
    bools_key(f, "attention.sliding_window_pattern", windowed, LAYERS);
}

/* Layers with windows have a base and dims of their own; nothing is scaled. */
static void test_spark(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    static const struct form spark = {"spark2_5", .norm_before = true, .gate_heads = true,
                                      .gate_each = true, .gelu = true};
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct file f;
    file_init(&f, &spark);
    windows_keys(&f, 500, 0);
    check_refused(&f, "m.gguf: key spark2_5.attention.sliding_window_pattern is missing");
    pattern_key(&f, 4);
    every(layers, 4, (struct sight){0, plain_rotation(HEAD_DIM, 500)},
          (struct sight){WINDOW, plain_rotation(HEAD_DIM, 500)});
    check_within(most, "spark2_5 with one base", &f, layers, LAYERS, 0);
    key_f32(&f, "rope.freq_base_swa", 100);
    key_u32(&f, "rope.dimension_count", HEAD_DIM / 2);
    every(layers, 4, (struct sight){0, plain_rotation(HEAD_DIM / 2, 500)},
          (struct sight){WINDOW, plain_rotation(HEAD_DIM / 2, 100)});
    check_within(most, "spark2_5", &f, layers, LAYERS, 0);
    key_u32(&f, "rope.dimension_count_swa", HEAD_DIM - 4);
    every(layers, 4, (struct sight){0, plain_rotation(HEAD_DIM / 2, 500)},
          (struct sight){WINDOW, plain_rotation(HEAD_DIM - 4, 100)});
    check_within(most, "spark2_5 with dims of its own", &f, layers, LAYERS, 0);
    compute(&f, layers, LAYERS, 0, want);
    fuse(&f);
    check_logits(most, "spark2_5, fused", &f, want);
    free(want);
    key_f32(&f, "rope.scaling.factor", 4);
    check_refused(&f, "m.gguf: the file scales its rotations (context by 4, cos and sin by 1), "
                      "which hearth's spark2_5 does not");
    file_free(&f);
    file_init(&f, &spark);
    windows_keys(&f, 500, 0);
    pattern_key(&f, 4);
    key_u32(&f, "rope.dimension_count_swa", 7);
    check_refused(&f, "m.gguf: key spark2_5.rope.dimension_count_swa should be even, but is 7");
    file_free(&f);
}

/* A number that both computations take. */
static void factor_key(struct file *f, const char *name, double *scale, float value)
{
    *scale = (double)value;
    key_f32(f, name, value);
}

static void yarn_keys(struct file *f)
{
    key_str(f, "rope.scaling.type", "yarn");
    key_f32(f, "rope.scaling.factor", 8);
    key_u32(f, "rope.scaling.original_context_length", 64);
}

/* Gates count by their softplus, in some models each for a value; layers with windows rotate
 * other dims, without scaling. */
static void test_laguna(void **unused)
{
    (void)unused;
    const double most = 9e-12;
    for (int i = 0; i < 2; i++) {
        const bool each = i == 0;
        struct form form = {"laguna",
                            .norm_before = true,
                            .norm_heads = true,
                            .gate_heads = true,
                            .gate_each = each,
                            .softplus = true,
                            .experts = {.any = true,
                                        .sigmoid = true,
                                        .select = true,
                                        .as_is = true,
                                        .n_dense = 1,
                                        .n_ff = WIDTH,
                                        .n_shared = each ? SHARED : WIDTH}};
        const struct rotation yarn = yarn_rotation(HEAD_DIM / 2, 500, 8, 64);
        struct sight layers[LAYERS];
        struct file f;
        file_init(&f, &form);
        key_u32(&f, "leading_dense_block_count", 1);
        key_u32(&f, "rope.dimension_count", HEAD_DIM / 2);
        yarn_keys(&f);
        if (each) key_u32(&f, "expert_shared_feed_forward_length", SHARED);
        factor_key(&f, "expert_weights_scale", &f.scales.experts, 2.5f);
        windows_keys(&f, 500, 100);
        first_of_four(layers, (struct sight){0, yarn},
                      (struct sight){WINDOW, plain_rotation(HEAD_DIM / 2, 100)});
        check_within(most, each ? "laguna" : "laguna with gates of values", &f, layers, LAYERS,
                     0);
        key_u32(&f, "rope.dimension_count_swa", HEAD_DIM);
        first_of_four(layers, (struct sight){0, yarn},
                      (struct sight){WINDOW, plain_rotation(HEAD_DIM, 100)});
        form.experts.as_is = form.experts.sigmoid = false;
        key_bool(&f, "expert_weights_norm", true);
        key_u32(&f, "expert_gating_func", 1);
        check_within(most, "laguna by softmax, renormalised", &f, layers, LAYERS, 0);
        file_free(&f);
        file_init(&f, &form);
        key_u32(&f, "leading_dense_block_count", 1);
        key_u32(&f, "expert_shared_feed_forward_length", (uint32_t)form.experts.n_shared);
        key_bool(&f, "expert_weights_norm", true);
        key_u32(&f, "expert_gating_func", 1);
        check_plain(most, "laguna without windows", &f, LAYERS,
                    plain_rotation(HEAD_DIM, 10000));
        tensor_of(&f, 3, "attn_gate")->n_out--;
        check_refused(&f, each ? "m.gguf: tensor blk.3.attn_gate.weight: expected [64, 4], "
                                 "found [64, 3]"
                               : "m.gguf: tensor blk.3.attn_gate.weight: expected [64, 4], "
                                 "found [64, 63]");
        file_free(&f);
    }
}

static const float limits[LAYERS] = {0.5f, 0, 0.75f, 0, 0, 0.625f, 16};
static const float expert_limits[LAYERS] = {0, 0, 0, 0.5f, 0, 0.75f, 7};

static const struct form step35 = {"step35",
                                   .norm_before = true,
                                   .norm_heads = true,
                                   .gate_heads = true,
                                   .gate_each = true,
                                   .unit_limits = limits,
                                   .expert_limits = expert_limits,
                                   .experts = {.any = true,
                                               .sigmoid = true,
                                               .select = true,
                                               .as_is = true,
                                               .n_dense = 2,
                                               .n_ff = WIDTH,
                                               .n_shared = SHARED}};

static void step35_init(struct file *f, const struct form *form)
{
    file_init(f, form);
    key_u32(f, "expert_shared_feed_forward_length", SHARED);
    windows_keys(f, 500, 100);
    first_pattern(f);
}

/* Layers that see everything rotate half as many dims; units of some layers have limits. */
static void test_step35(void **unused)
{
    (void)unused;
    const double most = 9e-12;
    struct sight full = {0, plain_rotation(HEAD_DIM / 2, 500)};
    const struct sight local = {WINDOW, plain_rotation(HEAD_DIM, 100)};
    struct form form = step35;
    struct sight layers[LAYERS];
    struct file f;
    step35_init(&f, &form);
    first_of_four(layers, full, local);
    check_within(most, "step35", &f, layers, LAYERS, 0);
    random_tensor(&f, "rope_freqs.weight", HEAD_DIM / 2, 1, 2, 0.5);
    const float *factors = values_named(&f, "rope_freqs.weight");
    for (size_t i = 0; i < HEAD_DIM / 4; i++)
        full.rotation.freq[i] /= (double)factors[i];
    first_of_four(layers, full, local);
    form.experts.as_is = false;
    key_bool(&f, "expert_weights_norm", true);
    factor_key(&f, "expert_weights_scale", &f.scales.experts, 3);
    check_within(most, "step35 with factors, renormalised", &f, layers, LAYERS, 0);
    key_u32(&f, "nextn_predict_layers", 1);
    check_within(most, "step35 with a next block", &f, layers, LAYERS - 1, 0);
    file_free(&f);
    form = step35;
    form.norm_heads = form.gate_heads = false;
    form.unit_limits = form.expert_limits = NULL;
    step35_init(&f, &form);
    full.rotation = plain_rotation(HEAD_DIM / 2, 500);
    first_of_four(layers, full, local);
    check_within(most, "step35 without norms, gates, limits", &f, layers, LAYERS, 0);
    file_free(&f);
}

static void test_step35_refused(void **unused)
{
    (void)unused;
    static const float low[LAYERS] = {0, 0.25f};
    struct form form = step35;
    struct file f;
    step35_init(&f, &form);
    key_u32(&f, "rope.dimension_count", HEAD_DIM - 2);
    check_refused(&f, "m.gguf: key step35.rope.dimension_count should be a multiple of 4, of "
                      "which half are rotated, but is 14");
    file_free(&f);
    step35_init(&f, &form);
    key_f32(&f, "rope.scaling.attn_factor", 1.25f);
    check_refused(&f, "m.gguf: key step35.rope.scaling.attn_factor should be 1, for cos and "
                      "sin have no factor in hearth's step35, but is 1.25");
    file_free(&f);
    form.unit_limits = low;
    step35_init(&f, &form);
    check_refused(&f, "m.gguf: key step35.swiglu_clamp_shexp should be 0 or at least 0.28, but "
                      "is 0.25 in layer 1");
    file_free(&f);
    form.unit_limits = NULL;
    step35_init(&f, &form);
    floats_key(&f, "swiglu_clamp_shexp", limits, LAYERS - 1);
    check_refused(&f, "m.gguf: key step35.swiglu_clamp_shexp should be a number or an array of "
                      "7 floats, but is an array of 6 f32");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spark),
        cmocka_unit_test(test_laguna),
        cmocka_unit_test(test_step35),
        cmocka_unit_test(test_step35_refused),
    };
    return cmocka_run_group_tests_name("families_gates", tests, NULL, NULL);
}
