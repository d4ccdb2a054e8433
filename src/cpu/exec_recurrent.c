/* How the recurrent ops are cut into chunks: by heads and columns of a state, never by rows,
 * which follow from each other. And the trail: what these ops took in, row by row, from which
 * the states can be advanced once more, by fewer rows.
 *
 * A row of a convolution's trail is its input; a row of a recurrence's is k, v and gates. */
#include <string.h>

#include "base/pool.h"
#include "cpu/exec_impl.h"

static const float *part_in(const struct cpu_exec *x, const void *state, uint32_t part)
{
    return (const float *)((const uint8_t *)state + x->p->states[part].at);
}

static float *part_out(const struct cpu_exec *x, void *state, uint32_t part)
{
    return (float *)((uint8_t *)state + x->p->states[part].at);
}

size_t trail_width(const struct op *op)
{
    switch (op->kind) {
    case OP_CONV: return op->conv.in.n;
    case OP_RECUR: return op->recur.k.n + op->recur.v.n + op->recur.gates.n;
    default: return 0;
    }
}

/* Values of the step's rows to the at-th place of each row of the op's trail. */
static void keep_trail(const struct cpu_exec *x, const struct ref *from, size_t at)
{
    const size_t width = trail_width(x->op);
    float *to = x->trail[op_state(x->op)] + at;
    for (size_t r = 0; r < x->hi; r++)
        memcpy(to + r * width, row_f32(x, from, r), from->n * sizeof *to);
}

/* ---- convolution: rows need only the inputs of rows before ---- */

static void conv_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_conv *op = &x->op->conv;
    const struct conv c = {
        .x = row_f32(x, &op->in, 0),
        .x_stride = x->rows[op->in.buf].stride,
        .state = part_in(x, x->step->state_in, op->state),
        .w = vector_of(op->w),
        .bias = vector_of(op->bias),
        .n_taps = op->n_taps,
        .n = op->in.n,
        .silu = op->silu,
        .out = row_f32(x, &op->out, 0),
        .out_stride = x->rows[op->out.buf].stride,
    };
    kernels_of(x)->conv(&c, lo, hi);
}

/* The inputs of the last n_taps-1 rows, of those before the step and its own n_rows, which lie
 * stride apart at in. */
static void conv_state(const struct op_conv *op, const float *state, const float *in,
                       size_t stride, size_t n_rows, float *to)
{
    const size_t n_before = op->n_taps - 1, n = op->in.n;
    for (size_t i = 0; i < n_before; i++) {
        const size_t at = n_rows + i; /* from the oldest row of the state on */
        const float *row = at < n_before ? state + at * n : in + (at - n_before) * stride;
        memcpy(to + i * n, row, n * sizeof *to);
    }
}

bool run_conv(struct cpu_exec *x)
{
    const struct op_conv *op = &x->op->conv;
    conv_state(op, part_in(x, x->step->state_in, op->state), row_f32(x, &op->in, 0),
               x->rows[op->in.buf].stride, x->hi, part_out(x, x->step->state_out, op->state));
    if (x->step->keeps_trail) keep_trail(x, &op->in, 0);
    return for_rows(x, op->in.n * (op->n_taps + (op->silu ? 4 : 0)), conv_rows);
}

/* ---- decays ---- */

static void decay_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_decay *op = &x->op->decay;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->decay(op, row_f32(x, &op->in, r), vector_of(op->bias), vector_of(op->a),
                             row_f32(x, &op->out, r));
}

bool run_decay(struct cpu_exec *x)
{
    return for_rows(x, 8 * x->op->decay.out.n, decay_rows);
}

/* ---- states ---- */

/* States of a layer from this size on belong to a model that no cache holds until the next
 * step, and a store into a cache would first read what it overwrites. A step of Qwen3.5 0.8B,
 * whose layers have 1 MiB, ms, so and past the caches: 1 row 16.9 and 16.3, while memory is
 * quick 12.1 and 11.4, 8 rows 24.4 and 23.9 (2 threads, Zen 4, 2026-11). */
enum { STREAM_BYTES = 1 << 18 };

struct recur_loop {
    const struct kernels *kernels;
    struct recur r;
    size_t n_blocks; /* of columns, per head */
};

