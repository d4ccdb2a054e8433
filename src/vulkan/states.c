/* Recurrent states on the device: objects that the engine keeps. A device that was lost says so
 * at the next step. */
#include <stdlib.h>

#include "base/mem.h"
#include "vulkan/impl.h"

static struct vulkan_backend *of(struct backend *be)
{
    return (struct vulkan_backend *)be;
}

void vulkan_state_free(struct backend *be, void *state, size_t state_bytes)
{
    struct vulkan_state *s = state;
    (void)state_bytes;
    of(be)->state_version++;
    vulkan_arena_free(&s->memory);
    free(s);
}

void vulkan_state_write(struct backend *be, void *state, size_t state_bytes, const void *host)
{
    struct vulkan_state *s = state;
    struct err ignored;
    of(be)->state_version++;
    vulkan_write(&of(be)->staging, &s->region, 0, host, state_bytes, &ignored);
}

void *vulkan_state_new(struct backend *be, size_t state_bytes)
{
    struct err ignored;
    struct vulkan_state *s = mem_zalloc(1, sizeof *s);
    s->memory = (struct vulkan_arena){.vk = of(be)->vk, .place = VULKAN_NEAR_DEVICE};
    if (!vulkan_arena_take(&s->memory, state_bytes, &s->region, &ignored)) {
        free(s);
        return NULL;
    }
    void *zeros = mem_zalloc(1, state_bytes);
    vulkan_state_write(be, s, state_bytes, zeros);
    free(zeros);
    return s;
}

void vulkan_state_copy(struct backend *be, void *to, const void *from, size_t state_bytes)
{
    const struct vulkan_state *t = to, *f = from;
    struct err ignored;
    of(be)->state_version++;
    vulkan_copy(&of(be)->staging, &t->region, 0, &f->region, 0, state_bytes, &ignored);
}

void vulkan_state_read(struct backend *be, const void *state, size_t state_bytes, void *host)
{
    const struct vulkan_state *s = state;
    struct err ignored;
    vulkan_read(&of(be)->staging, &s->region, 0, host, state_bytes, &ignored);
}
