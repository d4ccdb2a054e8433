/* The AVX-VNNI products with their one instruction as plain C, from the same text, against the
 * scalar reference: on any machine with AVX2. Where the instruction is, test_matmul compares
 * the real ones as well, and tests/emulated.sh runs them in an emulator. */
#include "ops.h"

#define kernels_avxvnni emulated_kernels_avxvnni
#include "../../src/cpu/matmul_avxvnni.c"

#include "emulated_case.h"

static void test_avxvnni(void **state)
{
    (void)state;
    if (!cpu_has(CPU_AVX2)) skip();
    check_all_types(
        &(struct variant){"avxvnni as plain C", matmul_packed, matmul_scratch, true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_avxvnni)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
