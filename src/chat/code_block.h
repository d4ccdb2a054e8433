/* The code in a reply's Markdown: what stands between fences. Pure, any thread. */
#ifndef CHAT_CODE_BLOCK_H
#define CHAT_CODE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the inside of the last code block of text[0..n), without the indentation of its
 * fence; one that is still open counts. False if there is none. */
bool code_block_last(const char *text, size_t n, struct buf *out);

#endif
