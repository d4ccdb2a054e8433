/* Families that gate what each head of attention gives by one value, on small random models:
 * the logits against those of a second computation in double. No case may differ by ten times
 * what it was measured to. */
#include "second_model.h"

static void windows_keys(struct file *f, double full_base, double local_base)
{
    key_u32(f, "attention.sliding_window", WINDOW);
    key_f32(f, "rope.freq_base", (float)full_base);
    if (local_base > 0) key_f32(f, "rope.freq_base_swa", (float)local_base);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spark),
    };
    return cmocka_run_group_tests_name("families_gates", tests, NULL, NULL);
}
