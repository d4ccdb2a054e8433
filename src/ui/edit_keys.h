/* Readline's keys, the same at the line prompt and in the full-screen view: where bytes come
 * from, and what hearth binds besides readline's own.
 *
 * Readline is one per process, and so is this. The user's inputrc wins over the bindings made
 * here. Knows no prompt and no screen. Main thread. */
#ifndef UI_EDIT_KEYS_H
#define UI_EDIT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

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

/* Whether there are keys that can be read now: on the terminal, or read already. */
bool edit_keys_ready(void);
/* While nobody reads keys: takes what was typed ahead, to be read as keys later, where it is so
 * much that the terminal may soon hold no more. Linux keeps 4 KiB, and what comes behind them,
 * Ctrl-C too, waits. */
void edit_keys_take_ahead(void);
/* Whether the terminal is gone: there was nothing to read, nor will there be. Readline may take
 * that for a key and ask again for ever: with a half-typed line it makes a line feed of it. */
bool edit_keys_gone(void);

/* The same bytes where readline does not read them: 1; 0 if the terminal is gone; -1 if none
 * comes within timeout_ms. */
int edit_keys_byte(int timeout_ms, char *c);
/* Puts a byte back, to be read next. */
void edit_keys_unread(char c);
/* Once a line has ended: takes what is left of a keyboard macro that is being played from
 * readline and puts it before the keys to be read next. Whoever removes readline's handler then
 * calls this, for readline would play the rest into a line that nobody gets. */
void edit_keys_put_macro_off(void);

/* How often these keys come next, one behind the other and all there already; they are taken
 * then. 0, and nothing is taken, for fewer than `least`. */
size_t edit_keys_burst(const char *keys, size_t least);

/* Bytes that were typed before the terminal was ours are told apart from now on, as in them
 * Return has become a line feed. To be called after every tty_quiet or tty_echo. */
void edit_keys_take_cooked(void);

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
