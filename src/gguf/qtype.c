#include "gguf/qtype.h"

#include <assert.h>
#include <string.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/half.h"
#include "gguf/qblocks.h"
#include "gguf/qgrid.h"

static const struct qtype_info rows[] = {
    {QTYPE_F32, "F32", 1, 4},
    {QTYPE_F16, "F16", 1, 2},
    {QTYPE_BF16, "BF16", 1, 2},
    {QTYPE_Q4_0, "Q4_0", 32, 18},
    {QTYPE_Q4_1, "Q4_1", 32, 20},
    {QTYPE_Q5_0, "Q5_0", 32, 22},
    {QTYPE_Q5_1, "Q5_1", 32, 24},
    {QTYPE_Q8_0, "Q8_0", 32, 34},
    {QTYPE_Q2_K, "Q2_K", 256, 84},
    {QTYPE_Q3_K, "Q3_K", 256, 110},
    {QTYPE_Q4_K, "Q4_K", 256, 144},
    {QTYPE_Q5_K, "Q5_K", 256, 176},
    {QTYPE_Q6_K, "Q6_K", 256, 210},
    {QTYPE_IQ1_S, "IQ1_S", 256, 50},
    {QTYPE_IQ1_M, "IQ1_M", 256, 56},
    {QTYPE_IQ2_XXS, "IQ2_XXS", 256, 66},
    {QTYPE_IQ2_XS, "IQ2_XS", 256, 74},
    {QTYPE_IQ2_S, "IQ2_S", 256, 82},
    {QTYPE_IQ3_XXS, "IQ3_XXS", 256, 98},
    {QTYPE_IQ3_S, "IQ3_S", 256, 110},
    {QTYPE_IQ4_NL, "IQ4_NL", 32, 18},
    {QTYPE_IQ4_XS, "IQ4_XS", 256, 136},
    {QTYPE_MXFP4, "MXFP4", 32, 17},
    {QTYPE_NVFP4, "NVFP4", 64, 36},
    {QTYPE_TQ1_0, "TQ1_0", 256, 54},
    {QTYPE_TQ2_0, "TQ2_0", 256, 66},
    {QTYPE_Q1_0, "Q1_0", 128, 18},
    {QTYPE_Q2_0, "Q2_0", 64, 18},
};
#define N_ROWS (sizeof rows / sizeof *rows)

/* Numbers of the format that hearth does not read; gaps are numbers never given or withdrawn.
 */
static const struct {
    uint32_t type;
    const char *name;
} foreign[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {9, "Q8_1"},        {15, "Q8_K"},
    {24, "I8"},         {25, "I16"},        {26, "I32"},        {27, "I64"},
    {28, "F64"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

const struct qtype_info *qtype_at(size_t i)
{
    return i < N_ROWS ? &rows[i] : NULL;
}

const struct qtype_info *qtype_info(uint32_t type)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if ((uint32_t)rows[i].type == type) return &rows[i];
    return NULL;
}

const struct qtype_info *qtype_by_name(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (ascii_same(rows[i].name, name)) return &rows[i];
    return NULL;
}

const char *qtype_foreign_name(uint32_t type)
{
    const struct qtype_info *known = qtype_info(type);
    if (known) return known->name;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (foreign[i].type == type) return foreign[i].name;
    return "unknown";
}

size_t qtype_bytes(enum qtype type, size_t n_values)
{
    const struct qtype_info *info = qtype_info(type);
    assert(info && n_values % info->block_len == 0);
    return n_values / info->block_len * info->block_bytes;
}

const int8_t qblock_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                               1,    13,   25,  38,  53,  69,  89,  113};
const int8_t qblock_mxfp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void qblock_scales_k(const uint8_t packed[12], uint8_t scale[8], uint8_t min[8])
{
    /* Groups 0..3 lie in the low six bits of bytes 0..3 (scales) and 4..7 (minimums); groups
     * 4..7 have their low four bits in bytes 8..11 and the rest on top of the first eight. */
    for (int i = 0; i < 4; i++) {
        scale[i] = packed[i] & 63;
        min[i] = packed[4 + i] & 63;
        scale[4 + i] = (uint8_t)((packed[8 + i] & 15) | packed[i] >> 6 << 4);
        min[4 + i] = (uint8_t)(packed[8 + i] >> 4 | packed[4 + i] >> 6 << 4);
    }
}

