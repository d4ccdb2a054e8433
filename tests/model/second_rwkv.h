/* Layers of RWKV-7: the keys and tensors of small random files, and what such a layer does by a
 * second computation in double, from the authors' formulas: states are [value][key]. What goes
 * wrong in here fails the cmocka test that called. */
#ifndef TESTS_SECOND_RWKV_H
#define TESTS_SECOND_RWKV_H

#include "second_model.h"

enum {
    R_HEAD = 16,
    R_HEADS = EMBD / R_HEAD,
    R_DECAY = 10,
    R_RATE = 6,
    R_VALUE = 5,
    R_GATE = 7
};

/* What a file has. */
struct rwkv_form {
    bool transformer; /* RMS norms, a feed-forward with a gate (arwkv7) */
    bool gates, head_norms;
    bool no_first; /* what the first layer does not use is not there */
};

/* ---- files ---- */

/* Those of both versions. */
static inline void rwkv_common_keys(struct file *f, bool transformer)
{
    key_u32(f, "attention.head_count", 0);
    key_u32(f, "feed_forward_length", FF);
    key_f32(f,
            transformer ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
            1e-6f);
    key_u32(f, "wkv.head_size", R_HEAD);
    if (transformer) key_u32(f, "token_shift_count", 1);
}

static inline void rwkv_keys(struct file *f, const struct rwkv_form *r)
{
    rwkv_common_keys(f, r->transformer);
    key_u32(f, "attention.decay_lora_rank", R_DECAY);
    key_u32(f, "attention.iclr_lora_rank", R_RATE);
    key_u32(f, "attention.value_residual_mix_lora_rank", R_VALUE);
    key_u32(f, "attention.gate_lora_rank", r->gates ? R_GATE : 0);
}

/* A vector around some number. */
static inline void rwkv_vector(struct file *f, int layer, const char *what, double centre,
                               double spread)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    random_tensor(f, name, EMBD, 1, centre, spread);
}

/* One of the ways by a narrow row: its two matrices and its bias. */
static inline void narrow_tensors(struct file *f, int layer, char which, size_t n)
{
    char what[24];
    snprintf(what, sizeof what, "time_mix_%c1", which);
    layer_tensor(f, layer, what, EMBD, n);
    snprintf(what, sizeof what, "time_mix_%c2", which);
    layer_tensor(f, layer, what, n, EMBD);
    snprintf(what, sizeof what, "time_mix_%c0", which);
    if (which != 'g') rwkv_vector(f, layer, what, 0, 1);
}

static inline void time_mix_tensors(struct file *f, int layer, const struct rwkv_form *r)
{
    static const char *const square[] = {"time_mix_receptance", "time_mix_key",
                                         "time_mix_value", "time_mix_output"};
    const size_t n_mixed = r->gates ? 6 : 5;
    char name[48];
    snprintf(name, sizeof name, "blk.%d.time_mix_lerp_fused.weight", layer);
    random_tensor(f, name, EMBD, n_mixed, 0.5, 0.6);
    f->tensors[f->n_tensors - 1].n_mats = n_mixed;
    f->tensors[f->n_tensors - 1].apart = true;
    narrow_tensors(f, layer, 'w', R_DECAY);
    narrow_tensors(f, layer, 'a', R_RATE);
    /* Converters fill in for the first layer what it has no use for. */
    if (layer > 0 || !r->no_first) narrow_tensors(f, layer, 'v', layer ? R_VALUE : R_RATE);
    if (r->gates) narrow_tensors(f, layer, 'g', R_GATE);
    for (size_t i = 0; i < 4; i++)
        layer_tensor(f, layer, square[i], EMBD, EMBD);
    rwkv_vector(f, layer, "time_mix_k_k", 0.8, 0.4);
    rwkv_vector(f, layer, "time_mix_k_a", 0.9, 0.4);
    rwkv_vector(f, layer, "time_mix_r_k", 0, 0.4);
    if (!r->head_norms) return;
    layer_tensor(f, layer, "time_mix_ln", EMBD, 1);
    bias_tensor(f, layer, "time_mix_ln", EMBD);
}

