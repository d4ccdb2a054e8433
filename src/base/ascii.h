/* White space of ASCII, whatever the locale. Pure, any thread. */
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

/* n without the line ends, of any system, that s[0..n) has last. */
static inline size_t ascii_without_ends(const char *s, size_t n)
{
    while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r'))
        n--;
    return n;
}

#endif
