/* Memory: small allocations that cannot fail, and checked sizes.
 *
 * The mem_* allocators are for bookkeeping (names, lists, trees): when the system has no memory
 * for that, nothing useful can be done, so they print one line and exit with status 1. Weights,
 * KV pages and scratch are large and their absence is the world's fault: those use
 * mem_try_pages, which returns NULL, as do tables that are looked up at random, for its huge
 * pages. Any thread may call. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#if defined __SIZEOF_POINTER__ && __SIZEOF_POINTER__ < 8
#error "hearth maps models of many gigabytes and needs a 64-bit processor"
#endif

/* n bytes, uninitialised; n == 0 gives a pointer that may be freed. Free with free(). */
void *mem_alloc(size_t n_bytes);
/* count elements of size bytes each, zeroed; the product is checked. Free with free(). */
void *mem_zalloc(size_t count, size_t size);
/* realloc of count elements of size bytes; the product is checked. p may be NULL. What is new
 * is uninitialised. */
void *mem_resize(void *p, size_t count, size_t size);
/* p, which another library has made of a few bytes: where it had no memory, as the above. */
void *mem_need(void *p);
/* Has a function called before that line, which a screen would take with it that is left only
 * at the end of the program; NULL: none, as at the start. It may be called on any thread. */
void mem_before_last_line(void (*leave_screen)(void));
/* A NUL-terminated copy of n bytes of s, or of all of it; s is not NULL. Free with free(). */
char *mem_strndup(const char *s, size_t n);
char *mem_strdup(const char *s);

/* a*b in size_t; false if it overflows, *out is then untouched. */
bool mem_mul(size_t a, size_t b, size_t *out);

/* The least multiple of unit that is not less than n; it does not overflow. */
static inline size_t mem_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Of the machine: 4 KiB, on some ARM machines 16 or 64. */
size_t mem_page_bytes(void);
/* At least n_bytes of zeroed memory, aligned to 64 bytes (2 MiB and huge pages when large), or
 * NULL. Free with mem_free_pages and the same n_bytes; NULL is fine there. */
void *mem_try_pages(size_t n_bytes);
void mem_free_pages(void *p, size_t n_bytes);
/* Memory that is about to be filled gets its pages at once instead of one by one as they are
 * touched; nothing happens if it is small, or where the system cannot. Values are kept. */
void mem_touch(void *p, size_t n_bytes);
/* Asks for huge pages under memory that somebody else mapped; nothing happens if it is small.
 */
void mem_want_huge(void *p, size_t n_bytes);

/* Makes room for one more in a list of n elements with capacity *cap: doubles, from 8. */
#define MEM_GROW(list, n, cap)                                  \
    do {                                                        \
        if ((n) == (cap)) {                                     \
            (cap) = (cap) ? (cap)*2 : 8;                        \
            (list) = mem_resize((list), (cap), sizeof *(list)); \
        }                                                       \
    } while (0)

#endif
