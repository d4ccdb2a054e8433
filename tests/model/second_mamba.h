/* Models whose layers are one thing each (form.kinds), some of them Mamba-2: their small random
 * files, and their logits by a second computation in double, from the formulas and one token
 * after the other. What goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_SECOND_MAMBA_H
#define TESTS_SECOND_MAMBA_H

#include "second_model.h"

/* Each head has M_WIDTH values of M_INNER; B and C have N_STATE values in each group, which
 * the heads of a group share. */
enum { M_INNER = 48, M_HEADS = 6, M_WIDTH = M_INNER / M_HEADS, M_TAPS = 4 };
enum { M_GROUPS = 2, N_STATE = 12, M_NORMED = M_INNER / M_GROUPS };
/* What the convolution is of, and what comes before and behind it of one product. */
enum { M_MIXED = M_INNER + 2 * M_GROUPS * N_STATE, M_ALL = M_INNER + M_MIXED + M_HEADS };

/* ---- files ---- */

static inline void mamba_keys(struct file *f)
{
    key_u32(f, "ssm.conv_kernel", M_TAPS);
    key_u32(f, "ssm.state_size", N_STATE);
    key_u32(f, "ssm.group_count", M_GROUPS);
    key_u32(f, "ssm.time_step_rank", M_HEADS);
    key_u32(f, "ssm.inner_size", M_INNER);
}

/* One number for each head, as a matrix of one column. */
static inline void per_head_tensor(struct file *f, int layer, const char *what, double centre,
                                   double spread)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    random_tensor(f, name, 1, M_HEADS, centre, spread);
}

/* Factors A that keep between a third and nearly all of a state for the next token. */
static inline void mamba_tensors(struct file *f, int layer)
{
    char name[48];
    layer_tensor(f, layer, "ssm_in", EMBD, M_ALL);
    layer_tensor(f, layer, "ssm_conv1d", M_TAPS, M_MIXED);
    bias_tensor(f, layer, "ssm_conv1d", M_MIXED);
    bias_tensor(f, layer, "ssm_dt", M_HEADS);
    per_head_tensor(f, layer, "ssm_a", -0.5, 0.45);
    per_head_tensor(f, layer, "ssm_d", 1, 0.5);
    snprintf(name, sizeof name, "blk.%d.ssm_norm.weight", layer);
    random_tensor(f, name, M_NORMED, M_GROUPS, 1, 0.3);
    layer_tensor(f, layer, "ssm_out", M_INNER, EMBD);
}

/* What a block of the next token has beside attention and experts. */
static inline void next_tensors(struct file *f, int layer)
{
    layer_tensor(f, layer, "post_attention_norm", EMBD, 1);
    layer_tensor(f, layer, "nextn.eh_proj", 2 * EMBD, EMBD);
    layer_tensor(f, layer, "nextn.enorm", EMBD, 1);
    layer_tensor(f, layer, "nextn.hnorm", EMBD, 1);
    layer_tensor(f, layer, "nextn.shared_head_norm", EMBD, 1);
}

/* The keys that tell the kinds of layers: how many KV heads each has, and how wide a
 * feed-forward. */
static inline void kinds_keys(struct file *f)
{
    int32_t heads[LAYERS], widths[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        const char kind = f->form->kinds[i];
        heads[i] = kind == 'A' || kind == 'N' ? KV_HEADS : 0;
        widths[i] = kind == 'F' || kind == 'N' ? FF : 0;
    }
    array_key(f, "attention.head_count_kv", heads, LAYERS);
    array_key(f, "feed_forward_length", widths, LAYERS);
}

/* A file but for the epsilon and for how many experts a token has. */
static inline void kinds_begin(struct file *f, const struct form *form)
{
    assert_int_equal(strlen(form->kinds), LAYERS);
    file_begin(f, form);
    kinds_keys(f);
    mamba_keys(f);
    for (int i = 0; i < LAYERS; i++) {
        const char kind = form->kinds[i];
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        if (kind == 'M') mamba_tensors(f, i);
        if (kind == 'A' || kind == 'N') attention_tensors(f, i);
        if (kind == 'F' || kind == 'N') feed_forward_tensors(f, i);
        if (kind == 'N') next_tensors(f, i);
    }
}

/* Files of these models have the epsilon by the name of another norm. */
static inline void kinds_init(struct file *f, const struct form *form)
{
    kinds_begin(f, form);
    key_f32(f, "attention.layer_norm_epsilon", 1e-6f);
    if (form->experts.any) key_u32(f, "expert_used_count", USED);
}

