/* The blocks with recurrent states: gated delta net, Kimi delta attention, lightning attention,
 * Mamba-1 and 2, short convolution. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/real.h"
#include "model/blocks.h"

/* The convolution's factors, tap after tap. */
static const struct weight *taps(struct builder *b, uint32_t layer, const char *what,
                                 size_t n_taps, size_t n)
{
    char name[TENSOR_NAME_CAP];
    return weights_flat(b->ws, layer_tensor(name, layer, what), n, n_taps, true);
}

/* One number per head; the file has n of them or a matrix of one column. */
static const struct weight *per_head(struct builder *b, uint32_t layer, const char *what,
                                     size_t n)
{
    char name[TENSOR_NAME_CAP];
    layer_tensor(name, layer, what);
    const bool column = weights_dim(b->ws, name, 0) == 1;
    return weights_flat(b->ws, name, column ? n : 1, column ? 1 : n, false);
}

static void end_rows(struct builder *b, uint32_t layer, bool attention_next)
{
    if (layer + 1 == b->hp->n_layer_kv && !attention_next) build_head_rows(b);
}

/* The products of beta and alpha in one row: runs of betas and alphas in turn. Returns the
 * length of a run. */
static uint32_t project_gates(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const uint32_t n_head = b->hp->ssm.n_head;
    char name[TENSOR_NAME_CAP];
    if (weights_has(b->ws, layer_tensor(name, layer, "ssm_ba.weight"))) {
        const struct linear both = layer_linear(b, layer, "ssm_ba", in.n, out);
        build_matmul(b, in, &both, 1);
        return n_head / b->hp->ssm.n_group;
    }
    const struct linear mats[2] = {
        layer_linear(b, layer, "ssm_beta", in.n, ref_part(out, 0, n_head)),
        layer_linear(b, layer, "ssm_alpha", in.n, ref_part(out, n_head, n_head)),
    };
    build_matmul(b, in, mats, 2);
    return n_head;
}

void block_delta_net(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                     const struct recurrent *r)
{
    const struct hparams *hp = b->hp;
    const size_t n_dim = hp->ssm.n_dim, n_inner = hp->ssm.n_inner, n_head = hp->ssm.n_head;
    const size_t n_qk = hp->ssm.n_group * n_dim, n_width = n_inner / n_head;
    struct ref mixed = build_rows(b, "mixed", 2 * n_qk + n_inner);
    struct ref z = build_rows(b, "z", n_inner), ba = build_rows(b, "beta_alpha", 2 * n_head);
    const struct linear mats[2] = {layer_linear(b, layer, "attn_qkv", in.n, mixed),
                                   layer_linear(b, layer, "attn_gate", in.n, z)};
    build_matmul(b, in, mats, 2);
    const uint32_t run = project_gates(b, layer, in, ba);

    struct ref conv = build_rows(b, "conv", mixed.n);
    build_conv(
        b, &(struct op_conv){.in = mixed,
                             .out = conv,
                             .w = taps(b, layer, "ssm_conv1d.weight", hp->ssm.n_taps, mixed.n),
                             .n_taps = hp->ssm.n_taps,
                             .silu = true});
    struct ref q = ref_part(conv, 0, n_qk), k = ref_part(conv, n_qk, n_qk);
    struct ref v = ref_part(conv, 2 * n_qk, n_inner);
    build_l2_norm(b, q, n_dim, (float)(1.0 / sqrt((double)n_dim)));
    build_l2_norm(b, k, n_dim, 1);

    struct ref gates = build_rows(b, "gates", 2 * n_head);
    build_decay(b, &(struct op_decay){.in = ba,
                                      .out = gates,
                                      .bias = layer_vector(b, layer, "ssm_dt.bias", n_head),
                                      .a = per_head(b, layer, "ssm_a", n_head),
                                      .betas = true,
                                      .run = run});
    struct ref heads = build_rows(b, "heads", n_inner);
    build_recur(b, &(struct op_recur){.q = q,
                                      .k = k,
                                      .v = v,
                                      .out = heads,
                                      .gates = gates,
                                      .n_heads = hp->ssm.n_head,
                                      .n_groups = hp->ssm.n_group,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = (uint32_t)n_width,
                                      .delta = true,
                                      .tiled = r->tiled});
    end_rows(b, layer, r->attention_next);
    build_norm(b, heads, layer_vector(b, layer, "ssm_norm.weight", n_width), n_width, heads);
    build_glu(b, z, heads, GLU_SILU, heads);
    const struct linear o = layer_linear(b, layer, "ssm_out", n_inner, out);
    build_matmul(b, heads, &o, 1);
}

