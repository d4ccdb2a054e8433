#include "gguf/qgrid.h"

#include <string.h>

#include "base/bytes.h"

#define TWICE(...)               \
    {                            \
        __VA_ARGS__, __VA_ARGS__ \
    }
const int8_t qgrid_values_iq1[16] = TWICE(-7, 1, 9, 0, -9, -1, 7, 0);
const int8_t qgrid_values_iq2[16] = TWICE(8, 25, 43, 0, -8, -25, -43, 0);
const int8_t qgrid_values_iq3_xxs[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                         -4, -12, -20, -28, -36, -44, -52, -62};
const int8_t qgrid_values_iq3_s[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                       -1, -3, -5, -7, -9, -11, -13, -15};

struct qgrid qgrid_of(enum qtype type)
{
    switch (type) {
    case QTYPE_IQ1_S: return (struct qgrid){qgrid_values_iq1, QGRID_UNIT_IQ1, false};
    case QTYPE_IQ1_M: return (struct qgrid){qgrid_values_iq1, QGRID_UNIT_IQ1, true};
    case QTYPE_IQ2_XXS: return (struct qgrid){qgrid_values_iq2, QGRID_UNIT_IQ2, false};
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S: return (struct qgrid){qgrid_values_iq2, QGRID_UNIT_IQ2, true};
    case QTYPE_IQ3_XXS: return (struct qgrid){qgrid_values_iq3_xxs, QGRID_UNIT_IQ3_XXS, false};
    case QTYPE_IQ3_S: return (struct qgrid){qgrid_values_iq3_s, QGRID_UNIT_IQ3_S, false};
    default: return (struct qgrid){NULL, 0, false};
    }
}

/* ---- fields to bytes, the lowest first ---- */

static uint64_t bytes_of_bits(uint8_t bits)
{
    const uint64_t each = 0x0101010101010101u;
    const uint64_t one_per_byte = bits * each & 0x8040201008040201u;
    return (one_per_byte + 0x7f * each) >> 7 & each;
}

static uint64_t bytes_of_pairs(uint64_t x)
{
    x = (x | x << 24) & 0x000000ff000000ffu;
    x = (x | x << 12) & 0x000f000f000f000fu;
    return (x | x << 6) & 0x0303030303030303u;
}

static uint64_t bytes_of_nibbles(uint64_t x)
{
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    x = (x | x << 8) & 0x00ff00ff00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0fu;
}

/* ---- codes ---- */

/* Run j, eight values, of a group; upper: the top bit of each. */
static void put_run(uint8_t *code, size_t j, uint16_t entry, uint8_t upper)
{
    bytes_put_u64(code + 8 * j, bytes_of_pairs(entry) | bytes_of_bits(upper) << 2);
}

static void put_fours(uint8_t *code, size_t j, uint16_t first, uint16_t second, uint8_t signs)
{
    const uint64_t both = first | (uint64_t)second << 16;
    bytes_put_u64(code + 8 * j, bytes_of_nibbles(both) | bytes_of_bits(signs) << 3);
}