/* The feed-forward: a channel mix, with a gate or not, or a transformer's. */
static inline void rwkv_forward_tensors(struct file *f, int layer, bool transformer, bool gated)
{
    norm_tensors(f, layer, transformer ? "ffn_norm" : "attn_norm_2");
    if (transformer) {
        dense_tensors(f, layer);
        return;
    }
    rwkv_vector(f, layer, "channel_mix_lerp_k", 0.5, 0.6);
    if (gated) rwkv_vector(f, layer, "channel_mix_lerp_r", 0.5, 0.6);
    layer_tensor(f, layer, "channel_mix_key", EMBD, FF);
    layer_tensor(f, layer, "channel_mix_value", FF, EMBD);
    if (gated) layer_tensor(f, layer, "channel_mix_receptance", EMBD, EMBD);
}

static inline void rwkv_tensors(struct file *f, int layer, const struct rwkv_form *r)
{
    norm_tensors(f, layer, "attn_norm");
    time_mix_tensors(f, layer, r);
    rwkv_forward_tensors(f, layer, r->transformer, false);
}

/* ---- the second computation ---- */

/* x of row p on the way to row p - 1, zeros before the first. */
static inline void on_the_way(const float *share, double x[][EMBD], size_t p, double *y)
{
    for (size_t i = 0; i < EMBD; i++) {
        const double before = p > 0 ? x[p - 1][i] : 0;
        y[i] = x[p][i] + (before - x[p][i]) * (double)share[i];
    }
}

/* By a narrow row and a curve there, NULL: none; with its bias, gates apart. */
static inline void by_narrow(const struct file *f, int layer, char which, size_t n,
                             double (*curve)(double), const double *x, double *y)
{
    char what[24];
    double narrow[EMBD];
    snprintf(what, sizeof what, "time_mix_%c1", which);
    times(values_of(f, layer, what), x, EMBD, n, narrow);
    for (size_t i = 0; curve && i < n; i++)
        narrow[i] = curve(narrow[i]);
    snprintf(what, sizeof what, "time_mix_%c2", which);
    times(values_of(f, layer, what), narrow, n, EMBD, y);
    snprintf(what, sizeof what, "time_mix_%c0", which);
    if (which != 'g') add_bias(y, values_of(f, layer, what), EMBD);
}

/* What a token brings to all heads. */
struct brought {
    double r[EMBD], w[EMBD], k[EMBD], v[EMBD], rate[EMBD], gate[EMBD];
    double erased[EMBD]; /* what states hold for this is taken out */
};

static inline void bring(const struct file *f, int layer, const struct rwkv_form *form,
                         double x[][EMBD], size_t p, double first[][EMBD], struct brought *t)
{
    const float *share = values_of(f, layer, "time_mix_lerp_fused");
    double in[6][EMBD], mix[EMBD];
    for (size_t i = 0; i < (form->gates ? 6 : 5); i++)
        on_the_way(share + i * EMBD, x, p, in[i]);
    times(values_of(f, layer, "time_mix_receptance"), in[0], EMBD, EMBD, t->r);
    by_narrow(f, layer, 'w', R_DECAY, tanh, in[1], t->w);
    times(values_of(f, layer, "time_mix_key"), in[2], EMBD, EMBD, t->k);
    times(values_of(f, layer, "time_mix_value"), in[3], EMBD, EMBD, t->v);
    by_narrow(f, layer, 'a', R_RATE, NULL, in[4], t->rate);
    if (form->gates) by_narrow(f, layer, 'g', R_GATE, sigmoid, in[5], t->gate);
    if (layer == 0)
        memcpy(first[p], t->v, sizeof t->v);
    else
        by_narrow(f, layer, 'v', R_VALUE, NULL, in[3], mix);
    for (size_t i = 0; i < EMBD; i++) {
        t->w[i] = exp(-0.606531 * sigmoid(t->w[i]));
        t->rate[i] = sigmoid(t->rate[i]);
        if (layer > 0) t->v[i] += (first[p][i] - t->v[i]) * sigmoid(mix[i]);
    }
}

