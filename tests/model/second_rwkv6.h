/* Layers of RWKV-6 and of what became of transformers by it: the tensors of small random files,
 * and what such a layer does by a second computation in double, from the authors' formulas:
 * states are [key][value]. What goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_SECOND_RWKV6_H
#define TESTS_SECOND_RWKV6_H

#include "second_rwkv.h"

enum { S_MIX = 12, S_DECAY = 9 };
/* The order of the file. */
enum { S_OF_W, S_OF_K, S_OF_V, S_OF_R, S_OF_G, S_MIXED };
static const char s_letters[] = "wkvrg";

struct rwkv6_form {
    bool transformer;  /* rwkv6qwen2 */
    bool shares_apart; /* of old files: a tensor for each */
    bool biases;       /* of receptance, key and value */
    size_t n_head_kv;  /* 0: as many as there are, without a key */
    int halved;        /* 0: never */
};

static inline size_t rwkv6_kv_width(const struct rwkv6_form *r)
{
    return r->n_head_kv > 0 ? r->n_head_kv * R_HEAD : EMBD;
}

/* ---- files ---- */

static inline void rwkv6_keys(struct file *f, const struct rwkv6_form *r)
{
    rwkv_common_keys(f, r->transformer);
    key_u32(f, "time_mix_extra_dim", S_MIX);
    key_u32(f, "time_decay_extra_dim", S_DECAY);
    if (r->halved > 0) key_u32(f, "rescale_every_n_layers", (uint32_t)r->halved);
    if (r->n_head_kv > 0) key_u32(f, "attention.head_count_kv", (uint32_t)r->n_head_kv);
}

static inline void time_mix6_tensors(struct file *f, int layer, const struct rwkv6_form *r)
{
    const size_t n_kv = rwkv6_kv_width(r);
    char name[48];
    layer_tensor(f, layer, "time_mix_w1", EMBD, S_MIXED * S_MIX);
    layer_tensor(f, layer, "time_mix_w2", S_MIX, S_MIXED * EMBD);
    f->tensors[f->n_tensors - 1].n_mats = S_MIXED;
    rwkv_vector(f, layer, "time_mix_lerp_x", 0.5, 0.6);
    for (size_t i = 0; r->shares_apart && i < S_MIXED; i++) {
        char what[24];
        snprintf(what, sizeof what, "time_mix_lerp_%c", s_letters[i]);
        rwkv_vector(f, layer, what, 0.5, 0.6);
    }
    if (!r->shares_apart) {
        snprintf(name, sizeof name, "blk.%d.time_mix_lerp_fused.weight", layer);
        random_tensor(f, name, EMBD, S_MIXED, 0.5, 0.6);
        f->tensors[f->n_tensors - 1].n_mats = S_MIXED;
        f->tensors[f->n_tensors - 1].apart = true;
    }
    layer_tensor(f, layer, "time_mix_decay_w1", EMBD, S_DECAY);
    layer_tensor(f, layer, "time_mix_decay_w2", S_DECAY, EMBD);
    rwkv_vector(f, layer, "time_mix_decay", -2, 2);
    layer_tensor(f, layer, "time_mix_receptance", EMBD, EMBD);
    layer_tensor(f, layer, "time_mix_key", EMBD, n_kv);
    layer_tensor(f, layer, "time_mix_value", EMBD, n_kv);
    layer_tensor(f, layer, "time_mix_gate", EMBD, EMBD);
    layer_tensor(f, layer, "time_mix_output", EMBD, EMBD);
    if (r->biases) {
        bias_tensor(f, layer, "time_mix_receptance", EMBD);
        bias_tensor(f, layer, "time_mix_key", n_kv);
        bias_tensor(f, layer, "time_mix_value", n_kv);
    }
    if (r->transformer) return;
    layer_tensor(f, layer, "time_mix_first", R_HEAD, R_HEADS);
    layer_tensor(f, layer, "time_mix_ln", EMBD, 1);
    bias_tensor(f, layer, "time_mix_ln", EMBD);
}

static inline void rwkv6_tensors(struct file *f, int layer, const struct rwkv6_form *r)
{
    norm_tensors(f, layer, "attn_norm");
    time_mix6_tensors(f, layer, r);
    rwkv_forward_tensors(f, layer, r->transformer, true);
}

/* ---- the second computation ---- */

/* The rows that a token is mixed to, by shares that follow from it and the one before. */
static inline void mix6(const struct file *f, int layer, const struct rwkv6_form *r,
                        double x[][EMBD], size_t p, double out[S_MIXED][EMBD])
{
    double in[EMBD], narrow[S_MIXED * S_MIX], share[EMBD];
    const float *w2 = values_of(f, layer, "time_mix_w2");
    on_the_way(values_of(f, layer, "time_mix_lerp_x"), x, p, in);
    times(values_of(f, layer, "time_mix_w1"), in, EMBD, S_MIXED * S_MIX, narrow);
    for (size_t i = 0; i < S_MIXED * S_MIX; i++)
        narrow[i] = tanh(narrow[i]);
    for (size_t m = 0; m < S_MIXED; m++) {
        char name[24];
        snprintf(name, sizeof name, "time_mix_lerp_%c", s_letters[m]);
        const float *fixed = r->shares_apart
                                 ? values_of(f, layer, name)
                                 : values_of(f, layer, "time_mix_lerp_fused") + m * EMBD;
        times(w2 + m * EMBD * S_MIX, narrow + m * S_MIX, S_MIX, EMBD, share);
        for (size_t i = 0; i < EMBD; i++) {
            const double before = p > 0 ? x[p - 1][i] : 0;
            out[m][i] = x[p][i] + (before - x[p][i]) * (share[i] + (double)fixed[i]);
        }
    }
}

