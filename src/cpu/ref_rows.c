/* The scalar reference of the ops that work along one row. */
#include <assert.h>

#include "base/numeric_c.h"
#include "cpu/ref.h"

/* The sum of n > 0 terms in the one shape that all row sums have: 32 partials, term i goes to
 * partial i mod 32; partials are folded left to right. */
static float fold(const float *partial, size_t n)
{
    float sum = partial[0];
    for (size_t i = 1; i < n && i < ROW_PARTIALS; i++)
        sum = sum + partial[i];
    return sum;
}

static void accumulate(float *partial, size_t i, float term)
{
    size_t lane = i % ROW_PARTIALS;
    partial[lane] = i < ROW_PARTIALS ? term : partial[lane] + term;
}

static void norm_group(const struct norm_group *g, size_t n, float eps)
{
    const float *x = g->x;
    float partial[ROW_PARTIALS] = {0};
    for (size_t i = 0; i < n; i++)
        accumulate(partial, i, x[i] * x[i]);
    float mean = fold(partial, n) * (float)(1.0 / (double)n);
    float r = num_rsqrt(mean + eps);
    for (size_t i = 0; i < n; i++) {
        float y = num_keep(x[i] * r);
        if (g->w) y = num_keep(y * g->w[i]);
        g->out[i] = g->bias ? num_keep(y + g->bias[i]) : y;
    }
}

void ref_norm(const struct norm *o)
{
    for (struct norm_group g = norm_first(o); g.row < o->n_rows; norm_next(o, &g))
        norm_group(&g, o->n, o->eps);
}

void ref_centre(const float *x, size_t n, float *out)
{
    float partial[ROW_PARTIALS] = {0};
    for (size_t i = 0; i < n; i++)
        accumulate(partial, i, x[i]);
    const float mean = fold(partial, n) * (float)(1.0 / (double)n);
    for (size_t i = 0; i < n; i++)
        out[i] = num_keep(x[i] - mean);
}

float ref_size(const float *x, size_t n)
{
    float partial[ROW_PARTIALS] = {0};
    for (size_t i = 0; i < n; i++)
        accumulate(partial, i, x[i] * x[i]);
    const float mean = fold(partial, n) * (float)(1.0 / (double)n);
    return num_keep(mean * num_rsqrt(mean));
}

void ref_cut(const float *x, size_t n, float factor, float *out)
{
    const float least = num_keep(ref_size(x, n) * factor);
    for (size_t i = 0; i < n; i++)
        out[i] = num_keep(num_relu(x[i] - least));
}

/* d = keep(max |x| / 127) by a constant product, q = rne(x · (127 / max)), |q| <= 127. A block
 * with a value of 2^100 or more, an infinity or a NaN gets d = NaN and q = 0. */
void ref_quantise_row(const float *x, size_t n, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < n; b += A8_BLOCK) {
        uint32_t max = 0; /* of the bits: the order of magnitudes, NaN above all */
        for (size_t i = b; i < b + A8_BLOCK; i++) {
            uint32_t magnitude = num_bits(x[i]) & NUM_ABS;
            if (magnitude > max) max = magnitude;
        }
        float m = num_of_bits(max);
        float scale = num_keep(m * (1.0f / 127.0f));
        float inverse = scale == 0.0f ? 0.0f : 127.0f * num_rcp(m);
        bool broken = max > 0x71800000u; /* 2^100 */
        d[b / A8_BLOCK] = broken ? num_of_bits(NUM_NAN) : scale;
        for (size_t i = b; i < b + A8_BLOCK; i++)
            q[i] = (int8_t)(broken ? 0 : num_rne(x[i] * inverse));
        for (size_t h = b; h < b + A8_BLOCK; h += A8_HALF) {
            int s = 0;
            for (size_t i = h; i < h + A8_HALF; i++)
                s += q[i];
            sum[h / A8_HALF] = (int16_t)s;
        }
    }
}

void ref_quantise(const struct quantise *o)
{
    struct quantise_block from = quantise_first(o);
    for (size_t i = 0; i < o->n_rows * o->n / A8_BLOCK; i++) {
        ref_quantise_row(from.x, A8_BLOCK, o->q + A8_BLOCK * i, o->d + i, o->sum + 2 * i);
        if (o->dsum) o->dsum[i] = a8_dsum(o->d[i], o->sum + 2 * i);
        quantise_next(o, &from);
    }
}

