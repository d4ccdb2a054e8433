/* The folder of sessions: names and files, and what a list shows of each.
 *
 * A session NAME is the file NAME.session below hearth's folder in the user's state. The chat
 * and the subcommands use it; main thread (it reads the environment). Names of files may hold
 * hostile bytes; those that no session can have are passed over. */
#ifndef CHAT_SESSIONS_H
#define CHAT_SESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct conversation;

/* The file of a session, to free(). ERR_USER: the name cannot be one: it is empty, longer than
 * 100 bytes, begins with a point, or has a slash, a control character or bytes that are no
 * UTF-8 in it; ERR_IO: no folder is known. */
char *sessions_path(const char *name, struct err *err);
/* The name of a file that sessions_path made, to free(). */
char *sessions_name(const char *path);
/* A name for a session that nobody named: the time, "2026-11-21-1407", and beyond attempt 1 its
 * number. */
char *sessions_new_name(unsigned attempt);
/* Whether there has ever been a session. */
bool sessions_any(void);

struct session_file {
    char *name, *path;
    int64_t changed_s; /* since 1970 */
    int64_t changed_ns;
    uint64_t n_bytes;
};

struct session_list {
    struct session_file *items; /* the newest first */
    size_t n, cap;
};

/* All sessions. No folder: none. */
bool sessions_list(struct session_list *list, struct err *err);
void session_list_free(struct session_list *list);

/* Appends what a list says of a session behind its name: when it was changed, how many messages
 * it has and how the first begins; with_file: also its size and its model. Reads the file; one
 * that cannot be read is said to be so. Printable, no line break. */
void session_put_row(const struct session_file *file, bool with_file, struct buf *out);

/* Gives what a write that was cut off has left another name, NAME~ or NAME~2 and so on: a file
 * that is empty or damaged, that nobody has open, and whose messages, as far as they can be
 * read, are all in c. The new name, to free(); NULL: it stays, or there is none. */
char *session_set_aside(const char *path, const struct conversation *c);
/* Removes a session; ERR_USER if somebody has it open. */
bool session_remove(const char *path, struct err *err);

#endif
