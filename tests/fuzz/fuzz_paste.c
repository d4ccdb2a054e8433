/* A bracketed paste of any bytes in any pieces: what is kept are the bytes before the mark, as
 * many as may be, and what stands behind it is left alone. The first two bytes set the pieces
 * and the limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "ui/input.h"
#include "ui/paste.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static const char mark[] = "\033[201~";
enum { MARK_BYTES = sizeof mark - 1 };

static void must(bool ok)
{
    if (!ok) abort();
}

/* Takes it in pieces; returns how many bytes belong to the paste, its mark among them. */
static size_t take(struct paste *p, const char *s, size_t n, size_t piece)
{
    size_t at = 0;
    while (at < n && !p->is_over) {
        const size_t some = piece < n - at ? piece : n - at, used = paste_take(p, s + at, some);
        must(used == some || (used < some && p->is_over));
        at += used;
    }
    if (!p->is_over) paste_end(p);
    return at;
}

static void check(const char *s, size_t n, size_t piece, size_t max)
{
    struct paste p = {.max = max};
    const char *end = n > 0 ? memmem(s, n, mark, MARK_BYTES) : NULL;
    const size_t len = end ? (size_t)(end - s) : n;
    const size_t used = take(&p, s, n, piece);
    must(p.is_over == (end != NULL) && used == (end ? len + MARK_BYTES : n));
    must(p.is_cut == (len > max) && p.text.len == (len < max ? len : max));
    must(memcmp(buf_str(&p.text), s, p.text.len) == 0);
    paste_free(&p);
}

/* What the line gets of it moves no cursor. */
static void check_clean(const char *s, size_t n)
{
    struct paste p = {.max = n};
    struct buf text = {0}, clean = {0};
    take(&p, s, n, n);
    utf8_repair(&text, buf_str(&p.text), p.text.len);
    input_clean(&clean, buf_str(&text), text.len);
    must(!memchr(buf_str(&clean), '\033', clean.len));
    paste_free(&p);
    buf_free(&text);
    buf_free(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) return 0;
    const char *s = (const char *)data + 2;
    const size_t n = n_bytes - 2;
    check(s, n, 1 + data[0] % 9, data[1]);
    check(s, n, 1 + data[0] % 9, n);
    check(s, n, n + 1, n);
    check_clean(s, n);
    return 0;
}
