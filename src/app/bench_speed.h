/* hearth bench by itself: how fast a model prefills and decodes. */
#ifndef APP_BENCH_SPEED_H
#define APP_BENCH_SPEED_H

#include <stdbool.h>
#include <stdint.h>

struct options;

/* Prefills n_prompt seeded random ids and decodes n_gen after them; 0: 512 and 64, or what the
 * context holds. Prints the speed of both, the bytes decode moves, the read bandwidth of the
 * same threads and a hash of the last logits; lines, or one JSON object. Returns the exit
 * status. */
int bench_speed(const struct options *o, uint32_t n_prompt, uint32_t n_gen, bool json);

#endif
