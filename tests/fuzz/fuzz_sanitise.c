/* The terminal filter over any bytes in any pieces: what comes out is the same for all pieces,
 * valid UTF-8, and nothing that a terminal would act on. The first byte sets the pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "chat/sanitise.h"
#include "target.h"

static void check(const struct buf *out)
{
    for (size_t i = 0; i < out->len;) {
        uint32_t cp = 0;
        int n = utf8_decode(out->data + i, out->len - i, &cp);
        if (n <= 0) abort();
        bool joins = cp == 0x200c || cp == 0x200d || (cp >= 0xe0020 && cp <= 0xe007f);
        if (cp != '\n' && cp != '\t' && !joins && !printable_char(cp)) abort();
        i += (size_t)n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0) return 0;
    const char *s = (const char *)data + 1;
    size_t n = n_bytes - 1, piece = 1 + data[0] % 7;
    struct buf whole = {0}, parts = {0};
    sanitise_all(s, n, &whole);
    struct sanitiser f = {0};
    for (size_t at = 0; at < n; at += piece)
        sanitise(&f, s + at, piece < n - at ? piece : n - at, &parts);
    sanitise_end(&f, &parts);
    check(&whole);
    if (whole.len != parts.len || (n && memcmp(buf_str(&whole), buf_str(&parts), whole.len)))
        abort();
    buf_free(&whole);
    buf_free(&parts);
    return 0;
}
