/* `hearth bench`: how fast a model runs on this machine. Main thread. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "app/subcommand.h"

/* Measures what the mode on the command line says (bench_modes.h), prefill and decode if there
 * is none. argv[0] is "bench", self its row; returns the exit status. */
int bench_run(const struct subcommand *self, int argc, char **argv);

/* Its own options, modes and all, for the completion: sets *out to number i; false past the
 * last. */
bool bench_option_at(size_t i, struct subcommand_option *out);

#endif
