/* A program becomes a list of dispatches: for each op the shader with its constants, its
 * buffers and numbers, and the rule by which work groups follow from the rows of a step. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/op_parts.h"
#include "base/mem.h"
#include "vulkan/dispatch.h"
#include "vulkan/step_layout.h"

enum { SINGLE_WORDS = 3 };

/* Rows of attention are computed in blocks whose partial results fit in about this much. */
static const size_t PARTS_BYTES = (size_t)64 << 20;

/* ---- ops ---- */

/* As in pointwise.comp. */
enum pointwise {
    PW_SILU,
    PW_GELU,
    PW_CLAMPED,
    PW_ADD,
    PW_SCALE,
    PW_ROW_SCALE,
    PW_CAP,
    PW_SIGMOID,
    PW_LINEAR,
    PW_ROW_GATE,
    PW_RUNS,
    PW_RELU = POINTWISE_COPY + 1,
    PW_GELU_ALONE,
    PW_LIMIT,
    PW_TANH_ALONE,
    PW_XIELU,
    PW_SOFTPLUS,
    PW_ROW_GATE_SOFTPLUS,
};

static const enum pointwise glu_kinds[] = {[GLU_SILU] = PW_SILU,
                                           [GLU_GELU] = PW_GELU,
                                           [GLU_CLAMPED] = PW_CLAMPED,
                                           [GLU_SIGMOID] = PW_SIGMOID,
                                           [GLU_LINEAR] = PW_LINEAR,
                                           [GLU_RELU] = PW_RELU,
                                           [GLU_GELU_ALONE] = PW_GELU_ALONE,
                                           [GLU_TANH_ALONE] = PW_TANH_ALONE,
                                           [GLU_SOFTPLUS] = PW_SOFTPLUS};

/* The rows of the tokens that a piece of the table has. */
static bool plan_embed_piece(struct vulkan_exec *x, const struct op *op, int part,
                             const struct vulkan_piece *piece, struct err *err)
{
    const struct op_embed *e = &op->embed;
    bool floats = dispatch_is_float(e->table->type);
    size_t n = floats ? e->out.n : e->out.n / 32, local = floats ? LOCAL : TILE;
    struct dispatch_build b = dispatch_begin(
        x, op, part, floats ? SHADER_EMBED_FLOAT : SHADER_EMBED, (uint32_t)local);
    dispatch_constant(&b, e->table->type);
    dispatch_writes(&b, 1, &e->out);
    dispatch_bind(&b, VULKAN_STORAGE, &piece->region, piece->view);
    dispatch_push(&b, n);
    dispatch_push_place(&b, &e->out);
    dispatch_push(&b, e->by_pos ? 0 : x->tokens_at);
    dispatch_push(&b, piece->first);
    dispatch_push(&b, piece->n_rows);
    dispatch_push_float(&b, e->scale);
    return dispatch_end_rows(&b, n, local, err);
}

static bool plan_embed(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct vulkan_weight *w = (const struct vulkan_weight *)op->embed.table;
    for (size_t i = 0; i < w->n_pieces; i++)
        if (!plan_embed_piece(x, op, part, &w->pieces[i], err)) return false;
    return true;
}

/* A norm makes the codes of its result as well, in the same dispatch. NULL: there are none. */
static const struct op_quantise *norm_codes(const struct vulkan_exec *x, const struct op *op)
{
    if (op->kind != OP_NORM || op->norm.group % 32 != 0) return NULL;
    return dispatch_codes_after(x, op, &op->norm.out);
}

/* And so does a gated unit. */
static const struct op_quantise *glu_codes(const struct vulkan_exec *x, const struct op *op)
{
    return op->kind == OP_GLU ? dispatch_codes_after(x, op, &op->glu.out) : NULL;
}

static bool is_in_place(const struct op *op)
{
    return op->kind == OP_NORM && dispatch_same_place(&op->norm.in, &op->norm.out);
}

