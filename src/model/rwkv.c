/* The blocks of RWKV-7: time mix and channel mix. Both read the row and the one before it. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/blocks.h"

/* What a decay is at least the exponential of: -exp(-1/2), to the digits of the models' own
 * code. */
#define DECAY_BOUND (-0.606531f)
/* What the norm of each head adds to the mean of squares: 1e-5 for each of 64 values. */
#define HEAD_EPS 64e-5f

/* What row the input of a product is mixed for, in the order of the file. */
enum mixed { FOR_R, FOR_DECAY, FOR_K, FOR_V, FOR_RATE, FOR_GATE, MOST_MIXED };

static const struct weight *vector(struct builder *b, uint32_t layer, const char *what)
{
    return layer_vector(b, layer, what, b->hp->n_embd);
}

static bool has(struct builder *b, uint32_t layer, const char *what)
{
    char name[TENSOR_NAME_CAP];
    return weights_has(b->ws, layer_tensor(name, layer, what));
}

/* The row before minus the row; before the first there are zeros. */
static struct ref step_back(struct builder *b, struct ref in)
{
    struct ref back = build_rows(b, "step_back", in.n);
    float *taps = mem_alloc(2 * in.n * sizeof *taps);
    for (size_t i = 0; i < in.n; i++) {
        taps[i] = 1;
        taps[in.n + i] = -1;
    }
    build_conv(
        b, &(struct op_conv){
               .in = in, .out = back, .w = weights_given(b->ws, 2 * in.n, taps), .n_taps = 2});
    free(taps);
    return back;
}

/* n rows, each in with its own share of the step back. */
static struct ref mix_rows(struct builder *b, uint32_t layer, struct ref in, size_t n)
{
    char name[TENSOR_NAME_CAP];
    struct ref all = build_rows(b, "mixed", n * in.n), back = step_back(b, in);
    layer_tensor(name, layer, "time_mix_lerp_fused.weight");
    for (size_t i = 0; i < n; i++)
        build_add(b, back, back, 0, ref_part(all, i * in.n, in.n));
    build_factors(b, all, weights_flat(b->ws, name, n, in.n, false), NULL, all);
    for (size_t i = 0; i < n; i++) {
        struct ref row = ref_part(all, i * in.n, in.n);
        build_add(b, in, row, 1, row);
    }
    return all;
}

/* in by way of a narrow row. */
struct narrow {
    const char *down, *up;
    const char *bias; /* of the second product; NULL: none */
    size_t n;
    enum { NARROW_LINEAR, NARROW_TANH, NARROW_SIGMOID } curve; /* between the two */
};

/* The sigmoids of a row in place. Ones, by which they are multiplied, are a norm of it without
 * a factor and with a bias. */
static void sigmoids(struct builder *b, struct ref x)
{
    struct ref ones = build_rows(b, "ones", x.n);
    build_norm_by(b, &(struct op_norm){.in = x,
                                       .out = ones,
                                       .w = weights_constant(b->ws, x.n, 0),
                                       .group = x.n,
                                       .eps = 1,
                                       .bias = weights_constant(b->ws, x.n, 1)});
    build_glu(b, x, ones, GLU_SIGMOID, x);
}

static void project_narrowly(struct builder *b, uint32_t layer, struct ref in,
                             const struct narrow *by, struct ref out)
{
    struct ref narrow = build_rows(b, "narrow", by->n);
    const struct linear down = layer_linear(b, layer, by->down, in.n, narrow);
    build_matmul(b, in, &down, 1);
    if (by->curve == NARROW_TANH) build_glu(b, narrow, narrow, GLU_TANH_ALONE, narrow);
    if (by->curve == NARROW_SIGMOID) sigmoids(b, narrow);
    struct linear up = layer_linear(b, layer, by->up, by->n, out);
    if (by->bias) up.bias = vector(b, layer, by->bias);
    build_matmul(b, narrow, &up, 1);
}

