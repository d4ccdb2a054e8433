/* What decode is measured against: how fast its memory gives the weights, with nothing to
 * compute. It measures on the caller's machine, which nobody uses meanwhile; the main thread.
 */
#ifndef APP_BENCH_READS_H
#define APP_BENCH_READS_H

#include <stdbool.h>

#include "base/err.h"

struct machine;

/* GB/s at which the CPU's threads just read the weights (cpu_read_speed); of a device what its
 * copies read and write. */
bool bench_reads(const struct machine *m, double *gb_s, struct err *err);

#endif
