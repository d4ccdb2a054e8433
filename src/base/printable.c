#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { ZWNJ = 0x200c, ZWJ = 0x200d };

bool printable_char(uint32_t cp)
{
    if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) return false;
    if (cp == 0xad || cp == 0x34f || cp == 0x61c || cp == 0x180e || cp == 0xfeff) return false;
    if (cp >= 0x200b && cp <= 0x200f) return false;
    if (cp >= 0x2028 && cp <= 0x202e) return false;
    if (cp >= 0x2060 && cp <= 0x206f) return false;
    if (cp >= 0xfff0 && cp <= 0xfffb) return false;
    if (cp == 0x17b4 || cp == 0x17b5) return false;
    /* Fillers in place of a letter of Hangul, which nobody sees. */
    if (cp == 0x115f || cp == 0x1160 || cp == 0x3164 || cp == 0xffa0) return false;
    /* Controls of shorthand and of musical notes. */
    if ((cp >= 0x1bca0 && cp <= 0x1bca3) || (cp >= 0x1d173 && cp <= 0x1d17a)) return false;
    /* Tags, and what Unicode keeps free for more that nobody sees; selectors lie between. */
    if ((cp >= 0xe0000 && cp <= 0xe00ff) || (cp >= 0xe01f0 && cp <= 0xe0fff)) return false;
    return (cp & 0xfffe) != 0xfffe && !(cp >= 0xfdd0 && cp <= 0xfdef);
}

/* What may stand beside a joiner in an emoji: pictographs, skin tones, selectors, keycaps. */
static bool is_emoji_part(uint32_t cp)
{
    return (cp >= 0x1f000 && cp <= 0x1faff) || (cp >= 0x2190 && cp <= 0x2bff) || cp == 0xfe0f ||
           cp == 0x20e3 || cp == 0xa9 || cp == 0xae || cp == 0x3030 || cp == 0x303d;
}

/* Letters and marks of scripts that use joiners: Arabic and its kin, the Indic scripts, Khmer,
 * Mongolian. */
static bool is_joining_script(uint32_t cp)
{
    return (cp >= 0x0620 && cp <= 0x08ff) || (cp >= 0x0900 && cp <= 0x0dff) ||
           (cp >= 0x1000 && cp <= 0x109f) || (cp >= 0x1780 && cp <= 0x18af) ||
           (cp >= 0xa840 && cp <= 0xa8ff) || (cp >= 0xfb50 && cp <= 0xfdcf) ||
           (cp >= 0xfe70 && cp <= 0xfefc);
}

bool printable_joins(uint32_t before, uint32_t joiner, uint32_t after)
{
    if (is_joining_script(before)) return is_joining_script(after);
    return joiner == ZWJ && is_emoji_part(before) && is_emoji_part(after) && after != 0xfe0f;
}

bool printable_is_joiner(uint32_t cp)
{
    return cp == ZWNJ || cp == ZWJ;
}

/* 0: there is none. */
static uint32_t char_at(const char *s, size_t n)
{
    uint32_t cp;
    return n > 0 && utf8_decode(s, n, &cp) > 0 ? cp : 0;
}

/* The escape (or the character itself) at s; sets *len to the bytes it stands for. *before is
 * the character that stands before it, and then this one; 0 for an escape. */
static size_t escape(char out[16], const char *s, size_t n, size_t *len, uint32_t *before)
{
    uint32_t cp = 0;
    int valid = utf8_decode(s, n, &cp);
    *len = valid > 0 ? (size_t)valid : 1;
    const bool shows =
        valid > 0 &&
        (printable_is_joiner(cp) ? printable_joins(*before, cp, char_at(s + *len, n - *len))
                                 : printable_char(cp));
    *before = shows ? cp : 0;
    if (shows) {
        memcpy(out, s, *len);
        return *len;
    }
    int written;
    if (valid > 0 && (cp == '\n' || cp == '\t' || cp == '\r'))
        written = snprintf(out, 16, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : 'r');
    else if (valid > 0 && cp >= 0x80)
        written = snprintf(out, 16, "\\u{%x}", (unsigned)cp);
    else
        written = snprintf(out, 16, "\\x%02x", (unsigned)(uint8_t)s[0]);
    return (size_t)written;
}

const char *printable(char *out, size_t cap, const char *s, size_t n)
{
    size_t used = 0, cut = 0; /* cut: where "..." still fits */
    uint32_t before = 0;
    for (size_t i = 0; i < n;) {
        char piece[16];
        size_t len, bytes = escape(piece, s + i, n - i, &len, &before);
        if (used + bytes + 1 > cap) {
            memcpy(out + cut, "...", 4);
            return out;
        }
        memcpy(out + used, piece, bytes);
        used += bytes;
        i += len;
        if (used + 4 <= cap && !printable_is_joiner(before)) cut = used;
    }
    out[used] = '\0';
    return out;
}
