#include "vulkan/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Satisfies every offset alignment that Vulkan allows a device to ask for. */
enum { ALIGN = 256 };
/* The least block of several regions: a device has room for some thousand allocations only. */
static const size_t LEAST_BLOCK = 1 << 20;

struct vulkan_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint8_t *data;
    size_t n_bytes, used;
    struct vulkan_block *next;
};

size_t vulkan_view_limit(const struct vulkan *vk)
{
    const size_t n_bytes = (size_t)vk->properties.limits.maxTexelBufferElements * 16;
    return n_bytes < vk->most_bytes ? n_bytes : vk->most_bytes;
}

size_t vulkan_storage_limit(const struct vulkan *vk)
{
    return vk->properties.limits.maxStorageBufferRange;
}

size_t vulkan_matrix_limit(const struct vulkan *vk)
{
    const size_t view = vulkan_view_limit(vk), storage = vulkan_storage_limit(vk);
    return vk->is_wide && storage < view ? storage : view;
}

static void block_free(struct vulkan *vk, struct vulkan_block *b)
{
    if (b->buffer) vkDestroyBuffer(vk->device, b->buffer, NULL);
    if (b->memory) vkFreeMemory(vk->device, b->memory, NULL);
    free(b);
}

static bool block_allocate(struct vulkan *vk, enum vulkan_place place, struct vulkan_block *b,
                           struct err *err)
{
    const struct vulkan_memory_types *t = &vk->types;
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(vk->device, b->buffer, &need);
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = need.size,
        .memoryTypeIndex = place == VULKAN_NEAR_DEVICE ? t->device
                           : place == VULKAN_WRITTEN   ? t->written
                                                       : t->host,
    };
    vk->counters.allocations++;
    vk->counters.allocated_bytes += need.size;
    VkResult result = vkAllocateMemory(vk->device, &info, NULL, &b->memory);
    /* The window through which the host sees a card's memory is small, and others use it. */
    if (result != VK_SUCCESS && place == VULKAN_WRITTEN) {
        info.memoryTypeIndex = t->host;
        result = vkAllocateMemory(vk->device, &info, NULL, &b->memory);
    }
    return vulkan_check(result, "vkAllocateMemory", err);
}

static bool block_fill(struct vulkan *vk, enum vulkan_place place, struct vulkan_block *b,
                       struct err *err)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = b->n_bytes,
        .usage = VULKAN_BUFFER_USAGE,
    };
    if (!vulkan_check(vkCreateBuffer(vk->device, &info, NULL, &b->buffer), "vkCreateBuffer",
                      err))
        return false;
    if (!block_allocate(vk, place, b, err) ||
        !vulkan_check(vkBindBufferMemory(vk->device, b->buffer, b->memory, 0),
                      "vkBindBufferMemory", err))
        return false;
    if (place == VULKAN_NEAR_DEVICE && !vk->types.is_seen) return true;
    if (!vulkan_check(
            vkMapMemory(vk->device, b->memory, 0, VK_WHOLE_SIZE, 0, (void **)&b->data),
            "vkMapMemory", err))
        return false;
    /* Products on a software device read all weights for every token, from memory like this. */
    if (vk->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU)
        mem_want_huge(b->data, b->n_bytes);
    return true;
}

/* Of a block that begins with a region of so many. */
static size_t block_bytes(const struct vulkan_arena *a, size_t n_bytes)
{
    const uint64_t share = a->expected / 8;
    size_t want = a->block_bytes;
    if (share > want)
        want = share < a->large_bytes ? (size_t)share : a->large_bytes;
    else if (a->expected > 0 && a->expected < want)
        want = a->expected > LEAST_BLOCK ? (size_t)a->expected : LEAST_BLOCK;
    return n_bytes > want ? n_bytes : want;
}

static struct vulkan_block *block_new(struct vulkan_arena *a, size_t n_bytes, struct err *err)
{
    struct vulkan_block *b = mem_zalloc(1, sizeof *b);
    b->n_bytes = n_bytes;
    if (!block_fill(a->vk, a->place, b, err)) {
        block_free(a->vk, b);
        return NULL;
    }
    b->next = a->blocks;
    a->blocks = b;
    return b;
}

