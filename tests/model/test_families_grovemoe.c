/* grovemoe, which has smaller experts beside the routed ones, one for some of them in a row, on
 * small random models: the logits against those of a second computation in double. No case may
 * differ by ten times what it was measured to. */
#include "second_model.h"

enum { WIDTH = 24 };

static const struct form form = {"grovemoe", .norm_before = true, .norm_heads = true,
                                 .experts = {.any = true, .n_ff = WIDTH}};

/* How many experts in a row have a smaller one, how wide those are, and what they count by. */
struct adjugate {
    uint32_t n_share;
    size_t n_ff;
    float scale;
};

static void more_experts(struct file *f, int layer, const char *what, size_t n_in, size_t n_out,
                         size_t n)
{
    layer_tensor(f, layer, what, n_in, n * n_out);
    f->tensors[f->n_tensors - 1].n_mats = n;
}

static void grove_init(struct file *f, const struct form *of, const struct adjugate *a)
{
    file_init(f, of);
    key_u32(f, "experts_per_group", a->n_share);
    key_f32(f, "expert_group_scale", a->scale);
    if (a->n_ff != HEAD_DIM) key_u32(f, "expert_chunk_feed_forward_length", (uint32_t)a->n_ff);
    for (int i = 0; i < LAYERS; i++) {
        const size_t n = EXPERTS / a->n_share;
        more_experts(f, i, "ffn_gate_chexps", EMBD, a->n_ff, n);
        more_experts(f, i, "ffn_up_chexps", EMBD, a->n_ff, n);
        more_experts(f, i, "ffn_down_chexps", a->n_ff, EMBD, n);
    }
}

/* Adds to y what each chosen expert's smaller one gives for x. */
static void add_adjugate(const struct file *f, int layer, const struct adjugate *a,
                         const double *x, double *y)
{
    double weights[EXPERTS], part[EMBD];
    route(f, layer, x, weights);
    for (size_t e = 0; e < EXPERTS; e++) {
        const size_t at = e / a->n_share * EMBD * a->n_ff;
        const struct unit u = {.gate = values_of(f, layer, "ffn_gate_chexps") + at,
                               .up = values_of(f, layer, "ffn_up_chexps") + at,
                               .down = values_of(f, layer, "ffn_down_chexps") + at,
                               .n_in = EMBD,
                               .n_ff = a->n_ff};
        if (weights[e] == 0) continue;
        run_unit(f->form, &u, x, part);
        add_times(y, part, weights[e] * (double)a->scale);
    }
}

static void check_grove(double most, const char *name, const struct file *f,
                        const struct adjugate *a)
{
    const struct sight s = {0, plain_rotation(HEAD_DIM, 10000)};
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        attention(f, layer, &s, rows);
        for (size_t p = 0; p < N_IDS; p++) {
            double in[EMBD], out[EMBD];
            row_norm(f, layer, "ffn_norm", rows->x[p], in);
            routed(f, layer, in, in, out);
            add_adjugate(f, layer, a, in, out);
            add_times(rows->x[p], out, 1);
        }
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(want);
    free(rows);
}

static void test_grovemoe(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    static const struct adjugate cases[] = {
        {2, 12, 0.5f}, {3, HEAD_DIM, 0.05f}, {1, 20, 1.5f}, {EXPERTS, 8, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[48];
        struct file f;
        snprintf(name, sizeof name, "grovemoe, a smaller one for %u", cases[i].n_share);
        grove_init(&f, &form, &cases[i]);
        check_grove(most, name, &f, &cases[i]);
        f.scales.experts = 1.5;
        key_f32(&f, "expert_weights_scale", 1.5f);
        check_grove(most, "grovemoe with a scale of weights", &f, &cases[i]);
        file_free(&f);
    }
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct adjugate half = {2, 12, 0.5f};
    struct file f;
    file_init(&f, &form);
    check_refused(&f, "m.gguf: key grovemoe.experts_per_group is missing");
    key_u32(&f, "experts_per_group", 4);
    check_refused(&f, "m.gguf: key grovemoe.expert_group_scale is missing");
    key_f32(&f, "expert_group_scale", 0.5f);
    check_refused(&f, "m.gguf: key grovemoe.experts_per_group should divide the 6 experts, but "
                      "is 4");
    file_free(&f);
    grove_init(&f, &form, &half);
    key_bool(&f, "expert_weights_norm", false);
    check_refused(&f, "m.gguf: key grovemoe.expert_weights_norm is false, but hearth's "
                      "grovemoe renormalises weights");
    file_free(&f);
    grove_init(&f, &form, &half);
    tensor_of(&f, 2, "ffn_up_chexps")->n_out = 2 * half.n_ff;
    tensor_of(&f, 2, "ffn_up_chexps")->n_mats = 2;
    check_refused(&f, "m.gguf: tensor blk.2.ffn_up_chexps.weight: expected [64, 12, 3], found "
                      "[64, 12, 2]");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grovemoe),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_grovemoe", tests, NULL, NULL);
}
