/* Which of a device's memory types serve what: chosen once, when it is opened.
 *
 * Pure, any thread; it knows Vulkan's tables, no device. */
#ifndef VULKAN_MEMORY_TYPES_H
#define VULKAN_MEMORY_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <vulkan/vulkan.h>

struct vulkan_memory_types {
    uint32_t device;  /* weights, pages, rows */
    uint32_t host;    /* what the host reads, and staging; cached if there is such */
    uint32_t written; /* what the host only writes, for every step */
    bool is_seen;     /* the host sees `device` and shares it */
};

/* usable: bit i: a buffer may lie in type i. shares: the device has no memory of its own, so
 * every type is the system's. False: the host sees none, or there is none for a buffer. */
bool vulkan_memory_choose(const VkPhysicalDeviceMemoryProperties *all, uint32_t usable,
                          bool shares, struct vulkan_memory_types *out);

#endif
