/* Which of many remembered moments to forget, so that those that stay lie the further apart the
 * older they are. Pure, any thread; it knows no snapshots. */
#ifndef CACHE_THIN_H
#define CACHE_THIN_H

#include <stddef.h>
#include <stdint.h>

/* The index to forget among at[0..n), ascending, n > n_newest + 1: the one whose neighbours are
 * closest to each other in proportion to its age. The n_newest last and the first stay. */
size_t thin_victim(const uint64_t *at, size_t n, size_t n_newest);

#endif
