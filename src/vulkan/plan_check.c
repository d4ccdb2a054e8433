/* Which programs can be run on a Vulkan device. */
#include "vulkan/dispatch.h"

enum { MAX_EXPERTS = 512, MAX_USED = 32 };

static bool refuse(struct err *err, const struct op *op, const char *what)
{
    return err_set(err, ERR_DEVICE, "layer %d: %s is not done on Vulkan devices: use cpu",
                   op->layer, what);
}

static bool check_attend(const struct program *p, const struct op *op, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &p->kv[a->kv];
    bool fits = kv->head_dim_k % 4 == 0 && kv->head_dim_v % 2 == 0 &&
                (kv->type != KV_F32 || kv->head_dim_v % 4 == 0) && a->q.at % 4 == 0;
    return fits || refuse(err, op, "attention with heads of an odd size");
}

static bool check_op(const struct program *p, const struct op *op, struct err *err)
{
    switch (op->kind) {
    case OP_EMBED:
    case OP_CENTRE:
    case OP_SIZE:
    case OP_CUT:
    case OP_NORM:
    case OP_QUANTISE:
    case OP_ROPE:
    case OP_ROW_SCALE:
    case OP_SCALE:
    case OP_FACTORS:
    case OP_LIMIT:
    case OP_XIELU:
    case OP_KV_STORE:
    case OP_GLU:
    case OP_ADD:
    case OP_COMBINE:
    case OP_HEAD_ROWS:
    case OP_LOGITS: return true;
    case OP_CONV:
    case OP_DECAY:
    case OP_RECUR:
    case OP_RUNS:
    case OP_ROW_GATE:
    case OP_INPUT: return true;
    case OP_OUTPUT: return refuse(err, op, "the front of a model");
    case OP_MATMUL:
        return op->matmul.in_f32.n == 0 || op->matmul.in_f32.at % 4 == 0 ||
               refuse(err, op, "a product of floats from the middle of a row");
    case OP_ATTEND: return check_attend(p, op, err);
    case OP_ROUTE:
        return op->route.kind == ROUTE_EACH || op->route.kind == ROUTE_GIVEN ||
               (op->route.scores.n <= MAX_EXPERTS && op->route.out.n <= MAX_USED) ||
               refuse(err, op, "routing among more than 512 experts, or to more than 32");
    case OP_MATMUL_EXPERTS:
        return op->experts.in_f32.n == 0 ||
               (op->experts.in_f32.at % 4 == 0 && op->experts.w->n_cols % 4 == 0) ||
               refuse(err, op, "experts of floats from the middle of a row");
    }
    return refuse(err, op, "an op of this kind");
}

bool vulkan_plan_check(const struct vulkan_backend *be, const struct program *p,
                       struct err *err)
{
    (void)be;
    if (p->n_buffers >= BIT_STATE)
        return err_set(err, ERR_DEVICE, "a program of %zu row buffers: at most %d",
                       p->n_buffers, BIT_STATE - 1);
    for (size_t i = 0; i < p->n_ops; i++)
        if (!check_op(p, &p->ops[i], err)) return false;
    return true;
}