static bool has_group_weights(const struct op_norm *n)
{
    return n->w && n->w->n_cols == n->group;
}

/* Heads of queries and of keys that follow each other are normalised in place, each with
 * weights of its own, and rotated together: one dispatch makes all three ops. NULL: it is not
 * so. */
static const struct op_rope *rotation_of(const struct vulkan_exec *x, const struct op *op)
{
    const struct op *keys = is_in_place(op) ? dispatch_next_of(x, op) : NULL;
    const struct op *rope = keys && is_in_place(keys) ? dispatch_next_of(x, keys) : NULL;
    if (!rope || rope->kind != OP_ROPE) return NULL;
    const struct op_norm *a = &op->norm, *b = &keys->norm;
    const struct ref *r = &rope->rope.x;
    bool follow = a->in.buf == b->in.buf && a->in.at + a->in.n == b->in.at;
    bool all = r->buf == a->in.buf && r->at == a->in.at && r->n == a->in.n + b->in.n;
    bool alike = a->group == b->group && a->group == rope->rope.head_dim && a->eps == b->eps &&
                 has_group_weights(a) && has_group_weights(b) && !a->bias && !b->bias;
    if (!follow || !all || !alike || x->p->ropes[rope->rope.rope].n_rot == 0) return NULL;
    struct vulkan_region weights = *dispatch_region(a->w);
    const size_t most = vulkan_storage_limit(vulkan_of(x)->vk);
    return dispatch_cover(&weights, dispatch_region(b->w), most) ? &rope->rope : NULL;
}

/* How many ops behind one are made by its dispatch. */
static size_t n_made_with(const struct vulkan_exec *x, const struct op *op)
{
    if (rotation_of(x, op)) return 2;
    return vulkan_plan_sum_of(x, op) || norm_codes(x, op) || glu_codes(x, op) ||
           vulkan_plan_attend_codes(x, op);
}

/* What norm.glsl is told of the heads that it rotates: nothing without a rope. */
static void push_rotation(struct dispatch_build *b, const struct op *op,
                          const struct op_rope *r, const struct vulkan_region *weights)
{
    for (int i = 0; !r && i < 5; i++)
        dispatch_push(b, 0);
    if (!r) return;
    const struct op_norm *heads = &op->norm, *more = &op[1].norm;
    dispatch_push(b, (dispatch_region(heads->w)->at - weights->at) / 4);
    dispatch_push(b, heads->in.n / heads->group);
    dispatch_push(b, (dispatch_region(more->w)->at - weights->at) / 4);
    dispatch_push(b, b->x->p->ropes[r->rope].n_rot / 2);
    dispatch_push(b, b->x->rope_at[r->rope]);
}

/* How norm.glsl goes through a group. Every device runs 128 lanes and has shared memory for
 * 3584 values beside what else is kept there. Where a lane makes a block of codes, 32 values of
 * a lane in a tile give each of them one. */
struct norm_shape {
    uint32_t lanes, holds; /* values of a tile that each lane has */
    bool one_tile;         /* holds all of them */
};

static struct norm_shape norm_shape(const struct vulkan_exec *x, size_t group)
{
    enum { FEW = 256, MANY_LANES = 128, MOST = 3584 / MANY_LANES, MOST_OF_FEW = 32 };
    const bool is_many = vulkan_of(x)->vk->is_wide && group > FEW;
    const uint32_t lanes = is_many ? MANY_LANES : TILE;
    const uint32_t each = dispatch_groups(group, lanes);
    const uint32_t n_tiles = dispatch_groups(each, is_many ? MOST : MOST_OF_FEW);
    return (struct norm_shape){lanes, dispatch_groups(each, n_tiles), n_tiles == 1};
}

