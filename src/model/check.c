/* Proves a program: every rule of ops.h, op by op.
 *
 * The walk keeps, per buffer, which values have been written, so that an op that reads what
 * nothing wrote (uninitialised scratch on a device) is found at open and not as noise in the
 * logits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/impl.h"
#include "backend/kv.h"
#include "base/mem.h"
#include "model/program.h"

struct walk {
    const struct program *p;
    struct err *err;
    size_t at;               /* index of the op */
    unsigned char **written; /* [n_buffers][width] */
    bool *in_head;           /* [n_buffers]: first written after OP_HEAD_ROWS */
    bool *part_used;         /* [n_states] */
    bool head_rows, failed;
};

static const char *const op_names[] = {
    [OP_EMBED] = "embed",       [OP_CENTRE] = "centre",       [OP_SIZE] = "size",
    [OP_CUT] = "cut",           [OP_NORM] = "norm",           [OP_QUANTISE] = "quantise",
    [OP_MATMUL] = "matmul",     [OP_ROPE] = "rope",           [OP_ROW_SCALE] = "row scale",
    [OP_KV_STORE] = "kv store", [OP_ATTEND] = "attend",       [OP_GLU] = "glu",
    [OP_ADD] = "add",           [OP_ROUTE] = "route",         [OP_MATMUL_EXPERTS] = "experts",
    [OP_COMBINE] = "combine",   [OP_HEAD_ROWS] = "head rows", [OP_LOGITS] = "logits",
    [OP_SCALE] = "scale",       [OP_FACTORS] = "factors",     [OP_LIMIT] = "limit",
    [OP_XIELU] = "xielu",       [OP_CONV] = "conv",           [OP_DECAY] = "decay",
    [OP_RECUR] = "recur",       [OP_RUNS] = "runs",           [OP_ROW_GATE] = "row gate",
    [OP_INPUT] = "input",       [OP_OUTPUT] = "output",
};

const char *op_kind_name(enum op_kind kind)
{
    return op_names[kind];
}

static void demand(struct walk *w, bool holds, const char *what)
{
    if (holds || w->failed) return;
    w->failed = true;
    const struct op *op = &w->p->ops[w->at];
    err_set(w->err, ERR_FORMAT, "op %zu (%s, layer %d): %s", w->at, op_names[op->kind],
            op->layer, what);
}

static bool in_range(struct walk *w, struct ref r, enum row_kind kind)
{
    demand(w, r.buf < w->p->n_buffers, "a buffer that is not there");
    if (w->failed) return false;
    const struct row_buffer *b = &w->p->buffers[r.buf];
    demand(w, b->kind == kind, "a row of the wrong kind");
    demand(w, r.n > 0 && r.at <= b->width && r.n <= b->width - r.at, "values beyond the row");
    demand(w, kind != ROW_A8 || (r.at % 32 == 0 && r.n % 32 == 0), "a broken block of 32");
    return !w->failed;
}

static void reads(struct walk *w, struct ref r, enum row_kind kind)
{
    if (!in_range(w, r, kind)) return;
    demand(w, memchr(w->written[r.buf] + r.at, 0, r.n) == NULL, "it reads what nothing wrote");
}

static void writes(struct walk *w, struct ref r, enum row_kind kind)
{
    if (!in_range(w, r, kind)) return;
    if (w->head_rows && memchr(w->written[r.buf], 1, w->p->buffers[r.buf].width) == NULL)
        w->in_head[r.buf] = true;
    memset(w->written[r.buf] + r.at, 1, r.n);
}

static bool same(struct ref a, struct ref b)
{
    return a.buf == b.buf && a.at == b.at && a.n == b.n;
}

static bool apart(struct ref a, struct ref b)
{
    return a.buf != b.buf || a.at + a.n <= b.at || b.at + b.n <= a.at;
}

static void matrix(struct walk *w, const struct weight *m, size_t n_mats, size_t n_rows,
                   size_t n_cols)
{
    demand(w, m && m->n_mats == n_mats && m->n_rows == n_rows && m->n_cols == n_cols,
           "a matrix of another shape");
}

static void vector(struct walk *w, const struct weight *v, size_t n)
{
    demand(w, v && v->type == QTYPE_F32 && v->n_mats == 1 && v->n_rows == 1 && v->n_cols == n,
           "a vector of another length");
}

