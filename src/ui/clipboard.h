/* The clipboard: by the desktop's own tool, or by way of the terminal (OSC 52), which works
 * over ssh and in tmux too, though nobody answers whether the terminal obeys. Main thread. */
#ifndef UI_CLIPBOARD_H
#define UI_CLIPBOARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Gives text[0..n) to wl-copy, xclip, xsel or pbcopy, whichever fits the desktop that hearth
 * runs on and is there. False if none did it, or the desktop is not the user's own (ssh). */
bool clipboard_by_tool(const char *text, size_t n);
/* Pure: appends the sequence that puts text[0..n) on the clipboard. */
void clipboard_sequence(const char *text, size_t n, struct buf *out);

#endif
