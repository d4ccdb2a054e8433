/* The ops of recurrent layers, which change the states at work; and their trail: what they took
 * in, row by row, from which the states can be advanced once more, by fewer rows.
 *
 * A row of a convolution's trail is its input; a row of a recurrence's is k, v and gates. */
#include "vulkan/dispatch.h"
#include "vulkan/step_layout.h"

size_t vulkan_trail_width(const struct op *op)
{
    switch (op->kind) {
    case OP_CONV: return op->conv.in.n;
    case OP_RECUR: return op->recur.k.n + op->recur.v.n + op->recur.gates.n;
    default: return 0;
    }
}

/* Where an op reads its rows: from a buffer, or from its trail. */
struct source {
    struct vulkan_region region;
    uint64_t bit;
    size_t stride, at;
};

static struct source from_rows(const struct vulkan_exec *x, const struct ref *ref)
{
    const struct vulkan_rows *r = &x->rows[ref->buf];
    return (struct source){r->region, 1ull << ref->buf, r->stride, ref->at};
}

/* What reads a trail is submitted before what writes it, behind a barrier. */
static struct source from_trail(const struct vulkan_exec *x, const struct op *op,
                                uint32_t state, size_t at)
{
    return (struct source){x->trail[state], 0, vulkan_trail_width(op), at};
}

static void read_source(struct dispatch_build *b, uint32_t at, const struct source *s)
{
    dispatch_bind(b, at, &s->region, VK_NULL_HANDLE);
    b->d.reads |= s->bit;
}

static void push_source(struct dispatch_build *b, const struct source *s)
{
    dispatch_push(b, s->stride);
    dispatch_push(b, s->at);
}

/* Values of the step's rows to the at-th place of each row of the op's trail. Steps of more
 * rows than that keep none. */
static bool plan_keep(struct vulkan_exec *x, const struct op *op, uint32_t state,
                      const struct ref *from, size_t at, struct err *err)
{
    struct dispatch_build b = dispatch_begin(x, op, PART_BODY, SHADER_POINTWISE, LOCAL);
    b.d.part = PART_KEEP;
    dispatch_constant(&b, POINTWISE_COPY);
    dispatch_bind(&b, 1, &x->trail[state], VK_NULL_HANDLE);
    dispatch_reads(&b, 2, from);
    dispatch_vector(&b, 3, NULL);
    dispatch_push(&b, 0); /* rows keep their number */
    dispatch_push(&b, from->n);
    dispatch_push(&b, vulkan_trail_width(op));
    dispatch_push(&b, at);
    dispatch_push_place(&b, from);
    for (int i = 0; i < 6; i++) /* no second operand, factor or cap */
        dispatch_push(&b, 0);
    return dispatch_end_rows(&b, from->n, LOCAL, err);
}

/* Binds a part of the recurrent state; returns the word of the binding at which it begins. */
static size_t bind_state(struct dispatch_build *b, uint32_t at, uint32_t state)
{
    const struct state_part *p = &b->x->p->states[state];
    const size_t begin = p->at / 256 * 256; /* every device can bind there */
    struct vulkan_region r = b->x->state;
    r.at += begin;
    r.n_bytes = p->at - begin + p->n * sizeof(float);
    dispatch_bind(b, at, &r, VK_NULL_HANDLE);
    b->d.reads |= 1ull << BIT_STATE;
    b->d.writes |= 1ull << BIT_STATE;
    return (p->at - begin) / sizeof(float);
}

/* Where it stands how many rows change the states: an advance goes before a step in what is
 * submitted, and has a number of its own. */
static void push_n_rows(struct dispatch_build *b)
{
    dispatch_push(b, b->part == PART_ADVANCE ? STEP_N_ADVANCE : STEP_N_ROWS);
}

/* The rows, or with `shift` the state that follows them. */
static bool plan_conv(struct vulkan_exec *x, const struct op *op, int part, bool shift,
                      struct source in, struct err *err)
{
    const struct op_conv *c = &op->conv;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_CONV, LOCAL);
    dispatch_constant(&b, shift);
    size_t state_at = bind_state(&b, 1, c->state);
    read_source(&b, 2, &in);
    dispatch_writes(&b, 3, &c->out);
    dispatch_vector(&b, 4, c->w);
    dispatch_vector(&b, 5, c->bias);
    dispatch_push(&b, c->in.n);
    dispatch_push(&b, c->n_taps);
    push_source(&b, &in);
    dispatch_push_place(&b, &c->out);
    dispatch_push(&b, state_at);
    dispatch_push(&b, c->bias != NULL);
    dispatch_push(&b, c->silu);
    push_n_rows(&b);
    const struct vulkan_grid grid = {.kind = shift ? GRID_ONCE : GRID_ROWS,
                                     .x = dispatch_groups(c->in.n, LOCAL)};
    return dispatch_end(&b, grid, err);
}

