/* The store: pages and snapshots of one model on disk, under a key of what they were computed
 * from, so that any conversation that begins alike starts warm.
 *
 * Getting reads a file at once, or a row of them on a few threads. Putting hands the bytes to a
 * queue, or lends them to it; a writer thread of idle priority packs and writes them, so
 * nothing waits for it but store_flush. While the owner is busy the thread stands still:
 * packing a page costs as much as computing some of its tokens, and they have time. The store
 * is a convenience: whatever is wrong with a file is a miss, what a kill left in the queue too,
 * and a folder that cannot be written is said once and then left alone. Several processes may
 * share the folder (cache/store_files.h).
 *
 * The engine owns it and is the only thread that calls. It knows no page layout: contents are
 * bytes of a size that the caller knows. */
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pieces.h"
#include "cache/blob.h"

struct store;

/* A store in dir (made if it is not there) for model, a name for the eyes: what tells models
 * apart is the key. The folder as a whole is kept to cap_bytes, more or less: a process looks
 * each time that it has written a sixteenth of them, unless another is just removing some.
 * Never NULL. */
struct store *store_new(const char *dir, const char *model, uint64_t cap_bytes);
/* Writes what is queued and frees it; NULL is fine. */
void store_free(struct store *s);

/* Fills raw[0..n_raw) with the blob's content, if it is there, sound, of these tokens and this
 * size. A damaged file is removed. On false raw holds rubbish. */
bool store_get(struct store *s, const struct blob_id *id, void *raw, size_t n_raw);
/* Receives the content of blob i, raw for the call: one call at a time, from any thread. */
typedef void store_got_fn(void *user, size_t i, const void *raw);
/* Reads ids[0..n), all of n_raw bytes, in any order, up to the first that misses. Returns how
 * many came, the first ones; got may have been called for later ones too. Begins none once
 * *cancel (may be NULL) is true. */
size_t store_get_row(struct store *s, const struct blob_id *ids, size_t n, size_t n_raw,
                     store_got_fn *got, void *user, const atomic_bool *cancel);
/* Whether n_raw > 0 bytes may be put now: the queue has room, and writing has not stopped. */
bool store_has_room(struct store *s, size_t n_raw);
/* Memory for n_raw > 0 bytes, which hold anything, to be filled and put or returned. Two rooms
 * that were written are kept for a minute, for the next of their size. NULL if writing has
 * stopped; if the queue is full or there is no memory: ask again when some of the queue is
 * written. Without memory even while nothing is queued, writing stops. */
void *store_room(struct store *s, size_t n_raw);
/* Gives back room of n_raw bytes that is not put. */
void store_return(void *room, size_t n_raw);
/* Queues raw[0..n_raw), which came from store_room and now belongs to the store, to be written
 * unless it is there. element_bytes as in blob_content. */
void store_put(struct store *s, const struct blob_id *id, void *raw, size_t n_raw,
               unsigned element_bytes);
/* The same of bytes that stay the caller's, who does not change them until the store has
 * counted *n_readers down by one. It does so once, on any thread, written or not. */
void store_put_lent(struct store *s, const struct blob_id *id, struct pieces raw, size_t n_raw,
                    unsigned element_bytes, atomic_uint *n_readers);
/* Whether the owner needs the processor for other work from now on; at first it does not. */
void store_set_busy(struct store *s, bool is_busy);
/* Notes that the blob was used now: the least recently used go first. */
void store_touch(struct store *s, const struct blob_id *id);
/* Removes the blob from disk and from the queue, but for one that is being written: it will not
 * be asked for again. */
void store_drop(struct store *s, const struct blob_id *id);
/* Returns when all that was put is on disk, or never will be. The caller helps writing, on a
 * few threads. */
void store_flush(struct store *s);

/* Whether the blob is on disk, sound or not: cheaper than store_get where there mostly is none.
 */
bool store_has(struct store *s, const struct blob_id *id);
/* The keys of all blobs of a kind that are on disk, by one look at the folder: cheaper than
 * many a store_has. Sorted by key_compare, *n of them, to free(); NULL: none. */
struct key *store_keys(struct store *s, enum blob_kind kind, size_t *n);
/* Whether the blob was put and is not written yet, but for the one that is being written. */
bool store_waits(struct store *s, const struct blob_id *id);

/* Whether writing has stopped: what is put is dropped. */
bool store_is_broken(struct store *s);
/* Why writing has stopped: true for the first call after it has. */
bool store_trouble(struct store *s, struct err *err);

/* What it has written so far. */
struct store_counts {
    size_t n_written;
    uint64_t written_bytes; /* of contents */
    uint64_t packed_bytes;  /* of the files */
};

struct store_counts store_counts(struct store *s);

#endif
