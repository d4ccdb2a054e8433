/* The driver's cache of pipelines: one per open device, shared by the backends on it, and kept
 * on disk from one start to the next (pipeline_file.h).
 *
 * A save adds to the file what is not in it; what others have put there since stays. Two
 * processes that save in the same moment may lose what one of them made: it is made and added
 * again at the next start. The device owns the cache, and closes it before itself. Whoever may
 * use the device may call. Without a cache pipelines are made all the same, so nothing here
 * fails. It knows no shaders. */
#ifndef VULKAN_PIPELINE_CACHE_H
#define VULKAN_PIPELINE_CACHE_H

#include <stddef.h>
#include <vulkan/vulkan.h>

struct vulkan;

struct vulkan_pipeline_cache {
    VkPipelineCache driver; /* VK_NULL_HANDLE: the driver could not make one */
    char *path;             /* of the file; NULL: nothing is kept */
    size_t n_kept_bytes;    /* of the driver's data when it was last read or saved */
};

/* From now on pipelines are made with a cache: that of the first call, which begins with what
 * is kept in dir (NULL: with nothing, and nothing will be kept). */
void vulkan_pipeline_cache_open(struct vulkan *vk, const char *dir);
/* Adds what was made since to the file. A lost device has nothing to add. */
void vulkan_pipeline_cache_save(struct vulkan *vk);
/* Without a save. One that was not opened is fine. */
void vulkan_pipeline_cache_close(struct vulkan *vk);

#endif
