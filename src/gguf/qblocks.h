/* The packed blocks of the quantised weight types, as they lie in a file.
 *
 * Each comment gives the value of an entry; d, dmin are binary16 (half_f16_to_f32), q an
 * unsigned field. Values run in order through a block; "lo/hi" means that byte i of a run of
 * 16 (32) bytes holds value i in its low and value i+16 (i+32) in its high four bits. Members
 * are bytes and 16-bit words only, so a block is as large as its fields; blocks in a file may
 * lie at odd addresses, so read a word with bytes_u16 or copy the block. */
#ifndef GGUF_QBLOCKS_H
#define GGUF_QBLOCKS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define QBLOCK_SMALL 32 /* values of a block of the old types, IQ4_NL and MXFP4 */
#define QBLOCK_K 256    /* values of a superblock of the K types and IQ4_XS */

/* d * (q - 8), lo/hi of 16 */
struct block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* d * q + m, lo/hi of 16 */
struct block_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
};

/* d * (q - 16); bit i of qh (little-endian) is bit 4 of value i */
struct block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* d * q + m; fifth bits as in q5_0 */
struct block_q5_1 {
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* d * q */
struct block_q8_0 {
    uint16_t d;
    int8_t qs[32];
};

/* (d * (s & 15)) * q - dmin * (s >> 4), s = scales[i / 16]; 2-bit fields: in each half of 128
 * values, value 32 j + i is at bits 2 j of byte i of that half's 32 */
struct block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
};

/* (d * s) * (q - 4): low two bits in qs as in q2_k, the third for values 32 j + i at bit j of
 * hmask[i]; s = six bits - 32, see qblock_scales_q3_k */
struct block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
};

/* (d * s) * q - dmin * m per 32 values, lo/hi of 32; s, m: see qblock_scales_k */
struct block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
};

/* as q4_k; the fifth bit of value 32 j + i at bit j of qh[i] */
struct block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};

/* (d * scales[i / 16]) * (q - 32); in each half of 128 values: low four bits of values i and
 * 64 + i in ql[i], i < 64 (lo/hi of 64), upper two of 32 j + i at bits 2 j of qh[i] */
struct block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};

/* d * qblock_iq4[q], lo/hi of 16 */
struct block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
};

/* (d * (s - 32)) * qblock_iq4[q], lo/hi of 16; s of group j of 32 values: low four bits in
 * nibble j of scales_l, upper two at bits 2 j of scales_h */
struct block_iq4_xs {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
};

/* 2^(e - 128) * qblock_mxfp4[q], lo/hi of 16 (the table holds the e2m1 values doubled) */
struct block_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
};

/* scale * QBLOCK_UNIT_NVFP4 * qblock_mxfp4[q], scale = qblock_e4m3 of its 16 values' byte,
 * lo/hi of 8: the product of all three is exact */
struct block_nvfp4 {
    uint8_t scales[4];
    uint8_t qs[32];
};
#define QBLOCK_UNIT_NVFP4 0x1p-10f

/* d * (q - 1), q by five digits of a byte to the base of three (qs), or four (qh); see
 * qblock_codes_tq1_0 */
struct block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
};

/* d * (q - 1), 2-bit fields as in q2_k */
struct block_tq2_0 {
    uint8_t qs[64];
    uint16_t d;
};

/* d * (2 q - 1), value i is bit i % 8 of byte i / 8 */
struct block_q1_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* d * (q - 1), value i at bits 2 (i % 4) of byte i / 4 */
struct block_q2_0 {
    uint16_t d;
    uint8_t qs[16];
};

static_assert(sizeof(struct block_q4_0) == 18, "q4_0");
static_assert(sizeof(struct block_q4_1) == 20, "q4_1");
static_assert(sizeof(struct block_q5_0) == 22, "q5_0");
static_assert(sizeof(struct block_q5_1) == 24, "q5_1");
static_assert(sizeof(struct block_q8_0) == 34, "q8_0");
static_assert(sizeof(struct block_q2_k) == 84, "q2_k");
static_assert(sizeof(struct block_q3_k) == 110, "q3_k");
static_assert(sizeof(struct block_q4_k) == 144, "q4_k");
static_assert(sizeof(struct block_q5_k) == 176, "q5_k");
static_assert(sizeof(struct block_q6_k) == 210, "q6_k");
static_assert(sizeof(struct block_iq4_nl) == 18, "iq4_nl");
static_assert(sizeof(struct block_iq4_xs) == 136, "iq4_xs");
static_assert(sizeof(struct block_mxfp4) == 17, "mxfp4");
static_assert(sizeof(struct block_nvfp4) == 36, "nvfp4");
static_assert(sizeof(struct block_tq1_0) == 54, "tq1_0");
static_assert(sizeof(struct block_tq2_0) == 66, "tq2_0");
static_assert(sizeof(struct block_q1_0) == 18, "q1_0");
static_assert(sizeof(struct block_q2_0) == 18, "q2_0");

/* The non-linear four-bit codebook of IQ4_NL and IQ4_XS. */
extern const int8_t qblock_iq4[16];
/* Twice the values of e2m1: 0 0.5 1 1.5 2 3 4 6 and their negatives (minus zero reads as 0). */
extern const int8_t qblock_mxfp4[16];

/* Scales and minimums of the 8 groups of 32 values in a q4_k or q5_k block: six bits each. */
void qblock_scales_k(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8]);
/* Scales of the 16 groups of 16 values in a q3_k block: -32..31. */
void qblock_scales_q3_k(const uint8_t packed[12], int8_t scale[16]);
/* 2^(e - 128), exact down to the denormals of e < 2 (0x1p-128, 0x1p-127). */
float qblock_e8m0_half(uint8_t e);
/* The value of e4m3 without its sign in units of 2^-9, 0 to 480 * 2^9; the NaN 0x7f counts as
 * 0.
 */
uint32_t qblock_e4m3(uint8_t e);

/* The codes of 32 values in order: of group g, 0..7, of a tq1_0 block; of 32 bits, pairs of
 * bits or nibbles of the others. */
void qblock_codes_tq1_0(const struct block_tq1_0 *b, size_t g, uint8_t code[32]);
void qblock_codes_q1_0(const uint8_t bits[4], uint8_t code[32]);
void qblock_codes_q2_0(const uint8_t pairs[8], uint8_t code[32]);
void qblock_codes_nvfp4(const uint8_t qs[16], uint8_t code[32]);

#endif
