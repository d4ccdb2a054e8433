#include "base/angle.h"

#include <stdint.h>
#include <string.h>

/* pi/2 in three parts of 33, 33 and 53 bits: with |k| < 2^20 the first two products are exact.
 */
#define PI_2_HIGH 0x1.921fb544p+0
#define PI_2_MIDDLE 0x1.0b4611a6p-34
#define PI_2_LOW 0x1.3198a2e037073p-69

void angle_sin_cos(double x, double *sin_x, double *cos_x)
{
    const double to_integer = 0x1.8p52; /* a sum with it is rounded to a whole number */
    double k = (x * 0x1.45f306dc9c883p-1 + to_integer) - to_integer;
    double r = ((x - k * PI_2_HIGH) - k * PI_2_MIDDLE) - k * PI_2_LOW;
    double z = r * r;
    /* Taylor; at |r| <= pi/4 the first term left out is below 2^-60. */
    double s = 1.0 / 355687428096000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * (s * z);
    double c = -1.0 / 6402373705728000.0;
    c = c * z + 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = (1.0 - 0.5 * z) + c * (z * z);
    switch ((int64_t)k & 3) {
    case 0: *sin_x = s, *cos_x = c; break;
    case 1: *sin_x = c, *cos_x = -s; break;
    case 2: *sin_x = -s, *cos_x = -c; break;
    default: *sin_x = -c, *cos_x = s; break;
    }
}

double angle_ln(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh((m - 1) / (m + 1)). */
    const uint64_t root_half = 0x3fe6a09e667f3bcdu;
    uint64_t above = bits - root_half;
    int64_t e = (int64_t)above >> 52;
    uint64_t significand = (above & 0xfffffffffffffu) + root_half;
    double m;
    memcpy(&m, &significand, sizeof m);
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 23.0;
    for (int i = 21; i >= 3; i -= 2)
        p = p * z + 1.0 / (double)i;
    double ln_m = 2.0 * s + 2.0 * s * (p * z);
    /* ln 2 in two parts; the first has 32 bits, so its product with e is exact. */
    return (double)e * 0x1.62e42feep-1 + ((double)e * 0x1.a39ef35793c76p-33 + ln_m);
}
