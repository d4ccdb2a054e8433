/* GGUF files of random weights, made in memory: a test says how the layers of a family are put
 * together (struct form) and adds the keys that only its files have. One form gives the same
 * weights every time. What goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_RANDOM_FILE_H
#define TESTS_RANDOM_FILE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../gguf_builder.h"
#include "base/mem.h"

enum { VOCAB = 48, EMBD = 64, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 16, FF = 40, LAYERS = 7 };
enum { WINDOW = 8, MAX_TENSORS = 384 };
enum { EXPERTS = 6, USED = 2 };

/* How the layers of a family are put together. */
struct form {
    const char *arch;
    bool norm_before, norm_after;        /* of attention and feed-forward */
    double after_eps;                    /* of norm_after; 0: that of the file */
    const char *attn_after, *feed_after; /* where these have other names */
    bool norm_heads;                     /* Q and K: each head, else all together, if at all */
    bool norm_all;
    bool norm_heads_bare; /* Q and K: each head that rotates, after it, without factors */
    bool norm_last;       /* Q and K: after the rotation */
    bool head_gains;      /* Q: then each head by a factor */
    bool norm_named;      /* ffn_norm is called post_attention_norm */
    bool biases;          /* of Q, K and V */
    bool more_biases;     /* of attention's output, of up and down of the dense feed-forward */
    bool layer_norm;      /* norms of rows take the mean off first */
    bool norm_biases;     /* and have biases */
    bool norm_bare;       /* norms of rows have neither factors nor biases */
    bool parallel;        /* attention and feed-forward read the same row */
    const char *attn_norm, *feed_norm; /* where these norms have other names; a parallel
                                        * feed-forward has none of its own without */
    bool norm_each;  /* Q and K: LayerNorms of each head, with factors of its own */
    bool rms_each;   /* Q and K: norms of each head, likewise */
    bool head_bias;  /* of the logits */
    size_t n_places; /* rows of position_embd, which is the context then; 0: none, and 4096 */
    size_t n_kv;     /* heads of keys and values; 0: KV_HEADS */
    bool gate_heads; /* what heads give is multiplied by the sigmoid of attn_gate's product */
    bool gate_each;  /* which has one value for each head */
    bool softplus;   /* by the softplus */
    bool sinks;      /* of each head: a score beside those of the keys */
    bool relu;       /* a gate is what it has above 0 */
    bool squares;    /* feed-forwards without a gate: squares of what is above 0 */
    bool alone;      /* feed-forwards without a gate: the activation of what is there */
    bool gate_in_up; /* ffn_up has the rows of the gate first */
    bool ff_doubled; /* the file's key of FF says twice as much */
    bool norm_inner; /* of what heads give and of what the last matrix reads */
    bool gelu, scaled_embedding;
    bool norm_embedding;  /* the embedding is behind a norm without factors */
    bool embedding_norm;  /* behind token_embd_norm, which is as those of rows */
    double max_bias;      /* scores fall with the distance, the least by 2^-this a position */
    bool clamped;         /* of an activation: both within 7, and up counts by one more */
    double situ, situ_up; /* of an activation: how far tanh lets gate and up go; 0: none */
    bool norm_values, plain_scores; /* V: each head, without factors; no root divides scores */
    struct {
        bool any;
        bool sigmoid;      /* else softmax */
        bool select;       /* a bias that only chooses */
        bool first;        /* one is chosen, which reads the row times its weight */
        int step;          /* only every step-th layer has some; 0: all */
        bool as_is;        /* weights of the chosen ones do not add up to 1 */
        bool select_bare;  /* the name of that bias ends at what it is of */
        bool early;        /* the router reads what the layer is given, before attention */
        bool half;         /* with a shared one, both count half */
        bool shared_in_up; /* the gate of the shared one is in front of the rows of up */
        bool shared_gated; /* what the shared one gives is multiplied by a sigmoid */
        int n_dense;       /* layers in front without */
        size_t n_ff;       /* of each, with its key; 0: FF, without */
        size_t n_shared;   /* width of the one that all rows use, without a key; 0: none */
        bool beside;       /* a dense feed-forward, and both count by one over the root of 2 */
        bool halves;       /* only those of the better half are chosen from, with its keys */
        size_t n_latent;   /* what experts read and write, without a key; 0: EMBD */
        bool routed;       /* what makes that row is called so, and a norm is behind them */
    } experts;
    struct {
        size_t n_head;  /* 0: HEADS */
        size_t n_q;     /* of the row that queries are made from, with its key; 0: the input */
        bool by_heads;  /* keys and values of all heads are in the cache, not what makes them */
        size_t n_gates; /* of attn_gate: one for each head or each of its values; 0: none */
    } latent;           /* of families with compressed keys and values */
    /* What units of each layer are kept within, with their key, and those of routed experts;
     * NULL: nothing. */
    const float *unit_limits, *expert_limits;
    bool limit_first;  /* these are of gates, not of what becomes of them */
    bool heads_apart;  /* the test adds the key of how many heads there are */
    uint32_t n_blocks; /* what the file counts, more than it has; 0: LAYERS */
    /* Layers that are one thing each: M Mamba-2, A attention, F feed-forward; N: attention and
     * feed-forward, for the next token. NULL: all have attention, then a feed-forward. */
    const char *kinds;
};

