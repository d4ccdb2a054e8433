/* The terminal's character set, where it is not UTF-8: what is typed becomes UTF-8, what is
 * written becomes what the terminal has.
 *
 * The locale decides, by LC_ALL, LC_CTYPE and LANG. Nobody has chosen one in "C": there the
 * terminal speaks UTF-8 like any other today. One per process; main thread. */
#ifndef UI_CHARSET_H
#define UI_CHARSET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Before readline and curses look at the locale, and before there are threads. */
void charset_open(void);
bool charset_is_utf8(void);
/* Whether it is a known one besides UTF-8. */
bool charset_is_other(void);

/* The length of the terminal's character at the start of s[0..n), n at least 1; 0 if there is
 * none, -1 if it is the beginning of one. */
int charset_char(const char *s, size_t n);
/* Appends what was typed as UTF-8. What is UTF-8 already stays as it is; what is neither that
 * nor of the terminal's set becomes U+FFFD. */
void charset_take(const char *s, size_t n, struct buf *out);
/* Appends UTF-8 in the terminal's set; "?" for what it has not. */
void charset_give(const char *s, size_t n, struct buf *out);

#endif
