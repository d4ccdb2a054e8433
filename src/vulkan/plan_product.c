/* Products of matrices, with or without experts, become dispatches: one for matrices on one
 * input, and one for every piece of a matrix that the device does not bind whole. */
#include "vulkan/dispatch.h"
#include "vulkan/pack.h"

enum { MOST_MATS = 3 };
static const uint32_t NO_BIAS = UINT32_MAX; /* as in matrices.glsl */

/* One matrix, or a piece of it, and where its result goes. */
struct product_matrix {
    const struct weight *w;
    const struct vulkan_piece *piece;
    const struct weight *factors; /* a vector; NULL: none */
    const struct weight *bias;    /* of the whole; NULL: none */
    struct ref out;               /* of the whole */
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

static bool is_apart(const struct ref *a, const struct ref *b)
{
    return a->buf != b->buf || a->at + a->n <= b->at || b->at + b->n <= a->at;
}

const struct op_add *vulkan_plan_sum_of(const struct vulkan_exec *x, const struct op *op)
{
    const struct op *next = dispatch_next_of(x, op);
    if (op->kind != OP_MATMUL || op->matmul.n_mats != 1 || op->matmul.in_a8.n == 0 || !next ||
        next->kind != OP_ADD)
        return NULL;
    if (op->matmul.mat[0].factor) return NULL;
    const struct ref *product = &op->matmul.mat[0].out;
    const struct op_add *add = &next->add;
    bool is_a = dispatch_same_place(&add->a, product) && add->scale == 1.0f;
    bool is_b = dispatch_same_place(&add->b, product);
    /* A dispatch writes both, the product last. */
    return is_a != is_b && is_apart(&add->out, product) && product->buf != x->direct ? add
                                                                                     : NULL;
}

/* Whether a matrix joined those of m; all is as before if not. */
static bool join(const struct vulkan_exec *x, struct product *m,
                 const struct product_matrix *mat)
{
    const struct vulkan *vk = vulkan_of(x)->vk;
    struct vulkan_region weights = m->weights, biases = m->biases, results = m->results;
    if (m->n_mats > 0 && mat->out.buf == x->direct) return false;
    if (!dispatch_cover(&weights, &mat->piece->region, vulkan_matrix_limit(vk)) ||
        !dispatch_cover(&results, &x->rows[mat->out.buf].region, vulkan_storage_limit(vk)) ||
        (mat->bias &&
         !dispatch_cover(&biases, dispatch_region(mat->bias), vulkan_storage_limit(vk))))
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
    const struct vulkan_piece *p = mat->piece;
    dispatch_push(b, p->n_rows);
    dispatch_push(b, (p->region.at - m->weights.at) / 16);
    dispatch_push(b, out->stride);
    dispatch_push(b, (out->region.at - m->results.at) / 4 + mat->out.at + p->first);
    dispatch_push(b, mat->bias ? (dispatch_region(mat->bias)->at - m->biases.at) / 4 + p->first
                               : NO_BIAS);
}

static void push_experts(struct dispatch_build *b, const struct op_matmul_experts *e)
{
    const size_t n_cols = e->w->n_cols;
    bool floats = dispatch_is_float(e->w->type);
    dispatch_push_place(b, &e->route);
    dispatch_push(b, !e->split ? 0 : floats ? n_cols / 4 : dispatch_a8_texels(b->x, n_cols));
    dispatch_push(b, e->n_parts);
    dispatch_push(b, e->part);
    dispatch_push(b, e->w->n_rows);
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
    struct ref to = dispatch_same_place(&add->b, &m->mats[0].out) ? add->a : add->b,
               sum = add->out;
    to.at += m->mats[0].piece->first;
    sum.at += m->mats[0].piece->first;
    dispatch_push_place(b, &to);
    dispatch_push_place(b, &sum);
    dispatch_push_float(b, add->scale);
}

/* The matrices are one tensor, or several that get a view of their own. */
static bool bind_matrices(struct dispatch_build *b, const struct product *m, struct err *err)
{
    VkBufferView view = m->mats[0].piece->view;
    if (m->n_mats > 1 && !vulkan_arena_view(&b->x->tables, &m->weights, &view, err))
        return false;
    for (uint32_t i = 0; i < m->n_mats; i++)
        b->d.writes |= 1ull << m->mats[i].out.buf;
    dispatch_bind(b, 1, &m->results, VK_NULL_HANDLE);
    if (m->biases.n_bytes)
        dispatch_bind(b, 2, &m->biases, VK_NULL_HANDLE);
    else
        dispatch_vector(b, 2, NULL);
    /* Wide devices read it as storage, the others through the view; a shader names both. */
    const bool is_wide = vulkan_of(b->x)->vk->is_wide;
    dispatch_bind(b, 6, is_wide ? &m->weights : &b->x->step, VK_NULL_HANDLE);
    dispatch_bind(b, VULKAN_STORAGE, &m->weights, view);
    return true;
}

/* Rows of activations, the same two ways. */
static void bind_input(struct dispatch_build *b, const struct ref *in)
{
    const bool is_wide = vulkan_of(b->x)->vk->is_wide;
    dispatch_bind(b, 7, is_wide ? &b->x->rows[in->buf].region : &b->x->step, VK_NULL_HANDLE);
    dispatch_reads(b, VULKAN_STORAGE + 1, in);
}

static bool plan_product(struct vulkan_exec *x, const struct op *op, int part,
                         const struct product *m, struct err *err)
{
    const struct weight *w = m->mats[0].w;
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
    dispatch_constant(&b, m->experts ? experts_n_share(m->experts) : 0);
    dispatch_constant(&b, vulkan_of(x)->vk->is_wide);
    dispatch_constant(&b, m->add != NULL);
    dispatch_constant(&b, m->n_mats);
    dispatch_constant(&b, 1); /* stripes at once: of the bucket */
    if (!bind_matrices(&b, m, err)) return false;
    if (m->experts)
        dispatch_reads(&b, 3, &m->experts->route);
    else
        dispatch_vector(&b, 3, NULL);
    if (m->add) {
        bind_sum(&b, m);
    } else if (!floats) {
        dispatch_vector(&b, 4, m->mats[0].factors);
        dispatch_no_result(&b, 5);
    }
    bind_input(&b, in);

    const struct vulkan_rows *rows = &x->rows[in->buf];
    dispatch_push(&b, m->mats[0].out.buf == x->direct);
    dispatch_push(&b, floats ? w->n_cols : w->n_cols / 32);
    dispatch_push(&b, floats ? rows->stride / 4 : rows->stride);
    dispatch_push(&b, floats ? in->at / 4 : dispatch_a8_texels(x, in->at));
    push_matrix(&b, m, &m->mats[0]);
    struct vulkan_grid grid = {.kind = GRID_MATMUL,
                               .n_stripes = dispatch_groups(w->n_cols, PACK_STRIPE)};
    for (uint32_t i = 0; i < m->n_mats; i++)
        grid.n_values[i] = (uint32_t)m->mats[i].piece->n_rows;
    if (m->experts) {
        push_experts(&b, m->experts);
        grid.kind = GRID_EXPERTS;
        grid.n_used = (uint32_t)m->experts->route.n;
    } else {
        push_nothing(&b, 3);
        dispatch_push(&b, 1); /* matrices in a row of one expert */
        push_nothing(&b, 2);
    }
    if (m->add) {
        push_sum(&b, m);
    } else {
        dispatch_push(&b, m->mats[0].factors != NULL);
        push_nothing(&b, 4);
    }
    for (uint32_t i = 1; i < m->n_mats; i++)
        push_matrix(&b, m, &m->mats[i]);
    return dispatch_end(&b, grid, err);
}

static const struct vulkan_weight *weight_of(const struct weight *w)
{
    return (const struct vulkan_weight *)w;
}

/* How many matrices of an op from the i-th on are of one type, whole, and without factors. */
static uint32_t run_length(const struct op_matmul *m, uint32_t i)
{
    uint32_t n = 1;
    if (m->mat[i].factor) return n;
    while (i + n < m->n_mats && !m->mat[i + n].factor &&
           m->mat[i + n].w->type == m->mat[i].w->type &&
           weight_of(m->mat[i + n].w)->n_pieces == 1)
        n++;
    return weight_of(m->mat[i].w)->n_pieces == 1 ? n : 1;
}

/* Piece k of each. */
static bool join_run(const struct vulkan_exec *x, struct product *p, const struct op_matmul *m,
                     uint32_t i, uint32_t n, size_t k)
{
    p->n_mats = 0;
    p->weights = p->biases = p->results = (struct vulkan_region){0};
    for (; n > 0; n--, i++) {
        const struct weight *w = m->mat[i].w;
        const struct product_matrix mat = {w, &weight_of(w)->pieces[k], m->mat[i].factor,
                                           m->mat[i].bias, m->mat[i].out};
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
    for (uint32_t i = 0, n; i < m->n_mats; i += n) {
        n = run_length(m, i);
        if (!join_run(x, &p, m, i, n, 0)) n = 1;
        for (size_t k = 0; k < weight_of(m->mat[i].w)->n_pieces; k++)
            if (!join_run(x, &p, m, i, n, k) || !plan_product(x, op, part, &p, err))
                return false;
    }
    return true;
}

bool vulkan_plan_experts(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul_experts *e = &op->experts;
    const struct vulkan_weight *w = weight_of(e->w);
    for (size_t k = 0; k < w->n_pieces; k++) {
        const struct product_matrix mat = {e->w, &w->pieces[k], e->factors, e->bias, e->out};
        struct product p = {.in_f32 = e->in_f32, .in_a8 = e->in_a8, .experts = e};
        if (!join(x, &p, &mat) || !plan_product(x, op, part, &p, err)) return false;
    }
    return true;
}
