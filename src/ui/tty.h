/* The terminal's line discipline: saved when hearth starts, changed while a reply comes, put
 * back however the program ends.
 *
 * One per process. tty_restore and tty_recover may be called at any time, as often as one
 * likes, also by handlers of signals; everything else belongs to the main thread. Readline
 * changes the same settings while a prompt is shown and restores them by itself. */
#ifndef UI_TTY_H
#define UI_TTY_H

#include <stdbool.h>
#include <stddef.h>

/* Saves the settings of the terminal fd and restores them at exit and on a crash. A process in
 * the background stops here until it is in front, so before signals are handled: one that comes
 * meanwhile does what it always does. Nothing happens if fd is no terminal, or one that the
 * process can never have. */
void tty_open(int fd);
/* Keys are kept for the next prompt and not echoed; Ctrl-C and Ctrl-Z stay signals. */
void tty_quiet(void);
/* The same with echo, for readline to take over: it shows what is typed only where the terminal
 * did. */
void tty_echo(void);
/* As it was when hearth started. */
void tty_restore(void);
/* As tty_restore, and colours, bracketed paste and the cursor as a shell expects them: where
 * the program ends at once. */
void tty_recover(void);
/* What tty_restore and a crash write to standard output first, once: the way back from the
 * full-screen view, or from marked pastes. Borrowed until the next call; n 0: nothing. */
void tty_say_goodbye(const char *bytes, size_t n);
/* Around what takes the terminal over and what draws there: whoever finds no memory on another
 * thread meanwhile lets it come to its end, and nothing is drawn over the last line. */
void tty_begin_drawing(void);
void tty_end_drawing(void);
/* As tty_restore before the process stops; keys typed during a reply are not the shell's:
 * forgotten.
 */
void tty_lend(void);
/* After the process was stopped: takes the present settings as those to restore, unless they
 * are our own, since no shell has set others meanwhile; then tty_quiet. In the background
 * nothing is touched; false. */
bool tty_return(void);
/* How many bytes were typed before tty_quiet took over, and have a line feed for Return; counts
 * from then on. */
int tty_take_cooked(void);

#endif
