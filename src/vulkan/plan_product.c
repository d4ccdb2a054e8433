/* Products of matrices, with or without experts, become dispatches. */
#include "vulkan/dispatch.h"

enum { MOST_MATS = 3 };
static const uint32_t NO_BIAS = UINT32_MAX; /* as in matrices.glsl */

/* One matrix, and where its result goes. */
struct product_matrix {
    const struct vulkan_weight *w;
    const struct weight *bias; /* NULL: none */
    struct ref out;
    size_t n_values;
};

/* What one dispatch makes: products of one input with matrices of one type, or with experts. */
struct product {
    struct product_matrix mats[MOST_MATS];
    uint32_t n_mats;
    struct ref in_f32, in_a8;
    const struct op_matmul_experts *experts; /* NULL: none */
    const struct op_add *add;                /* of its result to another row; NULL: none */
    /* All of their tiles, biases and results. */
    struct vulkan_region weights, biases, results;
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

/* Whether a matrix joined those of m; all is as before if not. */
static bool join(const struct vulkan_exec *x, struct product *m,
                 const struct product_matrix *mat)
{
    const struct vulkan *vk = &vulkan_of(x)->vk;
    struct vulkan_region weights = m->weights, biases = m->biases, results = m->results;
    if (m->n_mats > 0 && mat->out.buf == x->direct) return false;
    if (!dispatch_cover(&weights, &mat->w->region, vulkan_view_limit(vk)) ||
        !dispatch_cover(&results, &x->rows[mat->out.buf].region, vulkan_storage_limit(vk)) ||
        (mat->bias &&
         !dispatch_cover(&biases, &((const struct vulkan_weight *)mat->bias)->region,
                         vulkan_storage_limit(vk))))
        return false;
    m->weights = weights;
    m->biases = biases;
    m->results = results;
    m->mats[m->n_mats++] = *mat;
    return true;
}

/* struct matrix of matrices.glsl. */
static void push_matrix(struct dispatch_build *b, const struct product *m,
                        const struct product_matrix *mat)
{
    const struct vulkan_rows *out = &b->x->rows[mat->out.buf];
    const struct vulkan_weight *bias = (const struct vulkan_weight *)mat->bias;
    dispatch_push(b, mat->n_values);
    dispatch_push(b, (mat->w->region.at - m->weights.at) / 16);
    dispatch_push(b, out->stride);
    dispatch_push(b, (out->region.at - m->results.at) / 4 + mat->out.at);
    dispatch_push(b, bias ? (bias->region.at - m->biases.at) / 4 : NO_BIAS);
}

static void push_experts(struct dispatch_build *b, const struct op_matmul_experts *e,
                         size_t n_cols)
{
    bool floats = dispatch_is_float(e->w->type);
    dispatch_push(b, e->route.n);
    dispatch_push_place(b, &e->route);
    dispatch_push(b, !e->split ? 0 : floats ? n_cols / 4 : dispatch_a8_texels(b->x, n_cols));
    dispatch_push(b, e->n_parts);
    dispatch_push(b, e->part);
}

static void push_nothing(struct dispatch_build *b, int n)
{
    for (int i = 0; i < n; i++)
        dispatch_push(b, 0);
}

/* The sum of the result and another row. */
static void bind_sum(struct dispatch_build *b, const struct product *m)
{
    const struct op_add *add = m->add;
    dispatch_reads(b, 4, dispatch_same_place(&add->b, &m->mats[0].out) ? &add->a : &add->b);
    dispatch_writes(b, 5, &add->out);
}

static void push_sum(struct dispatch_build *b, const struct product *m)
{
    const struct op_add *add = m->add;
    dispatch_push_place(b, dispatch_same_place(&add->b, &m->mats[0].out) ? &add->a : &add->b);
    dispatch_push_place(b, &add->out);
    dispatch_push_float(b, add->scale);
}

/* The matrices are one tensor, or several that get a view of their own. */
static bool bind_matrices(struct dispatch_build *b, const struct product *m, struct err *err)
{
    VkBufferView view = m->mats[0].w->view;
    if (m->n_mats > 1 && !vulkan_arena_view(&b->x->tables, &m->weights, &view, err))
        return false;
    for (uint32_t i = 0; i < m->n_mats; i++)
        b->d.writes |= 1ull << m->mats[i].out.buf;
    dispatch_bind(b, 1, &m->results, VK_NULL_HANDLE);
    if (m->biases.n_bytes)
        dispatch_bind(b, 2, &m->biases, VK_NULL_HANDLE);
    else
        dispatch_vector(b, 2, NULL);
    dispatch_bind(b, VULKAN_STORAGE, &m->weights, view);
    return true;
}

static bool plan_product(struct vulkan_exec *x, const struct op *op, int part,
                         const struct product *m, struct err *err)
{
    const struct weight *w = &m->mats[0].w->base;
    bool floats = dispatch_is_float(w->type);
    const struct ref *in = floats ? &m->in_f32 : &m->in_a8;
    struct dispatch_build b =
        dispatch_begin(x, op, part,
                       floats ? SHADER_MATMUL_FLOAT
                              : dispatch_packed_or(x, SHADER_MATMUL, SHADER_MATMUL_PACKED),
                       TILE);
    dispatch_constant(&b, w->type);
    dispatch_constant(&b, 1); /* rows of a group, values of a lane: of the bucket */
    dispatch_constant(&b, 1);
    dispatch_constant(&b, m->experts != NULL);
    dispatch_constant(&b, !floats && vulkan_is_software(&vulkan_of(x)->vk)); /* lanes share */
    dispatch_constant(&b, m->add != NULL);
    dispatch_constant(&b, m->n_mats);
    if (!bind_matrices(&b, m, err)) return false;
    if (m->experts)
        dispatch_reads(&b, 3, &m->experts->route);
    else
        dispatch_vector(&b, 3, NULL);
    if (m->add) {
        bind_sum(&b, m);
    } else if (!floats) {
        dispatch_vector(&b, 4, NULL);
        dispatch_vector(&b, 5, NULL);
    }
    dispatch_reads(&b, VULKAN_STORAGE + 1, in);

    const struct vulkan_rows *rows = &x->rows[in->buf];
    dispatch_push(&b, m->mats[0].out.buf == x->direct);
    dispatch_push(&b, floats ? w->n_cols : w->n_cols / 32);
    dispatch_push(&b, floats ? rows->stride / 4 : rows->stride);
    dispatch_push(&b, floats ? in->at / 4 : dispatch_a8_texels(x, in->at));
    push_matrix(&b, m, &m->mats[0]);
    struct vulkan_grid grid = {.kind = GRID_MATMUL};
    for (uint32_t i = 0; i < m->n_mats; i++)
        grid.n_values[i] = (uint32_t)m->mats[i].n_values;
    if (m->experts) {
        push_experts(&b, m->experts, w->n_cols);
        grid.kind = GRID_EXPERTS;
        grid.n_used = (uint32_t)m->experts->route.n;
    } else {
        push_nothing(&b, 4);
        dispatch_push(&b, 1); /* matrices in a row of one expert */
        dispatch_push(&b, 0);
    }
    if (m->add)
        push_sum(&b, m);
    else
        push_nothing(&b, 5);
    for (uint32_t i = 1; i < m->n_mats; i++)
        push_matrix(&b, m, &m->mats[i]);
    return dispatch_end(&b, grid, err);
}

/* How many matrices of an op from the i-th on are of one type. */
static uint32_t run_length(const struct op_matmul *m, uint32_t i)
{
    uint32_t n = 1;
    while (i + n < m->n_mats && m->mat[i + n].w->type == m->mat[i].w->type)
        n++;
    return n;
}

static bool join_run(const struct vulkan_exec *x, struct product *p, const struct op_matmul *m,
                     uint32_t i, uint32_t n)
{
    p->n_mats = 0;
    p->weights = p->biases = p->results = (struct vulkan_region){0};
    for (uint32_t k = i; k < i + n; k++) {
        const struct product_matrix mat = {(const struct vulkan_weight *)m->mat[k].w,
                                           m->mat[k].bias, m->mat[k].out, m->mat[k].out.n};
        if (!join(x, p, &mat)) return false;
    }
    return true;
}

/* Matrices of one type that follow each other are one dispatch if all of them can be, otherwise
 * one each: the self-test of a device tries just these two. */
bool vulkan_plan_matmul(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul *m = &op->matmul;
    struct product p = {
        .in_f32 = m->in_f32, .in_a8 = m->in_a8, .add = vulkan_plan_sum_of(x, op)};
    for (uint32_t i = 0; i < m->n_mats;) {
        uint32_t n = run_length(m, i);
        if (!join_run(x, &p, m, i, n)) join_run(x, &p, m, i, n = 1);
        if (!plan_product(x, op, part, &p, err)) return false;
        i += n;
    }
    return true;
}

bool vulkan_plan_experts(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul_experts *e = &op->experts;
    const struct product_matrix mat = {(const struct vulkan_weight *)e->w, e->bias, e->out,
                                       e->out.n / e->route.n};
    struct product p = {.in_f32 = e->in_f32, .in_a8 = e->in_a8, .experts = e};
    return join(x, &p, &mat) && plan_product(x, op, part, &p, err);
}
