/* Keys and values go into the pages of slabs, and attention reads them: one dispatch per slab,
 * and one that folds the pages. */
#include "backend/kv.h"
#include "vulkan/dispatch.h"

/* struct side of kv_store.glsl. */
static void push_side(struct dispatch_build *b, const struct op_kv_store *s, bool is_key)
{
    const struct kv_layer *kv = &b->x->p->kv[s->kv];
    const struct kv_head at = kv_head_at(kv, 0);
    dispatch_push(b, is_key ? kv->head_dim_k : kv->head_dim_v);
    dispatch_push_place(b, is_key ? &s->k : &s->v);
    dispatch_push(b, (is_key ? at.k : at.v) / 4);
    dispatch_push(b, (is_key ? at.k_scales : at.v_scales) / 4);
}

/* Work groups of the keys, or of the values, of one row: heads where codes are made of them,
 * else LOCAL words that hold a number, or with values of f16 two. */
static uint32_t store_groups(const struct kv_layer *kv, bool is_key)
{
    const size_t dim = is_key ? kv->head_dim_k : kv->head_dim_v;
    const size_t per_word = kv->type == KV_F16 && !is_key ? 2 : 1;
    if (kv_type_codes(kv->type)) return kv->n_heads;
    return dispatch_groups(kv->n_heads * dim / per_word, LOCAL);
}

static bool plan_store_slab(struct vulkan_exec *x, const struct op *op, int part, uint32_t slab,
                            struct err *err)
{
    const struct op_kv_store *s = &op->kv_store;
    const struct kv_layer *kv = &x->p->kv[s->kv];
    const struct vulkan_plan_slab *ps = &x->slabs[slab];
    const struct vulkan_slab *pages = &vulkan_of(x)->pages.slabs[ps->index];
    const bool codes = kv_type_codes(kv->type);
    const uint32_t n_k = store_groups(kv, true), n_v = store_groups(kv, false);
    struct dispatch_build b = dispatch_begin(
        x, op, part, codes ? SHADER_KV_STORE_CODES : SHADER_KV_STORE, codes ? TILE : LOCAL);
    dispatch_constant(&b, kv->type);
    dispatch_bind(&b, 1, &pages->region, VK_NULL_HANDLE);
    b.d.writes |= 1ull << BIT_PAGES;
    dispatch_reads(&b, 2, &s->k);
    dispatch_reads(&b, 3, &s->v);
    dispatch_push(&b, kv->n_heads);
    push_side(&b, s, true);
    push_side(&b, s, false);
    dispatch_push(&b, kv_head_bytes(kv) / 4);
    dispatch_push(&b, pages->stride / 4);
    dispatch_push(&b, ps->store_at);
    dispatch_push(&b, n_k);
    const struct vulkan_grid grid = {.kind = GRID_STORE, .x = n_k + n_v, .slab = slab};
    return dispatch_end(&b, grid, err);
}

bool vulkan_plan_kv_store(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const enum page_part of = x->p->kv[op->kv_store.kv].part;
    for (uint32_t s = 0; s < x->n_slabs; s++)
        if (x->slabs[s].part == of && !plan_store_slab(x, op, part, s, err)) return false;
    return true;
}

size_t vulkan_plan_ring(const struct vulkan_exec *x, const struct op_attend *a)
{
    if (a->window > 0) return (window_len(a->window) - 1) / PAGE_LEN + 2;
    return vulkan_pages_of_size(&vulkan_of(x)->pages, x->p->page_bytes[PAGE_FULL]);
}

/* The queries become A8. */
static bool plan_queries(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    struct dispatch_build b = dispatch_begin(
        x, op, part, dispatch_packed_or(x, SHADER_QUERY, SHADER_QUERY_PACKED), TILE);
    dispatch_constant(&b, kv_scales(kv->type, kv->head_dim_k) == 1);
    dispatch_bind(&b, 1, &x->q8.region, VK_NULL_HANDLE);
    b.d.writes |= 1ull << BIT_Q8;
    dispatch_reads(&b, 2, &a->q);
    dispatch_push(&b, kv->head_dim_k);
    dispatch_push_place(&b, &a->q);
    dispatch_push(&b, x->q8.stride);
    dispatch_push_float(&b, kv_factors(kv, a->scale, a->softcap).query);
    return dispatch_end_rows(&b, a->n_heads, 1, err);
}

