#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void reserve(struct buf *b, size_t more)
{
    size_t need = b->len + more + 1;
    if (need <= b->cap) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    b->data = mem_resize(b->data, cap, 1);
    b->cap = cap;
}

void buf_append(struct buf *b, const void *data, size_t n_bytes)
{
    reserve(b, n_bytes);
    if (n_bytes) memcpy(b->data + b->len, data, n_bytes);
    b->len += n_bytes;
    b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
    buf_append(b, &c, 1);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(b, fmt, ap);
    va_end(ap);
}

bool buf_try_resize(struct buf *b, size_t n_bytes)
{
    if (b->cap <= n_bytes) {
        char *data = realloc(b->data, n_bytes + 1);
        if (!data) return false;
        b->data = data;
        b->cap = n_bytes + 1;
    }
    b->len = n_bytes;
    b->data[n_bytes] = '\0';
    return true;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data) b->data[0] = '\0';
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *s = b->data ? b->data : mem_strdup("");
    *b = (struct buf){0};
    return s;
}

void buf_free(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}
