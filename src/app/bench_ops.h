/* hearth bench --ops: what each kind of op of a model takes, by the device's own clock. */
#ifndef APP_BENCH_OPS_H
#define APP_BENCH_OPS_H

#include <stdbool.h>

struct options;

/* Prints a line per kind of op, or one JSON object: milliseconds of a token at position 512 and
 * of a prefill of 512 (fewer where the context is shorter), every op waiting for the one
 * before. Returns the exit status. */
int bench_ops(const struct options *o, bool json);

#endif
