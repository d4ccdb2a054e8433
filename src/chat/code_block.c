/* A walk over lines: a fence opens a block, the next that can close it does (CommonMark 4.5).
 */
#include "chat/code_block.h"

#include <string.h>

/* A line of three or more backticks or tildes behind blanks. */
struct fence {
    size_t indent, n; /* n 0: it is none */
    char mark;
    bool can_open, can_close;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The line is s[0..n), without its line break. */
static struct fence fence_of(const char *s, size_t n)
{
    struct fence f = {0};
    size_t i = 0;
    while (i < n && is_blank(s[i]))
        i++;
    f.indent = i;
    if (i == n || (s[i] != '`' && s[i] != '~')) return f;
    for (f.mark = s[i]; i < n && s[i] == f.mark; i++)
        f.n++;
    if (f.n < 3) return (struct fence){0};
    /* Behind backticks another one makes it inline code; an end has nothing behind it. */
    f.can_open = f.mark == '~' || !memchr(s + i, '`', n - i);
    while (i < n && is_blank(s[i]))
        i++;
    f.can_close = i == n;
    return f;
}

/* A line of code, less the blanks that its fence has before it, too. */
static void put_line(const char *s, size_t n, size_t indent, struct buf *out)
{
    size_t i = 0;
    while (i < indent && i < n && is_blank(s[i]))
        i++;
    buf_append(out, s + i, n - i);
}

bool code_block_last(const char *text, size_t n, struct buf *out)
{
    const size_t start = out->len;
    struct fence open = {0};
    bool found = false;
    for (size_t at = 0, len; at < n; at += len) {
        const char *s = text + at, *end = memchr(s, '\n', n - at);
        len = end ? (size_t)(end - s) + 1 : n - at;
        const struct fence f = fence_of(s, end ? len - 1 : len);
        if (open.n == 0 && f.n > 0 && f.can_open) {
            open = f;
            found = true;
            if (out->len > start) out->data[out->len = start] = '\0';
        } else if (open.n > 0 && f.mark == open.mark && f.n >= open.n && f.can_close) {
            open.n = 0;
        } else if (open.n > 0) {
            put_line(s, len, open.indent, out);
        }
    }
    return found;
}
