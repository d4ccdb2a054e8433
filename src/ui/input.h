/* What is read from outside and becomes a message: without control characters, joined by blank
 * lines. Only input_can_read and input_read touch a descriptor. */
#ifndef UI_INPUT_H
#define UI_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* No context holds a message of more bytes; what is longer is refused before it is read. */
enum { INPUT_MAX_BYTES = 64 << 20 };
/* Says that of what has this name: ERR_USER, always false. */
bool input_too_long(const char *name, struct err *err);

/* Appends s[0..n), a paste, without control characters: a terminal would obey them while it
 * shows the line. Return, which terminals send for a line break, is one. */
void input_clean(struct buf *out, const char *s, size_t n);
/* Appends a part of a message: a blank line before it unless it is the first, without the line
 * breaks at its end. Nothing for a part that is empty then. */
void input_join(struct buf *message, const char *part, size_t n);

/* Whether it is open for reading: standard input that was closed is not. */
bool input_can_read(int fd);
enum input_got { INPUT_MORE, INPUT_END, INPUT_FAILED };
/* Appends what one read gives; INPUT_FAILED leaves errno. */
enum input_got input_read(int fd, struct buf *out);

/* Takes the first line off raw[*at..): returns where it begins and sets its length, CR LF left
 * out, and moves *at behind it; NULL if no line is complete. With at_end the rest is a line. */
const char *input_line(const struct buf *raw, size_t *at, bool at_end, size_t *n);

#endif