/* Numbers that a file multiplies by; 0: it does not. */
struct scales {
    double embedding, residual, experts;
    double scores;    /* instead of the root */
    double attention; /* of what attention adds */
    double score_cap; /* tanh keeps scores below */
    double logits;    /* divides them */
    double qkv_limit; /* what Q, K and V are kept within */
    double route_cap; /* tanh keeps scores of experts below */
};

struct values {
    char name[48];
    size_t n_in, n_out, n_mats; /* n_out: rows of all matrices together */
    bool apart;                 /* a dim of 1 stands in front of that of the matrices */
    float *v;                   /* [n_out][n_in] */
};

struct file {
    const struct form *form;
    struct scales scales; /* to be set beside their keys */
    struct buf keys;
    size_t n_keys, n_tensors;
    struct values tensors[MAX_TENSORS];
    uint32_t seed;
};

static inline void key(struct file *f, const char *name, enum gguf_type type)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", f->form->arch, name);
    gb_kv(&f->keys, full, type);
    f->n_keys++;
}

static inline void key_u32(struct file *f, const char *name, uint32_t v)
{
    key(f, name, GGUF_U32);
    gb_u32(&f->keys, v);
}

static inline void key_f32(struct file *f, const char *name, float v)
{
    key(f, name, GGUF_F32);
    buf_append(&f->keys, &v, sizeof v);
}

static inline void key_f64(struct file *f, const char *name, double v)
{
    key(f, name, GGUF_F64);
    buf_append(&f->keys, &v, sizeof v);
}

static inline void key_str(struct file *f, const char *name, const char *v)
{
    key(f, name, GGUF_STRING);
    gb_str(&f->keys, v);
}

static inline void key_bool(struct file *f, const char *name, bool v)
{
    key(f, name, GGUF_BOOL);
    buf_putc(&f->keys, v);
}

static inline void pattern_key(struct file *f, int period)
{
    char full[96];
    snprintf(full, sizeof full, "%s.attention.sliding_window_pattern", f->form->arch);
    gb_kv_array(&f->keys, full, GGUF_BOOL, LAYERS);
    f->n_keys++;
    for (int i = 0; i < LAYERS; i++)
        buf_putc(&f->keys, (i + 1) % period != 0);
}

/* The items come behind it. */
static inline void begin_array(struct file *f, const char *name, enum gguf_type type, size_t n)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", f->form->arch, name);
    gb_kv_array(&f->keys, full, type, n);
    f->n_keys++;
}

