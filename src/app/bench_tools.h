/* What the parts of `hearth bench` share: the numbers of its options, seeded ids, medians, a
 * folder to write in. Main thread. */
#ifndef APP_BENCH_TOOLS_H
#define APP_BENCH_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"

struct machine;

/* Appends n random ids below n_vocab; *drawn counts those drawn so far. */
void bench_random_ids(struct ids *ids, size_t n, size_t n_vocab, uint32_t *drawn);

/* The number that text is, from least to most; name is the option's. False and err on any other
 * text. */
bool bench_count_parse(const char *name, const char *text, uint32_t least, uint32_t most,
                       uint32_t *out, struct err *err);

/* Numbers with commas between. */
enum { BENCH_LIST_MOST = 16 };
struct bench_list {
    uint32_t v[BENCH_LIST_MOST];
    size_t n;
};
/* The same of 1 to BENCH_LIST_MOST numbers. */
bool bench_list_parse(const char *name, const char *text, uint32_t least, uint32_t most,
                      struct bench_list *out, struct err *err);

/* The middle of v[0..n), the upper one of an even number; n is not 0. */
double bench_median(const double *v, size_t n);

/* By how many percent something is more than its counterpart, and between what that lies with a
 * probability of 95 % at least, however the noise is spread, if the pairs do not hang together.
 */
struct bench_change {
    double median, low, high;
};
enum { BENCH_SURE_PAIRS = 6 }; /* of fewer not even all lie so that it is as likely */
/* Of pairs a[i], b[i], i < n: by how much a/b is more than 1. The bounds are those of the sign
 * test; of fewer than BENCH_SURE_PAIRS the least and the most. n is not 0. */
struct bench_change bench_change(const double *a, const double *b, size_t n);

/* Says why a mode failed; the status to end with: ERR_USAGE, numbers and names that were asked
 * for and do not go with the model, is wrong usage, and all else failed while running. */
int bench_failed(const struct err *err);

/* Waits until all that was given to the disks of a machine and its draft is there. False and
 * err if it is not: then the figures are not those of a disk. */
bool bench_is_kept(const struct machine *m, struct err *err);

/* Makes an empty folder below TMPDIR, one at a time; its path is appended to path, which stays
 * as it is until bench_folder_remove, and "" if that fails. It goes away, too, soon after
 * SIGINT, SIGTERM or SIGHUP have ended the program, which has one thread when it calls this:
 * another would let a signal end it at once. */
bool bench_folder_make(struct buf *path, struct err *err);
/* Removes that folder, if there is one, and frees path. */
void bench_folder_remove(struct buf *path);
/* Removes a folder with all that is in it, if there is one. */
void bench_tree_remove(const char *path);

#endif