static bool plan_norm(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_norm *n = &op->norm;
    const struct op_quantise *q = norm_codes(x, op);
    const struct op_rope *r = rotation_of(x, op);
    struct vulkan_region weights = n->w ? *dispatch_region(n->w) : x->step;
    if (r) dispatch_cover(&weights, dispatch_region(op[1].norm.w), SIZE_MAX);
    const struct norm_shape shape = norm_shape(x, n->group);
    struct dispatch_build b = dispatch_begin(
        x, op, part, dispatch_packed_or(x, SHADER_NORM, SHADER_NORM_PACKED), shape.lanes);
    dispatch_constant(&b, n->w != NULL);
    dispatch_constant(&b, q != NULL);
    dispatch_constant(&b, !r ? 0 : x->p->ropes[r->rope].pairs == ROPE_NEOX ? 2 : 1);
    dispatch_constant(&b, shape.holds);
    dispatch_constant(&b, dispatch_block_lanes(x));
    dispatch_constant(&b, shape.one_tile);
    dispatch_constant(&b, n->bias != NULL);
    dispatch_writes(&b, 1, &n->out);
    dispatch_reads(&b, 2, &n->in);
    dispatch_bind(&b, 3, &weights, VK_NULL_HANDLE);
    if (q)
        dispatch_writes(&b, 4, &q->out);
    else
        dispatch_no_result(&b, 4);
    dispatch_vector(&b, 5, n->bias);
    bool is_long = n->w && n->w->n_cols > n->group; /* weights of its own for each group */
    dispatch_push(&b, n->group);
    dispatch_push_place(&b, &n->in);
    dispatch_push_place(&b, &n->out);
    dispatch_push_float(&b, (float)(1.0 / (double)n->group));
    dispatch_push_float(&b, n->eps);
    dispatch_push(&b, is_long ? n->group : 0);
    dispatch_push(&b, q ? x->rows[q->out.buf].stride : 0);
    dispatch_push(&b, q ? dispatch_a8_texels(x, q->out.at) : 0);
    push_rotation(&b, op, r, &weights);
    return dispatch_end_rows(&b, (r ? r->x.n : n->in.n) / n->group, 1, err);
}

/* The A8 of in. If the op is a gated unit, in is its gate, and the dispatch makes its result
 * and the A8 of that. */
static bool plan_codes(struct vulkan_exec *x, const struct op *op, int part,
                       const struct ref *in, const struct ref *out, struct err *err)
{
    const struct op_glu *g = op->kind == OP_GLU ? &op->glu : NULL;
    const uint32_t block_lanes = dispatch_block_lanes(x),
                   local = block_lanes > 1 ? LOCAL : TILE;
    struct dispatch_build b = dispatch_begin(
        x, op, part, dispatch_packed_or(x, SHADER_QUANTISE, SHADER_QUANTISE_PACKED), local);
    dispatch_constant(&b, g != NULL);
    dispatch_constant(&b, g ? glu_kinds[g->kind] : 0);
    dispatch_constant(&b, block_lanes);
    dispatch_writes(&b, 1, out);
    dispatch_reads(&b, 2, in);
    if (g) {
        dispatch_reads(&b, 3, &g->up);
        dispatch_writes(&b, 4, &g->out);
    } else {
        dispatch_vector(&b, 3, NULL);
        dispatch_no_result(&b, 4);
    }
    dispatch_push(&b, in->n / 32);
    dispatch_push_place(&b, in);
    dispatch_push(&b, x->rows[out->buf].stride);
    dispatch_push(&b, dispatch_a8_texels(x, out->at));
    if (g) {
        dispatch_push_place(&b, &g->up);
        dispatch_push_place(&b, &g->out);
    }
    return dispatch_end_rows(&b, in->n / 32 * block_lanes, local, err);
}

static bool plan_quantise(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    return plan_codes(x, op, part, &op->quantise.in, &op->quantise.out, err);
}

