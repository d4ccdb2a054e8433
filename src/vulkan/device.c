#include "vulkan/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

bool vulkan_check(VkResult result, const char *call, struct err *err)
{
    if (result == VK_SUCCESS) return true;
    const char *what = "failed";
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: what = "out of host memory"; break;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: what = "out of device memory"; break;
    case VK_ERROR_DEVICE_LOST: what = "the device was lost"; break;
    case VK_ERROR_INITIALIZATION_FAILED: what = "initialisation failed"; break;
    case VK_ERROR_INCOMPATIBLE_DRIVER: what = "no compatible driver"; break;
    case VK_ERROR_FEATURE_NOT_PRESENT: what = "a feature is missing"; break;
    case VK_ERROR_EXTENSION_NOT_PRESENT: what = "an extension is missing"; break;
    case VK_TIMEOUT: what = "timed out"; break;
    default: break;
    }
    return err_set(err, ERR_DEVICE, "%s: %s (VkResult %d)", call, what, (int)result);
}

static bool instance_new(VkInstance *out, struct err *err)
{
    const VkApplicationInfo app = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "hearth",
        .apiVersion = VK_API_VERSION_1_2,
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pApplicationInfo = &app,
    };
    return vulkan_check(vkCreateInstance(&info, NULL, out), "vkCreateInstance", err);
}

uint32_t vulkan_count(void)
{
    struct err ignored;
    VkInstance instance;
    uint32_t n = 0;
    if (!instance_new(&instance, &ignored)) return 0;
    if (vkEnumeratePhysicalDevices(instance, &n, NULL) != VK_SUCCESS) n = 0;
    vkDestroyInstance(instance, NULL);
    return n;
}

static bool pick_physical(struct vulkan *vk, uint32_t index, struct err *err)
{
    uint32_t n = 0;
    if (!vulkan_check(vkEnumeratePhysicalDevices(vk->instance, &n, NULL),
                      "vkEnumeratePhysicalDevices", err))
        return false;
    if (index >= n)
        return err_set(err, ERR_DEVICE, "vulkan:%u: there are %u Vulkan devices", index, n);
    VkPhysicalDevice *all = mem_zalloc(n, sizeof(VkPhysicalDevice));
    VkResult result = vkEnumeratePhysicalDevices(vk->instance, &n, all);
    vk->physical = index < n ? all[index] : VK_NULL_HANDLE;
    free(all);
    if (!vulkan_check(result, "vkEnumeratePhysicalDevices", err)) return false;
    vkGetPhysicalDeviceProperties(vk->physical, &vk->properties);
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
    free(all);
    vk->queue_family = i;
    return i < n ||
           err_set(err, ERR_DEVICE, "%s: has no compute queue", vk->properties.deviceName);
}

static bool pick_memory_type(struct vulkan *vk, struct err *err)
{
    const VkMemoryPropertyFlags want =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties all;
    vkGetPhysicalDeviceMemoryProperties(vk->physical, &all);
    for (uint32_t i = 0; i < all.memoryTypeCount; i++)
        if ((all.memoryTypes[i].propertyFlags & want) == want) {
            vk->memory_type = i;
            return true;
        }
    return err_set(err, ERR_DEVICE, "%s: has no memory that the host sees",
                   vk->properties.deviceName);
}

static bool device_new(struct vulkan *vk, struct err *err)
{
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = vk->queue_family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
    };
    if (!vulkan_check(vkCreateDevice(vk->physical, &info, NULL, &vk->device), "vkCreateDevice",
                      err))
        return false;
    vkGetDeviceQueue(vk->device, vk->queue_family, 0, &vk->queue);

    const VkCommandPoolCreateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = vk->queue_family,
    };
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    return vulkan_check(vkCreateCommandPool(vk->device, &commands, NULL, &vk->commands),
                        "vkCreateCommandPool", err) &&
           vulkan_check(vkCreateFence(vk->device, &fence, NULL, &vk->fence), "vkCreateFence",
                        err);
}

bool vulkan_open(struct vulkan *vk, uint32_t index, struct err *err)
{
    *vk = (struct vulkan){0};
    if (instance_new(&vk->instance, err) && pick_physical(vk, index, err) &&
        pick_queue_family(vk, err) && pick_memory_type(vk, err) && device_new(vk, err))
        return true;
    vulkan_close(vk);
    return false;
}

void vulkan_close(struct vulkan *vk)
{
    if (vk->device) {
        vkDestroyFence(vk->device, vk->fence, NULL);
        vkDestroyCommandPool(vk->device, vk->commands, NULL);
        vkDestroyDevice(vk->device, NULL);
    }
    if (vk->instance) vkDestroyInstance(vk->instance, NULL);
    *vk = (struct vulkan){0};
}

bool vulkan_buffer_new(struct vulkan *vk, size_t n_bytes, struct vulkan_buffer *out,
                       struct err *err)
{
    *out = (struct vulkan_buffer){.n_bytes = n_bytes};
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = n_bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
    };
    if (!vulkan_check(vkCreateBuffer(vk->device, &info, NULL, &out->buffer), "vkCreateBuffer",
                      err))
        return false;
    VkMemoryRequirements need;
    vkGetBufferMemoryRequirements(vk->device, out->buffer, &need);
    const VkMemoryAllocateInfo memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = need.size,
        .memoryTypeIndex = vk->memory_type,
    };
    bool ok = (need.memoryTypeBits >> vk->memory_type & 1) ||
              err_set(err, ERR_DEVICE, "%s: a buffer cannot lie in memory that the host sees",
                      vk->properties.deviceName);
    ok = ok &&
         vulkan_check(vkAllocateMemory(vk->device, &memory, NULL, &out->memory),
                      "vkAllocateMemory", err) &&
         vulkan_check(vkBindBufferMemory(vk->device, out->buffer, out->memory, 0),
                      "vkBindBufferMemory", err) &&
         vulkan_check(vkMapMemory(vk->device, out->memory, 0, VK_WHOLE_SIZE, 0, &out->data),
                      "vkMapMemory", err);
    if (!ok) vulkan_buffer_free(vk, out);
    return ok;
}

void vulkan_buffer_free(struct vulkan *vk, struct vulkan_buffer *b)
{
    if (b->buffer) vkDestroyBuffer(vk->device, b->buffer, NULL);
    if (b->memory) vkFreeMemory(vk->device, b->memory, NULL);
    *b = (struct vulkan_buffer){0};
}
