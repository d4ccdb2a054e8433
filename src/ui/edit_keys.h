/* Readline's keys, the same at the line prompt and in the full-screen view: what hearth binds
 * besides readline's own. Their bytes come from key_bytes.h.
 *
 * Readline is one per process, and so is this. The user's inputrc wins over the bindings made
 * here. Knows no prompt and no screen. Main thread. */
#ifndef UI_EDIT_KEYS_H
#define UI_EDIT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* What the prompt does for the keys. */
struct edit_keys_terminal {
    /* Gives the terminal away (an editor runs, the process stops) and takes it back. */
    void (*pause)(void);
    void (*resume)(void);
    /* Shows what an editor could not do, or what of its text; between the two. */
    void (*complain)(const char *text);
    /* Shows at once what a paste could not do, or waits for. */
    void (*tell)(const char *text);
    /* Takes a paste that is too large for the line: n bytes without control characters. */
    void (*pasted)(const char *s, size_t n);
    /* Whether the line can still be drawn with that much more in it. NULL: always. */
    bool (*fits)(const char *s, size_t n);
};

/* Before rl_initialize. terminal is borrowed for good. */
void edit_keys_install(const struct edit_keys_terminal *terminal);

/* Lets readline handle what comes next: a key, or a paste. Bytes between the marks of a paste
 * are never keys, whatever readline waits for: it gives up a search or the beginning of a
 * command. */
void edit_keys_next(void);
/* The same of a paste whose first mark was read elsewhere. */
void edit_keys_paste(void);
/* Appends such a paste, without control characters, to out; the line stays as it is. */
void edit_keys_read_paste(struct buf *out);

/* Once a line has ended: takes what is left of a keyboard macro that is being played from
 * readline and puts it before the keys to be read next. Whoever removes readline's handler then
 * calls this, for readline would play the rest into a line that nobody gets. */
void edit_keys_put_macro_off(void);

/* Whether the beginning of the line was pasted; a new line begins with false. */
bool edit_keys_pasted(void);
void edit_keys_new_line(void);
/* Leaves what readline is in the midst of: an argument, a command of several keys, a search,
 * which leaves what it shows, or what was typed before a string was asked for. */
void edit_keys_break_off(void);
/* The same, but as C-g does it: the line is what it was before any search. To be called before
 * anyone but a command of readline's changes the line, for a search points into it; not from
 * within such a command. */
void edit_keys_give_up_command(void);
/* Ends the line as Return would, whatever keys the user has bound to it: readline's handler
 * gets it. Only readline itself knows who shares the undo lists of the line, of the history and
 * of the line that a search has put aside, so that it can be given up only so. */
void edit_keys_give_up(void);
/* After keys were handled: a line that is empty by now was not pasted. */
void edit_keys_handled(void);

#endif
