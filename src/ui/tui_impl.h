/* What the files of the full-screen face share: the face itself. tui.c has the loop,
 * tui_lines.c what becomes of a line, tui_keys.c what keys do, tui_draw.c a frame,
 * tui_dialogs.c what dialogs list. Private to them. */
#ifndef UI_TUI_IMPL_H
#define UI_TUI_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "chat/face.h"
#include "chat/view.h"
#include "ui/actions.h"
#include "ui/dialog.h"
#include "ui/output.h"
#include "ui/scrollback.h"

struct given;
struct options;
struct transcript;

enum tui_mode {
    MODE_LINE,       /* keys are readline's */
    MODE_TRANSCRIPT, /* keys move the view */
    MODE_SEARCH,     /* keys make the words to search for */
    MODE_DIALOG,
};

/* What of the transcript is on the screen. */
struct tui_view {
    bool follows;                /* it stays at the end */
    struct scrollback_place top; /* its first row, when it does not */
    size_t n_rows;               /* its height when it was drawn last */
};

struct tui_search {
    struct buf words;                    /* searched for; highlighted while not empty */
    struct scrollback_place found, from; /* from: where it began, which goes backwards */
    bool was_found;
    /* Of the view and the keys where the words began to be typed: back to that it is given up.
     */
    struct tui_view view;
    enum tui_mode mode;
};

/* Loading or prefill. */
struct tui_work {
    bool runs;
    enum face_phase phase;
    uint64_t done, total, cached;
    double began_ms;
};

/* The reply that runs, or the last. */
struct tui_reply {
    bool is_coming; /* its first piece has come, and it is not over */
    double rate;    /* tokens per second, once it is over */
    uint32_t n_drafted, n_accepted;
    double cancelled_ms; /* when it was told to stop; 0: it was not */
};

/* What the bar shows, which is less often looked at than a frame is drawn. */
struct tui_figures {
    struct chat_status chat;
    double rate, ms; /* ms: when it was looked at */
    /* When that was first done of the reply that comes, and its tokens then; 0: not yet. */
    double from_ms;
    uint32_t n_from;
};

struct tui_frame {
    bool is_due;
    bool is_whole;   /* every cell, whatever the terminal showed before */
    double drawn_ms; /* when the last one was */
};

/* --no-stream: what is not shown yet. */
struct tui_unseen {
    struct buf text;
    enum face_part part;
};

/* Owned by tui_run, on its stack; main thread. */
struct tui {
    struct chat *chat;
    const struct given *given; /* sent first, NULL once it was */
    struct transcript *transcript;
    struct scrollback *rows; /* the transcript's */
    bool quiet, verbose, no_stream;

    enum tui_mode mode;
    enum tui_mode below; /* of a dialog: what keys do again once it is closed */
    struct dialog dialog;
    struct tui_view view;
    struct tui_search search;
    const char *notice; /* in the bar until the next key; static */
    bool was_refused;   /* the choice of a dialog, which must wait; until the next key */
    struct tui_figures figures;
    struct tui_frame frame;

    bool was_loaded; /* a model was there: now /model loads another */
    bool is_loading;
    struct tui_work work;
    struct tui_reply reply;
    struct tui_unseen unseen;
    struct output copy; /* --output; fd is -1 without */

    bool leaves;         /* once no line waits any more */
    int status;          /* of what ends the program, -1: goes on */
    bool is_over;        /* the screen is closed: messages go to standard error */
    struct buf farewell; /* for standard error, once the screen is the shell's again */
};

/* ---- lines (tui_lines.c) ---- */

/* Sends a line: a command or a message; pasted ones are always messages. */
void tui_submit(struct tui *t, const struct buf *line, bool is_pasted);
/* What the face keeps of the options. */
void tui_take_options(struct tui *t, const struct options *o);
bool tui_shows_reasoning(const struct tui *t);

/* ---- keys (tui_keys.c) ---- */

void tui_act(struct tui *t, enum action action);
/* Back to the line, whatever keys did before; a search ends with it. */
void tui_leave_mode(struct tui *t);
/* Handles one key that can be read now, in any mode but MODE_LINE. */
void tui_key(struct tui *t);

/* ---- drawing (tui_draw.c) ---- */

void tui_draw(struct tui *t);
/* Moves the view by rows, down if positive; at the end it follows what comes. */
void tui_scroll(struct tui *t, long rows);
/* Where what is below the view begins; behind everything at the end. */
struct scrollback_place tui_view_end(struct tui *t);
/* Moves the view, if it must, so that the place is in it. */
void tui_show_place(struct tui *t, struct scrollback_place place);

/* ---- dialogs (tui_dialogs.c) ---- */

void tui_help(struct tui *t);
/* Lays a dialog that is open out anew if the screen has other columns now. */
void tui_fit_dialog(struct tui *t);
void tui_branches(struct tui *t);
void tui_sessions(struct tui *t);

#endif
