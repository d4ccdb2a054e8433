/* The last exchange of a conversation that is gone on with, shortened, as the line prompt would
 * have shown it. Main thread. */
#ifndef UI_RECAP_H
#define UI_RECAP_H

#include <stdbool.h>
#include <stddef.h>

#include "ui/term.h"

struct chat;

/* Where the part of s[0..n) begins that is worth showing again: its last lines, at most n_lines
 * of them and n_bytes, from the beginning of a line, a word or at least a character on. Pure.
 */
size_t recap_tail(const char *s, size_t n, size_t n_lines, size_t n_bytes);

/* Writes the last message of the user and its reply, if there are any, and an empty line.
 * accessible: with labels instead of a mark. */
void recap_show(const struct term *t, const struct chat *c, bool accessible);
/* Writes a message as if it had been typed at the prompt. */
void recap_typed(const struct term *t, const char *s, size_t n, bool accessible);

#endif
