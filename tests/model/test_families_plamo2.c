/* plamo2 on small random models: layers whose heads have states, and layers that attend. The
 * logits against those of a second computation in double, and refusals. No case may differ by
 * ten times what it was measured to. */
#include "second_model.h"

/* Each head has P_WIDTH values and shares B and C, of P_STATE, with all others. A product gives
 * B, C and a row that steps are made from. */
enum { P_HEADS = 5, P_WIDTH = 8, P_INNER = P_HEADS * P_WIDTH, P_STATE = 12, P_TAPS = 4 };
enum { P_STEP = 64, P_MADE = 2 * P_STATE + P_STEP };

static const double most = 5e-11;

/* ---- files ---- */

static void plain_tensor(struct file *f, int layer, const char *what, size_t n, double centre,
                         double spread)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    random_tensor(f, name, n, 1, centre, spread);
}

static void state_tensors(struct file *f, int layer)
{
    layer_tensor(f, layer, "ssm_in", EMBD, 2 * P_INNER);
    layer_tensor(f, layer, "ssm_conv1d", P_TAPS, P_INNER);
    layer_tensor(f, layer, "ssm_x", P_INNER, P_MADE);
    layer_tensor(f, layer, "ssm_dt", P_STEP, P_HEADS);
    bias_tensor(f, layer, "ssm_dt", P_HEADS);
    layer_tensor(f, layer, "ssm_out", P_INNER, EMBD);
    plain_tensor(f, layer, "ssm_a", P_HEADS, -0.5, 0.45);
    plain_tensor(f, layer, "ssm_d", P_HEADS, 1, 0.5);
    plain_tensor(f, layer, "ssm_b_norm", P_STATE, 1, 0.3);
    plain_tensor(f, layer, "ssm_c_norm", P_STATE, 1, 0.3);
    plain_tensor(f, layer, "ssm_dt_norm", P_STEP, 1, 0.3);
}

static void heads_key(struct file *f, const char *name, int32_t n)
{
    int32_t heads[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        heads[i] = f->form->kinds[i] == 'A' ? n : 0;
    array_key(f, name, heads, LAYERS);
}

/* Names of norms as the second computation reads them. */
static void plamo2_init(struct file *f, const struct form *form)
{
    file_begin(f, form);
    heads_key(f, "attention.head_count", HEADS);
    heads_key(f, "attention.head_count_kv", KV_HEADS);
    key_u32(f, "attention.key_length", HEAD_DIM);
    key_u32(f, "attention.value_length", HEAD_DIM);
    key_u32(f, "feed_forward_length", FF);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "ssm.conv_kernel", P_TAPS);
    key_u32(f, "ssm.inner_size", P_INNER);
    key_u32(f, "ssm.state_size", P_STATE);
    key_u32(f, "ssm.time_step_rank", P_HEADS);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (form->kinds[i] == 'A')
            attention_tensors(f, i);
        else
            state_tensors(f, i);
        layer_tensor(f, i, "post_attention_norm", EMBD, 1);
        layer_tensor(f, i, "ffn_norm", EMBD, 1);
        feed_forward_tensors(f, i);
        layer_tensor(f, i, "post_ffw_norm", EMBD, 1);
    }
}

/* And as files have them, with Q, K and V in one tensor. */
static void name_as_files(struct file *f)
{
    static const char *const norms[] = {"post_attention_norm", "post_ffw_norm"};
    for (int i = 0; i < LAYERS; i++) {
        if (f->form->kinds[i] == 'A') fuse_tensors(f, i, "weight");
        for (size_t k = 0; k < 2; k++) {
            struct values *t = tensor_of(f, i, norms[k]);
            snprintf(t->name, sizeof t->name, "blk.%d.%s", i, norms[k]);
        }
    }
}

/* ---- the second computation ---- */

static const float *plain_values(const struct file *f, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    return values_named(f, name);
}

static double silu(double x)
{
    return x * sigmoid(x);
}

/* What a head has of the first product: its gates, then its x. */
static double gate_of(const double *both, size_t i)
{
    return both[i / P_WIDTH * 2 * P_WIDTH + i % P_WIDTH];
}

static double x_of(const double *both, size_t i)
{
    return gate_of(both + P_WIDTH, i);
}

static void convolve(const struct file *f, int layer, double both[][2 * P_INNER], size_t pos,
                     double *out)
{
    const float *w = values_of(f, layer, "ssm_conv1d");
    for (size_t i = 0; i < P_INNER; i++) {
        double sum = 0;
        for (size_t back = 0; back < P_TAPS && back <= pos; back++)
            sum += (double)w[i * P_TAPS + P_TAPS - 1 - back] * x_of(both[pos - back], i);
        out[i] = silu(sum);
    }
}