/* The values, of which those of the first layer are a share in all others. */
static struct ref project_values(struct builder *b, uint32_t layer, struct ref in)
{
    const struct narrow by = {.down = "time_mix_v1",
                              .up = "time_mix_v2",
                              .bias = "time_mix_v0.weight",
                              .n = b->hp->wkv.n_value};
    static const char *const unused[] = {"time_mix_v0.weight", "time_mix_v1.weight",
                                         "time_mix_v2.weight"};
    char name[TENSOR_NAME_CAP];
    struct ref first = build_rows(b, "v_first", in.n);
    struct ref v = layer == 0 ? first : build_rows(b, "v", in.n);
    const struct linear product = layer_linear(b, layer, "time_mix_value", in.n, v);
    build_matmul(b, in, &product, 1);
    if (layer == 0) {
        /* Converters fill in what the first layer does not have. */
        for (size_t i = 0; i < 3; i++)
            weights_ignore(b->ws, layer_tensor(name, layer, unused[i]));
        return v;
    }
    struct ref share = build_rows(b, "share", in.n), apart = build_rows(b, "apart", in.n);
    project_narrowly(b, layer, in, &by, share);
    build_add(b, first, v, -1, apart);
    build_glu(b, share, apart, GLU_SIGMOID, apart);
    build_add(b, v, apart, 1, v);
    return v;
}

/* Decays in front of room for the two vectors of the erasure. The steps that come with decays
 * lie where the first of them will be. */
static struct ref project_decays(struct builder *b, uint32_t layer, struct ref in)
{
    const struct narrow by = {.down = "time_mix_w1",
                              .up = "time_mix_w2",
                              .n = b->hp->wkv.n_decay,
                              .curve = NARROW_TANH};
    struct ref w = build_rows(b, "decays", in.n), gates = build_rows(b, "gates", 3 * in.n);
    project_narrowly(b, layer, in, &by, w);
    build_decay(b, &(struct op_decay){.in = w,
                                      .out = ref_part(gates, 0, 2 * in.n),
                                      .bias = vector(b, layer, "time_mix_w0.weight"),
                                      .a = weights_constant(b->ws, in.n, 1),
                                      .bound = DECAY_BOUND});
    return gates;
}

/* What states hold for the direction of k is taken out of them at a rate of its own for each
 * value; k becomes by it what is put in. */
static void erase_and_replace(struct builder *b, uint32_t layer, struct ref rate_in,
                              struct ref gates, struct ref k)
{
    const size_t n = k.n, n_dim = b->hp->ssm.n_dim;
    const struct narrow by = {.down = "time_mix_a1",
                              .up = "time_mix_a2",
                              .bias = "time_mix_a0.weight",
                              .n = b->hp->wkv.n_rate};
    struct ref rate = build_rows(b, "rate", n), part = build_rows(b, "apart", n);
    struct ref held = ref_part(gates, n, n), taken = ref_part(gates, 2 * n, n);
    project_narrowly(b, layer, rate_in, &by, rate);
    build_factors(b, k, vector(b, layer, "time_mix_k_k.weight"), NULL, held);
    build_unit(b, held, n_dim);
    build_scale(b, held, (float)(1.0 / sqrt((double)n_dim)));
    build_glu(b, rate, held, GLU_SIGMOID, taken);
    build_factors(b, k, vector(b, layer, "time_mix_k_a.weight"), NULL, part);
    build_add(b, k, part, -1, k);
    build_glu(b, rate, part, GLU_SIGMOID, part);
    build_add(b, k, part, 1, k);
}

/* Each head's LayerNorm, in files that have it. */
static void norm_heads(struct builder *b, uint32_t layer, struct ref heads)
{
    if (!has(b, layer, "time_mix_ln.weight")) return;
    build_centre(b, heads, b->hp->ssm.n_dim, heads);
    build_norm_by(b, &(struct op_norm){.in = heads,
                                       .out = heads,
                                       .w = vector(b, layer, "time_mix_ln.weight"),
                                       .group = b->hp->ssm.n_dim,
                                       .eps = HEAD_EPS,
                                       .bias = vector(b, layer, "time_mix_ln.bias")});
}

