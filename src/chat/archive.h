/* A session on disk: a conversation as a log of frames (hearth-session(5)).
 *
 * Writing appends what is new since the last time and nothing else, so that its cost does not
 * grow with the conversation. Reading builds the conversation again; a damaged frame costs what
 * stood in it and is named. One process at a time may write a session: who comes second reads.
 * The file is 0600, its folder 0700, from creation.
 *
 * The chat owns an archive, and the subcommands open some to look into; owner's thread only. It
 * knows no tokens but as numbers, no engine and no face. */
#ifndef CHAT_ARCHIVE_H
#define CHAT_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* The strings of struct archive_state. */
enum { ARCHIVE_MODEL, ARCHIVE_DRAFT, ARCHIVE_SETTINGS, ARCHIVE_KV_TYPE, ARCHIVE_STRINGS };

struct archive;
struct conversation;
struct frames_end;

/* What a session remembers besides its conversation. Strings may be NULL. */
struct archive_state {
    const char *model, *draft; /* names, for the eyes */
    const char *settings;      /* lines of "key value" */
    const char *kv_type;
    uint64_t seed;
    uint64_t numerics; /* version of the arithmetic */
    uint64_t clock_ms; /* what a template takes for the time, since 1970 */
};

/* A session that has no file yet: archive_sync makes it once there is a message. The name must
 * be free then: ERR_USER from archive_sync otherwise. */
struct archive *archive_new(const char *path);
/* Reads a session into c, which is fresh. Appends a line to notes for every damage. NULL:
 * ERR_IO; ERR_FORMAT: no session, or of a newer hearth. */
struct archive *archive_open(const char *path, struct conversation *c, struct buf *notes,
                             struct err *err);
/* The same to look only: without the lock, read only. */
struct archive *archive_look(const char *path, struct conversation *c, struct buf *notes,
                             struct err *err);
/* What errno says of a call that has failed, ERR_IO; a link, which no session is and none is
 * followed, is named. Always false. */
bool archive_refuse(struct err *err, const char *path);
/* Closes the file and gives up the lock; NULL is fine. */
void archive_close(struct archive *a);

const char *archive_path(const struct archive *a);
/* Whether somebody else writes the session, or it may not be written: archive_sync does
 * nothing. */
bool archive_is_read_only(const struct archive *a);
/* … since another hearth has it open; else it may not be written. */
bool archive_is_taken(const struct archive *a);
bool archive_has_file(const struct archive *a);
/* Whether somebody has removed that file or put another in its place, or it cannot be seen:
 * archive_sync fails. */
bool archive_is_lost(const struct archive *a);
/* As read or last written; lives until the next archive_sync. */
const struct archive_state *archive_state(const struct archive *a);

/* Appends what c and state have that the file has not. With durable it returns when that is on
 * the disk, under its name. On failure the file is as it was, or is none again, unless just
 * that wait failed; and the archive stays as it is from now on: the next call does nothing. */
bool archive_sync(struct archive *a, struct conversation *c, const struct archive_state *state,
                  bool durable, struct err *err);
/* Gives the file another name in the same folder; ERR_USER if it is taken. */
bool archive_rename(struct archive *a, const char *path, struct err *err);
/* Whether path is a's own file, there and locked by it: also one of archive_anew. */
bool archive_owns(const struct archive *a, const char *path);
/* A new archive in place of a, which owns its file: what is synced next, all of it, is written
 * beside that file and then takes its place. Until then, and whenever that fails, it stays as
 * it is and locked. */
struct archive *archive_anew(struct archive *a);

/* What a file is read into; all the caller's, none NULL. */
struct archive_into {
    struct conversation *c;
    struct archive_state *state;
    struct buf *strings; /* [ARCHIVE_STRINGS] where those of state live */
    struct buf *notes;   /* a line for all that is not as it was written */
    struct frames_end *end;
};

/* The reading alone, from bytes. name is what errors call it. Pure. */
bool archive_read(const uint8_t *data, size_t n, const char *name,
                  const struct archive_into *into, struct err *err);

#endif
