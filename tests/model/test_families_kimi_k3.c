/* kimi-k3, which puts its row by every few layers and reads mixes of what it has put by, on
 * small random models: the logits against those of a second computation in double. No case may
 * differ by ten times what it was measured to. */
#include "second_delta.h"

/* How many rows are put by at most. */
enum { MOST_BANKED = LAYERS };

static const struct manner bounded = {.bound = -0.5, .gates = "ssm_g"};

static struct form form_of(const char *kinds)
{
    return (struct form){"kimi-k3",
                         .norm_before = true,
                         .kinds = kinds,
                         .situ = 2,
                         .situ_up = 3,
                         .latent = {.n_gates = HEADS * L_VALUE, .n_q = 20},
                         .experts = {.any = true,
                                     .sigmoid = true,
                                     .select = true,
                                     .n_dense = 1,
                                     .n_ff = L_WIDTH,
                                     .n_shared = 2 * L_WIDTH,
                                     .n_latent = 28,
                                     .routed = true}};
}

/* A file but for how often rows are put by. */
static void k3_begin(struct file *f, const struct form *form, const struct manner *m)
{
    delta_init(f, form, m);
    if (m->bound < 0) key_f32(f, "kda.gate_lower_bound", (float)m->bound);
    key_bool(f, "expert_weights_norm", !form->experts.as_is);
    if (form->experts.n_latent > 0)
        key_u32(f, "expert_latent_length", (uint32_t)form->experts.n_latent);
    key_f32(f, "activation.situ_beta", (float)form->situ);
    key_f32(f, "activation.situ_linear_beta", (float)form->situ_up);
}

static void k3_init(struct file *f, const struct form *form, const struct manner *m, int every)
{
    k3_begin(f, form, m);
    key_u32(f, "attn_res.block_size", (uint32_t)every);
    if (every == 0) return;
    for (int i = 0; i < LAYERS; i++) {
        named(f, i, "attn_res_score.weight", EMBD, 1, 0, 0.2);
        named(f, i, "ffn_res_score.weight", EMBD, 1, 0, 0.2);
    }
    random_tensor(f, "output_res_score.weight", EMBD, 1, 0, 0.2);
}

/* ---- the second computation ---- */

struct bank {
    size_t n;
    double rows[MOST_BANKED][N_IDS][EMBD];
};

/* What a row counts for, before the softmax: its values do, whatever its size is. */
static double score_of(const float *w, const double *row)
{
    double sized[EMBD], sum = 0;
    norm(NULL, row, EMBD, sized);
    for (size_t i = 0; i < EMBD; i++)
        sum += sized[i] * (double)w[i];
    return sum;
}

/* out = the mix of the rows put by and x. */
static void mix(const struct bank *bank, const float *w, double (*x)[EMBD], double (*out)[EMBD])
{
    for (size_t p = 0; p < N_IDS; p++) {
        double weights[MOST_BANKED + 1], sum = 0, mixed[EMBD] = {0};
        for (size_t i = 0; i <= bank->n; i++) {
            weights[i] = exp(score_of(w, i < bank->n ? bank->rows[i][p] : x[p]));
            sum += weights[i];
        }
        for (size_t i = 0; i <= bank->n; i++)
            add_times(mixed, i < bank->n ? bank->rows[i][p] : x[p], weights[i] / sum);
        memcpy(out[p], mixed, sizeof mixed);
    }
}

struct work {
    struct bank bank;
    struct rows rows;
    struct latent_rows latent;
    double read[N_IDS][EMBD], out[N_IDS][EMBD];
};

