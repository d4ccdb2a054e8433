/* The clipboard by way of the terminal: OSC 52, which works over ssh and in tmux too.
 *
 * Nobody answers, so nobody knows whether the terminal obeys. Pure, any thread. */
#ifndef UI_CLIPBOARD_H
#define UI_CLIPBOARD_H

#include <stddef.h>

#include "base/buf.h"

/* Appends the sequence that puts text[0..n) on the clipboard. */
void clipboard_sequence(const char *text, size_t n, struct buf *out);

#endif
