/* Parts of one piece of memory, each aligned to 64 bytes: laid out once without memory, which
 * counts, and once with it. Whoever has the memory owns it. */
#ifndef CPU_CARVE_H
#define CPU_CARVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct carver {
    uint8_t *base; /* aligned to 64; NULL: parts are only counted */
    size_t used;   /* bytes of the parts so far */
};

/* The next part, of n_bytes; NULL where they are only counted. */
static inline void *carve(struct carver *c, size_t n_bytes)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += mem_round_up(n_bytes, 64);
    return p;
}

#endif
