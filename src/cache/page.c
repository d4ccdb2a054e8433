/* Pages with two counted references, and the few free ones that a pool keeps. */
#include "cache/page.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/cancel.h"
#include "base/mem.h"

/* A retry frees a page and asks for one; a turn on another branch copies the open page and may
 * begin a second one. Of a model of 0.6B parameters a page takes 7 MiB: copying it into a fresh
 * mapping took 1.2 ms, into one that is there 0.45 (Xeon with AMX, 2026-11); where a virtual
 * machine takes memory from its host at the first touch, 13 ms (Zen 3, 2026-11). */
enum { N_SPARE = 2 };

struct page {
    void *part[PAGE_PARTS];
    atomic_uint n_refs; /* its owner's and its borrowers' */
    struct page *next;  /* of those that only borrowers have */
};

struct page_pool {
    struct backend *be;
    size_t part_bytes[PAGE_PARTS], part_units[PAGE_PARTS];
    size_t bytes;                         /* in use */
    void *spare[PAGE_PARTS][N_SPARE + 1]; /* by address: neighbours are used as neighbours */
    size_t n_spare[PAGE_PARTS];
    struct page *left; /* only borrowers have them, or had: nobody says when they are done */
    void (*on_new)(void *user, enum page_part part, void *data);
    void *on_new_user;
};

struct page_pool *page_pool_new(struct backend *be, const size_t part_bytes[PAGE_PARTS],
                                const size_t part_units[PAGE_PARTS])
{
    struct page_pool *pool = mem_zalloc(1, sizeof *pool);
    pool->be = be;
    for (int i = 0; i < PAGE_PARTS; i++) {
        pool->part_bytes[i] = part_bytes[i];
        pool->part_units[i] = part_units ? part_units[i] : 0;
    }
    return pool;
}

size_t page_pool_bytes(const struct page_pool *pool)
{
    return pool->bytes;
}

bool page_pool_has_windows(const struct page_pool *pool)
{
    return pool->part_bytes[PAGE_WINDOW] > 0;
}

size_t page_pool_page_bytes(const struct page_pool *pool)
{
    return pool->part_bytes[PAGE_FULL] + pool->part_bytes[PAGE_WINDOW];
}

void page_pool_on_new(struct page_pool *pool,
                      void (*fn)(void *user, enum page_part part, void *data), void *user)
{
    pool->on_new = fn;
    pool->on_new_user = user;
}

/* What stands for a part without memory. */
static char nothing;

/* Of more than N_SPARE the highest goes. */
static void keep_data(struct page_pool *pool, enum page_part part, void *data)
{
    if (!pool->be) return;
    void **spare = pool->spare[part];
    size_t i = pool->n_spare[part]++;
    for (; i > 0 && (uintptr_t)spare[i - 1] > (uintptr_t)data; i--)
        spare[i] = spare[i - 1];
    spare[i] = data;
    if (pool->n_spare[part] > N_SPARE)
        backend_page_free(pool->be, spare[--pool->n_spare[part]], pool->part_bytes[part]);
}

/* Takes back the pages that their last borrowers are done with. */
static void take_back(struct page_pool *pool)
{
    for (struct page **at = &pool->left; *at;) {
        struct page *page = *at;
        if (atomic_load(&page->n_refs) > 0) {
            at = &page->next;
            continue;
        }
        *at = page->next;
        keep_data(pool, PAGE_FULL, page->part[PAGE_FULL]);
        free(page);
    }
}

void page_pool_free(struct page_pool *pool)
{
    if (!pool) return;
    take_back(pool);
    assert(pool->bytes == 0 && !pool->left);
    for (int i = 0; i < PAGE_PARTS; i++)
        while (pool->n_spare[i] > 0)
            backend_page_free(pool->be, pool->spare[i][--pool->n_spare[i]],
                              pool->part_bytes[i]);
    free(pool);
}

