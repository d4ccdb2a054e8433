#include "vulkan/pack.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/numeric_c.h"
#include "gguf/qblocks.h"
#include "gguf/qgrid.h"

enum { TEXEL = 16, PLANE = TEXEL * PACK_TILE_ROWS };

/* Planes of a stripe: scales, the codes' first bits, the rest of them. 0: floats. */
struct planes {
    uint32_t head, first, more;
};

static struct planes planes_of(enum qtype type)
{
    switch (type) {
    case QTYPE_Q4_0:
    case QTYPE_IQ4_NL:
    case QTYPE_IQ4_XS:
    case QTYPE_MXFP4:
    case QTYPE_NVFP4:
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S:
    case QTYPE_Q4_K: return (struct planes){1, 8, 0};
    case QTYPE_Q4_1: return (struct planes){2, 8, 0};
    case QTYPE_Q5_0:
    case QTYPE_Q5_K: return (struct planes){1, 8, 2};
    case QTYPE_Q5_1: return (struct planes){2, 8, 2};
    case QTYPE_Q8_0: return (struct planes){1, 16, 0};
    case QTYPE_Q2_K: return (struct planes){2, 4, 0};
    case QTYPE_TQ1_0:
    case QTYPE_TQ2_0:
    case QTYPE_Q2_0: return (struct planes){1, 4, 0};
    case QTYPE_Q1_0: return (struct planes){1, 0, 2};
    case QTYPE_IQ1_S:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XXS:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S:
    case QTYPE_Q3_K: return (struct planes){1, 4, 2};
    case QTYPE_Q6_K: return (struct planes){2, 8, 4};
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return (struct planes){0, 0, 0};
}

static size_t n_planes(enum qtype type, size_t n_cols)
{
    struct planes p = planes_of(type);
    if (p.head == 0) {
        size_t width = type == QTYPE_F32 ? 4 : 8;
        return (n_cols + width - 1) / width;
    }
    return (n_cols + PACK_STRIPE - 1) / PACK_STRIPE * (p.head + p.first + p.more);
}

size_t pack_tile_bytes(enum qtype type, size_t n_cols)
{
    return n_planes(type, n_cols) * PLANE;
}

/* Where the texels of one row of one stripe lie. */
struct texels {
    uint8_t *at; /* of plane 0 */
};

static void put_bytes(struct texels t, size_t plane, size_t byte, const void *from, size_t n)
{
    memcpy(t.at + plane * PLANE + byte, from, n);
}

static void put_word(struct texels t, size_t plane, size_t word, uint32_t value)
{
    put_bytes(t, plane, 4 * word, &value, 4);
}

/* ---- codes of block b of a stripe; p: the file's block of 32, or of 256 ---- */

static void load_words(const uint8_t *from, uint32_t w[8])
{
    memcpy(w, from, 32);
}

/* Four bits at `at` of each of 32 bytes. */
static void put_nibbles(struct texels t, size_t plane, const uint8_t *bytes, int at)
{
    uint32_t w[8];
    load_words(bytes, w);
    for (size_t k = 0; k < 4; k++)
        put_word(t, plane, k, (w[k] >> at & 0x0f0f0f0fu) | (w[k + 4] >> at & 0x0f0f0f0fu) << 4);
}

/* Two bits at `at` of each of 32 bytes: half a plane. */
static void put_pairs(struct texels t, size_t first, size_t b, const uint8_t *bytes, int at)
{
    uint32_t w[8];
    load_words(bytes, w);
    for (size_t h = 0; h < 2; h++) {
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++)
            word |= (w[4 * h + k] >> at & 0x03030303u) << (2 * k);
        put_word(t, first + b / 2, b % 2 * 2 + h, word);
    }
}

/* Bit `at` of each of 32 bytes: a word. */
static void put_bits(struct texels t, size_t first, size_t b, const uint8_t *bytes, int at)
{
    uint32_t w[8], word = 0;
    load_words(bytes, w);
    for (size_t k = 0; k < 8; k++)
        word |= (w[k] >> at & 0x01010101u) << k;
    put_word(t, first + b / 4, b % 4, word);
}

/* Bit i of `high` belongs to value i. */
static void put_fifth(struct texels t, size_t first, size_t b, uint32_t high)
{
    uint32_t word = 0;
    for (uint32_t i = 0; i < 32; i++)
        word |= (high >> i & 1) << (8 * (i % 4) + i / 4);
    put_word(t, first + b / 4, b % 4, word);
}

