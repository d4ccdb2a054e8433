/* The blocks that families are made of: attention, feed-forward, rotation.
 *
 * Each reads one row range and writes another, both n_embd wide unless said otherwise, and
 * fetches its own tensors "blk.<layer>.…". What differs between families is an option here or a
 * number in hparams. Errors of the file stick in the builder's weights. One thread, at open;
 * private to this folder. */
#ifndef MODEL_BLOCKS_H
#define MODEL_BLOCKS_H

#include "model/program.h"

enum { TENSOR_NAME_CAP = 96 };

/* "blk.<layer>.<what>" in out. */
const char *layer_tensor(char out[TENSOR_NAME_CAP], uint32_t layer, const char *what);
/* The vector of n values of that name. */
const struct weight *layer_vector(struct builder *b, uint32_t layer, const char *what,
                                  size_t n);
/* The one number of that tensor of the layer. */
float layer_number(struct builder *b, uint32_t layer, const char *what);
/* The norm of a row that the family has, by that tensor of the layer, as build_row_norm. */
void layer_norm(struct builder *b, uint32_t layer, const char *what, struct ref in,
                struct ref out);
/* Matrix and, where the file has one, bias: "blk.<layer>.<stem>.weight" and ".bias". */
struct linear layer_linear(struct builder *b, uint32_t layer, const char *stem, size_t n_cols,
                           struct ref out);

/* What the results of heads are multiplied by. */
enum attention_gates {
    GATES_NONE,
    GATES_IN_Q,  /* the rows of Q give per head Q, then a gate for each value of its result */
    GATES_APART, /* a matrix of its own, attn_gate, gives these */
    GATES_HEADS, /* it gives one for each head, which counts for all of its result */
};

struct attention {
    enum rope_pairs pairs;
    bool qk_norm;       /* RMS norm of each head of Q and K before the rotation */
    bool norm_if;       /* the same in files that have it */
    bool norm_all;      /* that norm is of all heads together */
    bool norm_each;     /* it has factors of its own for each head */
    bool norm_bare;     /* that norm has no factors */
    bool norm_last;     /* that norm follows the rotation */
    bool head_gains;    /* and that of Q has a factor for each head, attn_q_norm */
    bool layer_norm_if; /* LayerNorms of each head of Q and K before the rotation, with factors
                           of its own, in files that have them */
    bool v_norm;    /* RMS norm of each head of V, without factors; where there is no attn_v, V
                       is K before its norm and rotation */
    bool need_bias; /* Q, K and V have biases for sure; others may have some */
    enum attention_gates gates;
    bool softplus; /* gates count by their softplus, not their sigmoid */
    bool sinks;    /* attn_sinks: one per head */
    uint32_t kv;   /* the KV layer that a layer from n_layer_kv on reads */
};

/* Projections (attn_q, attn_k, attn_v, or attn_qkv with their rows after each other), norms,
 * rotation, cache, attention, attn_output. in and out may be the same. In the last layer that
 * stores K and V the rows without logits end here. */
void block_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     const struct attention *a);

/* Attention whose keys and values come from one narrow row (hparams.latent): in the cache lies
 * that row with a rotated part for all heads, and heads of the query are brought to it and the
 * result back by a matrix of each head (attn_k_b, attn_v_b); or in files that have both
 * matrices in one (attn_kv_b), keys and values of all heads. The gates are none, or those of
 * attn_gate; sinks as in struct attention. Layers with windows may have sizes of their own
 * (hparams.latent_local). */
void block_latent_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                            enum attention_gates gates, bool sinks);

/* Layers with recurrent states (hparams.ssm) instead of keys and values; in and out may be the
 * same. In the last layer the rows without logits end here, unless an attention block of the
 * layer is still to come. */
