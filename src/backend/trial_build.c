/* A small program for each op: the same kernels, few heads, made-up weights. */
#include "backend/trial_build.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/impl.h"
#include "backend/kv.h"
#include "base/mem.h"
#include "gguf/random_blocks.h"

/* Sizes that change no kernel are cut to these. */
enum { MOST_COLS = 2048, OUT_ROWS = 72, N_EXPERTS = 4, N_USED = 2, MOST_WIDTH = 512 };

/* ---- parts ---- */

static struct ref buffer(struct trial *t, enum row_kind kind, size_t width)
{
    assert(t->p.n_buffers < TRIAL_BUFFERS);
    t->buffers[t->p.n_buffers] = (struct row_buffer){"trial", kind, width};
    return (struct ref){(uint32_t)t->p.n_buffers++, 0, width};
}

static struct ref part(struct ref r, size_t at, size_t n)
{
    return (struct ref){r.buf, r.at + at, n};
}

static struct op *add(struct trial *t, enum op_kind kind)
{
    assert(t->p.n_ops < TRIAL_OPS);
    struct op *op = &t->ops[t->p.n_ops++];
    *op = (struct op){.kind = kind};
    return op;
}

static void *keep(struct trial *t, size_t n_bytes)
{
    assert(t->n_kept < TRIAL_KEPT);
    return t->kept[t->n_kept++] = mem_zalloc(1, n_bytes);
}

static struct weight *matrix(struct trial *t, enum qtype type, size_t n_mats, size_t n_rows,
                             size_t n_cols)
{
    const size_t n = n_mats * n_rows * n_cols;
    void *data = keep(t, qtype_bytes(type, n));
    struct random_blocks r = random_blocks_new(type, 0.5f, t->seed++);
    random_blocks_fill(&r, data, n);
    struct weight *w = backend_matrix(t->be, type, n_mats, n_rows, n_cols, data, NULL, t->err);
    t->failed = t->failed || !w;
    return w;
}

/* n values of mean 0 and a deviation; negative: none of them above 0. */
static struct weight *vector(struct trial *t, size_t n, float deviation)
{
    float *data = keep(t, n * sizeof *data);
    struct random_blocks r = random_blocks_new(QTYPE_F32, 1, t->seed++);
    for (size_t i = 0; i < n; i++) {
        data[i] = random_blocks_normal(&r) * fabsf(deviation);
        if (deviation < 0) data[i] = -fabsf(data[i]);
    }
    struct weight *w = backend_vector(t->be, data, n, t->err);
    t->failed = t->failed || !w;
    return w;
}

static const struct weight *vector_if(struct trial *t, const struct weight *there, size_t n)
{
    return there ? vector(t, n, 1) : NULL;
}