static void k3_layer(const struct file *f, int layer, const struct manner *m,
                     const struct latent_sight *s, int every, struct work *w)
{
    const bool anew = every > 0 && layer % every == 0;
    double(*x)[EMBD] = w->rows.x;
    memcpy(w->read, x, sizeof w->read);
    if (every > 0) mix(&w->bank, values_of(f, layer, "attn_res_score"), x, w->read);
    if (anew) memcpy(w->bank.rows[w->bank.n++], x, sizeof w->read);
    if (f->form->kinds[layer] == 'K')
        delta_attention(f, layer, m, w->read, w->out);
    else
        latent_attention_of(f, layer, s, w->read, &w->latent, w->out);
    for (size_t p = 0; p < N_IDS; p++) {
        if (anew) memset(x[p], 0, sizeof x[p]);
        add_times(x[p], w->out[p], 1);
    }
    memcpy(w->read, x, sizeof w->read);
    if (every > 0) mix(&w->bank, values_of(f, layer, "ffn_res_score"), x, w->read);
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], out[EMBD];
        norm(values_of(f, layer, "ffn_norm"), w->read[p], EMBD, in);
        experts_or_dense(f, layer, in, in, out);
        add_times(x[p], out, 1);
    }
}

static void check_k3(double most, const char *name, const struct form *form,
                     const struct manner *m, int every)
{
    struct latent_sight s = latent_plain(1, 1);
    struct file f;
    struct work *w = mem_zalloc(1, sizeof *w);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    s.rotation = plain_rotation(0, 1);
    k3_init(&f, form, m, every);
    embed(&f, &w->rows);
    for (int layer = 0; layer < LAYERS; layer++)
        k3_layer(&f, layer, m, &s, every, w);
    if (every > 0) mix(&w->bank, values_of(&f, -1, "output_res_score"), w->rows.x, w->rows.x);
    head(&f, &w->rows, 0, want);
    check_logits(most, name, &f, want);
    free(want);
    free(w);
    file_free(&f);
}

/* ---- the tests ---- */

/* Each kind of layer may be the first and the last; rows are put by in each layer, in some, in
 * the first alone and never. */
static void test_layers(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"KKKLKKL", "LKKKLKK", "KLLKKKK"};
    static const int every[] = {0, 1, 2, 3, 7};
    for (size_t i = 0; i < 5; i++) {
        const struct form form = form_of(orders[i % 3]);
        char name[48];
        snprintf(name, sizeof name, "kimi-k3 %s, every %d", orders[i % 3], every[i]);
        check_k3(1e-10, name, &form, &bounded, every[i]);
    }
}

static void test_manners(void **unused)
{
    (void)unused;
    const struct manner unbounded = {.gates = "ssm_g"};
    struct form form = form_of("KKLKKKL");
    check_k3(1e-10, "kimi-k3, decays without a bound", &form, &unbounded, 2);
    form.latent.by_heads = true;
    check_k3(1e-10, "kimi-k3, keys of all heads", &form, &bounded, 2);
    form.latent.n_gates = 0, form.latent.n_q = 0;
    check_k3(1e-10, "kimi-k3, attention without a gate", &form, &bounded, 2);
    form.situ_up = 0, form.experts.as_is = true;
    check_k3(1e-10, "kimi-k3, up as it is, and weights", &form, &bounded, 2);
    form.experts.n_latent = 0, form.experts.routed = false;
    check_k3(1e-10, "kimi-k3, experts of the whole row", &form, &bounded, 2);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct form form = form_of("KKKLKKL");
    struct file f;
    k3_begin(&f, &form, &bounded);
    check_refused(&f, "m.gguf: key kimi-k3.attn_res.block_size is missing");
    key_u32(&f, "attn_res.block_size", 2);
    check_refused(
        &f, "m.gguf: tensor blk.0.ffn_res_score.weight: expected [64], but it is missing");
    file_free(&f);
    form.situ = 0;
    k3_init(&f, &form, &bounded, 2);
    check_refused(&f,
                  "m.gguf: key kimi-k3.activation.situ_beta should be between 0.001 and 1000, "
                  "but is 0");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_manners),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_kimi_k3", tests, NULL, NULL);
}