/* A block of 32 values of the old types: scales and codes. */
static void put_small(enum qtype type, struct texels t, size_t b, const uint8_t *p)
{
    const struct planes n = planes_of(type);
    switch (type) {
    case QTYPE_MXFP4:
        put_bytes(t, 0, b, p, 1);
        put_bytes(t, n.head + b, 0, p + 1, 16);
        return;
    case QTYPE_Q8_0:
        put_bytes(t, 0, 2 * b, p, 2);
        put_bytes(t, n.head + 2 * b, 0, p + 2, 16);
        put_bytes(t, n.head + 2 * b + 1, 0, p + 18, 16);
        return;
    case QTYPE_Q5_0:
        put_bytes(t, 0, 2 * b, p, 2);
        put_fifth(t, n.head + n.first, b, bytes_u32(p + 2));
        put_bytes(t, n.head + b, 0, p + 6, 16);
        return;
    case QTYPE_Q5_1: put_fifth(t, n.head + n.first, b, bytes_u32(p + 4)); break;
    default: break;
    }
    put_bytes(t, 0, 2 * b, p, 2);
    if (type == QTYPE_Q4_1 || type == QTYPE_Q5_1) put_bytes(t, 1, 2 * b, p + 2, 2);
    size_t codes = type == QTYPE_Q5_1 ? 8 : type == QTYPE_Q4_1 ? 4 : 2;
    put_bytes(t, n.head + b, 0, p + codes, 16);
}

/* A block of several times 32 values, from block b of the stripe on, of the types whose codes
 * lie in no order of ours: its scales, then all codes. */
static void put_several(enum qtype type, struct texels t, size_t b, const uint8_t *p)
{
    const struct planes n = planes_of(type);
    const size_t n_blocks = qtype_info(type)->block_len / 32;
    struct block_tq1_0 ternary = {0};
    if (type == QTYPE_TQ1_0) memcpy(&ternary, p, sizeof ternary);
    if (type == QTYPE_NVFP4) {
        for (size_t i = 0; i < 4; i++) {
            const uint8_t e = p[i] == 0x7f ? 0 : p[i] & 0x7f;
            put_bytes(t, 0, 2 * b + i, &e, 1);
        }
    } else {
        const size_t d = type == QTYPE_TQ1_0 ? offsetof(struct block_tq1_0, d) : 0;
        put_bytes(t, 0, 2 * (b / n_blocks), p + d, 2);
    }
    for (size_t g = 0; g < n_blocks; g++) {
        uint8_t code[32];
        switch (type) {
        case QTYPE_NVFP4:
            qblock_codes_nvfp4(p + offsetof(struct block_nvfp4, qs) + 16 * g, code);
            put_nibbles(t, n.head + b + g, code, 0);
            break;
        case QTYPE_Q1_0:
            qblock_codes_q1_0(p + offsetof(struct block_q1_0, qs) + 4 * g, code);
            put_bits(t, n.head, b + g, code, 0);
            break;
        case QTYPE_Q2_0:
            qblock_codes_q2_0(p + offsetof(struct block_q2_0, qs) + 8 * g, code);
            put_pairs(t, n.head, b + g, code, 0);
            break;
        default:
            qblock_codes_tq1_0(&ternary, g, code);
            put_pairs(t, n.head, b + g, code, 0);
            break;
        }
    }
}

/* A block of a type of grids: d, and from word 1 on four bits of scale of each half group. */
static void put_grid(enum qtype type, struct texels t, const uint8_t *p)
{
    const struct planes n = planes_of(type);
    const uint16_t d = qgrid_d(type, p);
    uint8_t scale[16], code[32];
    qgrid_scales(type, p, scale);
    put_bytes(t, 0, 0, &d, sizeof d);
    for (size_t b = 0; b < 8; b++) {
        const uint8_t both = (uint8_t)(scale[2 * b] / 2 | scale[2 * b + 1] / 2 << 4);
        put_bytes(t, 0, 4 + b, &both, 1);
        qgrid_codes(type, p, b, code);
        if (n.more == 0) {
            put_nibbles(t, n.head + b, code, 0);
        } else {
            put_pairs(t, n.head, b, code, 0);
            put_bits(t, n.head + n.first, b, code, 2);
        }
    }
}