void page_pool_prepare(struct page_pool *pool, const atomic_bool *stop)
{
    take_back(pool);
    for (int i = 0; i < PAGE_PARTS && pool->be; i++) {
        size_t n_bytes = pool->part_bytes[i];
        if (n_bytes == 0 || pool->n_spare[i] == N_SPARE) continue;
        void *zeros = calloc(1, n_bytes), *data = NULL;
        while (zeros && pool->n_spare[i] < N_SPARE && !cancel_is_set(stop) &&
               (data = backend_page_new(pool->be, n_bytes, pool->part_units[i]))) {
            backend_page_write(pool->be, data, n_bytes, zeros);
            keep_data(pool, i, data);
        }
        free(zeros);
    }
}

/* The lowest. */
static void *take_spare(struct page_pool *pool, enum page_part part)
{
    void **spare = pool->spare[part], *first = spare[0];
    pool->n_spare[part]--;
    for (size_t i = 0; i < pool->n_spare[part]; i++)
        spare[i] = spare[i + 1];
    return first;
}

static void *data_new(struct page_pool *pool, enum page_part part)
{
    if (!pool->be) return &nothing;
    if (pool->n_spare[part] == 0) take_back(pool);
    if (pool->n_spare[part] > 0) return take_spare(pool, part);
    return backend_page_new(pool->be, pool->part_bytes[part], pool->part_units[part]);
}

static bool take_part(struct page_pool *pool, struct page *page, enum page_part part)
{
    size_t n_bytes = pool->part_bytes[part];
    if (n_bytes == 0) return true;
    void *data = data_new(pool, part);
    if (!data) return false;
    page->part[part] = data;
    pool->bytes += n_bytes;
    if (pool->on_new) pool->on_new(pool->on_new_user, part, data);
    return true;
}

static void give_part(struct page_pool *pool, struct page *page, enum page_part part)
{
    void *data = page->part[part];
    if (!data) return;
    page->part[part] = NULL;
    pool->bytes -= pool->part_bytes[part];
    keep_data(pool, part, data);
}

struct page *page_new(struct page_pool *pool)
{
    struct page *page = mem_zalloc(1, sizeof *page);
    atomic_init(&page->n_refs, 1);
    if (take_part(pool, page, PAGE_FULL) && take_part(pool, page, PAGE_WINDOW)) return page;
    page_unref(pool, page);
    return NULL;
}

void page_unref(struct page_pool *pool, struct page *page)
{
    if (!page) return;
    take_back(pool);
    give_part(pool, page, PAGE_WINDOW);
    if (atomic_fetch_sub(&page->n_refs, 1) > 1) {
        pool->bytes -= pool->part_bytes[PAGE_FULL];
        page->next = pool->left;
        pool->left = page;
        return;
    }
    give_part(pool, page, PAGE_FULL);
    free(page);
}

atomic_uint *page_lend(struct page *page)
{
    assert(page->part[PAGE_FULL]);
    atomic_fetch_add(&page->n_refs, 1);
    return &page->n_refs;
}

bool page_is_lent(const struct page *page)
{
    return atomic_load(&page->n_refs) > 1;
}

void page_copy(struct page_pool *pool, struct page *to, const struct page *from)
{
    for (int i = 0; i < PAGE_PARTS && pool->be; i++)
        if (from->part[i])
            backend_page_copy(pool->be, to->part[i], from->part[i], pool->part_bytes[i]);
}

void *page_data(const struct page *page, enum page_part part)
{
    return page->part[part];
}

size_t page_bytes(const struct page_pool *pool, const struct page *page)
{
    size_t n = 0;
    for (int i = 0; i < PAGE_PARTS; i++)
        n += page->part[i] ? pool->part_bytes[i] : 0;
    return n;
}

void page_drop_window(struct page_pool *pool, struct page *page)
{
    give_part(pool, page, PAGE_WINDOW);
}

bool page_renew_window(struct page_pool *pool, struct page *page)
{
    return page->part[PAGE_WINDOW] || take_part(pool, page, PAGE_WINDOW);
}