/* The input a matrix reads by its type; its columns. */
static size_t product_input(struct walk *w, const struct weight *wt, struct ref f32,
                            struct ref a8)
{
    const bool quantised = weight_quantised(wt);
    const struct ref in = quantised ? a8 : f32;
    demand(w, in.n > 0, "no input of the kind that its matrix reads");
    return in.n;
}

/* Of positions there may be any number: steps are held against it. */
static void check_embed(struct walk *w, const struct op_embed *o)
{
    const size_t n_rows = o->by_pos && o->table ? o->table->n_rows : w->p->n_vocab;
    matrix(w, o->table, 1, n_rows, o->out.n);
    writes(w, o->out, ROW_F32);
}

static void check_matmul(struct walk *w, const struct op_matmul *o)
{
    if (o->in_f32.n) reads(w, o->in_f32, ROW_F32);
    if (o->in_a8.n) reads(w, o->in_a8, ROW_A8);
    demand(w, !o->in_f32.n || !o->in_a8.n || o->in_f32.n == o->in_a8.n,
           "inputs of two lengths");
    demand(w, o->n_mats >= 1 && o->n_mats <= 3, "not 1 to 3 matrices");
    for (uint32_t i = 0; i < o->n_mats && !w->failed; i++) {
        const struct ref out = o->mat[i].out;
        matrix(w, o->mat[i].w, 1, out.n, product_input(w, o->mat[i].w, o->in_f32, o->in_a8));
        if (o->mat[i].factor) vector(w, o->mat[i].factor, 1);
        demand(w, !o->mat[i].factor || weight_quantised(o->mat[i].w), "a factor of floats");
        if (o->mat[i].bias) vector(w, o->mat[i].bias, out.n);
        demand(w, !o->in_f32.n || apart(out, o->in_f32), "it writes over its input");
        for (uint32_t j = 0; j < i; j++)
            demand(w, apart(out, o->mat[j].out), "two matrices write the same values");
        writes(w, out, ROW_F32);
    }
}

static void check_experts(struct walk *w, const struct op_matmul_experts *o)
{
    reads(w, o->route, ROW_ROUTE);
    if (o->in_f32.n) reads(w, o->in_f32, ROW_F32);
    if (o->in_a8.n) reads(w, o->in_a8, ROW_A8);
    const size_t n_in = product_input(w, o->w, o->in_f32, o->in_a8);
    if (w->failed) return;
    const size_t parts = o->split ? o->route.n : 1;
    demand(w, o->out.n % o->route.n == 0 && n_in % parts == 0, "ranks of unequal length");
    const size_t n_mats = o->w ? o->w->n_mats : 0, n_out = o->out.n / o->route.n;
    matrix(w, o->w, n_mats, n_out, n_in / parts);
    demand(w, o->n_parts > 0 && n_mats % o->n_parts == 0 && o->part < o->n_parts,
           "a part that experts do not have");
    if (w->failed) return;
    demand(w, o->route.n <= n_mats / o->n_parts * experts_n_share(o),
           "more ranks than experts");
    if (o->factors) vector(w, o->factors, n_mats / o->n_parts);
    demand(w, !o->factors || weight_quantised(o->w), "factors of floats");
    if (o->bias) vector(w, o->bias, n_mats / o->n_parts * n_out);
    demand(w, !o->in_f32.n || apart(o->out, o->in_f32), "it writes over its input");
    writes(w, o->out, ROW_F32);
}

static void check_attention(struct walk *w, const struct op *op)
{
    const bool store = op->kind == OP_KV_STORE;
    const uint32_t index = store ? op->kv_store.kv : op->attend.kv;
    demand(w, index < w->p->n_kv, "a KV layer that is not there");
    if (w->failed) return;
    const struct kv_layer *kv = &w->p->kv[index];
    if (store) {
        reads(w, op->kv_store.k, ROW_F32);
        reads(w, op->kv_store.v, ROW_F32);
        demand(w, op->kv_store.k.n == kv->n_heads * kv->head_dim_k, "keys of another width");
        demand(w, op->kv_store.v.n == kv->n_heads * kv->head_dim_v, "values of another width");
        demand(w, !w->head_rows, "it stores the rows with logits only");
        return;
    }
    const struct op_attend *o = &op->attend;
    reads(w, o->q, ROW_F32);
    demand(w, o->n_heads > 0 && o->n_heads % kv->n_heads == 0,
           "heads that do not share evenly");
    demand(w, o->q.n == o->n_heads * kv->head_dim_k, "queries of another width");
    demand(w, o->out.n == o->n_heads * kv->head_dim_v, "an output of another width");
    demand(w, apart(o->q, o->out), "it writes over its input");
    demand(w, kv->part == PAGE_FULL || (o->window > 0 && window_len(o->window) <= w->p->window),
           "it sees rows that may be gone");
    demand(w, o->slope_step >= 0 && o->slope_step * (float)o->n_heads < 64,
           "slopes that are out of range");
    if (o->sinks) vector(w, o->sinks, o->n_heads);
    writes(w, o->out, ROW_F32);
}

