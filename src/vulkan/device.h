/* Vulkan devices: what there is, opening one, and the counters of what it was asked to do.
 *
 * A struct vulkan owns the device, one compute queue and the layout that all pipelines share;
 * close it last. The instance is the process's and is never closed. After a submission that
 * failed every other fails, too. One thread at a time may use it. It knows no ops. Every
 * VkResult is checked; a failure names the call and its result (ERR_DEVICE).
 *
 * What is asked of a device, and what its absence costs:
 *
 *   Vulkan 1.2                        refused
 *   a compute queue                   refused
 *   subgroup shuffle in compute,
 *   subgroups of 8, 16, 32 or more    refused: attention passes probabilities between lanes
 *   8 storage and 2 texel buffers,
 *   128 bytes of push constants,
 *   work groups of 128 lanes          refused
 *   memory that the host sees         refused
 *   float controls: rounding to even,
 *   special values kept               it rounds as it does: the self-test tells
 *   VK_KHR_shader_integer_dot_product,
 *   accelerated for signed bytes      two products per multiplication instead of four
 *   device memory that the host sees
 *   (integrated, software)            weights and pages are copied through a staging buffer
 *   VK_EXT_memory_budget              what other programs hold of its memory is thought free
 *   timestamps                        no times per op, no blocks of drafts */
#ifndef VULKAN_DEVICE_H
#define VULKAN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "base/err.h"
#include "vulkan/backend.h"
#include "vulkan/memory_types.h"
#include "vulkan/modes.h"
#include "vulkan/pipeline_cache.h"

/* Of set 0 of every pipeline: storage buffers at bindings 0.., texel buffers behind them. */
enum {
    VULKAN_STORAGE = 8,
    VULKAN_TEXELS = 2,
    VULKAN_BINDINGS = VULKAN_STORAGE + VULKAN_TEXELS
};
enum { VULKAN_PUSH_BYTES = 128 };
/* Of every buffer. */
enum {
    VULKAN_BUFFER_USAGE = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                          VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                          VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
                          VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT
};

struct vulkan {
    VkInstance instance; /* shared by all */
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint32_t clock_bits; /* of its timestamps; 0: it has none */
    struct vulkan_memory_types types;
    VkCommandPool commands;
    VkFence fence;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPhysicalDeviceProperties properties; /* name, limits, kind */
    size_t most_bytes;                     /* of one allocation */
    uint32_t subgroup_size;
    bool has_packed_dot; /* multiplies packed bytes fast */
    /* It runs thousands of lanes at once, each slowly; a software device a few, one group after
     * the other. Shaders are shaped by that. */
    bool is_wide;
    struct vulkan_modes modes;
    struct vulkan_pipeline_cache cache;
    uint32_t n_users; /* backends on it, for them to count */
    uint64_t n_plans; /* and plans that execs made */
    struct vulkan_counters counters;
    /* A submission of few rows that took longer goes in pieces from then on; negative: never.
     */
    double patience_ms;
    uint64_t lost_at; /* for tests: the submission at which it is; 0: none */
    bool is_lost;     /* nothing more can be run, and what was read is rubbish */
};

bool vulkan_open(struct vulkan *vk, const struct vulkan_choice *choice, struct err *err);
void vulkan_close(struct vulkan *vk); /* a zeroed one is fine */

/* Bytes that are free near a discrete device, or without VK_EXT_memory_budget, those of its
 * largest heap; 0: it is not one. */
uint64_t vulkan_own_memory(const struct vulkan *vk);

/* Turns a result other than VK_SUCCESS into ERR_DEVICE "call: result"; returns whether it was
 * VK_SUCCESS. Memory that is out is ERR_MEMORY. */
bool vulkan_check(VkResult result, const char *call, struct err *err);

/* The same of a submission, of a wait, or of resetting the fence, which would otherwise end the
 * next wait at once. After a failure the device counts as lost. */
bool vulkan_done(struct vulkan *vk, VkResult result, const char *call, struct err *err);

/* Takes a command buffer and begins it; free it by vulkan_commands_free. On failure *c is
 * VK_NULL_HANDLE. */
bool vulkan_begin(const struct vulkan *vk, VkCommandBufferUsageFlags usage, VkCommandBuffer *c,
                  struct err *err);
bool vulkan_end(VkCommandBuffer c, struct err *err);
/* VK_NULL_HANDLE is fine. */
void vulkan_commands_free(const struct vulkan *vk, VkCommandBuffer c);

/* Submits the command buffers in order and waits until all are done. */
bool vulkan_submit(struct vulkan *vk, uint32_t n, const VkCommandBuffer *commands,
                   struct err *err);

#endif