static void advance(const struct file *f, int layer, const double *x,
                    double states[P_INNER][P_STATE], double *y)
{
    const float *a = plain_values(f, layer, "ssm_a"), *d = plain_values(f, layer, "ssm_d");
    const float *bias = bias_of(f, layer, "ssm_dt");
    double made[P_MADE], dt[P_HEADS];
    double *b = made, *c = b + P_STATE, *row = c + P_STATE;
    times(values_of(f, layer, "ssm_x"), x, P_INNER, P_MADE, made);
    norm(plain_values(f, layer, "ssm_b_norm"), b, P_STATE, b);
    norm(plain_values(f, layer, "ssm_c_norm"), c, P_STATE, c);
    norm(plain_values(f, layer, "ssm_dt_norm"), row, P_STEP, row);
    times(values_of(f, layer, "ssm_dt"), row, P_STEP, P_HEADS, dt);
    for (size_t i = 0; i < P_INNER; i++) {
        const size_t h = i / P_WIDTH;
        const double step = log1p(exp(dt[h] + (double)bias[h]));
        y[i] = (double)d[h] * x[i];
        for (size_t n = 0; n < P_STATE; n++) {
            double *s = &states[i][n];
            *s = exp(step * (double)a[h]) * *s + step * b[n] * x[i];
            y[i] += c[n] * *s;
        }
    }
}

static void run_states(const struct file *f, int layer, struct rows *rows)
{
    double(*both)[2 * P_INNER] = mem_zalloc(N_IDS, sizeof *both);
    double states[P_INNER][P_STATE] = {{0}};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], out[EMBD], x[P_INNER], y[P_INNER];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "ssm_in"), in, EMBD, 2 * P_INNER, both[p]);
        convolve(f, layer, both, p, x);
        advance(f, layer, x, states, y);
        for (size_t i = 0; i < P_INNER; i++)
            y[i] *= silu(gate_of(both[p], i));
        times(values_of(f, layer, "ssm_out"), y, P_INNER, EMBD, out);
        norm(values_of(f, layer, "post_attention_norm"), out, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
    free(both);
}

static void compute_all(const struct file *f, double base, float *logits)
{
    const struct sight all = {0, plain_rotation(HEAD_DIM, base)};
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (f->form->kinds[layer] == 'A')
            attention(f, layer, &all, rows);
        else
            run_states(f, layer, rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
    head(f, rows, 0, logits);
    free(rows);
}

/* ---- tests ---- */

static struct form form_of(const char *kinds)
{
    return (struct form){"plamo2",         .norm_before = true, .norm_after = true,
                         .rms_each = true, .gate_in_up = true,  .heads_apart = true,
                         .kinds = kinds};
}

static void test_plamo2(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *kinds;
        float base; /* 0: there is no key */
        bool says_groups;
    } cases[] = {
        {"plamo2", "MAMAMAM", 0, true},
        {"plamo2, attention last", "MAMAMMA", 500, false},
        {"plamo2, attention first and alone", "AMMMMMM", 500, false},
    };
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double base = cases[i].base > 0 ? (double)cases[i].base : 10000;
        const struct form form = form_of(cases[i].kinds);
        struct file f;
        plamo2_init(&f, &form);
        if (cases[i].base > 0) key_f32(&f, "rope.freq_base", cases[i].base);
        if (cases[i].says_groups) key_u32(&f, "ssm.group_count", 0);
        compute_all(&f, base, want);
        name_as_files(&f);
        check_logits(most, cases[i].name, &f, want);
        file_free(&f);
    }
    free(want);
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct form form = form_of("MAMAMAM");
    struct file f;
    plamo2_init(&f, &form);
    check_refused(&f, "m.gguf: tensor blk.0.post_attention_norm: expected [64], but it is "
                      "missing");
    name_as_files(&f);
    key_u32(&f, "ssm.group_count", 2);
    check_refused(&f, "m.gguf: key plamo2.ssm.group_count is 2, but heads of hearth's plamo2 "
                      "are in no groups");
    file_free(&f);
    plamo2_init(&f, &form);
    name_as_files(&f);
    struct values *t = tensor_named(&f, "blk.2.ssm_dt.bias");
    free(t->v);
    *t = f.tensors[--f.n_tensors];
    check_refused(&f, "m.gguf: tensor blk.2.ssm_dt.bias: expected [5], but it is missing");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plamo2),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_plamo2", tests, NULL, NULL);
}
