/* The blocks of RWKV-6 and 7: time mix and channel mix. Both read the row and the one before
 * it.
 */
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

/* ---- what both have ---- */

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

/* in by way of a narrow row. */
struct narrow {
    const char *down, *up;
    const char *bias; /* of the second product; NULL: none */
    size_t n;
    enum { NARROW_LINEAR, NARROW_TANH, NARROW_SIGMOID } curve; /* between the two */
};

/* Ones in a row as wide as x, which was written before. */
static struct ref ones_beside(struct builder *b, struct ref x)
{
    struct ref ones = build_rows(b, "ones", x.n);
    build_fill(b, x, weights_constant(b->ws, x.n, 1), ones);
    return ones;
}

static void project_narrowly(struct builder *b, uint32_t layer, struct ref in,
                             const struct narrow *by, struct ref out)
{
    struct ref narrow = build_rows(b, "narrow", by->n);
    const struct linear down = layer_linear(b, layer, by->down, in.n, narrow);
    build_matmul(b, in, &down, 1);
    if (by->curve == NARROW_TANH) build_glu(b, narrow, narrow, GLU_TANH_ALONE, narrow);
    if (by->curve == NARROW_SIGMOID)
        build_glu(b, narrow, ones_beside(b, narrow), GLU_SIGMOID, narrow);
    struct linear up = layer_linear(b, layer, by->up, by->n, out);
    if (by->bias) up.bias = vector(b, layer, by->bias);
    build_matmul(b, narrow, &up, 1);
}

/* The states take in a row of keys, values and decays, with an erasure or not; r reads them. */
static void advance(struct builder *b, struct ref r, struct ref k, struct ref v,
                    struct ref gates, bool erase, struct ref heads)
{
    const struct hparams *hp = b->hp;
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
                                      .erase = erase});
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

/* Adds to each head v times the sum over the head of r · k · w, in the place of k. The sum is
 * made of the mean: what taking it off changes. */
static void add_bonus(struct builder *b, const struct weight *w, struct ref r, struct ref k,
                      struct ref v, struct ref heads)
{
    const size_t n_dim = b->hp->ssm.n_dim;
    struct ref centred = build_rows(b, "apart", r.n);
    build_glu(b, r, k, GLU_LINEAR, k);
    build_factors(b, k, w, NULL, k);
    build_centre(b, k, n_dim, centred);
    build_add(b, k, centred, -1, k);
    build_glu(b, k, v, GLU_LINEAR, k);
    build_add(b, heads, k, (float)n_dim, heads);
}

/* ---- RWKV-7 ---- */

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
    advance(b, r, k, v, gates, true, heads);
    norm_heads(b, layer, heads);
    add_bonus(b, vector(b, layer, "time_mix_r_k.weight"), r, k, v, heads);
    if (gated) {
        project_narrowly(b, layer, row[FOR_GATE], &gate, z);
        build_glu(b, z, heads, GLU_LINEAR, heads);
    }
    const struct linear o = layer_linear(b, layer, "time_mix_output", n, out);
    build_matmul(b, heads, &o, 1);
}

/* ---- RWKV-6 ---- */

/* What rows are mixed for in the order of the file, one behind the other. */
enum { SIX_DECAY, SIX_K, SIX_V, SIX_R, SIX_GATE, SIX_MIXED };

/* The shares of the step back that each of these has whatever the rows are: one tensor, in old
 * files five. */
static const struct weight *fixed_shares(struct builder *b, uint32_t layer, size_t n)
{
    static const char *const apart[SIX_MIXED] = {
        "time_mix_lerp_w.weight", "time_mix_lerp_k.weight", "time_mix_lerp_v.weight",
        "time_mix_lerp_r.weight", "time_mix_lerp_g.weight"};
    char name[TENSOR_NAME_CAP];
    layer_tensor(name, layer, "time_mix_lerp_fused.weight");
    if (weights_has(b->ws, name) || !has(b, layer, apart[0]))
        return weights_flat(b->ws, name, SIX_MIXED, n, false);
    float *values = mem_zalloc(SIX_MIXED * n, sizeof *values);
    const struct weight *w = NULL;
    size_t i = 0;
    while (i < SIX_MIXED &&
           weights_values(b->ws, layer_tensor(name, layer, apart[i]), n, values + i * n))
        i++;
    if (i == SIX_MIXED) w = weights_given(b->ws, SIX_MIXED * n, values);
    free(values);
    return w;
}

