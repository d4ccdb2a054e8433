/* A dialog of the full-screen view: a box with rows to read or to choose from.
 *
 * The owner embeds the struct, zero-initialised; a row may carry the line that choosing it
 * sends. Draws on the screen; knows no chat. Main thread. */
#ifndef UI_DIALOG_H
#define UI_DIALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "ui/actions.h"

/* Columns of the screen that a row cannot have: what is beneath, the edges, blanks. */
enum { DIALOG_FRAME = 6 };

struct dialog_row {
    char *text, *line; /* line: NULL when there is nothing to choose */
};

struct dialog {
    const char *title, *foot; /* static */
    struct dialog_row *rows;
    size_t n, cap;
    size_t selected, top; /* a dialog to read has only top */
    size_t n_shown;       /* rows that were drawn last; 0: none yet */
    bool chooses;
    int columns; /* of the screen that the owner has laid the rows out for; 0: any */
};

/* Empties it and gives it a title. */
void dialog_begin(struct dialog *d, const char *title, bool chooses);
/* Adds a row; text is printable, line is copied, too. */
void dialog_add(struct dialog *d, const char *text, const char *line);
void dialog_free(struct dialog *d);

/* What a key that moves does here; others do nothing. */
void dialog_act(struct dialog *d, enum action action);
/* The line of the chosen row; NULL if there is none. */
const char *dialog_choice(const struct dialog *d);
/* Draws it over the rows [0, height) of the screen. */
void dialog_draw(struct dialog *d, int height);

#endif
