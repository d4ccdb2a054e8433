/* Models whose layers have Kimi delta attention (K in form.kinds), or attention over compressed
 * keys and values: their small random files, and their logits by a second computation in
 * double, from the formulas and one token after the other. What goes wrong in here fails the
 * cmocka test that called. */
#ifndef TESTS_SECOND_DELTA_H
#define TESTS_SECOND_DELTA_H

#include "second_latent.h"
#include "second_mamba.h"

/* Of a head of the delta attention; all heads. */
enum { K_DIM = 12, K_INNER = HEADS * K_DIM, K_TAPS = 4 };

/* What files may have in one way or another. */
struct manner {
    bool fused;     /* one matrix for Q, K and V */
    bool unit_dims; /* a dim of 1 within the convolutions' factors */
    bool softmax;   /* chooses the experts */
    double bound;   /* of the logarithms of decays; 0: none */
    /* What one matrix alone makes decays, and gates, which otherwise pass a narrow row. */
    const char *decays, *gates;
};

/* ---- files ---- */

static inline void named(struct file *f, int layer, const char *what, size_t n_in, size_t n_out,
                         double centre, double spread)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    random_tensor(f, name, n_in, n_out, centre, spread);
}

static inline void two_tensors(struct file *f, int layer, const char *one, const char *down,
                               const char *up)
{
    if (one) {
        layer_tensor(f, layer, one, EMBD, K_INNER);
        return;
    }
    layer_tensor(f, layer, down, EMBD, K_DIM);
    layer_tensor(f, layer, up, K_DIM, K_INNER);
}

