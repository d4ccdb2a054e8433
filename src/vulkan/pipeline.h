/* Compute pipelines: a shader with its specialisation constants, made on first need and kept;
 * and the descriptor sets that name their buffers.
 *
 * All belong to the device they were made on and are freed before it. One thread at a time. It
 * knows no ops. */
#ifndef VULKAN_PIPELINE_H
#define VULKAN_PIPELINE_H

#include "vulkan/memory.h"
#include "vulkan/shaders.h"

enum { VULKAN_MAX_CONSTANTS = 9 };

/* constants[i] is specialisation constant i, of 32 bits; 0 is the local size. */
struct vulkan_variant {
    enum vulkan_shader shader;
    uint32_t n_constants, constants[VULKAN_MAX_CONSTANTS];
};

struct vulkan_pipelines {
    struct vulkan *vk;
    VkShaderModule modules[N_SHADERS];
    struct vulkan_made *made;
    size_t n_made, cap_made;
};

/* The pipeline of a variant, made if it is the first time, with the device's cache
 * (pipeline_cache.h) if it has one; VK_NULL_HANDLE on failure. */
VkPipeline vulkan_pipeline(struct vulkan_pipelines *p, const struct vulkan_variant *v,
                           struct err *err);
void vulkan_pipelines_free(struct vulkan_pipelines *p); /* a zeroed one is fine */

/* What a binding names: a region, a view for texel buffers, or nothing. */
struct vulkan_binding {
    uint32_t at;
    struct vulkan_region region;
    VkBufferView view;
};

/* Descriptor sets that live and die together. */
struct vulkan_sets {
    struct vulkan *vk;
    VkDescriptorPool *pools;
    size_t n_pools, cap_pools, n_left;
};

bool vulkan_set_new(struct vulkan_sets *s, const struct vulkan_binding *bindings, size_t n,
                    VkDescriptorSet *out, struct err *err);
void vulkan_sets_free(struct vulkan_sets *s); /* a zeroed one is fine */

/* Runs n_groups work groups over storage buffers 0..n-1 and waits: for self-tests. */
bool vulkan_run_once(struct vulkan_pipelines *p, const struct vulkan_variant *v,
                     const struct vulkan_region *buffers, size_t n, uint32_t n_groups,
                     struct err *err);

#endif
