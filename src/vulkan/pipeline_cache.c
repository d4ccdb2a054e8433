/* The driver's cache of pipelines: read at the first opening, merged into the file at a save.
 */
#include "vulkan/pipeline_cache.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "vulkan/device.h"
#include "vulkan/pipeline_file.h"

static struct pipeline_id id_of(const struct vulkan *vk)
{
    const VkPhysicalDeviceProperties *p = &vk->properties;
    struct pipeline_id id = {p->vendorID, p->deviceID, p->driverVersion, {0}};
    memcpy(id.uuid, p->pipelineCacheUUID, sizeof id.uuid);
    return id;
}

/* A cache of what is in a sound file, empty: of nothing. */
static VkPipelineCache cache_of(const struct vulkan *vk, const struct buf *file)
{
    VkPipelineCache cache = VK_NULL_HANDLE;
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (file->len > 0) {
        info.initialDataSize = file->len - PIPELINE_FILE_HEADER;
        info.pInitialData = file->data + PIPELINE_FILE_HEADER;
    }
    if (vkCreatePipelineCache(vk->device, &info, NULL, &cache) != VK_SUCCESS)
        return VK_NULL_HANDLE;
    return cache;
}

static void read_file(const struct vulkan_pipeline_cache *c, const struct pipeline_id *id,
                      struct buf *out)
{
    if (!c->path || !pipeline_file_read(c->path, id, out)) buf_clear(out);
}

/* 0: there is none to be had. */
static size_t size_of(const struct vulkan *vk, VkPipelineCache cache)
{
    size_t n = 0;
    return vkGetPipelineCacheData(vk->device, cache, &n, NULL) == VK_SUCCESS ? n : 0;
}

void vulkan_pipeline_cache_open(struct vulkan *vk, const char *dir)
{
    struct vulkan_pipeline_cache *c = &vk->cache;
    if (c->driver) return;
    const struct pipeline_id id = id_of(vk);
    struct buf file = {0};
    free(c->path); /* of a call for which the driver could not make one */
    c->path = dir ? pipeline_file_path(dir, &id) : NULL;
    read_file(c, &id, &file);
    c->driver = cache_of(vk, &file);
    c->n_kept_bytes = c->driver && file.len > 0 ? size_of(vk, c->driver) : 0;
    buf_free(&file);
}

/* Writes the data of a cache, unless the file has n_there bytes of it already. A file that has
 * grown too large to be read begins anew: what is still in use comes back by itself. */
static void write_file(const struct vulkan *vk, VkPipelineCache cache,
                       const struct pipeline_id *id, size_t n_there)
{
    const char *path = vk->cache.path;
    struct err ignored;
    size_t n = size_of(vk, cache);
    if (n > PIPELINE_FILE_MOST - PIPELINE_FILE_HEADER) {
        unlink(path);
        return;
    }
    if (n == 0 || n == n_there) return;
    void *data = mem_zalloc(1, n);
    if (vkGetPipelineCacheData(vk->device, cache, &n, data) == VK_SUCCESS)
        pipeline_file_write(path, id, data, n, &ignored);
    free(data);
}

void vulkan_pipeline_cache_save(struct vulkan *vk)
{
    struct vulkan_pipeline_cache *c = &vk->cache;
    if (!c->driver || !c->path || vk->is_lost) return;
    const size_t n = size_of(vk, c->driver);
    if (n <= c->n_kept_bytes) return;
    const struct pipeline_id id = id_of(vk);
    struct buf file = {0};
    read_file(c, &id, &file);
    const size_t n_there = file.len > 0 ? file.len - PIPELINE_FILE_HEADER : 0;
    /* Into a cache of its own: what others made is of no use here. */
    VkPipelineCache both = cache_of(vk, &file);
    const bool is_merged =
        both && vkMergePipelineCaches(vk->device, both, 1, &c->driver) == VK_SUCCESS;
    write_file(vk, is_merged ? both : c->driver, &id, n_there);
    if (both) vkDestroyPipelineCache(vk->device, both, NULL);
    c->n_kept_bytes = n;
    buf_free(&file);
}

void vulkan_pipeline_cache_close(struct vulkan *vk)
{
    struct vulkan_pipeline_cache *c = &vk->cache;
    if (c->driver) vkDestroyPipelineCache(vk->device, c->driver, NULL);
    free(c->path);
    *c = (struct vulkan_pipeline_cache){0};
}
