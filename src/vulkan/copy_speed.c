/* How fast a device copies its own memory: what its decoding is measured against. Both ways are
 * tried, for a driver's may be slow: 835 GB/s on an H200, whose memory is rated at 4,800
 * (driver 580, November 2026). */
#include "base/file.h"
#include "vulkan/impl.h"

/* More than any cache between a device and its memory holds; and so many copies at once that a
 * submission counts for little. */
static const size_t COPY_BYTES = (size_t)256 << 20;
enum { N_COPIES = 8, N_RUNS = 3, LANES = 128, N_GROUPS = 8192 };

struct copier {
    struct vulkan_backend *vb;
    struct vulkan_arena memory;
    struct vulkan_region r[2]; /* copied to and fro */
    struct vulkan_sets sets;
};

/* Two regions, smaller if there is no memory for so much. */
static bool take_both(struct copier *k, struct err *err)
{
    struct vulkan *vk = k->vb->vk;
    const size_t most = vulkan_storage_limit(vk);
    for (size_t n = COPY_BYTES; n >= (size_t)1 << 20; n /= 2) {
        if (n > most) continue;
        if (vulkan_arena_take(&k->memory, n, &k->r[0], err) &&
            vulkan_arena_take(&k->memory, n, &k->r[1], err))
            return true;
        vulkan_arena_free(&k->memory);
        k->memory = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_DEVICE};
    }
    return false;
}

static bool record_transfers(struct copier *k, VkCommandBuffer c, struct err *err)
{
    for (int i = 0; i < N_COPIES; i++) {
        const struct vulkan_region *from = &k->r[i % 2], *to = &k->r[(i + 1) % 2];
        const VkBufferCopy range = {from->at, to->at, from->n_bytes};
        vkCmdCopyBuffer(c, from->buffer, to->buffer, 1, &range);
        vulkan_wait_for(c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                        VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    }
    return vulkan_end(c, err);
}

static bool record_shaders(struct copier *k, VkCommandBuffer c, struct err *err)
{
    const struct vulkan_variant v = {SHADER_COPY, 1, {LANES}};
    const VkPipelineLayout layout = k->vb->vk->layout;
    VkPipeline pipeline = vulkan_pipeline(&k->vb->pipelines, &v, err);
    VkDescriptorSet set[2];
    if (!pipeline) return false;
    for (uint32_t i = 0; i < 2; i++) {
        const struct vulkan_binding b[2] = {{.at = i, .region = k->r[0]},
                                            {.at = 1 - i, .region = k->r[1]}};
        if (!vulkan_set_new(&k->sets, b, 2, &set[i], err)) return false;
    }
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    for (int i = 0; i < N_COPIES; i++) {
        vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set[i % 2], 0,
                                NULL);
        vkCmdDispatch(c, N_GROUPS, 1, 1);
        vulkan_wait_for(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    return vulkan_end(c, err);
}

/* The best of some runs of what is recorded, if it is better than *gb_s; one comes before them.
 */
static bool measure(struct copier *k,
                    bool (*record)(struct copier *, VkCommandBuffer, struct err *),
                    double *gb_s, struct err *err)
{
    struct vulkan *vk = k->vb->vk;
    VkCommandBuffer c = VK_NULL_HANDLE;
    bool ok =
        vulkan_begin(vk, 0, &c, err) && record(k, c, err) && vulkan_submit(vk, 1, &c, err);
    for (int i = 0; ok && i < N_RUNS; i++) {
        const double start = clock_ms();
        ok = vulkan_submit(vk, 1, &c, err);
        const double speed =
            2.0 * N_COPIES * (double)k->r[0].n_bytes / 1e6 / (clock_ms() - start);
        if (speed > *gb_s) *gb_s = speed;
    }
    vulkan_commands_free(vk, c);
    return ok;
}

bool vulkan_backend_copy_speed(struct backend *be, double *gb_s, struct err *err)
{
    struct vulkan_backend *vb = (struct vulkan_backend *)be;
    struct copier k = {.vb = vb,
                       .memory = {.vk = vb->vk, .place = VULKAN_NEAR_DEVICE},
                       .sets = {.vk = vb->vk}};
    *gb_s = 0;
    const bool ok = take_both(&k, err) && measure(&k, record_transfers, gb_s, err) &&
                    measure(&k, record_shaders, gb_s, err);
    vulkan_sets_free(&k.sets);
    vulkan_arena_free(&k.memory);
    return ok;
}
