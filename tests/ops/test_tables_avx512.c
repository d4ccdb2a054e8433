/* The products of AVX-512 have several tables, and a backend takes the one that is for its
 * processor. Here the processor computes with each whose instructions it has, against the
 * scalar reference. */
#include "ops.h"

#include "base/cpuid.h"
#include "emulated_case.h"

static struct table {
    const char *name;
    bool (*here)(void);
    const struct kernels *kernels;
} tables[] = {
    {"avx512", cpuid_avx512, &kernels_avx512},
    {"avx512 on AMD", cpuid_avx512, &kernels_avx512_amd},
    {"avx512 with gfni", cpuid_gfni, &kernels_gfni},
    {"avx512 with gfni on AMD", cpuid_gfni, &kernels_gfni_amd},
    {"avx512 on Zen 5", cpuid_gfni, &kernels_zen5},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

static void test_table(void **state)
{
    const struct table *t = *state;
    const struct kernels *k = t->kernels;
    if (!t->here()) skip();
    check_all_types(
        &(struct variant){t->name, k->matmul, k->matmul_scratch, k->bytes_unsigned});
}

int main(void)
{
    struct CMUnitTest tests[N_TABLES] = {{0}};
    for (size_t i = 0; i < N_TABLES; i++) {
        tests[i] = (struct CMUnitTest){
            .name = tables[i].name, .test_func = test_table, .initial_state = &tables[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
