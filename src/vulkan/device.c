#include "vulkan/device.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"

bool vulkan_check(VkResult result, const char *call, struct err *err)
{
    if (result == VK_SUCCESS) return true;
    const char *what = "failed";
    enum err_code code = ERR_DEVICE;
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        what = "out of host memory";
        code = ERR_MEMORY;
        break;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        what = "out of device memory";
        code = ERR_MEMORY;
        break;
    case VK_ERROR_DEVICE_LOST: what = "the device was lost"; break;
    case VK_ERROR_TOO_MANY_OBJECTS:
        what = "too many allocations";
        code = ERR_MEMORY;
        break;
    case VK_ERROR_INITIALIZATION_FAILED: what = "initialisation failed"; break;
    case VK_ERROR_INCOMPATIBLE_DRIVER: what = "no compatible driver"; break;
    case VK_ERROR_FEATURE_NOT_PRESENT: what = "a feature is missing"; break;
    case VK_ERROR_EXTENSION_NOT_PRESENT: what = "an extension is missing"; break;
    case VK_TIMEOUT: what = "timed out"; break;
    default: break;
    }
    return err_set(err, code, "%s: %s (VkResult %d)", call, what, (int)result);
}

bool vulkan_done(struct vulkan *vk, VkResult result, const char *call, struct err *err)
{
    if (vulkan_check(result, call, err)) return true;
    vk->is_lost = true;
    /* A wait that ended for want of memory leaves work under way on what is freed next. */
    vkDeviceWaitIdle(vk->device);
    return err_prefix(err, "%s", vk->properties.deviceName);
}

/* ---- what there is ---- */

static bool is_among(const VkExtensionProperties *all, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(all[i].extensionName, name) == 0) return true;
    return false;
}

static bool instance_has(const char *name)
{
    uint32_t n = 0;
    if (vkEnumerateInstanceExtensionProperties(NULL, &n, NULL) != VK_SUCCESS) return false;
    VkExtensionProperties *all = mem_zalloc(n, sizeof *all);
    const VkResult result = vkEnumerateInstanceExtensionProperties(NULL, &n, all);
    const bool found = result == VK_SUCCESS && is_among(all, n, name);
    free(all);
    return found;
}

/* Devices of a driver that has not all of Vulkan, as Apple's by MoltenVK, are shown only to
 * those who ask for them. What is missing there is nothing that is used here. */
static bool instance_new(VkInstance *out, struct err *err)
{
    static const char *const portability[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
    const bool asks = instance_has(portability[0]);
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "hearth",
        .apiVersion = VK_API_VERSION_1_2,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .flags = asks ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0,
        .pApplicationInfo = &app,
        .enabledExtensionCount = asks ? 1 : 0,
        .ppEnabledExtensionNames = portability,
    };
    return vulkan_check(vkCreateInstance(&info, NULL, out), "vkCreateInstance", err);
}

/* The one instance of the process, made by who asks first and kept until it ends. Drivers are
 * loaded with an instance and unloaded with the last, and not all bear that often: NVIDIA's
 * (580, November 2026) are not found any more after some thirty times. */
static VkInstance shared_instance(struct err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static VkInstance shared;
    VkInstance made = VK_NULL_HANDLE;
    pthread_mutex_lock(&lock);
    if (!shared && instance_new(&made, err)) shared = made;
    made = shared;
    pthread_mutex_unlock(&lock);
    return made;
}

/* All devices of an instance, to be freed; NULL if there are none. */
static VkPhysicalDevice *list_devices(VkInstance instance, uint32_t *n)
{
    *n = 0;
    if (vkEnumeratePhysicalDevices(instance, n, NULL) != VK_SUCCESS || *n == 0) return NULL;
    VkPhysicalDevice *all = mem_zalloc(*n, sizeof(VkPhysicalDevice));
    if (vkEnumeratePhysicalDevices(instance, n, all) == VK_SUCCESS) return all;
    free(all);
    *n = 0;
    return NULL;
}

