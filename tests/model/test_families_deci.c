/* deci, whose layers have attention or a matrix in its place, a feed-forward or nothing at all,
 * on small random models: the logits against those of the second computation. No case may
 * differ by ten times what it was measured to. */
#include "second_model.h"

#include "backend/cut.h"

/* Of each layer: A attention, L a matrix in its place, F a feed-forward alone, - nothing. All
 * but the last kind have a feed-forward. */
static void deci_init(struct file *f, const struct form *form)
{
    int32_t heads[LAYERS], kv_heads[LAYERS], widths[LAYERS];
    file_begin(f, form);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    for (int i = 0; i < LAYERS; i++) {
        const char kind = form->kinds[i];
        heads[i] = kind == 'A' || kind == 'L' ? HEADS : 0;
        kv_heads[i] = kind == 'A' ? KV_HEADS : 0;
        widths[i] = kind == '-' ? 0 : FF;
        if (heads[i] > 0) layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (kind == 'A') attention_tensors(f, i);
        if (kind == 'L') layer_tensor(f, i, "attn_output", EMBD, EMBD);
        if (kind == '-') continue;
        layer_tensor(f, i, "ffn_norm", EMBD, 1);
        dense_tensors(f, i);
    }
    array_key(f, "attention.head_count", heads, LAYERS);
    array_key(f, "attention.head_count_kv", kv_heads, LAYERS);
    array_key(f, "feed_forward_length", widths, LAYERS);
}

static void matrix(const struct file *f, int layer, struct rows *rows)
{
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], out[EMBD];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "attn_output"), in, EMBD, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
}

static void compute_deci(const struct file *f, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct sight all = {0, plain_rotation(HEAD_DIM, 10000)};
    all.rotation.neighbours = true;
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        const char kind = f->form->kinds[layer];
        if (kind == 'A') attention(f, layer, &all, rows);
        if (kind == 'L') matrix(f, layer, rows);
        for (size_t p = 0; kind != '-' && p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
    head(f, rows, 0, logits);
    free(rows);
}

/* What a program is cut in front of when a layer has no ops: the next that has some. Behind the
 * last layer that stores keys only rows with logits remain, and nothing is cut there. */
static bool cuts(void *user, const struct program *p, struct err *err)
{
    const char *kinds = user;
    int last = LAYERS - 1;
    (void)err;
    while (kinds[last] != 'A')
        last--;
    for (uint32_t layer = 0; layer < program_n_layers(p); layer++) {
        const uint32_t at = program_cut_at(p, layer);
        assert_int_equal(at == layer, (int)layer <= last);
        struct program_cut cut;
        program_cut(p, at, &cut);
        for (size_t i = 0; i < cut.side[CUT_FRONT].n_ops; i++)
            assert_true(cut.side[CUT_FRONT].ops[i].layer < (int)layer);
        program_cut_free(&cut);
    }
    return true;
}

static void check_cuts(const struct file *f)
{
    char kinds[LAYERS + 1];
    struct buf b = {0};
    struct err err;
    snprintf(kinds, sizeof kinds, "%s", f->form->kinds);
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_outline(g, &(struct model_params){.kv_type = KV_F32}, cuts, kinds, &err))
        fail_msg("%s", err.msg);
    gguf_close(g);
    buf_free(&b);
}

static struct form deci(const char *kinds)
{
    return (struct form){"deci", .norm_before = true, .heads_apart = true, .kinds = kinds};
}

static void test_orders(void **unused)
{
    (void)unused;
    const double most = 5e-12;
    static const char *const orders[] = {
        "ALFA-LA", /* ends with attention */
        "A-AFALF", /* with a feed-forward alone */
        "AAL-A--", /* with nothing */
        "-LFAAFL", /* begins with nothing */
        "FALAAAL", /* with a feed-forward alone */
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        const struct form form = deci(orders[i]);
        float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
        struct file f;
        deci_init(&f, &form);
        compute_deci(&f, want);
        check_logits(most, orders[i], &f, want);
        check_cuts(&f);
        file_free(&f);
        free(want);
    }
}

/* With these keys and no layers but for a norm. */
static void refuse(const struct form *form, const int32_t *heads, uint32_t kv_heads,
                   const int32_t *widths, const char *message)
{
    struct file f;
    file_begin(&f, form);
    key_f32(&f, "attention.layer_norm_rms_epsilon", 1e-6f);
    array_key(&f, "attention.head_count", heads, LAYERS);
    if (kv_heads > 0) key_u32(&f, "attention.head_count_kv", kv_heads);
    array_key(&f, "feed_forward_length", widths, LAYERS);
    layer_tensor(&f, 0, "attn_norm", EMBD, 1);
    check_refused(&f, message);
    file_free(&f);
}

/* Layers that no model has, or that another family has not. */
static void test_refused(void **unused)
{
    (void)unused;
    static const int32_t none[LAYERS] = {0}, all[LAYERS] = {4, 4, 4, 4, 4, 4, 4};
    static const int32_t some[LAYERS] = {0, 4, 0, 4, 4, 4, 4};
    const struct form form = deci(NULL);
    struct form llama = form;
    llama.arch = "llama";
    refuse(&form, none, 0, all, "m.gguf: key deci.attention.head_count has heads in no layer");
    refuse(&form, some, 2, all,
           "m.gguf: layer 0 has 0 heads, which is no multiple of its 2 KV heads");
    refuse(&form, some, 0, none,
           "m.gguf: layer 1 has attention and no feed-forward, which hearth's deci has not");
    refuse(&llama, some, 0, all, "m.gguf: layer 0 has no KV heads, which llama needs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_deci", tests, NULL, NULL);
}
