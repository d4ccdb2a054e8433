/* Hyperparameters: the keys of a GGUF file as checked numbers.
 *
 * hparams_read takes what every family shares; a family's own read function (families.c) adds
 * the rest through the same checked getters. After that every number is in a range in which no
 * product overflows and nothing divides by zero. Pure; owned by whoever builds a program. */
#ifndef MODEL_HPARAMS_H
#define MODEL_HPARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"
#include "model/adapter.h"

struct gguf;

enum { MAX_LAYERS = 1024, MAX_EXPERTS = 4096, MAX_HEADS = 8192, MAX_HEAD_DIM = 8192 };
enum { MAX_CONTEXT = 1 << 27 };
enum { MAX_WIDTH = 1 << 24 }; /* of a row: embedding, feed-forward, all heads together */

struct layer_hparams {
    uint32_t n_head, n_head_kv;
    uint32_t n_ff;     /* of the dense feed-forward */
    uint32_t n_ff_exp; /* of one expert */
    uint32_t head_dim_k, head_dim_v;
    uint32_t window; /* keys a row sees, its own included; 0: all before it */
    bool rope;       /* whether Q and K are rotated */
    bool rope_local; /* by the frequencies of rope_local below */
    bool dense;      /* it has no experts, also where layers before have some */
    bool recurrent;  /* it has states instead of keys and values */
    bool has_xielu;  /* its feed-forward has no gate, but such an activation, as op_xielu */
    struct {
        float square, bend, slope;
    } xielu;
    float experts_limit; /* what units of its routed experts are kept within; 0: none ... */
    float unit_limit;    /* ... and of its other feed-forwards */
    bool cut_gate;       /* of its feed-forward only what is above the row's mean ... */
    float gate_cut; /* ... plus this times the standard deviation, and by how much, counts */
};

/* Limits of units are 0 or at least this, which no SiLU is below the negative of. */
#define LEAST_UNIT_LIMIT 0.28f

/* Where a feed-forward has the rows that its activation is of. */
enum gate_rows {
    GATE_APART, /* a matrix of their own */
    GATE_IN_UP, /* in front of those of ffn_up */
    GATE_IS_UP, /* what ffn_up gives is both */
};

/* What norms of whole rows have. */
enum norm_vectors {
    NORM_SCALED, /* factors */
    NORM_BIASED, /* factors, then biases */
    NORM_BARE,   /* neither */
};

enum rope_scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN };

