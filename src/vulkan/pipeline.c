#include "vulkan/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct vulkan_made {
    struct vulkan_variant variant;
    VkPipeline pipeline;
};

static bool same(const struct vulkan_variant *a, const struct vulkan_variant *b)
{
    return a->shader == b->shader && a->n_constants == b->n_constants &&
           memcmp(a->constants, b->constants, a->n_constants * sizeof *a->constants) == 0;
}

static bool need_module(struct vulkan_pipelines *p, enum vulkan_shader shader, struct err *err)
{
    if (p->modules[shader]) return true;
    const struct vulkan_code *code = vulkan_code(shader);
    uint32_t *words = mem_alloc(code->n_bytes);
    const size_t n = vulkan_modes_known(&p->vk->modes, code->words, code->n_bytes / 4, words);
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = 4 * n,
        .pCode = words,
    };
    const VkResult result =
        vkCreateShaderModule(p->vk->device, &info, NULL, &p->modules[shader]);
    free(words);
    return vulkan_check(result, "vkCreateShaderModule", err);
}

static VkPipeline make(struct vulkan_pipelines *p, const struct vulkan_variant *v,
                       struct err *err)
{
    VkSpecializationMapEntry entries[VULKAN_MAX_CONSTANTS];
    for (uint32_t i = 0; i < v->n_constants; i++)
        entries[i] = (VkSpecializationMapEntry){i, i * 4, 4};
    const VkSpecializationInfo constants = {
        .mapEntryCount = v->n_constants,
        .pMapEntries = entries,
        .dataSize = v->n_constants * sizeof *v->constants,
        .pData = v->constants,
    };
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = p->modules[v->shader],
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = p->vk->layout,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    p->vk->counters.pipelines++;
    if (!vulkan_check(vkCreateComputePipelines(p->vk->device, p->vk->cache.driver, 1, &info,
                                               NULL, &pipeline),
                      "vkCreateComputePipelines", err))
        return VK_NULL_HANDLE;
    return pipeline;
}

VkPipeline vulkan_pipeline(struct vulkan_pipelines *p, const struct vulkan_variant *v,
                           struct err *err)
{
    for (size_t i = 0; i < p->n_made; i++)
        if (same(&p->made[i].variant, v)) return p->made[i].pipeline;
    if (!need_module(p, v->shader, err)) return VK_NULL_HANDLE;
    VkPipeline pipeline = make(p, v, err);
    if (!pipeline) return VK_NULL_HANDLE;
    MEM_GROW(p->made, p->n_made, p->cap_made);
    p->made[p->n_made++] = (struct vulkan_made){*v, pipeline};
    return pipeline;
}

void vulkan_pipelines_free(struct vulkan_pipelines *p)
{
    if (!p->vk) return;
    for (size_t i = 0; i < p->n_made; i++)
        vkDestroyPipeline(p->vk->device, p->made[i].pipeline, NULL);
    for (size_t i = 0; i < N_SHADERS; i++)
        if (p->modules[i]) vkDestroyShaderModule(p->vk->device, p->modules[i], NULL);
    free(p->made);
    *p = (struct vulkan_pipelines){0};
}

/* ---- descriptor sets ---- */

enum { SETS_PER_POOL = 256 };

static bool pool_new(struct vulkan_sets *s, struct err *err)
{
    const VkDescriptorPoolSize sizes[] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, SETS_PER_POOL * VULKAN_STORAGE},
        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, SETS_PER_POOL * VULKAN_TEXELS}};
    const VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = SETS_PER_POOL,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    MEM_GROW(s->pools, s->n_pools, s->cap_pools);
    if (!vulkan_check(vkCreateDescriptorPool(s->vk->device, &info, NULL, &s->pools[s->n_pools]),
                      "vkCreateDescriptorPool", err))
        return false;
    s->n_pools++;
    s->n_left = SETS_PER_POOL;
    return true;
}

bool vulkan_set_new(struct vulkan_sets *s, const struct vulkan_binding *bindings, size_t n,
                    VkDescriptorSet *out, struct err *err)
{
    if (s->n_left == 0 && !pool_new(s, err)) return false;
    const VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = s->pools[s->n_pools - 1],
        .descriptorSetCount = 1,
        .pSetLayouts = &s->vk->set_layout,
    };
    if (!vulkan_check(vkAllocateDescriptorSets(s->vk->device, &info, out),
                      "vkAllocateDescriptorSets", err))
        return false;
    s->n_left--;
    assert(n <= VULKAN_BINDINGS);
    VkWriteDescriptorSet writes[VULKAN_BINDINGS];
    VkDescriptorBufferInfo ranges[VULKAN_BINDINGS];
    for (size_t i = 0; i < n; i++) {
        const struct vulkan_binding *b = &bindings[i];
        bool is_texel = b->at >= VULKAN_STORAGE;
        ranges[i] = (VkDescriptorBufferInfo){b->region.buffer, b->region.at, b->region.n_bytes};
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = *out,
            .dstBinding = b->at,
            .descriptorCount = 1,
            .descriptorType = is_texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER
                                       : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &ranges[i],
            .pTexelBufferView = &b->view,
        };
    }
    vkUpdateDescriptorSets(s->vk->device, (uint32_t)n, writes, 0, NULL);
    s->vk->counters.sets++;
    return true;
}

void vulkan_sets_free(struct vulkan_sets *s)
{
    for (size_t i = 0; i < s->n_pools; i++)
        vkDestroyDescriptorPool(s->vk->device, s->pools[i], NULL);
    free(s->pools);
    *s = (struct vulkan_sets){0};
}

/* ---- one dispatch ---- */

static bool record(VkCommandBuffer c, const struct vulkan *vk, VkPipeline pipeline,
                   VkDescriptorSet set, uint32_t n_groups, struct err *err)
{
    const VkMemoryBarrier to_host = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(c, VK_PIPELINE_BIND_POINT_COMPUTE, vk->layout, 0, 1, &set, 0, NULL);
    vkCmdDispatch(c, n_groups, 1, 1);
    vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
                         1, &to_host, 0, NULL, 0, NULL);
    return vulkan_end(c, err);
}

bool vulkan_run_once(struct vulkan_pipelines *p, const struct vulkan_variant *v,
                     const struct vulkan_region *buffers, size_t n, uint32_t n_groups,
                     struct err *err)
{
    struct vulkan *vk = p->vk;
    struct vulkan_sets sets = {.vk = vk};
    struct vulkan_binding bindings[VULKAN_STORAGE];
    assert(n <= VULKAN_STORAGE);
    for (size_t i = 0; i < n; i++)
        bindings[i] = (struct vulkan_binding){.at = (uint32_t)i, .region = buffers[i]};
    VkPipeline pipeline = vulkan_pipeline(p, v, err);
    VkDescriptorSet set;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    bool ok = pipeline && vulkan_set_new(&sets, bindings, n, &set, err) &&
              vulkan_begin(vk, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, &commands, err) &&
              record(commands, vk, pipeline, set, n_groups, err) &&
              vulkan_submit(vk, 1, &commands, err);
    vulkan_commands_free(vk, commands);
    vulkan_sets_free(&sets);
    return ok;
}
