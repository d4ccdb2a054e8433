/* Random weights of any type, for the tests of products. Include ops.h first. */
#ifndef TESTS_MATMUL_CASE_H
#define TESTS_MATMUL_CASE_H

#include "gguf/qgrid.h"
#include "gguf/qtype.h"

/* Where the binary16 scales of a block stand. */
static inline void scale_places(enum qtype type, size_t at[2], size_t *n)
{
    size_t end = qtype_info(type)->block_bytes;
    at[0] = 0;
    at[1] = 2;
    *n = 1;
    if (type == QTYPE_Q4_1 || type == QTYPE_Q5_1 || type == QTYPE_Q4_K || type == QTYPE_Q5_K)
        *n = 2;
    if (type == QTYPE_Q2_K) at[0] = end - 4, at[1] = end - 2, *n = 2;
    if (type == QTYPE_Q3_K || type == QTYPE_Q6_K || type == QTYPE_TQ1_0 || type == QTYPE_TQ2_0)
        at[0] = end - 2;
}

/* Random blocks with sensible scales, now and then 0, denormal, negative or large. */
static inline void random_blocks(enum qtype type, uint8_t *p, size_t n_values)
{
    const struct qtype_info *info = qtype_info(type);
    size_t n_bytes = qtype_bytes(type, n_values), at[2], n_at;
    for (size_t i = 0; i < n_bytes; i++)
        p[i] = (uint8_t)random_u64();
    if (type == QTYPE_F32) {
        for (size_t i = 0; i < n_values; i++) {
            float f = (float)random_normal();
            if (random_u64() % 50 == 0) f *= 1e-30f;
            memcpy(p + 4 * i, &f, 4);
        }
        return;
    }
    scale_places(type, at, &n_at);
    for (size_t b = 0; b < n_bytes; b += info->block_bytes) {
        uint8_t *block = p + b;
        if (type == QTYPE_F16 || type == QTYPE_BF16) {
            /* Exponents about 1, any mantissa and sign; some denormal or zero. */
            uint16_t bits = (uint16_t)(random_u64() & 0x83ff);
            if (random_u64() % 50 != 0) bits |= type == QTYPE_F16 ? 0x3800 : 0x3e00;
            memcpy(block, &bits, 2);
            continue;
        }
        if (type == QTYPE_MXFP4) {
            block[0] =
                (uint8_t)(random_u64() % 40 == 0 ? random_u64() % 90 : 118 + random_u64() % 8);
            continue;
        }
        if (type == QTYPE_NVFP4) {
            /* Any scales, of 0, below the first exponent and NaN too, which counts as 0. */
            for (size_t i = 0; i < 4; i++) {
                const uint64_t odd = random_u64() % 12;
                block[i] = (uint8_t)(odd == 0   ? random_u64()
                                     : odd == 1 ? random_u64() % 9
                                     : odd == 2 ? 0x7f
                                                : 0x30 + random_u64() % 16);
            }
            continue;
        }
        for (size_t i = 0; i < n_at; i++) {
            uint16_t bits = (uint16_t)(0x1c00 + random_u64() % 0x0800);
            uint64_t odd = random_u64() % 60;
            if (odd == 0) bits = 0;
            if (odd == 1) bits = 0x0003;
            if (odd == 2) bits |= 0x8000;
            if (odd == 3) bits = 0x6400;
            if (qgrid_of(type).table)
                qgrid_put_d(type, block, bits);
            else
                memcpy(block + at[i], &bits, 2);
        }
    }
}

#endif
