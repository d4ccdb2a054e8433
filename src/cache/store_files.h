/* The folder of blobs: <dir>/<model>/<key>.<kind>, where each lies whole or not at all.
 *
 * Several processes share the folder without knowing each other: a blob appears by rename, is
 * never changed after that, and may vanish at any moment. Only removing many at once (the size
 * cap, clear) takes the lock file <dir>/.lock. The time of a file is when it was last used.
 * Folders are 0700 and files 0600 from creation. Any thread may call; nothing here knows what a
 * page is for. */
#ifndef CACHE_STORE_FILES_H
#define CACHE_STORE_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "cache/blob.h"

/* The path of a blob, to free(). model is made a harmless file name. */
char *store_files_path(const char *dir, const char *model, enum blob_kind kind,
                       const struct key *key);

/* Makes the folders of a blob's path; ERR_IO if they cannot be, or cannot be written to. */
bool store_files_prepare(const char *path, struct err *err);
/* Writes a new file whole: a temporary one beside it, then rename; makes the folders. On
 * failure nothing is left behind. */
bool store_files_write(const char *path, const void *data, size_t n_bytes, struct err *err);
/* Notes that the blob was used. Pages far from the beginning of a conversation count as a
 * little older than those before them: without these they are worth nothing, so they go first.
 */
void store_files_touch(const char *path, uint64_t n_tokens);

struct store_file {
    const char *model, *path; /* for the call */
    enum blob_kind kind;
    uint64_t n_bytes;
    struct timespec used;
};

typedef void store_file_fn(void *user, const struct store_file *file);

/* Calls fn for every blob below dir, in no order. A missing dir has none. */
bool store_files_walk(const char *dir, store_file_fn *fn, void *user, struct err *err);

/* The keys of a model's blobs of a kind, sorted by key_compare; *n of them, to free(). NULL:
 * there is none, or the folder cannot be read. No file is looked at. */
struct key *store_files_keys(const char *dir, const char *model, enum blob_kind kind,
                             size_t *n);

struct store_total {
    size_t n;
    uint64_t n_bytes;
};

/* How long who removes many at once goes on. */
struct store_patience {
    bool waits;              /* for another process that is at it */
    const atomic_bool *stop; /* true: no longer; NULL: to the end */
};

/* Removes the least recently used blobs until at most keep_bytes are left, and temporary files
 * that a killed process left an hour ago or earlier. What is left goes to *left, what was
 * removed to *removed; both may be NULL. ERR_CANCELLED where the patience was too short. */
bool store_files_shrink(const char *dir, uint64_t keep_bytes,
                        const struct store_patience *patience, struct store_total *left,
                        struct store_total *removed, struct err *err);

#endif
