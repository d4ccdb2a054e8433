/* RWKV-6 and 7, and what became of transformers by them, on small random models: the logits
 * against those of the second computation, and refusals. No case may differ by ten times what
 * it was measured to. */
#include "second_rwkv6.h"

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

static const struct form biased6 = {"rwkv6", .norm_before = true, .heads_apart = true,
                                    .layer_norm = true, .norm_biases = true};
static const struct form plain6 = {"rwkv6qwen2", .norm_before = true, .heads_apart = true};

static void rwkv6_init(struct file *f, const struct rwkv6_form *r)
{
    file_begin(f, r->transformer ? &plain6 : &biased6);
    rwkv6_keys(f, r);
    if (!r->transformer) {
        tensor(f, "token_embd_norm.weight", EMBD, 1);
        random_tensor(f, "token_embd_norm.bias", EMBD, 1, 0, 0.5);
    }
    for (int i = 0; i < LAYERS; i++)
        rwkv6_tensors(f, i, r);
}

static void compute_rwkv6(const struct file *f, const struct rwkv6_form *r, float *want)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (size_t p = 0; !r->transformer && p < N_IDS; p++)
        row_norm(f, -1, "token_embd_norm", rows->x[p], rows->x[p]);
    for (int layer = 0; layer < LAYERS; layer++) {
        time_mix6(f, layer, r, rows);
        if (!r->transformer) channel_mix6(f, layer, rows);
        for (size_t p = 0; p < N_IDS; p++) {
            if (r->transformer) feed_forward(f, layer, NULL, rows->x[p]);
            for (size_t i = 0; r->halved && (layer + 1) % r->halved == 0 && i < EMBD; i++)
                rows->x[p][i] /= 2;
        }
    }
    head(f, rows, 0, want);
    free(rows);
}

static void test_logits6(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        struct rwkv6_form form;
        double most; /* the norm of a head enlarges what differs where little is in it */
    } cases[] = {
        {"rwkv6", {.halved = 3}, 1e-9},
        {"rwkv6 of an old file", {.shares_apart = true}, 1e-9},
        {"rwkv6qwen2", {.transformer = true, .biases = true, .n_head_kv = 2}, 7e-11},
        {"rwkv6qwen2, one head of keys", {.transformer = true, .n_head_kv = 1}, 7e-11},
        {"rwkv6qwen2, a head of keys for each", {.transformer = true}, 7e-11},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f;
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        rwkv6_init(&f, &cases[i].form);
        compute_rwkv6(&f, &cases[i].form, want);
        check_logits(cases[i].most, cases[i].name, &f, want);
        free(want);
        file_free(&f);
    }
}

static void test_refused6(void **unused)
{
    (void)unused;
    struct file f;
    file_begin(&f, &plain6);
    rwkv6_keys(&f, &(struct rwkv6_form){.transformer = true, .n_head_kv = 3});
    check_refused(&f, "m.gguf: layer 0 has 4 heads, which is no multiple of its 3 KV heads");
    file_free(&f);
    rwkv6_init(&f, &(struct rwkv6_form){.transformer = true});
    layer_tensor(&f, 2, "time_mix_first", R_HEAD, R_HEADS);
    check_refused(&f, "m.gguf: tensor blk.2.time_mix_first.weight: hearth's rwkv6qwen2 has no "
                      "such tensor, and leaving it out would change the answers");
    file_free(&f);
    file_begin(&f, &plain6);
    rwkv6_keys(&f, &(struct rwkv6_form){.transformer = true, .halved = 2});
    check_refused(
        &f, "m.gguf: key rwkv6qwen2.rescale_every_n_layers should be between 0 and 0, but "
            "is 2");
    file_free(&f);
    rwkv6_init(&f, &(struct rwkv6_form){.shares_apart = true});
    strcpy(tensor_of(&f, 3, "time_mix_lerp_r")->name, "blk.3.other.weight");
    check_refused(&f, "m.gguf: tensor blk.3.time_mix_lerp_r.weight: expected [64], but it is "
                      "missing");
    file_free(&f);
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
    check_refused(&f, "m.gguf: key rwkv7.wkv.head_size of 24 does not divide rows of 64 "
                      "values");
    file_free(&f);
    file_begin(&f, &biased);
    key_u32(&f, "attention.head_count", 0);
    key_f32(&f, "attention.layer_norm_epsilon", 1e-5f);
    key_u32(&f, "wkv.head_size", R_HEAD);
    key_u32(&f, "attention.decay_lora_rank", 8);
    key_u32(&f, "attention.iclr_lora_rank", 8);
    key_u32(&f, "attention.value_residual_mix_lora_rank", 8);
    check_refused(&f, "m.gguf: key rwkv7.attention.gate_lora_rank is missing");
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
        cmocka_unit_test(test_logits6),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused6),
    };
    return cmocka_run_group_tests_name("families_rwkv", tests, NULL, NULL);
}
