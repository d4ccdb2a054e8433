/* White space and letters of ASCII, whatever the locale: in a Turkish one strcasecmp keeps i
 * and I apart. Pure, any thread. */
#ifndef BASE_ASCII_H
#define BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline bool ascii_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether s[0..n) is nothing but that. */
static inline bool ascii_is_blank(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && ascii_is_space(s[i]))
        i++;
    return i == n;
}

/* A letter from A to Z as the small one, all else as it is. */
static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Whether two strings, or what they have of their first n bytes, are equal but for the case of
 * letters. */
static inline bool ascii_same_n(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ascii_lower(a[i]) != ascii_lower(b[i])) return false;
        if (a[i] == '\0') break;
    }
    return true;
}

static inline bool ascii_same(const char *a, const char *b)
{
    return ascii_same_n(a, b, (size_t)-1);
}

/* n without the line ends, of any system, that s[0..n) has last. */
static inline size_t ascii_without_ends(const char *s, size_t n)
{
    while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r'))
        n--;
    return n;
}

#endif
