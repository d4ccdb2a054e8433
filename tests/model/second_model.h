/* Models whose logits are computed twice: hearth runs a small random file, and a second
 * computation does the same in double and in plain loops, told what each layer should see and
 * how it should rotate (struct sight). What goes wrong in here fails the cmocka test that
 * called. */
#ifndef TESTS_SECOND_MODEL_H
#define TESTS_SECOND_MODEL_H

#include "../chance.h"
#include "../changed_model.h"
#include "../golden.h"
#include "../soak.h"
#include "random_file.h"

enum { N_IDS = 40, MAX_PAIRS = HEAD_DIM / 2 };
/* Of what F32 costs: measured 4e-12 at most; what is looked for here gives 1e-3 or more. */
static const double tolerance = 1e-11;

static inline int32_t id_at(size_t i)
{
    return (int32_t)(i * 29 % VOCAB);
}

/* Rows without logits leave what later ones read: the last is the same where it alone has some.
 */
static inline void run_last(struct runner *r, const int32_t *ids, const float *want)
{
    float last[VOCAB];
    runner_run(r, ids, N_IDS - 1, 0, NULL);
    runner_run(r, ids + N_IDS - 1, 1, N_IDS - 1, last);
    assert_memory_equal(last, want, sizeof last);
}

/* The file with some changes of chance, half of them of keys' values, is refused or runs. */
static inline void check_changes(const struct runner *r, const struct buf *b,
                                 const struct model_params *params)
{
    static const uint32_t odd[] = {0,      1,        2,          3,          8,
                                   0xffff, 1u << 31, UINT32_MAX, 0x3f800000, 0x7fc00000};
    enum { N_ODD = sizeof odd / sizeof *odd, N_FILES = 200, MOST = 3 };
    const struct model_file file = {b->data, b->len, r->g};
    for (uint32_t i = 0; i < N_FILES * soak(); i++) {
        uint32_t words[MOST][2];
        const size_t n = 1 + below(MOST);
        for (size_t k = 0; k < n; k++) {
            words[k][0] = below(2) ? chance_word() << 8 : chance_word(); /* the first: values */
            words[k][1] = below(2) ? odd[below(N_ODD)] : chance_word();
        }
        changes_survive(&file, (const uint8_t *)words, n * sizeof *words, params);
    }
}

/* Runs the file in steps of o.batch rows on the CPU. b has its bytes until it is closed. */
static inline void open_file(struct runner *r, const struct file *f, struct runner_options o,
                             struct buf *b)
{
    struct err err;
    write_file(f, b);
    *r = (struct runner){.o = o};
    r->g = gguf_from_memory(b->data, b->len, "m.gguf", &err);
    if (!r->g) fail_msg("%s", err.msg);
    r->be = cpu_open(&(struct cpu_options){.n_threads = o.n_threads}, &err);
    if (!r->be) fail_msg("%s", err.msg);
    const struct model_params params = {.kv_type = o.kv_type};
    check_changes(r, b, &params);
    r->m = model_open(r->g, r->be, &params, NULL, NULL, &err);
    if (!r->m) fail_msg("%s", err.msg);
    r->x = exec_new(r->be, model_program(r->m), o.batch, &err);
    if (!r->x) fail_msg("%s", err.msg);
}

static inline void all_ids(int32_t *ids)
{
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = id_at(i);
}

/* What hearth makes of the file: [N_IDS][VOCAB]. */
static inline void run(const struct file *f, float *logits)
{
    const struct runner_options o = {.n_threads = 1, .kv_type = KV_F32, .batch = 16};
    struct buf b = {0};
    struct runner r;
    int32_t ids[N_IDS];
    open_file(&r, f, o, &b);
    all_ids(ids);
    runner_run(&r, ids, N_IDS, 0, logits);
    run_last(&r, ids, logits + (size_t)(N_IDS - 1) * VOCAB);
    runner_close(&r);
    buf_free(&b);
}

/* ---- the second computation ---- */