bool vulkan_arena_take(struct vulkan_arena *a, size_t n_bytes, struct vulkan_region *out,
                       struct err *err)
{
    assert(n_bytes > 0);
    n_bytes = mem_round_up(n_bytes, ALIGN);
    struct vulkan_block *b = a->blocks; /* the newest first */
    while (b && b->n_bytes - b->used < n_bytes)
        b = b->next;
    if (!b) {
        b = block_new(a, block_bytes(a, n_bytes), err);
        /* Where there is no room for a large one there may be for just this. */
        if (!b && block_bytes(a, n_bytes) > n_bytes) b = block_new(a, n_bytes, err);
        if (!b) return false;
    }
    *out =
        (struct vulkan_region){b->buffer, b->used, n_bytes, b->data ? b->data + b->used : NULL};
    b->used += n_bytes;
    if (a->expected > 0) a->expected = a->expected > n_bytes ? a->expected - n_bytes : 1;
    return true;
}

bool vulkan_arena_view(struct vulkan_arena *a, const struct vulkan_region *r, VkBufferView *out,
                       struct err *err)
{
    struct vulkan *vk = a->vk;
    if (r->n_bytes > vulkan_view_limit(vk))
        return err_set(err, ERR_DEVICE, "%s: binds %zu MiB at most, %zu MiB are needed",
                       vk->properties.deviceName, vulkan_view_limit(vk) >> 20,
                       r->n_bytes >> 20);
    const VkBufferViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = r->buffer,
        .format = VK_FORMAT_R32G32B32A32_UINT,
        .offset = r->at,
        .range = r->n_bytes,
    };
    if (!vulkan_check(vkCreateBufferView(vk->device, &info, NULL, out), "vkCreateBufferView",
                      err))
        return false;
    MEM_GROW(a->views, a->n_views, a->cap_views);
    a->views[a->n_views++] = *out;
    return true;
}

void vulkan_arena_free(struct vulkan_arena *a)
{
    for (size_t i = 0; i < a->n_views; i++)
        vkDestroyBufferView(a->vk->device, a->views[i], NULL);
    free(a->views);
    while (a->blocks) {
        struct vulkan_block *next = a->blocks->next;
        block_free(a->vk, a->blocks);
        a->blocks = next;
    }
    *a = (struct vulkan_arena){0};
}

/* ---- staging ---- */

bool vulkan_staging_open(struct vulkan_staging *s, struct vulkan *vk, struct err *err)
{
    *s = (struct vulkan_staging){.vk = vk, .arena = {.vk = vk, .place = VULKAN_NEAR_HOST}};
    if (vk->types.is_seen) return true;
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = vk->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 2,
    };
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    bool ok = vulkan_check(vkAllocateCommandBuffers(vk->device, &info, s->commands),
                           "vkAllocateCommandBuffers", err);
    for (int i = 0; ok && i < 2; i++)
        ok = vulkan_arena_take(&s->arena, VULKAN_STAGING_BYTES, &s->half[i], err) &&
             vulkan_check(vkCreateFence(vk->device, &fence, NULL, &s->fence[i]),
                          "vkCreateFence", err);
    if (!ok) vulkan_staging_close(s);
    return ok;
}

void vulkan_staging_close(struct vulkan_staging *s)
{
    struct err ignored;
    if (!s->vk) return;
    vulkan_fill_wait(s, &ignored);
    for (int i = 0; i < 2; i++)
        if (s->fence[i]) vkDestroyFence(s->vk->device, s->fence[i], NULL);
    if (s->commands[0]) vkFreeCommandBuffers(s->vk->device, s->vk->commands, 2, s->commands);
    vulkan_arena_free(&s->arena);
    *s = (struct vulkan_staging){0};
}

static bool wait_half(struct vulkan_staging *s, int i, struct err *err)
{
    if (!s->busy[i]) return true;
    s->busy[i] = false;
    return vulkan_done(s->vk,
                       vkWaitForFences(s->vk->device, 1, &s->fence[i], VK_TRUE, UINT64_MAX),
                       "vkWaitForFences", err) &&
           vulkan_done(s->vk, vkResetFences(s->vk->device, 1, &s->fence[i]), "vkResetFences",
                       err);
}

