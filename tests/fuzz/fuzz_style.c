/* Markdown of any bytes in any pieces: every byte comes out once, in order, with the look that
 * it has in one piece. The first byte sets the pieces. */
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "ui/style.h"

struct seen {
    struct buf text, looks;
};

static void see(void *user, const char *s, size_t n, unsigned look)
{
    struct seen *seen = user;
    if (n == 0) abort();
    buf_append(&seen->text, s, n);
    for (size_t i = 0; i < n; i++)
        buf_append(&seen->looks, &look, sizeof look);
}

static void run(struct seen *seen, const char *s, size_t n, size_t piece)
{
    struct styler st = {0};
    for (size_t at = 0; at < n; at += piece)
        style_text(&st, s + at, piece < n - at ? piece : n - at, see, seen);
    style_end(&st, see, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 2) return 0;
    const char *s = (const char *)data + 1;
    size_t n = n_bytes - 1;
    struct seen whole = {0}, parts = {0};
    run(&whole, s, n, n);
    run(&parts, s, n, 1 + data[0] % 200);
    if (whole.text.len != n || memcmp(whole.text.data, s, n) != 0) abort();
    if (parts.text.len != n || memcmp(parts.text.data, s, n) != 0) abort();
    if (memcmp(whole.looks.data, parts.looks.data, whole.looks.len) != 0) abort();
    buf_free(&whole.text);
    buf_free(&whole.looks);
    buf_free(&parts.text);
    buf_free(&parts.looks);
    return 0;
}