/* The input rows: those of a table of floats. */
static struct ref input(struct trial *t, size_t width)
{
    struct ref in = buffer(t, ROW_F32, width);
    struct weight *table = matrix(t, QTYPE_F32, 1, TRIAL_ROWS, width);
    add(t, OP_EMBED)->embed = (struct op_embed){.table = table, .out = in, .scale = 1};
    return in;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_float(enum qtype type)
{
    return qtype_info(type)->block_len == 1;
}

/* The input in the form that a product with the type takes. */
static void set_input(struct trial *t, enum qtype type, struct ref in, struct ref *f32,
                      struct ref *a8)
{
    if (is_float(type)) {
        *f32 = in;
        return;
    }
    *a8 = buffer(t, ROW_A8, in.n);
    add(t, OP_QUANTISE)->quantise = (struct op_quantise){in, *a8};
}

static bool same_place(const struct ref *a, const struct ref *b)
{
    return a->buf == b->buf && a->at == b->at && a->n == b->n;
}

/* Whether heads of queries and of keys are normalised in place, one after the other, and then
 * rotated: a kernel may make all three. */
static bool is_rotated(const struct program *p, const struct op *op)
{
    if (op + 2 >= p->ops + p->n_ops || op[2].layer != op->layer) return false;
    if (op->kind != OP_NORM || op[1].kind != OP_NORM || op[2].kind != OP_ROPE) return false;
    const struct op_norm *a = &op->norm, *b = &op[1].norm;
    const struct op_rope *r = &op[2].rope;
    return a->group == b->group && a->group == r->head_dim && a->out.buf == r->x.buf &&
           a->out.at == r->x.at && b->out.buf == r->x.buf && a->w && b->w && !a->bias &&
           !b->bias;
}

/* Whether the op behind this one takes its result: a kernel may make both. Of a norm, a gated
 * unit and attention the codes, of a product the sum with another row in a place
 * of its own. */
static bool is_joined(const struct program *p, const struct op *op)
{
    const struct op *next = op + 1;
    if (next == p->ops + p->n_ops || next->layer != op->layer) return false;
    if (op->kind == OP_GLU)
        return next->kind == OP_QUANTISE && same_place(&next->quantise.in, &op->glu.out);
    if (op->kind == OP_NORM)
        return next->kind == OP_QUANTISE && op->norm.group % 32 == 0 &&
               same_place(&next->quantise.in, &op->norm.out);
    if (op->kind == OP_ATTEND)
        return next->kind == OP_QUANTISE && p->kv[op->attend.kv].head_dim_v % 32 == 0 &&
               same_place(&next->quantise.in, &op->attend.out);
    if (op->kind != OP_MATMUL || op->matmul.n_mats != 1 || next->kind != OP_ADD) return false;
    const struct ref *product = &op->matmul.mat[0].out;
    return !same_place(&next->add.out, product) &&
           (same_place(&next->add.a, product) || same_place(&next->add.b, product));
}

/* ---- the ops; each returns what is compared ---- */

static struct ref try_embed(struct trial *t, const struct op_embed *e)
{
    const size_t n = least(e->table->n_cols, MOST_COLS);
    struct ref out = buffer(t, ROW_F32, n);
    add(t, OP_EMBED)->embed = (struct op_embed){matrix(t, e->table->type, 1, TRIAL_ROWS, n),
                                                out, e->scale, e->by_pos};
    return out;
}

/* A product that shows the codes of the first values of a row: its result is their end. */
static void show_codes(struct trial *t, struct ref of, struct ref result)
{
    struct ref codes = buffer(t, ROW_A8, of.n);
    add(t, OP_QUANTISE)->quantise = (struct op_quantise){of, codes};
    struct op_matmul shows = {.n_mats = 1, .in_a8 = codes};
    shows.mat[0].w = matrix(t, QTYPE_Q8_0, 1, OUT_ROWS, of.n);
    shows.mat[0].out = result;
    add(t, OP_MATMUL)->matmul = shows;
}

/* Two heads of queries and one of keys. */
static struct ref try_rotation(struct trial *t, const struct op *op)
{
    const struct op_norm *n = &op->norm;
    struct ref in = input(t, 3 * n->group);
    struct ref q = part(in, 0, 2 * n->group), k = part(in, 2 * n->group, n->group);
    struct weight *w_q = vector(t, n->group, 1), *w_k = vector(t, n->group, 1);
    add(t, OP_NORM)->norm = (struct op_norm){q, q, w_q, n->group, n->eps, NULL};
    add(t, OP_NORM)->norm = (struct op_norm){k, k, w_k, n->group, n->eps, NULL};
    add(t, OP_ROPE)->rope = (struct op_rope){in, n->group, op[2].rope.rope};
    return in;
}

static struct ref try_norm(struct trial *t, const struct op_norm *n, bool joined)
{
    const size_t width = least(n->in.n, 2 * n->group);
    struct ref in = input(t, width), out = buffer(t, ROW_F32, width + joined * OUT_ROWS);
    struct ref normed = part(out, 0, width);
    const size_t n_w = n->w && n->w->n_cols > n->group ? width : n->group;
    const struct weight *w = vector_if(t, n->w, n_w), *bias = vector_if(t, n->bias, n_w);
    add(t, OP_NORM)->norm = (struct op_norm){in, normed, w, n->group, n->eps, bias};
    if (joined) show_codes(t, normed, part(out, width, OUT_ROWS));
    return out;
}

static struct ref try_matmul(struct trial *t, const struct op_matmul *m, uint32_t i,
                             bool joined)
{
    const struct weight *w = m->mat[i].w;
    const size_t n_cols = least(w->n_cols, MOST_COLS);
    struct ref in = input(t, n_cols + OUT_ROWS);
    struct ref out = buffer(t, ROW_F32, joined ? 2 * OUT_ROWS : OUT_ROWS);
    struct ref product = part(out, 0, OUT_ROWS);
    struct op_matmul mine = {.n_mats = 1};
    set_input(t, w->type, part(in, 0, n_cols), &mine.in_f32, &mine.in_a8);
    mine.mat[0].w = matrix(t, w->type, 1, OUT_ROWS, n_cols);
    mine.mat[0].factor = vector_if(t, m->mat[i].factor, 1);
    mine.mat[0].bias = vector_if(t, m->mat[i].bias, OUT_ROWS);
    mine.mat[0].out = product;
    add(t, OP_MATMUL)->matmul = mine;
    if (joined)
        add(t, OP_ADD)->add = (struct op_add){part(in, n_cols, OUT_ROWS), product,
                                              part(out, OUT_ROWS, OUT_ROWS), 1};
    return out;
}

/* All matrices of an op at once: a kernel may take several. */
static struct ref try_matmuls(struct trial *t, const struct op_matmul *m)
{
    const size_t n_cols = least(m->mat[0].w->n_cols, MOST_COLS);
    struct ref in = input(t, n_cols), out = buffer(t, ROW_F32, m->n_mats * OUT_ROWS);
    struct op_matmul mine = {.n_mats = m->n_mats};
    if (m->in_f32.n) mine.in_f32 = in;
    if (m->in_a8.n) set_input(t, QTYPE_Q8_0, in, NULL, &mine.in_a8);
    for (uint32_t i = 0; i < m->n_mats; i++) {
        mine.mat[i].w = matrix(t, m->mat[i].w->type, 1, OUT_ROWS, n_cols);
        mine.mat[i].factor = vector_if(t, m->mat[i].factor, 1);
        mine.mat[i].bias = vector_if(t, m->mat[i].bias, OUT_ROWS);
        mine.mat[i].out = part(out, i * OUT_ROWS, OUT_ROWS);
    }
    add(t, OP_MATMUL)->matmul = mine;
    return out;
}

static struct ref try_rope(struct trial *t, const struct op_rope *r)
{
    struct ref in = input(t, least(r->x.n, 2 * r->head_dim));
    add(t, OP_ROPE)->rope = (struct op_rope){in, r->head_dim, r->rope};
    return in;
}

/* A layer of one group of query heads, or two, stores its rows and reads them. */
static struct ref try_attend(struct trial *t, const struct op_attend *a, bool joined)
{
    const struct kv_layer *kv = &t->of->kv[a->kv];
    const uint32_t n_kv = kv->n_heads < 2 ? 1 : 2, n_heads = a->n_heads / kv->n_heads * n_kv;
    const size_t n_k = n_kv * kv->head_dim_k, n_v = n_kv * kv->head_dim_v;
    const size_t n_q = n_heads * kv->head_dim_k;
    struct ref in = input(t, n_q + n_k + n_v);
    const size_t n_out = n_heads * kv->head_dim_v;
    struct ref out = buffer(t, ROW_F32, n_out + joined * OUT_ROWS);
    t->kv = *kv;
    t->kv.n_heads = n_kv;
    t->kv.part = PAGE_FULL;
    t->kv.at = 0;
    t->p.n_kv = 1;
    t->p.page_bytes[PAGE_FULL] = kv_layer_bytes(&t->kv);
    t->p.page_unit[PAGE_FULL] = kv_head_bytes(&t->kv);
    t->first_rows = TRIAL_MANY;
    add(t, OP_KV_STORE)->kv_store =
        (struct op_kv_store){part(in, n_q, n_k), part(in, n_q + n_k, n_v), 0};
    struct op_attend mine = *a;
    mine.q = part(in, 0, n_q);
    mine.out = part(out, 0, n_out);
    mine.kv = 0;
    mine.n_heads = n_heads;
    mine.sinks = vector_if(t, a->sinks, n_heads);
    add(t, OP_ATTEND)->attend = mine;
    if (joined) show_codes(t, mine.out, part(out, n_out, OUT_ROWS));
    return out;
}

static struct ref try_glu(struct trial *t, const struct op_glu *g, bool joined)
{
    const size_t n = least(g->out.n, MOST_WIDTH);
    struct ref in = input(t, 2 * n), out = buffer(t, ROW_F32, n + joined * OUT_ROWS);
    struct ref gated = part(out, 0, n);
    add(t, OP_GLU)->glu = (struct op_glu){part(in, 0, n), part(in, n, n), gated, g->kind};
    if (joined) show_codes(t, gated, part(out, n, OUT_ROWS));
    return out;
}

static struct ref try_centre(struct trial *t, const struct op_centre *c)
{
    const size_t n = least(c->in.n, 2 * c->group);
    struct ref in = input(t, n), out = buffer(t, ROW_F32, n);
    add(t, OP_CENTRE)->centre = (struct op_centre){in, out, c->group};
    return out;
}

/* Rows that are only part of a tile's lanes, and of many. */
static struct ref try_size(struct trial *t, const struct op_size *s)
{
    struct ref in = input(t, least(s->in.n, MOST_COLS)), out = buffer(t, ROW_F32, 1);
    add(t, OP_SIZE)->size = (struct op_size){in, out};
    return out;
}

static struct ref try_cut(struct trial *t, const struct op_cut *c)
{
    const size_t n = least(c->in.n, MOST_COLS);
    struct ref in = input(t, n), out = buffer(t, ROW_F32, n);
    add(t, OP_CUT)->cut = (struct op_cut){in, out, 0.5f};
    return out;
}

static struct ref try_factors(struct trial *t, const struct op_factors *f)
{
    const size_t n = least(f->in.n, MOST_WIDTH);
    struct ref in = input(t, n), out = buffer(t, ROW_F32, n);
    add(t, OP_FACTORS)->factors =
        (struct op_factors){in, out, vector(t, n, 1), f->bias ? vector(t, n, 1) : NULL};
    return out;
}

static struct ref try_add(struct trial *t, float scale)
{
    struct ref in = input(t, 2 * MOST_WIDTH), out = buffer(t, ROW_F32, MOST_WIDTH);
    add(t, OP_ADD)->add =
        (struct op_add){part(in, 0, MOST_WIDTH), part(in, MOST_WIDTH, MOST_WIDTH), out, scale};
    return out;
}

/* A row comes in two parts, the second before the first. */
static struct ref try_input(struct trial *t)
{
    struct ref out = buffer(t, ROW_F32, 2 * OUT_ROWS);
    t->p.n_input = 2 * OUT_ROWS;
    for (size_t i = 0; i < 2; i++)
        add(t, OP_INPUT)->input =
            (struct op_input){part(out, i * OUT_ROWS, OUT_ROWS), (1 - i) * OUT_ROWS};
    return out;
}

static struct ref try_route(struct trial *t, const struct op_route *r)
{
    const size_t n = r->scores.n, n_used = r->out.n;
    struct ref in = input(t, n + n_used * OUT_ROWS), out = buffer(t, ROW_F32, OUT_ROWS);
    struct ref route = buffer(t, ROW_ROUTE, n_used);
    struct op_route mine = *r;
    mine.scores = part(in, 0, n);
    mine.out = route;
    mine.select = vector_if(t, r->select, n);
    mine.scales = vector_if(t, r->scales, n);
    add(t, OP_ROUTE)->route = mine;
    add(t, OP_COMBINE)->combine =
        (struct op_combine){part(in, n, n_used * OUT_ROWS), route, out};
    return out;
}

static struct ref try_experts(struct trial *t, const struct op_matmul_experts *e)
{
    const size_t n_cols = least(e->w->n_cols, MOST_COLS), n_in = e->split ? N_USED : 1;
    struct ref in = input(t, 32 + n_in * n_cols);
    struct ref route = buffer(t, ROW_ROUTE, N_USED);
    struct ref out = buffer(t, ROW_F32, N_USED * OUT_ROWS);
    add(t, OP_ROUTE)->route = (struct op_route){
        .scores = part(in, 0, N_EXPERTS), .out = route, .kind = ROUTE_SOFTMAX, .scale = 1};
    struct op_matmul_experts mine = {.route = route,
                                     .out = out,
                                     .split = e->split,
                                     .n_parts = e->n_parts,
                                     .part = e->part,
                                     .n_share = e->n_share};
    const size_t n_experts = (N_EXPERTS + experts_n_share(e) - 1) / experts_n_share(e);
    set_input(t, e->w->type, part(in, 32, n_in * n_cols), &mine.in_f32, &mine.in_a8);
    mine.w = matrix(t, e->w->type, n_experts * e->n_parts, OUT_ROWS, n_cols);
    mine.factors = vector_if(t, e->factors, n_experts);
    mine.bias = vector_if(t, e->bias, n_experts * OUT_ROWS);
    add(t, OP_MATMUL_EXPERTS)->experts = mine;
    return out;
}

static void has_state(struct trial *t, size_t n)
{
    t->state = (struct state_part){0, n};
    t->p.n_states = 1;
    t->p.state_bytes = mem_round_up(n * sizeof(float), 64);
}

static struct ref try_conv(struct trial *t, const struct op_conv *c)
{
    const size_t n = least(c->in.n, MOST_WIDTH);
    struct ref in = input(t, n), out = buffer(t, ROW_F32, n);
    has_state(t, (c->n_taps - 1) * n);
    add(t, OP_CONV)->conv = (struct op_conv){.in = in,
                                             .out = out,
                                             .w = vector(t, c->n_taps * n, 1),
                                             .bias = vector_if(t, c->bias, n),
                                             .n_taps = c->n_taps,
                                             .silu = c->silu};
    return out;
}

/* Appends a decay of its own, so that what a recurrence keeps is less than it had. */
static struct ref decay(struct trial *t, struct ref in, uint32_t n_heads, uint32_t n_each,
                        float bound, bool betas, uint32_t run)
{
    const size_t n = (size_t)n_heads * n_each;
    struct ref out = buffer(t, ROW_F32, n + n_heads);
    add(t, OP_DECAY)->decay = (struct op_decay){.in = in,
                                                .out = out,
                                                .bias = in.n > 0 ? vector(t, n, 1) : NULL,
                                                .a = vector(t, n_heads, -1),
                                                .bound = bound,
                                                .betas = betas,
                                                .run = run,
                                                .n_each = n_each};
    return out;
}

static struct ref try_decay(struct trial *t, const struct op_decay *d)
{
    struct ref in = {0};
    if (d->in.n > 0) in = input(t, d->in.n);
    struct ref out = decay(t, in, (uint32_t)decay_n_heads(d), (uint32_t)decay_n_each(d),
                           d->bound, d->betas, d->run);
    t->ops[t->p.n_ops - 1].decay.by_exp = d->by_exp;
    return out;
}

static struct ref try_recur(struct trial *t, const struct op_recur *r)
{
    const uint32_t n_groups = r->n_groups < 2 ? 1 : 2;
    const uint32_t n_heads = r->n_heads / r->n_groups * n_groups;
    const size_t n_qk = (size_t)n_groups * r->n_dim, n_v = (size_t)n_heads * r->n_width;
    const uint32_t n_each = r->by_dim ? r->n_dim : 1;
    const size_t n_gates = (size_t)n_heads * (r->by_dim ? n_each + 1 : 1);
    struct ref in = input(t, 2 * n_qk + n_v + n_gates), out = buffer(t, ROW_F32, n_v);
    struct ref gates =
        decay(t, part(in, 2 * n_qk + n_v, n_gates), n_heads, n_each, 0, r->by_dim, n_heads);
    has_state(t, n_v * r->n_dim);
    struct op_recur mine = *r;
    /* Short keys: with long ones the delta rule runs away. */
    add(t, OP_SCALE)->scale = (struct op_scale){part(in, 0, 2 * n_qk), 0.5f / (float)r->n_dim};
    mine.q = part(in, 0, n_qk);
    mine.k = part(in, n_qk, n_qk);
    mine.v = part(in, 2 * n_qk, n_v);
    mine.out = out;
    mine.gates = gates;
    mine.skip = vector_if(t, r->skip, n_heads);
    mine.n_heads = n_heads;
    mine.n_groups = n_groups;
    mine.state = 0;
    add(t, OP_RECUR)->recur = mine;
    return out;
}

/* A recurrence whose values decay each by itself, of some of its columns. */
static struct ref try_recur_each(struct trial *t, const struct op_recur *r)
{
    const uint32_t n_dim = r->n_dim, n_width = (uint32_t)least(r->n_width, 2 * OUT_ROWS);
    struct ref in = input(t, 2 * (size_t)n_dim + 2 * (size_t)n_width);
    struct ref out = buffer(t, ROW_F32, n_width);
    has_state(t, (size_t)n_dim * n_width);
    struct op_recur mine = *r;
    mine.q = part(in, 0, n_dim);
    mine.k = part(in, n_dim, n_dim);
    mine.v = part(in, 2 * n_dim, n_width);
    mine.gates = part(in, 2 * n_dim + n_width, n_width);
    mine.out = out;
    mine.a = vector(t, (size_t)n_dim * n_width, -1);
    mine.n_heads = mine.n_groups = 1;
    mine.n_width = n_width;
    mine.state = 0;
    add(t, OP_RECUR)->recur = mine;
    return out;
}

/* A recurrence with an erasure, of two heads at most. */
static struct ref try_recur_erase(struct trial *t, const struct op_recur *r)
{
    const uint32_t n_heads = r->n_heads < 2 ? 1 : 2;
    const size_t n = (size_t)n_heads * r->n_dim, n_v = (size_t)n_heads * r->n_width;
    struct ref in = input(t, 5 * n + n_v), gates = buffer(t, ROW_F32, 3 * n);
    struct ref out = buffer(t, ROW_F32, n_v), both = part(in, 3 * n, 2 * n);
    add(t, OP_DECAY)->decay = (struct op_decay){.in = part(in, 0, n),
                                                .out = part(gates, 0, 2 * n),
                                                .bias = vector(t, n, 1),
                                                .a = vector(t, n, -1),
                                                .bound = -0.5f};
    /* Short vectors: with long ones states run away. */
    add(t, OP_SCALE)->scale = (struct op_scale){part(in, n, 4 * n), 0.5f / (float)r->n_dim};
    add(t, OP_ADD)->add = (struct op_add){both, both, part(gates, n, 2 * n), 0};
    has_state(t, n_v * r->n_dim);
    struct op_recur mine = *r;
    mine.q = part(in, n, n);
    mine.k = part(in, 2 * n, n);
    mine.v = part(in, 5 * n, n_v);
    mine.gates = gates;
    mine.out = out;
    mine.n_heads = mine.n_groups = n_heads;
    mine.state = 0;
    add(t, OP_RECUR)->recur = mine;
    return out;
}

static struct ref try_any_recur(struct trial *t, const struct op_recur *r)
{
    if (r->erase) return try_recur_erase(t, r);
    return r->a ? try_recur_each(t, r) : try_recur(t, r);
}

/* The parts lie one behind the other, so that each value shows that was dealt out or joined. */
static struct ref try_runs(struct trial *t, const struct op_runs *o)
{
    const size_t n_turns = least(runs_turns(o), 2), n_b = n_turns * o->run_b;
    const size_t n_a = (runs_repeat(o) ? 1 : n_turns) * o->run_a;
    const size_t n_all = n_turns * (o->run_a + o->run_b);
    struct ref in = input(t, o->join ? n_a + n_b : n_all);
    struct ref out = buffer(t, ROW_F32, o->join ? n_all : n_a + n_b);
    const struct ref parts = o->join ? in : out, all = o->join ? out : in;
    add(t, OP_RUNS)->runs = (struct op_runs){
        all, part(parts, 0, n_a), part(parts, n_a, n_b), o->run_a, o->run_b, o->join};
    return out;
}

/* In place, on a few values. */
static struct ref try_in_place(struct trial *t, const struct op *op)
{
    struct ref x = input(t, MOST_WIDTH);
    struct op *mine = add(t, op->kind);
    switch (op->kind) {
    case OP_SCALE: mine->scale = (struct op_scale){x, op->scale.factor}; break;
    case OP_XIELU: mine->xielu = (struct op_xielu){x, 0.75f, 1.25f, 0.5f}; break;
    case OP_LIMIT: mine->limit = (struct op_limit){x, 1}; break;
    case OP_ROW_SCALE: mine->row_scale = (struct op_row_scale){x, op->row_scale.scale}; break;
    default: break;
    }
    return x;
}

/* Runs as long as the op's, but no longer than a row may be, two where it has several. */
static struct ref try_row_gate(struct trial *t, const struct op_row_gate *o)
{
    const size_t n_gates = least(o->gate.n, 2), n = least(o->x.n / o->gate.n, MOST_WIDTH);
    struct ref in = input(t, n_gates * (n + 1));
    add(t, OP_ROW_GATE)->row_gate = (struct op_row_gate){
        part(in, 0, n_gates * n), part(in, n_gates * n, n_gates), o->softplus};
    return in;
}

/* The ops of the i-th kernel of an op; their result. */
static struct ref try_op(struct trial *t, const struct op *op, uint32_t i)
{
    switch (op->kind) {
    case OP_EMBED: return try_embed(t, &op->embed);
    case OP_NORM:
        return is_rotated(t->of, op) ? try_rotation(t, op)
                                     : try_norm(t, &op->norm, is_joined(t->of, op));
    case OP_MATMUL:
        return i < op->matmul.n_mats ? try_matmul(t, &op->matmul, i, is_joined(t->of, op))
                                     : try_matmuls(t, &op->matmul);
    case OP_ROPE: return try_rope(t, &op->rope);
    case OP_ATTEND: return try_attend(t, &op->attend, is_joined(t->of, op));
    case OP_CENTRE: return try_centre(t, &op->centre);
    case OP_SIZE: return try_size(t, &op->size);
    case OP_CUT: return try_cut(t, &op->cut);
    case OP_FACTORS: return try_factors(t, &op->factors);
    case OP_GLU: return try_glu(t, &op->glu, is_joined(t->of, op));
    case OP_ADD: return try_add(t, op->add.scale);
    case OP_LOGITS: return try_add(t, 1);
    case OP_INPUT: return try_input(t);
    case OP_ROUTE: return try_route(t, &op->route);
    case OP_MATMUL_EXPERTS: return try_experts(t, &op->experts);
    case OP_CONV: return try_conv(t, &op->conv);
    case OP_DECAY: return try_decay(t, &op->decay);
    case OP_RECUR: return try_any_recur(t, &op->recur);
    case OP_RUNS: return try_runs(t, &op->runs);
    case OP_SCALE:
    case OP_LIMIT:
    case OP_XIELU:
    case OP_ROW_SCALE: return try_in_place(t, op);
    case OP_ROW_GATE: return try_row_gate(t, &op->row_gate);
    case OP_QUANTISE: /* within products and norms */
    case OP_KV_STORE: /* within attention */
    case OP_COMBINE:  /* within routing */
    case OP_OUTPUT:   /* the CPU's alone */
    case OP_HEAD_ROWS: break;
    }
    return (struct ref){0};
}

struct ref trial_build(struct trial *t, const struct op *op, uint32_t i)
{
    t->p.ropes = t->of->ropes;
    t->p.n_ropes = t->of->n_ropes;
    t->p.row_scales = t->of->row_scales;
    t->p.n_row_scales = t->of->n_row_scales;
    const struct ref result = try_op(t, op, i);
    struct op_logits last = {result, 1, 0};
    if (op->kind == OP_LOGITS) last.scale = op->logits.scale, last.softcap = op->logits.softcap;
    add(t, OP_HEAD_ROWS);
    add(t, OP_LOGITS)->logits = last;
    t->p.buffers = t->buffers;
    t->p.ops = t->ops;
    t->p.kv = &t->kv;
    t->p.states = &t->state;
    t->p.n_vocab = result.n;
    return result;
}

void trial_free(struct trial *t)
{
    for (size_t i = 0; i < t->n_kept; i++)
        free(t->kept[i]);
}

/* ---- what ops have in common ---- */

/* Of one of its matrices; of all of them together, which i past the last stands for. */
static void matmul_key(const struct op_matmul *m, uint32_t i, bool joined, uint32_t *w)
{
    for (uint32_t k = 0; i == m->n_mats && k < i; k++)
        w[k] = 1u << 16 | (uint32_t)(m->mat[k].factor != NULL) << 15 |
               (uint32_t)m->mat[k].w->type << 1 | (m->mat[k].bias != NULL);
    if (i == m->n_mats) return;
    w[0] = m->mat[i].w->type;
    w[1] = (uint32_t)(m->mat[i].factor != NULL) << 1 | (m->mat[i].bias != NULL);
    w[2] = joined;
}

struct trial_key trial_key(const struct program *p, const struct op *op, uint32_t i)
{
    struct trial_key k = {{(uint32_t)op->kind}};
    uint32_t *w = k.words + 1;
    switch (op->kind) {
    case OP_EMBED: w[0] = (uint32_t)op->embed.table->type << 1 | op->embed.by_pos; break;
    case OP_CENTRE: w[0] = (uint32_t)op->centre.group; break;
    case OP_NORM:
        w[0] = op->norm.w ? op->norm.w->n_cols > op->norm.group ? 2 : 1 : 0;
        w[1] = (uint32_t)op->norm.group;
        w[2] = (uint32_t)is_joined(p, op) << 1 | (op->norm.bias != NULL);
        if (is_rotated(p, op)) w[3] = 1 + op[2].rope.rope;
        break;
    case OP_MATMUL: matmul_key(&op->matmul, i, is_joined(p, op), w); break;
    case OP_ROPE:
        w[0] = p->ropes[op->rope.rope].pairs;
        w[1] = op->rope.rope;
        break;
    case OP_ATTEND:
        w[0] = (uint32_t)p->kv[op->attend.kv].type << 8 | (op->attend.slope_step != 0.0f) << 3 |
               is_joined(p, op) << 2 | (op->attend.softcap != 0.0f) << 1 |
               (op->attend.sinks != NULL);
        w[1] = (uint32_t)p->kv[op->attend.kv].head_dim_k;
        w[2] = (uint32_t)p->kv[op->attend.kv].head_dim_v;
        w[3] = op->attend.n_heads / p->kv[op->attend.kv].n_heads;
        w[4] = op->attend.window;
        break;
    case OP_FACTORS: w[0] = op->factors.bias != NULL; break;
    case OP_GLU:
        w[0] = op->glu.kind;
        w[1] = is_joined(p, op);
        break;
    case OP_ROUTE:
        w[0] = (uint32_t)op->route.kind << 8 | (op->route.n_groups > 0) << 3 |
               op->route.renormalise << 2 | (op->route.select != NULL) << 1 |
               (op->route.scales != NULL);
        break;
    case OP_MATMUL_EXPERTS:
        w[0] = op->experts.w->type;
        w[1] = (uint32_t)(op->experts.factors != NULL) << 2 | (uint32_t)op->experts.split << 1 |
               (op->experts.bias != NULL);
        w[2] = op->experts.part;
        w[3] = experts_n_share(&op->experts);
        break;
    case OP_DECAY:
        w[0] = (uint32_t)op->decay.by_exp << 4 | (uint32_t)(op->decay.in.n == 0) << 3 |
               (op->decay.bound < 0) << 2 | (decay_n_each(&op->decay) > 1) << 1 |
               op->decay.betas;
        break;
    case OP_RECUR:
        w[0] = (uint32_t)op->recur.erase << 5 | (uint32_t)(op->recur.a != NULL) << 4 |
               op->recur.by_dim << 3 | op->recur.delta << 2 | op->recur.tiled << 1 |
               (op->recur.skip != NULL);
        break;
    case OP_RUNS: w[0] = (uint32_t)op->runs.join << 1 | runs_repeat(&op->runs); break;
    case OP_ROW_GATE:
        w[0] = (uint32_t)op->row_gate.softplus << 1 | (op->row_gate.gate.n > 1);
        break;
    case OP_LOGITS: w[0] = op->logits.softcap != 0.0f; break;
    default: break;
    }
    return k;
}

/* The others are within products, norms, attention and routing, or the CPU's alone. */
static bool is_compared(enum op_kind kind)
{
    return kind != OP_QUANTISE && kind != OP_KV_STORE && kind != OP_COMBINE &&
           kind != OP_HEAD_ROWS && kind != OP_OUTPUT;
}

uint32_t trial_kernels(const struct op *op)
{
    if (!is_compared(op->kind)) return 0;
    if (op->kind != OP_MATMUL) return 1;
    return op->matmul.n_mats > 1 ? op->matmul.n_mats + 1 : 1;
}
