#include "ui/clipboard.h"

#include <stdint.h>

static void base64(const char *text, size_t n, struct buf *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *in = (const uint8_t *)text;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        uint32_t x = (uint32_t)in[i] << 16;
        if (left > 1) x |= (uint32_t)in[i + 1] << 8;
        if (left > 2) x |= in[i + 2];
        buf_putc(out, digits[x >> 18]);
        buf_putc(out, digits[x >> 12 & 63]);
        buf_putc(out, left > 1 ? digits[x >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? digits[x & 63] : '=');
    }
}

void clipboard_sequence(const char *text, size_t n, struct buf *out)
{
    buf_puts(out, "\033]52;c;");
    base64(text, n, out);
    buf_puts(out, "\033\\");
}