static bool plan_rope(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_rope *r = &op->rope;
    const struct rope *rope = &x->p->ropes[r->rope];
    size_t n_heads = r->x.n / r->head_dim, n_pairs = rope->n_rot / 2;
    if (n_pairs == 0) return true;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_ROPE, LOCAL);
    dispatch_constant(&b, rope->pairs == ROPE_NEOX);
    dispatch_writes(&b, 1, &r->x);
    dispatch_push(&b, n_heads);
    dispatch_push(&b, r->head_dim);
    dispatch_push(&b, n_pairs);
    dispatch_push_place(&b, &r->x);
    dispatch_push(&b, x->rope_at[r->rope]);
    return dispatch_end_rows(&b, n_heads * n_pairs, LOCAL, err);
}

struct point {
    enum pointwise kind;
    struct ref out, a, b;        /* b.n 0: none */
    const struct weight *vector; /* in the place of b, for all rows; NULL: none */
    uint32_t rebase; /* 1: the output, 2: and the input begin with the part's first row */
    uint32_t factors_at;
    float factor, cap, inverse_cap;
    /* PW_ROW_GATE: values of a run. PW_RUNS, without b: the same, and from one run to the next
     * in a and out. */
    size_t run, step_a, step_out;
};

static bool plan_pointwise(struct vulkan_exec *x, const struct op *op, int part,
                           const struct point *p, struct err *err)
{
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_POINTWISE, LOCAL);
    dispatch_constant(&b, p->kind);
    if (p->rebase) {
        dispatch_bind(&b, 1, &x->logits, VK_NULL_HANDLE);
        b.d.writes |= 1ull << BIT_LOGITS;
    } else {
        dispatch_writes(&b, 1, &p->out);
    }
    dispatch_reads(&b, 2, &p->a);
    if (p->b.n)
        dispatch_reads(&b, 3, &p->b);
    else
        dispatch_vector(&b, 3, p->vector);
    dispatch_push(&b, p->rebase);
    dispatch_push(&b, p->a.n);
    dispatch_push(&b, p->rebase ? p->a.n : x->rows[p->out.buf].stride);
    dispatch_push(&b, p->rebase ? 0 : p->out.at);
    dispatch_push_place(&b, &p->a);
    dispatch_push(&b, p->b.n ? x->rows[p->b.buf].stride : p->step_a);
    dispatch_push(&b, p->b.n ? p->b.at : p->step_out);
    dispatch_push(&b, p->run ? p->run : p->factors_at);
    dispatch_push_float(&b, p->factor);
    dispatch_push_float(&b, p->cap);
    dispatch_push_float(&b, p->inverse_cap);
    return dispatch_end_rows(&b, p->a.n, LOCAL, err);
}

