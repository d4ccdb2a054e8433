#include "template/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Chunks grow from the first size to the second, so that a small pool stays small. */
#define CHUNK_MIN ((size_t)8 << 10)
#define CHUNK_MAX ((size_t)1 << 20)

struct work_chunk {
    struct work_chunk *next;
    _Alignas(16) char data[];
};

void work_init(struct work *w)
{
    memset(w, 0, sizeof *w);
    w->max_bytes = SIZE_MAX;
    w->max_string_bytes = SIZE_MAX;
    w->fuel = UINT64_MAX;
    w->max_depth = UINT32_MAX;
    w->fail_code = ERR_FORMAT;
    w->line = 1;
}

void work_free(struct work *w)
{
    while (w->chunks) {
        struct work_chunk *next = w->chunks->next;
        free(w->chunks);
        w->chunks = next;
    }
    w->at = w->end = w->bytes_at = w->bytes_end = NULL;
}

/* Memory for at least n bytes, rather n + slack; *size is how many there are. */
static char *new_chunk(struct work *w, size_t n, size_t slack, size_t *size)
{
    size_t want = w->used_bytes < CHUNK_MIN ? CHUNK_MIN : w->used_bytes;
    if (want > CHUNK_MAX) want = CHUNK_MAX;
    if (want < n + slack) want = n + slack;
    if (want > w->max_bytes - w->used_bytes) {
        want = n;
        if (want > w->max_bytes - w->used_bytes)
            work_fail(w, "more than %zu MiB of memory is needed", w->max_bytes >> 20);
    }
    struct work_chunk *chunk = mem_alloc(sizeof *chunk + want);
    chunk->next = w->chunks;
    w->chunks = chunk;
    w->used_bytes += want;
    *size = want;
    return chunk->data;
}

void *work_alloc(struct work *w, size_t n)
{
    if (n > SIZE_MAX / 2) work_fail(w, "more memory than there is would be needed");
    n = n > 0 ? (n + 15) & ~(size_t)15 : 16; /* also of nothing: NULL + 0 is undefined */
    if ((size_t)(w->end - w->at) < n) {
        size_t size;
        char *data = new_chunk(w, n, 0, &size);
        if (size == n && n > CHUNK_MIN) return data; /* a chunk of its own */
        w->at = data;
        w->end = data + size;
    }
    char *p = w->at;
    w->at += n;
    return p;
}

void *work_zalloc(struct work *w, size_t count, size_t size)
{
    size_t n;
    if (!mem_mul(count, size, &n)) n = SIZE_MAX;
    void *p = work_alloc(w, n);
    memset(p, 0, n);
    return p;
}

void *work_grow(struct work *w, const void *old, size_t n_old, size_t n_new, size_t size)
{
    size_t n;
    if (!mem_mul(n_new, size, &n)) n = SIZE_MAX;
    void *p = work_alloc(w, n);
    if (n_old) memcpy(p, old, n_old * size);
    return p;
}

char *work_bytes(struct work *w, size_t n)
{
    if (n > w->max_string_bytes)
        work_fail(w, "a string of more than %zu bytes", w->max_string_bytes);
    if ((size_t)(w->bytes_end - w->bytes_at) < n || !w->bytes_at) {
        size_t size;
        w->bytes_at = new_chunk(w, n, n / 2, &size); /* a long string is often appended to */
        w->bytes_end = w->bytes_at + size;
    }
    char *p = w->bytes_at;
    w->bytes_at += n;
    return p;
}

bool work_bytes_extend(struct work *w, const char *end, size_t n)
{
    if (end != w->bytes_at || (size_t)(w->bytes_end - w->bytes_at) < n || !end) return false;
    w->bytes_at += n;
    return true;
}

void work_bytes_return(struct work *w, char *from, const char *end)
{
    if (end == w->bytes_at) w->bytes_at = from;
}

_Noreturn void work_fail(struct work *w, const char *fmt, ...)
{
    char reason[sizeof w->err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    err_set(w->err, w->fail_code, "%s: line %u: %s", w->name, w->line, reason);
    longjmp(w->out, 1);
}

_Noreturn void work_fail_fuel(struct work *w)
{
    work_fail(w, "the template takes too many steps");
}

_Noreturn void work_fail_depth(struct work *w)
{
    work_fail(w, "nested too deeply (more than %u levels)", w->max_depth);
}