static enum vulkan_kind kind_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return VULKAN_DISCRETE;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return VULKAN_INTEGRATED;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return VULKAN_VIRTUAL;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return VULKAN_SOFTWARE;
    default: return VULKAN_OTHER;
    }
}

const char *vulkan_kind_name(enum vulkan_kind kind)
{
    static const char *const names[] = {[VULKAN_DISCRETE] = "discrete",
                                        [VULKAN_INTEGRATED] = "integrated",
                                        [VULKAN_VIRTUAL] = "virtual",
                                        [VULKAN_OTHER] = "other",
                                        [VULKAN_SOFTWARE] = "software"};
    return names[kind];
}

/* A driver's words go to terminals and messages. */
static void read_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    char name[sizeof out->deviceName];
    vkGetPhysicalDeviceProperties(device, out);
    printable(name, sizeof name, out->deviceName,
              strnlen(out->deviceName, sizeof out->deviceName));
    memcpy(out->deviceName, name, sizeof name);
}

static uint64_t heap_bytes(VkPhysicalDevice device)
{
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(device, &memory);
    uint64_t most = 0;
    for (uint32_t i = 0; i < memory.memoryHeapCount; i++)
        if (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            memory.memoryHeaps[i].size > most)
            most = memory.memoryHeaps[i].size;
    return most;
}

size_t vulkan_list(struct vulkan_info *out, size_t cap)
{
    struct err ignored;
    const VkInstance instance = shared_instance(&ignored);
    uint32_t n;
    if (!instance) return 0;
    VkPhysicalDevice *all = list_devices(instance, &n);
    for (uint32_t i = 0; i < n && i < cap; i++) {
        VkPhysicalDeviceProperties p;
        read_properties(all[i], &p);
        out[i] = (struct vulkan_info){.kind = kind_of(p.deviceType),
                                      .memory_bytes = heap_bytes(all[i])};
        snprintf(out[i].name, sizeof out[i].name, "%s", p.deviceName);
    }
    free(all);
    return n;
}

uint32_t vulkan_count(void)
{
    return (uint32_t)vulkan_list(NULL, 0);
}

size_t vulkan_order(const struct vulkan_info *all, size_t n, uint32_t *out)
{
    static const enum vulkan_kind order[] = {VULKAN_DISCRETE, VULKAN_INTEGRATED, VULKAN_VIRTUAL,
                                             VULKAN_OTHER};
    size_t n_out = 0;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < n; i++)
            if (all[i].kind == order[k]) out[n_out++] = (uint32_t)i;
    return n_out;
}

/* A machine of several may have any of them in a container, and no other. */
static bool has_render_node(void)
{
    DIR *dir = opendir("/dev/dri");
    bool found = false;
    const struct dirent *entry;
    while (dir && !found && (entry = readdir(dir)))
        found = strncmp(entry->d_name, "renderD", 7) == 0;
    if (dir) closedir(dir);
    return found;
}

bool vulkan_may_be_hardware(void)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0",
                                        "/dev/mali0"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (access(nodes[i], F_OK) == 0) return true;
    return has_render_node();
}

/* ---- opening ---- */

/* Kernels reset a device whose work does not end: amdgpu after 10 s, xe after 5, i915 after
 * some 3 if somebody else wants it. A software device has nobody who waits. */
static const double PATIENCE_MS = 1000;

static bool refuse(const struct vulkan *vk, struct err *err, const char *what)
{
    return err_set(err, ERR_DEVICE, "%s: %s", vk->properties.deviceName, what);
}

static bool pick_physical(struct vulkan *vk, uint32_t index, struct err *err)
{
    uint32_t n;
    VkPhysicalDevice *all = list_devices(vk->instance, &n);
    if (index < n) vk->physical = all[index];
    free(all);
    if (index >= n && n == 0)
        return err_set(err, ERR_DEVICE, "vulkan:%u: there is no Vulkan device", index);
    if (index >= n && n == 1)
        return err_set(err, ERR_DEVICE, "vulkan:%u: there is only vulkan:0 (--list-devices)",
                       index);
    if (index >= n)
        return err_set(err, ERR_DEVICE,
                       "vulkan:%u: there are only vulkan:0 to vulkan:%u (--list-devices)",
                       index, n - 1);
    read_properties(vk->physical, &vk->properties);
    return true;
}