void ref_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin)
{
    for (size_t i = 0; i < n_pairs; i++) {
        float *a = pairs == ROPE_NORM ? &x[2 * i] : &x[i];
        float *b = pairs == ROPE_NORM ? &x[2 * i + 1] : &x[i + n_pairs];
        float c = cos_sin[i], s = cos_sin[n_pairs + i], x0 = *a, x1 = *b;
        *a = num_keep(x0 * c - x1 * s);
        *b = num_keep(x0 * s + x1 * c);
    }
}

void ref_scale(float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] = num_keep(x[i] * factor);
}

void ref_limit(float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        x[i] = num_keep(num_limit(x[i], limit));
}

void ref_xielu(float *x, size_t n, float square, float bend, float slope)
{
    for (size_t i = 0; i < n; i++)
        x[i] = num_xielu(x[i], square, bend, slope);
}

static float activate(enum glu_kind kind, float x)
{
    switch (kind) {
    case GLU_SILU: return num_silu(x);
    case GLU_GELU: return num_gelu(x);
    case GLU_SIGMOID: return num_sigmoid(x);
    case GLU_RELU: return num_relu(x);
    case GLU_SOFTPLUS: return num_softplus(x);
    case GLU_LINEAR:
    case GLU_CLAMPED: /* these have a form of their own */
    case GLU_GELU_ALONE:
    case GLU_TANH_ALONE: break;
    }
    return x;
}

static float gated(enum glu_kind kind, float gate, float up)
{
    if (kind == GLU_CLAMPED) return num_clamped_glu(gate, up);
    if (kind == GLU_GELU_ALONE) return num_gelu(gate);
    if (kind == GLU_TANH_ALONE) return num_keep(num_tanh(gate));
    return num_keep(activate(kind, gate) * up);
}

void ref_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gated(kind, gate[i], up[i]);
}

void ref_add(const float *a, const float *b, float scale, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = num_keep(a[i] + b[i] * scale);
}

void ref_logits(const float *x, size_t n, float scale, float softcap, float *out)
{
    float inverse = softcap == 0.0f ? 0.0f : (float)(1.0 / (double)softcap);
    for (size_t i = 0; i < n; i++) {
        float y = num_keep(x[i] * scale);
        out[i] = softcap == 0.0f ? y : num_keep(softcap * num_tanh(y * inverse));
    }
}

void ref_embed(const struct cpu_weight *table, size_t row, float scale, float *out)
{
    const struct weight *w = &table->base;
    assert(row < w->n_rows);
    size_t row_bytes = qtype_bytes(w->type, w->n_cols);
    qtype_dequant(w->type, table->file + row * row_bytes, w->n_cols, out);
    for (size_t i = 0; i < w->n_cols; i++)
        out[i] = num_keep(num_keep(out[i]) * scale);
}

/* What an expert is chosen by. */
struct choice {
    const float *scores, *bias; /* bias NULL: none */
    size_t group_len;           /* 0: there are no groups */
    uint64_t groups;            /* a bit for each whose experts may be chosen */
};

static float value(const struct choice *c, size_t e)
{
    return c->bias ? num_keep(c->scores[e] + c->bias[e]) : c->scores[e];
}

static int32_t rating(const struct choice *c, size_t e)
{
    return num_order(value(c, e));
}

/* Whether expert a comes before b: by rating (NaN first), ties to the lower id. */
static bool better(const struct choice *c, size_t a, size_t b)
{
    int32_t x = rating(c, a), y = rating(c, b);
    return x != y ? x > y : a < b;
}

static void choose(const struct choice *c, size_t n, int32_t *ids, size_t n_used)
{
    for (size_t j = 0; j < n_used; j++) {
        size_t best = n;
        for (size_t e = 0; e < n; e++) {
            if (c->group_len && !(c->groups >> e / c->group_len & 1)) continue;
            if (j > 0 && !better(c, (size_t)ids[j - 1], e)) continue;
            if (best == n || better(c, e, best)) best = e;
        }
        ids[j] = (int32_t)best;
    }
}

/* Weights are the softmax over all experts, whose maximum is the first by score and whose sum
 * has the shape of all row sums; chosen on the scores, or with a bias on it and the weights. */