/* Whether attend_wide.glsl takes pages of that kind, and the device gains by it. */
static bool attends_wide(const struct vulkan_exec *x, const struct kv_layer *kv)
{
    enum { MOST_DIM = 256 };
    const size_t unit = kv_type_codes(kv->type) ? KV_BLOCK : 8;
    if (!vulkan_of(x)->vk->is_wide || kv->type == KV_Q4_0) return false;
    return kv->head_dim_k % unit == 0 && kv->head_dim_k <= MOST_DIM &&
           kv->head_dim_v % unit == 0 && kv->head_dim_v <= MOST_DIM;
}

static struct dispatch_build begin_attend(struct vulkan_exec *x, const struct op *op, int part,
                                          bool is_wide)
{
    enum { WIDE_LANES = 128 }; /* as LANES in attend_wide.glsl */
    if (is_wide)
        return dispatch_begin(
            x, op, part, dispatch_packed_or(x, SHADER_ATTEND_WIDE, SHADER_ATTEND_WIDE_PACKED),
            WIDE_LANES);
    return dispatch_begin(x, op, part,
                          dispatch_packed_or(x, SHADER_ATTEND, SHADER_ATTEND_PACKED), LOCAL);
}

/* What the dispatch that comes next binds is what it bound for the row block before, of as many
 * dispatches: with a long context there are hundreds of blocks. None, for the first block. */
static VkDescriptorSet set_of_block(const struct vulkan_exec *x, size_t n_of_block)
{
    return n_of_block > 0 ? x->dispatches[x->n_dispatches - n_of_block].set : VK_NULL_HANDLE;
}

static bool plan_attend_slab(struct vulkan_exec *x, const struct op *op, int part,
                             uint32_t first, size_t n_of_block, uint32_t slab, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    const struct kv_factors by = kv_factors(kv, a->scale, a->softcap);
    const struct vulkan_plan_slab *ps = &x->slabs[slab];
    const struct vulkan_slab *pages = &vulkan_of(x)->pages.slabs[ps->index];
    const struct kv_head head = kv_head_at(kv, 0);
    const bool codes = kv_type_codes(kv->type), is_wide = attends_wide(x, kv);
    struct dispatch_build b = begin_attend(x, op, part, is_wide);
    b.set = set_of_block(x, n_of_block);
    dispatch_constant(&b, kv->type);
    dispatch_constant(&b, (uint32_t)kv->head_dim_k);
    dispatch_constant(&b, (uint32_t)kv->head_dim_v);
    dispatch_constant(&b, 1); /* queries: of the bucket */
    dispatch_constant(&b, a->softcap != 0.0f);
    dispatch_constant(&b, a->slope_step != 0.0f);
    if (!is_wide) dispatch_constant(&b, vulkan_of(x)->vk->subgroup_size == 8);
    dispatch_bind(&b, 1, &x->parts, VK_NULL_HANDLE);
    b.d.writes |= 1ull << BIT_PARTS;
    dispatch_bind(&b, VULKAN_STORAGE, &pages->region, pages->view);
    b.d.reads |= 1ull << BIT_PAGES;
    if (codes) {
        dispatch_bind(&b, VULKAN_STORAGE + 1, &x->q8.region, x->q8.view);
        b.d.reads |= 1ull << BIT_Q8;
    } else {
        dispatch_reads(&b, VULKAN_STORAGE + 1, &a->q);
    }
    uint32_t n_group = a->n_heads / kv->n_heads;
    dispatch_push(&b, kv->n_heads);
    dispatch_push(&b, n_group);
    dispatch_push(&b, a->window);
    dispatch_push(&b, first);
    dispatch_push(&b, x->block_rows);
    dispatch_push(&b, codes ? x->q8.stride : x->rows[a->q.buf].stride / 4);
    dispatch_push(&b, codes ? 0 : a->q.at / 4);
    dispatch_push(&b, pages->stride / 16);
    dispatch_push(&b, kv_head_bytes(kv) / 16);
    dispatch_push(&b, head.k / 16);
    dispatch_push(&b, head.v / 16);
    dispatch_push(&b, head.k_scales / 16);
    dispatch_push(&b, head.v_scales / 16);
    dispatch_push(&b, ps->attend_at);
    dispatch_push_float(&b, by.dot);
    dispatch_push_float(&b, by.cap);
    dispatch_push_float(&b, by.inverse_cap);
    dispatch_push(&b, vulkan_plan_ring(x, a));
    dispatch_push_float(&b, a->slope_step);
    const struct vulkan_grid grid = {.kind = GRID_ATTEND,
                                     .slab = slab,
                                     .n_kv = kv->n_heads,
                                     .n_group = n_group,
                                     .has_wide_groups = is_wide,
                                     .first = first,
                                     .n_rows = x->block_rows};
    return dispatch_end(&b, grid, err);
}