static bool pick_queue_family(struct vulkan *vk, struct err *err)
{
    uint32_t n = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(vk->physical, &n, NULL);
    VkQueueFamilyProperties *all = mem_zalloc(n, sizeof *all);
    vkGetPhysicalDeviceQueueFamilyProperties(vk->physical, &n, all);
    uint32_t i = 0;
    while (i < n && !(all[i].queueFlags & VK_QUEUE_COMPUTE_BIT))
        i++;
    vk->clock_bits = i < n ? all[i].timestampValidBits : 0;
    free(all);
    vk->queue_family = i;
    return i < n || refuse(vk, err, "has no compute queue");
}

/* Which memory types a buffer may lie in: the same for all that are used alike. */
static bool buffer_types(const struct vulkan *vk, uint32_t *usable, struct err *err)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .size = 256,
                                     .usage = VULKAN_BUFFER_USAGE};
    VkBuffer buffer;
    VkMemoryRequirements need;
    if (!vulkan_check(vkCreateBuffer(vk->device, &info, NULL, &buffer), "vkCreateBuffer", err))
        return false;
    vkGetBufferMemoryRequirements(vk->device, buffer, &need);
    vkDestroyBuffer(vk->device, buffer, NULL);
    *usable = need.memoryTypeBits;
    return true;
}

static bool pick_memory(struct vulkan *vk, bool always_staged, struct err *err)
{
    VkPhysicalDeviceMemoryProperties all;
    uint32_t usable;
    vkGetPhysicalDeviceMemoryProperties(vk->physical, &all);
    /* Part of a discrete device's memory may be seen by the host; it is reached over the bus
     * and often small, so only devices that share the host's memory are written to directly. */
    const bool shares = vk->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                        vk->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    if (!buffer_types(vk, &usable, err)) return false;
    if (!vulkan_memory_choose(&all, usable, shares, &vk->types))
        return refuse(vk, err, "has no memory that the host sees");
    if (always_staged) vk->types.is_seen = false;
    return true;
}

static uint32_t at_most(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The limits as they are used. A shader counts texels by a signed number, and drivers that
 * promise more than 2 GiB have not always meant it. A work group that is one row of lanes may
 * be limited by either of two numbers. */
static void trim_limits(VkPhysicalDeviceLimits *l)
{
    l->maxTexelBufferElements = at_most(l->maxTexelBufferElements, 1u << 27);
    l->maxComputeWorkGroupInvocations =
        at_most(l->maxComputeWorkGroupInvocations, l->maxComputeWorkGroupSize[0]);
}

/* What Vulkan promises of every device (the table of required limits), but for texels, of which
 * 65,536 are too few for the rows of a step; no float modes, no patience. */
static void have_least(struct vulkan *vk)
{
    VkPhysicalDeviceLimits *l = &vk->properties.limits;
    l->maxTexelBufferElements = 1u << 20;
    l->maxStorageBufferRange = 1u << 27;
    l->maxComputeWorkGroupInvocations = 128;
    l->maxComputeSharedMemorySize = 16384;
    vk->modes = (struct vulkan_modes){0};
    vk->patience_ms = 0;
}

static bool check_limits(struct vulkan *vk, const struct vulkan_choice *choice, struct err *err)
{
    VkPhysicalDeviceMaintenance3Properties largest = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceFloatControlsProperties floats = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES,
        .pNext = &largest};
    VkPhysicalDeviceSubgroupProperties subgroup = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, .pNext = &floats};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &subgroup};
    VkPhysicalDeviceLimits *limits = &vk->properties.limits;
    if (vk->properties.apiVersion < VK_API_VERSION_1_2)
        return refuse(vk, err, "needs Vulkan 1.2");
    vkGetPhysicalDeviceProperties2(vk->physical, &all);
    vk->subgroup_size = subgroup.subgroupSize;
    vk->most_bytes = (size_t)largest.maxMemoryAllocationSize;
    vk->modes = (struct vulkan_modes){floats.shaderRoundingModeRTEFloat32,
                                      floats.shaderSignedZeroInfNanPreserveFloat32};
    trim_limits(limits);
    const bool is_software = vk->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    vk->patience_ms = is_software ? -1 : PATIENCE_MS;
    vk->is_wide = !is_software || choice->always_wide;
    if (choice->least) have_least(vk);
    bool shuffles = subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT &&
                    subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    if (!shuffles || vk->subgroup_size < 8)
        return refuse(vk, err, "has no shuffle among subgroups of 8 or more");
    if (limits->maxPerStageDescriptorStorageBuffers < VULKAN_STORAGE ||
        limits->maxPerStageDescriptorSampledImages < VULKAN_TEXELS ||
        limits->maxPushConstantsSize < VULKAN_PUSH_BYTES ||
        limits->maxComputeWorkGroupInvocations < 128 ||
        limits->maxComputeSharedMemorySize < 16384)
        return refuse(vk, err,
                      "has too few bindings, push constants or lanes of a work group, or too "
                      "little that they share");
    return true;
}

