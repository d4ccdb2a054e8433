/* Vulkan devices: finding one, opening it, its memory.
 *
 * A struct vulkan owns the instance, the device, one compute queue and everything made from it;
 * close it last. One thread at a time may use it. It knows buffers and pipelines, not ops.
 * Every VkResult is checked; a failure names the call and its result (ERR_DEVICE). */
#ifndef VULKAN_DEVICE_H
#define VULKAN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

#include "base/err.h"

struct vulkan {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t queue_family;
    uint32_t memory_type; /* host-visible and coherent */
    VkCommandPool commands;
    VkFence fence;
    VkPhysicalDeviceProperties properties; /* name, limits, kind */
};

/* How many Vulkan devices there are, software ones included; 0 without a driver. */
uint32_t vulkan_count(void);
/* Opens the index-th device. */
bool vulkan_open(struct vulkan *vk, uint32_t index, struct err *err);
void vulkan_close(struct vulkan *vk); /* a zeroed one is fine */

/* A storage buffer that the host sees through `data`. */
struct vulkan_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    void *data;
    size_t n_bytes;
};

/* n_bytes > 0, uninitialised. Written by the host before a dispatch, read after it. */
bool vulkan_buffer_new(struct vulkan *vk, size_t n_bytes, struct vulkan_buffer *out,
                       struct err *err);
void vulkan_buffer_free(struct vulkan *vk, struct vulkan_buffer *b); /* a zeroed one is fine */

/* Turns a result other than VK_SUCCESS into ERR_DEVICE "call: result"; returns whether it was
 * VK_SUCCESS. */
bool vulkan_check(VkResult result, const char *call, struct err *err);

#endif