/* The products of Q, K and V, by one matrix or by one each. */
static void project_qkv(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    char name[TENSOR_NAME_CAP];
    const size_t n = out.n / 3;
    if (weights_has(b->ws, layer_tensor(name, layer, "attn_qkv.weight"))) {
        const struct linear all = layer_linear(b, layer, "attn_qkv", in.n, out);
        build_matmul(b, in, &all, 1);
        return;
    }
    const struct linear mats[3] = {
        layer_linear(b, layer, "attn_q", in.n, ref_part(out, 0, n)),
        layer_linear(b, layer, "attn_k", in.n, ref_part(out, n, n)),
        layer_linear(b, layer, "attn_v", in.n, ref_part(out, 2 * n, n)),
    };
    build_matmul(b, in, mats, 3);
}

/* in by way of a row as narrow as one head; in files without the second matrix, by the first.
 */
static void project_narrowly(struct builder *b, uint32_t layer, struct ref in,
                             const char *const stems[2], struct ref out)
{
    char name[TENSOR_NAME_CAP], what[TENSOR_NAME_CAP / 2];
    snprintf(what, sizeof what, "%s.weight", stems[1]);
    if (!weights_has(b->ws, layer_tensor(name, layer, what))) {
        const struct linear whole = layer_linear(b, layer, stems[0], in.n, out);
        build_matmul(b, in, &whole, 1);
        return;
    }
    struct ref narrow = build_rows(b, "narrow", b->hp->ssm.n_dim);
    const struct linear down = layer_linear(b, layer, stems[0], in.n, narrow);
    build_matmul(b, in, &down, 1);
    const struct linear up = layer_linear(b, layer, stems[1], narrow.n, out);
    build_matmul(b, narrow, &up, 1);
}

/* Sigmoids of a product for each head, and decays of each dim. */
static struct ref decays_by_dim(struct builder *b, uint32_t layer, struct ref in)
{
    static const char *const stems[2] = {"ssm_f_a", "ssm_f_b"};
    const size_t n_head = b->hp->ssm.n_head, n_inner = b->hp->ssm.n_inner;
    struct ref all = build_rows(b, "beta_alpha", n_head + n_inner);
    struct ref gates = build_rows(b, "gates", n_inner + n_head);
    const struct linear beta =
        layer_linear(b, layer, "ssm_beta", in.n, ref_part(all, 0, n_head));
    build_matmul(b, in, &beta, 1);
    project_narrowly(b, layer, in, stems, ref_part(all, n_head, n_inner));
    build_decay(b, &(struct op_decay){.in = all,
                                      .out = gates,
                                      .bias = layer_vector(b, layer, "ssm_dt.bias", n_inner),
                                      .a = per_head(b, layer, "ssm_a", n_head),
                                      .bound = b->hp->ssm.decay_bound,
                                      .betas = true,
                                      .run = (uint32_t)n_head,
                                      .n_each = b->hp->ssm.n_dim});
    return gates;
}

void block_delta_attention(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    char name[TENSOR_NAME_CAP];
    /* As kimi-k3 calls the one matrix. */
    const bool whole = weights_has(b->ws, layer_tensor(name, layer, "ssm_g.weight"));
    const char *const gate_stems[2] = {whole ? "ssm_g" : "ssm_g_a", "ssm_g_b"};
    static const char *const conv_names[3] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                              "ssm_conv1d_v.weight"};
    const struct hparams *hp = b->hp;
    const size_t n_dim = hp->ssm.n_dim, n = hp->ssm.n_inner;
    struct ref mixed = build_rows(b, "mixed", 3 * n), conv = build_rows(b, "conv", 3 * n);
    struct ref z = build_rows(b, "z", n), qkv[3];
    project_qkv(b, layer, in, mixed);
    project_narrowly(b, layer, in, gate_stems, z);
    for (size_t i = 0; i < 3; i++) {
        qkv[i] = ref_part(conv, i * n, n);
        build_conv(b, &(struct op_conv){.in = ref_part(mixed, i * n, n),
                                        .out = qkv[i],
                                        .w = taps(b, layer, conv_names[i], hp->ssm.n_taps, n),
                                        .n_taps = hp->ssm.n_taps,
                                        .silu = true});
    }
    build_l2_norm(b, qkv[0], n_dim, (float)(1.0 / sqrt((double)n_dim)));
    build_l2_norm(b, qkv[1], n_dim, 1);
    struct ref gates = decays_by_dim(b, layer, in), heads = build_rows(b, "heads", n);
    build_recur(b, &(struct op_recur){.q = qkv[0],
                                      .k = qkv[1],
                                      .v = qkv[2],
                                      .out = heads,
                                      .gates = gates,
                                      .n_heads = hp->ssm.n_head,
                                      .n_groups = hp->ssm.n_head,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = hp->ssm.n_dim,
                                      .delta = true,
                                      .by_dim = true});
    end_rows(b, layer, false);
    build_norm(b, heads, layer_vector(b, layer, "ssm_norm.weight", n_dim), n_dim, heads);
    build_glu(b, z, heads, GLU_SIGMOID, heads);
    const struct linear o = layer_linear(b, layer, "attn_output", n, out);
    build_matmul(b, heads, &o, 1);
}

