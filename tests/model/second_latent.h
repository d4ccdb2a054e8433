/* Models whose keys and values all come from one narrow row (deepseek2, mistral4): their small
 * random files, in both forms of one set of weights, and their logits by a second computation
 * in double, which makes keys and values of all heads whatever the file has. What goes wrong in
 * here fails the cmocka test that called. */
#ifndef TESTS_SECOND_LATENT_H
#define TESTS_SECOND_LATENT_H

#include "second_model.h"

/* A head's key is a plain part, then one that rotates, the same for all heads. */
enum { L_PLAIN = 12, L_ROT = 8, L_KEY = L_PLAIN + L_ROT, L_VALUE = 10, L_NARROW = 24 };
enum { L_MAX_HEADS = 40, L_WIDTH = 12 /* of an expert */ };

/* ---- files ---- */

/* attn_kv_b has for each head the rows of its keys, then those of its values. The other form
 * has them apart, those of keys the other way round. */
static inline void part_kv(struct file *f, int layer)
{
    const size_t n_head = head_count(f->form);
    layer_tensor(f, layer, "attn_k_b", L_PLAIN, n_head * L_NARROW);
    layer_tensor(f, layer, "attn_v_b", L_NARROW, n_head * L_VALUE);
    struct values *both = tensor_of(f, layer, "attn_kv_b");
    struct values *k = tensor_of(f, layer, "attn_k_b"), *v = tensor_of(f, layer, "attn_v_b");
    k->n_mats = v->n_mats = n_head;
    for (size_t h = 0; h < n_head; h++) {
        const float *rows = both->v + h * (L_PLAIN + L_VALUE) * L_NARROW;
        for (size_t i = 0; i < L_PLAIN; i++)
            for (size_t j = 0; j < L_NARROW; j++)
                k->v[(h * L_NARROW + j) * L_PLAIN + i] = rows[i * L_NARROW + j];
        memcpy(v->v + h * L_VALUE * L_NARROW, rows + (size_t)L_PLAIN * L_NARROW,
               sizeof *v->v * L_VALUE * L_NARROW);
    }
    free(both->v);
    *both = f->tensors[--f->n_tensors];
}

static inline void latent_tensors(struct file *f, int layer)
{
    const struct form *form = f->form;
    const size_t n_head = head_count(form), n_q = form->latent.n_q;
    if (n_q > 0) {
        layer_tensor(f, layer, "attn_q_a", EMBD, n_q);
        layer_tensor(f, layer, "attn_q_a_norm", n_q, 1);
        layer_tensor(f, layer, "attn_q_b", n_q, n_head * L_KEY);
    } else {
        layer_tensor(f, layer, "attn_q", EMBD, n_head * L_KEY);
    }
    layer_tensor(f, layer, "attn_kv_a_mqa", EMBD, L_NARROW + L_ROT);
    layer_tensor(f, layer, "attn_kv_a_norm", L_NARROW, 1);
    layer_tensor(f, layer, "attn_kv_b", L_NARROW, n_head * (L_PLAIN + L_VALUE));
    if (form->latent.n_gates > 0)
        layer_tensor(f, layer, "attn_gate", EMBD, form->latent.n_gates);
    layer_tensor(f, layer, "attn_output", n_head * L_VALUE, EMBD);
    if (form->sinks) layer_tensor(f, layer, "attn_sinks", n_head, 1);
}

/* A file but for the sizes of keys and values. */
static inline void latent_begin(struct file *f, const struct form *form)
{
    file_begin(f, form);
    key_u32(f, "feed_forward_length", FF);
    key_u32(f, "expert_used_count", USED);
    key_f32(f, "attention.layer_norm_rms_epsilon", 1e-6f);
    if (form->experts.n_dense > 0)
        key_u32(f, "leading_dense_block_count", (uint32_t)form->experts.n_dense);
    if (form->latent.n_q > 0) key_u32(f, "attention.q_lora_rank", (uint32_t)form->latent.n_q);
    if (!form->heads_apart)
        key_u32(f, "attention.head_count_kv",
                form->latent.by_heads ? (uint32_t)head_count(form) : 1);
    for (int i = 0; i < LAYERS; i++) {
        layer_tensor(f, i, "attn_norm", EMBD, 1);
        latent_tensors(f, i);
        layer_tensor(f, i, "ffn_norm", EMBD, 1);
        feed_forward_tensors(f, i);
    }
    /* After all others, so that these draw the same numbers in both forms. */
    for (int i = 0; !form->latent.by_heads && i < LAYERS; i++)
        part_kv(f, i);
}

