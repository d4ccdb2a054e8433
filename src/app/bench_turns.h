/* hearth bench --turns: the time to the first token of turns that share tokens with what was
 * computed before. */
#ifndef APP_BENCH_TURNS_H
#define APP_BENCH_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/options.h"

/* Measures turns on a prompt of n_prompt tokens, at least 64; 0: 571. Prints a line per kind of
 * turn, or one JSON object. Returns the exit status. */
int bench_turns(const struct options *o, uint32_t n_prompt, bool json);

#endif
