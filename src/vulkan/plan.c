/* A program becomes a list of dispatches: for each op the shader with its constants, its
 * buffers and numbers, and the rule by which work groups follow from the rows of a step. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kv.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "vulkan/impl.h"
#include "vulkan/step_layout.h"

enum { LOCAL = 64, TILE = 32, MAX_EXPERTS = 512, MAX_USED = 32, SINGLE_WORDS = 3 };

/* Resources beside the row buffers, which have the bits below. */
enum { BIT_STATE = 59, BIT_PARTS, BIT_Q8, BIT_PAGES, BIT_LOGITS };

/* Rows of attention are computed in blocks whose partial results fit in about this much. */
static const size_t PARTS_BYTES = (size_t)64 << 20;

/* ---- what can be run ---- */

static bool refuse(struct err *err, const struct op *op, const char *what)
{
    return err_set(err, ERR_DEVICE, "layer %d: %s is not done on Vulkan devices: use cpu",
                   op->layer, what);
}

static bool is_float(enum qtype type)
{
    return qtype_info(type)->block_len == 1;
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
    case OP_NORM:
    case OP_QUANTISE:
    case OP_ROPE:
    case OP_ROW_SCALE:
    case OP_SCALE:
    case OP_KV_STORE:
    case OP_GLU:
    case OP_ADD:
    case OP_COMBINE:
    case OP_HEAD_ROWS:
    case OP_LOGITS: return true;
    case OP_CONV:
    case OP_DECAY:
    case OP_RECUR:
    case OP_UNZIP:
    case OP_ROW_GATE: return true;
    case OP_MATMUL:
        return op->matmul.in_f32.n == 0 || op->matmul.in_f32.at % 4 == 0 ||
               refuse(err, op, "a product of floats from the middle of a row");
    case OP_ATTEND: return check_attend(p, op, err);
    case OP_ROUTE:
        return (op->route.scores.n <= MAX_EXPERTS && op->route.out.n <= MAX_USED) ||
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

/* ---- building one dispatch ---- */

struct build {
    struct vulkan_exec *x;
    const struct op *op;
    int part;
    struct vulkan_dispatch d;
    struct vulkan_binding bindings[VULKAN_BINDINGS];
    size_t n_bindings;
};

static uint32_t groups_of(size_t n, size_t local)
{
    return (uint32_t)((n + local - 1) / local);
}

static struct build begin(struct vulkan_exec *x, const struct op *op, int part,
                          enum vulkan_shader shader, uint32_t local)
{
    struct build b = {.x = x, .op = op, .part = part};
    b.d.variant = (struct vulkan_variant){.shader = shader, 1, {local}};
    b.d.part = part;
    b.d.layer = op->layer;
    b.d.op = (size_t)(op - x->p->ops);
    b.bindings[0].region = x->step;
    b.n_bindings = 1;
    b.d.push[b.d.n_push++] = (uint32_t)part;
    return b;
}

static void constant(struct build *b, uint32_t value)
{
    assert(b->d.variant.n_constants < VULKAN_MAX_CONSTANTS);
    b->d.variant.constants[b->d.variant.n_constants++] = value;
}

static void push(struct build *b, size_t value)
{
    assert(b->d.n_push < VULKAN_PUSH_BYTES / 4 && value <= UINT32_MAX);
    b->d.push[b->d.n_push++] = (uint32_t)value;
}

static void push_float(struct build *b, float value)
{
    push(b, num_bits(value));
}

static void bind(struct build *b, uint32_t at, const struct vulkan_region *region,
                 VkBufferView view)
{
    b->bindings[b->n_bindings++] = (struct vulkan_binding){at, *region, view};
}

/* The rows of a buffer; the logits have a place of their own. */
static const struct vulkan_rows *rows_of(const struct build *b, uint32_t buf)
{
    return &b->x->rows[buf];
}

static void reads(struct build *b, uint32_t at, const struct ref *ref)
{
    const struct vulkan_rows *r = rows_of(b, ref->buf);
    bind(b, at, &r->region, r->view);
    b->d.reads |= 1ull << ref->buf;
}

static void writes(struct build *b, uint32_t at, const struct ref *ref)
{
    const struct vulkan_rows *r = rows_of(b, ref->buf);
    bind(b, at, &r->region, r->view);
    b->d.writes |= 1ull << ref->buf;
}

/* A vector, or something in its place: a binding that a shader names must be there, though it
 * is not read. */
static void vector(struct build *b, uint32_t at, const struct weight *w)
{
    bind(b, at, w ? &((const struct vulkan_weight *)w)->region : &b->x->step, VK_NULL_HANDLE);
}

static void push_place(struct build *b, const struct ref *ref)
{
    push(b, rows_of(b, ref->buf)->stride);
    push(b, ref->at);
}

static bool end(struct build *b, struct vulkan_grid grid, struct err *err)
{
    struct vulkan_exec *x = b->x;
    b->d.grid = grid;
    if (!vulkan_set_new(&x->sets, b->bindings, b->n_bindings, &b->d.set, err)) return false;
    MEM_GROW(x->dispatches, x->n_dispatches, x->cap_dispatches);
    x->dispatches[x->n_dispatches++] = b->d;
    return true;
}

static bool end_rows(struct build *b, size_t n, size_t local, struct err *err)
{
    return end(b, (struct vulkan_grid){.kind = GRID_ROWS, .x = groups_of(n, local)}, err);
}

/* ---- ops ---- */

static bool plan_embed(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_embed *e = &op->embed;
    const struct vulkan_weight *w = (const struct vulkan_weight *)e->table;
    bool floats = is_float(w->base.type);
    size_t n = floats ? e->out.n : e->out.n / 32, local = floats ? LOCAL : TILE;
    struct build b =
        begin(x, op, part, floats ? SHADER_EMBED_FLOAT : SHADER_EMBED, (uint32_t)local);
    constant(&b, w->base.type);
    writes(&b, 1, &e->out);
    bind(&b, VULKAN_STORAGE, &w->region, w->view);
    push(&b, n);
    push_place(&b, &e->out);
    push(&b, x->tokens_at);
    push_float(&b, e->scale);
    return end_rows(&b, n, local, err);
}

static bool plan_norm(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_norm *n = &op->norm;
    struct build b = begin(x, op, part, SHADER_NORM, TILE);
    constant(&b, n->w != NULL);
    writes(&b, 1, &n->out);
    reads(&b, 2, &n->in);
    vector(&b, 3, n->w);
    bool is_long = n->w && n->w->n_cols > n->group; /* weights of its own for each group */
    push(&b, n->group);
    push_place(&b, &n->in);
    push_place(&b, &n->out);
    push_float(&b, (float)(1.0 / (double)n->group));
    push_float(&b, n->eps);
    push(&b, is_long ? n->group : 0);
    return end_rows(&b, n->in.n / n->group, 1, err);
}

static enum vulkan_shader packed_or(const struct vulkan_exec *x, enum vulkan_shader shader,
                                    enum vulkan_shader packed)
{
    return vulkan_of(x)->vk.has_packed_dot ? packed : shader;
}

/* Texels of n values of A8. */
static size_t a8_texels(const struct vulkan_exec *x, size_t n)
{
    return n / 32 * vulkan_a8_texels(&vulkan_of(x)->vk);
}

static bool plan_quantise_to(struct vulkan_exec *x, const struct op *op, int part,
                             const struct ref *in, const struct vulkan_rows *out, size_t at,
                             uint64_t bit, struct err *err)
{
    struct build b =
        begin(x, op, part, packed_or(x, SHADER_QUANTISE, SHADER_QUANTISE_PACKED), TILE);
    bind(&b, 1, &out->region, VK_NULL_HANDLE);
    b.d.writes |= bit;
    reads(&b, 2, in);
    push(&b, in->n / 32);
    push_place(&b, in);
    push(&b, out->stride);
    push(&b, a8_texels(x, at));
    return end_rows(&b, in->n / 32, TILE, err);
}

static bool plan_quantise(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_quantise *q = &op->quantise;
    return plan_quantise_to(x, op, part, &q->in, &x->rows[q->out.buf], q->out.at,
                            1ull << q->out.buf, err);
}

/* What a product of one matrix takes, with or without experts. */
struct product {
    const struct vulkan_weight *w;
    const struct weight *bias;
    struct ref in_f32, in_a8, out;
    size_t n_values;
    const struct op_matmul_experts *experts; /* NULL: none */
};

static bool plan_product(struct vulkan_exec *x, const struct op *op, int part,
                         const struct product *m, struct err *err)
{
    bool floats = is_float(m->w->base.type);
    const struct ref *in = floats ? &m->in_f32 : &m->in_a8;
    size_t n_cols = m->w->base.n_cols;
    struct build b = begin(
        x, op, part,
        floats ? SHADER_MATMUL_FLOAT : packed_or(x, SHADER_MATMUL, SHADER_MATMUL_PACKED), TILE);
    constant(&b, m->w->base.type);
    constant(&b, 1); /* rows and tiles of a group: of the bucket */
    constant(&b, 1);
    constant(&b, m->experts != NULL);
    writes(&b, 1, &m->out);
    vector(&b, 2, m->bias);
    if (m->experts)
        reads(&b, 3, &m->experts->route);
    else
        vector(&b, 3, NULL);
    bind(&b, VULKAN_STORAGE, &m->w->region, m->w->view);
    reads(&b, VULKAN_STORAGE + 1, in);

    const struct vulkan_rows *rows = &x->rows[in->buf];
    push(&b, m->out.buf == x->direct);
    push(&b, m->n_values);
    push(&b, floats ? n_cols : n_cols / 32);
    push(&b, floats ? rows->stride / 4 : rows->stride);
    push(&b, floats ? in->at / 4 : a8_texels(x, in->at));
    push_place(&b, &m->out);
    struct vulkan_grid grid = {.kind = GRID_MATMUL, .x = groups_of(m->n_values, TILE)};
    if (m->experts) {
        const struct op_matmul_experts *e = m->experts;
        push(&b, e->route.n);
        push_place(&b, &e->route);
        push(&b, !e->split ? 0 : floats ? n_cols / 4 : a8_texels(x, n_cols));
        push(&b, e->n_parts);
        push(&b, e->part);
        grid.kind = GRID_EXPERTS;
        grid.n_used = (uint32_t)e->route.n;
    } else {
        for (int i = 0; i < 6; i++) /* one rank, one matrix */
            push(&b, i == 0 || i == 4);
    }
    push(&b, m->bias != NULL);
    return end(&b, grid, err);
}

static bool plan_matmul(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul *m = &op->matmul;
    for (uint32_t i = 0; i < m->n_mats; i++) {
        const struct product one = {(const struct vulkan_weight *)m->mat[i].w,
                                    m->mat[i].bias,
                                    m->in_f32,
                                    m->in_a8,
                                    m->mat[i].out,
                                    m->mat[i].out.n,
                                    NULL};
        if (!plan_product(x, op, part, &one, err)) return false;
    }
    return true;
}

static bool plan_experts(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_matmul_experts *e = &op->experts;
    const struct product one = {(const struct vulkan_weight *)e->w,
                                e->bias,
                                e->in_f32,
                                e->in_a8,
                                e->out,
                                e->out.n / e->route.n,
                                e};
    return plan_product(x, op, part, &one, err);
}

static bool plan_rope(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_rope *r = &op->rope;
    const struct rope *rope = &x->p->ropes[r->rope];
    size_t n_heads = r->x.n / r->head_dim, n_pairs = rope->n_rot / 2;
    if (n_pairs == 0) return true;
    struct build b = begin(x, op, part, SHADER_ROPE, LOCAL);
    constant(&b, rope->pairs == ROPE_NEOX);
    writes(&b, 1, &r->x);
    push(&b, n_heads);
    push(&b, r->head_dim);
    push(&b, n_pairs);
    push_place(&b, &r->x);
    push(&b, x->rope_at[r->rope]);
    return end_rows(&b, n_heads * n_pairs, LOCAL, err);
}

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
    PW_UNZIP,
};