/* Keys become a direction to erase and what is put in. */
static inline void split_keys(const struct file *f, int layer, struct brought *t)
{
    const float *k_k = values_of(f, layer, "time_mix_k_k");
    const float *k_a = values_of(f, layer, "time_mix_k_a");
    for (size_t h = 0; h < EMBD; h += R_HEAD) {
        double sum = 0;
        for (size_t i = h; i < h + R_HEAD; i++) {
            t->erased[i] = t->k[i] * (double)k_k[i];
            sum += t->erased[i] * t->erased[i];
        }
        for (size_t i = h; i < h + R_HEAD; i++)
            t->erased[i] /= sqrt(sum);
    }
    for (size_t i = 0; i < EMBD; i++)
        t->k[i] *= 1 + (t->rate[i] - 1) * (double)k_a[i];
}

/* The states of all heads take in a token, and give y. */
static inline void wkv_advance(const struct brought *t, double s[EMBD][R_HEAD], double *y)
{
    for (size_t j = 0; j < EMBD; j++) {
        const size_t h = j / R_HEAD * R_HEAD;
        double held = 0;
        for (size_t i = 0; i < R_HEAD; i++)
            held += s[j][i] * t->erased[h + i];
        y[j] = 0;
        for (size_t i = 0; i < R_HEAD; i++) {
            s[j][i] = s[j][i] * t->w[h + i] - held * t->erased[h + i] * t->rate[h + i] +
                      t->v[j] * t->k[h + i];
            y[j] += s[j][i] * t->r[h + i];
        }
    }
}

/* The norm of each head, the bonus and the gate. */
static inline void finish_heads(const struct file *f, int layer, const struct rwkv_form *form,
                                const struct brought *t, double *y)
{
    const float *r_k = values_of(f, layer, "time_mix_r_k");
    const float *w = form->head_norms ? values_of(f, layer, "time_mix_ln") : NULL;
    const float *bias = form->head_norms ? bias_of(f, layer, "time_mix_ln") : NULL;
    for (size_t h = 0; h < EMBD; h += R_HEAD) {
        double mean = 0, square = 0, bonus = 0;
        for (size_t i = h; i < h + R_HEAD; i++)
            mean += y[i] / R_HEAD;
        for (size_t i = h; i < h + R_HEAD; i++) {
            square += (y[i] - mean) * (y[i] - mean) / R_HEAD;
            bonus += t->r[i] * t->k[i] * (double)r_k[i];
        }
        for (size_t i = h; i < h + R_HEAD; i++) {
            if (w) y[i] = (y[i] - mean) / sqrt(square + 64e-5) * (double)w[i] + (double)bias[i];
            y[i] += bonus * t->v[i];
            if (form->gates) y[i] *= t->gate[i];
        }
    }
}

static inline void time_mix(const struct file *f, int layer, const struct rwkv_form *form,
                            double first[][EMBD], struct rows *rows)
{
    double states[EMBD][R_HEAD] = {{0}};
    struct brought *t = mem_zalloc(1, sizeof *t);
    for (size_t p = 0; p < N_IDS; p++)
        row_norm(f, layer, "attn_norm", rows->x[p], rows->h[p]);
    for (size_t p = 0; p < N_IDS; p++) {
        double y[EMBD], out[EMBD];
        bring(f, layer, form, rows->h, p, first, t);
        split_keys(f, layer, t);
        wkv_advance(t, states, y);
        finish_heads(f, layer, form, t, y);
        times(values_of(f, layer, "time_mix_output"), y, EMBD, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
    free(t);
}

static inline void channel_mix(const struct file *f, int layer, struct rows *rows)
{
    const float *share = values_of(f, layer, "channel_mix_lerp_k");
    for (size_t p = 0; p < N_IDS; p++)
        row_norm(f, layer, "attn_norm_2", rows->x[p], rows->h[p]);
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], unit[FF], out[EMBD];
        on_the_way(share, rows->h, p, in);
        times(values_of(f, layer, "channel_mix_key"), in, EMBD, FF, unit);
        for (size_t i = 0; i < FF; i++)
            unit[i] = pow(fmax(unit[i], 0), 2);
        times(values_of(f, layer, "channel_mix_value"), unit, FF, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
}

#endif
