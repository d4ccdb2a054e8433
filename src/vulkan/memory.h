/* Device memory: regions of buffers, handed out by arenas, and the ways in and out of them.
 *
 * An arena owns blocks of memory, each one buffer, and the texel views of its regions; all are
 * given back together. Where the host sees the device's memory (integrated and software
 * devices) it is read and written in place; elsewhere everything passes through one bounded
 * staging buffer. One thread at a time; the device must be idle when the host reads or writes.
 * It knows bytes, no ops. */
#ifndef VULKAN_MEMORY_H
#define VULKAN_MEMORY_H

#include "vulkan/device.h"

enum vulkan_place {
    VULKAN_NEAR_DEVICE,
    VULKAN_NEAR_HOST, /* always seen by the host */
    VULKAN_WRITTEN,   /* too, but to read from it is slow */
};

struct vulkan_region {
    VkBuffer buffer;
    size_t at, n_bytes; /* within the buffer; at is a multiple of 256 */
    uint8_t *data;      /* NULL: the host does not see it */
};

struct vulkan_arena {
    struct vulkan *vk;
    enum vulkan_place place;
    size_t block_bytes; /* of blocks that hold several regions; 0: each region has its own */
    /* Bytes of regions that are to come, if that is known: blocks are an eighth of them then,
     * up to large_bytes, and none is much more than is left. 0: not known. */
    uint64_t expected;
    size_t large_bytes;
    struct vulkan_block *blocks;
    VkBufferView *views;
    size_t n_views, cap_views;
};

/* n_bytes > 0, uninitialised. ERR_MEMORY: there is none. */
bool vulkan_arena_take(struct vulkan_arena *a, size_t n_bytes, struct vulkan_region *out,
                       struct err *err);
/* The region as texels of four 32-bit words; ERR_DEVICE: it is larger than the device binds. */
bool vulkan_arena_view(struct vulkan_arena *a, const struct vulkan_region *r, VkBufferView *out,
                       struct err *err);
void vulkan_arena_free(struct vulkan_arena *a); /* a zeroed one is fine */
/* The most bytes that a shader reads through one view, which is of one allocation, or writes
 * through one storage buffer. */
size_t vulkan_view_limit(const struct vulkan *vk);
size_t vulkan_storage_limit(const struct vulkan *vk);
/* Of a matrix: it has a view, and a wide device binds it as storage, too. */
size_t vulkan_matrix_limit(const struct vulkan *vk);

/* The staging buffer: two halves, so that the host fills one while the device copies the other.
 */
struct vulkan_staging {
    struct vulkan *vk;
    struct vulkan_arena arena;
    struct vulkan_region half[2];
    VkCommandBuffer commands[2];
    VkFence fence[2];
    bool busy[2];
    int next;
};

bool vulkan_staging_open(struct vulkan_staging *s, struct vulkan *vk, struct err *err);
void vulkan_staging_close(struct vulkan_staging *s); /* a zeroed one is fine */
/* The most bytes of one fill. */
enum { VULKAN_STAGING_BYTES = 16 << 20 };
/* Where the host may write n_bytes that belong at r[at..]: the region itself or a half of the
 * staging buffer. vulkan_fill_end sends them; the device has them after vulkan_fill_wait. NULL
 * and false: the device is lost (ERR_DEVICE). */
void *vulkan_fill_begin(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                        size_t n_bytes, struct err *err);
bool vulkan_fill_end(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                     size_t n_bytes, struct err *err);
bool vulkan_fill_wait(struct vulkan_staging *s, struct err *err);

/* n_bytes of the host to r[at..], and r[at..] to the host: as many as one likes, and done when
 * it returns. */
bool vulkan_write(struct vulkan_staging *s, const struct vulkan_region *r, size_t at,
                  const void *data, size_t n_bytes, struct err *err);
bool vulkan_read(struct vulkan_staging *s, const struct vulkan_region *r, size_t at, void *data,
                 size_t n_bytes, struct err *err);
/* n_bytes from region to region, which do not overlap; likewise. */
bool vulkan_copy(struct vulkan_staging *s, const struct vulkan_region *to, size_t to_at,
                 const struct vulkan_region *from, size_t from_at, size_t n_bytes,
                 struct err *err);

#endif
