#include "cache/page.h"

#include <assert.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/mem.h"

struct page {
    void *data;
    uint32_t n_refs;
};

struct page_pool {
    struct backend *be;
    size_t page_bytes, n_pages;
};

struct page_pool *page_pool_new(struct backend *be, size_t page_bytes)
{
    struct page_pool *pool = mem_zalloc(1, sizeof *pool);
    pool->be = be;
    pool->page_bytes = page_bytes;
    return pool;
}

void page_pool_free(struct page_pool *pool)
{
    if (!pool) return;
    assert(pool->n_pages == 0);
    free(pool);
}

size_t page_pool_bytes(const struct page_pool *pool)
{
    return pool->n_pages * pool->page_bytes;
}

static struct page *page_new(struct page_pool *pool)
{
    void *data = backend_page_new(pool->be, pool->page_bytes);
    if (!data) return NULL;
    struct page *page = mem_alloc(sizeof *page);
    *page = (struct page){.data = data, .n_refs = 1};
    pool->n_pages++;
    return page;
}

static void page_unref(struct page_pool *pool, struct page *page)
{
    assert(page->n_refs > 0);
    if (--page->n_refs > 0) return;
    backend_page_free(pool->be, page->data, pool->page_bytes);
    free(page);
    pool->n_pages--;
}

static void table_reserve(struct page_table *t, size_t n)
{
    if (n <= t->cap) return;
    t->cap = n > 2 * t->cap ? n : 2 * t->cap;
    t->pages = mem_resize(t->pages, t->cap, sizeof *t->pages);
    t->data = mem_resize(t->data, t->cap, sizeof *t->data);
}

bool page_table_grow(struct page_table *t, struct page_pool *pool, size_t n, struct err *err)
{
    table_reserve(t, n);
    for (; t->n < n; t->n++) {
        struct page *page = page_new(pool);
        if (!page)
            return err_set(err, ERR_MEMORY,
                           "no memory for %zu more bytes of KV cache (it has %zu)",
                           pool->page_bytes, page_pool_bytes(pool));
        t->pages[t->n] = page;
        t->data[t->n] = page->data;
    }
    return true;
}

void page_table_trim(struct page_table *t, struct page_pool *pool, size_t n)
{
    while (t->n > n)
        page_unref(pool, t->pages[--t->n]);
}

void page_table_free(struct page_table *t, struct page_pool *pool)
{
    page_table_trim(t, pool, 0);
    free(t->pages);
    free(t->data);
    *t = (struct page_table){0};
}
