/* The elementary functions, exact to the last bit on every device: one text for scalar C, C
 * vectors and GLSL.
 *
 * An includer defines the types F (f32), I (int32) and U (uint32), FN (qualifiers of a
 * function), NUM(name) (its name here), K(c) and UK(c) (a constant as F and as U), and the
 * primitives fadd, fsub, fmul (one rounding each, never contracted), sel_f and sel_u (choose by
 * a comparison), u_of, f_of (same bits), i_of_u, u_of_i, f_of_i (exact below 2^24). Integer
 * operators take I or U and a literal. All of these are undefined again at the end, unless
 * NUM_KEEPS_PRIMITIVES is defined. See numeric_c.h, cpu/vec_avx2.h and
 * shaders/lib/numeric.glsl.
 *
 * Only addition, subtraction, multiplication, selection and integer operations: these every
 * device rounds alike. No argument or result is ever denormal: stored values are 0 or at least
 * 2^-50 (keep), so a product of two is 0 or at least 2^-100 and a sum of such products is a
 * multiple of 2^-123. Accuracy is stated in hearth-numerics(7). NaN has one pattern.
 *
 * No include guard: a file may include this once for every set of types. */

/* The version of every definition in hearth-numerics(7): it changes whenever a bit may. */
#ifndef NUMERICS_VERSION
#define NUMERICS_VERSION 7
#endif

/* Bits of 2^-50, 2^-100, infinity and the one NaN; everything but the sign. */
#ifndef NUM_SMALL
#define NUM_SMALL 0x26800000u
#define NUM_TINY 0x0d800000u
#define NUM_INF 0x7f800000u
#define NUM_NAN 0x7fc00000u
#define NUM_ABS 0x7fffffffu
#define NUM_SIGN 0x80000000u
#define NUM_LOG2_E 1.44269504f     /* values, from here on */
#define NUM_WEIGHT_POWER 5.914f    /* exp2_weight: so much of log2 255 is in the exponent, */
#define NUM_WEIGHT_VERTEX 1.487f   /* the rest is (r + this)^2 */
#define NUM_WEIGHT_LEAST 2.021574f /* + this */
#define NUM_EXP2_LEAST (-50.0f)    /* below it exp2_below and exp2_weight are 0 */
#endif

/* The value as it is stored: below 2^-50 it is +0, a NaN is the one NaN. */
FN F NUM(keep)(F x)
{
    U a = u_of(x) & NUM_ABS;
    U r = sel_u(i_of_u(a) < 0x26800000, UK(0u), u_of(x));
    return f_of(sel_u(i_of_u(a) > 0x7f800000, UK(NUM_NAN), r));
}

/* +0 below 2^-100: a product of three or more factors passes through this after each. */
FN F NUM(flush)(F x)
{
    return f_of(sel_u(i_of_u(u_of(x) & NUM_ABS) < 0x0d800000, UK(0u), u_of(x)));
}

/* 13 significant bits of x: nearest, ties away from 0; NaN from 2^100 on. A product with a
 * binary16 is exact, so that a sum of such products may be fused or not. */
FN F NUM(narrow)(F x)
{
    U r = (u_of(x) + 0x400u) & 0xfffff800u;
    return f_of(sel_u(i_of_u(u_of(x) & NUM_ABS) > 0x717fffff, UK(NUM_NAN), r));
}

/* Key of the order -inf < ... < -0 < +0 < ... < inf < NaN; order_back undoes it. */
FN I NUM(order)(F x)
{
    I i = i_of_u(u_of(x));
    return i ^ ((i >> 31) & 0x7fffffff);
}

FN F NUM(order_back)(I i)
{
    return f_of(u_of_i(i ^ ((i >> 31) & 0x7fffffff)));
}

/* Nearest integer, ties to even; |x| <= 2^22. The sum's last bit is worth 1. */
FN I NUM(rne)(F x)
{
    return i_of_u(u_of(fadd(x, K(12582912.0f)))) - 0x4b400000;
}

/* binary16 bits to f32, denormals exact; an infinity or NaN stays one. */
FN F NUM(f16_to_f32)(U h)
{
    U m = h & 0x7fffu;
    U normal = (m << 13) + 0x38000000u;
    U special = sel_u(i_of_u(m) > 0x7c00, UK(NUM_NAN), UK(NUM_INF));
    U small = u_of(fmul(f_of_i(i_of_u(m)), K(5.9604644775390625e-8f)));
    U r = sel_u(i_of_u(m) < 0x0400, small, normal);
    r = sel_u(i_of_u(m) > 0x7bff, special, r);
    return f_of(r | ((h & 0x8000u) << 16));
}