static bool plan_glu(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_glu *g = &op->glu;
    const struct op_quantise *q = glu_codes(x, op);
    if (q) return plan_codes(x, op, part, &g->gate, &q->out, err);
    const struct point p = {
        .kind = glu_kinds[g->kind], .out = g->out, .a = g->gate, .b = g->up};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_add(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_add *a = &op->add;
    const struct point p = {
        .kind = PW_ADD, .out = a->out, .a = a->a, .b = a->b, .factor = a->scale};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_scale(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct point p = {
        .kind = PW_SCALE, .out = op->scale.x, .a = op->scale.x, .factor = op->scale.factor};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_factors(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_factors *f = &op->factors;
    const struct point p = {.kind = PW_LINEAR, .out = f->out, .a = f->in, .vector = f->w};
    const struct point q = {
        .kind = PW_ADD, .out = f->out, .a = f->out, .vector = f->bias, .factor = 1};
    return plan_pointwise(x, op, part, &p, err) &&
           (!f->bias || plan_pointwise(x, op, part, &q, err));
}

static bool plan_limit(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct point p = {
        .kind = PW_LIMIT, .out = op->limit.x, .a = op->limit.x, .factor = op->limit.limit};
    return plan_pointwise(x, op, part, &p, err);
}

/* Square, bend and slope are where others have a factor and a cap. */
static bool plan_xielu(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_xielu *e = &op->xielu;
    const struct point p = {.kind = PW_XIELU,
                            .out = e->x,
                            .a = e->x,
                            .factor = e->square,
                            .cap = e->bend,
                            .inverse_cap = e->slope};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_row_scale(struct vulkan_exec *x, const struct op *op, int part,
                           struct err *err)
{
    const struct op_row_scale *s = &op->row_scale;
    const struct point p = {
        .kind = PW_ROW_SCALE, .out = s->x, .a = s->x, .factors_at = x->factor_at[s->scale]};
    return plan_pointwise(x, op, part, &p, err);
}

/* The runs of a, or of b. */
struct runs_of_one {
    struct ref apart; /* where they lie without those of the other */
    size_t run, step; /* values of one, and from one to the next there */
    size_t at;        /* where one begins within a turn */
};

static bool plan_runs_of(struct vulkan_exec *x, const struct op *op, int part,
                         const struct runs_of_one *r, struct err *err)
{
    const struct op_runs *o = &op->runs;
    const size_t turn = o->run_a + o->run_b;
    struct ref whole = o->all;
    whole.at += r->at;
    struct point p = {.kind = PW_RUNS, .run = r->run};
    p.a = o->join ? r->apart : whole, p.step_a = o->join ? r->step : turn;
    p.out = o->join ? whole : r->apart, p.step_out = o->join ? turn : r->step;
    p.a.n = runs_turns(o) * r->run;
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_runs(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_runs *o = &op->runs;
    const size_t step_a = runs_repeat(o) ? 0 : o->run_a;
    const struct runs_of_one a = {.apart = o->a, .run = o->run_a, .step = step_a};
    const struct runs_of_one b = {
        .apart = o->b, .run = o->run_b, .step = o->run_b, .at = o->run_a};
    return plan_runs_of(x, op, part, &a, err) && plan_runs_of(x, op, part, &b, err);
}

static bool plan_row_gate(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_row_gate *g = &op->row_gate;
    const struct point p = {.kind = g->softplus ? PW_ROW_GATE_SOFTPLUS : PW_ROW_GATE,
                            .out = g->x,
                            .a = g->x,
                            .b = g->gate,
                            .run = g->x.n / g->gate.n};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_logits(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_logits *l = &op->logits;
    bool is_direct = l->in.buf == x->direct;
    if (is_direct && l->scale == 1.0f && l->softcap == 0.0f) return true;
    const struct point p = {.kind = l->softcap == 0.0f ? PW_SCALE : PW_CAP,
                            .a = l->in,
                            .rebase = is_direct ? 2 : 1,
                            .factor = l->scale,
                            .cap = l->softcap,
                            .inverse_cap =
                                l->softcap == 0.0f ? 0.0f : (float)(1.0 / (double)l->softcap)};
    return plan_pointwise(x, op, part, &p, err);
}

/* As in centre.comp. */
enum row_mean { MEAN_CENTRE, MEAN_SIZE, MEAN_CUT };

/* What has the mean of a row, or of a group of it, or of its squares. */
static bool plan_mean(struct vulkan_exec *x, const struct op *op, int part, enum row_mean kind,
                      const struct op_centre *c, float factor, struct err *err)
{
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_CENTRE, TILE);
    dispatch_constant(&b, kind);
    dispatch_writes(&b, 1, &c->out);
    dispatch_reads(&b, 2, &c->in);
    dispatch_push(&b, c->group);
    dispatch_push_place(&b, &c->in);
    dispatch_push_place(&b, &c->out);
    dispatch_push_float(&b, (float)(1.0 / (double)c->group));
    dispatch_push_float(&b, factor);
    return dispatch_end_rows(&b, c->in.n / c->group, 1, err);
}

static bool plan_centre(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    return plan_mean(x, op, part, MEAN_CENTRE, &op->centre, 1, err);
}

static bool plan_size(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_size *s = &op->size;
    const struct op_centre row = {s->in, s->out, s->in.n};
    return plan_mean(x, op, part, MEAN_SIZE, &row, 1, err);
}

static bool plan_cut(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_cut *c = &op->cut;
    const struct op_centre row = {c->in, c->out, c->in.n};
    return plan_mean(x, op, part, MEAN_CUT, &row, c->factor, err);
}

static bool plan_route(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_route *r = &op->route;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_ROUTE, TILE);
    dispatch_constant(&b, r->kind);
    dispatch_constant(&b, r->select != NULL);
    dispatch_constant(&b, r->scales != NULL);
    dispatch_constant(&b, r->renormalise);
    dispatch_constant(&b, r->n_groups > 0);
    dispatch_writes(&b, 1, &r->out);
    if (r->kind == ROUTE_EACH)
        dispatch_vector(&b, 2, NULL);
    else
        dispatch_reads(&b, 2, &r->scores);
    dispatch_vector(&b, 3, r->select);
    dispatch_vector(&b, 4, r->scales);
    dispatch_push(&b, r->scores.n);
    dispatch_push(&b, r->out.n);
    dispatch_push_place(&b, &r->scores);
    dispatch_push_place(&b, &r->out);
    dispatch_push_float(&b, r->scale);
    dispatch_push(&b, r->n_groups);
    dispatch_push(&b, r->n_groups_used);
    return dispatch_end_rows(&b, 1, 1, err);
}

static bool plan_combine(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_combine *c = &op->combine;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_COMBINE, LOCAL);
    dispatch_writes(&b, 1, &c->out);
    dispatch_reads(&b, 2, &c->in);
    dispatch_reads(&b, 3, &c->route);
    dispatch_push(&b, c->out.n);
    dispatch_push(&b, c->route.n);
    dispatch_push_place(&b, &c->in);
    dispatch_push_place(&b, &c->out);
    dispatch_push_place(&b, &c->route);
    return dispatch_end_rows(&b, c->out.n, LOCAL, err);
}

/* Nothing on the device writes what the host left there. */
static bool plan_input(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_input *in = &op->input;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_POINTWISE, LOCAL);
    dispatch_constant(&b, POINTWISE_COPY);
    dispatch_writes(&b, 1, &in->out);
    dispatch_bind(&b, 2, &x->input, VK_NULL_HANDLE);
    dispatch_vector(&b, 3, NULL);
    dispatch_push(&b, 0); /* rows keep their number */
    dispatch_push(&b, in->out.n);
    dispatch_push_place(&b, &in->out);
    dispatch_push(&b, x->p->n_input);
    dispatch_push(&b, in->at);
    for (int i = 0; i < 6; i++) /* no second operand, factor or cap */
        dispatch_push(&b, 0);
    return dispatch_end_rows(&b, in->out.n, LOCAL, err);
}

static bool plan_op(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    switch (op->kind) {
    case OP_EMBED: return plan_embed(x, op, part, err);
    case OP_NORM: return plan_norm(x, op, part, err);
    case OP_QUANTISE: return plan_quantise(x, op, part, err);
    case OP_MATMUL: return vulkan_plan_matmul(x, op, part, err);
    case OP_ROPE: return plan_rope(x, op, part, err);
    case OP_ROW_SCALE: return plan_row_scale(x, op, part, err);
    case OP_SCALE: return plan_scale(x, op, part, err);
    case OP_FACTORS: return plan_factors(x, op, part, err);
    case OP_LIMIT: return plan_limit(x, op, part, err);
    case OP_KV_STORE: return vulkan_plan_kv_store(x, op, part, err);
    case OP_ATTEND: return vulkan_plan_attend(x, op, part, err);
    case OP_XIELU: return plan_xielu(x, op, part, err);
    case OP_GLU: return plan_glu(x, op, part, err);
    case OP_ADD: return plan_add(x, op, part, err);
    case OP_CENTRE: return plan_centre(x, op, part, err);
    case OP_SIZE: return plan_size(x, op, part, err);
    case OP_CUT: return plan_cut(x, op, part, err);
    case OP_ROUTE: return plan_route(x, op, part, err);
    case OP_MATMUL_EXPERTS: return vulkan_plan_experts(x, op, part, err);
    case OP_COMBINE: return plan_combine(x, op, part, err);
    case OP_HEAD_ROWS: return true;
    case OP_CONV: return vulkan_plan_conv(x, op, part, err);
    case OP_DECAY: return vulkan_plan_decay(x, op, part, err);
    case OP_RECUR: return vulkan_plan_recur(x, op, part, err);
    case OP_RUNS: return plan_runs(x, op, part, err);
    case OP_ROW_GATE: return plan_row_gate(x, op, part, err);
    case OP_LOGITS: return plan_logits(x, op, part, err);
    case OP_INPUT: return plan_input(x, op, part, err);
    case OP_OUTPUT: break; /* plan_check refuses it */
    }
    return false;
}

/* ---- the whole ---- */

/* Pieces of weights that an op reads beyond the first of each: it has a dispatch for every one.
 */
static size_t n_more_pieces(const struct op *op)
{
    struct op mine = *op;
    const struct weight **slots[OP_MOST_WEIGHTS];
    size_t n = 0;
    for (size_t i = op_weights(&mine, slots); i > 0; i--)
        n += ((const struct vulkan_weight *)*slots[i - 1])->n_pieces - 1;
    return n;
}

/* At most so many dispatches has an op: see plan_attend.c and, for the others, which have no
 * row blocks, plan_recurrent.c. */
static size_t most_dispatches(const struct vulkan_exec *x, const struct op *op)
{
    enum { MOST = 5 };
    const size_t n_blocks = dispatch_groups(x->max_rows, x->block_rows);
    switch (op->kind) {
    case OP_KV_STORE: return x->n_slabs;
    case OP_ATTEND: return 1 + n_blocks * (x->n_slabs + 1);
    default: return MOST + n_more_pieces(op);
    }
}

/* The slabs of this program's pages, and where the tables of a step stand. */
static bool lay_out_step(struct vulkan_exec *x, struct err *err)
{
    const struct vulkan_pages *pages = &vulkan_of(x)->pages;
    const struct program *p = x->p;
    size_t at = STEP_WORDS;
    x->tokens_at = (uint32_t)at;
    at += x->max_rows;
    for (size_t i = 0; i < p->n_ropes; i++) {
        x->rope_at[i] = (uint32_t)at;
        at += x->max_rows * p->ropes[i].n_rot;
    }
    for (size_t i = 0; i < p->n_row_scales; i++) {
        x->factor_at[i] = (uint32_t)at;
        at += x->max_rows;
    }
    x->slabs = mem_zalloc(PAGE_PARTS * pages->n_slabs + 1, sizeof *x->slabs);
    x->n_slabs = 0;
    for (size_t i = 0; i < PAGE_PARTS * pages->n_slabs; i++) {
        const enum page_part part = (enum page_part)(i % PAGE_PARTS);
        const struct vulkan_slab *slab = &pages->slabs[i / PAGE_PARTS];
        if (slab->page_bytes != p->page_bytes[part]) continue;
        struct vulkan_plan_slab *s = &x->slabs[x->n_slabs++];
        *s = (struct vulkan_plan_slab){part, i / PAGE_PARTS, (uint32_t)at, 0};
        at += 2 * slab->n_pages;
        s->store_at = (uint32_t)at;
        at += 2 * (x->max_rows / PAGE_LEN + 2);
    }
    x->draws.at = (uint32_t)at;
    at += vulkan_draw_words();
    x->indirect_at = (uint32_t)at;
    at += SINGLE_WORDS * DRAW_STAGES;
    for (size_t i = 0; i < p->n_ops; i++)
        at += SINGLE_WORDS * most_dispatches(x, &p->ops[i]);
    /* Written, not read: to read a card's memory takes the host a microsecond a word. */
    x->step_memory = (struct vulkan_arena){.vk = vulkan_of(x)->vk, .place = VULKAN_WRITTEN};
    return vulkan_arena_take(&x->step_memory, at * 4, &x->step, err);
}

/* As many rows of attention at once as the parts have room for, with all pages there may be. */
static bool lay_out_parts(struct vulkan_exec *x, struct err *err)
{
    const struct program *p = x->p;
    size_t per_row = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op_attend *a = &p->ops[i].attend;
        if (p->ops[i].kind != OP_ATTEND) continue;
        size_t n =
            a->n_heads * vulkan_plan_ring(x, a) * (p->kv[a->kv].head_dim_v + 2) * sizeof(float);
        if (n > per_row) per_row = n;
    }
    x->block_rows = x->max_rows;
    if (per_row == 0) return true;
    size_t fit = PARTS_BYTES / per_row;
    if (fit < x->block_rows) x->block_rows = fit > 0 ? (uint32_t)fit : 1;
    if (x->block_rows * per_row > vulkan_storage_limit(vulkan_of(x)->vk))
        return err_set(err, ERR_MEMORY,
                       "%s: attention to so long a context takes %zu MiB at once: it binds %zu "
                       "MiB",
                       vulkan_of(x)->vk->properties.deviceName, per_row >> 20,
                       vulkan_storage_limit(vulkan_of(x)->vk) >> 20);
    return vulkan_arena_take(&x->tables, x->block_rows * per_row, &x->parts, err);
}

static bool plan_ops(struct vulkan_exec *x, struct err *err)
{
    int part = PART_BODY;
    for (size_t i = 0; i < x->p->n_ops; i++) {
        const struct op *op = &x->p->ops[i];
        if (op->kind == OP_HEAD_ROWS) part = PART_HEAD;
        if (!plan_op(x, op, part, err)) return false;
        i += n_made_with(x, op);
    }
    for (size_t i = 0; i < x->p->n_ops; i++)
        if (!vulkan_plan_advance(x, &x->p->ops[i], err)) return false;
    if (!vulkan_plan_draw(x, err)) return false;
    assert(x->indirect_at + SINGLE_WORDS * x->n_dispatches <= x->step.n_bytes / 4);
    x->of_few = mem_alloc(x->n_dispatches * sizeof *x->of_few);
    for (size_t i = 0; i < x->n_dispatches; i++)
        if (vulkan_has_few(&x->dispatches[i])) x->of_few[x->n_of_few++] = i;
    return true;
}

bool vulkan_plan_make(struct vulkan_exec *x, struct err *err)
{
    vulkan_plan_free(x);
    struct vulkan *vk = vulkan_of(x)->vk;
    x->tables = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_DEVICE};
    x->sets = (struct vulkan_sets){.vk = vk};
    x->is_planned = lay_out_parts(x, err) && lay_out_step(x, err) && plan_ops(x, err);
    x->generation = vulkan_of(x)->pages.generation;
    x->plan = ++vk->n_plans;
    if (!x->is_planned) vulkan_plan_free(x);
    return x->is_planned;
}

void vulkan_plan_free(struct vulkan_exec *x)
{
    vulkan_records_free(x);
    vulkan_sets_free(&x->sets);
    vulkan_arena_free(&x->tables);
    vulkan_arena_free(&x->step_memory);
    free(x->dispatches);
    free(x->of_few);
    free(x->slabs);
    x->dispatches = NULL;
    x->of_few = NULL;
    x->slabs = NULL;
    x->n_dispatches = x->cap_dispatches = x->n_of_few = x->n_slabs = 0;
    x->is_planned = false;
}