static inline double or_one(double scale)
{
    return scale > 0 ? scale : 1;
}

struct rotation {
    size_t n_rot;    /* 0: nothing rotates */
    bool neighbours; /* pairs 2i and 2i+1, else i and i + n_rot/2 */
    double freq[MAX_PAIRS], scale;
};

/* What a layer should do. */
struct sight {
    size_t window; /* 0: all; as in struct op_attend */
    struct rotation rotation;
};

static inline struct rotation plain_rotation(size_t n_rot, double base)
{
    struct rotation r = {.n_rot = n_rot, .scale = 1};
    for (size_t i = 0; i < n_rot / 2; i++)
        r.freq[i] = pow(base, -2.0 * (double)i / (double)n_rot);
    return r;
}

static inline double yarn_pair(size_t n_rot, double base, double n_orig, double turns)
{
    return (double)n_rot * log(n_orig / (2.0 * M_PI * turns)) / (2.0 * log(base));
}

static inline struct rotation yarn_rotation(size_t n_rot, double base, double factor,
                                            double n_orig)
{
    struct rotation r = plain_rotation(n_rot, base);
    const double low = fmax(0, floor(yarn_pair(n_rot, base, n_orig, 32)));
    const double high = fmin((double)n_rot - 1, ceil(yarn_pair(n_rot, base, n_orig, 1)));
    for (size_t i = 0; i < n_rot / 2; i++) {
        const double ramp = fmin(1, fmax(0, ((double)i - low) / fmax(0.001, high - low)));
        r.freq[i] = r.freq[i] / factor * ramp + r.freq[i] * (1 - ramp);
    }
    r.scale = 1 + 0.1 * log(factor);
    return r;
}

