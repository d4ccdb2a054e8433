/* The mark is looked for byte by byte, but only behind an escape, which no other byte of it is.
 */
#include "ui/paste.h"

#include <string.h>

static const char mark[] = "\033[201~";
enum { MARK_BYTES = sizeof mark - 1 };

static void keep(struct paste *p, const char *s, size_t n)
{
    const size_t room = p->max - p->text.len;
    p->is_cut |= n > room;
    buf_append(&p->text, s, n < room ? n : room);
}

void paste_end(struct paste *p)
{
    keep(p, mark, p->n_mark);
    p->n_mark = 0;
}

size_t paste_take(struct paste *p, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        if (p->n_mark == 0) {
            const char *escape = memchr(s + i, mark[0], n - i);
            const size_t len = escape ? (size_t)(escape - (s + i)) : n - i;
            keep(p, s + i, len);
            i += len;
            if (!escape) break;
        }
        if (s[i] != mark[p->n_mark]) {
            paste_end(p); /* of what only began like one */
            continue;
        }
        i++;
        if (++p->n_mark < MARK_BYTES) continue;
        p->n_mark = 0;
        p->is_over = true;
        return i;
    }
    return n;
}

void paste_free(struct paste *p)
{
    buf_free(&p->text);
}