static inline void bools_key(struct file *f, const char *name, const bool *values, size_t n)
{
    begin_array(f, name, GGUF_BOOL, n);
    for (size_t i = 0; i < n; i++)
        buf_putc(&f->keys, values[i]);
}

static inline void array_key(struct file *f, const char *name, const int32_t *values, size_t n)
{
    begin_array(f, name, GGUF_I32, n);
    buf_append(&f->keys, values, n * sizeof *values);
}

static inline void floats_key(struct file *f, const char *name, const float *values, size_t n)
{
    begin_array(f, name, GGUF_F32, n);
    buf_append(&f->keys, values, n * sizeof *values);
}

static inline void sections_key(struct file *f, const int32_t *sections, size_t n)
{
    array_key(f, "rope.dimension_sections", sections, n);
}

static inline double around_zero(struct file *f)
{
    f->seed = f->seed * 1664525u + 1013904223u;
    return (double)f->seed / 0x1p31 - 1.0;
}

static inline void random_tensor(struct file *f, const char *name, size_t n_in, size_t n_out,
                                 double centre, double spread)
{
    assert_true(f->n_tensors < MAX_TENSORS);
    struct values *t = &f->tensors[f->n_tensors++];
    snprintf(t->name, sizeof t->name, "%s", name);
    t->n_in = n_in;
    t->n_out = n_out;
    t->n_mats = 1;
    t->v = mem_zalloc(n_in * n_out, sizeof *t->v);
    for (size_t i = 0; i < n_in * n_out; i++)
        t->v[i] = (float)(centre + spread * around_zero(f));
}

/* A matrix that keeps the size of what it multiplies, or with n_out 1 the factors of a norm. */
static inline void tensor(struct file *f, const char *name, size_t n_in, size_t n_out)
{
    if (n_out == 1)
        random_tensor(f, name, n_in, 1, 1, 0.3);
    else
        random_tensor(f, name, n_in, n_out, 0, 2 / sqrt((double)n_in));
}

static inline void layer_tensor(struct file *f, int layer, const char *what, size_t n_in,
                                size_t n_out)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    tensor(f, name, n_in, n_out);
}

static inline void bias_tensor(struct file *f, int layer, const char *what, size_t n)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.bias", layer, what);
    random_tensor(f, name, n, 1, 0, 0.5);
}

static inline void experts_tensor(struct file *f, int layer, const char *what, size_t n_in,
                                  size_t n_out)
{
    layer_tensor(f, layer, what, n_in, EXPERTS * n_out);
    f->tensors[f->n_tensors - 1].n_mats = EXPERTS;
}

static inline bool has_experts(const struct form *form, int layer)
{
    const int step = form->experts.step > 0 ? form->experts.step : 1;
    return form->experts.any && layer >= form->experts.n_dense && (layer + 1) % step == 0;
}

static inline size_t head_count(const struct form *form)
{
    return form->latent.n_head > 0 ? form->latent.n_head : HEADS;
}

static inline size_t kv_count(const struct form *form)
{
    return form->n_kv > 0 ? form->n_kv : KV_HEADS;
}

static inline size_t expert_width(const struct form *form)
{
    return form->experts.n_ff > 0 ? form->experts.n_ff : FF;
}

static inline size_t expert_input(const struct form *form)
{
    return form->experts.n_latent > 0 ? form->experts.n_latent : EMBD;
}

static inline bool has_gate(const struct form *form)
{
    return !form->squares && !form->alone;
}

static inline const char *select_name(const struct form *form, int layer, char name[48])
{
    snprintf(name, 48, "blk.%d.exp_probs_b%s", layer, form->experts.select_bare ? "" : ".bias");
    return name;
}

static inline void select_tensor(struct file *f, int layer)
{
    char name[48];
    random_tensor(f, select_name(f->form, layer, name), EXPERTS, 1, 0, 0.5);
}

