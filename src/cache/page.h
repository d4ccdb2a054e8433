/* Pages of the KV cache: PAGE_LEN positions of all attention layers, shared by counting
 * references.
 *
 * A page has two parts, allocated apart: the layers that see everything before them, and those
 * that see a window only, whose part may be dropped once the window has passed. What lies
 * inside is the backend's business. A pool allocates the pages of one program on one backend; a
 * page is freed when the last reference goes. The pool keeps a few freed pages for the next one
 * who asks. One thread at a time (the engine's), but for who has borrowed a page: that may read
 * its full part and give it back on any thread. It knows no tokens. */
#ifndef CACHE_PAGE_H
#define CACHE_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "backend/ops.h"

struct backend;
struct page;
struct page_pool;

/* Parts of part_bytes and part_units each, as a program has them (0 bytes: there is no such
 * part; units NULL: 0), from be, which outlives the pool. NULL: pages without memory, which are
 * counted like others, for planning without a model. */
struct page_pool *page_pool_new(struct backend *be, const size_t part_bytes[PAGE_PARTS],
                                const size_t part_units[PAGE_PARTS]);
void page_pool_free(struct page_pool *pool); /* no page is in use or lent; NULL is fine */
/* Bytes of all pages in use; those kept for later, or for a borrower alone, are not counted. */
size_t page_pool_bytes(const struct page_pool *pool);
bool page_pool_has_windows(const struct page_pool *pool);
/* What a page with all its parts takes. */
size_t page_pool_page_bytes(const struct page_pool *pool);

/* Makes the pages that it keeps for later, in memory that is there, as far as there is any: for
 * a time when nobody waits, so that the next turn does not wait for fresh memory. Begins none
 * once *stop (may be NULL) is true. */
void page_pool_prepare(struct page_pool *pool, const atomic_bool *stop);

/* Called with every part that is handed out, for tests that fill it. NULL: none. */
void page_pool_on_new(struct page_pool *pool,
                      void (*fn)(void *user, enum page_part part, void *data), void *user);

/* A page with all its parts, contents undefined, one reference; NULL without memory. */
struct page *page_new(struct page_pool *pool);
void page_unref(struct page_pool *pool, struct page *page);
/* Lends the full part: who borrows it reads it until they count the result down by one. Until
 * then nobody may write to it, and it stays where it is though its owner lets go. */
atomic_uint *page_lend(struct page *page);
bool page_is_lent(const struct page *page);
/* Copies all parts that from has; to has them too. */
void page_copy(struct page_pool *pool, struct page *to, const struct page *from);

/* What a backend reads and writes; NULL if the part is absent. */
void *page_data(const struct page *page, enum page_part part);
size_t page_bytes(const struct page_pool *pool, const struct page *page);

void page_drop_window(struct page_pool *pool, struct page *page);
/* The windowed part again, contents undefined; false without memory. */
bool page_renew_window(struct page_pool *pool, struct page *page);

#endif