/* The convolution of a Mamba, in whose files a bias is likely. */
static struct ref mamba_conv(struct builder *b, uint32_t layer, struct ref in)
{
    const uint32_t n_taps = b->hp->ssm.n_taps;
    char name[TENSOR_NAME_CAP];
    struct ref conv = build_rows(b, "conv", in.n);
    layer_tensor(name, layer, "ssm_conv1d.bias");
    build_conv(b, &(struct op_conv){.in = in,
                                    .out = conv,
                                    .w = taps(b, layer, "ssm_conv1d.weight", n_taps, in.n),
                                    .bias = weights_vector_if(b->ws, name, in.n),
                                    .n_taps = n_taps,
                                    .silu = true});
    return conv;
}

/* What a channel reads and is written by in Mamba-1, of its row x: a row of as many steps as
 * there are channels, before their softplus; B and C, which all channels share. */
struct scan {
    struct ref steps, b, c;
};

static void norm_part(struct builder *b, uint32_t layer, const char *what, struct ref x)
{
    const bool bare = b->hp->ssm.norm_bare;
    if (b->hp->ssm.normed)
        build_norm(b, x, bare ? NULL : layer_vector(b, layer, what, x.n), 0, x);
}

static struct scan project_scan(struct builder *b, uint32_t layer, struct ref x)
{
    const size_t n_step = b->hp->ssm.n_step, n_dim = b->hp->ssm.n_dim;
    struct ref all = build_rows(b, "scan", n_step + 2 * n_dim);
    struct ref narrow = ref_part(all, 0, n_step);
    const struct scan s = {build_rows(b, "gates", x.n), ref_part(all, n_step, n_dim),
                           ref_part(all, n_step + n_dim, n_dim)};
    const struct linear from_x = layer_linear(b, layer, "ssm_x", x.n, all);
    build_matmul(b, x, &from_x, 1);
    norm_part(b, layer, "ssm_dt_norm.weight", narrow);
    norm_part(b, layer, "ssm_b_norm.weight", s.b);
    norm_part(b, layer, "ssm_c_norm.weight", s.c);
    const struct linear dt = layer_linear(b, layer, "ssm_dt", n_step, s.steps);
    build_matmul(b, narrow, &dt, 1);
    return s;
}

void block_mamba(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->ssm.n_inner, n_dim = hp->ssm.n_dim;
    char name[TENSOR_NAME_CAP];
    struct ref all = build_rows(b, "mixed", 2 * n), z = ref_part(all, n, n);
    const struct linear i = layer_linear(b, layer, "ssm_in", in.n, all);
    build_matmul(b, in, &i, 1);
    struct ref x = mamba_conv(b, layer, ref_part(all, 0, n));
    const struct scan s = project_scan(b, layer, x);
    struct ref heads = build_rows(b, "heads", n);
    layer_tensor(name, layer, "ssm_a");
    build_recur(b, &(struct op_recur){.q = s.c,
                                      .k = s.b,
                                      .v = x,
                                      .out = heads,
                                      .gates = s.steps,
                                      .a = weights_flat(b->ws, name, n, n_dim, true),
                                      .n_heads = 1,
                                      .n_groups = 1,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = hp->ssm.n_inner});
    end_rows(b, layer, false);
    build_factors(b, x, layer_vector(b, layer, "ssm_d", n), NULL, x);
    build_add(b, heads, x, 1, heads);
    build_glu(b, z, heads, GLU_SILU, heads);
    const struct linear o = layer_linear(b, layer, "ssm_out", n, out);
    build_matmul(b, heads, &o, 1);
}

