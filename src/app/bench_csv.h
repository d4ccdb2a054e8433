/* The lines of hearth bench --table as CSV: as --csv prints them, and as --compare reads them
 * again. Pure; the file is anybody's. */
#ifndef APP_BENCH_CSV_H
#define APP_BENCH_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { BENCH_MAX_LINES = 1024 };

/* What a line is known by, then its figures. */
struct bench_line {
    char model[64], isa[16], kv[8];
    uint32_t n_threads, depth, n_rows;
    double ms, tok_s, gb_s, read_gb_s;
};

struct bench_lines {
    struct bench_line lines[BENCH_MAX_LINES];
    size_t n;
};

/* Appends the lines under their heading. */
void bench_csv_print(const struct bench_lines *t, struct buf *out);
/* Reads text[0..n) of the file called name into *out (empty). Headings, blank lines and what
 * stands behind the tenth column are left out. ERR_FORMAT on a line with fewer columns, or a
 * figure that is negative or not finite, or a speed of 0, which has no ratio: also where --csv
 * printed it, as it does below 0.005 tokens per second; or if there is no line at all. */
bool bench_csv_read(const char *text, size_t n, const char *name, struct bench_lines *out,
                    struct err *err);
/* The speed of a line to that of the same line then; 0: there is none. */
double bench_csv_ratio(const struct bench_line *l, const struct bench_lines *then);

#endif