static bool has_extension(const struct vulkan *vk, const char *name)
{
    uint32_t n = 0;
    if (vkEnumerateDeviceExtensionProperties(vk->physical, NULL, &n, NULL) != VK_SUCCESS)
        return false;
    VkExtensionProperties *all = mem_zalloc(n, sizeof *all);
    const VkResult result = vkEnumerateDeviceExtensionProperties(vk->physical, NULL, &n, all);
    const bool found = result == VK_SUCCESS && is_among(all, n, name);
    free(all);
    return found;
}

static uint64_t free_memory(const struct vulkan *vk)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &budget};
    if (!has_extension(vk, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME))
        return heap_bytes(vk->physical);
    vkGetPhysicalDeviceMemoryProperties2(vk->physical, &all);
    const uint32_t heap = all.memoryProperties.memoryTypes[vk->types.device].heapIndex;
    const uint64_t limit = budget.heapBudget[heap], used = budget.heapUsage[heap];
    return limit > used ? limit - used : 1;
}

uint64_t vulkan_own_memory(const struct vulkan *vk)
{
    if (vk->properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU) return 0;
    return free_memory(vk);
}

static bool wants_packed_dot(const struct vulkan *vk, const struct vulkan_choice *choice)
{
    if (choice->never_packed_dot ||
        !has_extension(vk, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
        return false;
    VkPhysicalDeviceShaderIntegerDotProductFeatures features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceFeatures2 all_features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &features};
    vkGetPhysicalDeviceFeatures2(vk->physical, &all_features);
    VkPhysicalDeviceShaderIntegerDotProductProperties speed = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                       .pNext = &speed};
    vkGetPhysicalDeviceProperties2(vk->physical, &all);
    return features.shaderIntegerDotProduct &&
           (choice->always_packed_dot || speed.integerDotProduct4x8BitPackedSignedAccelerated);
}

static bool device_new(struct vulkan *vk, const struct vulkan_choice *choice, struct err *err)
{
    const char *extensions[2];
    uint32_t n_extensions = 0;
    vk->has_packed_dot = wants_packed_dot(vk, choice);
    if (vk->has_packed_dot)
        extensions[n_extensions++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    /* A device that has it must be opened with it. */
    if (has_extension(vk, "VK_KHR_portability_subset"))
        extensions[n_extensions++] = "VK_KHR_portability_subset";
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = vk->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot_features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
        .shaderIntegerDotProduct = VK_TRUE};
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = vk->has_packed_dot ? &dot_features : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    if (!vulkan_check(vkCreateDevice(vk->physical, &info, NULL, &vk->device), "vkCreateDevice",
                      err))
        return false;
    vkGetDeviceQueue(vk->device, vk->queue_family, 0, &vk->queue);

    const VkCommandPoolCreateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = vk->queue_family,
    };
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return vulkan_check(vkCreateCommandPool(vk->device, &commands, NULL, &vk->commands),
                        "vkCreateCommandPool", err) &&
           vulkan_check(vkCreateFence(vk->device, &fence, NULL, &vk->fence), "vkCreateFence",
                        err);
}

