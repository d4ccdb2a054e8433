/* The AVX-512 and AMX products as plain C, from the same text, against the scalar reference: on
 * any machine. Where the instructions are, test_matmul compares the real ones as well, and
 * tests/emulated.sh runs them in an emulator. */
#include "ops.h"

#define avx512_matmul emulated_avx512_matmul
#define gfni_matmul emulated_avx512_matmul
#define avx512_matmul_scratch emulated_avx512_matmul_scratch
#define avx512_matmul_floats emulated_avx512_matmul_floats
#define avx512_matmul_floats_scratch emulated_avx512_matmul_floats_scratch
#define avx512_band emulated_avx512_band
#define amx_matmul emulated_amx_matmul
#define kernels_avx512 emulated_kernels_avx512
#define kernels_avx512_amd emulated_kernels_avx512_amd
#define kernels_amx emulated_kernels_amx
#define amx_matmul_scratch emulated_amx_matmul_scratch

#define panel_fn avx512_panel_fn
#define TILE_ROWS AVX512_TILE_ROWS
#define tile avx512_tile
#include "../../src/cpu/matmul_avx512.c"
#undef panel_fn
#undef TILE_ROWS
#undef tile
#undef INSTANCE
#undef CASE
#define TILE_ROWS FLOAT_TILE_ROWS
#define tile float_tile
#include "../../src/cpu/matmul_f_avx512.c"
#undef TILE_ROWS
#undef tile
#include "../../src/cpu/matmul_amx.c"

#include "emulated_case.h"

static void test_avx512(void **state)
{
    (void)state;
    check_all_types(&(struct variant){"avx512 as plain C", emulated_avx512_matmul,
                                      emulated_avx512_matmul_scratch, true});
}

/* Whichever of the two tables test_matmul's processor does not take. */
static void test_avx512_amd(void **state)
{
    (void)state;
    check_all_types(&(struct variant){"avx512 on AMD as plain C", kernels_avx512_amd.matmul,
                                      kernels_avx512_amd.matmul_scratch, true});
}

static void test_amx(void **state)
{
    (void)state;
    check_all_types(&(struct variant){"amx as plain C", emulated_amx_matmul,
                                      emulated_amx_matmul_scratch, true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_amd),
        cmocka_unit_test(test_amx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