const struct op_quantise *vulkan_plan_attend_codes(const struct vulkan_exec *x,
                                                   const struct op *op)
{
    if (op->kind != OP_ATTEND) return NULL;
    const size_t dim = x->p->kv[op->attend.kv].head_dim_v;
    if (dim % 32 != 0 || dim > KV_MAX_DIM) return NULL; /* as attend_fold.glsl has room for */
    return dispatch_codes_after(x, op, &op->attend.out);
}

static bool plan_fold(struct vulkan_exec *x, const struct op *op, int part, uint32_t first,
                      size_t n_of_block, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    const struct op_quantise *q = vulkan_plan_attend_codes(x, op);
    /* A dim for each lane, where lanes wait for memory at once. */
    const bool is_many = vulkan_of(x)->vk->is_wide && kv->head_dim_v > LOCAL;
    struct dispatch_build b = dispatch_begin(
        x, op, part, dispatch_packed_or(x, SHADER_ATTEND_FOLD, SHADER_ATTEND_FOLD_PACKED),
        is_many ? 2 * LOCAL : LOCAL);
    b.set = set_of_block(x, n_of_block);
    dispatch_constant(&b, a->sinks != NULL);
    dispatch_constant(&b, q != NULL);
    dispatch_constant(&b, dispatch_block_lanes(x));
    dispatch_writes(&b, 1, &a->out);
    dispatch_bind(&b, 2, &x->parts, VK_NULL_HANDLE);
    b.d.reads |= 1ull << BIT_PARTS;
    dispatch_vector(&b, 3, a->sinks);
    if (q)
        dispatch_writes(&b, 4, &q->out);
    else
        dispatch_no_result(&b, 4);
    dispatch_push(&b, a->n_heads);
    dispatch_push(&b, kv->head_dim_v);
    dispatch_push(&b, a->window);
    dispatch_push(&b, first);
    dispatch_push(&b, x->block_rows);
    dispatch_push_place(&b, &a->out);
    dispatch_push(&b, vulkan_plan_ring(x, a));
    dispatch_push(&b, q ? x->rows[q->out.buf].stride : 0);
    dispatch_push(&b, q ? dispatch_a8_texels(x, q->out.at) : 0);
    dispatch_push_float(&b, kv_factors(kv, a->scale, a->softcap).sink_sum);
    const struct vulkan_grid grid = {
        .kind = GRID_FOLD, .x = a->n_heads, .first = first, .n_rows = x->block_rows};
    return dispatch_end(&b, grid, err);
}

bool vulkan_plan_attend(struct vulkan_exec *x, const struct op *op, int part, struct err *err)
{
    const struct op_attend *a = &op->attend;
    const struct kv_layer *kv = &x->p->kv[a->kv];
    uint32_t n_rows = part == PART_HEAD ? x->max_head_rows : x->max_rows;
    if (kv_type_codes(kv->type) && !plan_queries(x, op, part, err)) return false;
    const size_t begin = x->n_dispatches;
    size_t n_of_block = 0;
    for (uint32_t first = 0; first < n_rows; first += x->block_rows) {
        for (uint32_t s = 0; s < x->n_slabs; s++)
            if (x->slabs[s].part == kv->part &&
                !plan_attend_slab(x, op, part, first, n_of_block, s, err))
                return false;
        if (!plan_fold(x, op, part, first, n_of_block, err)) return false;
        if (first == 0) n_of_block = x->n_dispatches - begin;
    }
    return true;
}