struct point {
    enum pointwise kind;
    struct ref out, a, b; /* b.n 0: none */
    uint32_t rebase;      /* 1: the output, 2: and the input begin with the part's first row */
    uint32_t factors_at;
    float factor, cap;
};

static bool plan_pointwise(struct vulkan_exec *x, const struct op *op, int part,
                           const struct point *p, struct err *err)
{
    struct build b = begin(x, op, part, SHADER_POINTWISE, LOCAL);
    constant(&b, p->kind);
    if (p->rebase) {
        bind(&b, 1, &x->logits, VK_NULL_HANDLE);
        b.d.writes |= 1ull << BIT_LOGITS;
    } else {
        writes(&b, 1, &p->out);
    }
    reads(&b, 2, &p->a);
    if (p->b.n)
        reads(&b, 3, &p->b);
    else
        vector(&b, 3, NULL);
    push(&b, p->rebase);
    push(&b, p->a.n);
    push(&b, p->rebase ? p->a.n : x->rows[p->out.buf].stride);
    push(&b, p->rebase ? 0 : p->out.at);
    push_place(&b, &p->a);
    push(&b, p->b.n ? x->rows[p->b.buf].stride : 0);
    push(&b, p->b.at);
    push(&b, p->factors_at);
    push_float(&b, p->factor);
    push_float(&b, p->cap);
    push_float(&b, p->cap == 0.0f ? 0.0f : (float)(1.0 / (double)p->cap));
    return end_rows(&b, p->a.n, LOCAL, err);
}