/* Files whose cache has narrow rows speak of these by the keys for sizes, and of what a head
 * has by others. */
static inline void latent_sizes(struct file *f)
{
    const bool by_heads = f->form->latent.by_heads;
    key_u32(f, "attention.kv_lora_rank", L_NARROW);
    key_u32(f, "rope.dimension_count", L_ROT);
    key_u32(f, "attention.key_length", by_heads ? L_KEY : L_NARROW + L_ROT);
    key_u32(f, "attention.value_length", by_heads ? L_VALUE : L_NARROW);
    if (by_heads) return;
    key_u32(f, "attention.key_length_mla", L_KEY);
    key_u32(f, "attention.value_length_mla", L_VALUE);
}

static inline void latent_init(struct file *f, const struct form *form)
{
    latent_begin(f, form);
    latent_sizes(f);
    key_u32(f, "expert_shared_count", (uint32_t)form->experts.n_shared / L_WIDTH);
}

/* ---- the second computation ---- */

/* What attention should do. */
struct latent_sight {
    struct rotation rotation;
    double scores;      /* multiplies them */
    double temperature; /* queries grow by this for each e-fold of their position */
    size_t length;      /* in steps of so many tokens */
};

/* Scores divided by the root of a key's length, times factor. */
static inline struct latent_sight latent_plain(double base, double factor)
{
    struct latent_sight s = {plain_rotation(L_ROT, base), factor / sqrt(L_KEY), 0, 1};
    s.rotation.neighbours = true;
    return s;
}

struct latent_rows {
    double q[N_IDS][L_MAX_HEADS][L_KEY], k[N_IDS][L_MAX_HEADS][L_KEY];
    double v[N_IDS][L_MAX_HEADS][L_VALUE];
};

static inline void latent_queries(const struct file *f, int layer, const struct latent_sight *s,
                                  const double *in, size_t pos, double (*q)[L_KEY])
{
    const size_t n_head = head_count(f->form), n_q = f->form->latent.n_q;
    double narrow[EMBD];
    if (n_q > 0) {
        times(values_of(f, layer, "attn_q_a"), in, EMBD, n_q, narrow);
        norm(values_of(f, layer, "attn_q_a_norm"), narrow, n_q, narrow);
        times(values_of(f, layer, "attn_q_b"), narrow, n_q, n_head * L_KEY, q[0]);
    } else {
        times(values_of(f, layer, "attn_q"), in, EMBD, n_head * L_KEY, q[0]);
    }
    const double grown = 1 + s->temperature * log(floor((double)pos / (double)s->length) + 1);
    for (size_t h = 0; h < n_head; h++) {
        rotate(&s->rotation, pos, q[h] + L_PLAIN);
        for (size_t d = 0; d < L_KEY; d++)
            q[h][d] *= grown;
    }
}

/* The plain part of a head's key, of the narrow row c. */
static inline void plain_key(const struct file *f, int layer, size_t head, const double *c,
                             double *k)
{
    if (f->form->latent.by_heads) {
        const size_t at = head * (L_PLAIN + L_VALUE) * L_NARROW;
        times(values_of(f, layer, "attn_kv_b") + at, c, L_NARROW, L_PLAIN, k);
        return;
    }
    const float *w = values_of(f, layer, "attn_k_b") + head * L_NARROW * L_PLAIN;
    for (size_t to = 0; to < L_PLAIN; to++) {
        k[to] = 0;
        for (size_t from = 0; from < L_NARROW; from++)
            k[to] += (double)w[from * L_PLAIN + to] * c[from];
    }
}

static inline const float *value_rows(const struct file *f, int layer, size_t head)
{
    if (f->form->latent.by_heads)
        return values_of(f, layer, "attn_kv_b") +
               (head * (L_PLAIN + L_VALUE) + L_PLAIN) * L_NARROW;
    return values_of(f, layer, "attn_v_b") + head * L_VALUE * L_NARROW;
}

