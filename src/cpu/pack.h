/* How a matrix is packed for kernels that have a lane per row.
 *
 * Sixteen rows make a panel, a panel is a run of blocks of 32 columns. A line is 64 bytes: four
 * bytes of each row in turn. Codes lie in bit planes, so kernels know widths, not types:
 *   4 bits: four lines; line k holds values 4k..4k+3 in low and 16+4k..16+4k+3 in high nibbles
 *   8 bits: eight lines; line k holds values 4k..4k+3, as signed bytes or plus 128, as kernels
 *     want them
 *   2 bits: two lines; line h holds values 16h+4k..16h+4k+3 at bits 2k
 *   1 more bit (after 4 or 2, or alone): one line; values 4k..4k+3 at bits k. Alone a code is
 *   twice its bit
 *   2 more bits (after 4): two lines, as for 2 bits
 * Types of grids (qgrid.h) lie as codes of their codebooks, three bits or four: that is 3.3 to
 * 4.3 bits a weight where the file has 1.6 to 3.4, but a run of eight weights by its index
 * would be a gather from a table for each row.
 * Before the codes of the file's block, of 32 to 256 columns, stand scales, each as one element
 * per row: f16 d[16], f16 dmin[16] or m[16], then lines of sixteen bytes of integer scales.
 * Float matrices: the sixteen rows' values column by column. Rows beyond the matrix are zero.
 */
#ifndef CPU_PACK_H
#define CPU_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/qgrid.h"

enum { PANEL_ROWS = 16 }; /* packed side by side: a lane is a row */

/* What stands before the codes. */
enum pack_head {
    HEAD_D,      /* d */
    HEAD_D_M,    /* per 32: d, m (added) */
    HEAD_E8,     /* per 32: one byte e, the scale is 2^(e - 128) */
    HEAD_E4,     /* per 64: 4 lines of e4m3 without sign or NaN; one per half block */
    HEAD_K_MIN,  /* per 256: d, dmin, 8 lines of scales, 8 of minimums; a pair per block */
    HEAD_K_D,    /* per 256: d, 8 lines of signed scales; one per block */
    HEAD_K_S,    /* per 256: d, 16 lines of signed scales; one per half block */
    HEAD_K_S_M,  /* per 256: d, dmin, 16 lines of scale | min << 4; one per half block */
    HEAD_FLOATS, /* none */
};

/* X(type, name) of every type whose codes are packed. */
#define PACKED_TYPES(X)     \
    X(QTYPE_Q4_0, q4_0)     \
    X(QTYPE_Q5_0, q5_0)     \
    X(QTYPE_Q8_0, q8_0)     \
    X(QTYPE_Q4_1, q4_1)     \
    X(QTYPE_Q5_1, q5_1)     \
    X(QTYPE_Q2_K, q2_k)     \
    X(QTYPE_Q3_K, q3_k)     \
    X(QTYPE_Q4_K, q4_k)     \
    X(QTYPE_Q5_K, q5_k)     \
    X(QTYPE_Q6_K, q6_k)     \
    X(QTYPE_IQ4_NL, iq4_nl) \
    X(QTYPE_IQ4_XS, iq4_xs) \
    X(QTYPE_MXFP4, mxfp4)   \
    X(QTYPE_NVFP4, nvfp4)   \
    X(QTYPE_TQ1_0, tq1_0)   \
    X(QTYPE_TQ2_0, tq2_0)   \
    X(QTYPE_Q1_0, q1_0)     \
    X(QTYPE_Q2_0, q2_0)     \
    QGRID_TYPES(X)

struct pack_format {
    enum pack_head head;
    uint32_t head_bytes, head_blocks; /* head_blocks: those of a file's block */
    uint32_t bits, more_bits;
    uint32_t code_bytes; /* of a panel's block, without the head */
};

/* Codebooks as kernels read them: a code's value plus an offset, with which none is negative;
 * those of three bits twice over. BOOK_*: two members of a layout. */
extern const uint8_t book_iq1[16], book_iq2[16], book_iq3_xxs[16], book_iq3_s[16];
extern const uint8_t book_iq4[16], book_mxfp4[16];
#define BOOK_IQ1 book_iq1, 9
#define BOOK_IQ2 book_iq2, 43
#define BOOK_IQ3_XXS book_iq3_xxs, 62
#define BOOK_IQ3_S book_iq3_s, 15
#define BOOK_IQ4 book_iq4, 128
#define BOOK_MXFP4 book_mxfp4, 12

/* Static; for floats only head is set. */
const struct pack_format *pack_format(enum qtype type);
/* Kernels read so many bytes ahead of the last panel at most. */
enum { PACK_SLACK = 64 };
/* Bytes of a column of a panel of floats. */
static inline size_t pack_column_bytes(enum qtype type)
{
    return PANEL_ROWS * (type == QTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
}
/* Bytes of one panel of n_cols columns. */
size_t pack_panel_bytes(enum qtype type, size_t n_cols);
/* Packs n_rows (1..16) rows of file blocks, row_bytes apart, into one panel; codes of 8 bits
 * plus 128 where bytes_unsigned. */
void pack_panel(enum qtype type, bool bytes_unsigned, const uint8_t *rows, size_t row_bytes,
                size_t n_rows, size_t n_cols, uint8_t *panel);

#endif