static bool plan_glu(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    static const enum pointwise kinds[] = {[GLU_SILU] = PW_SILU,
                                           [GLU_GELU] = PW_GELU,
                                           [GLU_CLAMPED] = PW_CLAMPED,
                                           [GLU_SIGMOID] = PW_SIGMOID,
                                           [GLU_LINEAR] = PW_LINEAR};
    const struct op_glu *g = &op->glu;
    const struct point p = {.kind = kinds[g->kind], .out = g->out, .a = g->gate, .b = g->up};
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

static bool plan_row_scale(struct vulkan_exec *x, const struct op *op, int part,
                           struct err *err)
{
    const struct op_row_scale *s = &op->row_scale;
    const struct point p = {
        .kind = PW_ROW_SCALE, .out = s->x, .a = s->x, .factors_at = x->factor_at[s->scale]};
    return plan_pointwise(x, op, part, &p, err);
}

static bool plan_unzip(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_unzip *u = &op->unzip;
    for (size_t i = 0; i < 2; i++) {
        struct point p = {.kind = PW_UNZIP,
                          .out = i == 0 ? u->a : u->b,
                          .a = u->in,
                          .factors_at = (uint32_t)u->run};
        p.a.at += i * u->run;
        p.a.n /= 2;
        if (!plan_pointwise(x, op, part, &p, err)) return false;
    }
    return true;
}

static bool plan_row_gate(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_row_gate *g = &op->row_gate;
    const struct point p = {.kind = PW_ROW_GATE, .out = g->x, .a = g->x, .b = g->gate};
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
                            .cap = l->softcap};
    return plan_pointwise(x, op, part, &p, err);
}

