/* The ops of recurrent layers, which change the states at work. */
#include "vulkan/dispatch.h"

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

/* The rows first, then the state that follows. */
bool vulkan_plan_conv(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_conv *c = &op->conv;
    for (int shift = 0; shift < 2; shift++) {
        struct dispatch_build b = dispatch_begin(x, op, part, SHADER_CONV, LOCAL);
        dispatch_constant(&b, (uint32_t)shift);
        size_t state_at = bind_state(&b, 1, c->state);
        dispatch_reads(&b, 2, &c->in);
        dispatch_writes(&b, 3, &c->out);
        dispatch_vector(&b, 4, c->w);
        dispatch_vector(&b, 5, c->bias);
        dispatch_push(&b, c->in.n);
        dispatch_push(&b, c->n_taps);
        dispatch_push_place(&b, &c->in);
        dispatch_push_place(&b, &c->out);
        dispatch_push(&b, state_at);
        dispatch_push(&b, c->bias != NULL);
        dispatch_push(&b, c->silu);
        const struct vulkan_grid grid = {.kind = shift ? GRID_ONCE : GRID_ROWS,
                                         .x = dispatch_groups(c->in.n, LOCAL)};
        if (!dispatch_end(&b, grid, err)) return false;
    }
    return true;
}

bool vulkan_plan_decay(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_decay *d = &op->decay;
    size_t n_heads = d->out.n / 2;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_DECAY, TILE);
    dispatch_constant(&b, d->betas);
    dispatch_writes(&b, 1, &d->out);
    dispatch_reads(&b, 2, &d->in);
    dispatch_vector(&b, 3, d->bias);
    dispatch_vector(&b, 4, d->a);
    dispatch_push(&b, n_heads);
    dispatch_push(&b, d->betas ? d->run : n_heads);
    dispatch_push_place(&b, &d->in);
    dispatch_push_place(&b, &d->out);
    return dispatch_end_rows(&b, n_heads, TILE, err);
}

bool vulkan_plan_recur(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_recur *r = &op->recur;
    struct dispatch_build b = dispatch_begin(x, op, part, SHADER_RECUR, TILE);
    dispatch_constant(&b, r->delta);
    dispatch_constant(&b, r->tiled);
    dispatch_constant(&b, r->skip != NULL);
    size_t state_at = bind_state(&b, 1, r->state);
    dispatch_reads(&b, 2, &r->q);
    dispatch_reads(&b, 3, &r->k);
    dispatch_reads(&b, 4, &r->v);
    dispatch_reads(&b, 5, &r->gates);
    dispatch_writes(&b, 6, &r->out);
    dispatch_vector(&b, 7, r->skip);
    dispatch_push(&b, r->n_heads);
    dispatch_push(&b, r->n_groups);
    dispatch_push(&b, r->n_dim);
    dispatch_push(&b, r->n_width);
    dispatch_push_place(&b, &r->q);
    dispatch_push_place(&b, &r->k);
    dispatch_push_place(&b, &r->v);
    dispatch_push_place(&b, &r->gates);
    dispatch_push_place(&b, &r->out);
    dispatch_push(&b, state_at);
    const struct vulkan_grid grid = {
        .kind = GRID_ONCE, .x = dispatch_groups((size_t)r->n_heads * r->n_width, TILE)};
    return dispatch_end(&b, grid, err);
}
