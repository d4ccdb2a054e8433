/* Signals, turned into flags and a descriptor that a poll can wait for.
 *
 * The handler only sets a flag and writes a byte; all work is done by the face in its loop. One
 * per process, main thread; signals_come may be called from any. Knows no chat.
 *
 * Ctrl-C pressed twice in haste is one wish. One that comes SIGNALS_PATIENCE_MS after another
 * that nothing has answered ends the program at once, so that a bug cannot lock the user in. */
#ifndef UI_SIGNALS_H
#define UI_SIGNALS_H

#include <stdbool.h>

#define SIGNALS_PATIENCE_MS 1000

/* Handles SIGINT, SIGTERM, SIGHUP and SIGWINCH, each unless it was ignored; SIGPIPE is ignored,
 * so that a write says EPIPE. With a terminal of our own also SIGTSTP and SIGCONT. */
void signals_install(bool terminal);
/* A fault in a mapped file, which someone cut short, ends the program with status 1 and a line
 * that names the file, on whichever thread it is met; SIGBUS is handled for that, unless it was
 * before. As early as can be. */
void signals_name_lost_files(void);
/* In a child, before another program takes its place: what was handled or ignored is not. */
void signals_for_child(void);

/* Readable after a signal came; signals_drain empties it. */
int signals_fd(void);
void signals_drain(void);
/* Whether it came since it was last taken; take clears it. */
bool signals_come(int sig);
bool signals_take(int sig);
/* Ctrl-C came and something is to be stopped: true for the first, whose time is kept in
 * *first_ms (0 before). Does not return when the first is SIGNALS_PATIENCE_MS old; the terminal
 * is restored. */
bool signals_first_interrupt(double *first_ms);
/* 0, or the status of SIGTERM or SIGHUP that came: never cleared, the program is leaving. */
int signals_leaving(void);

/* Whether what ends the program may forget what waits unread in the terminal on standard
 * output, if that takes no more: curses waits there until it does, for ever where a connection
 * stands still, and nobody would look at the signal. At the start not. */
void signals_make_room(bool wanted);

/* Stops the process as Ctrl-Z does; returns when it goes on. The terminal is the caller's. */
void signals_stop_here(void);
/* How long it was stopped so since this was called last, in milliseconds. */
double signals_take_stopped_ms(void);

#endif