struct recurrent {
    bool tiled;          /* values of head h go with q and k of h % n_group */
    bool attention_next; /* an attention block of the same layer follows */
};
/* Gated delta net: attn_qkv, convolution, states, gated norm, ssm_out. */
void block_delta_net(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     const struct recurrent *r);
/* Kimi delta attention: attn_q, attn_k, attn_v, a convolution of each, states with a decay for
 * each dim of a key, gated norm, attn_output. What decays and gates are made from passes a
 * narrow row (ssm_f_a and ssm_f_b, ssm_g_a and ssm_g_b), or has no second matrix. */
void block_delta_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* Mamba-1: ssm_in, convolution, ssm_x, norms of what that gives where models have them, ssm_dt,
 * states, gate, ssm_out. */
void block_mamba(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* States as Mamba-2's whose steps, B and C are made as Mamba-1's, of what the convolution
 * gives: ssm_in with gate and x of each head in turn, convolution of x, ssm_x with B, C and
 * what steps are made from, norms of these, ssm_dt, states, gate, ssm_out. */
void block_mamba_by_heads(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* Mamba-2: ssm_in, convolution, states, gate, norm where the file has it, ssm_out. */
void block_mamba2(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                  const struct recurrent *r);
/* RWKV-7's time mix: rows mixed with the row before, receptance, key and value, states with an
 * erasure, a norm of each head and gates where the file has them, time_mix_output. */
void block_time_mix(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* RWKV-6's: by how much rows are mixed with the row before follows from both, and a row reads
 * the states as they were before it; or with `own` as they are behind it, for what became of
 * transformers. */
void block_time_mix6(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     bool own);
/* The feed-forward of both, channel_mix, of a row mixed with the row before; gated in RWKV-6.
 */
void block_channel_mix(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                       bool gated);
/* Lightning attention: attn_qkv with Q, K and V of each head in turn, states that decay by what
 * is of head and layer alone, a norm of all heads, attn_norm_2, a gate, attn_output. */
void block_lightning(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* Short convolution between two gates: shortconv.*. */
void block_short_conv(struct builder *b, uint32_t layer, struct ref in, struct ref out);

/* The feed-forward of a layer: dense where the file has no experts and in its first
 * n_layer_dense layers, otherwise experts, and beside them the one that all rows use
 * (ffn_*_shexp, n_ff_shared wide), where there is one. in and out may be the same. */
void block_feedforward(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* Its parts. GLU: ffn_down(act(ffn_gate x) · ffn_up x), act and where the gate's rows are as in
 * hparams. */
void block_dense(struct builder *b, uint32_t layer, struct ref in, struct ref out);
/* The same with experts, chosen by a router, ffn_gate_inp, that reads a row of its own. */
void block_experts_by(struct builder *b, uint32_t layer, struct ref router_in, struct ref in,
                      struct ref out);

/* What most layers begin and end with: h = norm(x), and behind attention or what stands in its
 * place, whose result is h, x += h and x += feed-forward(norm x). */
struct ref block_begin(struct builder *b, uint32_t layer, struct ref x);
void block_end(struct builder *b, uint32_t layer, struct ref x, struct ref h);
/* The latter of the two alone; h is room for it. */
void block_add_feedforward(struct builder *b, uint32_t layer, struct ref x, struct ref h);
/* The layer of most families: both around attention. */
void block_plain_layer(struct builder *b, uint32_t layer, struct ref x,
                       const struct attention *a);
/* A layer whose attention and feed-forward both read x, behind the norms of these names; with
 * ffn_norm NULL behind the same one. */
void block_parallel_layer(struct builder *b, uint32_t layer, struct ref x, const char *norm,
                          const char *ffn_norm, const struct attention *a);

/* Leaves out the tensors of the layer's indexer, if it has one (hparams_indexer). */
void layer_ignore_indexer(struct builder *b, uint32_t layer);

/* The rotation of a layer, from hparams and the file's factor tensors; index into the ropes. */
uint32_t block_rope(struct builder *b, uint32_t layer, enum rope_pairs pairs);

#endif