static void check_rope(struct walk *w, const struct op_rope *o)
{
    reads(w, o->x, ROW_F32);
    demand(w, o->rope < w->p->n_ropes, "a rope that is not there");
    if (w->failed) return;
    const size_t n_rot = w->p->ropes[o->rope].n_rot;
    demand(w, o->head_dim > 0 && o->x.n % o->head_dim == 0, "a broken head");
    demand(w, n_rot >= 2 && n_rot % 2 == 0 && n_rot <= o->head_dim,
           "a rotation beyond the head");
}

static void check_route(struct walk *w, const struct op_route *o)
{
    const bool each = o->kind == ROUTE_EACH;
    if (!each) reads(w, o->scores, ROW_F32);
    demand(w, o->kind != ROUTE_GIVEN || (o->out.n == o->scores.n && !o->select && !o->scales),
           "all have their number's rank, and yet there are others");
    demand(w, !each || (o->scores.n == 0 && !o->select && !o->scales),
           "all are chosen, and yet by something");
    demand(w, each || o->out.n <= o->scores.n, "more experts chosen than there are");
    if (o->n_groups > 0) {
        const size_t n_experts = o->scores.n, len = n_experts / o->n_groups;
        demand(w, o->kind == ROUTE_SIGMOID && o->n_groups <= MAX_ROUTE_GROUPS,
               "groups of another router, or too many");
        demand(w, n_experts % o->n_groups == 0 && len >= 2, "broken groups");
        demand(w, o->n_groups_used > 0 && o->n_groups_used <= o->n_groups, "no groups to use");
        demand(w, o->out.n <= len * o->n_groups_used, "more experts chosen than there are");
    }
    if (o->select) vector(w, o->select, o->scores.n);
    if (o->scales) vector(w, o->scales, o->scores.n);
    writes(w, o->out, ROW_ROUTE);
}

static void check_combine(struct walk *w, const struct op_combine *o)
{
    reads(w, o->in, ROW_F32);
    reads(w, o->route, ROW_ROUTE);
    demand(w, o->in.n == o->route.n * o->out.n, "ranks of another width");
    demand(w, apart(o->in, o->out), "it writes over its input");
    writes(w, o->out, ROW_F32);
}

static void check_logits(struct walk *w, const struct op_logits *o)
{
    reads(w, o->in, ROW_F32);
    demand(w, w->head_rows && w->at + 1 == w->p->n_ops, "not the last op after head rows");
    demand(w, o->in.n == w->p->n_vocab, "not as wide as the vocabulary");
    if (w->failed) return;
    demand(w, o->in.at == 0 && w->p->buffers[o->in.buf].width == w->p->n_vocab,
           "a buffer that holds more than the logits");
    demand(w, w->in_head[o->in.buf], "a buffer in use before head rows");
}

static void check_elementwise(struct walk *w, const struct op *op)
{
    struct ref a, b, out;
    if (op->kind == OP_GLU) {
        a = op->glu.gate, b = op->glu.up, out = op->glu.out;
    } else {
        a = op->add.a, b = op->add.b, out = op->add.out;
    }
    reads(w, a, ROW_F32);
    reads(w, b, ROW_F32);
    demand(w, a.n == b.n && a.n == out.n, "rows of different widths");
    demand(w, same(out, a) || apart(out, a), "it writes over part of its input");
    demand(w, same(out, b) || apart(out, b), "it writes over part of its input");
    writes(w, out, ROW_F32);
}

static void check_centre(struct walk *w, const struct op_centre *o)
{
    reads(w, o->in, ROW_F32);
    demand(w, o->in.n > 0 && o->in.n == o->out.n, "rows of different widths");
    demand(w, o->group > 0 && o->in.n % o->group == 0, "a broken group");
    demand(w, same(o->in, o->out) || apart(o->in, o->out), "it writes over part of its input");
    writes(w, o->out, ROW_F32);
}