/* One layout for all pipelines: a shader that has fewer bindings leaves the rest unwritten. */
static bool layout_new(struct vulkan *vk, struct err *err)
{
    VkDescriptorSetLayoutBinding bindings[VULKAN_BINDINGS];
    for (uint32_t i = 0; i < VULKAN_BINDINGS; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = i < VULKAN_STORAGE ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
                                                 : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = VULKAN_BINDINGS,
        .pBindings = bindings,
    };
    if (!vulkan_check(vkCreateDescriptorSetLayout(vk->device, &set, NULL, &vk->set_layout),
                      "vkCreateDescriptorSetLayout", err))
        return false;
    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, VULKAN_PUSH_BYTES};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &vk->set_layout,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &push,
    };
    return vulkan_check(vkCreatePipelineLayout(vk->device, &info, NULL, &vk->layout),
                        "vkCreatePipelineLayout", err);
}

bool vulkan_open(struct vulkan *vk, const struct vulkan_choice *choice, struct err *err)
{
    *vk = (struct vulkan){0};
    vk->instance = shared_instance(err);
    if (vk->instance && pick_physical(vk, choice->index, err) &&
        check_limits(vk, choice, err) && pick_queue_family(vk, err) &&
        device_new(vk, choice, err) && pick_memory(vk, choice->always_staged, err) &&
        layout_new(vk, err))
        return true;
    vulkan_close(vk);
    return false;
}

void vulkan_close(struct vulkan *vk)
{
    if (vk->device) {
        vulkan_pipeline_cache_close(vk);
        if (vk->layout) vkDestroyPipelineLayout(vk->device, vk->layout, NULL);
        if (vk->set_layout) vkDestroyDescriptorSetLayout(vk->device, vk->set_layout, NULL);
        if (vk->fence) vkDestroyFence(vk->device, vk->fence, NULL);
        if (vk->commands) vkDestroyCommandPool(vk->device, vk->commands, NULL);
        vkDestroyDevice(vk->device, NULL);
    }
    *vk = (struct vulkan){0};
}

bool vulkan_begin(const struct vulkan *vk, VkCommandBufferUsageFlags usage, VkCommandBuffer *c,
                  struct err *err)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = vk->commands,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = usage,
    };
    *c = VK_NULL_HANDLE;
    if (!vulkan_check(vkAllocateCommandBuffers(vk->device, &info, c),
                      "vkAllocateCommandBuffers", err))
        return false;
    if (vulkan_check(vkBeginCommandBuffer(*c, &begin), "vkBeginCommandBuffer", err))
        return true;
    vulkan_commands_free(vk, *c);
    *c = VK_NULL_HANDLE;
    return false;
}

bool vulkan_end(VkCommandBuffer c, struct err *err)
{
    return vulkan_check(vkEndCommandBuffer(c), "vkEndCommandBuffer", err);
}

void vulkan_commands_free(const struct vulkan *vk, VkCommandBuffer c)
{
    if (c) vkFreeCommandBuffers(vk->device, vk->commands, 1, &c);
}

bool vulkan_submit(struct vulkan *vk, uint32_t n, const VkCommandBuffer *commands,
                   struct err *err)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = n,
        .pCommandBuffers = commands,
    };
    vk->counters.submits++;
    if (vk->is_lost || vk->counters.submits == vk->lost_at)
        return vulkan_done(vk, VK_ERROR_DEVICE_LOST, "vkQueueSubmit", err);
    if (!vulkan_done(vk, vkQueueSubmit(vk->queue, 1, &info, vk->fence), "vkQueueSubmit", err))
        return false;
    vk->counters.waits++;
    return vulkan_done(vk, vkWaitForFences(vk->device, 1, &vk->fence, VK_TRUE, UINT64_MAX),
                       "vkWaitForFences", err) &&
           vulkan_done(vk, vkResetFences(vk->device, 1, &vk->fence), "vkResetFences", err);
}
