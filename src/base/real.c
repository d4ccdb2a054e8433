/* Elementary functions in double: argument reduction, then a Taylor or artanh series. */
#include "base/real.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln 2 and pi/2 in parts with enough trailing zeros that k times the leading ones is exact. */
static const double LN2_HI = 0x1.62e42fee00000p-1, LN2_LO = 0x1.a39ef35793c76p-33;
static const double PIO2_1 = 0x1.921fb4p+0, PIO2_2 = 0x1.4442dp-24, PIO2_3 = 0x1.846988p-48,
                    PIO2_4 = 0x1.8cc51701b839ap-72;

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The nearest integer, ties to even, of |x| < 2^51. */
static double nearest(double x)
{
    const double big = 0x1.8p52;
    return (x + big) - big;
}

double real_log(double x)
{
    assert(x >= 0x1p-1022 && x <= 0x1.fffffffffffffp1023);
    uint64_t u = bits_of(x);
    int e = (int)(u >> 52) - 1023;
    double m = from_bits((u & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.4142135623730951) {
        m = m * 0.5;
        e++;
    }
    /* log m = 2 artanh(s), |s| < 0.1716: ten terms beyond the first reach 2^-60. The first
     * order is taken from f = m - 1, which is exact: log m = f - (f²/2 - s·(f²/2 + r)). */
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, r = 0.0;
    for (int k = 12; k >= 1; k--)
        r = (r + 2.0 / (double)(2 * k + 1)) * z;
    double h = 0.5 * f * f;
    return (double)e * LN2_HI - ((h - (s * (h + r) + (double)e * LN2_LO)) - f);
}

double real_exp(double x)
{
    if (!(x >= -708.0)) return 0.0;
    if (x > 709.0) return HUGE_VAL;
    double k = nearest(x * 0x1.71547652b82fep+0);
    double r = (x - k * LN2_HI) - k * LN2_LO;
    double p = 0.0;
    for (int i = 14; i >= 2; i--)
        p = (p + 1.0) * (r / (double)i);
    /* e^r = 1 + r + r·p, |r| <= 0.347 */
    double y = 1.0 + (r + r * p);
    return y * from_bits((uint64_t)((int64_t)k + 1023) << 52);
}

double real_pow(double x, double y)
{
    return real_exp(y * real_log(x));
}

/* Both for |r| <= pi/4 plus a rounding. */
static double sine_near(double r)
{
    double z = r * r, p = 0.0;
    for (int i = 17; i >= 3; i -= 2)
        p = (1.0 - p) * (z / (double)(i * (i - 1)));
    return r - r * p;
}

static double cosine_near(double r)
{
    double z = r * r, p = 0.0;
    for (int i = 18; i >= 4; i -= 2)
        p = (1.0 - p) * (z / (double)(i * (i - 1)));
    return 1.0 - (0.5 * z) * (1.0 - p);
}

void real_sincos(double x, double *sine, double *cosine)
{
    assert(x > -0x1p28 && x < 0x1p28);
    double k = nearest(x * 0x1.45f306dc9c883p-1);
    double r = (((x - k * PIO2_1) - k * PIO2_2) - k * PIO2_3) - k * PIO2_4;
    double s = sine_near(r), c = cosine_near(r);
    switch ((int64_t)k & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
    }
}
