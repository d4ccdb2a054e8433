/* hearth bench --table: a model's speed by depth, rows, threads and instruction set.
 *
 * A line is one step of `rows` rows at position `depth`, the median of at least five: rows 1 is
 * decode, a few are what verifies drafts (with the logits of every row), many are prefill (with
 * those of the last). Keys and values up to the depth are zeros, which take as long to read as
 * any. Main thread. */
#ifndef APP_BENCH_TABLE_H
#define APP_BENCH_TABLE_H

#include <stdbool.h>

struct options;

/* Lists are numbers, names or paths with commas between, NULL: "0", "1,2,4,8,512", what the
 * options say. compare: a CSV that --csv printed earlier, or NULL. */
struct bench_table {
    const char *depths, *rows, *threads, *isas, *models;
    const char *compare;
    bool csv, json;
};

/* Prints the table; returns the exit status. */
int bench_table(const struct options *o, const struct bench_table *t);

#endif