/* Bytes from the start of a page to the scales of a layer's keys or values. */
static size_t scales_at(const struct kv_layer *kv, bool is_key)
{
    size_t dim = is_key ? kv->head_dim_k : kv->head_dim_v;
    return (is_key ? kv->k_at : kv->v_at) + kv->n_heads * kv_code_bytes(kv->type, dim);
}

static bool plan_kv_side(struct vulkan_exec *x, const struct op *op, int part, uint32_t slab,
                         bool is_key, struct err *err)
{
    const struct op_kv_store *s = &op->kv_store;
    const struct kv_layer *kv = &x->p->kv[s->kv];
    const struct vulkan_plan_slab *ps = &x->slabs[slab];
    const struct vulkan_slab *pages = &vulkan_of(x)->pages.slabs[ps->index];
    size_t dim = is_key ? kv->head_dim_k : kv->head_dim_v;
    size_t unit = kv_type_blocks(kv->type) ? 32 : kv->type == KV_F16 && !is_key ? 2 : 1;
    struct build b = begin(x, op, part, SHADER_KV_STORE, LOCAL);
    constant(&b, kv->type);
    constant(&b, is_key);
    bind(&b, 1, &pages->region, VK_NULL_HANDLE);
    b.d.writes |= 1ull << BIT_PAGES;
    reads(&b, 2, is_key ? &s->k : &s->v);
    push(&b, kv->n_heads);
    push(&b, dim);
    push_place(&b, is_key ? &s->k : &s->v);
    push(&b, pages->stride / 4);
    push(&b, (is_key ? kv->k_at : kv->v_at) / 4);
    push(&b, scales_at(kv, is_key) / 4);
    push(&b, ps->store_at);
    const struct vulkan_grid grid = {
        .kind = GRID_STORE, .x = groups_of(kv->n_heads * dim / unit, LOCAL), .slab = slab};
    return end(&b, grid, err);
}

