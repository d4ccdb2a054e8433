/* A growing string of bytes.
 *
 * The owner embeds it, zero-initialised ({0} is an empty one), and frees it with buf_free. data
 * is NUL-terminated whenever it is not NULL; bytes may hold NULs. Growing never fails (mem.h),
 * but where it is said.
 * What is appended is copied and may not lie in the buffer itself. Not shared between threads;
 * knows no encoding. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t len, cap;
};

/* Each appends. data may be NULL if n_bytes is 0; s and fmt may not. */
void buf_append(struct buf *b, const void *data, size_t n_bytes);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* Gives it n_bytes, of which those that are new hold anything, where much may be asked for:
 * false, and it stays as it is, if there is no memory. */
bool buf_try_resize(struct buf *b, size_t n_bytes);
/* Empties it but keeps the memory. */
void buf_clear(struct buf *b);
/* The string, "" when nothing was ever added; lives until the next call on b. */
const char *buf_str(const struct buf *b);
/* Hands the string over (free() it) and leaves b empty. Never NULL. */
char *buf_take(struct buf *b);
/* Leaves it empty, fit to be used again. */
void buf_free(struct buf *b);

#endif