static inline void expert_tensors(struct file *f, int layer)
{
    const size_t n_ff = expert_width(f->form), n_shared = f->form->experts.n_shared;
    const size_t n_in = expert_input(f->form);
    const bool gate = has_gate(f->form);
    layer_tensor(f, layer, "ffn_gate_inp", EMBD, EXPERTS);
    if (f->form->experts.select) select_tensor(f, layer);
    if (gate) experts_tensor(f, layer, "ffn_gate_exps", n_in, n_ff);
    experts_tensor(f, layer, "ffn_up_exps", n_in, n_ff);
    experts_tensor(f, layer, "ffn_down_exps", n_ff, n_in);
    if (f->form->experts.n_latent > 0) {
        const bool routed = f->form->experts.routed;
        layer_tensor(f, layer, routed ? "ffn_routed_down" : "ffn_latent_down", EMBD, n_in);
        layer_tensor(f, layer, routed ? "ffn_routed_up" : "ffn_latent_up", n_in, EMBD);
        if (routed) layer_tensor(f, layer, "ffn_routed_norm", n_in, 1);
    }
    if (n_shared == 0) return;
    const bool in_up = f->form->experts.shared_in_up;
    if (gate && !in_up) layer_tensor(f, layer, "ffn_gate_shexp", EMBD, n_shared);
    layer_tensor(f, layer, "ffn_up_shexp", EMBD, in_up ? 2 * n_shared : n_shared);
    layer_tensor(f, layer, "ffn_down_shexp", n_shared, EMBD);
    if (!f->form->experts.shared_gated) return;
    char name[48];
    snprintf(name, sizeof name, "blk.%d.ffn_gate_inp_shexp.weight", layer);
    random_tensor(f, name, EMBD, 1, 0, 2 / sqrt(EMBD));
}

static inline void dense_tensors(struct file *f, int layer)
{
    const bool gate_in_up = f->form->gate_in_up, apart = !gate_in_up && has_gate(f->form);
    if (apart) layer_tensor(f, layer, "ffn_gate", EMBD, FF);
    layer_tensor(f, layer, "ffn_up", EMBD, gate_in_up ? 2 * FF : FF);
    layer_tensor(f, layer, "ffn_down", FF, EMBD);
    if (f->form->norm_inner) layer_tensor(f, layer, "ffn_sub_norm", FF, 1);
    if (!f->form->more_biases) return;
    bias_tensor(f, layer, "ffn_up", FF);
    bias_tensor(f, layer, "ffn_down", EMBD);
}

static inline const char *ffn_norm_name(const struct form *form)
{
    if (form->feed_norm) return form->feed_norm;
    return form->norm_named ? "post_attention_norm" : "ffn_norm";
}

static inline const char *attn_norm_name(const struct form *form)
{
    return form->attn_norm ? form->attn_norm : "attn_norm";
}

static inline const char *attn_after_name(const struct form *form)
{
    return form->attn_after ? form->attn_after : "post_attention_norm";
}

static inline const char *ffn_after_name(const struct form *form)
{
    return form->feed_after ? form->feed_after : "post_ffw_norm";
}

static inline bool has_ffn_norm(const struct form *form)
{
    return !form->parallel || form->feed_norm;
}

/* The norm of a row before attention or the feed-forward. */
static inline void norm_tensors(struct file *f, int layer, const char *what)
{
    if (!f->form->norm_bare) layer_tensor(f, layer, what, EMBD, 1);
    if (f->form->norm_biases) bias_tensor(f, layer, what, EMBD);
}

static inline void head_norm_tensor(struct file *f, int layer, const char *what, size_t n_heads)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    random_tensor(f, name, HEAD_DIM, n_heads, 1, 0.3);
}

/* Gates of what heads give. */
static inline size_t gate_count(const struct form *form)
{
    return form->gate_each ? HEADS : HEADS * HEAD_DIM;
}

