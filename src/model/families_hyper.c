/* Families with hyper-connections: several streams in the place of one x. What attention and
 * feed-forward read is a sum of all of them, and what they give is added to each, both by
 * coefficients that each row makes of its own streams. */
#include <math.h>
#include <stdio.h>

#include "gguf/gguf.h"
#include "model/blocks.h"
#include "model/families.h"

enum { MAX_STREAMS = 8 };

static struct ref all_streams(struct builder *b)
{
    return build_rows(b, "streams", (size_t)b->hp->n_streams * b->hp->n_embd);
}

static struct ref stream(const struct builder *b, struct ref all, size_t i)
{
    return ref_part(all, i * b->hp->n_embd, b->hp->n_embd);
}

/* n values of a for each of the streams, then as many of c. */
static const struct weight *two_runs(struct builder *b, size_t n, float a, float c)
{
    float values[2 * MAX_STREAMS];
    for (size_t i = 0; i < n; i++) {
        const bool is_first = i < b->hp->n_streams;
        values[i] = is_first ? a : c;
    }
    return weights_given(b->ws, n, values);
}

/* One factor for each run of coefficients. */
static const struct weight *scales(struct builder *b, const char *name, size_t n)
{
    float of_run[2] = {1, 1};
    if (!weights_values(b->ws, name, n / b->hp->n_streams, of_run)) return NULL;
    return two_runs(b, n, of_run[0], of_run[1]);
}

/* What sigmoids of coefficients are multiplied by, the same in all layers. */
static struct ref gains(struct builder *b)
{
    return build_rows(b, "stream_gains", 2 * (size_t)b->hp->n_streams);
}

/* The n coefficients of a row, by the tensors "<stem>_fn", "_base" and "_scale": what streams
 * count by in a sum, and if n is twice their number, what is added to each counts by. */
static struct ref coefficients(struct builder *b, const char *stem, size_t n)
{
    char name[TENSOR_NAME_CAP + 16];
    struct ref all = all_streams(b), sized = build_rows(b, "streams_sized", all.n);
    struct ref coefs = build_rows(b, "stream_coefs", n);
    snprintf(name, sizeof name, "%s_fn.weight", stem);
    const struct linear fn = {.w = weights_matrix(b->ws, name, n, all.n), .out = coefs};
    build_norm(b, all, NULL, 0, sized);
    build_matmul(b, sized, &fn, 1);
    snprintf(name, sizeof name, "%s_scale.weight", stem);
    const struct weight *scale = scales(b, name, n);
    snprintf(name, sizeof name, "%s_base.weight", stem);
    build_factors(b, coefs, scale, weights_vector(b->ws, name, n), coefs);
    build_glu(b, coefs, ref_part(gains(b), 0, n), GLU_SIGMOID, coefs);
    build_factors(b, coefs, weights_constant(b->ws, n, 1),
                  weights_constant(b->ws, n, b->hp->stream_eps), coefs);
    const struct op_route given = {
        .scores = coefs, .out = build_route_rows(b, "stream_weights", n), .kind = ROUTE_GIVEN};
    build_route(b, &given);
    return given.out;
}

/* h = the sum of all streams; what it returns is for spread. */
static struct ref gather(struct builder *b, uint32_t layer, const char *what, struct ref h)
{
    char stem[TENSOR_NAME_CAP];
    const size_t n = b->hp->n_streams;
    const struct ref by = coefficients(b, layer_tensor(stem, layer, what), 2 * n);
    build_combine(b, all_streams(b), ref_part(by, 0, n), h);
    return ref_part(by, n, n);
}

/* Adds h to each of the streams. */
static void spread(struct builder *b, struct ref by, struct ref h)
{
    struct ref all = all_streams(b), added = build_rows(b, "streams_sized", all.n);
    for (size_t i = 0; i < by.n; i++)
        build_combine(b, h, ref_part(by, i, 1), stream(b, added, i));
    build_add(b, all, added, 1, all);
}

