/* Characters of UTF-8, one at a time. */
#include "text/scan.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"

/* SCAN_END and 0 at the end. */
static uint32_t decode(const struct scan *in, size_t *len)
{
    uint32_t cp;
    *len = 0;
    if (in->at == in->len) return SCAN_END;
    const int n = utf8_decode(in->s + in->at, in->len - in->at, &cp);
    assert(n > 0);
    *len = (size_t)n;
    return cp;
}

uint32_t scan_peek(const struct scan *in)
{
    size_t len;
    return decode(in, &len);
}

uint32_t scan_take(struct scan *in)
{
    size_t len;
    const uint32_t cp = decode(in, &len);
    in->at += len;
    return cp;
}

bool scan_is_next(const struct scan *in, const char *s)
{
    const size_t n = strlen(s);
    return in->len - in->at >= n && memcmp(in->s + in->at, s, n) == 0;
}

bool scan_skip(struct scan *in, const char *s)
{
    const bool found = scan_is_next(in, s);
    if (found) in->at += strlen(s);
    return found;
}

int scan_digit(uint32_t c)
{
    if (c >= '0' && c <= '9') return (int)(c - '0');
    if (c >= 'a' && c <= 'f') return (int)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') return (int)(c - 'A') + 10;
    return -1;
}

uint32_t scan_hex(struct scan *in, int n)
{
    uint32_t value = 0;
    for (int i = 0; i < n; i++) {
        const int digit = scan_digit(scan_peek(in));
        if (digit < 0) return SCAN_END;
        in->at++;
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

uint32_t scan_number(struct scan *in, uint32_t most)
{
    uint32_t n = SCAN_END, c;
    for (; (c = scan_peek(in)) >= '0' && c <= '9'; in->at++) {
        if (n == SCAN_END) n = 0;
        if (n <= most) n = 10 * n + (c - '0');
    }
    return n;
}
