/* The disk behind a timeline: which page of which tokens is asked of the store and given to it.
 *
 * It follows one sequence of tokens and keeps the keys of its pages. Everything may miss, at
 * any time; the timeline computes then. What the files of a model contain may not be known yet:
 * until then nothing is found and nothing is kept. The machine owns it, the timeline borrows
 * it; the engine's thread only. */
#ifndef ENGINE_DISK_H
#define ENGINE_DISK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"
#include "cache/store.h"

struct backend;
struct disk;
struct gguf;
struct program;
struct tree;

struct disk_config {
    const char *dir;     /* hearth's folder in the user's cache */
    uint64_t cap_bytes;  /* of all pages on disk */
    const char *name;    /* of the model, for the eyes */
    float adapter_scale; /* of the model's adapter; 0: it has none */
    const char *inexact; /* the device whose bits are not the CPU's: its pages are its own;
                            NULL: they are */
};

/* All that is given is borrowed and outlives it. */
struct disk *disk_new(const struct disk_config *config, struct backend *be,
                      const struct gguf *g, const struct program *program);
/* Waits until all that was put is written. NULL is fine. */
void disk_free(struct disk *d);

/* Whether pages can be named: the model's content is known. */
bool disk_is_ready(struct disk *d);
/* Waits until they can. False: *cancel (may be NULL) became true, or they never can, as the
 * model's file was written to. */
bool disk_make_ready(struct disk *d, const atomic_bool *cancel);
/* Whether it is known that they never can: nothing is found, and what is given is dropped. */
bool disk_is_never_ready(struct disk *d);

/* From now on it is about ids[0..n), copied. Ready only. */
void disk_follow(struct disk *d, const int32_t *ids, size_t n);

/* How many pages of the sequence there may be from the first-th on, without a gap. Where no
 * layer sees everything, pages hold nothing but windowed rows, if that: all are there, and none
 * is kept. */
size_t disk_n_pages(struct disk *d, size_t first);
/* Pages first.. of the sequence into pages[0..n), the backend's, on several threads. Returns
 * how many came; the others hold what they held, or their own rows. Ends early once *cancel is
 * true. */
size_t disk_get_pages(struct disk *d, size_t first, size_t n, void *const *pages,
                      const atomic_bool *cancel);
/* Whether there may be a snapshot of its first n tokens. */
bool disk_has_snapshot(struct disk *d, size_t n);
/* The most tokens, more than least and at most `most` of its first, of which there may be a
 * snapshot; 0: none. For many it looks through the folder, once until the next disk_follow. */
size_t disk_find_snapshot(struct disk *d, size_t least, size_t most);
/* The logits after n tokens, the recurrent states (bytes until the next call; NULL without
 * any), and the rows since the last whole page into the parts of a page (NULL: that part is not
 * wanted). False: a miss, the page is as before; logits may hold rubbish. */
bool disk_get_snapshot(struct disk *d, size_t n, float *logits, const void **states,
                       void *const page[PAGE_PARTS]);
/* Whether there may be the windowed part of page i; it into part, one of the backend's. */
bool disk_has_window(struct disk *d, size_t i);
bool disk_get_window(struct disk *d, size_t i, void *part);

/* Whether the engine computes from now on: then writing keeps out of its way. */
void disk_set_busy(struct disk *d, bool is_busy);

/* Gives page i of the path of t, which is whole; where the host's memory has it, it is lent,
 * not copied. False: the queue is full, give it again later. */
bool disk_put_page(struct disk *d, size_t i, struct tree *t);
/* The same of its windowed part. */
bool disk_put_window(struct disk *d, size_t i, const void *part);
/* Gives the snapshot of its first n tokens; logits, states and page (that of the last of them)
 * as above; false: as above. Of those given before only the newest few are kept and, of models
 * with states or windows, some that are older, the further apart the older they are. */
bool disk_put_snapshot(struct disk *d, size_t n, const float *logits, const void *states,
                       void *const page[PAGE_PARTS]);
/* Waits until there is room in the queue. */
void disk_drain(struct disk *d);
/* Notes that the pages of the sequence were used now. */
void disk_touch(struct disk *d);

/* Why nothing is kept any more: true for the first call after that is so. */
bool disk_trouble(struct disk *d, struct err *err);
struct store_counts disk_counts(struct disk *d);

#endif