/* Another block of 256 values. */
static void put_large(enum qtype type, struct texels t, const uint8_t *p)
{
    const struct planes n = planes_of(type);
    const size_t first = n.head, more = n.head + n.first;
    switch (type) {
    case QTYPE_Q4_K:
    case QTYPE_Q5_K: put_bytes(t, 0, 0, p, 16); break;
    case QTYPE_IQ4_XS: put_bytes(t, 0, 0, p, 8); break;
    case QTYPE_Q2_K:
        put_bytes(t, 0, 0, p, 16);
        put_bytes(t, 1, 0, p + offsetof(struct block_q2_k, d), 4);
        break;
    case QTYPE_Q3_K:
        put_bytes(t, 0, 0, p + offsetof(struct block_q3_k, scales), 12);
        put_bytes(t, 0, 12, p + offsetof(struct block_q3_k, d), 2);
        break;
    case QTYPE_TQ2_0: put_bytes(t, 0, 0, p + offsetof(struct block_tq2_0, d), 2); break;
    case QTYPE_Q6_K:
        put_bytes(t, 0, 0, p + offsetof(struct block_q6_k, scales), 16);
        put_bytes(t, 1, 0, p + offsetof(struct block_q6_k, d), 2);
        break;
    default: assert(false);
    }
    for (size_t b = 0; b < 8; b++) {
        int two = (int)(b % 4 * 2), bit = (int)b;
        switch (type) {
        case QTYPE_Q4_K:
            put_nibbles(t, first + b, p + offsetof(struct block_q4_k, qs) + b / 2 * 32,
                        b % 2 * 4);
            break;
        case QTYPE_Q5_K:
            put_nibbles(t, first + b, p + offsetof(struct block_q5_k, qs) + b / 2 * 32,
                        b % 2 * 4);
            put_bits(t, more, b, p + offsetof(struct block_q5_k, qh), bit);
            break;
        case QTYPE_IQ4_XS:
            put_bytes(t, first + b, 0, p + offsetof(struct block_iq4_xs, qs) + 16 * b, 16);
            break;
        case QTYPE_Q2_K:
            put_pairs(t, first, b, p + offsetof(struct block_q2_k, qs) + b / 4 * 32, two);
            break;
        case QTYPE_TQ2_0:
            put_pairs(t, first, b, p + offsetof(struct block_tq2_0, qs) + b / 4 * 32, two);
            break;
        case QTYPE_Q3_K:
            put_pairs(t, first, b, p + offsetof(struct block_q3_k, qs) + b / 4 * 32, two);
            put_bits(t, more, b, p + offsetof(struct block_q3_k, hmask), bit);
            break;
        case QTYPE_Q6_K:
            put_nibbles(t, first + b,
                        p + offsetof(struct block_q6_k, ql) + b / 4 * 64 + b % 2 * 32,
                        (int)(b % 4 / 2 * 4));
            put_pairs(t, more, b, p + offsetof(struct block_q6_k, qh) + b / 4 * 32, two);
            break;
        default: break;
        }
    }
}

/* F32 and BF16 values are kept here (hearth-numerics(7)); an F16 never needs it. */
static void put_floats(enum qtype type, const uint8_t *row, size_t n_cols, uint8_t *texels)
{
    size_t width = type == QTYPE_F32 ? 4 : 8, size = type == QTYPE_F32 ? 4 : 2;
    for (size_t i = 0; i < n_cols; i++) {
        uint8_t *to = texels + i / width * PLANE + i % width * size;
        const uint8_t *from = row + i * size;
        uint32_t bits = 0;
        if (type == QTYPE_F32) bits = num_bits(num_keep(bytes_f32(from)));
        if (type == QTYPE_F16) bits = bytes_u16(from);
        if (type == QTYPE_BF16)
            bits = num_bits(num_keep(num_of_bits((uint32_t)bytes_u16(from) << 16))) >> 16;
        memcpy(to, &bits, size);
    }
}

void pack_tile(enum qtype type, const uint8_t *rows, size_t row_bytes, size_t n_rows,
               size_t n_cols, uint8_t *tile)
{
    assert(n_rows >= 1 && n_rows <= PACK_TILE_ROWS);
    const struct planes n = planes_of(type);
    const struct qtype_info *info = qtype_info(type);
    memset(tile, 0, pack_tile_bytes(type, n_cols));
    for (size_t r = 0; r < n_rows; r++, rows += row_bytes) {
        uint8_t *at = tile + r * TEXEL;
        if (n.head == 0) {
            put_floats(type, rows, n_cols, at);
            continue;
        }
        const uint8_t *p = rows;
        for (size_t c = 0; c < n_cols; c += info->block_len, p += info->block_bytes) {
            struct texels t = {at + c / PACK_STRIPE * (n.head + n.first + n.more) * PLANE};
            if (qgrid_of(type).table)
                put_grid(type, t, p);
            else if (info->block_len > 32 && info->block_len < PACK_STRIPE)
                put_several(type, t, c % PACK_STRIPE / 32, p);
            else if (type == QTYPE_TQ1_0)
                put_several(type, t, 0, p);
            else if (info->block_len == PACK_STRIPE)
                put_large(type, t, p);
            else
                put_small(type, t, c % PACK_STRIPE / 32, p);
        }
    }
}
