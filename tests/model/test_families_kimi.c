/* kimi-linear, whose layers have Kimi delta attention, whose states decay dim by dim, or
 * attention over compressed keys and values, of which nothing rotates, on small random models:
 * the logits against those of a second computation in double. No case may differ by ten times
 * what it was measured to. */
#include "second_latent.h"
#include "second_mamba.h"

/* Of a head of the delta attention; all heads. */
enum { K_DIM = 12, K_INNER = HEADS * K_DIM, K_TAPS = 4 };

/* What files may have in one way or another. */
struct manner {
    bool fused;     /* one matrix for Q, K and V */
    bool unit_dims; /* a dim of 1 within the convolutions' factors */
    bool softmax;   /* chooses the experts */
};

static struct form form_of(const char *kinds, bool by_heads, bool softmax)
{
    return (struct form){"kimi-linear", .norm_before = true, .kinds = kinds,
                         .latent = {.by_heads = by_heads},
                         .experts = {.any = true,
                                     .sigmoid = !softmax,
                                     .select = true,
                                     .n_dense = 1,
                                     .n_ff = L_WIDTH,
                                     .n_shared = 2 * L_WIDTH}};
}

static void named(struct file *f, int layer, const char *what, size_t n_in, size_t n_out,
                  double centre, double spread)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    random_tensor(f, name, n_in, n_out, centre, spread);
}

static void delta_tensors(struct file *f, int layer, bool unit_dims)
{
    static const char *const inputs[] = {"attn_q", "attn_k", "attn_v"};
    static const char *const convs[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
    for (size_t i = 0; i < 3; i++)
        layer_tensor(f, layer, inputs[i], EMBD, K_INNER);
    for (size_t i = 0; i < 3; i++) {
        layer_tensor(f, layer, convs[i], K_TAPS, K_INNER);
        if (unit_dims) f->tensors[f->n_tensors - 1].n_mats = K_INNER;
    }
    layer_tensor(f, layer, "ssm_f_a", EMBD, K_DIM);
    layer_tensor(f, layer, "ssm_f_b", K_DIM, K_INNER);
    layer_tensor(f, layer, "ssm_beta", EMBD, HEADS);
    named(f, layer, "ssm_a", 1, HEADS, -0.5, 0.45);
    bias_tensor(f, layer, "ssm_dt", K_INNER);
    layer_tensor(f, layer, "ssm_g_a", EMBD, K_DIM);
    layer_tensor(f, layer, "ssm_g_b", K_DIM, K_INNER);
    layer_tensor(f, layer, "ssm_norm", K_DIM, 1);
    layer_tensor(f, layer, "attn_output", K_INNER, EMBD);
}

static void fuse_layer(struct file *f, int layer)
{
    struct values *q = tensor_of(f, layer, "attn_q");
    q->v = mem_resize(q->v, (size_t)3 * EMBD * K_INNER, sizeof *q->v);
    for (int i = 1; i < 3; i++) {
        struct values *part = tensor_of(f, layer, i == 1 ? "attn_k" : "attn_v");
        memcpy(q->v + (size_t)i * EMBD * K_INNER, part->v, sizeof *q->v * EMBD * K_INNER);
        free(part->v);
        *part = f->tensors[--f->n_tensors];
        q = tensor_of(f, layer, "attn_q");
    }
    q->n_out = 3 * K_INNER;
    snprintf(q->name, sizeof q->name, "blk.%d.attn_qkv.weight", layer);
}

/* A file but for its keys for the delta attention. */
static void kimi_begin(struct file *f, const struct form *form, const struct manner *m)
{
    int32_t heads[LAYERS];
    file_begin(f, form);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "expert_used_count", USED);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "leading_dense_block_count", (uint32_t)form->experts.n_dense);
    key_u32(f, "expert_shared_count", 2);
    key_u32(f, "expert_gating_func", m->softmax ? 1 : 2);
    key_f32(f, "expert_weights_scale", 2.5f);
    f->scales.experts = 2.5;
    latent_sizes(f);
    for (int i = 0; i < LAYERS; i++) {
        const bool recurrent = form->kinds[i] == 'K';
        heads[i] = recurrent ? 0 : form->latent.by_heads ? HEADS : 1;
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (recurrent)
            delta_tensors(f, i, m->unit_dims);
        else
            latent_tensors(f, i);
        layer_tensor(f, i, "ffn_norm", EMBD, 1);
        feed_forward_tensors(f, i);
    }
    array_key(f, "attention.head_count_kv", heads, LAYERS);
    for (int i = 0; i < LAYERS; i++) {
        if (form->kinds[i] == 'K' && m->fused) fuse_layer(f, i);
        if (form->kinds[i] != 'K' && !form->latent.by_heads) part_kv(f, i);
    }
}