struct hparams {
    const struct gguf *g;
    const char *arch; /* general.architecture, the prefix of the keys; static */
    struct adapter adapter;
    bool headless; /* of a family whose layers are all recurrent: nothing has heads */
    uint32_t n_layer, n_embd, n_vocab, n_ctx_train, n_ctx;
    uint32_t n_layer_kv;  /* later layers read the cache of earlier ones */
    uint32_t n_layer_own; /* the tensors of so many are those of the next, too; 0: of n_layer */
    bool loop_norm;       /* between such rounds x passes the output norm */
    struct {
        uint32_t n_layer; /* of a stack; 0: layers are in none */
        uint32_t n_low;   /* times that the first stack runs before each time of the second */
    } stack;
    uint32_t n_streams; /* rows in the place of x; 0: x is one */
    /* Of hyper-connections: what sigmoids are multiplied by where something is added to such a
     * row, and what is added to all of these. */
    float stream_gain, stream_eps;
    bool has_indexer; /* where a file may have none */
    /* Up to so many tokens hearth computes what the model does; n 0: however many. */
    struct {
        uint32_t n;
        const char *beyond; /* what "this model" does there; static, as key */
        const char *key;    /* that says so, without the prefix */
    } reach;
    bool places;           /* embeddings have rows of a table of n_ctx_train positions added */
    uint32_t n_embd_layer; /* of what each layer adds for a token; 0: nothing */
    uint32_t n_layer_bank; /* from how many layers on x is put by and begun anew; 0: never */
    enum glu_kind glu;     /* of the feed-forward */
    struct {
        float gate; /* positive: of an activation by tanh and sigmoid; 0: by glu */
        float up;   /* how far tanh lets up go then; 0: as far as it is */
    } situ;
    enum gate_rows gate;
    uint32_t n_expert, n_expert_used;               /* 0: dense */
    uint32_t n_expert_groups, n_expert_groups_used; /* 0: experts are in none */
    uint32_t n_layer_dense; /* the first layers, which have no experts */
    enum route_kind route;
    float route_softcap; /* of what the router chooses by; 0: none */
    bool route_as_is;    /* the weights of the chosen experts are not renormalised */
    bool limit_first;    /* limits of units are of gates, not of their SiLUs */
    bool route_first;   /* one is chosen and reads the row times its weight, then counts by 1 */
    float expert_scale; /* of the routed weights; 1: none */
    float norm_eps;
    float post_norm_eps; /* of norms of what a block gives; default norm_eps */
    bool centred;        /* norms of whole rows are LayerNorms: the mean is taken off first */
    enum norm_vectors norm_vectors;
    bool inner_norms; /* what heads give and what the feed-forward's second matrix reads, too,
                         is behind norms */
    bool parallel; /* of a family that has both: attention and feed-forward read the same x */
    float embed_scale, residual_scale; /* of embeddings; of what a layer adds to x; 1: none */
    float logit_scale, logit_softcap;  /* 1 and 0: none */
    const char *embed_table;           /* tensor; static */
    const char *output_norm;           /* likewise */
    const char *ffn_norm;              /* before the feed-forward, in each layer; static */
    float attn_scale;                  /* of the scores; default 1/sqrt(head size) */
    float attn_softcap;                /* of the scores; 0: none */
    float max_bias;       /* ALiBi: slopes of heads go down to 2^-this; 0: there are none */
    float attn_out_scale; /* of what attention adds to x; 1: none */
    float qkv_limit;      /* what Q, K and V are kept within, before all else; 0: none */
    /* Q is multiplied by 1 + this · ln(1 + floor(pos / period)); 0: no */
    double temp_log_scale;
    uint32_t temp_period; /* default n_ctx_orig */
    uint32_t temp_ahead;  /* added to pos */
    bool temp_unrotated;  /* only in layers that do not rotate */
    bool window_chunks;   /* windows are chunks: a row sees what is of its own */

    uint32_t n_rot;
    uint32_t n_factors; /* of frequencies that the file has, if more than pairs; 0: as many */
    double rope_base;
    bool rope_halves;          /* where families have both: pairs are i and i + n_rot/2 */
    bool has_rope_sections;    /* pairs take turns over them */
    uint32_t rope_sections[4]; /* pairs of each: time, height, width, something else */
    enum rope_scaling scaling;
    double scaling_factor;  /* at least a positive number; 1: none */
    double attn_factor;     /* multiplies cos and sin */
    bool attn_factor_whole; /* YaRN's own is in it */
    uint32_t n_ctx_orig;    /* context before scaling; default n_ctx_train */
    double yarn_beta_fast, yarn_beta_slow, yarn_ext_factor, yarn_log_multiplier;

