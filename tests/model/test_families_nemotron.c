/* nemotron_h and nemotron_h_moe, whose layers are Mamba-2, attention or a feed-forward of
 * squares, on small random models: the logits against those of the second computation. No case
 * may differ by ten times what it was measured to. */
#include "second_mamba.h"

enum { WIDTH = 12, SHARED = 24, LATENT = 20 };

static struct form dense_form(const char *kinds)
{
    return (struct form){"nemotron_h", .norm_before = true, .squares = true, .kinds = kinds};
}

static struct form experts_form(const char *kinds)
{
    return (struct form){
        "nemotron_h_moe", .norm_before = true, .squares = true, .kinds = kinds,
        .experts = {
            .any = true, .sigmoid = true, .select = true, .n_ff = WIDTH, .n_shared = SHARED}};
}

/* The layer whose ops after OP_HEAD_ROWS are for rows with logits only. */
static bool head_rows_layer(void *user, const struct program *p, struct err *err)
{
    int *layer = user;
    (void)err;
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_HEAD_ROWS) *layer = p->ops[i].layer;
    return true;
}

/* Rows without logits end in the last layer that has something for later tokens. */
static void check_head_rows(const struct file *f)
{
    const struct model_params params = {.kv_type = KV_F32};
    struct buf b = {0};
    struct err err;
    int got = -1, want = LAYERS - 1;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_outline(g, &params, head_rows_layer, &got, &err)) fail_msg("%s", err.msg);
    while (f->form->kinds[want] == 'F')
        want--;
    assert_int_equal(got, want);
    gguf_close(g);
    buf_free(&b);
}

/* Each kind of layer may be the first and the last. */
static void test_orders(void **unused)
{
    (void)unused;
    const double most = 4.5e-12;
    static const char *const orders[] = {
        "MFMAFMF", /* ends with a feed-forward */
        "MAMFFFF", /* with some */
        "AMFMFAM", /* begins with attention, ends with Mamba-2 */
        "FFMMFMA", /* begins with a feed-forward, ends with attention */
        "AFAFAMF", /* Mamba-2 once */
        "MFMFMMF", /* no attention */
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const struct form form = dense_form(orders[i]);
        char name[32];
        struct file f;
        kinds_init(&f, &form);
        snprintf(name, sizeof name, "nemotron_h %s", orders[i]);
        check_kinds(most, name, &f, LAYERS);
        check_head_rows(&f);
        file_free(&f);
    }
}

static void test_biases(void **unused)
{
    (void)unused;
    const double most = 4.5e-12;
    struct form form = dense_form("MFMAFAF");
    struct file f;
    form.biases = true;
    kinds_init(&f, &form);
    check_kinds(most, "nemotron_h with biases of Q, K and V", &f, LAYERS);
    file_free(&f);
    form.more_biases = true;
    kinds_init(&f, &form);
    check_kinds(most, "nemotron_h with all biases", &f, LAYERS);
    file_free(&f);
}

/* Of two epsilons the one with the right name counts; a file with neither has none. */
static void test_epsilon(void **unused)
{
    (void)unused;
    const double most = 5.5e-12;
    const struct form form = dense_form("MFMAFAF");
    struct file f;
    kinds_begin(&f, &form);
    check_refused(&f, "m.gguf: key nemotron_h.attention.layer_norm_rms_epsilon is missing");
    key_f32(&f, "attention.layer_norm_epsilon", 0.1f);
    key_f32(&f, "attention.layer_norm_rms_epsilon", 1e-6f);
    check_kinds(most, "nemotron_h with two epsilons", &f, LAYERS);
    file_free(&f);
}

/* Experts as wide as a row, or behind a product that makes it narrower, with or without the one
 * for all rows, which reads all of it. */