static inline void attention_tensors(struct file *f, int layer)
{
    const struct form *form = f->form;
    const size_t n_q = HEADS * HEAD_DIM, n_kv = kv_count(form) * HEAD_DIM;
    layer_tensor(f, layer, "attn_q", EMBD, n_q);
    layer_tensor(f, layer, "attn_k", EMBD, n_kv);
    layer_tensor(f, layer, "attn_v", EMBD, n_kv);
    if (form->biases) {
        bias_tensor(f, layer, "attn_q", n_q);
        bias_tensor(f, layer, "attn_k", n_kv);
        bias_tensor(f, layer, "attn_v", n_kv);
    }
    layer_tensor(f, layer, "attn_output", n_q, EMBD);
    if (form->norm_inner) layer_tensor(f, layer, "attn_sub_norm", n_q, 1);
    if (form->more_biases) bias_tensor(f, layer, "attn_output", EMBD);
    if (form->sinks) layer_tensor(f, layer, "attn_sinks", HEADS, 1);
    if (form->gate_heads) layer_tensor(f, layer, "attn_gate", EMBD, gate_count(form));
    if (form->norm_each || form->rms_each) {
        head_norm_tensor(f, layer, "attn_q_norm", HEADS);
        head_norm_tensor(f, layer, "attn_k_norm", kv_count(form));
    }
    if (form->head_gains) layer_tensor(f, layer, "attn_q_norm", 1, HEADS);
    if (!form->norm_heads && !form->norm_all) return;
    layer_tensor(f, layer, "attn_q_norm", form->norm_all ? n_q : HEAD_DIM, 1);
    layer_tensor(f, layer, "attn_k_norm", form->norm_all ? n_kv : HEAD_DIM, 1);
}

static inline void feed_forward_tensors(struct file *f, int layer)
{
    const bool has = has_experts(f->form, layer);
    if (has) expert_tensors(f, layer);
    if (!has || f->form->experts.beside) dense_tensors(f, layer);
}

static inline uint32_t n_blocks(const struct form *form)
{
    return form->n_blocks > 0 ? form->n_blocks : LAYERS;
}

/* The tensors and the keys that all files have, whatever their layers are. */
static inline void file_begin(struct file *f, const struct form *form)
{
    *f = (struct file){.form = form, .seed = 7};
    gb_kv_str(&f->keys, "general.architecture", form->arch);
    f->n_keys++;
    key_u32(f, "block_count", n_blocks(form));
    key_u32(f, "context_length", form->n_places > 0 ? (uint32_t)form->n_places : 4096);
    key_u32(f, "embedding_length", EMBD);
    if (!form->heads_apart) key_u32(f, "attention.head_count", (uint32_t)head_count(form));
    if (form->experts.any) key_u32(f, "expert_count", EXPERTS);
    if (form->experts.halves) {
        key_u32(f, "expert_group_count", 2);
        key_u32(f, "expert_group_used_count", 1);
    }
    if (form->experts.n_ff > 0)
        key_u32(f, "expert_feed_forward_length", (uint32_t)form->experts.n_ff);
    if (form->unit_limits)
        floats_key(f, "swiglu_clamp_shexp", form->unit_limits, n_blocks(form));
    if (form->expert_limits)
        floats_key(f, "swiglu_clamp_exp", form->expert_limits, n_blocks(form));
    tensor(f, "token_embd.weight", EMBD, VOCAB);
    if (form->n_places > 0) tensor(f, "position_embd.weight", EMBD, form->n_places);
    if (!form->norm_bare) tensor(f, "output_norm.weight", EMBD, 1);
    tensor(f, "output.weight", EMBD, VOCAB);
    if (form->norm_biases) random_tensor(f, "output_norm.bias", EMBD, 1, 0, 0.5);
    if (form->embedding_norm) {
        tensor(f, "token_embd_norm.weight", EMBD, 1);
        random_tensor(f, "token_embd_norm.bias", EMBD, 1, 0, 0.5);
    }
    if (form->head_bias) random_tensor(f, "output.bias", VOCAB, 1, 0, 0.5);
}

