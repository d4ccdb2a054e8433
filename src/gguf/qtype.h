/* Weight types of GGUF files: names, block sizes, block layouts, exact decoding.
 *
 * One row per type, pure functions, any thread. Decoding here gives the value a file means, bit
 * for bit (`hearth inspect dequant`); how a kernel rounds a product is not known here. */
#ifndef GGUF_QTYPE_H
#define GGUF_QTYPE_H

#include <stddef.h>
#include <stdint.h>

/* The numbers are those of the file format. */
enum qtype {
    QTYPE_F32 = 0,
    QTYPE_F16 = 1,
    QTYPE_Q4_0 = 2,
    QTYPE_Q4_1 = 3,
    QTYPE_Q5_0 = 6,
    QTYPE_Q5_1 = 7,
    QTYPE_Q8_0 = 8,
    QTYPE_Q2_K = 10,
    QTYPE_Q3_K = 11,
    QTYPE_Q4_K = 12,
    QTYPE_Q5_K = 13,
    QTYPE_Q6_K = 14,
    QTYPE_IQ2_XXS = 16,
    QTYPE_IQ2_XS = 17,
    QTYPE_IQ3_XXS = 18,
    QTYPE_IQ1_S = 19,
    QTYPE_IQ4_NL = 20,
    QTYPE_IQ3_S = 21,
    QTYPE_IQ2_S = 22,
    QTYPE_IQ4_XS = 23,
    QTYPE_IQ1_M = 29,
    QTYPE_BF16 = 30,
    QTYPE_TQ1_0 = 34,
    QTYPE_TQ2_0 = 35,
    QTYPE_MXFP4 = 39,
    QTYPE_NVFP4 = 40,
    QTYPE_Q1_0 = 41,
    QTYPE_Q2_0 = 42,
};

struct qtype_info {
    enum qtype type;
    const char *name;     /* "Q4_K" */
    uint32_t block_len;   /* values per block: 1, 32, 64, 128 or 256 */
    uint32_t block_bytes; /* bytes per block */
};

/* The row of a type number of a file; NULL if hearth does not read it. Static. */
const struct qtype_info *qtype_info(uint32_t type);
/* The row with that name, any case; NULL if there is none. */
const struct qtype_info *qtype_by_name(const char *name);
/* The i-th row, NULL past the end: for listing. */
const struct qtype_info *qtype_at(size_t i);
/* The name a file's type number has elsewhere ("Q4_0_4_4"), for refusals; never NULL. */
const char *qtype_foreign_name(uint32_t type);

/* Bytes of n_values values (a multiple of block_len). */
size_t qtype_bytes(enum qtype type, size_t n_values);

/* Decodes n_values values (a multiple of block_len) from blocks to out, bit-equal to
 * conformance/quants. blocks need no alignment. */
void qtype_dequant(enum qtype type, const void *blocks, size_t n_values, float *out);

#endif
