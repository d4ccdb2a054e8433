/* The filter between what a model says and a terminal.
 *
 * A reply streams through it in pieces of any size. Escape sequences, other control characters
 * (all but '\n' and '\t'), bidi controls, zero-width characters without a purpose, line and
 * paragraph separators, noncharacters and bytes that are not UTF-8 come out as visible escapes:
 * \x1b, \u{202e}. Kept as they are: combining marks, joiners between the parts of an emoji or
 * between letters of scripts that are written with them, one variation selector behind what it
 * selects a form of, and the tags of flag emoji. A carriage return before a line feed is
 * dropped. What must be seen to be judged, such as a joiner at the end of a piece, is held back
 * until the next piece.
 *
 * The owner embeds the struct, zero-initialised for every new text. Pure: no I/O, no terminal.
 * One thread at a time. */
#ifndef CHAT_SANITISE_H
#define CHAT_SANITISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct sanitiser {
    uint32_t last;   /* the last character that was let through, 0 at first */
    uint32_t held;   /* a joiner or carriage return that waits for the next one, or 0 */
    unsigned n_tags; /* tag characters since a flag */
    char tail[4];    /* the beginning of a character */
    size_t n_tail;
};

/* Appends to out what of s[0..n) is decided. */
void sanitise(struct sanitiser *f, const char *s, size_t n, struct buf *out);
/* The end of the text: appends what was held back and leaves f as new. */
void sanitise_end(struct sanitiser *f, struct buf *out);
/* A whole text at once. */
void sanitise_all(const char *s, size_t n, struct buf *out);

#endif