static void test_experts(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    for (int i = 0; i < 4; i++) {
        const bool narrow = i & 1, shared = i < 2;
        struct form form = experts_form("MFMAFAF");
        char name[64];
        struct file f;
        form.experts.n_latent = narrow ? LATENT : 0;
        if (!shared) form.experts.n_shared = 0;
        kinds_init(&f, &form);
        if (narrow) key_u32(&f, "moe_latent_size", LATENT);
        if (shared) key_u32(&f, "expert_shared_feed_forward_length", SHARED);
        key_bool(&f, "expert_weights_norm", true);
        snprintf(name, sizeof name, "nemotron_h_moe%s%s", narrow ? ", narrow" : "",
                 shared ? "" : ", none for all");
        check_kinds(most, name, &f, LAYERS);
        file_free(&f);
    }
}

/* How the weights of chosen experts are made, and what a feed-forward is without experts. */
static void test_weights(void **unused)
{
    (void)unused;
    const double most = 7.5e-12;
    struct form form = experts_form("AFMFMMF");
    struct file f;
    for (int as_is = 0; as_is < 2; as_is++) {
        form.experts.as_is = as_is;
        kinds_init(&f, &form);
        key_u32(&f, "expert_shared_feed_forward_length", SHARED);
        key_bool(&f, "expert_weights_norm", !as_is);
        key_f32(&f, "expert_weights_scale", 2.5f);
        f.scales.experts = 2.5;
        check_kinds(most, as_is ? "nemotron_h_moe, scaled, as is" : "nemotron_h_moe, scaled",
                    &f, LAYERS);
        file_free(&f);
    }
    form = dense_form("AFMFMMF");
    form.arch = "nemotron_h_moe";
    kinds_init(&f, &form);
    check_kinds(most, "nemotron_h_moe without experts", &f, LAYERS);
    file_free(&f);
}

/* The block of the next token is left out: the last of the others is the last. */
static void test_next(void **unused)
{
    (void)unused;
    const double most = 9e-12;
    static const char *const orders[] = {"MAMFMFN", "FMAMFMN", "MFMFMAN"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const struct form form = experts_form(orders[i]);
        char name[32];
        struct file f;
        kinds_init(&f, &form);
        key_u32(&f, "nextn_predict_layers", 1);
        key_u32(&f, "expert_shared_feed_forward_length", SHARED);
        key_bool(&f, "expert_weights_norm", true);
        snprintf(name, sizeof name, "nemotron_h_moe %s", orders[i]);
        check_kinds(most, name, &f, LAYERS - 1);
        file_free(&f);
    }
}

/* Layers that have different numbers of experts, and tensors that do not go with the keys. */
static void test_refused(void **unused)
{
    (void)unused;
    static const int32_t used[LAYERS] = {0, 2, 0, 0, 3, 0, 2};
    struct form form = experts_form("MFMAFAF");
    struct file f;
    kinds_begin(&f, &form);
    key_f32(&f, "attention.layer_norm_epsilon", 1e-6f);
    array_key(&f, "expert_used_count", used, LAYERS);
    check_refused(&f, "m.gguf: key nemotron_h_moe.expert_used_count should be an integer, but "
                      "is an array of 7 i32");
    file_free(&f);
    kinds_init(&f, &form);
    key_u32(&f, "moe_latent_size", LATENT);
    check_refused(&f, "m.gguf: tensor blk.1.ffn_latent_down.weight: expected [64, 20], but it "
                      "is missing");
    file_free(&f);
    form.experts.n_latent = LATENT;
    kinds_init(&f, &form);
    check_refused(&f, "m.gguf: tensor blk.1.ffn_up_exps.weight: expected [64, 12, 6], found "
                      "[20, 12, 6]");
    file_free(&f);
    form = dense_form("MFMAFAF");
    kinds_init(&f, &form);
    layer_tensor(&f, 1, "ffn_gate", EMBD, FF);
    check_refused(&f, "m.gguf: tensor blk.1.ffn_gate.weight: hearth's nemotron_h has no such "
                      "tensor, and leaving it out would change the answers");
    file_free(&f);
    file_init(&f, &form);
    check_refused(&f, "m.gguf: key nemotron_h.ssm.conv_kernel is missing");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),  cmocka_unit_test(test_biases),
        cmocka_unit_test(test_epsilon), cmocka_unit_test(test_experts),
        cmocka_unit_test(test_weights), cmocka_unit_test(test_next),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_nemotron", tests, NULL, NULL);
}