static void check_size(struct walk *w, const struct op_size *o)
{
    reads(w, o->in, ROW_F32);
    demand(w, o->in.n > 0 && o->out.n == 1 && apart(o->in, o->out),
           "no single size beside the row");
    writes(w, o->out, ROW_F32);
}

/* Of ops whose output has the place of their input or one apart. */
static void check_in_and_out(struct walk *w, struct ref in, struct ref out)
{
    reads(w, in, ROW_F32);
    demand(w, in.n > 0 && in.n == out.n, "rows of different widths");
    demand(w, same(in, out) || apart(in, out), "it writes over part of its input");
    writes(w, out, ROW_F32);
}

static void check_norm(struct walk *w, const struct op_norm *o)
{
    reads(w, o->in, ROW_F32);
    demand(w, o->in.n == o->out.n, "rows of different widths");
    demand(w, o->group > 0 && o->in.n % o->group == 0, "a broken group");
    demand(w, same(o->in, o->out) || apart(o->in, o->out), "it writes over part of its input");
    if (o->w) vector(w, o->w, o->w->n_cols == o->in.n ? o->in.n : o->group);
    demand(w, !o->bias || o->w, "a bias without weights");
    if (o->bias && o->w) vector(w, o->bias, o->w->n_cols);
    writes(w, o->out, ROW_F32);
}

/* A part of the state: it is there, has n floats, belongs to this op alone, takes all rows. */
static void part(struct walk *w, uint32_t state, size_t n)
{
    demand(w, state < w->p->n_states, "a state that is not there");
    if (w->failed) return;
    demand(w, w->p->states[state].n == n, "a state of another size");
    demand(w, !w->part_used[state], "a state that another op has");
    demand(w, !w->head_rows, "it advances by the rows with logits only");
    w->part_used[state] = true;
}

static void check_conv(struct walk *w, const struct op_conv *o)
{
    reads(w, o->in, ROW_F32);
    demand(w, o->n_taps >= 2, "no taps before the row");
    demand(w, o->in.n == o->out.n, "rows of different widths");
    demand(w, apart(o->in, o->out), "it writes over its input");
    vector(w, o->w, o->n_taps * o->in.n);
    if (o->bias) vector(w, o->bias, o->in.n);
    part(w, o->state, (o->n_taps - 1) * o->in.n);
    writes(w, o->out, ROW_F32);
}

static void check_decay(struct walk *w, const struct op_decay *o)
{
    const size_t n_heads = decay_n_heads(o), n = n_heads * decay_n_each(o);
    const bool fixed = o->in.n == 0;
    if (!fixed) reads(w, o->in, ROW_F32);
    demand(w, o->out.n == n + n_heads, "heads of another number");
    demand(w, fixed || o->in.n == (o->betas ? n + n_heads : n), "heads of another number");
    demand(w, !fixed || (!o->betas && !o->bias), "no input, and yet betas or biases");
    demand(w, o->bound == 0 || (o->bound < 0 && !fixed), "a bound that decays cannot have");
    demand(w, o->betas || n == n_heads, "many decays without betas");
    demand(w, !o->by_exp || (!fixed && !o->betas && o->bound == 0),
           "exponentials beside another rule");
    demand(w, !o->betas || (o->run > 0 && n_heads % o->run == 0), "a broken run of betas");
    demand(w, fixed || apart(o->in, o->out), "it writes over its input");
    if (!fixed) vector(w, o->bias, n);
    vector(w, o->a, n_heads);
    writes(w, o->out, ROW_F32);
}

static size_t n_gates(const struct op_recur *o)
{
    size_t each = 2;
    if (o->erase)
        each = 3 * (size_t)o->n_dim;
    else if (o->a)
        each = o->n_width;
    else if (o->by_dim)
        each = (size_t)o->n_dim + 1;
    return o->n_heads * each;
}

