/* Dispatches become command buffers: one per layer and row-count bucket, recorded on first need
 * and submitted again and again. How many groups run is read from the step, so nothing else in
 * them depends on the number of rows. */
#include <stdlib.h>

#include "base/mem.h"
#include "vulkan/impl.h"
#include "vulkan/pack.h"

/* Rows of activations that one group of a product takes, by bucket. */
static const uint32_t group_rows[N_BUCKETS] = {1, 2, 4, 8};

uint32_t vulkan_bucket(uint32_t n_rows)
{
    return n_rows <= 1 ? 0 : n_rows <= 2 ? 1 : n_rows <= 4 ? 2 : 3;
}

bool vulkan_has_few(const struct vulkan_dispatch *d)
{
    return d->grid.first < group_rows[N_BUCKETS - 2];
}

static bool is_wide(const struct vulkan_exec *x)
{
    return vulkan_of(x)->vk->is_wide;
}

/* Values that a lane of a product makes. A software device gains by several: activations are
 * loaded once for all. */
static uint32_t lane_values(const struct vulkan_exec *x, uint32_t bucket)
{
    static const uint32_t software[N_BUCKETS] = {8, 4, 2, 2};
    return is_wide(x) ? 1 : software[bucket];
}

/* Lanes of a group of a product. A software device runs one subgroup after the other, each
 * through all of the matrix: one per group, so that it reads the lines of a tile one after the
 * other. */
static uint32_t group_lanes(const struct vulkan_exec *x)
{
    uint32_t subgroup = vulkan_of(x)->vk->subgroup_size;
    return !is_wide(x) && subgroup < PACK_TILE_ROWS ? subgroup : PACK_TILE_ROWS;
}

static uint32_t divide(uint32_t n, uint32_t by)
{
    return (n + by - 1) / by;
}

/* What a group shares of a stripe: its activations, if they are codes, and the sums of 32
 * values (matmul.glsl, matrices.glsl). */
static uint32_t stripe_bytes(const struct vulkan_exec *x, uint32_t rows, bool is_float)
{
    const uint32_t a8_texels = is_float ? 0 : vulkan_of(x)->vk->has_packed_dot ? 3 : 5;
    return rows * (PACK_STRIPE / 32 * a8_texels * 16 + PACK_TILE_ROWS * 4);
}

/* Stripes that a group of a product takes at once, 32 lanes each: as many as there are, or in
 * rounds of about the same number, and of 8 quantised rows two, for small groups wait for each
 * other less. ms of 512 tokens of a model of 4B, Q4_K and Q6_K: with eight stripes 108.9 and
 * 17.1, four 92.3 and 12.9, two 82.0 and 12.6; groups of 16 rows with four 124.8 and 18.5
 * (NVIDIA H200, 2026-11). */
static uint32_t group_stripes(const struct vulkan_exec *x, const struct vulkan_grid *g,
                              uint32_t rows, bool is_float)
{
    const VkPhysicalDeviceLimits *limits = &vulkan_of(x)->vk->properties.limits;
    const uint32_t lanes = limits->maxComputeWorkGroupInvocations;
    uint32_t most = rows <= 4 ? 16 : is_float ? 8 : 2;
    if (!is_wide(x)) return 1;
    const uint32_t fit = limits->maxComputeSharedMemorySize / stripe_bytes(x, rows, is_float);
    if (lanes / PACK_TILE_ROWS < most) most = lanes / PACK_TILE_ROWS;
    if (fit < most) most = fit;
    return divide(g->n_stripes, divide(g->n_stripes, most));
}

static uint32_t group_values(const struct vulkan_exec *x, uint32_t bucket)
{
    return lane_values(x, bucket) * group_lanes(x);
}

/* Queries that share the keys they load: of eight lanes, or of a wide group. A group of one or
 * a few rows has fewer, for then how long it takes is what one waits for. */
static uint32_t group_queries(const struct vulkan_grid *g, uint32_t bucket)
{
    enum { WIDE_MOST = 16, WIDE_FEW = 8, NARROW_MOST = 4 };
    const bool is_few = bucket < N_BUCKETS - 1;
    const uint32_t n = group_rows[bucket] * g->n_group;
    if (g->has_wide_groups) return !is_few ? WIDE_MOST : n < WIDE_FEW ? n : WIDE_FEW;
    return bucket == 0 && n < NARROW_MOST ? n : NARROW_MOST;
}

/* The constants of a product that its rows decide. */
static void shape_product(const struct vulkan_exec *x, const struct vulkan_grid *g,
                          uint32_t rows, uint32_t values, struct vulkan_variant *v)
{
    const bool is_float = v->shader == SHADER_MATMUL_FLOAT;
    const uint32_t stripes = group_stripes(x, g, rows, is_float);
    v->constants[0] = group_lanes(x) * stripes;
    v->constants[2] = rows;
    v->constants[3] = values;
    v->constants[8] = stripes;
}

