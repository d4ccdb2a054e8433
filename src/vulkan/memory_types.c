/* Memory types by what they are for: the types that may be taken are rated, the best wins, and
 * of equals the first, as the driver has put them in order. */
#include "vulkan/memory_types.h"

static const VkMemoryPropertyFlags SEEN =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
/* Types with other properties (protected, lazily allocated, a maker's own) are for others. */
static const VkMemoryPropertyFlags KNOWN =
    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
    VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;

struct wish {
    const VkPhysicalDeviceMemoryProperties *all;
    uint32_t usable;
};

static VkMemoryPropertyFlags flags_of(const struct wish *w, uint32_t i)
{
    return w->all->memoryTypes[i].propertyFlags;
}

static VkDeviceSize heap_of(const struct wish *w, uint32_t i)
{
    return w->all->memoryHeaps[w->all->memoryTypes[i].heapIndex].size;
}

/* The best type that has `must`, if there is one: the larger heap where that counts, then
 * `nice`. */
static bool best(const struct wish *w, VkMemoryPropertyFlags must, VkMemoryPropertyFlags nice,
                 bool size_counts, uint32_t *out)
{
    bool found = false;
    for (uint32_t i = 0; i < w->all->memoryTypeCount; i++) {
        const VkMemoryPropertyFlags flags = flags_of(w, i);
        if (!(w->usable >> i & 1) || (flags & must) != must || flags & ~KNOWN) continue;
        const bool is_larger = found && size_counts && heap_of(w, i) > heap_of(w, *out);
        const bool is_smaller = found && size_counts && heap_of(w, i) < heap_of(w, *out);
        const bool is_nicer =
            found && (flags & nice) == nice && (flags_of(w, *out) & nice) != nice;
        if (!found || is_larger || (is_nicer && !is_smaller)) *out = i;
        found = true;
    }
    return found;
}

bool vulkan_memory_choose(const VkPhysicalDeviceMemoryProperties *all, uint32_t usable,
                          bool shares, struct vulkan_memory_types *out)
{
    const struct wish w = {all, usable};
    if (!best(&w, SEEN, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, false, &out->host)) return false;
    /* Some drivers call a small part of the system's memory the device's: the largest heap
     * counts. Of its types the first is often not cached by the host, which is what the device
     * reads fastest. */
    out->is_seen =
        shares && best(&w, SEEN, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, true, &out->device);
    if (!out->is_seen && !best(&w, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, true, &out->device))
        out->device = out->host;
    /* The window through which the host sees a card's memory, of 256 MiB or of all: a dispatch
     * then reads its numbers of groups from near by, not over the bus. */
    if (!best(&w, SEEN | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, false, &out->written))
        out->written = out->host;
    return true;
}