static bool plan_kv_store(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const enum page_part of = x->p->kv[op->kv_store.kv].part;
    for (uint32_t s = 0; s < x->n_slabs; s++)
        if (x->slabs[s].part == of && (!plan_kv_side(x, op, part, s, true, err) ||
                                       !plan_kv_side(x, op, part, s, false, err)))
            return false;
    return true;
}

/* Pages that one row of an attention may see at once: it leaves partial results of as many. */
static size_t ring_of(const struct vulkan_exec *x, const struct op_attend *a)
{
    if (a->window > 0) return (a->window - 1) / PAGE_LEN + 2;
    return vulkan_pages_of_size(&vulkan_of(x)->pages, x->p->page_bytes[PAGE_FULL]);
}

static bool plan_attend_slab(struct vulkan_exec *x, const struct op *op, int part,
                             uint32_t first, uint32_t slab, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    const struct vulkan_plan_slab *ps = &x->slabs[slab];
    const struct vulkan_slab *pages = &vulkan_of(x)->pages.slabs[ps->index];
    bool codes = kv_type_blocks(kv->type);
    struct build b =
        begin(x, op, part, packed_or(x, SHADER_ATTEND, SHADER_ATTEND_PACKED), LOCAL);
    constant(&b, kv->type);
    constant(&b, (uint32_t)kv->head_dim_k);
    constant(&b, (uint32_t)kv->head_dim_v);
    constant(&b, 1); /* queries of a cluster: of the bucket */
    constant(&b, vulkan_of(x)->vk.subgroup_size == 8);
    constant(&b, a->softcap != 0.0f);
    bind(&b, 1, &x->parts, VK_NULL_HANDLE);
    b.d.writes |= 1ull << BIT_PARTS;
    bind(&b, VULKAN_STORAGE, &pages->region, pages->view);
    b.d.reads |= 1ull << BIT_PAGES;
    if (codes) {
        bind(&b, VULKAN_STORAGE + 1, &x->q8.region, x->q8.view);
        b.d.reads |= 1ull << BIT_Q8;
    } else {
        reads(&b, VULKAN_STORAGE + 1, &a->q);
    }
    uint32_t n_group = a->n_heads / kv->n_heads;
    push(&b, kv->n_heads);
    push(&b, n_group);
    push(&b, a->window);
    push(&b, first);
    push(&b, x->block_rows);
    push(&b, codes ? x->q8.stride : x->rows[a->q.buf].stride / 4);
    push(&b, codes ? 0 : a->q.at / 4);
    push(&b, pages->stride / 16);
    push(&b, kv->k_at / 16);
    push(&b, kv->v_at / 16);
    push(&b, scales_at(kv, true) / 16);
    push(&b, scales_at(kv, false) / 16);
    push(&b, ps->attend_at);
    push_float(&b, a->scale);
    push_float(&b, a->softcap);
    push_float(&b, a->softcap == 0.0f ? 0.0f : (float)(1.0 / (double)a->softcap));
    push(&b, ring_of(x, a));
    const struct vulkan_grid grid = {.kind = GRID_ATTEND,
                                     .slab = slab,
                                     .n_kv = kv->n_heads,
                                     .n_group = n_group,
                                     .first = first,
                                     .n_rows = x->block_rows};
    return end(&b, grid, err);
}

static bool plan_fold(struct vulkan_exec *x, const struct op *op, int part, uint32_t first,
                      struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    struct build b = begin(x, op, part, SHADER_ATTEND_FOLD, LOCAL);
    constant(&b, a->sinks != NULL);
    writes(&b, 1, &a->out);
    bind(&b, 2, &x->parts, VK_NULL_HANDLE);
    b.d.reads |= 1ull << BIT_PARTS;
    vector(&b, 3, a->sinks);
    push(&b, a->n_heads);
    push(&b, kv->head_dim_v);
    push(&b, a->window);
    push(&b, first);
    push(&b, x->block_rows);
    push_place(&b, &a->out);
    push(&b, ring_of(x, a));
    const struct vulkan_grid grid = {
        .kind = GRID_FOLD, .x = a->n_heads, .first = first, .n_rows = x->block_rows};
    return end(&b, grid, err);
}

