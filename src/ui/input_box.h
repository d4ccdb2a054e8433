/* The line of the full-screen view: readline, without a terminal of its own.
 *
 * Readline edits, completes and searches as at the line prompt, with the user's inputrc; where
 * and how the line is shown is the view's affair. The line can be edited at any time; lines
 * that were sent wait in a queue until they are taken. One per process, main thread. */
#ifndef UI_INPUT_BOX_H
#define UI_INPUT_BOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ui/actions.h"
#include "ui/edit_keys.h"

struct chat;

/* A line that was sent. */
struct input_line {
    struct buf text;     /* as UTF-8 */
    struct buf attached; /* what input_attach was given before it was sent, "" for nothing */
    bool is_pasted; /* its beginning was pasted: it is no command, whatever it looks like */
};
void input_line_free(struct input_line *line);

struct input_hooks {
    struct edit_keys_terminal terminal;
    /* Called for the keys of ui/actions.h. */
    void (*act)(enum action action);
    /* A line was sent and waits from now on: for the history. */
    void (*sent)(const struct input_line *line);
    /* Shows the line as it is for a moment, since readline waits before it goes on. */
    void (*draw)(void);
};
/* chat is asked at TAB. The hooks are called from within input_key; borrowed for good. */
void input_open(const struct chat *chat, const struct input_hooks *hooks);
void input_close(void);

/* Handles one key that can be read now. */
void input_key(void);
/* Handles what was pasted: its beginning, the key "Paste", has been read. */
void input_paste(void);
/* Whether the user leaves: Ctrl-D on an empty line, since this was asked last, or the terminal
 * is gone. */
bool input_take_end(void);

/* Takes the line that was sent first; false if none waits. line is the owner's, replaced. */
bool input_take(struct input_line *line);
size_t input_n_waiting(void);
/* Lines that wait go back into the editor, before what is being typed, and what is attached
 * to them is attached to it. */
void input_call_back(void);

/* Attaches a text to the line that is sent next, not to those that wait. */
void input_attach(const char *s, size_t n);
/* Takes what is attached to the line that is not sent yet; false if nothing is. out is the
 * owner's, replaced. */
bool input_take_attached(struct buf *out);

/* Puts text into the line, before what was typed; is_message: sent again it is no command,
 * whatever it looks like. */
void input_fill(const char *text, size_t n, bool is_message);
/* Ctrl-C: gives the line up; it stays reachable in no history. */
void input_give_up(void);

/* The line as it is now; until the next key. */
struct input_view {
    const char *prompt; /* "> ", or what readline asks at the moment; with readline's markers */
    const char *text;
    size_t len, cursor; /* bytes */
};
struct input_view input_view(void);
/* What the last TAB found, a word per line; "" if nothing is to be chosen from. */
const char *input_choices(void);

#endif