/* f32 to the binary16 that keys and values are stored in: nearest, ties to even; +0 below
 * 2^-14 (never denormal), +-65504 beyond it. */
FN U NUM(f32_to_f16_kv)(F x)
{
    U a = u_of(x) & NUM_ABS;
    U s = (u_of(x) >> 16) & 0x8000u;
    U r = (a - 0x38000000u + 0x0fffu + ((a >> 13) & 1u)) >> 13;
    r = sel_u(i_of_u(a) > 0x477fe000, UK(0x7bffu), r) | s;
    r = sel_u(i_of_u(a) < 0x38800000, UK(0u), r);
    return sel_u(i_of_u(a) > 0x7f800000, UK(0x7e00u), r);
}

/* f32 to bfloat16, its upper half: nearest, ties to even; not for NaN. */
FN U NUM(f32_to_bf16)(F x)
{
    U u = u_of(x);
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

FN F NUM(bf16_to_f32)(U h)
{
    return f_of(h << 16);
}

/* e^x: x = k ln 2 + r, a polynomial of degree 7 in r, the exponent added by two factors. 0
 * below -34.65, so that a result is 0 or at least 2^-50; infinity above 88.72. */
FN F NUM(exp)(F x)
{
    F y = sel_f(x > K(88.75f), K(88.75f), sel_f(x < K(-34.65f), K(-34.65f), x));
    I k = NUM(rne)(fmul(y, K(NUM_LOG2_E)));
    F kf = f_of_i(k);
    F r = fsub(y, fmul(kf, K(0.693359375f))); /* exact: nine bits times eight */
    r = fadd(r, fmul(kf, K(2.12194440e-4f)));
    F p = K(1.9875691500e-4f);
    p = fadd(fmul(p, r), K(1.3981999507e-3f));
    p = fadd(fmul(p, r), K(8.3334519073e-3f));
    p = fadd(fmul(p, r), K(4.1665795894e-2f));
    p = fadd(fmul(p, r), K(1.6666665459e-1f));
    p = fadd(fmul(p, r), K(5.0000001201e-1f));
    p = fadd(fadd(fmul(fmul(r, r), p), r), K(1.0f));
    I half_k = k >> 1;
    F lo = f_of(u_of_i(half_k + 127) << 23), hi = f_of(u_of_i(k - half_k + 127) << 23);
    F e = fmul(fmul(p, lo), hi);
    e = sel_f(x < K(-34.65f), K(0.0f), e);
    e = sel_f(x > K(88.72283f), f_of(UK(NUM_INF)), e);
    return f_of(sel_u(i_of_u(u_of(x) & NUM_ABS) > 0x7f800000, UK(NUM_NAN), u_of(e)));
}

/* 2^x for x of at most 0: x = k + r, a polynomial of degree 5 in r, k added to the exponent. 0
 * below -50, so that a result is 0 or at least 2^-50. */
FN F NUM(exp2_below)(F x)
{
    F y = sel_f(x < K(NUM_EXP2_LEAST), K(NUM_EXP2_LEAST), x);
    F t = fadd(y, K(12582912.0f)); /* its low bits are k, and a NaN's are 0 */
    F r = fsub(y, fsub(t, K(12582912.0f)));
    F p = K(1.3269519e-3f);
    p = fadd(fmul(p, r), K(9.67129134e-3f));
    p = fadd(fmul(p, r), K(5.55071086e-2f));
    p = fadd(fmul(p, r), K(2.40222469e-1f));
    p = fadd(fmul(p, r), K(6.93147004e-1f));
    p = fadd(fmul(p, r), K(1.0f));
    F e = sel_f(x < K(NUM_EXP2_LEAST), K(0.0f), f_of(u_of(p) + (u_of(t) << 23)));
    return f_of(sel_u(i_of_u(u_of(x) & NUM_ABS) > 0x7f800000, UK(NUM_NAN), u_of(e)));
}

/* 255 · 2^x for x of at most 0, within 0.2 % of it: what is multiplied with values is its
 * nearest integer. 255 at 0, and never more. k + r = x + 5.914, and with so much of log2 255 in
 * the exponent the highest factor of the polynomial in r is 1: a square and a constant, one
 * product, are all of it. */
FN F NUM(exp2_weight)(F x)
{
    F y = fadd(sel_f(x < K(NUM_EXP2_LEAST), K(NUM_EXP2_LEAST), x), K(NUM_WEIGHT_POWER));
    F t = fadd(y, K(12582912.0f));
    F r = fadd(fsub(y, fsub(t, K(12582912.0f))), K(NUM_WEIGHT_VERTEX));
    F p = fadd(fmul(r, r), K(NUM_WEIGHT_LEAST));
    F e = sel_f(x < K(NUM_EXP2_LEAST), K(0.0f), f_of(u_of(p) + (u_of(t) << 23)));
    return f_of(sel_u(i_of_u(u_of(x) & NUM_ABS) > 0x7f800000, UK(NUM_NAN), u_of(e)));
}

/* ln x for x of at least 2^-126: x = m 2^e with m in [sqrt(1/2), sqrt(2)), a polynomial of
 * degree 9 in m - 1. -inf at 0 (and below 2^-126), NaN for negative x. */
FN F NUM(log)(F x)
{
    U a = u_of(x);
    U t = a - 0x3f3504f3u; /* sqrt(1/2) has an exponent of its own */
    I e = i_of_u(t) >> 23;
    F m = f_of((t & 0x007fffffu) + 0x3f3504f3u);
    F z = fsub(m, K(1.0f));
    F p = K(7.0376836292e-2f);
    p = fadd(fmul(p, z), K(-1.1514610310e-1f));
    p = fadd(fmul(p, z), K(1.1676998740e-1f));
    p = fadd(fmul(p, z), K(-1.2420140846e-1f));
    p = fadd(fmul(p, z), K(1.4249322787e-1f));
    p = fadd(fmul(p, z), K(-1.6668057665e-1f));
    p = fadd(fmul(p, z), K(2.0000714765e-1f));
    p = fadd(fmul(p, z), K(-2.4999993993e-1f));
    p = fadd(fmul(p, z), K(3.3333331174e-1f));
    F z2 = fmul(z, z), ef = f_of_i(e);
    F y = fmul(fmul(z2, z), p);
    y = fsub(y, fmul(ef, K(2.12194440e-4f)));
    y = fsub(y, fmul(z2, K(0.5f)));
    F r = fadd(fadd(z, y), fmul(ef, K(0.693359375f)));
    U u = u_of(r);
    u = sel_u(i_of_u(a) > 0x7f7fffff, UK(NUM_INF), u);
    u = sel_u(i_of_u(a) < 0, UK(NUM_NAN), u);
    u = sel_u(i_of_u(a & NUM_ABS) < 0x00800000, UK(0xff800000u), u);
    return f_of(sel_u(i_of_u(a & NUM_ABS) > 0x7f800000, UK(NUM_NAN), u));
}

/* 1/x: a guess by integer subtraction and four Newton steps on the significand in [1,2), the
 * exponent by integers. Exact sign; infinity below 2^-100, 0 above 2^100. */
FN F NUM(rcp)(F x)
{
    U u = u_of(x), a = u & NUM_ABS;
    I e = i_of_u(a >> 23) - 127;
    F m = f_of((a & 0x7fffffu) | 0x3f800000u);
    F y = f_of(UK(0x7ef311c7u) - u_of(m));
    y = fmul(y, fsub(K(2.0f), fmul(m, y)));
    y = fmul(y, fsub(K(2.0f), fmul(m, y)));
    y = fadd(y, fmul(y, fsub(K(1.0f), fmul(m, y))));
    y = fadd(y, fmul(y, fsub(K(1.0f), fmul(m, y))));
    U r = u_of(y) - (u_of_i(e) << 23);
    r = sel_u(i_of_u(a) > 0x71800000, UK(0u), r);
    r = sel_u(i_of_u(a) < 0x0d800000, UK(NUM_INF), r) | (u & NUM_SIGN);
    return f_of(sel_u(i_of_u(a) > 0x7f800000, UK(NUM_NAN), r));
}

/* The largest scale of a value's codes as its weight takes it: 2^-20 for 0, whose codes are 0;
 * NaN from 2^50 on. */
FN F NUM(weight_scale)(F d)
{
    U a = u_of(d) & NUM_ABS;
    U r = sel_u(i_of_u(a) > 0x587fffff, UK(NUM_NAN), a);
    return f_of(sel_u(i_of_u(a) < 1, UK(0x35800000u), r));
}

/* Its logarithm to base 2, to 1.5e-5, by a polynomial of degree 5; of a NaN some number. Split
 * as in log. */
FN F NUM(weight_log2)(F d)
{
    U t = u_of(d) - 0x3f3504f3u;
    F z = fsub(f_of((t & 0x007fffffu) + 0x3f3504f3u), K(1.0f));
    F p = K(0.252661404f);
    p = fadd(fmul(p, z), K(-0.394577772f));
    p = fadd(fmul(p, z), K(0.486686506f));
    p = fadd(fmul(p, z), K(-0.720241653f));
    p = fadd(fmul(p, z), K(1.44257799f));
    return fadd(fmul(p, z), f_of_i(i_of_u(t) >> 23));
}

/* Its inverse, to 7e-6: as rcp with two steps. */
FN F NUM(weight_inverse)(F d)
{
    U t = u_of(d) - 0x3f3504f3u;
    F m = f_of((t & 0x007fffffu) + 0x3f3504f3u);
    F y = f_of(UK(0x7ef311c7u) - u_of(m));
    y = fmul(y, fsub(K(2.0f), fmul(m, y)));
    y = fmul(y, fsub(K(2.0f), fmul(m, y)));
    U r = u_of(y) - (t & 0xff800000u);
    return f_of(sel_u(i_of_u(u_of(d)) > 0x7f800000, UK(NUM_NAN), r));
}

/* 1/sqrt(x), x >= 0. What is below 2^-100 counts as 2^-100; NaN for negative x. */
FN F NUM(rsqrt)(F x)
{
    U a = u_of(x);
    U b = sel_u(i_of_u(a & NUM_ABS) < 0x0d800000, UK(NUM_TINY), a & NUM_ABS);
    I e = i_of_u(b >> 23) - 127;
    I h = e >> 1;
    F m = f_of((b & 0x7fffffu) | (u_of_i((e & 1) + 127) << 23)); /* [1,4) */
    F hm = fmul(m, K(0.5f));
    F y = f_of(UK(0x5f375a86u) - (u_of(m) >> 1));
    y = fmul(y, fsub(K(1.5f), fmul(hm, fmul(y, y))));
    y = fmul(y, fsub(K(1.5f), fmul(hm, fmul(y, y))));
    y = fadd(y, fmul(y, fsub(K(0.5f), fmul(hm, fmul(y, y)))));
    y = fadd(y, fmul(y, fsub(K(0.5f), fmul(hm, fmul(y, y)))));
    U r = u_of(y) - (u_of_i(h) << 23);
    r = sel_u(i_of_u(b) > 0x7f7fffff, UK(0u), r); /* infinity */
    r = sel_u(i_of_u(a) < 0, sel_u(i_of_u(a & NUM_ABS) < 0x0d800000, r, UK(NUM_NAN)), r);
    return f_of(sel_u(i_of_u(a & NUM_ABS) > 0x7f800000, UK(NUM_NAN), r));
}

/* 1 / (1 + e^-x), by the exponential of -|x|, which cannot overflow. */
FN F NUM(sigmoid)(F x)
{
    F e = NUM(exp)(f_of(u_of(x) | NUM_SIGN));
    F r = NUM(rcp)(fadd(K(1.0f), e));
    return sel_f(i_of_u(u_of(x)) < 0, fmul(e, r), r);
}

FN F NUM(silu)(F x)
{
    return NUM(keep)(fmul(x, NUM(sigmoid)(x)));
}

/* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 = x sigmoid(2 sqrt(2/pi) (...)). */
FN F NUM(gelu)(F x)
{
    F y = NUM(flush)(sel_f(x > K(30.0f), K(30.0f), sel_f(x < K(-30.0f), K(-30.0f), x)));
    F y2 = NUM(flush)(fmul(y, y));
    F z = fmul(fmul(K(1.59576912f), y), fadd(K(1.0f), fmul(K(0.044715f), y2)));
    return NUM(keep)(fmul(x, NUM(sigmoid)(z)));
}

/* 0 for what is below 0, found by its bits: a driver may take the greater of 0 and a NaN. */
FN F NUM(relu)(F x)
{
    U u = u_of(x);
    return f_of(sel_u(i_of_u(u - UK(1u)) < -0x800000, UK(0u), u));
}

/* e^x - 1 - x for x of at most 0. Near 0 by its series: of the sum few bits would be left. */
FN F NUM(exp_rest)(F x)
{
    F p = K(2.75573192e-6f);
    p = fadd(fmul(p, x), K(2.48015873e-5f));
    p = fadd(fmul(p, x), K(1.98412698e-4f));
    p = fadd(fmul(p, x), K(1.38888889e-3f));
    p = fadd(fmul(p, x), K(8.33333333e-3f));
    p = fadd(fmul(p, x), K(4.16666667e-2f));
    p = fadd(fmul(p, x), K(1.66666667e-1f));
    p = fadd(fmul(p, x), K(0.5f));
    F far = fsub(fsub(NUM(exp)(x), K(1.0f)), x);
    return sel_f(x > K(-0.5f), fmul(fmul(x, x), p), far);
}

/* slope x + square x^2 above 0, slope x + bend (e^x - 1 - x) below. square and bend are 0 or at
 * least 2^-20, so that no product of theirs with what is stored is denormal. */
FN F NUM(xielu)(F x, F square, F bend, F slope)
{
    U u = u_of(x);
    F above = f_of(sel_u(i_of_u(u) < 0, UK(0u), u)),
      below = f_of(sel_u(i_of_u(u) < 0, u, UK(0u)));
    F curve = sel_f(i_of_u(u) < 0, fmul(bend, NUM(exp_rest)(below)),
                    fmul(square, fmul(above, above)));
    U r = u_of(NUM(keep)(fadd(fmul(slope, x), curve)));
    return f_of(sel_u(i_of_u(u & NUM_ABS) > 0x7f800000, UK(NUM_NAN), r));
}

/* x within -limit and limit > 0, by its bits for the same reason. */
FN F NUM(limit)(F x, F limit)
{
    U size = u_of(x) & NUM_ABS, bound = u_of(limit) | (u_of(x) & NUM_SIGN);
    U r = sel_u(i_of_u(size) > i_of_u(u_of(limit)), bound, u_of(x));
    return f_of(sel_u(i_of_u(size) > 0x7f800000, UK(NUM_NAN), r));
}

/* g sigmoid(1.702 g) (u + 1), g at most 7 and u within 7. A NaN is asked for apart: a driver
 * may take the lesser of 7 and it, which is 7 (NVIDIA 580). */
FN F NUM(clamped_glu)(F gate, F up)
{
    F g = sel_f(gate > K(7.0f), K(7.0f), gate);
    F u = sel_f(up > K(7.0f), K(7.0f), sel_f(up < K(-7.0f), K(-7.0f), up));
    F s = NUM(keep)(fmul(g, NUM(sigmoid)(fmul(K(1.702f), g))));
    U r = u_of(NUM(keep)(fmul(s, fadd(u, K(1.0f)))));
    r = sel_u(i_of_u(u_of(gate) & NUM_ABS) > 0x7f800000, UK(NUM_NAN), r);
    return f_of(sel_u(i_of_u(u_of(up) & NUM_ABS) > 0x7f800000, UK(NUM_NAN), r));
}

/* Below 0.625 an odd polynomial, beyond it 1 - 2 / (1 + e^2|x|) with the sign of x. */
FN F NUM(tanh)(F x)
{
    U a = u_of(x) & NUM_ABS, s = u_of(x) & NUM_SIGN;
    F z = f_of(sel_u(i_of_u(a) < 0x39800000, UK(0u), a)); /* 2^-12: tanh x = x */
    z = fmul(z, z);
    F p = K(-5.70498872745e-3f);
    p = fadd(fmul(p, z), K(2.06390887954e-2f));
    p = fadd(fmul(p, z), K(-5.37397155531e-2f));
    p = fadd(fmul(p, z), K(1.33314422036e-1f));
    p = fadd(fmul(p, z), K(-3.33332819422e-1f));
    F near_0 = fadd(fmul(fmul(p, z), x), x);
    F y = sel_f(f_of(a) > K(10.0f), K(10.0f), f_of(a));
    F q = NUM(rcp)(fadd(NUM(exp)(fadd(y, y)), K(1.0f)));
    F far = f_of(u_of(fsub(K(1.0f), fadd(q, q))) | s);
    F r = sel_f(i_of_u(a) < 0x3f200000, near_0, far);
    return f_of(sel_u(i_of_u(a) > 0x7f800000, UK(NUM_NAN), u_of(r)));
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|). */
FN F NUM(softplus)(F x)
{
    F l = NUM(log)(fadd(K(1.0f), NUM(exp)(f_of(u_of(x) | NUM_SIGN))));
    return NUM(keep)(fadd(sel_f(i_of_u(u_of(x)) < 0, K(0.0f), x), l));
}

/* The names are short: they end here unless the includer goes on with them. */
#ifndef NUM_KEEPS_PRIMITIVES
#undef F
#undef I
#undef U
#undef FN
#undef NUM
#undef K
#undef UK
#undef fadd
#undef fsub
#undef fmul
#undef sel_f
#undef sel_u
#undef u_of
#undef f_of
#undef i_of_u
#undef u_of_i
#undef f_of_i
#endif
