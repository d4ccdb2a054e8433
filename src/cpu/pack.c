#include "cpu/pack.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/numeric_c.h"
#include "cpu/kernels.h"
#include "gguf/qblocks.h"

const uint8_t book_iq1[16] = {2, 10, 18, 0, 0, 8, 16, 0, 2, 10, 18, 0, 0, 8, 16, 0};
const uint8_t book_iq2[16] = {51, 68, 86, 0, 35, 18, 0, 0, 51, 68, 86, 0, 35, 18, 0, 0};
const uint8_t book_iq3_xxs[16] = {66, 74, 82, 90, 98, 106, 114, 124,
                                  58, 50, 42, 34, 26, 18,  10,  0};
const uint8_t book_iq3_s[16] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0};
const uint8_t book_iq4[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                              129, 141, 153, 166, 181, 197, 217, 241};
const uint8_t book_mxfp4[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

#define FLOATS                     \
    {                              \
        HEAD_FLOATS, 0, 1, 0, 0, 0 \
    }

/* Inlined per type, with all that it calls: the questions about the type are then asked once,
 * not for every block of every row. */
#define PER_TYPE static inline __attribute__((always_inline))

PER_TYPE const struct pack_format *format_of(enum qtype type)
{
    static const struct pack_format d4 = {HEAD_D, 32, 1, 4, 0, 256},
                                    d5 = {HEAD_D, 32, 1, 4, 1, 320},
                                    d8 = {HEAD_D, 32, 1, 8, 0, 512},
                                    dm4 = {HEAD_D_M, 64, 1, 4, 0, 256},
                                    dm5 = {HEAD_D_M, 64, 1, 4, 1, 320},
                                    e4 = {HEAD_E8, 16, 1, 4, 0, 256},
                                    n4 = {HEAD_E4, 64, 2, 4, 0, 256},
                                    d1 = {HEAD_D, 32, 4, 0, 1, 64},
                                    d2 = {HEAD_D, 32, 2, 2, 0, 128},
                                    t2 = {HEAD_D, 32, 8, 2, 0, 128},
                                    k2 = {HEAD_K_S_M, 320, 8, 2, 0, 128},
                                    k3 = {HEAD_K_S, 288, 8, 2, 1, 192},
                                    k4 = {HEAD_K_MIN, 320, 8, 4, 0, 256},
                                    k5 = {HEAD_K_MIN, 320, 8, 4, 1, 320},
                                    k6 = {HEAD_K_S, 288, 8, 4, 2, 384},
                                    c4 = {HEAD_K_D, 160, 8, 4, 0, 256},
                                    c3 = {HEAD_K_D, 160, 8, 2, 1, 192}, floats = FLOATS;
    switch (type) {
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    case QTYPE_Q4_0:
    case QTYPE_IQ4_NL: return &d4;
    case QTYPE_Q4_1: return &dm4;
    case QTYPE_Q5_0: return &d5;
    case QTYPE_Q5_1: return &dm5;
    case QTYPE_Q8_0: return &d8;
    case QTYPE_Q2_K: return &k2;
    case QTYPE_Q3_K:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S: return &k3;
    case QTYPE_Q4_K: return &k4;
    case QTYPE_Q5_K: return &k5;
    case QTYPE_Q6_K: return &k6;
    case QTYPE_IQ1_S:
    case QTYPE_IQ2_XXS: return &c3;
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S:
    case QTYPE_IQ4_XS: return &c4;
    case QTYPE_MXFP4: return &e4;
    case QTYPE_NVFP4: return &n4;
    case QTYPE_TQ1_0:
    case QTYPE_TQ2_0: return &t2;
    case QTYPE_Q1_0: return &d1;
    case QTYPE_Q2_0: return &d2;
    }
    return &floats;
}

const struct pack_format *pack_format(enum qtype type)
{
    return format_of(type);
}

size_t pack_panel_bytes(enum qtype type, size_t n_cols)
{
    const struct pack_format *f = pack_format(type);
    if (f->head == HEAD_FLOATS) return qtype_bytes(type, n_cols) * PANEL_ROWS;
    size_t n_blocks = n_cols / A8_BLOCK;
    return n_blocks / f->head_blocks * f->head_bytes + n_blocks * f->code_bytes;
}

/* ---- codes of one block of one row, unsigned, one per byte: values 4k..4k+3 in a word ---- */

typedef uint32_t words __attribute__((vector_size(16)));
typedef uint64_t pairs __attribute__((vector_size(16)));

/* Values 0 to 15 and 16 to 31. */
struct codes {
    words half[2];
};

static const uint32_t EACH_BYTE = 0x01010101u;

PER_TYPE words words_at(const uint8_t *p)
{
    words w;
    memcpy(&w, p, sizeof w);
    return w;
}

PER_TYPE void codes_nibbles(const uint8_t *qs, struct codes *w)
{
    const words x = words_at(qs);
    w->half[0] = x & 15 * EACH_BYTE;
    w->half[1] = x >> 4 & 15 * EACH_BYTE;
}

/* Bit i of eight as the lowest of byte i. */
PER_TYPE uint64_t spread(uint32_t bits)
{
    const uint64_t each = 0x0101010101010101u;
    const uint64_t alone = (bits & 255) * each & 0x8040201008040201u; /* bit i in byte i */
    return (alone + 0x7f * each) >> 7 & each;
}

/* Bit i of high above the nibble of value i. */
PER_TYPE void codes_fifth(uint32_t high, struct codes *w)
{
    for (int h = 0; h < 2; h++) {
        const pairs fifth = {spread(high >> 16 * h), spread(high >> (16 * h + 8))};
        w->half[h] |= (words)fifth << 4;
    }
}

/* The field of mask at bit `at` of each of 32 bytes. */
PER_TYPE void codes_fields(const uint8_t *qs, int at, uint32_t mask, struct codes *w)
{
    for (int h = 0; h < 2; h++)
        w->half[h] = words_at(qs + 16 * h) >> at & mask * EACH_BYTE;
}

PER_TYPE void codes_more(const uint8_t *qs, int at, uint32_t mask, int shift, struct codes *w)
{
    for (int h = 0; h < 2; h++)
        w->half[h] |= (words_at(qs + 16 * h) >> at & mask * EACH_BYTE) << shift;
}

PER_TYPE void read_codes(enum qtype type, const uint8_t *p, size_t b, struct codes *w)
{
    int g = (int)(b % 8); /* which 32 of 256 */
    struct block_tq1_0 ternary;
    switch (type) {
    case QTYPE_Q4_0: codes_nibbles(p + offsetof(struct block_q4_0, qs), w); break;
    case QTYPE_IQ4_NL: codes_nibbles(p + offsetof(struct block_iq4_nl, qs), w); break;
    case QTYPE_MXFP4: codes_nibbles(p + offsetof(struct block_mxfp4, qs), w); break;
    case QTYPE_Q4_1: codes_nibbles(p + offsetof(struct block_q4_1, qs), w); break;
    case QTYPE_Q5_0:
        codes_nibbles(p + offsetof(struct block_q5_0, qs), w);
        codes_fifth(bytes_u32(p + offsetof(struct block_q5_0, qh)), w);
        break;
    case QTYPE_Q5_1:
        codes_nibbles(p + offsetof(struct block_q5_1, qs), w);
        codes_fifth(bytes_u32(p + offsetof(struct block_q5_1, qh)), w);
        break;
    case QTYPE_Q8_0: memcpy(w, p + offsetof(struct block_q8_0, qs), 32); break;
    case QTYPE_Q2_K:
        codes_fields(p + offsetof(struct block_q2_k, qs) + g / 4 * 32, g % 4 * 2, 3, w);
        break;
    case QTYPE_Q3_K:
        codes_fields(p + offsetof(struct block_q3_k, qs) + g / 4 * 32, g % 4 * 2, 3, w);
        codes_more(p + offsetof(struct block_q3_k, hmask), g, 1, 2, w);
        break;
    case QTYPE_Q4_K:
        codes_fields(p + offsetof(struct block_q4_k, qs) + g / 2 * 32, g % 2 * 4, 15, w);
        break;
    case QTYPE_Q5_K:
        codes_fields(p + offsetof(struct block_q5_k, qs) + g / 2 * 32, g % 2 * 4, 15, w);
        codes_more(p + offsetof(struct block_q5_k, qh), g, 1, 4, w);
        break;
    case QTYPE_Q6_K:
        codes_fields(p + offsetof(struct block_q6_k, ql) + g / 4 * 64 + g % 2 * 32,
                     g % 4 / 2 * 4, 15, w);
        codes_more(p + offsetof(struct block_q6_k, qh) + g / 4 * 32, g % 4 * 2, 3, 4, w);
        break;
    case QTYPE_IQ4_XS: codes_nibbles(p + offsetof(struct block_iq4_xs, qs) + 16 * g, w); break;
    case QTYPE_IQ1_S:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XXS:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S:
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S: qgrid_codes(type, p, (size_t)g, (uint8_t *)w); break;
    case QTYPE_NVFP4:
        qblock_codes_nvfp4(p + offsetof(struct block_nvfp4, qs) + g % 2 * 16, (uint8_t *)w);
        break;
    case QTYPE_TQ1_0:
        memcpy(&ternary, p, sizeof ternary);
        qblock_codes_tq1_0(&ternary, (size_t)g, (uint8_t *)w);
        break;
    case QTYPE_TQ2_0:
        codes_fields(p + offsetof(struct block_tq2_0, qs) + g / 4 * 32, g % 4 * 2, 3, w);
        break;
    case QTYPE_Q1_0:
        qblock_codes_q1_0(p + offsetof(struct block_q1_0, qs) + g % 4 * 4, (uint8_t *)w);
        break;
    case QTYPE_Q2_0:
        qblock_codes_q2_0(p + offsetof(struct block_q2_0, qs) + g % 2 * 8, (uint8_t *)w);
        break;
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: assert(false);
    }
}

/* ---- planes ---- */

static void put(uint8_t *line, size_t row, uint32_t word)
{
    memcpy(line + 4 * row, &word, sizeof word);
}

/* Four words into as many lines. */
PER_TYPE void put_words(words w, size_t row, uint8_t *out)
{
    for (int k = 0; k < 4; k++)
        put(out + 64 * k, row, w[k]);
}

/* Word k of four, shifted by k times `by`, one over the other. */
PER_TYPE uint32_t fold(words w, int by)
{
    const pairs x = (pairs)w;
    const uint64_t two = x[0] | x[1] << 2 * by;
    return (uint32_t)(two | two >> 32 << by);
}

/* Two bits of every code, from bit `at`: two lines. */
PER_TYPE void put_pairs(const struct codes *w, int at, size_t row, uint8_t *out)
{
    for (int h = 0; h < 2; h++)
        put(out + 64 * h, row, fold(w->half[h] >> at & 3 * EACH_BYTE, 2));
}

PER_TYPE void put_codes(const struct pack_format *f, bool bytes_unsigned, const struct codes *w,
                        size_t row, uint8_t *out)
{
    if (f->bits == 8) {
        const uint32_t plus = bytes_unsigned ? 0x80 * EACH_BYTE : 0;
        put_words(w->half[0] ^ plus, row, out);
        put_words(w->half[1] ^ plus, row, out + 256);
        return;
    }
    if (f->bits == 4) {
        put_words((w->half[0] & 15 * EACH_BYTE) | (w->half[1] & 15 * EACH_BYTE) << 4, row, out);
        out += 256;
    } else if (f->bits == 2) {
        put_pairs(w, 0, row, out);
        out += 128;
    }
    if (f->more_bits == 2) put_pairs(w, (int)f->bits, row, out);
    if (f->more_bits == 1) {
        const int at = (int)f->bits;
        put(out, row,
            fold(w->half[0] >> at & EACH_BYTE, 1) | fold(w->half[1] >> at & EACH_BYTE, 1) << 4);
    }
}

/* ---- heads ---- */

static void put_u16(uint8_t *out, size_t row, const uint8_t *from)
{
    memcpy(out + 2 * row, from, 2);
}

static void put_bytes(uint8_t *lines, size_t row, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lines[i * PANEL_ROWS + row] = ((const uint8_t *)from)[i];
}

static void put_scales_k(const uint8_t packed[12], size_t row, uint8_t *lines)
{
    uint8_t scale[8], min[8];
    qblock_scales_k(packed, scale, min);
    put_bytes(lines, row, scale, 8);
    put_bytes(lines + 8 * PANEL_ROWS, row, min, 8);
}

/* A line per group, or per half where these have scales of their own. */
PER_TYPE void put_grid_head(enum qtype type, const uint8_t *p, size_t row, uint8_t *out)
{
    const uint16_t d = qgrid_d(type, p);
    const size_t step = format_of(type)->head == HEAD_K_S ? 1 : 2;
    uint8_t scale[16];
    qgrid_scales(type, p, scale);
    put_u16(out, row, (const uint8_t *)&d);
    for (size_t i = 0; i < 16; i += step)
        put_bytes(out + 32 + i / step * PANEL_ROWS, row, &scale[i], 1);
}

PER_TYPE void put_head(enum qtype type, const uint8_t *p, size_t row, uint8_t *out)
{
    switch (type) {
    case QTYPE_Q4_0:
    case QTYPE_Q5_0:
    case QTYPE_Q8_0:
    case QTYPE_Q1_0:
    case QTYPE_Q2_0:
    case QTYPE_IQ4_NL: put_u16(out, row, p); break;
    case QTYPE_TQ1_0: put_u16(out, row, p + offsetof(struct block_tq1_0, d)); break;
    case QTYPE_TQ2_0: put_u16(out, row, p + offsetof(struct block_tq2_0, d)); break;
    case QTYPE_NVFP4:
        for (int i = 0; i < 4; i++) {
            const uint8_t e = p[i] == 0x7f ? 0 : p[i] & 0x7f;
            put_bytes(out + i * PANEL_ROWS, row, &e, 1);
        }
        break;
    case QTYPE_Q4_1:
    case QTYPE_Q5_1:
        put_u16(out, row, p);
        put_u16(out + 32, row, p + 2);
        break;
    case QTYPE_MXFP4: out[row] = p[0]; break;
    case QTYPE_Q4_K:
    case QTYPE_Q5_K: /* both begin alike */
        put_u16(out, row, p);
        put_u16(out + 32, row, p + 2);
        put_scales_k(p + 4, row, out + 64);
        break;
    case QTYPE_Q2_K:
        put_u16(out, row, p + offsetof(struct block_q2_k, d));
        put_u16(out + 32, row, p + offsetof(struct block_q2_k, dmin));
        put_bytes(out + 64, row, p, 16);
        break;
    case QTYPE_Q3_K: {
        int8_t scale[16];
        qblock_scales_q3_k(p + offsetof(struct block_q3_k, scales), scale);
        put_u16(out, row, p + offsetof(struct block_q3_k, d));
        put_bytes(out + 32, row, scale, 16);
        break;
    }
    case QTYPE_Q6_K:
        put_u16(out, row, p + offsetof(struct block_q6_k, d));
        put_bytes(out + 32, row, p + offsetof(struct block_q6_k, scales), 16);
        break;
    case QTYPE_IQ4_XS: {
        struct block_iq4_xs x;
        memcpy(&x, p, sizeof x);
        int8_t scale[8];
        for (int g = 0; g < 8; g++)
            scale[g] = (int8_t)(((x.scales_l[g / 2] >> (g % 2 * 4) & 15) |
                                 (x.scales_h >> (2 * g) & 3) << 4) -
                                32);
        put_u16(out, row, p);
        put_bytes(out + 32, row, scale, 8);
        break;
    }
    case QTYPE_IQ1_S:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XXS:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S:
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S: put_grid_head(type, p, row, out); break;
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: assert(false);
    }
}

/* F32 and BF16 values are kept here (hearth-numerics(7)); an F16 never needs it. */
static void pack_floats(enum qtype type, const uint8_t *row, size_t r, size_t n_cols,
                        uint8_t *panel)
{
    for (size_t i = 0; i < n_cols; i++) {
        size_t at = i * PANEL_ROWS + r;
        if (type == QTYPE_F32) {
            uint32_t bits = num_bits(num_keep(bytes_f32(row + 4 * i)));
            memcpy(panel + 4 * at, &bits, 4);
        } else if (type == QTYPE_BF16) {
            uint32_t bits =
                num_bits(num_keep(num_of_bits((uint32_t)bytes_u16(row + 2 * i) << 16)));
            uint16_t high = (uint16_t)(bits >> 16);
            memcpy(panel + 2 * at, &high, 2);
        } else {
            memcpy(panel + 2 * at, row + 2 * i, 2);
        }
    }
}

/* As pack_panel, of types of blocks. */
PER_TYPE void pack_blocks(enum qtype type, bool bytes_unsigned, const uint8_t *rows,
                          size_t row_bytes, size_t n_rows, size_t n_cols, uint8_t *panel)
{
    const struct pack_format *f = format_of(type);
    const size_t block_bytes = (size_t)qtype_info(type)->block_bytes;
    const size_t n_blocks = n_cols / A8_BLOCK;
    for (size_t b = 0; b < n_blocks; b++) {
        bool has_head = b % f->head_blocks == 0;
        uint8_t *codes = panel + (has_head ? f->head_bytes : 0);
        const uint8_t *p = rows + b / f->head_blocks * block_bytes;
        for (size_t r = 0; r < n_rows; r++, p += row_bytes) {
            struct codes w;
            if (has_head) put_head(type, p, r, panel);
            read_codes(type, p, b, &w);
            put_codes(f, bytes_unsigned, &w, r, codes);
        }
        panel = codes + f->code_bytes;
    }
}

void pack_panel(enum qtype type, bool bytes_unsigned, const uint8_t *rows, size_t row_bytes,
                size_t n_rows, size_t n_cols, uint8_t *panel)
{
    assert(n_rows >= 1 && n_rows <= PANEL_ROWS);
    if (n_rows < PANEL_ROWS) memset(panel, 0, pack_panel_bytes(type, n_cols));
#define PACK(type, name) \
    case type: pack_blocks(type, bytes_unsigned, rows, row_bytes, n_rows, n_cols, panel); break;
    switch (type) {
        PACKED_TYPES(PACK)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16:
        for (size_t r = 0; r < n_rows; r++)
            pack_floats(type, rows + r * row_bytes, r, n_cols, panel);
        break;
    }
}
