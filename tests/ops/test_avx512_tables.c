/* The products of AVX-512 have four tables, and a backend takes the one that is for its
 * processor. Here the processor computes with each whose instructions it has, against the
 * scalar reference. */
#include "ops.h"

#include "base/cpuid.h"
#include "emulated_case.h"

#ifdef __x86_64__

static void check_table(const char *name, bool here, const struct kernels *k)
{
    if (!here) skip();
    check_all_types(&(struct variant){name, k->matmul, k->matmul_scratch, k->bytes_unsigned});
}

static void test_avx512(void **state)
{
    (void)state;
    check_table("avx512", cpuid_avx512(), &kernels_avx512);
}

static void test_avx512_amd(void **state)
{
    (void)state;
    check_table("avx512 on AMD", cpuid_avx512(), &kernels_avx512_amd);
}

static void test_gfni(void **state)
{
    (void)state;
    check_table("avx512 with gfni", cpuid_gfni(), &kernels_gfni);
}

static void test_gfni_amd(void **state)
{
    (void)state;
    check_table("avx512 with gfni on AMD", cpuid_gfni(), &kernels_gfni_amd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_amd),
        cmocka_unit_test(test_gfni),
        cmocka_unit_test(test_gfni_amd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
