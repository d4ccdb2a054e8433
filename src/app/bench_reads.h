/* The machine's read bandwidth, which decode is measured against. */
#ifndef APP_BENCH_READS_H
#define APP_BENCH_READS_H

#include <stdbool.h>

#include "base/err.h"

/* 1 GiB read in order by n_threads threads, the best of five, in GB/s. */
bool bench_reads(int n_threads, double *gb_s, struct err *err);

#endif
