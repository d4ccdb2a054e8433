/* UTF-8, strict: no overlong forms, no surrogates, nothing beyond U+10FFFF. Pure,
 * any thread. Noncharacters and control characters are valid here; printable.h judges those. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Decodes the character at the start of s[0..n): returns its length 1..4 and sets *cp; 0 if the
 * bytes are not a valid character; -1 if they are the valid beginning of one that n cuts off.
 * n must be at least 1. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes cp (a valid scalar value) to out and returns the length 1..4. */
int utf8_encode(uint32_t cp, char out[4]);
/* Whether all of s[0..n) is whole characters; n may be 0. */
bool utf8_valid(const char *s, size_t n);
/* How many bytes at the end of s[0..n) are the beginning of a character that is not complete.
 */
size_t utf8_partial_tail(const char *s, size_t n);
/* How many bytes at s to replace by one U+FFFD when utf8_decode gave 0 or -1 (at least 1): the
 * longest valid beginning, as the Unicode standard recommends. */
size_t utf8_bad_len(const char *s, size_t n);
/* Appends s[0..n) with U+FFFD for what is not UTF-8; returns how many were put. s may be NULL
 * if n is 0. */
size_t utf8_repair(struct buf *out, const char *s, size_t n);
/* The length of the byte order mark that s[0..n), a file, begins with; 0: of none. It is no
 * part of the text. */
size_t utf8_mark(const char *s, size_t n);
/* Columns of a character on a terminal: 0, 1 or 2. */
int utf8_width(uint32_t cp);

#endif