    struct {
        uint32_t n_rot;
        double base; /* without scaling and factors */
    } rope_local;
    /* Keys and values of all heads from one narrow row; the sizes of both are positive where a
     * family has it. */
    struct {
        uint32_t n_q;  /* of the row that queries are made from; 0: the input */
        uint32_t n_kv; /* of that row */
        uint32_t head_dim_k, head_dim_v; /* of a head, as its matrices make them */
        bool by_heads; /* keys and values of all heads are in the cache, not that row */
        bool key_norm; /* the part of keys that rotates is behind a norm, attn_k_norm */
    } latent;
    /* The same of layers with windows, where these have sizes of their own. */
    struct {
        uint32_t n_kv; /* 0: they have not */
        uint32_t head_dim_k, head_dim_v;
    } latent_local;
    /* Recurrent layers; all positive where a family has them. */
    struct {
        uint32_t n_taps;          /* of the convolution, the row's own included */
        uint32_t n_dim;           /* state: values of one q and k */
        uint32_t n_group, n_head; /* of q and k, of v */
        uint32_t n_inner;         /* values of all heads */
        float decay_bound;        /* as in struct op_decay; 0: none */
        uint32_t n_step;          /* of the row that steps are made from, if they are of one */
        bool normed, norm_bare;   /* that row, B and C are; without factors; likewise */
    } ssm;
    /* RWKV, whose heads are in ssm: of the narrow rows that it makes from its own what decays,
     * rates of learning, shares of the first layer's values and gates come by; in RWKV-6 decays
     * and the five mixes with the row before. */
    struct {
        uint32_t n_decay, n_rate, n_value;
        uint32_t n_gate; /* 0: files may have no gates */
        uint32_t n_mix;
        uint32_t n_halved; /* behind so many layers in turn x is halved; 0: never */
    } wkv;
    uint32_t n_ff_narrow; /* values that routed experts read and write; 0: n_embd */
    /* Smaller experts, to which the same route leads: one for so many of the others in a row.
     */
    struct {
        uint32_t n_share; /* 0: there are none */
        uint32_t n_ff;
        float scale; /* of what they add */
    } adjugate;
    uint32_t n_ff_shared; /* of the expert that all rows use; 0: there is none */
    bool shared_gated;    /* it counts by the sigmoid of a product */
    bool shared_in_up;    /* its gate is in front of the rows of up, whatever others have */

    struct layer_hparams *layers; /* [n_layer], owned */
};

/* Reads what all families share, into an hp of zeros but for g, which is borrowed, arch and
 * headless; n_ctx as in model_params. On failure nothing is owned. n_vocab is left to whoever
 * finds the embedding. */
bool hparams_read(struct hparams *hp, uint32_t n_ctx, struct err *err);
void hparams_free(struct hparams *hp);

/* The value of "<arch>.<key>" within lo..hi. An absent key leaves *value as it is, or is an
 * error if required. Wrong type or range: an error naming key, range and value. */
bool hparams_u32(const struct hparams *hp, const char *key, uint32_t lo, uint32_t hi,
                 bool required, uint32_t *value, struct err *err);
bool hparams_f64(const struct hparams *hp, const char *key, double lo, double hi, bool required,
                 double *value, struct err *err);
/* The same, not required, where some files name the key otherwise: those of other converters,
 * or of families with another norm. Its own name wins. */
bool hparams_f64_alias(const struct hparams *hp, const char *key, const char *alias, double lo,
                       double hi, double *value, struct err *err);
/* How many of a head's dims are rotated: an even number, without the key all. */
bool hparams_n_rot(const struct hparams *hp, const char *key, uint32_t head_dim,
                   uint32_t *n_rot, struct err *err);
/* A base of rotations. */
bool hparams_rope_base(const struct hparams *hp, const char *key, double *base,
                       struct err *err);
/* Whether "attention.sliding_window" is there and not 0. */
bool hparams_has_windows(const struct hparams *hp, bool *has, struct err *err);
/* Sets the windows of all layers from "attention.sliding_window" and its "_pattern": an array
 * of n_layer bools, or a number n, default `period`: every n-th layer has none. period 0: the
 * array is required. */
bool hparams_windows(struct hparams *hp, uint32_t period, struct err *err);
/* The same where of every n layers the first has none. */
bool hparams_windows_behind(struct hparams *hp, uint32_t period, struct err *err);
/* No window is longer than the context, as no row sees more: what follows from a window is
 * planned for rows that can be. To be called behind the family's read function. */
void hparams_limit_windows(struct hparams *hp);
/* Windowed layers rotate n_rot dims without scaling, by "rope.freq_base_swa", default base. */
bool hparams_local_rope(struct hparams *hp, uint32_t n_rot, double base, struct err *err);
/* The same where they may rotate more or fewer dims than others: "rope.dimension_count_swa",
 * default n_rot. */
