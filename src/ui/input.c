#include "ui/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/printable.h"
#include "base/utf8.h"

bool input_too_long(const char *name, struct err *err)
{
    char shown[256];
    return err_set(err, ERR_USER, "%s: more than %d MiB, longer than any context",
                   printable(shown, sizeof shown, name, strlen(name)), INPUT_MAX_BYTES >> 20);
}

void input_clean(struct buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        bool keep = len > 0 && (cp == '\n' || cp == '\t' ||
                                (cp >= 0x20 && cp != 0x7f && !(cp >= 0x80 && cp < 0xa0)));
        if (keep)
            buf_append(out, s + i, (size_t)len);
        else if (len > 0 && cp == '\r' && !(i + 1 < n && s[i + 1] == '\n'))
            buf_putc(out, '\n');
        i += len > 0 ? (size_t)len : 1;
    }
}

void input_join(struct buf *message, const char *part, size_t n)
{
    n = ascii_without_ends(part, n);
    if (n == 0) return;
    if (message->len > 0) buf_puts(message, "\n\n");
    buf_append(message, part, n);
}

bool input_can_read(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) != O_WRONLY;
}

enum input_got input_read(int fd, struct buf *out)
{
    char bytes[65536];
    ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0) return errno == EINTR || errno == EAGAIN ? INPUT_MORE : INPUT_FAILED;
    if (n == 0) return INPUT_END;
    buf_append(out, bytes, (size_t)n);
    return INPUT_MORE;
}

const char *input_line(const struct buf *raw, size_t *at, bool at_end, size_t *n)
{
    if (*at >= raw->len) return NULL;
    const char *line = raw->data + *at;
    const char *end = memchr(line, '\n', raw->len - *at);
    if (!end && !at_end) return NULL;
    *n = end ? (size_t)(end - line) : raw->len - *at;
    *at += *n + (end ? 1 : 0);
    if (end && *n > 0 && line[*n - 1] == '\r') --*n;
    return line;
}
