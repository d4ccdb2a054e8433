/* Where the bytes of keys come from: those that the terminal has, behind those that were read
 * from it before their time, or were put back.
 *
 * The terminal is readline's rl_instream, one per process, and so is this. It knows no keys and
 * no line. Main thread. */
#ifndef UI_KEY_BYTES_H
#define UI_KEY_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* ---- from the terminal ---- */

/* The next byte: 1; 0 if the terminal is gone; -1 if none comes within timeout_ms. */
int key_bytes_next(int timeout_ms, char *c);
/* The same of the terminal alone, which poll says can be read. */
int key_bytes_read(char *c);
/* Whether there is one now, or within timeout_ms: on the terminal, or read already. */
bool key_bytes_come(int timeout_ms);
/* Whether the terminal is gone: there was nothing to read, nor will there be. Readline may take
 * that for a key and ask again for ever: with a half-typed line it makes a line feed of it. */
bool key_bytes_gone(void);
/* Bytes that were typed before the terminal was ours are told apart from now on, as in them
 * Return has become a line feed. To be called after every tty_quiet or tty_echo. */
void key_bytes_take_cooked(void);
/* While nobody reads keys: takes what was typed ahead, to be read as keys later, where it is so
 * much that the terminal may soon hold no more. Linux keeps 4 KiB, and what comes behind them,
 * Ctrl-C too, waits. */
void key_bytes_take_ahead(void);

/* ---- those that were read already ---- */

/* How many there are, and the i-th of them, i below that. */
size_t key_bytes_n(void);
char key_bytes_at(size_t i);
/* Takes the first n of them. */
void key_bytes_skip(size_t n);
/* Reads what comes within timeout_ms behind them, at most `most` bytes; false if nothing does.
 */
bool key_bytes_look(int timeout_ms, size_t most);
/* Puts bytes before all that come, or behind those that were read. */
void key_bytes_put_first(const char *s, size_t n);
void key_bytes_put_last(const char *s, size_t n);
/* Appends all of them to out, and has none then. */
void key_bytes_take(struct buf *out);

/* How often these keys come next, one behind the other and all there already; they are taken
 * then. 0, and nothing is taken, for fewer than `least`. */
size_t key_bytes_burst(const char *keys, size_t least);

#endif
