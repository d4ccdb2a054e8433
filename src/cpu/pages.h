/* Where pages of the KV cache lie in the host's memory. Memory gives long runs faster: a thread
 * that reads what its heads have in a page, and then in the next, starts anew at each of them.
 * So pages lie in slabs, side by side: what the first has of a head (a unit), then what the
 * second has of it, and so on for all pages of the slab; then the same of the next head
 * (kv_layer.n_beside). The address of a page is that of its first unit.
 *
 * Two threads that each read half of the heads, q8_0, GB/s: 45 a page at a time, which is 66 KB
 * a thread, 53 of 131 KB, 66 of 530 KB, 72 from end to end (Zen 5, 2026-11). Attention takes
 * 1, 2, 4 or 8 pages in a step (walk_pages in attend_avx2.c): of models with a query per KV
 * head, whose steps are of eight, slabs of fewer gain nothing.
 *
 * A slab is touched as a whole with its first page, for it is of huge pages: so it is no larger
 * than 32 MiB, and pages of more than half of that are on their own. It is given back when none
 * of its pages is left; until then its memory is held, which who counts pages in use does not
 * see.
 *
 * A cpu_pages belongs to a backend. Any thread may call anything but open and close: each takes
 * a lock for a moment. */
#ifndef CPU_PAGES_H
#define CPU_PAGES_H

#include <stddef.h>

#include "base/pieces.h"

struct cpu_pages;

struct cpu_pages *cpu_pages_open(void);
void cpu_pages_close(struct cpu_pages *p); /* no page is left; NULL is fine */

/* How many pages of page_bytes, whole units of unit bytes, lie side by side: at least 1.
 * unit 0: one. */
size_t cpu_pages_beside(size_t page_bytes, size_t unit);

/* A page, not of 0 bytes, uninitialised: the lowest that is free in the oldest slab that has
 * one. NULL: there is no memory. */
void *cpu_pages_new(struct cpu_pages *p, size_t page_bytes, size_t unit);
/* Of a page of this size; NULL is fine. */
void cpu_pages_free(struct cpu_pages *p, void *page, size_t page_bytes);
void cpu_pages_copy(struct cpu_pages *p, void *to, const void *from, size_t page_bytes);
void cpu_pages_read(struct cpu_pages *p, const void *page, size_t page_bytes, void *host);
void cpu_pages_write(struct cpu_pages *p, void *page, size_t page_bytes, const void *host);
/* The bytes of a page, unit by unit. */
struct pieces cpu_pages_bytes(struct cpu_pages *p, const void *page);

#endif
