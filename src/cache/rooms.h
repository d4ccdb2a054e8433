/* Memory that blobs wait in until they are written.
 *
 * A room whose blob was written stays for the next of its size, as under a hypervisor fresh
 * memory comes from the host at the first touch; more than ROOMS_SPARE are not kept. The store
 * owns it; any thread may call. It knows no blobs. */
#ifndef CACHE_ROOMS_H
#define CACHE_ROOMS_H

#include <pthread.h>
#include <stddef.h>

/* A turn on the CPU needs two, for its snapshots. */
enum { ROOMS_SPARE = 2 };

struct room {
    void *data;
    size_t n_bytes;
};

struct rooms {
    pthread_mutex_t lock;
    struct room spare[ROOMS_SPARE]; /* the oldest first */
    size_t n;
};

void rooms_init(struct rooms *r);
void rooms_destroy(struct rooms *r);

/* n_bytes > 0 that hold anything; NULL if there is no memory, even with what is spare. */
void *rooms_take(struct rooms *r, size_t n_bytes);
/* Keeps one for the next of its size. data may be NULL. */
void rooms_keep(struct rooms *r, void *data, size_t n_bytes);
/* Gives back what is spare. */
void rooms_clear(struct rooms *r);

#endif