/* The shares of the row: by a narrow row for each, which come from one product. */
static struct ref project_shares(struct builder *b, uint32_t layer, struct ref in,
                                 struct ref back)
{
    const size_t n = in.n, n_mix = b->hp->wkv.n_mix;
    char name[TENSOR_NAME_CAP];
    struct ref x = build_rows(b, "apart", n);
    struct ref narrow = build_rows(b, "narrow", SIX_MIXED * n_mix);
    struct ref shares = build_rows(b, "mixed", SIX_MIXED * n);
    build_factors(b, back, vector(b, layer, "time_mix_lerp_x.weight"), NULL, x);
    build_add(b, in, x, 1, x);
    const struct linear down = layer_linear(b, layer, "time_mix_w1", n, narrow);
    build_matmul(b, x, &down, 1);
    build_glu(b, narrow, narrow, GLU_TANH_ALONE, narrow);
    const struct op_route each = {.out = build_route_rows(b, "each", SIX_MIXED),
                                  .kind = ROUTE_EACH};
    build_route(b, &each);
    layer_tensor(name, layer, "time_mix_w2.weight");
    build_experts(b, narrow,
                  &(struct op_matmul_experts){
                      .route = each.out,
                      .w = weights_experts(b->ws, name, SIX_MIXED, SIX_MIXED, 1, n, n_mix),
                      .bias = fixed_shares(b, layer, n),
                      .out = shares,
                      .split = true,
                      .n_parts = 1});
    return shares;
}

static void mix_by_shares(struct builder *b, uint32_t layer, struct ref in,
                          struct ref row[SIX_MIXED])
{
    struct ref back = step_back(b, in), shares = project_shares(b, layer, in, back);
    for (size_t i = 0; i < SIX_MIXED; i++) {
        row[i] = ref_part(shares, i * in.n, in.n);
        build_glu(b, back, row[i], GLU_LINEAR, row[i]);
        build_add(b, in, row[i], 1, row[i]);
    }
}

/* Each head `times` times, copy beside copy. */
static void repeat_heads(struct builder *b, struct ref in, size_t times, struct ref out)
{
    static const char *const names[2] = {"repeated", "repeated_more"};
    const size_t n_dim = b->hp->ssm.n_dim;
    struct ref all = in;
    for (size_t i = 1; i < times; i++) {
        struct ref more = i + 1 == times ? out : build_rows(b, names[i % 2], (i + 1) * in.n);
        build_join(b, in, n_dim, all, i * n_dim, more);
        all = more;
    }
}

/* k, v and what decays are made of in one row, heads repeated as often as queries ask. */
static struct ref project_states(struct builder *b, uint32_t layer, const struct ref *row)
{
    const struct hparams *hp = b->hp;
    const size_t n = row->n, n_head_kv = hp->layers[layer].n_head_kv;
    const size_t times = n_head_kv > 0 ? hp->ssm.n_head / n_head_kv : 1;
    const struct narrow by = {.down = "time_mix_decay_w1",
                              .up = "time_mix_decay_w2",
                              .n = hp->wkv.n_decay,
                              .curve = NARROW_TANH};
    struct ref all = build_rows(b, "states_in", 3 * n);
    static const char *const stems[2] = {"time_mix_key", "time_mix_value"};
    for (size_t i = 0; i < 2; i++) {
        struct ref to = ref_part(all, i * n, n);
        struct ref few = times > 1 ? build_rows(b, "few", n / times) : to;
        const struct linear mat = layer_linear(b, layer, stems[i], n, few);
        build_matmul(b, row[i == 0 ? SIX_K : SIX_V], &mat, 1);
        if (times > 1) repeat_heads(b, few, times, to);
    }
    project_narrowly(b, layer, row[SIX_DECAY], &by, ref_part(all, 2 * n, n));
    return all;
}

/* The row of k, v and decays before. */
static struct ref one_before(struct builder *b, struct ref in)
{
    struct ref before = build_rows(b, "states_before", in.n);
    float *taps = mem_zalloc(2 * in.n, sizeof *taps);
    for (size_t i = 0; i < in.n; i++)
        taps[i] = 1;
    build_conv(b, &(struct op_conv){.in = in,
                                    .out = before,
                                    .w = weights_given(b->ws, 2 * in.n, taps),
                                    .n_taps = 2});
    free(taps);
    return before;
}