static bool plan_attend(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    uint32_t n_rows = part == PART_HEAD ? x->max_head_rows : x->max_rows;
    if (kv_type_blocks(kv->type) &&
        !plan_quantise_to(x, op, part, &a->q, &x->q8, 0, 1ull << BIT_Q8, err))
        return false;
    for (uint32_t first = 0; first < n_rows; first += x->block_rows) {
        for (uint32_t s = 0; s < x->n_slabs; s++)
            if (x->slabs[s].part == kv->part && !plan_attend_slab(x, op, part, first, s, err))
                return false;
        if (!plan_fold(x, op, part, first, err)) return false;
    }
    return true;
}

static bool plan_route(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_route *r = &op->route;
    struct build b = begin(x, op, part, SHADER_ROUTE, TILE);
    constant(&b, r->kind == ROUTE_SIGMOID);
    constant(&b, r->select != NULL);
    constant(&b, r->scales != NULL);
    constant(&b, r->renormalise);
    writes(&b, 1, &r->out);
    reads(&b, 2, &r->scores);
    vector(&b, 3, r->select);
    vector(&b, 4, r->scales);
    push(&b, r->scores.n);
    push(&b, r->out.n);
    push_place(&b, &r->scores);
    push_place(&b, &r->out);
    push_float(&b, r->scale);
    return end_rows(&b, 1, 1, err);
}

static bool plan_combine(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_combine *c = &op->combine;
    struct build b = begin(x, op, part, SHADER_COMBINE, LOCAL);
    writes(&b, 1, &c->out);
    reads(&b, 2, &c->in);
    reads(&b, 3, &c->route);
    push(&b, c->out.n);
    push(&b, c->route.n);
    push_place(&b, &c->in);
    push_place(&b, &c->out);
    push_place(&b, &c->route);
    return end_rows(&b, c->out.n, LOCAL, err);
}

/* Binds a part of the recurrent state; returns the word of the binding at which it begins. */
static size_t bind_state(struct build *b, uint32_t at, uint32_t state)
{
    const struct state_part *p = &b->x->p->states[state];
    const size_t begin = p->at / 256 * 256; /* every device can bind there */
    struct vulkan_region r = b->x->state;
    r.at += begin;
    r.n_bytes = p->at - begin + p->n * sizeof(float);
    bind(b, at, &r, VK_NULL_HANDLE);
    b->d.reads |= 1ull << BIT_STATE;
    b->d.writes |= 1ull << BIT_STATE;
    return (p->at - begin) / sizeof(float);
}

/* The rows first, then the state that follows. */
static bool plan_conv(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_conv *c = &op->conv;
    for (int shift = 0; shift < 2; shift++) {
        struct build b = begin(x, op, part, SHADER_CONV, LOCAL);
        constant(&b, (uint32_t)shift);
        size_t state_at = bind_state(&b, 1, c->state);
        reads(&b, 2, &c->in);
        writes(&b, 3, &c->out);
        vector(&b, 4, c->w);
        vector(&b, 5, c->bias);
        push(&b, c->in.n);
        push(&b, c->n_taps);
        push_place(&b, &c->in);
        push_place(&b, &c->out);
        push(&b, state_at);
        push(&b, c->bias != NULL);
        push(&b, c->silu);
        const struct vulkan_grid grid = {.kind = shift ? GRID_ONCE : GRID_ROWS,
                                         .x = groups_of(c->in.n, LOCAL)};
        if (!end(&b, grid, err)) return false;
    }
    return true;
}

static bool plan_decay(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_decay *d = &op->decay;
    size_t n_heads = d->out.n / 2;
    struct build b = begin(x, op, part, SHADER_DECAY, TILE);
    constant(&b, d->betas);
    writes(&b, 1, &d->out);
    reads(&b, 2, &d->in);
    vector(&b, 3, d->bias);
    vector(&b, 4, d->a);
    push(&b, n_heads);
    push(&b, d->betas ? d->run : n_heads);
    push_place(&b, &d->in);
    push_place(&b, &d->out);
    return end_rows(&b, n_heads, TILE, err);
}

