/* The products of ARM with their one instruction as plain C, from the same text, against the
 * scalar reference: on x86-64 with AVX2, which has the rest of that text. On ARM test_matmul
 * compares the real ones. */
#include "ops.h"

#define kernels_dotprod emulated_kernels_dotprod
#include "../../src/cpu/matmul_dotprod.c"

#include "emulated_case.h"

static void test_dotprod(void **state)
{
    (void)state;
    if (!cpu_has(CPU_AVX2)) skip();
    check_all_types(
        &(struct variant){"dotprod as plain C", matmul_packed, matmul_scratch, false});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dotprod)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
