/* Sine, cosine and logarithm in double by additions, multiplications and one division only:
 * the same bits on every machine, whatever its libm. For tables that the host computes (RoPE,
 * position scales), not for kernels. Pure, any thread. */
#ifndef BASE_ANGLE_H
#define BASE_ANGLE_H

/* sin and cos of x radians, |x| < 2^20; error below 2^-51 there. */
void angle_sin_cos(double x, double *sin_x, double *cos_x);
/* ln x for normal x > 0; relative error below 2^-50. */
double angle_ln(double x);

#endif