static bool plan_recur(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_recur *r = &op->recur;
    struct build b = begin(x, op, part, SHADER_RECUR, TILE);
    constant(&b, r->delta);
    constant(&b, r->tiled);
    constant(&b, r->skip != NULL);
    size_t state_at = bind_state(&b, 1, r->state);
    reads(&b, 2, &r->q);
    reads(&b, 3, &r->k);
    reads(&b, 4, &r->v);
    reads(&b, 5, &r->gates);
    writes(&b, 6, &r->out);
    vector(&b, 7, r->skip);
    push(&b, r->n_heads);
    push(&b, r->n_groups);
    push(&b, r->n_dim);
    push(&b, r->n_width);
    push_place(&b, &r->q);
    push_place(&b, &r->k);
    push_place(&b, &r->v);
    push_place(&b, &r->gates);
    push_place(&b, &r->out);
    push(&b, state_at);
    const struct vulkan_grid grid = {.kind = GRID_ONCE,
                                     .x = groups_of((size_t)r->n_heads * r->n_width, TILE)};
    return end(&b, grid, err);
}

static bool plan_op(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    switch (op->kind) {
    case OP_EMBED: return plan_embed(x, op, part, err);
    case OP_NORM: return plan_norm(x, op, part, err);
    case OP_QUANTISE: return plan_quantise(x, op, part, err);
    case OP_MATMUL: return plan_matmul(x, op, part, err);
    case OP_ROPE: return plan_rope(x, op, part, err);
    case OP_ROW_SCALE: return plan_row_scale(x, op, part, err);
    case OP_SCALE: return plan_scale(x, op, part, err);
    case OP_KV_STORE: return plan_kv_store(x, op, part, err);
    case OP_ATTEND: return plan_attend(x, op, part, err);
    case OP_GLU: return plan_glu(x, op, part, err);
    case OP_ADD: return plan_add(x, op, part, err);
    case OP_ROUTE: return plan_route(x, op, part, err);
    case OP_MATMUL_EXPERTS: return plan_experts(x, op, part, err);
    case OP_COMBINE: return plan_combine(x, op, part, err);
    case OP_HEAD_ROWS: return true;
    case OP_CONV: return plan_conv(x, op, part, err);
    case OP_DECAY: return plan_decay(x, op, part, err);
    case OP_RECUR: return plan_recur(x, op, part, err);
    case OP_UNZIP: return plan_unzip(x, op, part, err);
    case OP_ROW_GATE: return plan_row_gate(x, op, part, err);
    case OP_LOGITS: return plan_logits(x, op, part, err);
    }
    return false;
}

/* ---- the whole ---- */

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
    x->indirect_at = (uint32_t)at;
    /* An upper bound of the dispatches: see plan_attend and plan_kv_store. */
    uint32_t n_blocks = (x->max_rows + x->block_rows - 1) / x->block_rows;
    at += SINGLE_WORDS * p->n_ops * (4 + (n_blocks + 2) * (x->n_slabs + 1));
    x->step_memory = (struct vulkan_arena){.vk = &vulkan_of(x)->vk, .place = VULKAN_NEAR_HOST};
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
        size_t n = a->n_heads * ring_of(x, a) * (p->kv[a->kv].head_dim_v + 2) * sizeof(float);
        if (n > per_row) per_row = n;
    }
    x->block_rows = x->max_rows;
    if (per_row == 0) return true;
    size_t fit = PARTS_BYTES / per_row;
    if (fit < x->block_rows) x->block_rows = fit > 0 ? (uint32_t)fit : 1;
    return vulkan_arena_take(&x->tables, x->block_rows * per_row, &x->parts, err);
}

static bool plan_ops(struct vulkan_exec *x, struct err *err)
{
    int part = PART_BODY;
    for (size_t i = 0; i < x->p->n_ops; i++) {
        const struct op *op = &x->p->ops[i];
        if (op->kind == OP_HEAD_ROWS) part = PART_HEAD;
        if (!plan_op(x, op, part, err)) return false;
    }
    assert(x->indirect_at + SINGLE_WORDS * x->n_dispatches <= x->step.n_bytes / 4);
    return true;
}

bool vulkan_plan_make(struct vulkan_exec *x, struct err *err)
{
    vulkan_plan_free(x);
    struct vulkan *vk = &vulkan_of(x)->vk;
    x->tables = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_DEVICE};
    x->sets = (struct vulkan_sets){.vk = vk};
    x->is_planned = lay_out_parts(x, err) && lay_out_step(x, err) && plan_ops(x, err);
    x->generation = vulkan_of(x)->pages.generation;
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
    free(x->slabs);
    x->dispatches = NULL;
    x->slabs = NULL;
    x->n_dispatches = x->cap_dispatches = x->n_slabs = 0;
    x->is_planned = false;
}
