/* The double routines: accuracy against libm's long double, and fixed bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/real.h"

static uint64_t state = 20250704;

static double uniform(double lo, double hi)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return lo + (hi - lo) * (double)(state >> 11) * 0x1p-53;
}

static double ulp_error(double got, long double want)
{
    int e;
    frexp((double)want, &e);
    return fabs((double)(((long double)got - want) / (long double)ldexp(1.0, e - 53)));
}

static void test_log(void **unused)
{
    (void)unused;
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = i % 2 ? uniform(0.5, 2.0) : ldexp(uniform(1, 2), (int)uniform(-1000, 1000));
        double e = ulp_error(real_log(x), logl((long double)x));
        if (e > worst) worst = e;
    }
    print_message("log: worst error %.2f ulp\n", worst);
    assert_true(worst < 1.0);
    assert_true(real_log(1.0) == 0.0);
}

static void test_exp(void **unused)
{
    (void)unused;
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        double x = i % 2 ? uniform(-1, 1) : uniform(-700, 700);
        double e = ulp_error(real_exp(x), expl((long double)x));
        if (e > worst) worst = e;
    }
    print_message("exp: worst error %.2f ulp\n", worst);
    assert_true(worst < 1.5);
    assert_true(real_exp(0.0) == 1.0);
    assert_true(real_exp(-709.0) == 0.0);
    assert_true(isinf(real_exp(710.0)));
}

static void test_pow(void **unused)
{
    (void)unused;
    double worst = 0;
    for (int i = 0; i < 100000; i++) {
        double x = uniform(1000, 1e7), y = -uniform(0, 1);
        double e = fabs(real_pow(x, y) / (double)powl((long double)x, (long double)y) - 1.0);
        if (e > worst) worst = e;
    }
    print_message("pow: worst relative error %.2g\n", worst);
    assert_true(worst < 4e-15);
    assert_true(real_pow(10000.0, 0.0) == 1.0);
}

static void test_sincos(void **unused)
{
    (void)unused;
    double worst = 0;
    for (int i = 0; i < 400000; i++) {
        double range = i % 4 == 0 ? 1 : i % 4 == 1 ? 100 : i % 4 == 2 ? 131072.0 : 0x1p28;
        double x = uniform(-range, range), s, c;
        real_sincos(x, &s, &c);
        double es = fabs((double)((long double)s - sinl((long double)x)));
        double ec = fabs((double)((long double)c - cosl((long double)x)));
        if (es > worst) worst = es;
        if (ec > worst) worst = ec;
    }
    print_message("sincos: worst absolute error %.2f * 2^-53\n", worst * 0x1p53);
    assert_true(worst < 0x1p-52);
    double s, c;
    real_sincos(0.0, &s, &c);
    assert_true(s == 0.0 && c == 1.0);
}

/* One changed bit anywhere (a fused multiply-add, a reordered sum) changes this. */
static void test_bits(void **unused)
{
    (void)unused;
    uint64_t h = 0xcbf29ce484222325ull;
    state = 7;
    for (int i = 0; i < 5000; i++) {
        double v[4];
        v[0] = real_log(uniform(1e-3, 1e7));
        v[1] = real_exp(uniform(-20, 20));
        real_sincos(uniform(0, 131072), &v[2], &v[3]);
        for (int j = 0; j < 4; j++) {
            uint64_t u;
            memcpy(&u, &v[j], sizeof u);
            h = (h ^ u) * 0x100000001b3ull;
        }
    }
    print_message("bits: %016llx\n", (unsigned long long)h);
    assert_int_equal(h, 0x242b5f10fae67332ull);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log),    cmocka_unit_test(test_exp),  cmocka_unit_test(test_pow),
        cmocka_unit_test(test_sincos), cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
