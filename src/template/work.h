/* What one parse, one rendering or one pool of values lives on: memory, steps, depth, and one
 * way out.
 *
 * Everything below the public functions of this floor allocates here and never frees; the owner
 * frees all of it at once. When a limit is exceeded or a template is wrong, work_fail writes
 * the error and jumps back to the public function that armed `out`, so that the interpreter
 * reads without an error path after every call. A pool has no limits and is never failed. Not
 * shared between threads. */
#ifndef TEMPLATE_WORK_H
#define TEMPLATE_WORK_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct work_chunk;

struct work {
    struct work_chunk *chunks;  /* all memory, newest first */
    char *at, *end;             /* free part of the current chunk of objects */
    char *bytes_at, *bytes_end; /* the same for the bytes of strings */
    size_t used_bytes;          /* in chunks */
    size_t max_bytes;           /* SIZE_MAX: no limit */
    size_t max_string_bytes;    /* of any one string */
    uint64_t fuel;              /* steps left */
    unsigned depth, max_depth;  /* of the recursion under way */
    const char *name;           /* what errors call the template; borrowed */
    unsigned line;              /* where we are */
    enum err_code fail_code;    /* of work_fail */
    struct err *err;
    jmp_buf out;
};

/* No limits, no name; the caller sets what it needs. */
void work_init(struct work *w);
/* Frees all memory. */
void work_free(struct work *w);

/* n uninitialised bytes, aligned for any object. Never NULL. */
void *work_alloc(struct work *w, size_t n_bytes);
void *work_zalloc(struct work *w, size_t count, size_t size);
/* A copy of n_old objects of that size in room for n_new. */
void *work_grow(struct work *w, const void *old, size_t n_old, size_t n_new, size_t size);

/* Room for n bytes of a string, unaligned. */
char *work_bytes(struct work *w, size_t n_bytes);
/* Whether n more bytes directly after end (the end of a string) could be had without copying:
 * then they are taken. This makes appending to the newest string linear. */
bool work_bytes_extend(struct work *w, const char *end, size_t n_bytes);
/* Gives back the bytes from `from` to `end` if nothing was taken after them. */
void work_bytes_return(struct work *w, char *from, const char *end);

/* Sets "NAME: line N: message" and jumps out. */
_Noreturn void work_fail(struct work *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void work_fail_fuel(struct work *w);
_Noreturn void work_fail_depth(struct work *w);

/* Pays for n steps. */
static inline void work_burn(struct work *w, uint64_t n)
{
    if (w->fuel < n) work_fail_fuel(w);
    w->fuel -= n;
}

/* Pays for looking through n bytes: the slowest ways (characters beyond ASCII, hostile needles)
 * take about 4 ns a byte, a step of the evaluator about 50. */
static inline void work_burn_bytes(struct work *w, size_t n_bytes)
{
    work_burn(w, n_bytes / 16 + 1);
}

/* Pays for comparing or hashing n bytes. */
static inline void work_burn_compare(struct work *w, size_t n_bytes)
{
    work_burn(w, n_bytes / 256);
}

/* Pays for asking what the characters in n bytes are, about 25 ns each. */
static inline void work_burn_lookups(struct work *w, size_t n_bytes)
{
    work_burn(w, n_bytes / 2 + 1);
}

/* Around every recursion that the template or its values can drive. */
static inline void work_enter(struct work *w)
{
    if (++w->depth > w->max_depth) work_fail_depth(w);
}

static inline void work_leave(struct work *w)
{
    w->depth--;
}

#endif
