/* Text as a JSON string. Pure, any thread. (JSON is read by jansson.) */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stddef.h>

#include "base/buf.h"

/* Appends s[0..n) with its quotes: valid UTF-8, U+FFFD for what is not; what a terminal must
 * not see is escaped, so that the string is one harmless line. */
void json_quote(struct buf *out, const char *s, size_t n);

/* From then on jansson takes its memory from base/mem.h, and without any ends the program with
 * its line: it would else tell of text that is no JSON, or leave things out. At the start. */
void json_begin(void);

#endif