static void route_softmax(float *scores, const float *bias, size_t n, size_t n_used,
                          int32_t *ids, float *weights)
{
    const struct choice by_score = {.scores = scores};
    const struct choice by_weight = {.scores = scores, .bias = bias};
    choose(&by_score, n, ids, bias ? 1 : n_used);
    float max = scores[ids[0]], partial[ROW_PARTIALS] = {0};
    for (size_t e = 0; e < n; e++) {
        scores[e] = num_exp(scores[e] - max);
        accumulate(partial, e, scores[e]);
    }
    float inverse = num_rcp(fold(partial, n));
    for (size_t e = 0; e < n; e++)
        scores[e] = num_keep(scores[e] * inverse);
    if (bias) choose(&by_weight, n, ids, n_used);
    for (size_t j = 0; j < n_used; j++)
        weights[j] = scores[ids[j]];
}

/* A group counts by the sum of its two best. */
static int32_t group_rating(const struct choice *c, size_t group)
{
    const size_t first = group * c->group_len;
    size_t a = first, b = first + 1;
    if (better(c, b, a)) a = first + 1, b = first;
    for (size_t e = first + 2; e < first + c->group_len; e++) {
        if (better(c, e, a))
            b = a, a = e;
        else if (better(c, e, b))
            b = e;
    }
    return num_order(num_keep(value(c, a) + value(c, b)));
}

/* Ties to the lower group. */
static void choose_groups(struct choice *c, size_t n, const struct op_route *op)
{
    int32_t ratings[MAX_ROUTE_GROUPS];
    c->group_len = n / op->n_groups;
    for (size_t g = 0; g < op->n_groups; g++)
        ratings[g] = group_rating(c, g);
    for (size_t j = 0; j < op->n_groups_used; j++) {
        size_t best = op->n_groups;
        for (size_t g = 0; g < op->n_groups; g++)
            if (!(c->groups >> g & 1) && (best == op->n_groups || ratings[g] > ratings[best]))
                best = g;
        c->groups |= (uint64_t)1 << best;
    }
}

/* Weights are the sigmoids; chosen on them and the bias. */
static void route_sigmoid(const struct op_route *op, float *scores, const float *bias,
                          int32_t *ids, float *weights)
{
    const size_t n = op->scores.n, n_used = op->out.n;
    for (size_t e = 0; e < n; e++)
        scores[e] = num_keep(num_sigmoid(scores[e]));
    struct choice c = {.scores = scores, .bias = bias};
    if (op->n_groups > 0) choose_groups(&c, n, op);
    choose(&c, n, ids, n_used);
    for (size_t j = 0; j < n_used; j++)
        weights[j] = scores[ids[j]];
}

/* Renormalising divides by the sum of the chosen, added by rank and at least 2^-14. */
void ref_route(const struct op_route *op, float *scores, const float *select,
               const float *scales, int32_t *ids, float *weights)
{
    size_t n = op->scores.n, n_used = op->out.n;
    if (op->kind == ROUTE_EACH) {
        for (size_t j = 0; j < n_used; j++)
            ids[j] = (int32_t)j, weights[j] = 1;
        return;
    }
    assert(n_used > 0 && n_used <= n);
    if (op->kind == ROUTE_GIVEN) {
        for (size_t j = 0; j < n_used; j++)
            ids[j] = (int32_t)j, weights[j] = num_keep(scores[j]);
        return;
    }
    if (op->kind == ROUTE_SIGMOID)
        route_sigmoid(op, scores, select, ids, weights);
    else
        route_softmax(scores, select, n, n_used, ids, weights);
    if (op->renormalise) {
        float sum = weights[0];
        for (size_t j = 1; j < n_used; j++)
            sum = sum + weights[j];
        float inverse = num_rcp(sum < 0x1p-14f ? 0x1p-14f : sum);
        for (size_t j = 0; j < n_used; j++)
            weights[j] = num_keep(weights[j] * inverse);
    }
    for (size_t j = 0; j < n_used; j++) {
        weights[j] = num_keep(weights[j] * op->scale);
        if (scales) weights[j] = num_keep(weights[j] * scales[ids[j]]);
    }
}

void ref_combine(const float *in, size_t stride, const float *weights, size_t n_used, size_t n,
                 float *out)
{
    for (size_t i = 0; i < n; i++) {
        float sum = in[i] * weights[0];
        for (size_t j = 1; j < n_used; j++)
            sum = sum + in[j * stride + i] * weights[j];
        out[i] = num_keep(sum);
    }
}