static uint8_t eight_signs(uint32_t seven)
{
    seven &= 127;
    return (uint8_t)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

static void codes_iq2_xxs(const struct block_iq2_xxs *b, size_t g, uint8_t *code)
{
    const uint8_t *at = b->groups[g];
    const uint32_t rest = bytes_u32(at + 4);
    for (size_t j = 0; j < 4; j++)
        put_run(code, j, qgrid_iq2_xxs[at[j]], eight_signs(rest >> 7 * j));
}

static void codes_iq2_xs(const struct block_iq2_xs *b, size_t g, uint8_t *code)
{
    for (size_t j = 0; j < 4; j++) {
        const uint16_t run = b->runs[4 * g + j];
        put_run(code, j, qgrid_iq2_xs[run & 511], eight_signs(run >> 9));
    }
}

static void codes_iq2_s(const struct block_iq2_s *b, size_t g, uint8_t *code)
{
    for (size_t j = 0; j < 4; j++) {
        const unsigned high = b->high[g] >> 2 * j & 3;
        put_run(code, j, qgrid_iq2_s[b->low[4 * g + j] | high << 8], b->signs[4 * g + j]);
    }
}

static void codes_iq3_xxs(const struct block_iq3_xxs *b, size_t g, uint8_t *code)
{
    const uint8_t *at = b->fours + 8 * g;
    const uint32_t rest = bytes_u32(b->signs[g]);
    for (size_t j = 0; j < 4; j++)
        put_fours(code, j, qgrid_iq3_xxs[at[2 * j]], qgrid_iq3_xxs[at[2 * j + 1]],
                  eight_signs(rest >> 7 * j));
}

static void codes_iq3_s(const struct block_iq3_s *b, size_t g, uint8_t *code)
{
    const uint8_t *at = b->fours + 8 * g;
    for (size_t j = 0; j < 4; j++) {
        const unsigned high = b->high[g] >> 2 * j;
        put_fours(code, j, qgrid_iq3_s[at[2 * j] | (high & 1) << 8],
                  qgrid_iq3_s[at[2 * j + 1] | (high >> 1 & 1) << 8], b->signs[4 * g + j]);
    }
}

static void codes_iq1_s(const struct block_iq1_s *b, size_t g, uint8_t *code)
{
    const unsigned high = b->high[g];
    for (size_t j = 0; j < 4; j++) {
        const unsigned upper = high >> 3 * j & 7;
        put_run(code, j, qgrid_iq1[b->low[4 * g + j] | upper << 8], high >> 15 ? 255 : 0);
    }
}

static void codes_iq1_m(const struct block_iq1_m *b, size_t g, uint8_t *code)
{
    for (size_t j = 0; j < 4; j++) {
        const unsigned high = b->high[2 * g + j / 2] >> 4 * (j % 2);
        put_run(code, j, qgrid_iq1[b->low[4 * g + j] | (high & 7) << 8], high & 8 ? 255 : 0);
    }
}

/* Of a copy: the block may lie at an odd address. */
#define CODES_OF(type, name)         \
    case type: {                     \
        struct block_##name b;       \
        memcpy(&b, block, sizeof b); \
        codes_##name(&b, g, code);   \
        break;                       \
    }

void qgrid_codes(enum qtype type, const void *block, size_t g, uint8_t code[32])
{
    switch (type) {
        QGRID_TYPES(CODES_OF)
    default: assert(false);
    }
}

/* ---- scales ---- */

/* s of half group i, scale = 2 s + 1; p: the block, of which members are read byte by byte. */
static unsigned half_scale(enum qtype type, const uint8_t *p, size_t i)
{
    const size_t g = i / 2;
    switch (type) {
    case QTYPE_IQ2_XXS: return p[offsetof(struct block_iq2_xxs, groups) + 8 * g + 7] >> 4;
    case QTYPE_IQ2_XS: return p[offsetof(struct block_iq2_xs, scales) + g] >> 4 * (i % 2) & 15;
    case QTYPE_IQ2_S: return p[offsetof(struct block_iq2_s, scales) + g] >> 4 * (i % 2) & 15;
    case QTYPE_IQ3_XXS: return p[offsetof(struct block_iq3_xxs, signs) + 4 * g + 3] >> 4;
    case QTYPE_IQ3_S:
        return p[offsetof(struct block_iq3_s, scales) + g / 2] >> 4 * (g % 2) & 15;
    case QTYPE_IQ1_S: return p[offsetof(struct block_iq1_s, high) + 2 * g + 1] >> 4 & 7;
    case QTYPE_IQ1_M:
        return bytes_u16(p + offsetof(struct block_iq1_m, scales) + 2 * (i / 4)) >>
                   3 * (i % 4) &
               7;
    default: assert(false); return 0;
    }
}

void qgrid_scales(enum qtype type, const void *block, uint8_t scale[16])
{
    for (size_t i = 0; i < 16; i++)
        scale[i] = (uint8_t)(2 * half_scale(type, block, i) + 1);
}

uint16_t qgrid_d(enum qtype type, const void *block)
{
    if (type != QTYPE_IQ1_M) return bytes_u16(block); /* all others begin with it */
    struct block_iq1_m b;
    memcpy(&b, block, sizeof b);
    unsigned d = 0;
    for (int i = 0; i < 4; i++)
        d |= (unsigned)(b.scales[i] >> 12) << 4 * i;
    return (uint16_t)d;
}

void qgrid_put_d(enum qtype type, void *block, uint16_t d)
{
    if (type != QTYPE_IQ1_M) {
        bytes_put_u16(block, d);
        return;
    }
    uint8_t *scales = (uint8_t *)block + offsetof(struct block_iq1_m, scales);
    for (int i = 0; i < 4; i++)
        scales[2 * i + 1] = (uint8_t)((scales[2 * i + 1] & 15) | (d >> 4 * i & 15) << 4);
}
