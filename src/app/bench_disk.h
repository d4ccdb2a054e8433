/* hearth bench --disk: what keeping a conversation on disk costs, and what it gives. */
#ifndef APP_BENCH_DISK_H
#define APP_BENCH_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "config/options.h"

/* After a conversation of n_prompt tokens, at least 64: what saving one more turn writes and
 * how long it takes; the first token of a turn warm and after a restart; and the speed of
 * prefill and of n_gen decoded tokens with and without writing, in turn. Prints lines, or one
 * JSON object. Returns the exit status. */
int bench_disk(const struct options *o, uint32_t n_prompt, uint32_t n_gen, bool json);

#endif