static void kimi_init(struct file *f, const struct form *form, const struct manner *m)
{
    kimi_begin(f, form, m);
    key_u32(f, "ssm.conv_kernel", K_TAPS);
    key_u32(f, "kda.head_dim", K_DIM);
}

/* ---- the second computation ---- */

/* One of Q, K and V (which: 0, 1, 2) before its convolution. */
static void project_one(const struct file *f, int layer, bool fused, size_t which,
                        const double *in, double *out)
{
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    const float *w = fused ? values_of(f, layer, "attn_qkv") + which * EMBD * K_INNER
                           : values_of(f, layer, names[which]);
    times(w, in, EMBD, K_INNER, out);
}

static void convolve_one(const struct file *f, int layer, size_t which,
                         double (*all)[3][K_INNER], size_t pos, double *out)
{
    static const char *const names[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
    const float *w = values_of(f, layer, names[which]);
    for (size_t i = 0; i < K_INNER; i++) {
        double sum = 0;
        for (size_t back = 0; back < K_TAPS && back <= pos; back++)
            sum += (double)w[i * K_TAPS + K_TAPS - 1 - back] * all[pos - back][which][i];
        out[i] = silu(sum);
    }
}

static void make_unit(double *x, double size)
{
    double sum = 1e-6;
    for (size_t i = 0; i < K_DIM; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < K_DIM; i++)
        x[i] *= size / sqrt(sum);
}

static void by_two(const struct file *f, int layer, const char *down, const char *up,
                   const double *in, double *out)
{
    double narrow[K_DIM];
    times(values_of(f, layer, down), in, EMBD, K_DIM, narrow);
    times(values_of(f, layer, up), narrow, K_DIM, K_INNER, out);
}

/* A head's state first decays, each of its rows for itself, then changes to what its key should
 * give, and is read. */
static void advance_head(double s[K_DIM][K_DIM], const double *decay, double beta,
                         const double *q, const double *k, const double *v, double *out)
{
    for (size_t j = 0; j < K_DIM; j++) {
        double given = 0;
        for (size_t i = 0; i < K_DIM; i++) {
            s[i][j] *= decay[i];
            given += s[i][j] * k[i];
        }
        out[j] = 0;
        for (size_t i = 0; i < K_DIM; i++) {
            s[i][j] += k[i] * beta * (v[j] - given);
            out[j] += s[i][j] * q[i];
        }
    }
}

static void delta_row(const struct file *f, int layer, const double *in, double qkv[3][K_INNER],
                      double states[HEADS][K_DIM][K_DIM], double *x)
{
    const float *a = per_head(f, layer, "ssm_a"), *bias = bias_of(f, layer, "ssm_dt");
    double raw[K_INNER], gate[K_INNER], beta[HEADS], y[K_INNER], out[EMBD];
    by_two(f, layer, "ssm_f_a", "ssm_f_b", in, raw);
    by_two(f, layer, "ssm_g_a", "ssm_g_b", in, gate);
    times(values_of(f, layer, "ssm_beta"), in, EMBD, HEADS, beta);
    for (size_t h = 0; h < HEADS; h++) {
        const size_t at = h * K_DIM;
        double decay[K_DIM];
        for (size_t i = 0; i < K_DIM; i++)
            decay[i] = exp((double)a[h] * softplus(raw[at + i] + (double)bias[at + i]));
        make_unit(qkv[0] + at, 1 / sqrt(K_DIM));
        make_unit(qkv[1] + at, 1);
        advance_head(states[h], decay, sigmoid(beta[h]), qkv[0] + at, qkv[1] + at, qkv[2] + at,
                     y + at);
        norm(values_of(f, layer, "ssm_norm"), y + at, K_DIM, y + at);
        for (size_t i = 0; i < K_DIM; i++)
            y[at + i] *= sigmoid(gate[at + i]);
    }
    times(values_of(f, layer, "attn_output"), y, K_INNER, EMBD, out);
    add_times(x, out, 1);
}

static void delta_attention(const struct file *f, int layer, bool fused, struct rows *rows)
{
    double(*all)[3][K_INNER] = mem_zalloc(N_IDS, sizeof *all);
    double states[HEADS][K_DIM][K_DIM] = {0};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], qkv[3][K_INNER];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        for (size_t i = 0; i < 3; i++) {
            project_one(f, layer, fused, i, in, all[p][i]);
            convolve_one(f, layer, i, all, p, qkv[i]);
        }
        delta_row(f, layer, in, qkv, states, rows->x[p]);
    }
    free(all);
}