void qblock_scales_q3_k(const uint8_t packed[12], int8_t scale[16])
{
    /* Low four bits: nibbles of bytes 0..7, all low ones first; upper two: bytes 8..11. */
    for (int i = 0; i < 16; i++) {
        int low = packed[i % 8] >> (i / 8 * 4) & 15;
        int high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        scale[i] = (int8_t)((low | high << 4) - 32);
    }
}

float qblock_e8m0_half(uint8_t e)
{
    return half_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

uint32_t qblock_e4m3(uint8_t e)
{
    if (e == 0x7f) return 0;
    const uint32_t exponent = e >> 3 & 15, mantissa = e & 7;
    return exponent == 0 ? mantissa : (8 | mantissa) << (exponent - 1);
}

/* Digit n, 0 the highest, of a byte that holds five to the base of three: it is their number
 * times 256 / 243, rounded up, so what is above 8 bits of its triples are the digits. */
static uint8_t base3_digit(uint8_t byte, int n)
{
    for (; n > 0; n--)
        byte = (uint8_t)(3 * byte);
    return (uint8_t)(3 * byte >> 8);
}

void qblock_codes_tq1_0(const struct block_tq1_0 *b, size_t g, uint8_t code[32])
{
    for (size_t i = 0; i < 32; i++) {
        const size_t at = 32 * g + i, in_16 = at - 160, in_4 = at - 240;
        if (at < 160)
            code[i] = base3_digit(b->qs[i], (int)g);
        else if (at < 240)
            code[i] = base3_digit(b->qs[32 + in_16 % 16], (int)(in_16 / 16));
        else
            code[i] = base3_digit(b->qh[in_4 % 4], (int)(in_4 / 4));
    }
}

void qblock_codes_q1_0(const uint8_t bits[4], uint8_t code[32])
{
    for (size_t i = 0; i < 32; i++)
        code[i] = bits[i / 8] >> i % 8 & 1;
}

void qblock_codes_q2_0(const uint8_t pairs[8], uint8_t code[32])
{
    for (size_t i = 0; i < 32; i++)
        code[i] = pairs[i / 4] >> 2 * (i % 4) & 3;
}

void qblock_codes_nvfp4(const uint8_t qs[16], uint8_t code[32])
{
    for (size_t i = 0; i < 32; i++)
        code[i] = qs[i / 16 * 8 + i % 8] >> (i / 8 % 2 * 4) & 15;
}

static void dequant_f32(const void *p, float *out)
{
    *out = bytes_f32(p);
}

static void dequant_f16(const void *p, float *out)
{
    *out = half_f16_to_f32(bytes_u16(p));
}

static void dequant_bf16(const void *p, float *out)
{
    *out = half_bf16_to_f32(bytes_u16(p));
}

static void dequant_q4_0(const void *p, float *out)
{
    struct block_q4_0 b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)((b.qs[i] & 15) - 8) * d;
        out[i + 16] = (float)((b.qs[i] >> 4) - 8) * d;
    }
}

static void dequant_q4_1(const void *p, float *out)
{
    struct block_q4_1 b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d), m = half_f16_to_f32(b.m);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)(b.qs[i] & 15) * d + m;
        out[i + 16] = (float)(b.qs[i] >> 4) * d + m;
    }
}

/* Value i of 32 with its fifth bit. */
static int five_bits(const uint8_t qs[16], uint32_t qh, int i)
{
    int low = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    return low | (int)(qh >> i & 1) << 4;
}

static void dequant_q5_0(const void *p, float *out)
{
    struct block_q5_0 b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    uint32_t qh = bytes_u32(b.qh);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(five_bits(b.qs, qh, i) - 16) * d;
}

static void dequant_q5_1(const void *p, float *out)
{
    struct block_q5_1 b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d), m = half_f16_to_f32(b.m);
    uint32_t qh = bytes_u32(b.qh);
    for (int i = 0; i < 32; i++)
        out[i] = (float)five_bits(b.qs, qh, i) * d + m;
}

static void dequant_q8_0(const void *p, float *out)
{
    struct block_q8_0 b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    for (int i = 0; i < 32; i++)
        out[i] = (float)b.qs[i] * d;
}

