/* apertus on small random models: feed-forwards without a gate whose activation has numbers of
 * each layer; the logits against those of a second computation in double. */
#include "second_model.h"

static const struct form form = {"apertus", .norm_before = true, .norm_heads = true,
                                 .squares = true};

/* As the file has them. */
struct numbers {
    float above[LAYERS], below[LAYERS], slope[LAYERS];
};

static void bare_floats_key(struct file *f, const char *name, const float *values, size_t n)
{
    gb_kv_array(&f->keys, name, GGUF_F32, n);
    f->n_keys++;
    buf_append(&f->keys, values, n * sizeof *values);
}

static void float_key(struct file *f, const char *name, float value)
{
    gb_kv(&f->keys, name, GGUF_F32);
    f->n_keys++;
    buf_append(&f->keys, &value, sizeof value);
}

static double xielu(const struct numbers *n, int layer, double x)
{
    const double slope = (double)n->slope[layer];
    if (x > 0) return log1p(exp((double)n->above[layer])) * x * x + slope * x;
    return (slope + log1p(exp((double)n->below[layer]))) * (expm1(x) - x) + slope * x;
}

static void feed_forward_by(const struct file *f, int layer, const struct numbers *n, double *x)
{
    double in[EMBD], up[FF], out[EMBD];
    norm(values_of(f, layer, "ffn_norm"), x, EMBD, in);
    times(values_of(f, layer, "ffn_up"), in, EMBD, FF, up);
    for (size_t i = 0; i < FF; i++)
        up[i] = xielu(n, layer, up[i]);
    times(values_of(f, layer, "ffn_down"), up, FF, EMBD, out);
    add_times(x, out, 1);
}

static void check_by(double most, const char *name, const struct file *f,
                     const struct numbers *n)
{
    const struct sight s = {0, plain_rotation(HEAD_DIM, 10000)};
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        attention(f, layer, &s, rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward_by(f, layer, n, rows->x[p]);
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(want);
    free(rows);
}

static void all_keys(struct file *f, const struct numbers *n, size_t n_numbers)
{
    const float least[LAYERS] = {0};
    bare_floats_key(f, "xielu.alpha_p", n->above, n_numbers);
    bare_floats_key(f, "xielu.alpha_n", n->below, n_numbers);
    bare_floats_key(f, "xielu.beta", n->slope, n_numbers);
    bare_floats_key(f, "xielu.eps", least, n_numbers);
}

static void test_apertus(void **unused)
{
    (void)unused;
    const double most = 6e-12;
    struct numbers n = {.above = {0.8f, -1, 2, 0, -30, 1, 0.5f},
                        .below = {0.3f, 1, -2, 0, 2, -0.5f, -30},
                        .slope = {0.5f, 0.25f, -0.5f, 0, 1, 0.75f, 0}};
    struct file f;
    file_init(&f, &form);
    all_keys(&f, &n, LAYERS);
    check_by(most, "apertus", &f, &n);
    file_free(&f);
    file_init(&f, &form);
    float_key(&f, "xielu.alpha_p", 0.75f);
    float_key(&f, "xielu.alpha_n", -0.25f);
    float_key(&f, "xielu.beta", 0.5f);
    check_refused(&f, "m.gguf: key xielu.eps is missing");
    float_key(&f, "xielu.eps", -1e-6f);
    for (int i = 0; i < LAYERS; i++)
        n.above[i] = 0.75f, n.below[i] = -0.25f, n.slope[i] = 0.5f;
    check_by(most, "apertus with numbers of all layers", &f, &n);
    file_free(&f);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct numbers n = {.slope = {0, 101}};
    struct file f;
    file_init(&f, &form);
    all_keys(&f, &n, LAYERS);
    check_refused(&f, "m.gguf: key xielu.beta should be within 100 of 0, but is 101");
    file_free(&f);
    file_init(&f, &form);
    all_keys(&f, &n, LAYERS - 1);
    check_refused(&f, "m.gguf: key xielu.alpha_p should be a number or an array of 7");
    file_free(&f);
    file_init(&f, &form);
    float_key(&f, "xielu.alpha_p", 1);
    float_key(&f, "xielu.alpha_n", 1);
    float_key(&f, "xielu.beta", 1);
    float_key(&f, "xielu.eps", -1e-3f);
    check_refused(&f, "m.gguf: key xielu.eps should be within 1e-05 of 0, but is -0.001");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apertus),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
