/* Pages of the KV cache in the host's memory: side by side, each with its own bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../chance.h"
#include "backend/backend.h"
#include "base/err.h"
#include "base/mem.h"
#include "cache/page.h"
#include "cpu/cpu.h"
#include "cpu/pages.h"

enum { UNIT = 4160, N_UNITS = 6, PAGE = N_UNITS * UNIT, N = 40 };

static void pages_that_a_slab_has(void **unused)
{
    (void)unused;
    assert_int_equal(cpu_pages_beside(PAGE, UNIT), 16);
    assert_int_equal(cpu_pages_beside(PAGE, 0), 1);
    assert_int_equal(cpu_pages_beside(0, 0), 1);
    assert_int_equal(cpu_pages_beside(0, UNIT), 1);
    /* A slab is 32 MiB at most. */
    assert_int_equal(cpu_pages_beside((size_t)8 << 20, 1 << 15), 4);
    assert_int_equal(cpu_pages_beside((size_t)10 << 20, 1 << 20), 3);
    assert_int_equal(cpu_pages_beside((size_t)7 << 19, 1 << 19), 9);
    assert_int_equal(cpu_pages_beside((size_t)11 << 20, 1 << 20), 2);
    assert_int_equal(cpu_pages_beside((size_t)17 << 20, 1 << 20), 1);
    assert_int_equal(cpu_pages_beside((size_t)99 << 20, 1 << 20), 1);
}

/* Pages that are asked for one after the other lie side by side, up to the end of a slab. */
static void neighbours_lie_side_by_side(void **unused)
{
    (void)unused;
    struct cpu_pages *p = cpu_pages_open();
    uint8_t *page[N];
    for (size_t i = 0; i < N; i++)
        assert_non_null(page[i] = cpu_pages_new(p, PAGE, UNIT));
    for (size_t i = 1; i < N; i++)
        if (i % 16 != 0) assert_ptr_equal(page[i], page[i - 1] + UNIT);
    /* Gaps are filled first, the oldest before others. */
    cpu_pages_free(p, page[21], PAGE);
    cpu_pages_free(p, page[7], PAGE);
    cpu_pages_free(p, page[3], PAGE);
    assert_ptr_equal(cpu_pages_new(p, PAGE, UNIT), page[3]);
    assert_ptr_equal(cpu_pages_new(p, PAGE, UNIT), page[7]);
    assert_ptr_equal(cpu_pages_new(p, PAGE, UNIT), page[21]);
    assert_ptr_equal(cpu_pages_new(p, PAGE, UNIT), page[N - 1] + UNIT);
    cpu_pages_free(p, page[N - 1] + UNIT, PAGE);
    for (size_t i = 0; i < N; i++)
        cpu_pages_free(p, page[i], PAGE);
    cpu_pages_free(p, NULL, PAGE);
    cpu_pages_close(p);
}

/* Pages of other sizes and units have slabs of their own. */
static void sizes_lie_apart(void **unused)
{
    (void)unused;
    struct cpu_pages *p = cpu_pages_open();
    uint8_t *a = cpu_pages_new(p, PAGE, UNIT), *b = cpu_pages_new(p, PAGE, 2 * UNIT);
    uint8_t *c = cpu_pages_new(p, 2 * PAGE, UNIT), *d = cpu_pages_new(p, PAGE, 0);
    assert_ptr_equal(cpu_pages_new(p, PAGE, UNIT), a + UNIT);
    assert_ptr_equal(cpu_pages_new(p, PAGE, 2 * UNIT), b + 2 * UNIT);
    assert_ptr_equal(cpu_pages_new(p, 2 * PAGE, UNIT), c + UNIT);
    const struct pieces side_by_side = cpu_pages_bytes(p, a), alone = cpu_pages_bytes(p, d);
    assert_false(pieces_are_joined(&side_by_side));
    assert_true(pieces_are_joined(&alone));
    memset(d, 1, PAGE); /* as it lies */
    cpu_pages_free(p, a + UNIT, PAGE);
    cpu_pages_free(p, b + 2 * UNIT, PAGE);
    cpu_pages_free(p, c + UNIT, 2 * PAGE);
    cpu_pages_free(p, a, PAGE);
    cpu_pages_free(p, b, PAGE);
    cpu_pages_free(p, c, 2 * PAGE);
    cpu_pages_free(p, d, PAGE);
    cpu_pages_close(p);
}

/* What is written of a page is read of it, whatever is written of others. */
static void each_page_has_its_bytes(void **unused)
{
    (void)unused;
    struct cpu_pages *p = cpu_pages_open();
    void *page[N];
    uint8_t *want = mem_alloc(N * PAGE), *got = mem_alloc(PAGE);
    chance_begin(1);
    for (size_t i = 0; i < N * PAGE; i++)
        want[i] = (uint8_t)chance_word();
    for (size_t i = 0; i < N; i++)
        assert_non_null(page[i] = cpu_pages_new(p, PAGE, UNIT));
    for (size_t i = 0; i < N; i++)
        cpu_pages_write(p, page[i], PAGE, want + i * PAGE);
    cpu_pages_copy(p, page[30], page[2], PAGE);
    memcpy(want + 30 * PAGE, want + 2 * PAGE, PAGE);
    for (size_t i = 0; i < N; i++) {
        memset(got, 0, PAGE);
        cpu_pages_read(p, page[i], PAGE, got);
        assert_memory_equal(got, want + i * PAGE, PAGE);
        const struct pieces bytes = cpu_pages_bytes(p, page[i]);
        memset(got, 0, PAGE);
        pieces_join(&bytes, got, PAGE);
        assert_memory_equal(got, want + i * PAGE, PAGE);
        /* Unit by unit, as kernels find them. */
        for (size_t u = 0; u < N_UNITS; u++)
            assert_memory_equal((uint8_t *)page[i] + u * 16 * UNIT, got + u * UNIT, UNIT);
        cpu_pages_free(p, page[i], PAGE);
    }
    free(want);
    free(got);
    cpu_pages_close(p);
}

/* A pool gives out what its backend would: after retries, whose pages it keeps, too. */
static void retries_keep_neighbours(void **unused)
{
    (void)unused;
    enum { TURNS = 15 };
    struct err err;
    struct backend *be =
        cpu_open(&(struct cpu_options){.n_threads = 1, .isa = CPU_SCALAR}, &err);
    assert_non_null(be);
    const size_t bytes[PAGE_PARTS] = {PAGE}, units[PAGE_PARTS] = {UNIT};
    struct page_pool *pool = page_pool_new(be, bytes, units);
    struct page *page[N];
    size_t n = 0;
    page_pool_prepare(pool, NULL);
    for (int turn = 0; turn < TURNS; turn++) {
        const size_t n_new = 1 + (size_t)turn % 2;
        for (size_t i = 0; i < n_new; i++)
            assert_non_null(page[n++] = page_new(pool));
        for (size_t i = 0; turn % 3 == 2 && i < n_new; i++)
            page_unref(pool, page[--n]);
        page_pool_prepare(pool, NULL);
    }
    for (size_t i = 1; i < n; i++)
        if (i % 16 != 0)
            assert_ptr_equal(page_data(page[i], PAGE_FULL),
                             (uint8_t *)page_data(page[i - 1], PAGE_FULL) + UNIT);
    while (n > 0)
        page_unref(pool, page[--n]);
    page_pool_free(pool);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retries_keep_neighbours),     cmocka_unit_test(pages_that_a_slab_has),
        cmocka_unit_test(neighbours_lie_side_by_side), cmocka_unit_test(sizes_lie_apart),
        cmocka_unit_test(each_page_has_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
