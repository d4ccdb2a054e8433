/* The pool: every chunk once, any number of threads, cancel, idle workers asleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/pool.h"

enum { MOST_CHUNKS = 1000 };

struct count {
    atomic_int taken[MOST_CHUNKS];
    atomic_int busy[POOL_MAX_THREADS]; /* chunks under way per worker number */
    atomic_bool shared_number;
};

static void count_chunk(void *ctx, size_t chunk, int worker)
{
    struct count *c = ctx;
    if (atomic_fetch_add(&c->busy[worker], 1) != 0) atomic_store(&c->shared_number, true);
    atomic_fetch_add(&c->taken[chunk], 1);
    atomic_fetch_sub(&c->busy[worker], 1);
}

static struct count count;

static void every_chunk_once(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 7, 64};
    struct err err;
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct pool *p = pool_new(threads[t], &err);
        assert_non_null(p);
        assert_int_equal(pool_n_threads(p), threads[t]);
        for (size_t n = 0; n < MOST_CHUNKS; n = n < 20 ? n + 1 : n * 3) {
            memset(&count, 0, sizeof count);
            assert_true(pool_run(p, n, count_chunk, &count, NULL));
            for (size_t i = 0; i < MOST_CHUNKS; i++)
                assert_int_equal(atomic_load(&count.taken[i]), i < n);
            assert_false(atomic_load(&count.shared_number));
        }
        pool_free(p);
    }
}

static void add_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    ((uint64_t *)ctx)[chunk] += chunk + 1;
}

/* Loop after loop without pause: a worker that wakes up late must never touch the next loop. */
static void many_short_loops(void **state)
{
    (void)state;
    struct err err;
    struct pool *p = pool_new(5, &err);
    uint64_t sums[9] = {0};
    for (int i = 0; i < 20000; i++)
        assert_true(pool_run(p, 2 + i % 8, add_chunk, sums, NULL));
    assert_int_equal(sums[0], 20000);
    assert_int_equal(sums[8], 9 * 2500);
    pool_free(p);
}

struct stop {
    atomic_bool cancel;
    atomic_int n, n_late; /* late: begun when the cancel was there */
};

static void cancel_chunk(void *ctx, size_t chunk, int worker)
{
    (void)chunk, (void)worker;
    struct stop *s = ctx;
    if (atomic_load(&s->cancel)) atomic_fetch_add(&s->n_late, 1);
    if (atomic_fetch_add(&s->n, 1) == 10) atomic_store(&s->cancel, true);
}

static void cancel_stops_between_chunks(void **state)
{
    (void)state;
    struct err err;
    for (int threads = 1; threads <= 3; threads++) {
        struct pool *p = pool_new(threads, &err);
        struct stop s = {false, 0, 0};
        assert_false(pool_run(p, 100000, cancel_chunk, &s, &s.cancel));
        assert_true(atomic_load(&s.n) >= 11);
        /* Each other thread may have looked just before. */
        assert_in_range(atomic_load(&s.n_late), 0, threads - 1);
        atomic_store(&s.cancel, false);
        atomic_store(&s.n, 100);
        assert_true(pool_run(p, 5, cancel_chunk, &s, &s.cancel));
        assert_int_equal(atomic_load(&s.n), 105);
        pool_free(p);
    }
}

/* Processor time of all threads while this one sleeps. */
static double worked_ms(long sleep_ms)
{
    const clock_t before = clock();
    nanosleep(&(struct timespec){0, sleep_ms * 1000000}, NULL);
    return (double)(clock() - before) * 1e3 / CLOCKS_PER_SEC;
}

/* Workers fall asleep after some milliseconds of work each, whenever they come to it, and then
 * cost nothing. */
static void idle_costs_nothing(void **state)
{
    (void)state;
    enum { THREADS = 8, AWAKE_MS = 50 };
    struct err err;
    struct pool *p = pool_new(THREADS, &err);
    uint64_t sums[9] = {0};
    pool_run(p, 9, add_chunk, sums, NULL);
    double idle_ms, awake_ms = 0;
    while ((idle_ms = worked_ms(300)) >= 10) {
        awake_ms += idle_ms;
        assert_true(awake_ms < THREADS * AWAKE_MS);
    }
    assert_true(pool_run(p, 9, add_chunk, sums, NULL)); /* and they wake up again */
    assert_int_equal(sums[8], 18);
    pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_once),
        cmocka_unit_test(many_short_loops),
        cmocka_unit_test(cancel_stops_between_chunks),
        cmocka_unit_test(idle_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