/* A file whose layers have attention, then a feed-forward. */
static inline void file_init(struct file *f, const struct form *form)
{
    file_begin(f, form);
    key_u32(f, "feed_forward_length", form->ff_doubled ? 2 * FF : FF);
    key_u32(f, "attention.head_count_kv", (uint32_t)kv_count(form));
    key_f32(f,
            form->layer_norm ? "attention.layer_norm_epsilon"
                             : "attention.layer_norm_rms_epsilon",
            1e-6f);
    if (form->experts.any) key_u32(f, "expert_used_count", form->experts.first ? 1 : USED);
    for (int i = 0; i < LAYERS; i++) {
        if (form->norm_before) norm_tensors(f, i, attn_norm_name(form));
        attention_tensors(f, i);
        if (form->norm_after) layer_tensor(f, i, attn_after_name(form), EMBD, 1);
        if (form->norm_before && has_ffn_norm(form)) norm_tensors(f, i, ffn_norm_name(form));
        feed_forward_tensors(f, i);
        if (form->norm_after) layer_tensor(f, i, ffn_after_name(form), EMBD, 1);
    }
}

static inline void file_free(struct file *f)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        free(f->tensors[i].v);
    buf_free(&f->keys);
}

static inline void write_file(const struct file *f, struct buf *b)
{
    gb_header(b, 3, f->n_tensors, f->n_keys);
    buf_append(b, f->keys.data, f->keys.len);
    size_t at = 0;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct values *t = &f->tensors[i];
        gb_str(b, t->name);
        gb_u32(b, t->n_mats > 1 ? 3 + t->apart : t->n_out == 1 ? 1 : 2);
        gb_u64(b, t->n_in);
        if (t->n_out > 1) gb_u64(b, t->n_out / t->n_mats);
        if (t->apart) gb_u64(b, 1);
        if (t->n_mats > 1) gb_u64(b, t->n_mats);
        gb_u32(b, QTYPE_F32);
        gb_u64(b, at);
        at += (t->n_in * t->n_out * sizeof *t->v + 31) / 32 * 32;
    }
    for (size_t i = 0; i < f->n_tensors; i++) {
        gb_pad(b, 32);
        buf_append(b, f->tensors[i].v,
                   f->tensors[i].n_in * f->tensors[i].n_out * sizeof(float));
    }
    gb_pad(b, 32);
}

static inline struct values *tensor_named(struct file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline struct values *tensor_of(struct file *f, int layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    return tensor_named(f, name);
}

/* What there is of Q, K and V of a layer becomes one tensor: their rows after each other. */
static inline void fuse_tensors(struct file *f, int layer, const char *what)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v"};
    const bool matrices = strcmp(what, "weight") == 0;
    struct values all = {.n_mats = 1};
    size_t n = 0;
    snprintf(all.name, sizeof all.name, "blk.%d.attn_qkv.%s", layer, what);
    for (size_t i = 0; i < 3; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%d.%s.%s", layer, parts[i], what);
        struct values *part = tensor_named(f, name);
        const size_t n_part = part->n_in * part->n_out;
        all.v = mem_resize(all.v, n + n_part, sizeof *all.v);
        memcpy(all.v + n, part->v, n_part * sizeof *all.v);
        n += n_part;
        free(part->v);
        *part = f->tensors[--f->n_tensors];
    }
    all.n_in = matrices ? EMBD : n;
    all.n_out = n / all.n_in;
    f->tensors[f->n_tensors++] = all;
}

static inline void fuse(struct file *f)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        fuse_tensors(f, layer, "weight");
        if (f->form->biases) fuse_tensors(f, layer, "bias");
    }
}

#endif
