/* The weight types IQ1 to IQ3, whose blocks of 256 name runs of values by their index in a
 * grid.
 *
 * A block is read in groups of 32 values. A value is
 *     d · unit · scale · table[code]
 * d binary16 (half_f16_to_f32), scale odd, 1..31, of the value's half of the group; the product
 * of all four is exact as float. A code is three bits, or four for IQ3: the magnitude's, which
 * the grid gives, and above them the sign. Pure, any thread; bit-equal to what the file format
 * means. */
#ifndef GGUF_QGRID_H
#define GGUF_QGRID_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "gguf/qtype.h"

/* X(type, name) of every such type. */
#define QGRID_TYPES(X)        \
    X(QTYPE_IQ1_S, iq1_s)     \
    X(QTYPE_IQ1_M, iq1_m)     \
    X(QTYPE_IQ2_XXS, iq2_xxs) \
    X(QTYPE_IQ2_XS, iq2_xs)   \
    X(QTYPE_IQ2_S, iq2_s)     \
    X(QTYPE_IQ3_XXS, iq3_xxs) \
    X(QTYPE_IQ3_S, iq3_s)

/* What indices stand for: IQ2 and IQ1 eight values, two bits each, IQ3 four, four bits each;
 * the first at the lowest bits. */
extern const uint16_t qgrid_iq2_xxs[256], qgrid_iq2_xs[512], qgrid_iq2_s[1024];
extern const uint16_t qgrid_iq3_xxs[256], qgrid_iq3_s[512];
extern const uint16_t qgrid_iq1[2048];

/* Values by codes; those of three bits twice over. IQ1 means -1, 0 and 1, all of them an eighth
 * higher or lower. */
extern const int8_t qgrid_values_iq1[16], qgrid_values_iq2[16];
extern const int8_t qgrid_values_iq3_xxs[16], qgrid_values_iq3_s[16];

#define QGRID_UNIT_IQ1 0.125f
#define QGRID_UNIT_IQ2 0.125f
#define QGRID_UNIT_IQ3_XXS 0.25f
#define QGRID_UNIT_IQ3_S 1.0f

/* In the blocks, runs of eight values are numbered 0..31, groups 0..7. Signs are a bit per
 * value, 1: negative; "seven signs" leave out the eighth of a run, which makes their number
 * even. Integers are little-endian. */

/* Per group a byte of index for each of four runs, then 32 bits: four times seven signs, and
 * above them s, scale = 2 s + 1 */
struct block_iq2_xxs {
    uint16_t d;
    uint8_t groups[8][8];
};

/* Per run 9 bits of index, above them seven signs; scales[g]: s of the first and second half of
 * the group in the low and high four bits */
struct block_iq2_xs {
    uint16_t d;
    uint16_t runs[32];
    uint8_t scales[8];
};

/* Low eight bits of each run's index, its signs; bits 8 and 9 of run r in bits 2 (r % 4) of
 * high[r / 4]; scales as in iq2_xs */
struct block_iq2_s {
    uint16_t d;
    uint8_t low[32], signs[32];
    uint8_t high[8], scales[8];
};

/* A byte of index for each four values; per group the 32 bits of iq2_xxs */
struct block_iq3_xxs {
    uint16_t d;
    uint8_t fours[64];
    uint8_t signs[8][4];
};

/* Low eight bits of the index of each four values, bit 8 of the j-th of a group in bit j of
 * high; signs of each run; s of groups 2 i and 2 i + 1 in the low and high four bits of
 * scales[i] */
struct block_iq3_s {
    uint16_t d;
    uint8_t fours[64];
    uint8_t high[8], signs[32];
    uint8_t scales[4];
};

/* Low eight bits of each run's index, three more of run j of the group in bits 3 j of high, s
 * in bits 12 to 14, and in bit 15 whether values are lower */
struct block_iq1_s {
    uint16_t d;
    uint8_t low[32];
    uint16_t high[8];
};

/* The same with a nibble of high per run: three bits of index, and whether its values are
 * lower; s of group g's halves in bits 6 (g % 2) and 6 (g % 2) + 3 of scales[g / 2]; the upper
 * four bits of these words, the first lowest, are d */
struct block_iq1_m {
    uint8_t low[32];
    uint8_t high[16];
    uint16_t scales[4];
};

static_assert(sizeof(struct block_iq2_xxs) == 66, "iq2_xxs");
static_assert(sizeof(struct block_iq2_xs) == 74, "iq2_xs");
static_assert(sizeof(struct block_iq2_s) == 82, "iq2_s");
static_assert(sizeof(struct block_iq3_xxs) == 98, "iq3_xxs");
static_assert(sizeof(struct block_iq3_s) == 110, "iq3_s");
static_assert(sizeof(struct block_iq1_s) == 50, "iq1_s");
static_assert(sizeof(struct block_iq1_m) == 56, "iq1_m");

/* What is the same in all blocks of a type; table NULL: no type of grids. */
struct qgrid {
    const int8_t *table;
    float unit;
    bool halves; /* halves of a group have scales of their own */
};
struct qgrid qgrid_of(enum qtype type);

/* Of a block at any address: d, binary16; the scales of all half groups; the codes of group g,
 * 0..7. */
uint16_t qgrid_d(enum qtype type, const void *block);
void qgrid_put_d(enum qtype type, void *block, uint16_t d);
void qgrid_scales(enum qtype type, const void *block, uint8_t scale[16]);
void qgrid_codes(enum qtype type, const void *block, size_t g, uint8_t code[32]);

#endif
