/* What the parts of `hearth bench` share: seeded ids, medians, a folder to write in. Main
 * thread. */
#ifndef APP_BENCH_TOOLS_H
#define APP_BENCH_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"

/* Appends n random ids below n_vocab; *drawn counts those drawn so far. */
void bench_random_ids(struct ids *ids, size_t n, size_t n_vocab, uint32_t *drawn);

/* The middle of v[0..n), the upper one of an even number; n is not 0. */
double bench_median(const double *v, size_t n);

/* Makes an empty folder below TMPDIR; its path is appended to path, "" if that fails. */
bool bench_folder_make(struct buf *path, struct err *err);
/* Removes it with all that is in it, if there is one, and frees path. */
void bench_folder_remove(struct buf *path);

#endif