/* Decays, e to the power of -e to the power of w, and a step of 1 for each head in the place of
 * those that come with decays. */
static struct ref decays_of(struct builder *b, uint32_t layer, struct ref w)
{
    const uint32_t n_heads = b->hp->ssm.n_head;
    struct ref gates = build_rows(b, "gates", 2 * w.n), steps = ref_part(gates, w.n, n_heads);
    build_decay(b, &(struct op_decay){.in = w,
                                      .out = gates,
                                      .bias = vector(b, layer, "time_mix_decay.weight"),
                                      .a = weights_constant(b->ws, w.n, -1),
                                      .by_exp = true});
    build_fill(b, ref_part(w, 0, n_heads), weights_constant(b->ws, n_heads, 1), steps);
    return ref_part(gates, 0, w.n + n_heads);
}

/* Puts in what decays leave room for alone: k becomes k · (1 - decay). */
static void fill_up(struct builder *b, struct ref gates, struct ref k)
{
    struct ref left = build_rows(b, "apart", k.n);
    build_glu(b, k, ref_part(gates, 0, k.n), GLU_LINEAR, left);
    build_add(b, k, left, -1, k);
}

void block_time_mix6(struct builder *b, uint32_t layer, struct ref in, struct ref out, bool own)
{
    const struct hparams *hp = b->hp;
    const size_t n = in.n, n_dim = hp->ssm.n_dim;
    char name[TENSOR_NAME_CAP];
    struct ref row[SIX_MIXED], r = build_rows(b, "r", n), z = build_rows(b, "z", n);
    mix_by_shares(b, layer, in, row);
    const struct linear r_mat = layer_linear(b, layer, "time_mix_receptance", n, r);
    const struct linear z_mat = layer_linear(b, layer, "time_mix_gate", n, z);
    build_matmul(b, row[SIX_R], &r_mat, 1);
    build_matmul(b, row[SIX_GATE], &z_mat, 1);
    struct ref now = project_states(b, layer, row), heads = build_rows(b, "heads", n);
    struct ref from = own ? now : one_before(b, now);
    struct ref gates = decays_of(b, layer, ref_part(from, 2 * n, n));
    if (own) {
        fill_up(b, gates, ref_part(from, 0, n));
        build_scale(b, r, (float)(1.0 / sqrt((double)n_dim)));
    }
    advance(b, r, ref_part(from, 0, n), ref_part(from, n, n), gates, false, heads);
    if (!own) {
        /* Of the row itself counts what the states do not have of it yet. */
        layer_tensor(name, layer, "time_mix_first.weight");
        add_bonus(b, weights_flat(b->ws, name, hp->ssm.n_head, n_dim, false), r,
                  ref_part(now, 0, n), ref_part(now, n, n), heads);
        norm_heads(b, layer, heads);
    }
    build_glu(b, z, heads, own ? GLU_SIGMOID : GLU_SILU, heads);
    const struct linear o = layer_linear(b, layer, "time_mix_output", n, out);
    build_matmul(b, heads, &o, 1);
}

/* ---- the feed-forward ---- */

void block_channel_mix(struct builder *b, uint32_t layer, struct ref in, struct ref out,
                       bool gated)
{
    const size_t n_ff = b->hp->layers[layer].n_ff;
    struct ref back = step_back(b, in), unit = build_rows(b, "gate", n_ff);
    struct ref x = build_rows(b, "apart", in.n), z = build_rows(b, "z", in.n);
    if (layer + 1 == b->hp->n_layer) build_head_rows(b);
    if (gated) {
        build_factors(b, back, vector(b, layer, "channel_mix_lerp_r.weight"), NULL, x);
        build_add(b, in, x, 1, x);
        const struct linear gate = layer_linear(b, layer, "channel_mix_receptance", in.n, z);
        build_matmul(b, x, &gate, 1);
    }
    build_factors(b, back, vector(b, layer, "channel_mix_lerp_k.weight"), NULL, x);
    build_add(b, in, x, 1, x);
    const struct linear up = layer_linear(b, layer, "channel_mix_key", in.n, unit);
    build_matmul(b, x, &up, 1);
    build_glu(b, unit, unit, GLU_RELU, unit); /* by itself: its square */
    const struct linear down = layer_linear(b, layer, "channel_mix_value", n_ff, out);
    build_matmul(b, unit, &down, 1);
    if (gated) build_glu(b, z, out, GLU_SIGMOID, out);
}
