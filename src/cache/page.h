/* Pages of the KV cache: PAGE_LEN positions of all attention layers each, shared by counting
 * references, and the table that strings them into a sequence.
 *
 * A pool allocates the pages of one program on one backend, one by one as sequences grow; a
 * page is freed when its last table lets go of it. What lies inside a page is the backend's
 * business. One thread at a time (the engine's). */
#ifndef CACHE_PAGE_H
#define CACHE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct page;
struct page_pool;

/* Pages of page_bytes each from be, which outlives the pool. */
struct page_pool *page_pool_new(struct backend *be, size_t page_bytes);
void page_pool_free(struct page_pool *pool);          /* no page is left; NULL is fine */
size_t page_pool_bytes(const struct page_pool *pool); /* of all pages there are now */

/* The pages of positions 0..64n-1 in order. The owner embeds it; {0} is an empty one. */
struct page_table {
    struct page **pages;
    void **data; /* [n] what a backend reads and writes: the argument of a step */
    size_t n, cap;
};

/* Appends fresh pages until there are n. ERR_MEMORY leaves the table with those it got. */
bool page_table_grow(struct page_table *t, struct page_pool *pool, size_t n, struct err *err);
/* Lets go of all pages but the first n. */
void page_table_trim(struct page_table *t, struct page_pool *pool, size_t n);
void page_table_free(struct page_table *t, struct page_pool *pool);

#endif