/* Adds to each head v times the sum over the head of r · k · r_k. The sum is made of the mean:
 * what taking it off changes. */
static void add_bonus(struct builder *b, uint32_t layer, struct ref r, struct ref k,
                      struct ref v, struct ref heads)
{
    const size_t n_dim = b->hp->ssm.n_dim;
    struct ref centred = build_rows(b, "apart", r.n);
    build_glu(b, r, k, GLU_LINEAR, k);
    build_factors(b, k, vector(b, layer, "time_mix_r_k.weight"), NULL, k);
    build_centre(b, k, n_dim, centred);
    build_add(b, k, centred, -1, k);
    build_glu(b, k, v, GLU_LINEAR, k);
    build_add(b, heads, k, (float)n_dim, heads);
}

void block_time_mix(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const struct hparams *hp = b->hp;
    const size_t n = in.n;
    const bool gated = hp->wkv.n_gate > 0;
    const struct narrow gate = {.down = "time_mix_g1",
                                .up = "time_mix_g2",
                                .n = hp->wkv.n_gate,
                                .curve = NARROW_SIGMOID};
    struct ref all = mix_rows(b, layer, in, gated ? MOST_MIXED : FOR_GATE), row[MOST_MIXED];
    for (size_t i = 0; i < (gated ? MOST_MIXED : FOR_GATE); i++)
        row[i] = ref_part(all, i * n, n);
    struct ref r = build_rows(b, "r", n), k = build_rows(b, "k", n);
    const struct linear r_mat = layer_linear(b, layer, "time_mix_receptance", n, r);
    const struct linear k_mat = layer_linear(b, layer, "time_mix_key", n, k);
    build_matmul(b, row[FOR_R], &r_mat, 1);
    build_matmul(b, row[FOR_K], &k_mat, 1);
    struct ref v = project_values(b, layer, row[FOR_V]);
    struct ref gates = project_decays(b, layer, row[FOR_DECAY]);
    erase_and_replace(b, layer, row[FOR_RATE], gates, k);

    struct ref heads = build_rows(b, "heads", n), z = build_rows(b, "z", n);
    build_recur(b, &(struct op_recur){.q = r,
                                      .k = k,
                                      .v = v,
                                      .out = heads,
                                      .gates = gates,
                                      .n_heads = hp->ssm.n_head,
                                      .n_groups = hp->ssm.n_group,
                                      .n_dim = hp->ssm.n_dim,
                                      .n_width = hp->ssm.n_dim,
                                      .by_dim = true,
                                      .erase = true});
    norm_heads(b, layer, heads);
    add_bonus(b, layer, r, k, v, heads);
    if (gated) {
        project_narrowly(b, layer, row[FOR_GATE], &gate, z);
        build_glu(b, z, heads, GLU_LINEAR, heads);
    }
    const struct linear o = layer_linear(b, layer, "time_mix_output", n, out);
    build_matmul(b, heads, &o, 1);
}

void block_channel_mix(struct builder *b, uint32_t layer, struct ref in, struct ref out)
{
    const size_t n_ff = b->hp->layers[layer].n_ff;
    struct ref back = step_back(b, in), unit = build_rows(b, "gate", n_ff);
    if (layer + 1 == b->hp->n_layer) build_head_rows(b);
    build_factors(b, back, vector(b, layer, "channel_mix_lerp_k.weight"), NULL, back);
    build_add(b, in, back, 1, in);
    const struct linear up = layer_linear(b, layer, "channel_mix_key", in.n, unit);
    build_matmul(b, in, &up, 1);
    build_glu(b, unit, unit, GLU_RELU, unit); /* by itself: its square */
    const struct linear down = layer_linear(b, layer, "channel_mix_value", n_ff, out);
    build_matmul(b, unit, &down, 1);
}