static inline const float *values_named(const struct file *f, const char *name)
{
    for (size_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return f->tensors[i].v;
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline const float *values_of(const struct file *f, int layer, const char *what)
{
    char name[48];
    if (layer >= 0)
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    else
        snprintf(name, sizeof name, "%s.weight", what);
    return values_named(f, name);
}

static inline const float *bias_of(const struct file *f, int layer, const char *what)
{
    char name[48];
    if (layer >= 0)
        snprintf(name, sizeof name, "blk.%d.%s.bias", layer, what);
    else
        snprintf(name, sizeof name, "%s.bias", what);
    return values_named(f, name);
}

static inline void times(const float *w, const double *x, size_t n_in, size_t n_out, double *y)
{
    for (size_t o = 0; o < n_out; o++) {
        y[o] = 0;
        for (size_t i = 0; i < n_in; i++)
            y[o] += (double)w[o * n_in + i] * x[i];
    }
}

/* bias NULL: none. */
static inline void add_bias(double *y, const float *bias, size_t n)
{
    for (size_t i = 0; bias && i < n; i++)
        y[i] += (double)bias[i];
}

/* Q, K or V of the row x. */
static inline void project(const struct file *f, int layer, const char *what, const double *x,
                           size_t n_out, double *y)
{
    times(values_of(f, layer, what), x, EMBD, n_out, y);
    if (f->form->biases) add_bias(y, bias_of(f, layer, what), n_out);
    const double limit = f->scales.qkv_limit;
    for (size_t i = 0; limit > 0 && i < n_out; i++)
        y[i] = fmax(-limit, fmin(limit, y[i]));
}

static const double file_eps = 1e-6;

/* w NULL: without factors. */
static inline void norm_by(double eps, const float *w, const double *x, size_t n, double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum / (double)n + eps) * (w ? (double)w[i] : 1);
}

static inline void norm(const float *w, const double *x, size_t n, double *y)
{
    norm_by(file_eps, w, x, n, y);
}

/* LayerNorm takes the mean off first. */
static inline void layer_norm(const float *w, const double *x, size_t n, double *y)
{
    double mean = 0, in[EMBD];
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        in[i] = x[i] - mean;
    norm(w, in, n, y);
}

/* The norm of a row that the form has. */
static inline void row_norm(const struct file *f, int layer, const char *what, const double *x,
                            double *y)
{
    const struct form *form = f->form;
    const float *w = form->norm_bare ? NULL : values_of(f, layer, what);
    if (form->layer_norm)
        layer_norm(w, x, EMBD, y);
    else
        norm(w, x, EMBD, y);
    if (form->norm_biases) add_bias(y, bias_of(f, layer, what), EMBD);
}

/* The norm of what attention or the feed-forward gives. */
static inline void norm_after(const struct file *f, int layer, const char *what, double *y)
{
    const double eps = f->form->after_eps;
    norm_by(eps > 0 ? eps : file_eps, values_of(f, layer, what), y, EMBD, y);
}

static inline void rotate(const struct rotation *r, size_t pos, double *head)
{
    for (size_t i = 0; i < r->n_rot / 2; i++) {
        double *a = r->neighbours ? &head[2 * i] : &head[i];
        double *b = r->neighbours ? &head[2 * i + 1] : &head[i + r->n_rot / 2];
        const double x = *a, y = *b, angle = (double)pos * r->freq[i];
        *a = (x * cos(angle) - y * sin(angle)) * r->scale;
        *b = (x * sin(angle) + y * cos(angle)) * r->scale;
    }
}

static inline void norm_and_rotate(const struct file *f, const float *w,
                                   const struct rotation *r, size_t pos, size_t n_heads,
                                   double *x)
{
    if (f->form->norm_all) norm(w, x, n_heads * HEAD_DIM, x);
    for (size_t h = 0; h < n_heads; h++) {
        double *head = x + h * HEAD_DIM;
        if (f->form->norm_each) layer_norm(w + h * HEAD_DIM, head, HEAD_DIM, head);
        if (f->form->rms_each) norm(w + h * HEAD_DIM, head, HEAD_DIM, head);
        if (f->form->norm_heads && !f->form->norm_last) norm(w, head, HEAD_DIM, head);
        rotate(r, pos, head);
        if (f->form->norm_heads && f->form->norm_last) norm(w, head, HEAD_DIM, head);
        if (f->form->norm_heads_bare && r->n_rot > 0) norm(NULL, head, HEAD_DIM, head);
        for (size_t i = 0; f->form->head_gains && w && i < HEAD_DIM; i++)
            head[i] *= (double)w[h];
    }
}

struct rows {
    double h[N_IDS][EMBD];     /* what a parallel feed-forward reads of x */
    double given[N_IDS][EMBD]; /* x before attention */
    double x[N_IDS][EMBD], q[N_IDS][HEADS * HEAD_DIM], gate[N_IDS][HEADS * HEAD_DIM];
    double k[N_IDS][HEADS * HEAD_DIM], v[N_IDS][HEADS * HEAD_DIM];
};

/* What a score is before the softmax. */
static inline double scaled_score(const struct file *f, double score)
{
    const double cap = f->scales.score_cap;
    if (f->scales.scores > 0)
        score *= f->scales.scores;
    else if (!f->form->plain_scores)
        score /= sqrt(HEAD_DIM);
    return cap > 0 ? cap * tanh(score / cap) : score;
}

/* ALiBi, of a number of heads that may be no power of two. */
static inline double slope_of_head(const struct form *form, size_t h)
{
    const double n = exp2(floor(log2(HEADS))), at = (double)h + 1;
    if (form->max_bias == 0) return 0;
    return exp2(-form->max_bias * (at <= n ? at / n : (2 * (at - n) - 1) / (2 * n)));
}

/* sinks NULL: there are none. */
static inline void attend(const struct file *f, const struct rows *rows, size_t pos,
                          const struct sight *s, const float *sinks, double *out)
{
    const bool chunks = s->window & WINDOW_CHUNKS;
    const size_t window = s->window & ~(size_t)WINDOW_CHUNKS;
    for (size_t h = 0; h < HEADS; h++) {
        const size_t kv = h * kv_count(f->form) / HEADS * HEAD_DIM;
        double weight[N_IDS], sum = sinks ? exp((double)sinks[h]) : 0;
        memset(out + h * HEAD_DIM, 0, HEAD_DIM * sizeof *out);
        for (size_t p = 0; p <= pos; p++) {
            double score = 0;
            for (size_t d = 0; d < HEAD_DIM; d++)
                score += rows->q[pos][h * HEAD_DIM + d] * rows->k[p][kv + d];
            const bool seen =
                window == 0 || (chunks ? pos / window == p / window : pos - p < window);
            const double less = slope_of_head(f->form, h) * (double)(pos - p);
            weight[p] = seen ? exp(scaled_score(f, score) - less) : 0;
            sum += weight[p];
        }
        for (size_t p = 0; p <= pos; p++)
            for (size_t d = 0; d < HEAD_DIM; d++)
                out[h * HEAD_DIM + d] += weight[p] / sum * rows->v[p][kv + d];
    }
}

static inline double activation(const struct form *form, double x)
{
    if (form->relu) return fmax(x, 0);
    if (form->gelu) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x / (1 + exp(-x));
}

static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Of a gate and up, which tanh lets go so far. */
static inline double situ(const struct form *form, double gate, double up)
{
    const double far = form->situ, up_far = form->situ_up;
    return far * tanh(gate / far) * sigmoid(gate) *
           (up_far > 0 ? up_far * tanh(up / up_far) : up);
}

/* As gpt-oss has it. */
static inline double clamped(double gate, double up)
{
    const double most = 7, g = fmin(gate, most);
    return g * sigmoid(1.702 * g) * (fmax(-most, fmin(most, up)) + 1);
}

/* down(activation(gate x) · up x), without a gate down of the activation of up x or of the
 * squares of what that has above 0. */
struct unit {
    const float *gate, *up, *down;    /* gate NULL: there is none */
    const float *up_bias, *down_bias; /* NULL: none */
    const float *inner_norm;          /* of what down reads; NULL: none */
    size_t n_in, n_ff;
    double limit; /* of what the activation gives or reads, and either way of up; 0: none */
};

static inline double limit_of(const float *limits, int layer)
{
    return limits ? (double)limits[layer] : 0;
}

static inline void run_unit(const struct form *form, const struct unit *u, const double *x,
                            double *y)
{
    double a[FF], b[FF];
    times(u->up, x, u->n_in, u->n_ff, b);
    add_bias(b, u->up_bias, u->n_ff);
    if (u->gate) times(u->gate, x, u->n_in, u->n_ff, a);
    for (size_t i = 0; i < u->n_ff; i++) {
        const double most = u->limit > 0 ? u->limit : HUGE_VAL;
        const double gate = !u->gate            ? 0
                            : form->limit_first ? activation(form, fmin(most, a[i]))
                                                : fmin(most, activation(form, a[i]));
        a[i] = form->situ > 0  ? situ(form, a[i], b[i])
               : form->clamped ? clamped(a[i], b[i])
               : u->gate       ? gate * fmax(-most, fmin(most, b[i]))
               : form->alone   ? activation(form, b[i])
                               : pow(fmax(b[i], 0), 2);
    }
    if (u->inner_norm) norm(u->inner_norm, a, u->n_ff, a);
    times(u->down, a, u->n_ff, u->n_in, y);
    add_bias(y, u->down_bias, u->n_in);
}

/* Takes the experts of one half out of the choice: that whose best two add up to less. */
static inline void keep_better_half(double *choice)
{
    enum { HALF = EXPERTS / 2 };
    double sum[2];
    for (size_t h = 0; h < 2; h++) {
        double best = -HUGE_VAL, second = -HUGE_VAL;
        for (size_t e = h * HALF; e < (h + 1) * HALF; e++) {
            second = fmax(second, fmin(best, choice[e]));
            best = fmax(best, choice[e]);
        }
        sum[h] = best + second;
    }
    for (size_t e = 0; e < HALF; e++)
        choice[e + (sum[1] > sum[0] ? 0 : HALF)] = -HUGE_VAL;
}

/* The weights of the experts for the row x; those that are not chosen get 0. */
static inline void route(const struct file *f, int layer, const double *x, double *weights)
{
    const bool by_sigmoid = f->form->experts.sigmoid;
    char name[48];
    const float *bias =
        f->form->experts.select ? values_named(f, select_name(f->form, layer, name)) : NULL;
    double p[EXPERTS], choice[EXPERTS], sum = 0, chosen = 0;
    times(values_of(f, layer, "ffn_gate_inp"), x, EMBD, EXPERTS, p);
    const double cap = f->scales.route_cap;
    for (size_t e = 0; cap > 0 && e < EXPERTS; e++)
        p[e] = cap * tanh(p[e] / cap);
    for (size_t e = 0; e < EXPERTS; e++)
        sum += p[e] = by_sigmoid ? sigmoid(p[e]) : exp(p[e]);
    for (size_t e = 0; e < EXPERTS; e++) {
        if (!by_sigmoid) p[e] /= sum;
        choice[e] = p[e] + (bias ? (double)bias[e] : 0);
    }
    if (f->form->experts.halves) keep_better_half(choice);
    for (size_t e = 0; e < EXPERTS; e++) {
        size_t n_better = 0;
        for (size_t o = 0; o < EXPERTS; o++)
            n_better += choice[o] > choice[e];
        weights[e] = n_better < (f->form->experts.first ? 1 : USED) ? p[e] : 0;
        chosen += weights[e];
    }
    for (size_t e = 0; e < EXPERTS; e++)
        weights[e] *= or_one(f->scales.experts) / (f->form->experts.as_is ? 1 : chosen);
}

static inline void add_times(double *x, const double *y, double factor)
{
    for (size_t i = 0; i < EMBD; i++)
        x[i] += y[i] * factor;
}

static inline void weigh(double *y, const double *x, double weight)
{
    for (size_t i = 0; i < EMBD; i++)
        y[i] = x[i] * weight;
}

/* What the chosen experts give; the router reads its own row, also where they read less. */
static inline void routed(const struct file *f, int layer, const double *router_x,
                          const double *x, double *y)
{
    const struct form *form = f->form;
    const bool narrow = form->experts.n_latent > 0;
    const size_t n_in = expert_input(form), n_ff = expert_width(form), n = n_in * n_ff;
    const float *gate = has_gate(form) ? values_of(f, layer, "ffn_gate_exps") : NULL;
    const float *up = values_of(f, layer, "ffn_up_exps");
    const float *down = values_of(f, layer, "ffn_down_exps");
    double weights[EXPERTS], in[EMBD], part[EMBD] = {0}, sum[EMBD] = {0};
    route(f, layer, router_x, weights);
    memcpy(in, x, sizeof in);
    const bool named = form->experts.routed;
    if (narrow)
        times(values_of(f, layer, named ? "ffn_routed_down" : "ffn_latent_down"), x, EMBD, n_in,
              in);
    for (size_t e = 0; e < EXPERTS; e++) {
        const struct unit u = {.gate = gate ? gate + e * n : NULL,
                               .up = up + e * n,
                               .down = down + e * n,
                               .n_in = n_in,
                               .n_ff = n_ff,
                               .limit = limit_of(form->expert_limits, layer)};
        if (weights[e] == 0) continue;
        if (form->experts.first) weigh(in, x, weights[e]);
        run_unit(form, &u, in, part);
        add_times(sum, part, form->experts.first ? 1 : weights[e]);
    }
    memcpy(y, sum, sizeof sum);
    if (named) norm(values_of(f, layer, "ffn_routed_norm"), sum, n_in, sum);
    if (narrow)
        times(values_of(f, layer, named ? "ffn_routed_up" : "ffn_latent_up"), sum, n_in, EMBD,
              y);
}

static inline void experts(const struct file *f, int layer, const double *router_x,
                           const double *x, double *y)
{
    const struct form *form = f->form;
    double part[EMBD], gate = 0;
    routed(f, layer, router_x, x, y);
    if (form->experts.n_shared == 0) return;
    struct unit u = {.up = values_of(f, layer, "ffn_up_shexp"),
                     .down = values_of(f, layer, "ffn_down_shexp"),
                     .n_in = EMBD,
                     .n_ff = form->experts.n_shared,
                     .limit = limit_of(form->unit_limits, layer)};
    if (form->experts.shared_in_up) {
        u.gate = u.up;
        u.up += form->experts.n_shared * EMBD;
    } else if (has_gate(form)) {
        u.gate = values_of(f, layer, "ffn_gate_shexp");
    }
    run_unit(form, &u, x, part);
    if (form->experts.shared_gated)
        times(values_of(f, layer, "ffn_gate_inp_shexp"), x, EMBD, 1, &gate);
    add_times(y, part, form->experts.shared_gated ? sigmoid(gate) : 1);
    for (size_t i = 0; form->experts.half && i < EMBD; i++)
        y[i] /= 2;
}

static inline void dense(const struct file *f, int layer, const double *x, double *y)
{
    const struct form *form = f->form;
    const bool biased = form->more_biases, inner = form->norm_inner;
    struct unit u = {.up = values_of(f, layer, "ffn_up"),
                     .down = values_of(f, layer, "ffn_down"),
                     .up_bias = biased ? bias_of(f, layer, "ffn_up") : NULL,
                     .down_bias = biased ? bias_of(f, layer, "ffn_down") : NULL,
                     .inner_norm = inner ? values_of(f, layer, "ffn_sub_norm") : NULL,
                     .n_in = EMBD,
                     .n_ff = FF,
                     .limit = limit_of(form->unit_limits, layer)};
    if (form->gate_in_up) {
        u.gate = u.up;
        u.up += FF * EMBD;
    } else if (has_gate(form)) {
        u.gate = values_of(f, layer, "ffn_gate");
    }
    run_unit(form, &u, x, y);
}

static inline void experts_or_dense(const struct file *f, int layer, const double *router_x,
                                    const double *x, double *y)
{
    double beside[EMBD];
    if (!has_experts(f->form, layer)) {
        dense(f, layer, x, y);
        return;
    }
    experts(f, layer, router_x, x, y);
    if (!f->form->experts.beside) return;
    dense(f, layer, x, beside);
    for (size_t i = 0; i < EMBD; i++)
        y[i] = (y[i] + beside[i]) / sqrt(2);
}

/* h: what it reads if it is parallel to attention, or what an early router reads; NULL: there
 * is neither. */
static inline void feed_forward(const struct file *f, int layer, const double *h, double *x)
{
    const struct form *form = f->form;
    double in[EMBD], out[EMBD];
    memcpy(in, form->parallel ? h : x, sizeof in);
    if (form->norm_before && !form->parallel) row_norm(f, layer, ffn_norm_name(form), x, in);
    experts_or_dense(f, layer, form->experts.early ? h : in, in, out);
    if (form->norm_after) norm_after(f, layer, ffn_after_name(form), out);
    add_times(x, out, or_one(f->scales.residual));
}

static inline void attention(const struct file *f, int layer, const struct sight *s,
                             struct rows *rows)
{
    const struct form *form = f->form;
    const size_t n_kv = kv_count(form);
    const bool normed = form->norm_heads || form->norm_all || form->norm_each || form->rms_each;
    const float *q_norm =
        normed || form->head_gains ? values_of(f, layer, "attn_q_norm") : NULL;
    const float *k_norm = normed ? values_of(f, layer, "attn_k_norm") : NULL;
    const float *sinks = form->sinks ? values_of(f, layer, "attn_sinks") : NULL;
    memcpy(rows->given, rows->x, sizeof rows->given);
    for (size_t p = 0; p < N_IDS; p++) {
        double in[EMBD];
        memcpy(in, rows->x[p], sizeof in);
        if (form->norm_before) row_norm(f, layer, attn_norm_name(form), rows->x[p], in);
        memcpy(rows->h[p], in, sizeof in);
        if (form->parallel && form->feed_norm)
            row_norm(f, layer, form->feed_norm, rows->x[p], rows->h[p]);
        project(f, layer, "attn_q", in, HEADS * HEAD_DIM, rows->q[p]);
        project(f, layer, "attn_k", in, n_kv * HEAD_DIM, rows->k[p]);
        project(f, layer, "attn_v", in, n_kv * HEAD_DIM, rows->v[p]);
        if (form->gate_heads)
            project(f, layer, "attn_gate", in, gate_count(form), rows->gate[p]);
        for (size_t h = 0; form->norm_values && h < n_kv; h++)
            norm(NULL, &rows->v[p][h * HEAD_DIM], HEAD_DIM, &rows->v[p][h * HEAD_DIM]);
        norm_and_rotate(f, q_norm, &s->rotation, p, HEADS, rows->q[p]);
        norm_and_rotate(f, k_norm, &s->rotation, p, n_kv, rows->k[p]);
    }
    for (size_t p = 0; p < N_IDS; p++) {
        double heads[HEADS * HEAD_DIM], out[EMBD];
        attend(f, rows, p, s, sinks, heads);
        for (size_t i = 0; form->gate_heads && i < HEADS * HEAD_DIM; i++) {
            const double gate = rows->gate[p][form->gate_each ? i / HEAD_DIM : i];
            heads[i] *= form->softplus ? log1p(exp(gate)) : sigmoid(gate);
        }
        if (form->norm_inner)
            norm(values_of(f, layer, "attn_sub_norm"), heads, HEADS * HEAD_DIM, heads);
        times(values_of(f, layer, "attn_output"), heads, HEADS * HEAD_DIM, EMBD, out);
        if (form->more_biases) add_bias(out, bias_of(f, layer, "attn_output"), EMBD);
        if (form->norm_after) norm_after(f, layer, attn_after_name(form), out);
        add_times(rows->x[p], out, or_one(f->scales.residual) * or_one(f->scales.attention));
    }
}

static inline void embed(const struct file *f, struct rows *rows)
{
    const double scale = f->form->scaled_embedding ? sqrt(EMBD) : or_one(f->scales.embedding);
    const float *embd = values_of(f, -1, "token_embd");
    const float *places = f->form->n_places > 0 ? values_of(f, -1, "position_embd") : NULL;
    for (size_t p = 0; p < N_IDS; p++)
        for (size_t i = 0; i < EMBD; i++)
            rows->x[p][i] = (double)embd[(size_t)id_at(p) * EMBD + i] * scale +
                            (places ? (double)places[p * EMBD + i] : 0);
    for (size_t p = 0; f->form->norm_embedding && p < N_IDS; p++)
        norm(NULL, rows->x[p], EMBD, rows->x[p]);
    for (size_t p = 0; f->form->embedding_norm && p < N_IDS; p++)
        row_norm(f, -1, "token_embd_norm", rows->x[p], rows->x[p]);
}

static inline void head(const struct file *f, const struct rows *rows, double softcap,
                        float *logits)
{
    for (size_t p = 0; p < N_IDS; p++) {
        double h[EMBD], out[VOCAB];
        row_norm(f, -1, "output_norm", rows->x[p], h);
        times(values_of(f, -1, "output"), h, EMBD, VOCAB, out);
        if (f->form->head_bias) add_bias(out, bias_of(f, -1, "output"), VOCAB);
        for (size_t i = 0; i < VOCAB; i++) {
            const double logit = out[i] / or_one(f->scales.logits);
            logits[p * VOCAB + i] =
                (float)(softcap > 0 ? softcap * tanh(logit / softcap) : logit);
        }
    }
}

/* The logits of a model of n_layer layers that see and rotate as told. */
static inline void compute(const struct file *f, const struct sight *layers, int n_layer,
                           double softcap, float *logits)
{
    struct rows *rows = mem_zalloc(1, sizeof *rows);
    embed(f, rows);
    for (int layer = 0; layer < n_layer; layer++) {
        attention(f, layer, &layers[layer], rows);
        for (size_t p = 0; p < N_IDS; p++)
            feed_forward(f, layer, f->form->experts.early ? rows->given[p] : rows->h[p],
                         rows->x[p]);
    }
    head(f, rows, softcap, logits);
    free(rows);
}

/* That hearth makes of the file what is wanted. */
static inline void check_logits(double most, const char *name, const struct file *f,
                                const float *want)
{
    float *got = mem_zalloc(N_IDS * VOCAB, sizeof *got);
    run(f, got);
    const double nmse = golden_nmse(want, got, N_IDS * VOCAB);
    print_message("# %-40s nmse %.2g\n", name, nmse);
    if (!(nmse <= most)) fail_msg("%s: nmse %.3g exceeds %.3g", name, nmse, most);
    free(got);
}

static inline void check_within(double most, const char *name, const struct file *f,
                                const struct sight *layers, int n_layer, double softcap)
{
    float *want = mem_zalloc(N_IDS * VOCAB, sizeof *want);
    compute(f, layers, n_layer, softcap, want);
    check_logits(most, name, f, want);
    free(want);
}

static inline void check(const char *name, const struct file *f, const struct sight *layers,
                         int n_layer, double softcap)
{
    check_within(tolerance, name, f, layers, n_layer, softcap);
}

static inline void check_refused_for(const struct file *f, const struct model_params *params,
                                     const char *message)
{
    struct buf b = {0};
    struct err err = {0};
    struct model_sizes sizes;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g) fail_msg("%s", err.msg);
    assert_false(model_estimate(g, NULL, params, 1, &sizes, &err));
    assert_string_equal(err.msg, message);
    gguf_close(g);
    buf_free(&b);
}

