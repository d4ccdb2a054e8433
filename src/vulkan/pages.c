#include "vulkan/pages.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

/* A slab holds at least 1,024 positions (where the device binds so much at once), and half as
 * much as there is, so that a long conversation has few. */
enum { LEAST_PAGES = 16, ALIGN = 256, SLACK = 256 };

size_t vulkan_pages_of_size(const struct vulkan_pages *p, size_t page_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_slabs; i++)
        if (p->slabs[i].page_bytes == page_bytes) n += p->slabs[i].n_pages;
    return n;
}

/* The shaders that read a slab may read a little beyond its last page. */
static bool add_slab(struct vulkan_pages *p, size_t page_bytes, size_t n_pages, struct err *err)
{
    const struct vulkan *vk = p->arena.vk;
    size_t stride = mem_round_up(page_bytes, ALIGN);
    size_t limit = vulkan_storage_limit(vk) < vulkan_view_limit(vk) ? vulkan_storage_limit(vk)
                                                                    : vulkan_view_limit(vk);
    size_t most = (limit - SLACK) / stride;
    if (most == 0)
        return err_set(err, ERR_DEVICE, "%s: a page of %zu MiB is more than it binds",
                       vk->properties.deviceName, page_bytes >> 20);
    struct vulkan_slab s = {.page_bytes = page_bytes, .stride = stride};
    s.n_pages = (uint32_t)(n_pages < most ? n_pages : most);
    if (!vulkan_arena_take(&p->arena, s.n_pages * stride + SLACK, &s.region, err) ||
        !vulkan_arena_view(&p->arena, &s.region, &s.view, err))
        return false;
    s.free = mem_zalloc(s.n_pages, sizeof *s.free);
    for (uint32_t i = 0; i < s.n_pages; i++)
        s.free[i] = s.n_pages - 1 - i;
    s.n_free = s.n_pages;
    s.handles = mem_alloc(s.n_pages);
    MEM_GROW(p->slabs, p->n_slabs, p->cap_slabs);
    p->slabs[p->n_slabs++] = s;
    p->generation++;
    return true;
}

static struct vulkan_slab *slab_with_room(struct vulkan_pages *p, size_t page_bytes)
{
    for (size_t i = 0; i < p->n_slabs; i++)
        if (p->slabs[i].page_bytes == page_bytes && p->slabs[i].n_free > 0) return &p->slabs[i];
    return NULL;
}

void *vulkan_page_new(struct vulkan_pages *p, size_t page_bytes)
{
    struct err ignored;
    struct vulkan_slab *s = slab_with_room(p, page_bytes);
    if (!s) {
        size_t half = vulkan_pages_of_size(p, page_bytes) / 2;
        size_t n = half > LEAST_PAGES ? half : LEAST_PAGES;
        while (n > 0 && !add_slab(p, page_bytes, n, &ignored))
            n /= 2;
        s = slab_with_room(p, page_bytes);
        if (!s) return NULL;
    }
    return s->handles + s->free[--s->n_free];
}

const struct vulkan_slab *vulkan_page_find(const struct vulkan_pages *p, const void *page,
                                           uint32_t *place)
{
    const uintptr_t at = (uintptr_t)page;
    for (size_t i = 0; i < p->n_slabs; i++) {
        const uintptr_t begin = (uintptr_t)p->slabs[i].handles;
        if (at < begin || at - begin >= p->slabs[i].n_pages) continue;
        *place = (uint32_t)(at - begin);
        return &p->slabs[i];
    }
    assert(false); /* every page is of a slab */
    return NULL;
}

void vulkan_page_free(struct vulkan_pages *p, void *page)
{
    uint32_t place;
    struct vulkan_slab *s = (struct vulkan_slab *)vulkan_page_find(p, page, &place);
    s->free[s->n_free++] = place;
}

void vulkan_pages_close(struct vulkan_pages *p)
{
    for (size_t i = 0; i < p->n_slabs; i++) {
        free(p->slabs[i].free);
        free(p->slabs[i].handles);
    }
    free(p->slabs);
    vulkan_arena_free(&p->arena);
    *p = (struct vulkan_pages){0};
}