/* The variant of a dispatch for a bucket. */
static struct vulkan_variant variant_for(const struct vulkan_exec *x,
                                         const struct vulkan_dispatch *d, uint32_t bucket)
{
    struct vulkan_variant v = d->variant;
    switch (d->grid.kind) {
    case GRID_MATMUL:
        shape_product(x, &d->grid, group_rows[bucket], lane_values(x, bucket), &v);
        break;
    case GRID_EXPERTS: shape_product(x, &d->grid, 1, lane_values(x, 0), &v); break;
    case GRID_ATTEND: v.constants[4] = group_queries(&d->grid, bucket); break;
    case GRID_ROWS:
    case GRID_STORE:
    case GRID_FOLD:
    case GRID_ONCE: break;
    }
    return v;
}

static void set(uint32_t groups[3], uint32_t x, uint32_t y, uint32_t z)
{
    groups[0] = x;
    groups[1] = y;
    groups[2] = z;
}

/* A group has values of one matrix only. */
static uint32_t product_groups(const struct vulkan_grid *g, uint32_t per_group)
{
    uint32_t n = 0;
    for (int i = 0; i < 3; i++)
        n += divide(g->n_values[i], per_group);
    return n;
}

void vulkan_groups(const struct vulkan_exec *x, const struct vulkan_dispatch *d,
                   uint32_t bucket, uint32_t n_rows, const struct vulkan_slab_use *use,
                   uint32_t groups[3])
{
    const struct vulkan_grid *g = &d->grid;
    uint32_t later = n_rows > g->first ? n_rows - g->first : 0;
    uint32_t block = later < g->n_rows ? later : g->n_rows;
    switch (g->kind) {
    case GRID_ROWS: set(groups, g->x, n_rows, 1); break;
    case GRID_MATMUL:
        set(groups, product_groups(g, group_values(x, bucket)),
            divide(n_rows, group_rows[bucket]), 1);
        break;
    case GRID_EXPERTS:
        /* Ranks and rows apart: of 512 rows with 128 heads each there are 65,536 together, one
         * more than Vulkan promises in a direction. */
        set(groups, product_groups(g, group_values(x, 0)), g->n_used, n_rows);
        break;
    case GRID_STORE: set(groups, g->x, use[g->slab].n_slot_pairs, use[g->slab].n_stored); break;
    case GRID_ATTEND: {
        uint32_t n = g->n_kv * divide(block * g->n_group, group_queries(g, bucket));
        set(groups, g->has_wide_groups ? n : divide(n, 8), block > 0 ? use[g->slab].n_pages : 0,
            1);
        break;
    }
    case GRID_FOLD: set(groups, g->x, block, 1); break;
    case GRID_ONCE: set(groups, g->x, 1, 1); break;
    }
}

/* ---- recording ---- */

/* What was touched since the last barrier. */
struct hazards {
    uint64_t reads, writes;
};

void vulkan_wait_for(VkCommandBuffer c, VkPipelineStageFlags from, VkAccessFlags wrote,
                     VkPipelineStageFlags to, VkAccessFlags uses)
{
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = wrote,
                                 .dstAccessMask = uses};
    vkCmdPipelineBarrier(c, from, to, 0, 1, &all, 0, NULL, 0, NULL);
}

