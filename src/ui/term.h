/* What a stream may be given: colours, redrawn lines, foreign bytes. Values, no state; nothing
 * here changes the terminal's settings (ui/tty.h does). */
#ifndef UI_TERM_H
#define UI_TERM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct options;

struct term {
    int fd;
    bool is_tty;
    bool colour;  /* --color, NO_COLOR, --plain, a terminal that has none */
    bool escapes; /* sequences mean something: neither dumb nor no terminal */
    bool redraw;  /* a line may be written over: neither --plain nor --accessible nor dumb */
    bool words;   /* they are kept whole at its edge: --wrap, neither --accessible nor dumb */
};

enum style { STYLE_DIM, STYLE_LABEL, STYLE_PROMPT, STYLE_WARNING, STYLE_ERROR };

/* Reads the environment; o as it is at the moment. */
struct term term_of(int fd, const struct options *o);
/* The sequences that begin and end a style: "" without colours. Static. */
const char *term_on(const struct term *t, enum style style);
const char *term_off(const struct term *t);
/* Columns: 80 where nobody knows, far more where there are none. */
int term_width(const struct term *t);
/* The same for struct flow (ui/flow.h): 0 where words are not kept whole. */
int term_flow_width(const struct term *t);

/* Writes "hearth: " and a text as lines of t. */
void term_message(const struct term *t, enum style style, const char *text);
/* Appends a text of one or more lines, its words whole on t. */
void term_line(const struct term *t, const char *text, struct buf *out);

/* Appends s[0..n), in whole characters, with U+FFFD for what a terminal must not see (line
 * breaks and tabs stay). */
void term_harmless(struct buf *out, const char *s, size_t n);

#endif