/* The two-bit field of value i of 256 in the layout that q2_k and q3_k share. */
static int two_bits(const uint8_t qs[64], int i)
{
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void dequant_q2_k(const void *p, float *out)
{
    struct block_q2_k b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d), dmin = half_f16_to_f32(b.dmin);
    for (int i = 0; i < 256; i++) {
        uint8_t s = b.scales[i / 16];
        out[i] = d * (float)(s & 15) * (float)two_bits(b.qs, i) - dmin * (float)(s >> 4);
    }
}

static void dequant_q3_k(const void *p, float *out)
{
    struct block_q3_k b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    int8_t scale[16];
    qblock_scales_q3_k(b.scales, scale);
    for (int i = 0; i < 256; i++) {
        int q = two_bits(b.qs, i) | (b.hmask[i % 32] >> (i / 32) & 1) << 2;
        out[i] = d * (float)scale[i / 16] * (float)(q - 4);
    }
}

static void dequant_q4_k(const void *p, float *out)
{
    struct block_q4_k b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d), dmin = half_f16_to_f32(b.dmin);
    uint8_t scale[8], min[8];
    qblock_scales_k(b.scales, scale, min);
    for (int i = 0; i < 256; i++) {
        int g = i / 32, q = b.qs[i / 64 * 32 + i % 32] >> (g % 2 * 4) & 15;
        out[i] = d * (float)scale[g] * (float)q - dmin * (float)min[g];
    }
}

static void dequant_q5_k(const void *p, float *out)
{
    struct block_q5_k b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d), dmin = half_f16_to_f32(b.dmin);
    uint8_t scale[8], min[8];
    qblock_scales_k(b.scales, scale, min);
    for (int i = 0; i < 256; i++) {
        int g = i / 32, q = b.qs[i / 64 * 32 + i % 32] >> (g % 2 * 4) & 15;
        q |= (b.qh[i % 32] >> g & 1) << 4;
        out[i] = d * (float)scale[g] * (float)q - dmin * (float)min[g];
    }
}

static void dequant_q6_k(const void *p, float *out)
{
    struct block_q6_k b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, j = i % 128;
        int low = b.ql[half * 64 + j % 64] >> (j / 64 * 4) & 15;
        int high = b.qh[half * 32 + j % 32] >> (j / 32 * 2) & 3;
        out[i] = d * (float)b.scales[i / 16] * (float)((low | high << 4) - 32);
    }
}

/* 16 bytes of nibbles through a codebook: low ones to out[0..16), high ones to out[16..32). */
static void codebook(const uint8_t qs[16], const int8_t table[16], float d, float *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)table[qs[i] & 15];
        out[i + 16] = d * (float)table[qs[i] >> 4];
    }
}

static void dequant_iq4_nl(const void *p, float *out)
{
    struct block_iq4_nl b;
    memcpy(&b, p, sizeof b);
    codebook(b.qs, qblock_iq4, half_f16_to_f32(b.d), out);
}

static void dequant_iq4_xs(const void *p, float *out)
{
    struct block_iq4_xs b;
    memcpy(&b, p, sizeof b);
    float d = half_f16_to_f32(b.d);
    for (int g = 0; g < 8; g++) {
        int scale = (b.scales_l[g / 2] >> (g % 2 * 4) & 15) | (b.scales_h >> (2 * g) & 3) << 4;
        codebook(b.qs + 16 * g, qblock_iq4, d * (float)(scale - 32), out + 32 * g);
    }
}

static void dequant_mxfp4(const void *p, float *out)
{
    struct block_mxfp4 b;
    memcpy(&b, p, sizeof b);
    codebook(b.qs, qblock_mxfp4, qblock_e8m0_half(b.e), out);
}

static void dequant_nvfp4(const void *p, float *out)
{
    struct block_nvfp4 b;
    memcpy(&b, p, sizeof b);
    for (size_t g = 0; g < 2; g++, out += 32) {
        uint8_t code[32];
        qblock_codes_nvfp4(b.qs + 16 * g, code);
        for (size_t i = 0; i < 32; i++) {
            const float scale = (float)qblock_e4m3(b.scales[2 * g + i / 16]);
            out[i] = scale * QBLOCK_UNIT_NVFP4 * (float)qblock_mxfp4[code[i]];
        }
    }
}

/* 32 values of codes that mean -1 and more. */
static void from_minus_one(const uint8_t code[32], float d, float *out)
{
    for (size_t i = 0; i < 32; i++)
        out[i] = (float)(code[i] - 1) * d;
}