static inline void latent_keys(const struct file *f, int layer, const struct latent_sight *s,
                               const double *in, size_t pos, struct latent_rows *rows)
{
    double c[L_NARROW + L_ROT];
    times(values_of(f, layer, "attn_kv_a_mqa"), in, EMBD, L_NARROW + L_ROT, c);
    norm(values_of(f, layer, "attn_kv_a_norm"), c, L_NARROW, c);
    rotate(&s->rotation, pos, c + L_NARROW);
    for (size_t h = 0; h < head_count(f->form); h++) {
        double *k = rows->k[pos][h];
        plain_key(f, layer, h, c, k);
        memcpy(k + L_PLAIN, c + L_NARROW, L_ROT * sizeof *k);
        times(value_rows(f, layer, h), c, L_NARROW, L_VALUE, rows->v[pos][h]);
    }
}

/* sinks NULL: there are none. */
static inline void latent_attend(const struct latent_rows *rows, size_t head, size_t pos,
                                 double scale, const float *sinks, double *out)
{
    double weight[N_IDS], sum = sinks ? exp((double)sinks[head]) : 0;
    memset(out, 0, L_VALUE * sizeof *out);
    for (size_t p = 0; p <= pos; p++) {
        double score = 0;
        for (size_t d = 0; d < L_KEY; d++)
            score += rows->q[pos][head][d] * rows->k[p][head][d];
        weight[p] = exp(score * scale);
        sum += weight[p];
    }
    for (size_t p = 0; p <= pos; p++)
        for (size_t d = 0; d < L_VALUE; d++)
            out[d] += weight[p] / sum * rows->v[p][head][d];
}

/* Each gate multiplies as many of what heads give as there are for it. */
static inline void gate_values(const struct file *f, int layer, const double *in, double *heads)
{
    double gates[L_MAX_HEADS * L_VALUE];
    const size_t n_gates = f->form->latent.n_gates, n = head_count(f->form) * L_VALUE;
    if (n_gates == 0) return;
    times(values_of(f, layer, "attn_gate"), in, EMBD, n_gates, gates);
    for (size_t i = 0; i < n; i++)
        heads[i] *= sigmoid(gates[i / (n / n_gates)]);
}

/* What attention makes of rows: out may be them. */
static inline void latent_attention_of(const struct file *f, int layer,
                                       const struct latent_sight *s, double (*x)[EMBD],
                                       struct latent_rows *latent, double (*out)[EMBD])
{
    const size_t n_head = head_count(f->form);
    const float *sinks = f->form->sinks ? values_of(f, layer, "attn_sinks") : NULL;
    double(*in)[EMBD] = mem_zalloc(N_IDS, sizeof *in);
    for (size_t p = 0; p < N_IDS; p++) {
        norm(values_of(f, layer, "attn_norm"), x[p], EMBD, in[p]);
        latent_queries(f, layer, s, in[p], p, latent->q[p]);
        latent_keys(f, layer, s, in[p], p, latent);
    }
    for (size_t p = 0; p < N_IDS; p++) {
        double heads[L_MAX_HEADS * L_VALUE];
        for (size_t h = 0; h < n_head; h++)
            latent_attend(latent, h, p, s->scores, sinks, heads + h * L_VALUE);
        gate_values(f, layer, in[p], heads);
        times(values_of(f, layer, "attn_output"), heads, n_head * L_VALUE, EMBD, out[p]);
    }
    free(in);
}

static inline void latent_attention(const struct file *f, int layer,
                                    const struct latent_sight *s, struct rows *rows,
                                    struct latent_rows *latent)
{
    double(*out)[EMBD] = mem_zalloc(N_IDS, sizeof *out);
    latent_attention_of(f, layer, s, rows->x, latent, out);
    for (size_t p = 0; p < N_IDS; p++)
        add_times(rows->x[p], out[p], or_one(f->scales.residual));
    free(out);
}

/* By the first n_layer layers. */
static inline void check_latent(double most, const char *name, const struct file *f,
                                const struct latent_sight *s, int n_layer)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    struct latent_rows *latent = mem_zalloc(1, sizeof *latent);
    embed(f, rows);
    for (int layer = 0; layer < n_layer; layer++) {
        latent_attention(f, layer, s, rows, latent);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, layer, NULL, rows->x[p]);
    }
    head(f, rows, 0, want);
    check_logits(most, name, f, want);
    free(latent);
    free(rows);
    free(want);
}

#endif
