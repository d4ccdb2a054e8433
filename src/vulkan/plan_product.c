/* Products of matrices, with or without experts, become dispatches. */
#include "vulkan/dispatch.h"

/* What a product of one matrix takes, with or without experts. */
struct product {
    const struct vulkan_weight *w;
    const struct weight *bias;
    struct ref in_f32, in_a8, out;
    size_t n_values;
    const struct op_matmul_experts *experts; /* NULL: none */
    const struct op_add *add;                /* of its result to another row; NULL: none */
};

const struct op_add *vulkan_plan_sum_of(const struct vulkan_exec *x, const struct op *op)
{
    const struct op *next = dispatch_next_of(x, op);
    if (op->kind != OP_MATMUL || op->matmul.n_mats != 1 || op->matmul.in_a8.n == 0 || !next ||
        next->kind != OP_ADD)
        return NULL;
    const struct ref *product = &op->matmul.mat[0].out;
    const struct op_add *add = &next->add;
    bool is_a = dispatch_same_place(&add->a, product) && add->scale == 1.0f;
    bool is_b = dispatch_same_place(&add->b, product);
    return is_a != is_b && product->buf != x->direct ? add : NULL;
}

static bool plan_product(struct vulkan_exec *x, const struct op *op, int part,
                         const struct product *m, struct err *err)
{
    bool floats = dispatch_is_float(m->w->base.type);
    const struct ref *in = floats ? &m->in_f32 : &m->in_a8;
    size_t n_cols = m->w->base.n_cols;
    struct dispatch_build b =
        dispatch_begin(x, op, part,
                       floats ? SHADER_MATMUL_FLOAT
                              : dispatch_packed_or(x, SHADER_MATMUL, SHADER_MATMUL_PACKED),
                       TILE);
    dispatch_constant(&b, m->w->base.type);
    dispatch_constant(&b, 1); /* rows of a group, values of a lane: of the bucket */
    dispatch_constant(&b, 1);
    dispatch_constant(&b, m->experts != NULL);
    if (!floats) {
        dispatch_constant(&b, vulkan_is_software(&vulkan_of(x)->vk)); /* lanes share */
        dispatch_constant(&b, m->add != NULL);
    }
    dispatch_writes(&b, 1, &m->out);
    dispatch_vector(&b, 2, m->bias);
    if (m->experts)
        dispatch_reads(&b, 3, &m->experts->route);
    else
        dispatch_vector(&b, 3, NULL);
    const struct op_add *add = m->add;
    const struct ref *addend = !add                                    ? NULL
                               : dispatch_same_place(&add->b, &m->out) ? &add->a
                                                                       : &add->b;
    if (add) {
        dispatch_reads(&b, 4, addend);
        dispatch_writes(&b, 5, &add->out);
    } else if (!floats) {
        dispatch_vector(&b, 4, NULL);
        dispatch_vector(&b, 5, NULL);
    }
    dispatch_bind(&b, VULKAN_STORAGE, &m->w->region, m->w->view);
    dispatch_reads(&b, VULKAN_STORAGE + 1, in);

    const struct vulkan_rows *rows = &x->rows[in->buf];
    dispatch_push(&b, m->out.buf == x->direct);
    dispatch_push(&b, m->n_values);
    dispatch_push(&b, floats ? n_cols : n_cols / 32);
    dispatch_push(&b, floats ? rows->stride / 4 : rows->stride);
    dispatch_push(&b, floats ? in->at / 4 : dispatch_a8_texels(x, in->at));
    dispatch_push_place(&b, &m->out);
    struct vulkan_grid grid = {.kind = GRID_MATMUL, .x = (uint32_t)m->n_values};
    if (m->experts) {
        const struct op_matmul_experts *e = m->experts;
        dispatch_push(&b, e->route.n);
        dispatch_push_place(&b, &e->route);
        dispatch_push(&b, !e->split ? 0 : floats ? n_cols / 4 : dispatch_a8_texels(x, n_cols));
        dispatch_push(&b, e->n_parts);
        dispatch_push(&b, e->part);
        grid.kind = GRID_EXPERTS;
        grid.n_used = (uint32_t)e->route.n;
    } else {
        for (int i = 0; i < 6; i++) /* one rank, one matrix */
            dispatch_push(&b, i == 0 || i == 4);
    }
    dispatch_push(&b, m->bias != NULL);
    if (add) {
        dispatch_push_place(&b, addend);
        dispatch_push_place(&b, &add->out);
        dispatch_push_float(&b, add->scale);
    }
    return dispatch_end(&b, grid, err);
}

bool vulkan_plan_matmul(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul *m = &op->matmul;
    for (uint32_t i = 0; i < m->n_mats; i++) {
        const struct product one = {(const struct vulkan_weight *)m->mat[i].w,
                                    m->mat[i].bias,
                                    m->in_f32,
                                    m->in_a8,
                                    m->mat[i].out,
                                    m->mat[i].out.n,
                                    NULL,
                                    vulkan_plan_sum_of(x, op)};
        if (!plan_product(x, op, part, &one, err)) return false;
    }
    return true;
}

bool vulkan_plan_experts(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul_experts *e = &op->experts;
    const struct product one = {(const struct vulkan_weight *)e->w,
                                e->bias,
                                e->in_f32,
                                e->in_a8,
                                e->out,
                                e->out.n / e->route.n,
                                e,
                                NULL};
    return plan_product(x, op, part, &one, err);
}