/* A product with its bias, of fewer heads than there are each for some in a row. */
static inline void product6(const struct file *f, int layer, const struct rwkv6_form *r,
                            const char *what, size_t n_out, const double *x, double *y)
{
    double few[EMBD];
    times(values_of(f, layer, what), x, EMBD, n_out, few);
    if (r->biases) add_bias(few, bias_of(f, layer, what), n_out);
    for (size_t i = 0; i < EMBD; i++) {
        const size_t head = i / R_HEAD * (n_out / R_HEAD) / R_HEADS;
        y[i] = few[head * R_HEAD + i % R_HEAD];
    }
}

static inline void bring6(const struct file *f, int layer, const struct rwkv6_form *r,
                          double x[][EMBD], size_t p, struct brought *t)
{
    double in[S_MIXED][EMBD], narrow[S_DECAY];
    const float *decay = values_of(f, layer, "time_mix_decay");
    mix6(f, layer, r, x, p, in);
    product6(f, layer, r, "time_mix_receptance", EMBD, in[S_OF_R], t->r);
    product6(f, layer, r, "time_mix_key", rwkv6_kv_width(r), in[S_OF_K], t->k);
    product6(f, layer, r, "time_mix_value", rwkv6_kv_width(r), in[S_OF_V], t->v);
    times(values_of(f, layer, "time_mix_gate"), in[S_OF_G], EMBD, EMBD, t->gate);
    times(values_of(f, layer, "time_mix_decay_w1"), in[S_OF_W], EMBD, S_DECAY, narrow);
    for (size_t i = 0; i < S_DECAY; i++)
        narrow[i] = tanh(narrow[i]);
    times(values_of(f, layer, "time_mix_decay_w2"), narrow, S_DECAY, EMBD, t->w);
    for (size_t i = 0; i < EMBD; i++) {
        t->w[i] = exp(-exp(t->w[i] + (double)decay[i]));
        if (r->transformer) t->k[i] *= 1 - t->w[i];
        t->gate[i] = sigmoid(t->gate[i]) * (r->transformer ? 1 : t->gate[i]);
    }
}

/* The states of a head take in a token: first, where it is there, has what of the token itself
 * is read beside the states before it. */
static inline void wkv6_head(const struct brought *t, size_t h, const float *first,
                             double s[R_HEAD][R_HEAD], double *y)
{
    for (size_t j = 0; j < R_HEAD; j++) {
        y[h + j] = 0;
        for (size_t i = 0; i < R_HEAD; i++) {
            const double new = t->k[h + i] * t->v[h + j];
            const double old = s[i][j];
            s[i][j] = t->w[h + i] * old + new;
            y[h + j] += t->r[h + i] *
                        (first ? old + (double)first[h + i] * new : s[i][j] / sqrt(R_HEAD));
        }
    }
}

static inline void norm_head6(const struct file *f, int layer, size_t h, double *y)
{
    const float *w = values_of(f, layer, "time_mix_ln"), *b = bias_of(f, layer, "time_mix_ln");
    double mean = 0, square = 0;
    for (size_t i = h; i < h + R_HEAD; i++)
        mean += y[i] / R_HEAD;
    for (size_t i = h; i < h + R_HEAD; i++)
        square += (y[i] - mean) * (y[i] - mean) / R_HEAD;
    for (size_t i = h; i < h + R_HEAD; i++)
        y[i] = (y[i] - mean) / sqrt(square + 64e-5) * (double)w[i] + (double)b[i];
}

static inline void time_mix6(const struct file *f, int layer, const struct rwkv6_form *r,
                             struct rows *rows)
{
    double states[R_HEADS][R_HEAD][R_HEAD] = {{{0}}};
    struct brought *t = mem_zalloc(1, sizeof *t);
    const float *first = r->transformer ? NULL : values_of(f, layer, "time_mix_first");
    for (size_t p = 0; p < N_IDS; p++)
        row_norm(f, layer, "attn_norm", rows->x[p], rows->h[p]);
    for (size_t p = 0; p < N_IDS; p++) {
        double y[EMBD], out[EMBD];
        bring6(f, layer, r, rows->h, p, t);
        for (size_t h = 0; h < R_HEADS; h++) {
            wkv6_head(t, h * R_HEAD, first, states[h], y);
            if (!r->transformer) norm_head6(f, layer, h * R_HEAD, y);
        }
        for (size_t i = 0; i < EMBD; i++)
            y[i] *= t->gate[i];
        times(values_of(f, layer, "time_mix_output"), y, EMBD, EMBD, out);
        add_times(rows->x[p], out, 1);
    }
    free(t);
}

static inline void channel_mix6(const struct file *f, int layer, struct rows *rows)
{
    for (size_t p = 0; p < N_IDS; p++)
        row_norm(f, layer, "attn_norm_2", rows->x[p], rows->h[p]);
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD], unit[FF], gate[EMBD], out[EMBD];
        on_the_way(values_of(f, layer, "channel_mix_lerp_k"), rows->h, p, in);
        times(values_of(f, layer, "channel_mix_key"), in, EMBD, FF, unit);
        for (size_t i = 0; i < FF; i++)
            unit[i] = pow(fmax(unit[i], 0), 2);
        times(values_of(f, layer, "channel_mix_value"), unit, FF, EMBD, out);
        on_the_way(values_of(f, layer, "channel_mix_lerp_r"), rows->h, p, in);
        times(values_of(f, layer, "channel_mix_receptance"), in, EMBD, EMBD, gate);
        for (size_t i = 0; i < EMBD; i++)
            rows->x[p][i] += sigmoid(gate[i]) * out[i];
    }
}

#endif
