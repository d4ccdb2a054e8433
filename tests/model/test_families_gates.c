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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spark),
        cmocka_unit_test(test_laguna),
    };
    return cmocka_run_group_tests_name("families_gates", tests, NULL, NULL);
}
