/* numeric.h for scalar C: num_exp, num_rcp, num_keep and so on, on float, int32_t and uint32_t.
 * Pure, any thread. Compile with -ffp-contract=off. */
#ifndef BASE_NUMERIC_C_H
#define BASE_NUMERIC_C_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0 || defined __FAST_MATH__
#error "hearth computes the same bits everywhere: -ffast-math, -Ofast and -mfpmath=387 do not"
#endif

static inline uint32_t num_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float num_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

#define F float
#define I int32_t
#define U uint32_t
#define FN static inline
#define NUM(name) num_##name
#define K(c) (c)
#define UK(c) (c)
#define fadd(a, b) ((a) + (b))
#define fsub(a, b) ((a) - (b))
#define fmul(a, b) ((a) * (b))
#define sel_f(c, a, b) ((c) ? (a) : (b))
#define sel_u(c, a, b) ((c) ? (a) : (b))
#define u_of(x) num_bits(x)
#define f_of(u) num_of_bits(u)
#define i_of_u(u) ((int32_t)(u))
#define u_of_i(i) ((uint32_t)(i))
#define f_of_i(i) ((float)(i))

#include "base/numeric.h"

#endif
