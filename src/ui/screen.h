/* The screen of the full-screen view: ncurses behind a narrow door.
 *
 * One per process. A frame is drawn anew and curses writes the cells that differ. Whatever
 * comes in, no control character leaves: what a terminal must not see is drawn as U+FFFD.
 * Curses knows no keys here; the bytes that are typed are read elsewhere. Main thread, but for
 * the way back, which ui/tty.h takes at a crash. */
#ifndef UI_SCREEN_H
#define UI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* What a text is; how that looks depends on the terminal's colours (screen.c has the table). */
enum ink {
    INK_TEXT,
    INK_DIM,
    INK_USER,
    INK_PROMPT,
    INK_REASONING,
    INK_FIGURES,
    INK_NOTE,
    INK_WARNING,
    INK_ERROR,
    INK_HEADING, /* of Markdown, as what follows */
    INK_CODE,
    INK_QUOTE,
    INK_MARK,
    INK_BAR,      /* the status bar */
    INK_BAR_NAME, /* what counts most in it */
    INK_BAR_WARM, /* the part of its meter that is computed */
    INK_BAR_COLD, /* … that is used, but not computed */
    INK_MATCH,    /* found by a search */
    INK_MATCH_AT, /* the one the view stands at */
    INK_BOX,      /* a dialog */
    INK_BOX_EDGE,
    INK_BOX_TITLE,
    INK_BOX_DIM,
    INK_SELECTED, /* the chosen row of a dialog */
    N_INKS,
    /* Added to any of them. */
    INK_BOLD = 1 << 8,
    INK_ITALIC = 1 << 9,
};

/* Whether the terminal that TERM names can be taken over; else ERR_USER says why not. */
bool screen_can_open(struct err *err);
/* Takes the terminal on standard input and output over: the alternate screen, keys without
 * echo, Ctrl-C and Ctrl-Z as signals. After tty_open. Errors as above. */
bool screen_open(bool colour, struct err *err);
/* With colours or without from now on; nothing if it is not open. */
void screen_set_colour(bool colour);
/* Gives it back; nothing if it is not open. */
void screen_close(void);
/* For an editor or a stop: the terminal as the shell had it, and ours again. */
void screen_pause(void);
void screen_resume(void);
/* The window may have another size: asks for it. */
void screen_resize(void);

int screen_rows(void);
int screen_columns(void);
/* Whether more than ASCII can be shown. */
bool screen_is_utf8(void);

/* Everything is blank until it is drawn. */
void screen_clear(void);
/* Draws s[0..n) in one row, at most `columns` wide; returns the column behind it. A place
 * outside the screen draws nothing. */
int screen_text(int y, int x, int columns, unsigned ink, const char *s, size_t n);
int screen_puts(int y, int x, int columns, unsigned ink, const char *s);
/* As screen_text, but what does not fit ends in a mark. */
int screen_cut(int y, int x, int columns, unsigned ink, const char *s, size_t n);
/* The column that tabs are counted from, at or before what is drawn; 0 after screen_clear. */
void screen_tabs(int x);
/* Blanks from x on, `columns` of them. */
void screen_fill(int y, int x, int columns, unsigned ink);
/* Where the cursor stands after screen_show; y < 0 hides it. */
void screen_cursor(int y, int x);
/* Writes what has changed; with all, every cell, whatever the terminal showed before. */
void screen_show(bool all);

/* Bytes for the terminal itself, say a clipboard sequence. */
void screen_raw(const char *bytes, size_t n);

#endif
