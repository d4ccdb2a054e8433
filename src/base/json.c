#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/printable.h"
#include "base/utf8.h"

static void escape(struct buf *out, uint32_t cp)
{
    if (cp >= 0x10000)
        buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (cp >> 10), 0xdc00 + (cp & 0x3ff));
    else
        buf_printf(out, "\\u%04x", cp);
}

void json_quote(struct buf *out, const char *s, size_t n)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0)
            buf_puts(out, "\\ufffd");
        else if (cp == '"' || cp == '\\')
            buf_printf(out, "\\%c", (char)cp);
        else if (cp == '\n')
            buf_puts(out, "\\n");
        else if (cp == '\t')
            buf_puts(out, "\\t");
        else if (!printable_char(cp))
            escape(out, cp);
        else
            buf_append(out, s + i, (size_t)len);
        i += len > 0 ? (size_t)len : utf8_bad_len(s + i, n - i);
    }
    buf_putc(out, '"');
}

void json_begin(void)
{
    json_set_alloc_funcs(mem_alloc, free);
}
