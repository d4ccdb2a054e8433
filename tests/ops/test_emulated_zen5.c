/* The AVX-512 products as they are for Zen 5, as plain C, from the same text, against the
 * scalar reference: on any machine. Where the instructions are, test_tables_avx512 compares the
 * real ones as well. */
#include "ops.h"

#define CPU_ZEN5_H /* in place of its names, which the library has */
#define avx512_band emulated_zen5_band
#define avx512_matmul emulated_zen5_matmul
#define avx512_matmul_scratch emulated_zen5_matmul_scratch
#define kernels_avx512 emulated_kernels_zen5
#include "../../src/cpu/matmul_avx512.c"

#include "emulated_case.h"

static void test_zen5(void **state)
{
    (void)state;
    check_all_types(&(struct variant){"avx512 on Zen 5 as plain C", avx512_matmul,
                                      avx512_matmul_scratch, true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_zen5)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