static void dequant_tq1_0(const void *p, float *out)
{
    struct block_tq1_0 b;
    memcpy(&b, p, sizeof b);
    for (size_t g = 0; g < 8; g++) {
        uint8_t code[32];
        qblock_codes_tq1_0(&b, g, code);
        from_minus_one(code, half_f16_to_f32(b.d), out + 32 * g);
    }
}

static void dequant_tq2_0(const void *p, float *out)
{
    struct block_tq2_0 b;
    memcpy(&b, p, sizeof b);
    const float d = half_f16_to_f32(b.d);
    for (int i = 0; i < 256; i++)
        out[i] = (float)(two_bits(b.qs, i) - 1) * d;
}

static void dequant_q1_0(const void *p, float *out)
{
    struct block_q1_0 b;
    memcpy(&b, p, sizeof b);
    const float d = half_f16_to_f32(b.d);
    for (size_t i = 0; i < 128; i++)
        out[i] = b.qs[i / 8] >> i % 8 & 1 ? d : -d;
}

static void dequant_q2_0(const void *p, float *out)
{
    struct block_q2_0 b;
    memcpy(&b, p, sizeof b);
    for (size_t g = 0; g < 2; g++) {
        uint8_t code[32];
        qblock_codes_q2_0(b.qs + 8 * g, code);
        from_minus_one(code, half_f16_to_f32(b.d), out + 32 * g);
    }
}

/* No product of the four factors has more than 24 bits. */
static void dequant_grid(enum qtype type, const void *p, float *out)
{
    const struct qgrid grid = qgrid_of(type);
    const float d = half_f16_to_f32(qgrid_d(type, p)) * grid.unit;
    uint8_t scale[16], code[32];
    qgrid_scales(type, p, scale);
    for (size_t g = 0; g < 8; g++, out += 32) {
        qgrid_codes(type, p, g, code);
        for (size_t i = 0; i < 32; i++)
            out[i] = d * (float)scale[2 * g + i / 16] * (float)grid.table[code[i]];
    }
}

typedef void dequant_fn(const void *block, float *out);

/* NULL: dequant_grid. */
static dequant_fn *decoder(enum qtype type)
{
    switch (type) {
    case QTYPE_F32: return dequant_f32;
    case QTYPE_F16: return dequant_f16;
    case QTYPE_BF16: return dequant_bf16;
    case QTYPE_Q4_0: return dequant_q4_0;
    case QTYPE_Q4_1: return dequant_q4_1;
    case QTYPE_Q5_0: return dequant_q5_0;
    case QTYPE_Q5_1: return dequant_q5_1;
    case QTYPE_Q8_0: return dequant_q8_0;
    case QTYPE_Q2_K: return dequant_q2_k;
    case QTYPE_Q3_K: return dequant_q3_k;
    case QTYPE_Q4_K: return dequant_q4_k;
    case QTYPE_Q5_K: return dequant_q5_k;
    case QTYPE_Q6_K: return dequant_q6_k;
    case QTYPE_IQ4_NL: return dequant_iq4_nl;
    case QTYPE_IQ4_XS: return dequant_iq4_xs;
    case QTYPE_MXFP4: return dequant_mxfp4;
    case QTYPE_NVFP4: return dequant_nvfp4;
    case QTYPE_TQ1_0: return dequant_tq1_0;
    case QTYPE_TQ2_0: return dequant_tq2_0;
    case QTYPE_Q1_0: return dequant_q1_0;
    case QTYPE_Q2_0: return dequant_q2_0;
    case QTYPE_IQ1_S:
    case QTYPE_IQ1_M:
    case QTYPE_IQ2_XXS:
    case QTYPE_IQ2_XS:
    case QTYPE_IQ2_S:
    case QTYPE_IQ3_XXS:
    case QTYPE_IQ3_S: break;
    }
    return NULL;
}

void qtype_dequant(enum qtype type, const void *blocks, size_t n_values, float *out)
{
    const struct qtype_info *info = qtype_info(type);
    dequant_fn *decode = decoder(type);
    assert(info && n_values % info->block_len == 0);
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n_values; i += info->block_len, p += info->block_bytes) {
        if (decode)
            decode(p, out + i);
        else
            dequant_grid(type, p, out + i);
    }
}