/* Of decays with a bound a counts by its size; files have either sign. */
static inline void delta_tensors(struct file *f, int layer, const struct manner *m)
{
    static const char *const inputs[] = {"attn_q", "attn_k", "attn_v"};
    static const char *const convs[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
    for (size_t i = 0; i < 3; i++)
        layer_tensor(f, layer, inputs[i], EMBD, K_INNER);
    for (size_t i = 0; i < 3; i++) {
        layer_tensor(f, layer, convs[i], K_TAPS, K_INNER);
        if (m->unit_dims) f->tensors[f->n_tensors - 1].n_mats = K_INNER;
    }
    two_tensors(f, layer, m->decays, "ssm_f_a", "ssm_f_b");
    layer_tensor(f, layer, "ssm_beta", EMBD, HEADS);
    named(f, layer, "ssm_a", 1, HEADS, m->decays ? 0.5 : -0.5, 0.45);
    bias_tensor(f, layer, "ssm_dt", K_INNER);
    two_tensors(f, layer, m->gates, "ssm_g_a", "ssm_g_b");
    layer_tensor(f, layer, "ssm_norm", K_DIM, 1);
    layer_tensor(f, layer, "attn_output", K_INNER, EMBD);
}

static inline void fuse_layer(struct file *f, int layer)
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
static inline void delta_begin(struct file *f, const struct form *form, const struct manner *m)
{
    int32_t heads[LAYERS];
    file_begin(f, form);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "expert_used_count", USED);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    key_u32(f, "leading_dense_block_count", (uint32_t)form->experts.n_dense);
    key_u32(f, "expert_shared_count", (uint32_t)form->experts.n_shared / L_WIDTH);
    key_u32(f, "expert_gating_func", m->softmax ? 1 : 2);
    key_f32(f, "expert_weights_scale", 2.5f);
    f->scales.experts = 2.5;
    if (form->latent.n_q > 0) key_u32(f, "attention.q_lora_rank", (uint32_t)form->latent.n_q);
    latent_sizes(f);
    for (int i = 0; i < LAYERS; i++) {
        const bool recurrent = form->kinds[i] == 'K';
        heads[i] = recurrent ? 0 : form->latent.by_heads ? HEADS : 1;
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (recurrent)
            delta_tensors(f, i, m);
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

static inline void delta_init(struct file *f, const struct form *form, const struct manner *m)
{
    delta_begin(f, form, m);
    key_u32(f, "ssm.conv_kernel", K_TAPS);
    key_u32(f, "kda.head_dim", K_DIM);
}

/* ---- the second computation ---- */

/* One of Q, K and V (which: 0, 1, 2) before its convolution. */
static inline void project_one(const struct file *f, int layer, bool fused, size_t which,
                               const double *in, double *out)
{
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    const float *w = fused ? values_of(f, layer, "attn_qkv") + which * EMBD * K_INNER
                           : values_of(f, layer, names[which]);
    times(w, in, EMBD, K_INNER, out);
}

static inline void convolve_one(const struct file *f, int layer, size_t which,
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

static inline void make_unit(double *x, double size)
{
    double sum = 1e-6;
    for (size_t i = 0; i < K_DIM; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < K_DIM; i++)
        x[i] *= size / sqrt(sum);
}

static inline void by_two(const struct file *f, int layer, const char *one, const char *down,
                          const char *up, const double *in, double *out)
{
    double narrow[K_DIM];
    if (one) {
        times(values_of(f, layer, one), in, EMBD, K_INNER, out);
        return;
    }
    times(values_of(f, layer, down), in, EMBD, K_DIM, narrow);
    times(values_of(f, layer, up), narrow, K_DIM, K_INNER, out);
}

/* A head's state first decays, each of its rows for itself, then changes to what its key should
 * give, and is read. */
static inline void advance_head(double s[K_DIM][K_DIM], const double *decay, double beta,
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

static inline double decay_of(const struct manner *m, double a, double x)
{
    return exp(m->bound < 0 ? m->bound * sigmoid(fabs(a) * x) : a * softplus(x));
}

static inline void delta_row(const struct file *f, int layer, const struct manner *m,
                             const double *in, double qkv[3][K_INNER],
                             double states[HEADS][K_DIM][K_DIM], double *out)
{
    const float *a = per_head(f, layer, "ssm_a"), *bias = bias_of(f, layer, "ssm_dt");
    double raw[K_INNER], gate[K_INNER], beta[HEADS], y[K_INNER];
    by_two(f, layer, m->decays, "ssm_f_a", "ssm_f_b", in, raw);
    by_two(f, layer, m->gates, "ssm_g_a", "ssm_g_b", in, gate);
    times(values_of(f, layer, "ssm_beta"), in, EMBD, HEADS, beta);
    for (size_t h = 0; h < HEADS; h++) {
        const size_t at = h * K_DIM;
        double decay[K_DIM];
        for (size_t i = 0; i < K_DIM; i++)
            decay[i] = decay_of(m, (double)a[h], raw[at + i] + (double)bias[at + i]);
        make_unit(qkv[0] + at, 1 / sqrt(K_DIM));
        make_unit(qkv[1] + at, 1);
        advance_head(states[h], decay, sigmoid(beta[h]), qkv[0] + at, qkv[1] + at, qkv[2] + at,
                     y + at);
        norm(values_of(f, layer, "ssm_norm"), y + at, K_DIM, y + at);
        for (size_t i = 0; i < K_DIM; i++)
            y[at + i] *= sigmoid(gate[at + i]);
    }
    times(values_of(f, layer, "attn_output"), y, K_INNER, EMBD, out);
}

/* What the layer makes of rows: out may be them. */
static inline void delta_attention(const struct file *f, int layer, const struct manner *m,
                                   double (*x)[EMBD], double (*out)[EMBD])
{
    double(*all)[3][K_INNER] = mem_zalloc(N_IDS, sizeof *all);
    double states[HEADS][K_DIM][K_DIM] = {0};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], qkv[3][K_INNER];
        norm(values_of(f, layer, "attn_norm"), x[p], EMBD, in);
        for (size_t i = 0; i < 3; i++) {
            project_one(f, layer, m->fused, i, in, all[p][i]);
            convolve_one(f, layer, i, all, p, qkv[i]);
        }
        delta_row(f, layer, m, in, qkv, states, out[p]);
    }
    free(all);
}

static inline void check_delta(double most, const char *name, const struct file *f,
                               const struct manner *m, const struct latent_sight *s)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct latent_rows *latent = mem_zalloc(1, sizeof *latent);
    double(*out)[EMBD] = mem_zalloc(N_IDS, sizeof *out);
    embed(f, rows);
    for (int layer = 0; layer < LAYERS; layer++) {
        if (f->form->kinds[layer] == 'K')
            delta_attention(f, layer, m, rows->x, out);
        else
            latent_attention_of(f, layer, s, rows->x, latent, out);
        for (size_t p = 0; p < N_IDS; p++) {
            add_times(rows->x[p], out[p], 1);
            feed_forward(f, layer, NULL, rows->x[p]);
        }
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(out);
    free(latent);
    free(rows);
    free(want);
}

#endif