static void check_kimi(double most, const char *name, const struct form *form,
                       const struct manner *m)
{
    struct file f;
    struct latent_sight s = latent_plain(1, 1);
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct latent_rows *latent = mem_zalloc(1, sizeof *latent);
    s.rotation = plain_rotation(0, 1);
    kimi_init(&f, form, m);
    embed(&f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (form->kinds[layer] == 'K')
            delta_attention(&f, layer, m->fused, rows);
        else
            latent_attention(&f, layer, &s, rows, latent);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(&f, layer, NULL, rows->x[p]);
    }
    head(&f, rows, 0, want);
    check_logits(most, name, &f, want);
    free(latent);
    free(rows);
    free(want);
    file_free(&f);
}

/* ---- the tests ---- */

/* Each kind of layer may be the first and the last; both forms of the attention. */
static void test_layers(void **unused)
{
    (void)unused;
    static const char *const orders[] = {"KKKLKKL", "LKKKLKK", "KLLKKKK"};
    for (size_t i = 0; i < 6; i++) {
        const struct form form = form_of(orders[i / 2], i % 2, false);
        const struct manner plain = {0};
        char name[48];
        snprintf(name, sizeof name, "kimi-linear %s, form %zu", orders[i / 2], i % 2);
        check_kimi(1e-10, name, &form, &plain);
    }
}

static void test_manners(void **unused)
{
    (void)unused;
    const struct manner fused = {.fused = true}, unit = {.unit_dims = true};
    const struct manner softmax = {.softmax = true};
    struct form form = form_of("KKLKKKL", false, false);
    check_kimi(1e-10, "kimi-linear, one matrix", &form, &fused);
    check_kimi(1e-10, "kimi-linear, dims of 1", &form, &unit);
    form = form_of("KKLKKKL", false, true);
    check_kimi(1e-10, "kimi-linear, by a softmax", &form, &softmax);
    form.experts.n_dense = 0;
    check_kimi(1e-10, "kimi-linear, experts everywhere", &form, &softmax);
}

static void test_refused(void **unused)
{
    (void)unused;
    const struct manner plain = {0};
    const struct form form = form_of("KKKLKKL", false, false);
    struct file f;
    kimi_begin(&f, &form, &plain);
    check_refused(&f, "m.gguf: key kimi-linear.ssm.conv_kernel is missing");
    key_u32(&f, "ssm.conv_kernel", K_TAPS);
    check_refused(&f, "m.gguf: key kimi-linear.kda.head_dim is missing");
    key_u32(&f, "kda.head_dim", K_DIM + 1);
    check_refused(&f, "m.gguf: tensor blk.0.attn_q.weight: expected [64, 52], found [64, 48]");
    file_free(&f);
    kimi_init(&f, &form, &plain);
    key_bool(&f, "expert_weights_norm", false);
    check_refused(&f, "m.gguf: key kimi-linear.expert_weights_norm is false, but hearth's "
                      "kimi-linear renormalises weights");
    file_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_manners),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("families_kimi", tests, NULL, NULL);
}
