/* How fast a device copies its own memory: what its decoding is measured against. */
#include "base/file.h"
#include "base/mem.h"
#include "vulkan/impl.h"

/* More than any cache between a device and its memory holds; and so many copies at once that a
 * submission counts for little. */
static const size_t COPY_BYTES = (size_t)256 << 20;
enum { N_COPIES = 8, N_RUNS = 3 };

static bool record(VkCommandBuffer c, const struct vulkan_region r[2], struct err *err)
{
    const VkMemoryBarrier done = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    for (int i = 0; i < N_COPIES; i++) {
        const struct vulkan_region *from = &r[i % 2], *to = &r[(i + 1) % 2];
        const VkBufferCopy range = {from->at, to->at, from->n_bytes};
        vkCmdCopyBuffer(c, from->buffer, to->buffer, 1, &range);
        vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                             0, 1, &done, 0, NULL, 0, NULL);
    }
    return vulkan_end(c, err);
}

/* Two regions, smaller if there is no memory for so much. */
static bool take_both(struct vulkan_arena *a, struct vulkan_region r[2], struct err *err)
{
    for (size_t n = COPY_BYTES; n >= (size_t)1 << 20; n /= 2) {
        if (vulkan_arena_take(a, n, &r[0], err) && vulkan_arena_take(a, n, &r[1], err))
            return true;
        struct vulkan *vk = a->vk;
        vulkan_arena_free(a);
        *a = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_DEVICE};
    }
    return false;
}

bool vulkan_backend_copy_speed(struct backend *be, double *gb_s, struct err *err)
{
    struct vulkan *vk = ((struct vulkan_backend *)be)->vk;
    struct vulkan_arena memory = {.vk = vk, .place = VULKAN_NEAR_DEVICE};
    struct vulkan_region r[2];
    VkCommandBuffer c = VK_NULL_HANDLE;
    bool ok = take_both(&memory, r, err) && vulkan_begin(vk, 0, &c, err) && record(c, r, err) &&
              vulkan_submit(vk, 1, &c, err);
    *gb_s = 0;
    for (int i = 0; ok && i < N_RUNS; i++) {
        const double start = clock_ms();
        ok = vulkan_submit(vk, 1, &c, err);
        const double speed = 2.0 * N_COPIES * (double)r[0].n_bytes / 1e6 / (clock_ms() - start);
        if (speed > *gb_s) *gb_s = speed;
    }
    vulkan_commands_free(vk, c);
    vulkan_arena_free(&memory);
    return ok;
}
