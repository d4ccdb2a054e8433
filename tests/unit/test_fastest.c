/* The choice among sets of kernels: the one that takes least, over memory that is its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cpu/cpu.h"
#include "cpu/fastest.h"
#include "cpu/kernels.h"

enum { SCRATCH = 1000 };
static size_t n_rows_most;

static size_t some_scratch(size_t n_cols)
{
    (void)n_cols;
    return SCRATCH;
}

/* Uses all that it is given. */
static void use(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const size_t n_cols = m->w->base.n_cols;
    int sum = 0;
    for (size_t r = 0; r < m->n_rows; r++) {
        for (size_t i = 0; i < n_cols; i++)
            sum += m->a8.q[r * m->a8.stride + i];
        sum += m->a8.sum[((r + 1) * m->a8.stride - 1) / 16];
        for (size_t i = lo; i < hi; i++)
            m->out[r * m->out_stride + i] =
                (float)sum + m->a8.d[((r + 1) * m->a8.stride - 1) / 32];
    }
    memset(scratch, 1, SCRATCH);
    assert_int_equal(sum, 0);
    assert_int_equal(lo, 0);
    assert_int_equal(hi, m->w->base.n_rows);
    if (m->n_rows > n_rows_most) n_rows_most = m->n_rows;
}

static void sleep_and_use(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    use(m, lo, hi, scratch);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static const struct kernels quick = {.matmul_scratch = some_scratch, .matmul = use};
static const struct kernels slow = {.matmul_scratch = some_scratch, .matmul = sleep_and_use};

static void test_choice(void **state)
{
    (void)state;
    const struct kernels *first[] = {&quick, &slow, &slow}, *last[] = {&slow, &slow, &quick};
    assert_int_equal(fastest_kernels(first, 3), 0);
    assert_int_equal(fastest_kernels(last, 3), 2);
    assert_true(n_rows_most >= 16); /* tiles of 16 rows have their turn */
}

static void test_alone(void **state)
{
    (void)state;
    const struct kernels *sets[] = {&slow};
    n_rows_most = 0;
    assert_int_equal(fastest_kernels(sets, 1), 0);
    assert_int_equal(n_rows_most, 0); /* there is nothing to measure */
}

#ifdef __x86_64__
static const struct {
    enum cpu_isa isa;
    const struct kernels *kernels;
} all[] = {{CPU_AVX2, &kernels_avx2},
           {CPU_AVX2, &kernels_avx2},
           {CPU_AVXVNNI, &kernels_avxvnni},
           {CPU_AVX512, &kernels_avx512},
           {CPU_AMX, &kernels_amx}};
#else
static const struct {
    enum cpu_isa isa;
    const struct kernels *kernels;
} all[] = {{CPU_SIMD, &kernels_simd}};
#endif

/* Those of this processor, over the memory as it is. */
static void test_here(void **state)
{
    (void)state;
    enum { N = sizeof all / sizeof *all };
    const struct kernels *sets[N];
    size_t n = 0;
    for (size_t i = 0; i < N; i++) {
        if (cpu_has(all[i].isa)) sets[n++] = all[i].kernels;
    }
    assert_true(n == 0 || fastest_kernels(sets, n) < n);
    assert_true(cpu_has(cpu_best()));
    assert_true(n > 0 ? cpu_best() >= all[0].isa : cpu_best() < CPU_AVX2);
    assert_int_equal(cpu_best(), cpu_best());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
