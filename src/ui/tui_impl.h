/* What the files of the full-screen face share. Private to tui*.c. */
#ifndef UI_TUI_IMPL_H
#define UI_TUI_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "chat/face.h"
#include "chat/view.h"
#include "ui/dialog.h"
#include "ui/output.h"
#include "ui/scrollback.h"

struct options;
struct transcript;

enum tui_mode {
    MODE_LINE,       /* keys are readline's */
    MODE_TRANSCRIPT, /* keys move the view */
    MODE_SEARCH,     /* keys make the words to search for */
    MODE_DIALOG,
};

struct tui {
    struct chat *chat;
    struct transcript *transcript;
    struct scrollback *rows; /* the transcript's */
    enum tui_mode mode;
    struct dialog dialog;
    bool follows;                /* the view stays at the end */
    struct scrollback_place top; /* its first row, when it does not */
    size_t view_rows;            /* its height when it was drawn last */

    struct buf words; /* searched for; highlighted while not empty */
    struct scrollback_place found, search_from;
    bool was_found;
    const char *notice; /* in the bar until the next key; static */

    /* What goes on: loading or prefill. */
    bool progresses;
    enum face_phase phase;
    uint64_t done, total, cached;
    double began_ms;
    double drew_ms; /* when the first piece of the running reply came, 0: not yet */
    double rate;    /* of the last reply, tokens per second */
    uint32_t n_drafted, n_accepted;
    struct chat_status shown; /* in the bar, with the rate beside it */
    double shown_rate, shown_ms;

    bool quiet, verbose, no_stream;
    bool is_over;    /* the screen is closed: messages go to standard error */
    struct buf held; /* --no-stream: not shown yet */
    enum face_part held_part;
    struct output copy; /* --output; fd is -1 without */
    bool was_loaded;    /* a model was there: now /model loads another */
    bool is_loading;
    double cancelled_ms; /* of the turn: when it was told to stop; 0: it was not */
    bool dirty;          /* a frame is due */
    bool redraw;
    double frame_ms;     /* when the last one was drawn */
    struct buf farewell; /* for standard error, once the screen is the shell's again */
    int status;          /* of what ends the program, -1: goes on */
};

/* ---- drawing (tui_draw.c) ---- */

void tui_draw(struct tui *t);
/* Moves the view by rows, down if positive; at the end it follows what comes. */
void tui_scroll(struct tui *t, long rows);
/* Moves the view, if it must, so that the place is in it. */
void tui_show_place(struct tui *t, struct scrollback_place place);

/* ---- dialogs (tui_dialogs.c) ---- */

void tui_help(struct tui *t);
void tui_branches(struct tui *t);
void tui_sessions(struct tui *t);

#endif