static inline void check_refused_with(const struct file *f, enum kv_type kv_type,
                                      const char *message)
{
    check_refused_for(f, &(struct model_params){.kv_type = kv_type}, message);
}

static inline void check_refused(const struct file *f, const char *message)
{
    check_refused_with(f, KV_F32, message);
}

static inline struct model_context context_of(const struct file *f, uint32_t n_ctx)
{
    const struct model_params params = {.kv_type = KV_F32, .n_ctx = n_ctx};
    struct model_context context = {0};
    struct buf b = {0};
    struct err err;
    write_file(f, &b);
    struct gguf *g = gguf_from_memory(b.data, b.len, "m.gguf", &err);
    if (!g || !model_context(g, &params, &context, &err)) fail_msg("%s", err.msg);
    gguf_close(g);
    buf_free(&b);
    return context;
}

/* Of the file's 4096 tokens the context has the first n, for beyond this model does what hearth
 * cannot, as key says; one of more that is asked for is refused. */
static inline void check_reach(const struct file *f, uint32_t n, const char *beyond,
                               const char *key)
{
    const struct model_context free = context_of(f, 0), asked = context_of(f, n);
    char message[512];
    assert_int_equal(free.n, n);
    assert_int_equal(free.n_file, 4096);
    assert_string_equal(free.beyond, beyond);
    assert_int_equal(asked.n, n);
    snprintf(message, sizeof message,
             "m.gguf: beyond %u tokens this model %s (%s), which hearth cannot, but the "
             "context is %u: use --ctx %u or less",
             n, beyond, key, n + 1, n);
    check_refused_for(f, &(struct model_params){.kv_type = KV_F32, .n_ctx = n + 1}, message);
}

/* Every period-th layer as `full`, the others as `local`. */
static inline void every(struct sight *layers, int period, struct sight full,
                         struct sight local)
{
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (i + 1) % period == 0 ? full : local;
}

/* A file whose layers, the first n_layer of them, all see everything. */
static inline void check_plain(double most, const char *name, const struct file *f, int n_layer,
                               struct rotation r)
{
    const struct sight s = {0, r};
    struct sight layers[LAYERS];
    every(layers, 1, s, s);
    check_within(most, name, f, layers, n_layer, 0);
}

#endif
