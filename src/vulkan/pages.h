/* Pages of the KV cache in device memory: slabs that grow as the conversation does.
 *
 * A slab is one buffer of pages of one size; slabs are never given back before closing, freed
 * pages are handed out again. A page is named by an opaque pointer. Whoever keeps something
 * that depends on the slabs compares `generation`. One thread at a time; it knows bytes, no
 * layers. */
#ifndef VULKAN_PAGES_H
#define VULKAN_PAGES_H

#include "vulkan/memory.h"

struct vulkan_slab {
    struct vulkan_region region;
    VkBufferView view;
    size_t page_bytes; /* as asked for */
    size_t stride;     /* bytes from page to page */
    uint32_t n_pages;
    uint32_t *free, n_free; /* places */
    uint8_t *handles;       /* that of place i is handles + i */
};

struct vulkan_pages {
    struct vulkan_arena arena;
    struct vulkan_slab *slabs;
    size_t n_slabs, cap_slabs;
    uint64_t generation; /* changes when a slab is added */
};

/* NULL: there is no memory. */
void *vulkan_page_new(struct vulkan_pages *p, size_t page_bytes);
void vulkan_page_free(struct vulkan_pages *p, void *page);
/* The slab of a page and its place in it. */
const struct vulkan_slab *vulkan_page_find(const struct vulkan_pages *p, const void *page,
                                           uint32_t *place);
/* Pages of that size in all slabs, free ones included. */
size_t vulkan_pages_of_size(const struct vulkan_pages *p, size_t page_bytes);
void vulkan_pages_close(struct vulkan_pages *p);

#endif
