#include "template/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "template/case.h"

/* What an underscore may stand between: digits of any script, with `letters` those, too. */
static bool is_figure(uint32_t cp, bool letters)
{
    if (cp >= 0x80) return char_decimal(cp) >= 0;
    return (cp >= '0' && cp <= '9') || (letters && (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
}

/* Copies t less its surrounding white space and single underscores between figures, the digits
 * of any script as those of ASCII; false if it is too long for a number or has other characters
 * beyond ASCII. */
static bool plain_digits(struct work *w, struct text t, bool letters, char *out, size_t size)
{
    size_t n = 0;
    uint32_t before = 0;
    t = text_strip(w, t, NULL, true, true);
    for (size_t i = 0, len; i < t.len; i += len) {
        uint32_t cp = text_char(t, i, &len);
        const bool stands_after = is_figure(before, letters);
        before = cp;
        if (cp == '_') {
            size_t next_len;
            if (!stands_after || i + 1 == t.len) return false;
            if (!is_figure(text_char(t, i + 1, &next_len), letters)) return false;
            continue;
        }
        const int digit = cp < 0x80 ? -1 : char_decimal(cp);
        if (digit >= 0) cp = (uint32_t)('0' + digit);
        if (n + 1 >= size || cp <= ' ' || cp >= 0x7F) return false;
        out[n++] = (char)cp;
    }
    out[n] = 0;
    return n > 0;
}

/* Whether an underscore stands before the letter, which is somewhere in t: between the 0 and
 * the letter of a base there may be none, behind the letter one may. */
static bool splits_prefix(struct text t, char letter)
{
    const char *score = memchr(t.data, '_', t.len);
    return score && score < (const char *)memchr(t.data, letter, t.len);
}

enum number_parse number_parse_int(struct work *w, struct text t, int base, int64_t *out)
{
    char s[128], *p = s, *end;
    if (!plain_digits(w, t, true, s, sizeof s)) return NUMBER_BAD;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (*p == '0' && p[1]) {
        int letter = p[1] | 0x20;
        int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (named && (base == 0 || base == named)) {
            if (splits_prefix(t, p[1])) return NUMBER_BAD;
            base = named;
            p += 2;
        }
    }
    if (base == 0) base = 10;
    bool digit = (*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z');
    if (!digit || (base == 16 && (p[1] | 0x20) == 'x')) return NUMBER_BAD;
    errno = 0;
    unsigned long long magnitude = strtoull(p, &end, base);
    if (end == p || *end) return NUMBER_BAD;
    if (errno == ERANGE || magnitude > (unsigned long long)INT64_MAX + negative)
        return NUMBER_TOO_BIG;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return NUMBER_OK;
}

bool number_parse_real(struct work *w, struct text t, double *out)
{
    char s[512], *end;
    if (!plain_digits(w, t, false, s, sizeof s)) return false;
    /* strtod also reads hexadecimal and nan(...); float() does not. */
    if (strpbrk(s, "xX(")) return false;
    *out = strtod(s, &end);
    return end != s && !*end;
}