/* Submits a copy of bytes from buffer to buffer with the commands and the fence of half i. */
static bool copy_by(struct vulkan_staging *s, int i, VkBuffer to, VkBuffer from,
                    const VkBufferCopy *range, struct err *err)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    const VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    VkCommandBuffer c = s->commands[i];
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &c,
    };
    if (s->vk->is_lost) return vulkan_done(s->vk, VK_ERROR_DEVICE_LOST, "vkQueueSubmit", err);
    if (!vulkan_done(s->vk, vkBeginCommandBuffer(c, &begin), "vkBeginCommandBuffer", err))
        return false;
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         0, 1, &all, 0, NULL, 0, NULL);
    vkCmdCopyBuffer(c, from, to, 1, range);
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_TRANSFER_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                         &all, 0, NULL, 0, NULL);
    if (!vulkan_done(s->vk, vkEndCommandBuffer(c), "vkEndCommandBuffer", err) ||
        !vulkan_done(s->vk, vkQueueSubmit(s->vk->queue, 1, &submit, s->fence[i]),
                     "vkQueueSubmit", err))
        return false;
    s->busy[i] = true;
    return true;
}

void *vulkan_fill_begin(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                        size_t n_bytes, struct err *err)
{
    assert(at + n_bytes <= r->n_bytes);
    if (r->data) return r->data + at;
    assert(n_bytes <= VULKAN_STAGING_BYTES);
    s->next = !s->next;
    return wait_half(s, s->next, err) ? s->half[s->next].data : NULL;
}

bool vulkan_fill_end(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                     size_t n_bytes, struct err *err)
{
    if (r->data) return true;
    const struct vulkan_region *half = &s->half[s->next];
    const VkBufferCopy range = {half->at, r->at + at, n_bytes};
    return copy_by(s, s->next, r->buffer, half->buffer, &range, err);
}

bool vulkan_fill_wait(struct vulkan_staging *s, struct err *err)
{
    bool first = wait_half(s, 0, err);
    return wait_half(s, 1, err) && first;
}

static size_t piece(size_t n_bytes)
{
    return n_bytes < VULKAN_STAGING_BYTES ? n_bytes : VULKAN_STAGING_BYTES;
}

bool vulkan_write(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                  const void *data, size_t n_bytes, struct err *err)
{
    for (size_t done = 0; done < n_bytes;) {
        size_t n = r->data ? n_bytes : piece(n_bytes - done);
        void *to = vulkan_fill_begin(s, r, at + done, n, err);
        if (!to) return false;
        memcpy(to, (const uint8_t *)data + done, n);
        if (!vulkan_fill_end(s, r, at + done, n, err)) return false;
        done += n;
    }
    return vulkan_fill_wait(s, err);
}

bool vulkan_read(struct vulkan_staging *s, const struct vulkan_region *r, size_t at, void *data,
                 size_t n_bytes, struct err *err)
{
    assert(at + n_bytes <= r->n_bytes);
    s->vk->counters.bytes_back += n_bytes;
    if (r->data) {
        memcpy(data, r->data + at, n_bytes);
        return true;
    }
    for (size_t done = 0; done < n_bytes;) {
        size_t n = piece(n_bytes - done);
        const struct vulkan_region *half = &s->half[0];
        const VkBufferCopy range = {r->at + at + done, half->at, n};
        if (!wait_half(s, 0, err) || !copy_by(s, 0, half->buffer, r->buffer, &range, err) ||
            !wait_half(s, 0, err))
            return false;
        memcpy((uint8_t *)data + done, half->data, n);
        done += n;
    }
    return true;
}

bool vulkan_copy(struct vulkan_staging *s, const struct vulkan_region *to, size_t to_at,
                 const struct vulkan_region *from, size_t from_at, size_t n_bytes,
                 struct err *err)
{
    assert(to_at + n_bytes <= to->n_bytes && from_at + n_bytes <= from->n_bytes);
    if (to->data && from->data) {
        memcpy(to->data + to_at, from->data + from_at, n_bytes);
        return true;
    }
    const VkBufferCopy range = {from->at + from_at, to->at + to_at, n_bytes};
    return wait_half(s, 0, err) && copy_by(s, 0, to->buffer, from->buffer, &range, err) &&
           wait_half(s, 0, err);
}
