/* Families without attention, and Mamba-1 beside attention, on small random models: the logits
 * against those of the second computation, and refusals. No case may differ by ten times what
 * it was measured to. */
#include "second_mamba.h"
#include "second_scan.h"

static const struct form mamba2 = {"mamba2", .norm_before = true, .heads_apart = true,
                                   .kinds = "MMMMMMM"};

static const struct form mamba1 = {"mamba", .norm_before = true, .heads_apart = true};

/* As converters write it: without norms it is Mamba, with norms that have no factors Falcon
 * Mamba. */
static void mamba_init(struct file *f, enum scan_norms norms)
{
    file_begin(f, &mamba1);
    key_u32(f, "attention.head_count", 0);
    key_u32(f, "feed_forward_length", 0);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_bool(f, "ssm.dt_b_c_rms", norms == SCAN_BARE_NORMS);
    scan_keys(f);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        scan_tensors(f, i, norms);
    }
}

static void test_mamba(void **unused)
{
    (void)unused;
    for (int norms = SCAN_NO_NORMS; norms <= SCAN_BARE_NORMS; norms++) {
        struct file f;
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        struct rows *rows = mem_zalloc(1, sizeof *rows);
        mamba_init(&f, norms);
        embed(&f, rows);
        for (int layer = 0; layer < LAYERS; layer++)
            scan(&f, layer, norms, rows);
        head(&f, rows, 0, want);
        check_logits(1e-10, norms == SCAN_NO_NORMS ? "mamba" : "falcon mamba", &f, want);
        free(rows);
        free(want);
        file_free(&f);
    }
}

/* Some layers attend, which `kinds` has as A, and nothing rotates; all have a feed-forward
 * behind. */
static void jamba_init(struct file *f, const struct form *form)
{
    int32_t heads[LAYERS];
    file_begin(f, form);
    for (int i = 0; i < LAYERS; i++)
        heads[i] = form->kinds[i] == 'A' ? KV_HEADS : 0;
    array_key(f, "attention.head_count_kv", heads, LAYERS);
    key_u32(f, "feed_forward_length", FF);
    if (form->experts.any) key_u32(f, "expert_used_count", USED);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    scan_keys(f);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (heads[i] > 0)
            attention_tensors(f, i);
        else
            scan_tensors(f, i, SCAN_NORMS);
        layer_tensor(f, i, "ffn_norm", EMBD, 1);
        feed_forward_tensors(f, i);
    }
}

static void check_jamba(double most, const char *name, const struct file *f)
{
    const struct sight all = {0, plain_rotation(0, 1)};
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (f->form->kinds[layer] == 'A')
            attention(f, layer, &all, rows);
        else
            scan(f, layer, SCAN_NORMS, rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(rows);
    free(want);
}

/* Attention in the middle, first and last; experts in every second layer, in all and in none.
 */
static void test_jamba(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *kinds;
        int step; /* of experts; 0: none */
    } cases[] = {
        {"jamba", "MMAMMAM", 2},
        {"jamba, attention first and last", "AMMMMMA", 1},
        {"jamba without experts", "MMMAMMM", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct form form = {
            "jamba",
            .norm_before = true,
            .kinds = cases[i].kinds,
            .experts = {.any = cases[i].step > 0, .step = cases[i].step, .as_is = true},
        };
        struct file f;
        jamba_init(&f, &form);
        check_jamba(7e-11, cases[i].name, &f);
        file_free(&f);
    }
}

/* As converters write it: heads and feed-forwards are 0, and what is of them is not said. */
static void mamba2_init(struct file *f)
{
    file_begin(f, &mamba2);
    key_u32(f, "attention.head_count", 0);
    key_u32(f, "feed_forward_length", 0);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    mamba_keys(f);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        mamba_tensors(f, i);
    }
}

static void test_mamba2(void **unused)
{
    (void)unused;
    struct file f;
    mamba2_init(&f);
    check_kinds(4e-11, "mamba2", &f, LAYERS);
    file_free(&f);
}

/* It has keys and values of nothing, whatever their type is. */
static bool has_states_alone(void *user, const struct program *p, struct err *err)
{
    (void)user, (void)err;
    assert_true(p->state_bytes > 0);
    assert_int_equal(p->n_kv, 0);
    assert_int_equal(p->page_bytes[PAGE_FULL] + p->page_bytes[PAGE_WINDOW], 0);
    assert_int_equal(p->n_ropes, 0);
    return true;
}

static void test_no_keys(void **unused)
{
    (void)unused;
    const struct model_params params = {.kv_type = KV_Q4_0};
    struct file f;
    struct buf b = {0};
    struct err err;
    mamba2_init(&f);
    write_file(&f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_outline(g, &params, has_states_alone, NULL, &err)) fail_msg("%s", err.msg);
    gguf_close(g);
    buf_free(&b);
    file_free(&f);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct file f;
    mamba2_init(&f);
    layer_tensor(&f, 1, "attn_q", EMBD, EMBD);
    check_refused(&f, "m.gguf: tensor blk.1.attn_q.weight: hearth's mamba2 has no such tensor, "
                      "and leaving it out would change the answers");
    file_free(&f);
    file_begin(&f, &mamba2);
    key_u32(&f, "attention.head_count", 0);
    key_f32(&f, "attention.layer_norm_rms_epsilon", 1e-6f);
    check_refused(&f, "m.gguf: key mamba2.ssm.conv_kernel is missing");
    file_free(&f);
    mamba_init(&f, SCAN_NORMS);
    check_refused(&f, "m.gguf: tensor blk.0.ssm_dt_norm.weight: hearth's mamba has no such "
                      "tensor, and leaving it out would change the answers");
    file_free(&f);
    file_begin(&f, &mamba1);
    key_u32(&f, "attention.head_count", 0);
    key_f32(&f, "attention.layer_norm_rms_epsilon", 1e-6f);
    check_refused(&f, "m.gguf: key mamba.ssm.conv_kernel is missing");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mamba),   cmocka_unit_test(test_jamba),
        cmocka_unit_test(test_mamba2),  cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_recurrent", tests, NULL, NULL);
}
