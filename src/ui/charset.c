/* By way of wide characters, which are code points where hearth runs. */
#include "ui/charset.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"

static bool is_utf8, is_other; /* neither UTF-8 nor "C", of which nothing is known */

/* Readline sets the locale anew before each line, by the environment, so it is told there. */
static void choose_utf8(void)
{
    const char *all = getenv("LC_ALL");
    if (!setlocale(LC_CTYPE, "C.UTF-8")) return;
    setenv(all && *all ? "LC_ALL" : "LC_CTYPE", "C.UTF-8", 1);
}

void charset_open(void)
{
    if (strcmp(setlocale(LC_CTYPE, NULL), "C") == 0) choose_utf8();
    is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    is_other = !is_utf8 && strcmp(setlocale(LC_CTYPE, NULL), "C") != 0;
}

bool charset_is_utf8(void)
{
    return is_utf8;
}

bool charset_is_other(void)
{
    return is_other;
}

int charset_char(const char *s, size_t n)
{
    uint32_t cp;
    if (!is_other) return utf8_decode(s, n, &cp);
    mbstate_t state = {0};
    wchar_t c;
    size_t len = mbrtowc(&c, s, n, &state);
    return len == (size_t)-2 ? -1 : len > n ? 0 : len == 0 ? 1 : (int)len;
}

void charset_take(const char *s, size_t n, struct buf *out)
{
    if (!is_other || utf8_valid(s, n)) {
        utf8_repair(out, s, n);
        return;
    }
    mbstate_t state = {0};
    for (size_t i = 0; i < n;) {
        wchar_t c;
        char utf8[4];
        size_t len = mbrtowc(&c, s + i, n - i, &state);
        bool bad = len > n - i || c > 0x10ffff || (c >= 0xd800 && c < 0xe000);
        if (bad) state = (mbstate_t){0};
        buf_append(out, utf8, (size_t)utf8_encode(bad ? 0xfffd : (uint32_t)c, utf8));
        i += bad || len == 0 ? 1 : len;
    }
}

void charset_give(const char *s, size_t n, struct buf *out)
{
    if (!is_other) {
        buf_append(out, s, n);
        return;
    }
    mbstate_t state = {0};
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        char bytes[MB_LEN_MAX];
        int len = utf8_decode(s + i, n - i, &cp);
        size_t made = len > 0 ? wcrtomb(bytes, (wchar_t)cp, &state) : (size_t)-1;
        if (made == (size_t)-1) {
            state = (mbstate_t){0};
            buf_putc(out, '?');
        } else {
            buf_append(out, bytes, made);
        }
        i += len > 0 ? (size_t)len : utf8_bad_len(s + i, n - i);
    }
}
