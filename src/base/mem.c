#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void (*_Atomic before_last_line)(void);

void mem_before_last_line(void (*leave_screen)(void))
{
    atomic_store(&before_last_line, leave_screen);
}

static void *or_exit(void *p, size_t n_bytes)
{
    if (!p) {
        void (*leave_screen)(void) = atomic_load(&before_last_line);
        if (leave_screen) leave_screen();
        if (n_bytes)
            fprintf(stderr, "hearth: out of memory (%zu bytes wanted)\n", n_bytes);
        else
            fputs("hearth: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

void *mem_alloc(size_t n_bytes)
{
    return or_exit(malloc(n_bytes ? n_bytes : 1), n_bytes);
}

void *mem_zalloc(size_t count, size_t size)
{
    size_t n_bytes;
    if (!mem_mul(count, size, &n_bytes)) return or_exit(NULL, (size_t)-1);
    return or_exit(calloc(n_bytes ? n_bytes : 1, 1), n_bytes);
}

void *mem_resize(void *p, size_t count, size_t size)
{
    size_t n_bytes;
    if (!mem_mul(count, size, &n_bytes)) return or_exit(NULL, (size_t)-1);
    return or_exit(realloc(p, n_bytes ? n_bytes : 1), n_bytes);
}

void *mem_need(void *p)
{
    return or_exit(p, 0);
}

char *mem_strndup(const char *s, size_t n)
{
    char *copy = mem_alloc(n + 1);
    if (n) memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

bool mem_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

size_t mem_page_bytes(void)
{
    return (size_t)getpagesize();
}

/* From this size on a huge page saves more TLB misses than it wastes memory. */
#define HUGE_BYTES ((size_t)2 << 20)

/* What does not fill a huge page at the end lies in small ones: KV pages of a few megabytes
 * would else waste up to half. */
static size_t mapped_bytes(size_t n_bytes)
{
    return mem_round_up(n_bytes, mem_page_bytes());
}

void *mem_try_pages(size_t n_bytes)
{
    size_t n = mapped_bytes(n_bytes ? n_bytes : 1);
    if (n < n_bytes || n > SIZE_MAX - HUGE_BYTES) return NULL;
    if (n < HUGE_BYTES) {
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    /* Map one huge page more, then cut both ends so that what stays is aligned. */
    char *p =
        mmap(NULL, n + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t head = (HUGE_BYTES - (size_t)p % HUGE_BYTES) % HUGE_BYTES;
    if (head) munmap(p, head);
    munmap(p + head + n, HUGE_BYTES - head);
    madvise(p + head, n, MADV_HUGEPAGE);
    return p + head;
}

/* A few pages are not worth the call: ms to touch 10 MB page by page and so, 32 and 1.4 (a
 * guest whose page tables its host keeps, 2026-11). */
enum { TOUCH_LEAST_BYTES = 256 << 10 };

void mem_touch(void *p, size_t n_bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (n_bytes < TOUCH_LEAST_BYTES) return;
    const uintptr_t page = mem_page_bytes(), from = (uintptr_t)p / page * page;
    const uintptr_t to = mem_round_up((uintptr_t)p + n_bytes, page);
    madvise((void *)from, to - from, MADV_POPULATE_WRITE);
#else
    (void)p;
    (void)n_bytes;
#endif
}

void mem_want_huge(void *p, size_t n_bytes)
{
    uintptr_t from = mem_round_up((uintptr_t)p, HUGE_BYTES);
    uintptr_t to = ((uintptr_t)p + n_bytes) / HUGE_BYTES * HUGE_BYTES;
    if (from < to) madvise((void *)from, to - from, MADV_HUGEPAGE);
}

void mem_free_pages(void *p, size_t n_bytes)
{
    if (p) munmap(p, mapped_bytes(n_bytes ? n_bytes : 1));
}