bool hparams_local_dims(struct hparams *hp, uint32_t n_rot, double base, struct err *err);
/* That positions are learned: rows of a table are added to embeddings, nothing rotates, and the
 * context must not be longer than the table. */
bool hparams_places(struct hparams *hp, struct err *err);
/* That rotations are not scaled, of a family in which nothing says how. */
bool hparams_unscaled(const struct hparams *hp, struct err *err);
/* "rope.dimension_sections" into hp->rope_sections, if the file has them. */
bool hparams_rope_sections(struct hparams *hp, bool *has, struct err *err);
/* Leaves out the last "nextn_predict_layers" blocks, which block_count counts: they predict
 * tokens further on, and plain decoding has no use for them. To be called after all else that
 * is of layers. */
bool hparams_drop_next(struct hparams *hp, struct err *err);
/* "expert_count" of a family without dense models. */
bool hparams_need_experts(struct hparams *hp, struct err *err);
/* How experts are chosen: "expert_gating_func" (1 by softmax, 2 by sigmoids) and
 * "expert_weights_norm", without them as in hp; the first "leading_dense_block_count" layers
 * are dense. */
bool hparams_route(struct hparams *hp, struct err *err);
/* The first layers without a router are dense, in files that do not say how many are. */
void hparams_dense_layers(struct hparams *hp);
/* Whether the norms have an epsilon, and what the file says of routers, weights and groups of
 * experts, and the base in layers with windows is what hp has: not every family reads it, and
 * what is not read must not be said otherwise. To be called behind the family's read function.
 */
bool hparams_agree(const struct hparams *hp, struct err *err);
/* The width of the expert that all rows use: "expert_shared_feed_forward_length", width without
 * it; or of "expert_shared_count" experts together. */
bool hparams_shared_expert(struct hparams *hp, uint32_t width, struct err *err);
bool hparams_shared_count(struct hparams *hp, struct err *err);
/* "final_logit_softcapping", by default what hp has. */
bool hparams_softcap(struct hparams *hp, struct err *err);
/* As hparams_f64, not required, for a key that is one float or an array of n_layer; layer's
 * entry. */
bool hparams_layer_f64(const struct hparams *hp, const char *key, uint32_t layer, double lo,
                       double hi, double *value, struct err *err);
/* A bool; an array of n_layer bools, layer's entry. An absent key leaves *value as it is. */
bool hparams_bool(const struct hparams *hp, const char *key, bool *value, struct err *err);
bool hparams_layer_bool(const struct hparams *hp, const char *key, uint32_t layer, bool *value,
                        struct err *err);
/* What units of the layer are kept within, by that key; *limit stays without it. Below 1e-6 is
 * none, between that and least is refused. */
bool hparams_unit_limit(const struct hparams *hp, const char *key, uint32_t layer, float least,
                        float *limit, struct err *err);
/* Those of each layer: "swiglu_clamp_exp" and "swiglu_clamp_shexp". */
bool hparams_unit_limits(struct hparams *hp, struct err *err);
/* Of a family with an indexer, by which a row sees those keys before it that score highest
 * there, or those blocks of keys ("attention.indexer.top_k", "attention.indexer.block_size"):
 * the reach ends with these, up to which it has nothing to choose. */
bool hparams_indexer(struct hparams *hp, struct err *err);
/* Of a family that does not rotate: "attention.max_alibi_bias", by default most. */
bool hparams_slopes(struct hparams *hp, double most, struct err *err);
/* "ssm.*", all required. */
bool hparams_ssm(struct hparams *hp, struct err *err);
/* Those of Mamba-1, which has no heads and groups: its rank is n_step. */
bool hparams_ssm1(struct hparams *hp, struct err *err);
/* Those of heads that share B and C, which files call no groups; they do not say n_step. */
bool hparams_ssm_heads(struct hparams *hp, struct err *err);

#endif