bool vulkan_plan_conv(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_conv *c = &op->conv;
    const struct source in = from_rows(x, &c->in);
    return plan_keep(x, op, c->state, &c->in, 0, err) &&
           plan_conv(x, op, part, false, in, err) && plan_conv(x, op, part, true, in, err);
}

bool vulkan_plan_decay(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_decay *d = &op->decay;
    const size_t n_heads = decay_n_heads(d), n_each = decay_n_each(d);
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_DECAY, TILE);
    dispatch_constant(&b, d->betas);
    dispatch_constant(&b, d->in.n == 0);
    dispatch_constant(&b, d->bound < 0);
    dispatch_constant(&b, d->by_exp);
    dispatch_writes(&b, 1, &d->out);
    if (d->in.n > 0)
        dispatch_reads(&b, 2, &d->in);
    else
        dispatch_vector(&b, 2, NULL);
    dispatch_vector(&b, 3, d->bias);
    dispatch_vector(&b, 4, d->a);
    dispatch_push(&b, n_heads);
    dispatch_push(&b, d->betas ? d->run : n_heads);
    dispatch_push(&b, n_each);
    dispatch_push_place(&b, &d->in);
    dispatch_push_place(&b, &d->out);
    dispatch_push_float(&b, d->bound);
    return dispatch_end_rows(&b, n_heads * n_each, TILE, err);
}

struct recur_sources {
    struct source q, k, v, gates;
};

static bool plan_recur(struct vulkan_exec *x, const struct op *op, int part,
                       const struct recur_sources *from, struct err *err)
{
    const struct op_recur *r = &op->recur;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_RECUR, TILE);
    dispatch_constant(&b, r->delta);
    dispatch_constant(&b, r->tiled);
    dispatch_constant(&b, r->skip != NULL);
    dispatch_constant(&b, r->by_dim);
    dispatch_constant(&b, r->a != NULL);
    dispatch_constant(&b, r->erase);
    size_t state_at = bind_state(&b, 1, r->state);
    read_source(&b, 2, &from->q);
    read_source(&b, 3, &from->k);
    read_source(&b, 4, &from->v);
    read_source(&b, 5, &from->gates);
    dispatch_writes(&b, 6, &r->out);
    dispatch_vector(&b, 7, r->a ? r->a : r->skip);
    dispatch_push(&b, r->n_heads);
    dispatch_push(&b, r->n_groups);
    dispatch_push(&b, r->n_dim);
    dispatch_push(&b, r->n_width);
    push_source(&b, &from->q);
    push_source(&b, &from->k);
    push_source(&b, &from->v);
    push_source(&b, &from->gates);
    dispatch_push_place(&b, &r->out);
    dispatch_push(&b, state_at);
    push_n_rows(&b);
    const struct vulkan_grid grid = {
        .kind = GRID_ONCE, .x = dispatch_groups((size_t)r->n_heads * r->n_width, TILE)};
    return dispatch_end(&b, grid, err);
}

bool vulkan_plan_recur(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_recur *r = &op->recur;
    const struct recur_sources from = {from_rows(x, &r->q), from_rows(x, &r->k),
                                       from_rows(x, &r->v), from_rows(x, &r->gates)};
    return plan_keep(x, op, r->state, &r->k, 0, err) &&
           plan_keep(x, op, r->state, &r->v, r->k.n, err) &&
           plan_keep(x, op, r->state, &r->gates, r->k.n + r->v.n, err) &&
           plan_recur(x, op, part, &from, err);
}

/* k stands in for q, which the trail does not have. */
static struct recur_sources recur_trail(const struct vulkan_exec *x, const struct op *op)
{
    const struct op_recur *r = &op->recur;
    const struct source k = from_trail(x, op, r->state, 0);
    return (struct recur_sources){k, k, from_trail(x, op, r->state, r->k.n),
                                  from_trail(x, op, r->state, r->k.n + r->v.n)};
}

/* What is read from a state goes to the rows of the last step, which nobody needs any more. */
bool vulkan_plan_advance(struct vulkan_exec *x, const struct op *op, struct err *err)
{
    struct recur_sources from;
    switch (op->kind) {
    case OP_CONV:
        return plan_conv(x, op, PART_ADVANCE, true, from_trail(x, op, op->conv.state, 0), err);
    case OP_RECUR:
        from = recur_trail(x, op);
        return plan_recur(x, op, PART_ADVANCE, &from, err);
    default: return true;
    }
}
