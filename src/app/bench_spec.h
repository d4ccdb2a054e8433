/* hearth bench --spec: what drafts gain, by workload and length. */
#ifndef APP_BENCH_SPEC_H
#define APP_BENCH_SPEC_H

#include <stdbool.h>
#include <stdint.h>

struct options;

struct bench_spec {
    const char *lengths;   /* numbers of 0 to 16 with commas between; NULL: a selection */
    const char *workloads; /* names with commas between; NULL: all */
    const char *repeats;   /* runs of each length, alternating; NULL: 5 */
    uint32_t n_gen;        /* most tokens of a reply; 0: 128 */
    bool json;
};

/* Measures each length, and the one that hearth chooses by itself, against plain decoding, in
 * turns, and takes medians. A reply that ends by itself and one that is kept going are apart;
 * one that only repeats itself proves no gain and is marked. Returns the exit status; a length
 * that gave other tokens than plain decoding is a failure. */
int bench_spec(const struct options *o, const struct bench_spec *b);

#endif
