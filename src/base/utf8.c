#include "base/utf8.h"

#include <string.h>

#include <utf8proc.h>

#include "base/buf.h"

/* Length of the sequence a lead byte announces, 0 if it cannot lead, and the range its second
 * byte must lie in (which excludes overlong forms, surrogates and values beyond U+10FFFF). */
static int lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80, *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0;
    if (c < 0xe0) return 2;
    if (c < 0xf0) {
        if (c == 0xe0) *lo = 0xa0;
        if (c == 0xed) *hi = 0x9f;
        return 3;
    }
    if (c < 0xf5) {
        if (c == 0xf0) *lo = 0x90;
        if (c == 0xf4) *hi = 0x8f;
        return 4;
    }
    return 0;
}

/* How many of the announced bytes are there and well-formed. */
static int well_formed(const char *s, size_t n, int len, uint8_t lo, uint8_t hi)
{
    int i = 1;
    for (; i < len && (size_t)i < n; i++) {
        uint8_t c = (uint8_t)s[i];
        if (c < (i == 1 ? lo : 0x80) || c > (i == 1 ? hi : 0xbf)) break;
    }
    return i;
}

int utf8_decode(const char *s, size_t n, uint32_t *cp)
{
    uint8_t lo, hi, c = (uint8_t)s[0];
    int len = lead(c, &lo, &hi);
    if (len == 0) return 0;
    int have = well_formed(s, n, len, lo, hi);
    if (have < len) return (size_t)have == n ? -1 : 0;
    uint32_t v = len == 1 ? c : c & (0x7fu >> len);
    for (int i = 1; i < len; i++)
        v = v << 6 | ((uint8_t)s[i] & 0x3f);
    *cp = v;
    return len;
}

int utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00 >> len) | cp);
    return len;
}

bool utf8_valid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len <= 0) return false;
        i += (size_t)len;
    }
    return true;
}

size_t utf8_partial_tail(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint32_t cp;
        if (((uint8_t)s[n - back] & 0xc0) == 0x80) continue;
        return utf8_decode(s + n - back, back, &cp) == -1 ? back : 0;
    }
    return 0;
}

size_t utf8_bad_len(const char *s, size_t n)
{
    uint8_t lo, hi;
    int len = lead((uint8_t)s[0], &lo, &hi);
    return len == 0 ? 1 : (size_t)well_formed(s, n, len, lo, hi);
}

size_t utf8_repair(struct buf *out, const char *s, size_t n)
{
    size_t n_bad = 0, start = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = utf8_decode(s + i, n - i, &cp);
        if (len > 0) {
            i += (size_t)len;
            continue;
        }
        buf_append(out, s + start, i - start);
        buf_puts(out, "\xef\xbf\xbd");
        i += utf8_bad_len(s + i, n - i);
        start = i;
        n_bad++;
    }
    if (start < n) buf_append(out, s + start, n - start);
    return n_bad;
}

size_t utf8_mark(const char *s, size_t n)
{
    static const char mark[3] = "\xef\xbb\xbf";
    return n >= sizeof mark && memcmp(s, mark, sizeof mark) == 0 ? sizeof mark : 0;
}

int utf8_width(uint32_t cp)
{
    if (cp < 0x7f) return cp >= 0x20;
    /* Vowels and final consonants of Hangul join the consonant before them. */
    if ((cp >= 0x1160 && cp <= 0x11ff) || (cp >= 0xd7b0 && cp <= 0xd7fb)) return 0;
    /* Spacing marks of Indic scripts have a column of their own. */
    if (utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_MC) return 1;
    int width = utf8proc_charwidth((utf8proc_int32_t)cp);
    return width < 0 ? 0 : width > 2 ? 2 : width;
}
