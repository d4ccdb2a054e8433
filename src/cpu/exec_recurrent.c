/* How the recurrent ops are cut into chunks: by heads and columns of a state, never by rows,
 * which follow from each other. */
#include <string.h>

#include "cpu/exec_impl.h"

static const float *state_in(const struct cpu_exec *x, uint32_t part)
{
    return (const float *)((const uint8_t *)x->step->state_in + x->p->states[part].at);
}

static float *state_out(const struct cpu_exec *x, uint32_t part)
{
    return (float *)((uint8_t *)x->step->state_out + x->p->states[part].at);
}

/* ---- convolution: rows need only the inputs of rows before ---- */

static struct conv conv_of(const struct cpu_exec *x)
{
    const struct op_conv *op = &x->op->conv;
    return (struct conv){
        .x = row_f32(x, &op->in, 0),
        .x_stride = x->rows[op->in.buf].stride,
        .state = state_in(x, op->state),
        .w = vector_of(op->w),
        .bias = vector_of(op->bias),
        .n_taps = op->n_taps,
        .n = op->in.n,
        .silu = op->silu,
        .out = row_f32(x, &op->out, 0),
        .out_stride = x->rows[op->out.buf].stride,
    };
}

static void conv_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct conv c = conv_of(x);
    kernels_of(x)->conv(&c, lo, hi);
}

/* The last n_taps-1 inputs of those before the step and in it. */
static void conv_state(const struct cpu_exec *x)
{
    const struct conv c = conv_of(x);
    const size_t n_before = c.n_taps - 1, n_rows = x->hi;
    float *to = state_out(x, x->op->conv.state);
    for (size_t i = 0; i < n_before; i++) {
        const size_t at = n_rows + i; /* from the oldest row of the state on */
        const float *row =
            at < n_before ? c.state + at * c.n : c.x + (at - n_before) * c.x_stride;
        memcpy(to + i * c.n, row, c.n * sizeof *to);
    }
}

bool run_conv(struct cpu_exec *x)
{
    const struct op_conv *op = &x->op->conv;
    conv_state(x);
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

struct recur_loop {
    struct cpu_exec *x;
    struct recur r;
    size_t n_blocks; /* of columns, per head */
};

static void recur_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    const struct recur_loop *loop = ctx;
    const size_t head = chunk / loop->n_blocks, lo = chunk % loop->n_blocks * RECUR_COLS;
    const size_t hi = lo + RECUR_COLS, n = loop->r.n_width;
    kernels_of(loop->x)->recur(&loop->r, head, lo, hi < n ? hi : n);
}

bool run_recur(struct cpu_exec *x)
{
    const struct op_recur *op = &x->op->recur;
    struct recur_loop loop = {
        .x = x,
        .r = {.q = row_f32(x, &op->q, 0),
              .q_stride = x->rows[op->q.buf].stride,
              .k = row_f32(x, &op->k, 0),
              .k_stride = x->rows[op->k.buf].stride,
              .v = row_f32(x, &op->v, 0),
              .v_stride = x->rows[op->v.buf].stride,
              .gates = row_f32(x, &op->gates, 0),
              .gates_stride = x->rows[op->gates.buf].stride,
              .skip = vector_of(op->skip),
              .in = state_in(x, op->state),
              .to = state_out(x, op->state),
              .out = row_f32(x, &op->out, 0),
              .out_stride = x->rows[op->out.buf].stride,
              .n_rows = x->hi,
              .n_heads = op->n_heads,
              .n_groups = op->n_groups,
              .n_dim = op->n_dim,
              .n_width = op->n_width,
              .delta = op->delta,
              .tiled = op->tiled},
    };
    loop.n_blocks = (op->n_width + RECUR_COLS - 1) / RECUR_COLS;
    return pool_run(backend_of(x)->pool, op->n_heads * loop.n_blocks, recur_chunk, &loop,
                    x->step->cancel);
}