static void check_recur(struct walk *w, const struct op_recur *o)
{
    reads(w, o->q, ROW_F32);
    reads(w, o->k, ROW_F32);
    reads(w, o->v, ROW_F32);
    reads(w, o->gates, ROW_F32);
    demand(w, o->n_heads > 0 && o->n_groups > 0 && o->n_dim > 0 && o->n_width > 0,
           "a state without values");
    demand(w, o->n_groups > 0 && o->n_heads % o->n_groups == 0,
           "heads that do not share evenly");
    demand(w, o->q.n == (size_t)o->n_groups * o->n_dim && o->k.n == o->q.n,
           "queries or keys of another width");
    demand(w, o->v.n == (size_t)o->n_heads * o->n_width && o->out.n == o->v.n,
           "values of another width");
    demand(w, o->gates.n == n_gates(o), "gates of another number");
    demand(w, !o->erase || (o->by_dim && !o->delta && !o->skip && !o->a),
           "an erasure beside another rule");
    demand(w, !o->a || (!o->delta && !o->by_dim && !o->skip),
           "decays of values beside another rule");
    demand(w, apart(o->v, o->out) && apart(o->q, o->out) && apart(o->k, o->out),
           "it writes over its input");
    if (o->skip) vector(w, o->skip, o->n_heads);
    if (o->a) vector(w, o->a, (size_t)o->n_heads * o->n_dim * o->n_width);
    part(w, o->state, (size_t)o->n_heads * o->n_dim * o->n_width);
    writes(w, o->out, ROW_F32);
}

static void check_runs(struct walk *w, const struct op_runs *o)
{
    const size_t turn = o->run_a + o->run_b;
    if (!o->join) reads(w, o->all, ROW_F32);
    if (o->join) reads(w, o->a, ROW_F32), reads(w, o->b, ROW_F32);
    demand(w, o->run_a > 0 && o->run_b > 0 && o->all.n % turn == 0, "a broken run");
    if (w->failed) return;
    const size_t n_turns = o->all.n / turn;
    demand(w, o->a.n == n_turns * o->run_a || (o->join && o->a.n == o->run_a),
           "parts of another width");
    demand(w, o->b.n == n_turns * o->run_b, "parts of another width");
    demand(w, apart(o->all, o->a) && apart(o->all, o->b) && (o->join || apart(o->a, o->b)),
           "it writes over its input");
    if (!o->join) writes(w, o->a, ROW_F32), writes(w, o->b, ROW_F32);
    if (o->join) writes(w, o->all, ROW_F32);
}

static void check_row_gate(struct walk *w, const struct op_row_gate *o)
{
    reads(w, o->x, ROW_F32);
    reads(w, o->gate, ROW_F32);
    demand(w, o->gate.n > 0 && o->x.n % o->gate.n == 0 && apart(o->x, o->gate),
           "no gates beside the row, one for each of equal runs");
}

/* Of products that must not be denormal. */
static bool is_factor(float x)
{
    return x == 0 || fabsf(x) >= 0x1p-20f;
}

static void check_op(struct walk *w, const struct op *op)
{
    switch (op->kind) {
    case OP_EMBED: check_embed(w, &op->embed); break;
    case OP_CENTRE: check_centre(w, &op->centre); break;
    case OP_SIZE: check_size(w, &op->size); break;
    case OP_CUT: check_in_and_out(w, op->cut.in, op->cut.out); break;
    case OP_NORM: check_norm(w, &op->norm); break;
    case OP_QUANTISE:
        reads(w, op->quantise.in, ROW_F32);
        demand(w, op->quantise.in.n == op->quantise.out.n, "rows of different widths");
        writes(w, op->quantise.out, ROW_A8);
        break;
    case OP_MATMUL: check_matmul(w, &op->matmul); break;
    case OP_ROPE: check_rope(w, &op->rope); break;
    case OP_ROW_SCALE:
        reads(w, op->row_scale.x, ROW_F32);
        demand(w, op->row_scale.scale < w->p->n_row_scales, "a row scale that is not there");
        break;
    case OP_SCALE: reads(w, op->scale.x, ROW_F32); break;
    case OP_FACTORS:
        vector(w, op->factors.w, op->factors.in.n);
        if (op->factors.bias) vector(w, op->factors.bias, op->factors.in.n);
        check_in_and_out(w, op->factors.in, op->factors.out);
        break;
    case OP_LIMIT:
        reads(w, op->limit.x, ROW_F32);
        demand(w, op->limit.limit > 0, "no positive limit");
        break;
    case OP_XIELU:
        reads(w, op->xielu.x, ROW_F32);
        demand(w, is_factor(op->xielu.square) && is_factor(op->xielu.bend),
               "a factor that is almost 0");
        break;
    case OP_KV_STORE:
    case OP_ATTEND: check_attention(w, op); break;
    case OP_GLU:
    case OP_ADD: check_elementwise(w, op); break;
    case OP_ROUTE: check_route(w, &op->route); break;
    case OP_MATMUL_EXPERTS: check_experts(w, &op->experts); break;
    case OP_COMBINE: check_combine(w, &op->combine); break;
    case OP_CONV: check_conv(w, &op->conv); break;
    case OP_DECAY: check_decay(w, &op->decay); break;
    case OP_RECUR: check_recur(w, &op->recur); break;
    case OP_RUNS: check_runs(w, &op->runs); break;
    case OP_ROW_GATE: check_row_gate(w, &op->row_gate); break;
    case OP_HEAD_ROWS:
        demand(w, !w->head_rows, "a second one");
        w->head_rows = true;
        break;
    case OP_LOGITS: check_logits(w, &op->logits); break;
    case OP_INPUT:
        demand(w, op->input.at + op->input.out.n <= w->p->n_input, "more than its input");
        writes(w, op->input.out, ROW_F32);
        break;
    case OP_OUTPUT:
        demand(w, op->output.at + op->output.in.n <= w->p->n_output, "more than its output");
        reads(w, op->output.in, ROW_F32);
        demand(w, !w->head_rows, "it leaves the rows with logits only");
        break;
    }
}

