/* RWKV-7 and ARWKV-7 on small random models: the logits against those of the second
 * computation, and refusals. No case may differ by ten times what it was measured to. */
#include "second_rwkv.h"

static const struct form biased = {"rwkv7", .norm_before = true, .heads_apart = true,
                                   .layer_norm = true, .norm_biases = true};
static const struct form plain = {"arwkv7", .norm_before = true, .heads_apart = true};

static void rwkv_begin(struct file *f, const struct rwkv_form *r)
{
    file_begin(f, r->transformer ? &plain : &biased);
    rwkv_keys(f, r);
}

static void rwkv_init(struct file *f, const struct rwkv_form *r)
{
    rwkv_begin(f, r);
    if (!r->transformer) {
        tensor(f, "token_embd_norm.weight", EMBD, 1);
        random_tensor(f, "token_embd_norm.bias", EMBD, 1, 0, 0.5);
    }
    for (int i = 0; i < LAYERS; i++)
        rwkv_tensors(f, i, r);
}

static void compute_rwkv(const struct file *f, const struct rwkv_form *r, float *want)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    double(*first)[EMBD] = mem_zalloc(N_IDS, sizeof *first);
    embed(f, rows);
    for (size_t p = 0; !r->transformer && p < N_IDS; p++)
        row_norm(f, -1, "token_embd_norm", rows->x[p], rows->x[p]);
    for (int layer = 0; layer < LAYERS; layer++) {
        time_mix(f, layer, r, first, rows);
        if (!r->transformer) channel_mix(f, layer, rows);
        for (size_t p = 0; r->transformer && p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
    head(f, rows, 0, want);
    free(first);
    free(rows);
}

static const struct rwkv_form rwkv7 = {.gates = true, .head_norms = true};

static void test_logits(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        struct rwkv_form form;
    } cases[] = {
        {"rwkv7", {.gates = true, .head_norms = true}},
        {"rwkv7, nothing unused", {.gates = true, .head_norms = true, .no_first = true}},
        {"arwkv7", {.transformer = true, .gates = true, .head_norms = true}},
        {"arwkv7 without gates", {.transformer = true, .head_norms = true}},
        {"arwkv7 without norms of heads", {.transformer = true, .gates = true}},
        {"arwkv7 without both", {.transformer = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f;
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        rwkv_init(&f, &cases[i].form);
        compute_rwkv(&f, &cases[i].form, want);
        check_logits(7e-11, cases[i].name, &f, want);
        free(want);
        file_free(&f);
    }
}

static void test_refused(void **unused)
{
    (void)unused;
    struct file f;
    rwkv_begin(&f, &rwkv7);
    key_u32(&f, "token_shift_count", 1);
    check_refused(&f, "m.gguf: key rwkv7.token_shift_count is 1, but hearth's rwkv7 has 2");
    file_free(&f);

    file_begin(&f, &biased);
    key_u32(&f, "attention.head_count", 0);
    key_f32(&f, "attention.layer_norm_epsilon", 1e-5f);
    check_refused(&f, "m.gguf: key rwkv7.wkv.head_size is missing");
    key_u32(&f, "wkv.head_size", 24);
    key_u32(&f, "attention.decay_lora_rank", 8);
    key_u32(&f, "attention.iclr_lora_rank", 8);
    key_u32(&f, "attention.value_residual_mix_lora_rank", 8);
    check_refused(&f, "m.gguf: key rwkv7.attention.gate_lora_rank is missing");
    key_u32(&f, "attention.gate_lora_rank", 8);
    check_refused(&f, "m.gguf: key rwkv7.wkv.head_size of 24 does not divide rows of 64 "
                      "values");
    file_free(&f);

    /* In a layer behind the first the share of its values is needed. */
    rwkv_init(&f, &rwkv7);
    strcpy(tensor_of(&f, 3, "time_mix_v0")->name, "blk.3.other.weight");
    check_refused(&f, "m.gguf: tensor blk.3.time_mix_v0.weight: expected [64], but it is "
                      "missing");
    file_free(&f);
    rwkv_init(&f, &rwkv7);
    tensor_of(&f, 2, "time_mix_lerp_fused")->n_mats = 3;
    check_refused(&f, "m.gguf: tensor blk.2.time_mix_lerp_fused.weight: expected [64, 6], "
                      "found [64, 2, 1, 3]");
    file_free(&f);
    rwkv_init(&f, &rwkv7);
    layer_tensor(&f, 1, "attn_q", EMBD, EMBD);
    check_refused(&f, "m.gguf: tensor blk.1.attn_q.weight: hearth's rwkv7 has no such tensor, "
                      "and leaving it out would change the answers");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_rwkv", tests, NULL, NULL);
}
