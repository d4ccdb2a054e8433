/* A persistent pool of worker threads for loops of independent chunks.
 *
 * The thread that calls pool_run takes part, so a pool of one thread has no worker and runs
 * inline. Each thread has a share of chunks that follow one another, so what it reads ahead in
 * memory is its own; whoever is done takes of the others' shares, so a core that another
 * program holds delays one chunk and not the loop. Which thread computes a chunk never shows in
 * a result. Between loops workers spin briefly, then yield, then sleep: an idle pool costs
 * nothing. One thread at a time may call pool_run. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pool;

enum { POOL_MAX_THREADS = 256 };

/* A chunk of a loop. worker is 0..n_threads-1 and never used by two threads at once. */
typedef void pool_fn(void *ctx, size_t chunk, int worker);

/* n_threads: 1..POOL_MAX_THREADS, the caller of pool_run included. NULL: ERR_MEMORY, or ERR_IO
 * where a thread does not start. The workers take no signals but faults. */
struct pool *pool_new(int n_threads, struct err *err);
void pool_free(struct pool *p); /* NULL is fine */
int pool_n_threads(const struct pool *p);
/* Cores that this process may run on, 1..POOL_MAX_THREADS: how many threads suit a pool. */
int pool_usable_cores(void);

/* Calls fn for every chunk 0..n_chunks-1, fewer than 2^32, in any order, and returns when all
 * are done. Once *cancel is true no further chunk begins; then it returns false. cancel may be
 * NULL. */
bool pool_run(struct pool *p, size_t n_chunks, pool_fn *fn, void *ctx,
              const atomic_bool *cancel);

#endif
