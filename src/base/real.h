/* Elementary functions in double, for what the host works out once: rope frequencies and
 * angles, scales that follow from a position. Built from +, -, *, / and bit operations in a
 * fixed order, so that every libm and every compiler gives the same bits. Pure, any thread.
 * (What runs per activation is in numeric.h, in f32.) */
#ifndef BASE_REAL_H
#define BASE_REAL_H

/* Natural logarithm of a finite x > 0 that is not denormal; error below 1 ulp. */
double real_log(double x);
/* e^x, error below 1.5 ulp; 0 for x < -708, infinity for x > 709. */
double real_exp(double x);
/* x^y for x > 0 as exp(y·log x): relative error about |y·log x|·2^-53. */
double real_pow(double x, double y);
/* Sine and cosine of an angle with |x| < 2^28; absolute error below 2^-52. */
void real_sincos(double x, double *sine, double *cosine);

#endif
