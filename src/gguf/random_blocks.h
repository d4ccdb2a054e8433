/* Random weight blocks of any type with a given standard deviation: for models that benchmarks
 * and tests run. Pure; the same seed gives the same bytes. */
#ifndef GGUF_RANDOM_BLOCKS_H
#define GGUF_RANDOM_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/qtype.h"

/* What a type's blocks need to reach a deviation; made once per tensor. */
struct random_blocks {
    enum qtype type;
    uint16_t d, dmin; /* binary16 of the block's scales, where it has them */
    uint8_t exponent; /* E8M0 of MXFP4, E4M3 of NVFP4 */
    float sigma;      /* F32, F16 and BF16 */
    uint64_t state;
};

struct random_blocks random_blocks_new(enum qtype type, float sigma, uint64_t seed);
/* The next n_values values (a multiple of the block length) as blocks to out. */
void random_blocks_fill(struct random_blocks *r, void *out, size_t n_values);
/* The next float, roughly normal with deviation 1. */
float random_blocks_normal(struct random_blocks *r);

#endif
