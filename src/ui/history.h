/* The history of the prompt: readline's list in memory, in the terminal's character set as the
 * line is, and a file on disk, which is UTF-8.
 *
 * One entry per line of the file, line breaks and backslashes escaped, so that a message of
 * many lines comes back as it was; mode 0600. Several programs may append at the same time. The
 * main thread's alone, as readline is. */
#ifndef UI_HISTORY_H
#define UI_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { HISTORY_MAX = 10000 };

/* Loads the file into readline's list (a missing one is an empty one) and shortens it on disk
 * when it holds far more than HISTORY_MAX entries, or is longer than 64 MiB. path NULL: nothing
 * is kept on disk. */
bool history_open(const char *path, struct err *err);
/* Adds what was sent, UTF-8, unless it equals the entry before, and appends it to the file. A
 * pasted line that looks like a command is kept as //, so that it is a message again when it is
 * sent again. A write that fails is reported once, the first time. */
bool history_remember(const char *sent, bool is_pasted, struct err *err);
void history_close(void);

/* Adds the entries of a file's bytes to readline's list; returns how many there were. What is
 * no text, or would move the terminal when it is shown, is left out. */
size_t history_take(const char *bytes, size_t n_bytes);

/* The escapes of the file: appends the entry of a line, the line of an entry. Pure. */
void history_encode(struct buf *out, const char *entry);
void history_decode(struct buf *out, const char *line, size_t n);

#endif