/* What every head has is a unit, and nothing lies between. */
static bool check_unit(const struct program *p, enum page_part part)
{
    const size_t unit = p->page_unit[part];
    size_t n_bytes = 0;
    for (size_t i = 0; i < p->n_kv; i++) {
        if (p->kv[i].part != part) continue;
        if (unit != 0 && kv_head_bytes(&p->kv[i]) != unit) return false;
        n_bytes += kv_layer_bytes(&p->kv[i]);
    }
    return unit == 0 || n_bytes == p->page_bytes[part];
}

/* Each layer after the one before, aligned, within the part. */
static bool check_pages(const struct program *p, struct err *err)
{
    size_t ends[PAGE_PARTS] = {0};
    for (size_t i = 0; i < p->n_kv; i++) {
        const struct kv_layer *kv = &p->kv[i];
        size_t *end = &ends[kv->part];
        if (kv->at < *end || kv->at % 64)
            return err_set(err, ERR_FORMAT, "KV layer %zu overlaps another", i);
        if (kv_type_codes(kv->type) &&
            (!kv_codes_fit(kv->head_dim_k) || !kv_codes_fit(kv->head_dim_v)))
            return err_set(err, ERR_FORMAT, "KV layer %zu has heads that codes do not fit", i);
        *end = kv->at + kv_layer_bytes(kv);
    }
    for (int part = 0; part < PAGE_PARTS; part++) {
        if (ends[part] > p->page_bytes[part])
            return err_set(err, ERR_FORMAT, "KV layers exceed the page");
        if (!check_unit(p, (enum page_part)part))
            return err_set(err, ERR_FORMAT, "a page is not made of its units");
    }
    return true;
}

/* Parts in order, aligned, within the state. */
static bool check_states(const struct program *p, struct err *err)
{
    size_t end = 0;
    for (size_t i = 0; i < p->n_states; i++) {
        const struct state_part *s = &p->states[i];
        if (s->at < end || s->at % 64)
            return err_set(err, ERR_FORMAT, "state %zu overlaps another", i);
        end = s->at + s->n * sizeof(float);
    }
    if (end > p->state_bytes) return err_set(err, ERR_FORMAT, "states exceed their bytes");
    return true;
}

bool program_check(const struct program *p, struct err *err)
{
    if (!check_pages(p, err) || !check_states(p, err)) return false;
    const enum op_kind last = p->n_output ? OP_OUTPUT : OP_LOGITS;
    if (p->n_ops == 0 || p->ops[p->n_ops - 1].kind != last)
        return err_set(err, ERR_FORMAT, "no %s at the end", op_names[last]);
    struct walk w = {.p = p, .err = err};
    w.written = mem_zalloc(p->n_buffers, sizeof *w.written);
    w.in_head = mem_zalloc(p->n_buffers, sizeof *w.in_head);
    w.part_used = mem_zalloc(p->n_states, sizeof *w.part_used);
    for (size_t i = 0; i < p->n_buffers; i++)
        w.written[i] = mem_zalloc(p->buffers[i].width, 1);
    for (; w.at < p->n_ops && !w.failed; w.at++)
        check_op(&w, &p->ops[w.at]);
    for (size_t i = 0; i < p->n_buffers; i++)
        free(w.written[i]);
    free(w.written);
    free(w.in_head);
    free(w.part_used);
    return !w.failed;
}
