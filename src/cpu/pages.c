/* Slabs of pages, and copies between a page and bytes in one piece. */
#include "cpu/pages.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A page of a model of 0.6B parameters takes 3.7 MB with q8_0: nine are 630 KB in a row for
 * each of two threads and layer. Decode at 8192 less that at 0, with eight 11.7 ms and with
 * nine, though the ninth is a step of its own, 10.4 (Zen 5, 2 threads that read 67 to 84 GB/s,
 * 2026-11). */
static const size_t MOST_BYTES = (size_t)32 << 20;
enum { MOST_BESIDE = 16 };

struct page_slab {
    uint8_t *data;
    size_t page_bytes, unit, n_pages;
    uint32_t used; /* a bit for each page */
    struct page_slab *next;
};

struct cpu_pages {
    pthread_mutex_t lock;    /* of the list and the bits */
    struct page_slab *slabs; /* oldest first */
};

struct cpu_pages *cpu_pages_open(void)
{
    struct cpu_pages *p = mem_zalloc(1, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void cpu_pages_close(struct cpu_pages *p)
{
    if (!p) return;
    assert(!p->slabs);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

size_t cpu_pages_beside(size_t page_bytes, size_t unit)
{
    if (unit == 0 || page_bytes == 0) return 1;
    assert(page_bytes % unit == 0);
    const size_t n = MOST_BYTES / page_bytes;
    if (n < 1) return 1;
    return n < MOST_BESIDE ? n : MOST_BESIDE;
}

/* ---- slabs ---- */

static uint32_t all_used(const struct page_slab *s)
{
    return ((uint32_t)1 << s->n_pages) - 1;
}

/* The page in a slab; unit by unit they lie side by side. */
static uint8_t *page_at(const struct page_slab *s, size_t i)
{
    return s->data + i * s->unit;
}

static struct page_slab *slab_new(size_t page_bytes, size_t unit, size_t n_pages)
{
    uint8_t *data = mem_try_pages(n_pages * page_bytes);
    if (!data) return NULL;
    struct page_slab *s = mem_alloc(sizeof *s);
    *s = (struct page_slab){
        .data = data, .page_bytes = page_bytes, .unit = unit, .n_pages = n_pages};
    return s;
}

/* Where the slab is linked that has the page. */
static struct page_slab **slab_of(struct cpu_pages *p, const uint8_t *page)
{
    struct page_slab **at = &p->slabs;
    while (*at && !(page >= (*at)->data && page < page_at(*at, (*at)->n_pages)))
        at = &(*at)->next;
    assert(*at);
    return at;
}

void *cpu_pages_new(struct cpu_pages *p, size_t page_bytes, size_t unit)
{
    const size_t n_pages = cpu_pages_beside(page_bytes, unit);
    assert(page_bytes > 0);
    if (n_pages == 1) unit = page_bytes;
    pthread_mutex_lock(&p->lock);
    struct page_slab **at = &p->slabs;
    while (*at && ((*at)->page_bytes != page_bytes || (*at)->unit != unit ||
                   (*at)->used == all_used(*at)))
        at = &(*at)->next;
    if (!*at) *at = slab_new(page_bytes, unit, n_pages);
    struct page_slab *s = *at;
    uint8_t *page = NULL;
    if (s) {
        const int i = __builtin_ctz(~s->used);
        s->used |= (uint32_t)1 << i;
        page = page_at(s, (size_t)i);
    }
    pthread_mutex_unlock(&p->lock);
    return page;
}

void cpu_pages_free(struct cpu_pages *p, void *page, size_t page_bytes)
{
    if (!page) return;
    pthread_mutex_lock(&p->lock);
    struct page_slab **at = slab_of(p, page), *s = *at;
    assert(s->page_bytes == page_bytes);
    (void)page_bytes;
    s->used &= ~((uint32_t)1 << (size_t)((uint8_t *)page - s->data) / s->unit);
    if (s->used == 0) {
        *at = s->next;
        mem_free_pages(s->data, s->n_pages * s->page_bytes);
        free(s);
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- bytes ---- */

struct pieces cpu_pages_bytes(struct cpu_pages *p, const void *page)
{
    pthread_mutex_lock(&p->lock);
    const struct page_slab *s = *slab_of(p, page);
    const struct pieces bytes = {page, s->unit, s->unit * s->n_pages};
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

void cpu_pages_read(struct cpu_pages *p, const void *page, size_t page_bytes, void *host)
{
    const struct pieces from = cpu_pages_bytes(p, page);
    pieces_join(&from, host, page_bytes);
}

void cpu_pages_copy(struct cpu_pages *p, void *to, const void *from, size_t page_bytes)
{
    const struct pieces bytes = cpu_pages_bytes(p, from);
    pieces_copy(&bytes, to, cpu_pages_bytes(p, to).apart, page_bytes);
}

void cpu_pages_write(struct cpu_pages *p, void *page, size_t page_bytes, const void *host)
{
    const struct pieces to = cpu_pages_bytes(p, page);
    const struct pieces from = {host, to.n_bytes, to.n_bytes};
    pieces_copy(&from, page, to.apart, page_bytes);
}