static void recur_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    const struct recur_loop *loop = ctx;
    const size_t head = chunk / loop->n_blocks, lo = chunk % loop->n_blocks * RECUR_COLS;
    const size_t hi = lo + RECUR_COLS, n = loop->r.n_width;
    loop->kernels->recur(&loop->r, head, lo, hi < n ? hi : n);
}

/* r has the rows and states; the rest is the op's. */
static bool recur(const struct cpu_exec *x, const struct op_recur *op, struct recur r,
                  const atomic_bool *cancel)
{
    r.n_heads = op->n_heads;
    r.n_groups = op->n_groups;
    r.n_dim = op->n_dim;
    r.n_width = op->n_width;
    r.delta = op->delta;
    r.tiled = op->tiled;
    r.by_dim = op->by_dim;
    r.erase = op->erase;
    r.a = vector_of(op->a);
    const size_t n_bytes = op->n_heads * op->n_dim * op->n_width * sizeof *r.to;
    r.streams = n_bytes >= STREAM_BYTES && op->n_width % RECUR_COLS == 0;
    struct recur_loop loop = {kernels_of(x), r, (op->n_width + RECUR_COLS - 1) / RECUR_COLS};
    return pool_run(backend_of(x)->pool, op->n_heads * loop.n_blocks, recur_chunk, &loop,
                    cancel);
}

bool run_recur(struct cpu_exec *x)
{
    const struct op_recur *op = &x->op->recur;
    const struct recur r = {
        .q = row_f32(x, &op->q, 0),
        .q_stride = x->rows[op->q.buf].stride,
        .k = row_f32(x, &op->k, 0),
        .k_stride = x->rows[op->k.buf].stride,
        .v = row_f32(x, &op->v, 0),
        .v_stride = x->rows[op->v.buf].stride,
        .gates = row_f32(x, &op->gates, 0),
        .gates_stride = x->rows[op->gates.buf].stride,
        .skip = vector_of(op->skip),
        .in = part_in(x, x->step->state_in, op->state),
        .to = part_out(x, x->step->state_out, op->state),
        .out = row_f32(x, &op->out, 0),
        .out_stride = x->rows[op->out.buf].stride,
        .n_rows = x->hi,
    };
    if (x->step->keeps_trail) {
        keep_trail(x, &op->k, 0);
        keep_trail(x, &op->v, op->k.n);
        keep_trail(x, &op->gates, op->k.n + op->v.n);
    }
    return recur(x, op, r, x->step->cancel);
}

/* ---- advancing by the trail ---- */

static void advance_conv(const struct cpu_exec *x, const struct op_conv *op, const void *from,
                         void *to, size_t n_rows)
{
    conv_state(op, part_in(x, from, op->state), x->trail[op->state], op->in.n, n_rows,
               part_out(x, to, op->state));
}

/* Without an output q does not count, and k stands in for it. */
static void advance_recur(const struct cpu_exec *x, const struct op *op, const void *from,
                          void *to, size_t n_rows)
{
    const struct op_recur *o = &op->recur;
    const size_t width = trail_width(op);
    const float *trail = x->trail[o->state];
    const struct recur r = {
        .q = trail,
        .k = trail,
        .v = trail + o->k.n,
        .gates = trail + o->k.n + o->v.n,
        .q_stride = width,
        .k_stride = width,
        .v_stride = width,
        .gates_stride = width,
        .in = part_in(x, from, o->state),
        .to = part_out(x, to, o->state),
        .n_rows = n_rows,
    };
    recur(x, o, r, NULL);
}

bool cpu_exec_advance(struct exec *base, const void *state_in, void *state_out, uint32_t n_rows,
                      struct err *err)
{
    (void)err;
    const struct cpu_exec *x = (const struct cpu_exec *)base;
    for (size_t i = 0; i < x->p->n_ops; i++) {
        const struct op *op = &x->p->ops[i];
        if (op->kind == OP_CONV) advance_conv(x, &op->conv, state_in, state_out, n_rows);
        if (op->kind == OP_RECUR) advance_recur(x, op, state_in, state_out, n_rows);
    }
    return true;
}
