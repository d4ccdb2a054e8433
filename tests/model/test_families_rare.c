/* Families that few use, on small random models: the logits against those of a second
 * computation. No case may differ by ten times what it was measured to. */
#include "second_model.h"

static const double base = 10000; /* of files that say nothing of it */

/* As check_plain, by halves; fused: the file has Q, K and V in one tensor. */
static void check_halves(double most, const char *name, struct file *f, bool fused)
{
    const struct sight s = {0, plain_rotation(HEAD_DIM, base)};
    struct sight layers[LAYERS];
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    every(layers, 1, s, s);
    compute(f, layers, LAYERS, 0, want);
    if (fused) fuse(f);
    check_logits(most, name, f, want);
    free(want);
}

/* The key of the feed-forward's width is of gate and up together. */
static void test_qwen(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const struct form qwen = {"qwen", .norm_before = true, .biases = true,
                                     .ff_doubled = true};
    struct file f;
    file_init(&f, &qwen);
    check_halves(most, "qwen", &f, true);
    file_free(&f);
    static const struct form bare = {"qwen", .norm_before = true, .ff_doubled = true};
    file_init(&f, &bare);
    fuse(&f);
    check_refused(&f, "m.gguf: tensor blk.0.attn_qkv.bias: expected [128], but it is missing");
    file_free(&f);
    static const struct form single = {"qwen", .norm_before = true, .biases = true};
    file_init(&f, &single);
    check_refused(&f,
                  "m.gguf: tensor blk.0.ffn_gate.weight: expected [64, 20], found [64, 40]");
    file_free(&f);
    file_begin(&f, &bare);
    key_f32(&f, "attention.layer_norm_epsilon", 1e-6f);
    key_u32(&f, "feed_forward_length", 2 * FF + 1);
    check_refused(&f, "m.gguf: key qwen.feed_forward_length should be even, but is 81");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qwen),
    };
    return cmocka_run_group_tests_name("families_rare", tests, NULL, NULL);
}