/* The same for the states of heads, with B and C in front: gates of heads, B and C. */
static struct scan project_by_heads(struct builder *b, uint32_t layer, struct ref x)
{
    const size_t n_step = b->hp->ssm.n_step, n_dim = b->hp->ssm.n_dim;
    const size_t n_head = b->hp->ssm.n_head;
    struct ref all = build_rows(b, "scan", 2 * n_dim + n_step);
    struct ref narrow = ref_part(all, 2 * n_dim, n_step), steps = build_rows(b, "dt", n_head);
    const struct scan s = {build_rows(b, "gates", 2 * n_head), ref_part(all, 0, n_dim),
                           ref_part(all, n_dim, n_dim)};
    const struct linear from_x = layer_linear(b, layer, "ssm_x", x.n, all);
    build_matmul(b, x, &from_x, 1);
    build_norm(b, s.b, layer_vector(b, layer, "ssm_b_norm", n_dim), 0, s.b);
    build_norm(b, s.c, layer_vector(b, layer, "ssm_c_norm", n_dim), 0, s.c);
    build_norm(b, narrow, layer_vector(b, layer, "ssm_dt_norm", n_step), 0, narrow);
    struct linear dt = layer_linear(b, layer, "ssm_dt", n_step, steps);
    dt.bias = NULL; /* it counts in the decay */
    build_matmul(b, narrow, &dt, 1);
    build_decay(b, &(struct op_decay){.in = steps,
                                      .out = s.steps,
                                      .bias = layer_vector(b, layer, "ssm_dt.bias", n_head),
                                      .a = per_head(b, layer, "ssm_a", n_head)});
    return s;
}

void block_mamba_by_heads(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    const size_t n = hp->ssm.n_inner, n_head = hp->ssm.n_head, n_width = n / n_head;
    struct ref all = build_rows(b, "mixed", 2 * n), z = build_rows(b, "z", n);
    struct ref x = build_rows(b, "conv_in", n), heads = build_rows(b, "heads", n);
    const struct linear i = layer_linear(b, layer, "ssm_in", in.n, all);
    build_matmul(b, in, &i, 1);
    build_deal(b, all, n_width, n_width, z, x);
    struct ref conv = mamba_conv(b, layer, x);
    const struct scan s = project_by_heads(b, layer, conv);
    build_recur(b, &(struct op_recur){.q = s.c,
                                      .k = s.b,
                                      .v = conv,
                                      .out = heads,
                                      .gates = s.steps,
                                      .skip = per_head(b, layer, "ssm_d", n_head),
                                      .n_heads = hp->ssm.n_head,
                                      .n_groups = 1,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = (uint32_t)n_width});
    end_rows(b, layer, false);
    build_glu(b, z, heads, GLU_SILU, heads);
    const struct linear o = layer_linear(b, layer, "ssm_out", n, out);
    build_matmul(b, heads, &o, 1);
}

void block_mamba2(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                  const struct recurrent *r)
{
    const struct hparams *hp = b->hp;
    const size_t n_inner = hp->ssm.n_inner, n_head = hp->ssm.n_head, n_group = hp->ssm.n_group;
    const size_t n_bc = n_group * hp->ssm.n_dim, n_mixed = n_inner + 2 * n_bc;
    char name[TENSOR_NAME_CAP];
    struct ref all = build_rows(b, "mixed", n_inner + n_mixed + n_head);
    struct ref z = ref_part(all, 0, n_inner), mixed = ref_part(all, n_inner, n_mixed);
    const struct linear i = layer_linear(b, layer, "ssm_in", in.n, all);
    build_matmul(b, in, &i, 1);

    struct ref conv = mamba_conv(b, layer, mixed);
    struct ref gates = build_rows(b, "gates", 2 * n_head);
    build_decay(b, &(struct op_decay){.in = ref_part(all, n_inner + n_mixed, n_head),
                                      .out = gates,
                                      .bias = layer_vector(b, layer, "ssm_dt.bias", n_head),
                                      .a = per_head(b, layer, "ssm_a", n_head)});
    struct ref heads = build_rows(b, "heads", n_inner);
    build_recur(b, &(struct op_recur){.q = ref_part(conv, n_inner + n_bc, n_bc),
                                      .k = ref_part(conv, n_inner, n_bc),
                                      .v = ref_part(conv, 0, n_inner),
                                      .out = heads,
                                      .gates = gates,
                                      .skip = per_head(b, layer, "ssm_d", n_head),
                                      .n_heads = hp->ssm.n_head,
                                      .n_groups = hp->ssm.n_group,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = (uint32_t)(n_inner / n_head),
                                      .tiled = r->tiled});
    end_rows(b, layer, r->attention_next);
    build_glu(b, z, heads, GLU_SILU, heads);
    if (weights_has(b->ws, layer_tensor(name, layer, "ssm_norm.weight"))) {
        const size_t group = n_inner / n_group;
        build_norm(b, heads, weights_flat(b->ws, name, n_group, group, false), group, heads);
    }
    const struct linear o = layer_linear(b, layer, "ssm_out", n_inner, out);
    build_matmul(b, heads, &o, 1);
}

