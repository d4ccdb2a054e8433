/* Foreign strings made harmless for a terminal and for one line of an error message: names and
 * values from files, paths, arguments. Pure, any thread. (Replies of a model stream through
 * chat's own filter.) */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a terminal may see the character: not C0, DEL, C1, a bidi control, a zero-width
 * character or one that is never seen, a line or paragraph separator, or a noncharacter. '\n'
 * and '\t' are C0 here. */
bool printable_char(uint32_t cp);

/* A joiner, ZWJ or ZWNJ, has no width, and printable_char refuses it; between letters of
 * scripts that need it, or the parts of an emoji, it does its work. */
bool printable_is_joiner(uint32_t cp);
bool printable_joins(uint32_t before, uint32_t joiner, uint32_t after);

/* Writes s[0..n) to out[0..cap), cap >= 8, always NUL-terminated: what printable_char refuses,
 * but for a joiner that joins, and what is not UTF-8 becomes \n, \t, \r, \xNN or \u{NNNN}; what
 * does not fit is cut before a "...". Returns out, so that it can stand in a list of arguments.
 */
const char *printable(char *out, size_t cap, const char *s, size_t n);

#endif
