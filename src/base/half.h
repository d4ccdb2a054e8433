/* 16-bit floats as their exact 32-bit values, by integer operations only: no instruction, no
 * flush mode and no compiler option can change the result. Pure, any thread. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float half_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE binary16; a NaN keeps its payload and becomes quiet, as F16C does it. */
static inline float half_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 0x1f)
        return half_from_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000u : 0));
    if (exponent == 0) {
        if (mantissa == 0) return half_from_bits(sign);
        /* A subnormal half is a normal float: shift its first one up to the hidden bit. */
        uint32_t shift = (uint32_t)__builtin_clz(mantissa) - 21;
        exponent = 1 - shift; /* wraps below zero; the bias below brings it back */
        mantissa = mantissa << shift & 0x3ff;
    }
    return half_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/* bfloat16: the upper half of a binary32. */
static inline float half_bf16_to_f32(uint16_t h)
{
    return half_from_bits((uint32_t)h << 16);
}

#endif