/* Logarithms of the decays, below 0: 2^(-8/n) for the first of n heads, that times itself for
 * the second and so on; by less from layer to layer, until nearly nothing decays. */
static const struct weight *slopes(struct builder *b, uint32_t layer)
{
    const uint32_t n_head = b->hp->layers[layer].n_head, n_layer = b->hp->n_layer;
    const double ratio = real_exp(-8.0 / (double)n_head * real_log(2.0));
    const double part = n_layer > 1 ? (double)layer / (double)(n_layer - 1) : 0.0;
    float *values = mem_alloc(n_head * sizeof *values);
    double slope = ratio;
    for (uint32_t h = 0; h < n_head; h++, slope *= ratio)
        values[h] = (float)(-slope * (1.0 - part + 1e-5));
    const struct weight *w = weights_given(b->ws, n_head, values);
    free(values);
    return w;
}

/* SiLU of the products, dealt out to Q, K and V of all heads. */
static void project_lightning(struct builder *b, uint32_t layer, struct ref in, size_t dim,
                              struct ref qkv[3])
{
    const size_t n = (size_t)b->hp->layers[layer].n_head * dim;
    struct ref mixed = build_rows(b, "mixed", 3 * n), kv = build_rows(b, "kv", 2 * n);
    struct ref all = build_rows(b, "qkv", 3 * n);
    for (size_t i = 0; i < 3; i++)
        qkv[i] = ref_part(all, i * n, n);
    const struct linear mat = layer_linear(b, layer, "attn_qkv", in.n, mixed);
    build_matmul(b, in, &mat, 1);
    build_glu(b, mixed, mixed, GLU_SIGMOID, mixed);
    build_deal(b, mixed, dim, 2 * dim, qkv[0], kv);
    build_deal(b, kv, dim, dim, qkv[1], qkv[2]);
}

void block_lightning(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct layer_hparams *l = &b->hp->layers[layer];
    const size_t n = (size_t)l->n_head * l->head_dim_k;
    struct ref qkv[3], z = build_rows(b, "z", n), heads = build_rows(b, "heads", n);
    struct ref gates = build_rows(b, "gates", 2 * (size_t)l->n_head);
    project_lightning(b, layer, in, l->head_dim_k, qkv);
    const struct linear gate = layer_linear(b, layer, "attn_gate", in.n, z);
    build_matmul(b, in, &gate, 1);
    build_decay(b, &(struct op_decay){.out = gates, .a = slopes(b, layer)});
    build_recur(b, &(struct op_recur){.q = qkv[0],
                                      .k = qkv[1],
                                      .v = qkv[2],
                                      .out = heads,
                                      .gates = gates,
                                      .n_heads = l->n_head,
                                      .n_groups = l->n_head,
                                      .n_dim = l->head_dim_k,
                                      .n_width = l->head_dim_k});
    end_rows(b, layer, false);
    build_norm(b, heads, layer_vector(b, layer, "attn_norm_2.weight", n), 0, heads);
    build_glu(b, z, heads, GLU_SIGMOID, heads);
    const struct linear o = layer_linear(b, layer, "attn_output", n, out);
    build_matmul(b, heads, &o, 1);
}

void block_short_conv(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const uint32_t n_taps = b->hp->ssm.n_taps;
    struct ref all = build_rows(b, "mixed", 3 * in.n), conv = build_rows(b, "conv", in.n);
    struct ref before = ref_part(all, 0, in.n), after = ref_part(all, in.n, in.n);
    struct ref x = ref_part(all, 2 * in.n, in.n);
    const struct linear i = layer_linear(b, layer, "shortconv.in_proj", in.n, all);
    build_matmul(b, in, &i, 1);
    build_glu(b, before, x, GLU_LINEAR, x);
    build_conv(b, &(struct op_conv){.in = x,
                                    .out = conv,
                                    .w = taps(b, layer, "shortconv.conv.weight", n_taps, in.n),
                                    .n_taps = n_taps});
    end_rows(b, layer, false);
    build_glu(b, after, conv, GLU_LINEAR, conv);
    const struct linear o = layer_linear(b, layer, "shortconv.out_proj", in.n, out);
    build_matmul(b, conv, &o, 1);
}