static void barrier(VkCommandBuffer c)
{
    vulkan_wait_for(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

/* Whatever a part wrote the host may read once it has waited: tokens and logits, and on a
 * device that shares its memory pages and states, too. A fence alone does not make it visible.
 */
static void to_host(VkCommandBuffer c)
{
    vulkan_wait_for(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

/* Dispatches of one op that write different places of one buffer need none between them. */
static bool must_wait(const struct hazards *h, const struct vulkan_dispatch *before,
                      const struct vulkan_dispatch *d)
{
    uint64_t writes = d->writes;
    if (before && before->op == d->op && before->grid.kind == d->grid.kind)
        writes &= ~before->writes;
    return (d->reads & h->writes) || (writes & (h->reads | h->writes));
}

static bool record_one(struct vulkan_exec *x, VkCommandBuffer c, size_t i, uint32_t bucket,
                       struct err *err)
{
    const struct vulkan_dispatch *d = &x->dispatches[i];
    const struct vulkan_variant v = variant_for(x, d, bucket);
    VkPipeline pipeline = vulkan_pipeline(&vulkan_of(x)->pipelines, &v, err);
    if (!pipeline) return false;
    VkPipelineLayout layout = vulkan_of(x)->vk->layout;
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &d->set, 0, NULL);
    vkCmdPushConstants(c, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, d->n_push * 4, d->push);
    vkCmdDispatchIndirect(c, x->step.buffer, x->step.at + 4 * ((size_t)x->indirect_at + 3 * i));
    return true;
}

/* A body that keeps its trail is a body and the copies. */
static bool is_of(const struct vulkan_dispatch *d, int part)
{
    return d->part == part || (part == PART_KEEP && d->part == PART_BODY);
}

/* Row blocks that a bucket cannot have are left out. */
static bool is_needed(const struct vulkan_dispatch *d, int part, uint32_t bucket)
{
    return is_of(d, part) && (bucket == N_BUCKETS - 1 || d->grid.first < group_rows[bucket]);
}

static bool is_last(const struct vulkan_exec *x, int part, size_t at)
{
    while (at < x->n_dispatches && !is_of(&x->dispatches[at], part))
        at++;
    return at == x->n_dispatches;
}

/* The dispatches from *at on that are of one layer. */
static bool record_layer(struct vulkan_exec *x, VkCommandBuffer c, int part, uint32_t bucket,
                         size_t *at, struct err *err)
{
    struct hazards h = {0};
    const struct vulkan_dispatch *before = NULL;
    const int layer = x->dispatches[*at].layer;
    barrier(c); /* for the one submitted before */
    for (; *at < x->n_dispatches && x->dispatches[*at].layer == layer; ++*at) {
        const struct vulkan_dispatch *d = &x->dispatches[*at];
        if (!is_needed(d, part, bucket)) continue;
        if (must_wait(&h, before, d)) {
            barrier(c);
            h = (struct hazards){0};
        }
        if (!record_one(x, c, *at, bucket, err)) return false;
        h.reads |= d->reads;
        h.writes |= d->writes;
        before = d;
    }
    if (is_last(x, part, *at)) to_host(c);
    return vulkan_end(c, err);
}

static bool record(struct vulkan_exec *x, int part, uint32_t bucket, struct vulkan_recorded *r,
                   struct err *err)
{
    /* In a block of drafts the same steps are submitted several times at once. */
    const VkCommandBufferUsageFlags usage = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    size_t at = 0, cap = 0;
    while (at < x->n_dispatches && !is_of(&x->dispatches[at], part))
        at++;
    while (!is_last(x, part, at)) {
        if (r->n == cap) {
            cap = cap ? 2 * cap : 8;
            r->commands = mem_resize(r->commands, cap, sizeof(VkCommandBuffer));
        }
        if (!vulkan_begin(vulkan_of(x)->vk, usage, &r->commands[r->n], err)) return false;
        r->n++;
        if (!record_layer(x, r->commands[r->n - 1], part, bucket, &at, err)) return false;
    }
    return true;
}

bool vulkan_record_timed(struct vulkan_exec *x, uint32_t n_rows, VkCommandBuffer c,
                         VkQueryPool pool, size_t *ops, uint32_t *n, struct err *err)
{
    const uint32_t buckets[] = {[PART_BODY] = vulkan_bucket(n_rows), [PART_HEAD] = 0};
    *n = 0;
    vkCmdResetQueryPool(c, pool, 0, (uint32_t)x->n_dispatches + 1);
    vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 0);
    for (int part = PART_BODY; part <= PART_HEAD; part++)
        for (size_t i = 0; i < x->n_dispatches; i++) {
            const struct vulkan_dispatch *d = &x->dispatches[i];
            if (d->part != part || !is_needed(d, part, buckets[part])) continue;
            barrier(c);
            if (!record_one(x, c, i, buckets[part], err)) return false;
            ops[(*n)++] = d->op;
            vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, *n);
        }
    to_host(c);
    return vulkan_end(c, err);
}

static void free_recorded(struct vulkan_exec *x, struct vulkan_recorded *r)
{
    struct vulkan *vk = vulkan_of(x)->vk;
    if (r->n) vkFreeCommandBuffers(vk->device, vk->commands, r->n, r->commands);
    free(r->commands);
    *r = (struct vulkan_recorded){0};
}

const struct vulkan_recorded *vulkan_recorded(struct vulkan_exec *x, int part, uint32_t bucket,
                                              struct err *err)
{
    struct vulkan_recorded *r = &x->recorded[part][bucket];
    if (r->is_done) return r;
    r->is_done = record(x, part, bucket, r, err);
    if (r->is_done) return r;
    free_recorded(x, r);
    return NULL;
}

void vulkan_records_free(struct vulkan_exec *x)
{
    for (int part = 0; part < N_PARTS; part++)
        for (uint32_t b = 0; b < N_BUCKETS; b++)
            free_recorded(x, &x->recorded[part][b]);
}