/* All are x. Of the values that gains are made from nothing remains. */
static void open_streams(struct builder *b, struct ref x)
{
    struct ref by = gains(b);
    for (size_t i = 0; i < b->hp->n_streams; i++)
        build_add(b, x, x, 0, stream(b, all_streams(b), i));
    build_factors(b, ref_part(x, 0, by.n), weights_constant(b->ws, by.n, 0),
                  two_runs(b, by.n, 1, b->hp->stream_gain), by);
}

static void close_streams(struct builder *b, struct ref x)
{
    const struct ref by = coefficients(b, "output_hc", b->hp->n_streams);
    build_combine(b, all_streams(b), by, x);
}

/* ---- hy_v4: latent attention with gates and sinks, experts ---- */

/* Units of routed experts alone have limits. */
static bool read_limits(struct hparams *hp, struct err *err)
{
    const float least = 0.46f; /* its SiLU is above LEAST_UNIT_LIMIT */
    hp->limit_first = true;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        struct layer_hparams *l = &hp->layers[i];
        double shared = 0;
        if (!hparams_unit_limit(hp, "swiglu_clamp_exp", i, least, &l->experts_limit, err) ||
            !hparams_layer_f64(hp, "swiglu_clamp_shexp", i, 0, 0, &shared, err))
            return false;
    }
    return true;
}

static bool read_streams(struct hparams *hp, struct err *err)
{
    double eps = 0, gain = 0;
    const uint32_t most = hp->n_embd / 2 < MAX_STREAMS ? hp->n_embd / 2 : MAX_STREAMS;
    if (!hparams_u32(hp, "hyper_connection.count", 1, most, true, &hp->n_streams, err) ||
        !hparams_f64(hp, "hyper_connection.epsilon", 0, 1, true, &eps, err) ||
        !hparams_f64(hp, "hyper_connection.magnitude", 0, 1e3, true, &gain, err))
        return false;
    hp->stream_eps = (float)eps;
    hp->stream_gain = (float)gain;
    return true;
}

/* What scores would be scaled by under YaRN with a multiplier of the file's own, nobody says.
 */
static bool yarn_is_known(const struct hparams *hp, struct err *err)
{
    return hp->scaling != SCALING_YARN || hp->yarn_log_multiplier == 0 ||
           err_set(
               err, ERR_FORMAT,
               "%s: key %s.rope.scaling.yarn_log_multiplier should be 0 or missing, but is %g",
               gguf_path(hp->g), hp->arch, hp->yarn_log_multiplier);
}

/* Files whose layers see everything have none. */
static bool read_indexer(struct hparams *hp, struct err *err)
{
    uint32_t top_k = 0;
    if (!hparams_u32(hp, "attention.indexer.top_k", 0, MAX_CONTEXT, false, &top_k, err))
        return false;
    hp->has_indexer = top_k > 0;
    return !hp->has_indexer || hparams_indexer(hp, err);
}

static bool read_hy_v4(struct hparams *hp, struct err *err)
{
    hp->route = ROUTE_SIGMOID;
    hp->route_as_is = true;
    if (!hparams_need_experts(hp, err) || !hparams_route(hp, err) ||
        !hparams_shared_count(hp, err) || !hparams_latent(hp, err) || !read_limits(hp, err) ||
        !read_streams(hp, err) || !read_indexer(hp, err))
        return false;
    hp->attn_scale = (float)(1.0 / sqrt((double)hp->latent.head_dim_k));
    return yarn_is_known(hp, err);
}

static void layer_hy_v4(struct builder *b, uint32_t layer, struct ref x)
{
    struct ref h = build_rows(b, "h", x.n);
    if (layer == 0) open_streams(b, x);
    struct ref by = gather(b, layer, "hc_attn", h);
    layer_norm(b, layer, "attn_norm.weight", h, h);
    block_latent_attention(b, layer, h, h, GATES_APART, true);
    spread(b, by, h);
    by = gather(b, layer, "hc_ffn", h);
    layer_norm(b, layer, b->hp->ffn_norm, h, h);
    block_feedforward(b, layer, h, h);
    spread(b, by, h);
    if (b->hp->has_indexer) layer_ignore_indexer(b, layer);
    if (layer + 1 == b->hp->n_layer) close_streams(b, x);
}

const struct family families_hyper[] = {
    {"hy_v4", read_hy_v4, layer_hy_v4},
    {NULL, NULL, NULL},
};
