/* Compute pipelines: one shader with its specialisation constants, and running it.
 *
 * A pipeline belongs to the device it was made on and is freed before it. A shader sees its
 * buffers as storage buffers of set 0, bindings 0.., and one block of push constants; constant
 * 0 is the local size. One thread at a time. */
#ifndef VULKAN_PIPELINE_H
#define VULKAN_PIPELINE_H

#include "vulkan/device.h"

enum { VULKAN_MAX_BUFFERS = 8, VULKAN_MAX_CONSTANTS = 8, VULKAN_MAX_PUSH_BYTES = 64 };

struct vulkan_pipeline {
    VkShaderModule module;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    uint32_t n_buffers, push_bytes;
};

/* What a shader expects. code is SPIR-V in words (borrowed during the call); constants[i] is
 * specialisation constant i, of 32 bits. */
struct vulkan_shader {
    const uint32_t *code;
    size_t code_bytes;
    uint32_t n_buffers;  /* up to VULKAN_MAX_BUFFERS */
    uint32_t push_bytes; /* up to VULKAN_MAX_PUSH_BYTES, a multiple of 4 */
    const uint32_t *constants;
    uint32_t n_constants; /* up to VULKAN_MAX_CONSTANTS */
};

bool vulkan_pipeline_new(struct vulkan *vk, const struct vulkan_shader *shader,
                         struct vulkan_pipeline *out, struct err *err);
void vulkan_pipeline_free(struct vulkan *vk, struct vulkan_pipeline *p);

/* Runs n_groups work groups over the buffers (p->n_buffers of them) with the push constants
 * (p->push_bytes of them) and waits until they are done. */
bool vulkan_run(struct vulkan *vk, const struct vulkan_pipeline *p,
                const struct vulkan_buffer *const *buffers, const void *push, uint32_t n_groups,
                struct err *err);

#endif