/* ---- the second computation ---- */

static inline double silu(double x)
{
    return x * sigmoid(x);
}

static inline double softplus(double x)
{
    return log1p(exp(x));
}

/* Row pos of the convolution: each value with those of the tokens before it, of which the
 * first tokens have none. */
static inline void convolve(const struct file *f, int layer, double all[][M_ALL], size_t pos,
                            double *out)
{
    const float *w = values_of(f, layer, "ssm_conv1d");
    const float *bias = bias_of(f, layer, "ssm_conv1d");
    for (size_t i = 0; i < M_MIXED; i++) {
        double sum = (double)bias[i];
        for (size_t back = 0; back < M_TAPS && back <= pos; back++)
            sum += (double)w[i * M_TAPS + M_TAPS - 1 - back] * all[pos - back][M_INNER + i];
        out[i] = silu(sum);
    }
}

static inline const float *per_head(const struct file *f, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    return values_named(f, name);
}

/* The states of all heads take in a row of x, B and C (mixed) by steps dt, and give y. */
static inline void advance(const struct file *f, int layer, const double *mixed,
                           const double *dt, double states[M_HEADS][N_STATE][M_WIDTH],
                           double *y)
{
    const float *a = per_head(f, layer, "ssm_a"), *d = per_head(f, layer, "ssm_d");
    const float *bias = bias_of(f, layer, "ssm_dt");
    for (size_t h = 0; h < M_HEADS; h++) {
        const double *x = mixed + h * M_WIDTH;
        const double *b = mixed + M_INNER + h / (M_HEADS / M_GROUPS) * N_STATE;
        const double *c = b + (size_t)M_GROUPS * N_STATE;
        const double step = softplus(dt[h] + (double)bias[h]);
        for (size_t j = 0; j < M_WIDTH; j++) {
            double sum = (double)d[h] * x[j];
            for (size_t n = 0; n < N_STATE; n++) {
                double *s = &states[h][n][j];
                *s = exp(step * (double)a[h]) * *s + step * b[n] * x[j];
                sum += c[n] * *s;
            }
            y[h * M_WIDTH + j] = sum;
        }
    }
}

/* What the layer adds to a row: y by its gate z, then normed group by group. */
static inline void finish(const struct file *f, int layer, const double *z, double *y,
                          double *x)
{
    const float *w = values_of(f, layer, "ssm_norm");
    double out[EMBD];
    for (size_t i = 0; i < M_INNER; i++)
        y[i] *= silu(z[i]);
    for (size_t i = 0; i < M_INNER; i += M_NORMED)
        norm(w + i, y + i, M_NORMED, y + i);
    times(values_of(f, layer, "ssm_out"), y, M_INNER, EMBD, out);
    add_times(x, out, 1);
}

static inline void mamba(const struct file *f, int layer, struct rows *rows)
{
    double(*all)[M_ALL] = mem_zalloc(N_IDS, sizeof *all);
    double states[M_HEADS][N_STATE][M_WIDTH] = {0};
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], mixed[M_MIXED], y[M_INNER];
        norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
        times(values_of(f, layer, "ssm_in"), in, EMBD, M_ALL, all[p]);
        convolve(f, layer, all, p, mixed);
        advance(f, layer, mixed, all[p] + M_INNER + M_MIXED, states, y);
        finish(f, layer, all[p], y, rows->x[p]);
    }
    free(all);
}

/* Attention, of which nothing rotates, or one of the others. */
static inline void compute_kind(const struct file *f, int layer, struct rows *rows)
{
    const struct sight all = {0, plain_rotation(0, 1)};
    switch (f->form->kinds[layer]) {
    case 'M': mamba(f, layer, rows); break;
    case 'A': attention(f, layer, &all, rows); break;
    default:
        for (size_t p = 0; p < N_IDS; p++) {
            double in[EMBD], out[EMBD];
            norm(values_of(f, layer, "attn_norm"), rows->x[p], EMBD, in);
            experts_or_dense(f, layer, in, in, out);
            add_times(rows->x[p], out, 1);
        }
    }
}

/* By the first n_layer layers. */
static inline void check_kinds(double most, const char *name, const struct file *f, int n_layer)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (int layer = 0; layer < n_layer; layer++)
        compute_kind(f, layer, rows);
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(rows);
    free(want);
}

#endif
