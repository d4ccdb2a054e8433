/* The reading half of a store: files of blobs into contents.
 *
 * A row of blobs is read on a few threads, each of which reads, checks and unpacks files of its
 * own; they live as long as the call. Whatever is wrong with a file is a miss, and a damaged
 * one is removed. The store owns a reader and lends it its names; one thread at a time. */
#ifndef CACHE_READER_H
#define CACHE_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/blob.h"

struct reader;

/* dir and model as for store_files_path, borrowed. */
struct reader *reader_new(const char *dir, const char *model);
void reader_free(struct reader *r); /* NULL is fine */

/* Fills raw[0..n_raw), as store_get does. */
bool reader_get(struct reader *r, const struct blob_id *id, void *raw, size_t n_raw);

/* The arguments of store_get_row. */
struct reader_row {
    const struct blob_id *ids; /* [n] */
    size_t n, n_raw;
    void (*got)(void *user, size_t i, const void *raw);
    void *user;
    const atomic_bool *cancel;
};

/* How many came, as store_get_row says. */
size_t reader_get_row(struct reader *r, const struct reader_row *row);

#endif
