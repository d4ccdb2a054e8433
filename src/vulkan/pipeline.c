#include "vulkan/pipeline.h"

#include <assert.h>

/* Long enough for any single dispatch on a software driver. */
#define WAIT_NS (60ull * 1000 * 1000 * 1000)

static bool layout_new(struct vulkan *vk, struct vulkan_pipeline *p, struct err *err)
{
    VkDescriptorSetLayoutBinding bindings[VULKAN_MAX_BUFFERS];
    for (uint32_t i = 0; i < p->n_buffers; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = p->n_buffers,
        .pBindings = bindings,
    };
    if (!vulkan_check(vkCreateDescriptorSetLayout(vk->device, &set, NULL, &p->set_layout),
                      "vkCreateDescriptorSetLayout", err))
        return false;
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, p->push_bytes};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &p->set_layout,
        .pushConstantRangeCount = p->push_bytes ? 1 : 0,
        .pPushConstantRanges = &push,
    };
    return vulkan_check(vkCreatePipelineLayout(vk->device, &info, NULL, &p->layout),
                        "vkCreatePipelineLayout", err);
}

static bool pipeline_new(struct vulkan *vk, const struct vulkan_shader *shader,
                         struct vulkan_pipeline *p, struct err *err)
{
    const VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = shader->code_bytes,
        .pCode = shader->code,
    };
    if (!vulkan_check(vkCreateShaderModule(vk->device, &module, NULL, &p->module),
                      "vkCreateShaderModule", err))
        return false;
    VkSpecializationMapEntry entries[VULKAN_MAX_CONSTANTS];
    for (uint32_t i = 0; i < shader->n_constants; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
    const VkSpecializationInfo constants = {
        .mapEntryCount = shader->n_constants,
        .pMapEntries = entries,
        .dataSize = shader->n_constants * sizeof *shader->constants,
        .pData = shader->constants,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = p->module,
                .pName = "main",
                .pSpecializationInfo = &constants,
            },
        .layout = p->layout,
    };
    return vulkan_check(
        vkCreateComputePipelines(vk->device, VK_NULL_HANDLE, 1, &info, NULL, &p->pipeline),
        "vkCreateComputePipelines", err);
}

bool vulkan_pipeline_new(struct vulkan *vk, const struct vulkan_shader *shader,
                         struct vulkan_pipeline *out, struct err *err)
{
    assert(shader->n_buffers <= VULKAN_MAX_BUFFERS);
    assert(shader->n_constants <= VULKAN_MAX_CONSTANTS);
    assert(shader->push_bytes <= VULKAN_MAX_PUSH_BYTES && shader->push_bytes % 4 == 0);
    *out = (struct vulkan_pipeline){
        .n_buffers = shader->n_buffers,
        .push_bytes = shader->push_bytes,
    };
    if (layout_new(vk, out, err) && pipeline_new(vk, shader, out, err)) return true;
    vulkan_pipeline_free(vk, out);
    return false;
}

void vulkan_pipeline_free(struct vulkan *vk, struct vulkan_pipeline *p)
{
    if (p->pipeline) vkDestroyPipeline(vk->device, p->pipeline, NULL);
    if (p->module) vkDestroyShaderModule(vk->device, p->module, NULL);
    if (p->layout) vkDestroyPipelineLayout(vk->device, p->layout, NULL);
    if (p->set_layout) vkDestroyDescriptorSetLayout(vk->device, p->set_layout, NULL);
    *p = (struct vulkan_pipeline){0};
}

/* A descriptor set of its own pool that points at the buffers. */
static bool bind_buffers(struct vulkan *vk, const struct vulkan_pipeline *p,
                         const struct vulkan_buffer *const *buffers, VkDescriptorPool *pool,
                         VkDescriptorSet *set, struct err *err)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, p->n_buffers};
    const VkDescriptorPoolCreateInfo pool_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    if (!vulkan_check(vkCreateDescriptorPool(vk->device, &pool_info, NULL, pool),
                      "vkCreateDescriptorPool", err))
        return false;
    const VkDescriptorSetAllocateInfo set_info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = *pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &p->set_layout,
    };
    if (!vulkan_check(vkAllocateDescriptorSets(vk->device, &set_info, set),
                      "vkAllocateDescriptorSets", err))
        return false;
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const VkDescriptorBufferInfo range = {buffers[i]->buffer, 0, VK_WHOLE_SIZE};
        const VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = *set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &range,
        };
        vkUpdateDescriptorSets(vk->device, 1, &write, 0, NULL);
    }
    return true;
}

static bool record(const struct vulkan_pipeline *p, VkCommandBuffer commands,
                   VkDescriptorSet set, const void *push, uint32_t n_groups, struct err *err)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    if (!vulkan_check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer", err))
        return false;
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, p->layout, 0, 1, &set, 0,
                            NULL);
    if (p->push_bytes)
        vkCmdPushConstants(commands, p->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, p->push_bytes,
                           push);
    vkCmdDispatch(commands, n_groups, 1, 1);
    const VkMemoryBarrier to_host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &to_host, 0, NULL, 0, NULL);
    return vulkan_check(vkEndCommandBuffer(commands), "vkEndCommandBuffer", err);
}

static bool submit(struct vulkan *vk, VkCommandBuffer commands, struct err *err)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &commands,
    };
    return vulkan_check(vkQueueSubmit(vk->queue, 1, &info, vk->fence), "vkQueueSubmit", err) &&
           vulkan_check(vkWaitForFences(vk->device, 1, &vk->fence, VK_TRUE, WAIT_NS),
                        "vkWaitForFences", err) &&
           vulkan_check(vkResetFences(vk->device, 1, &vk->fence), "vkResetFences", err);
}

bool vulkan_run(struct vulkan *vk, const struct vulkan_pipeline *p,
                const struct vulkan_buffer *const *buffers, const void *push, uint32_t n_groups,
                struct err *err)
{
    VkDescriptorPool pool = VK_NULL_HANDLE;
    VkDescriptorSet set;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = vk->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    bool ok = bind_buffers(vk, p, buffers, &pool, &set, err) &&
              vulkan_check(vkAllocateCommandBuffers(vk->device, &info, &commands),
                           "vkAllocateCommandBuffers", err) &&
              record(p, commands, set, push, n_groups, err) && submit(vk, commands, err);
    if (commands) vkFreeCommandBuffers(vk->device, vk->commands, 1, &commands);
    if (pool) vkDestroyDescriptorPool(vk->device, pool, NULL);
    return ok;
}
