/* Reals in decimal: the spellings of Python's repr, and that each reads back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/decimal.h"

static void test_spellings(void **unused)
{
    (void)unused;
    static const struct {
        double f;
        const char *want;
    } rows[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {3, "3.0"},
        {19.99, "19.99"},
        {0.1 + 0.2, "0.30000000000000004"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {-2.5e-7, "-2.5e-07"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {123456789012345680, "1.2345678901234568e+17"},
        {5e-324, "5e-324"},
        {-1.7976931348623157e308, "-1.7976931348623157e+308"},
        {HUGE_VAL, "inf"},
        {-HUGE_VAL, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[DECIMAL_BYTES];
        decimal_shortest(out, rows[i].f);
        assert_string_equal(out, rows[i].want);
    }
}

static void test_reading_back(void **unused)
{
    (void)unused;
    uint64_t bits = 20250704;
    for (int i = 0; i < 20000; i++) {
        double f;
        char out[DECIMAL_BYTES];
        bits = bits * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        decimal_shortest(out, f);
        assert_true(strtod(out, NULL) == f);
        assert_true(strlen(out) <= 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_reading_back),
    };
    return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
