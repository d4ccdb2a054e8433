#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/resources.h"

/* How long a waiting thread tries each way before the next: plain reads answer within 0.2 us,
 * pauses leave the core's other half alone, yields leave the core. */
enum { SPINS = 100, PAUSES = 2000, YIELD_NS = 1000000 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int id;
};

/* A thread's share of the loop under way: the loop's number in the upper half, chunks not yet
 * taken in the lower. Both change in one step, so a worker that wakes up late cannot take a
 * chunk of a loop it has not seen; the loop's other members stay as they are until its last
 * chunk is done. */
struct share {
    _Alignas(64) atomic_uint_fast64_t ticket;
};

struct pool {
    int n_threads;
    struct worker *workers; /* n_threads - 1 */

    /* One line, for it goes from core to core with each loop. */
    _Alignas(64) atomic_uint_fast32_t loop; /* the number of the one under way */
    pool_fn *fn;
    void *ctx;
    size_t n_chunks;
    const atomic_bool *cancel;

    struct share shares[POOL_MAX_THREADS];
    _Alignas(64) atomic_size_t n_done;

    atomic_int n_asleep;
    atomic_bool quit;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static void pause_core(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The first chunk of thread i's share. */
static size_t share_begin(const struct pool *p, size_t n_chunks, int i)
{
    return n_chunks * (size_t)i / (size_t)p->n_threads;
}

/* Takes and runs chunks of a share until none is left. Those done are counted then: the loop is
 * open until all are, and the line of the count would go to and fro between threads. */
static void work_share(struct pool *p, int share, int worker)
{
    atomic_uint_fast64_t *ticket = &p->shares[share].ticket;
    uint_fast64_t t = atomic_load(ticket);
    size_t n_done = 0;
    while ((uint32_t)t > 0) {
        if (!atomic_compare_exchange_weak(ticket, &t, t - 1)) continue;
        /* This chunk is not done yet: fn, ctx and the rest are those of its loop. */
        const size_t chunk = share_begin(p, p->n_chunks, share + 1) - (uint32_t)t;
        if (!cancel_is_set(p->cancel)) p->fn(p->ctx, chunk, worker);
        n_done++;
        t = atomic_load(ticket);
    }
    if (n_done > 0) atomic_fetch_add(&p->n_done, n_done);
}

/* The worker's own share first, then what the others have left. */
static void work(struct pool *p, int worker)
{
    for (int i = 0; i < p->n_threads; i++)
        work_share(p, (worker + i) % p->n_threads, worker);
}

static void sleep_until_work(struct pool *p, uint_fast32_t seen)
{
    pthread_mutex_lock(&p->lock);
    /* Announced before looking: pool_run first publishes its loop, then looks for sleepers. */
    atomic_fetch_add(&p->n_asleep, 1);
    while (atomic_load(&p->loop) == seen && !atomic_load(&p->quit))
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->n_asleep, 1);
    pthread_mutex_unlock(&p->lock);
}

/* Until there is another loop than the one seen. */
static void wait_for_work(struct pool *p, uint_fast32_t seen)
{
    for (int i = 0; i < SPINS + PAUSES; i++) {
        if (atomic_load(&p->loop) != seen) return;
        if (i >= SPINS) pause_core();
    }
    for (int64_t until = now_ns() + YIELD_NS; now_ns() < until;) {
        if (atomic_load(&p->loop) != seen || atomic_load(&p->quit)) return;
        sched_yield();
    }
    sleep_until_work(p, seen);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    uint_fast32_t seen = 0;
    while (!atomic_load(&w->pool->quit)) {
        wait_for_work(w->pool, seen);
        seen = atomic_load(&w->pool->loop);
        work(w->pool, w->id);
    }
    return NULL;
}

static void wake_sleepers(struct pool *p)
{
    if (atomic_load(&p->n_asleep) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

struct pool *pool_new(int n_threads, struct err *err)
{
    assert(n_threads >= 1 && n_threads <= POOL_MAX_THREADS);
    struct pool *p = mem_try_pages(sizeof *p);
    if (!p) {
        err_set(err, ERR_MEMORY, "no memory for a pool of %d threads", n_threads);
        return NULL;
    }
    p->workers = mem_zalloc((size_t)n_threads, sizeof *p->workers);
    p->n_threads = 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    /* Signals are for the threads that have something to say about them, but faults come where
     * they happen: one that is blocked there ends the process without its handler. */
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t others, old;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&others, faults[i]);
    pthread_sigmask(SIG_SETMASK, &others, &old);
    int failed = 0;
    for (int i = 1; i < n_threads && !failed; i++) {
        struct worker *w = &p->workers[i - 1];
        *w = (struct worker){.pool = p, .id = i};
        failed = pthread_create(&w->thread, NULL, worker_main, w);
        if (!failed) p->n_threads = i + 1;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!failed) return p;
    err_set(err, ERR_IO, "cannot start thread %d of %d: %s", p->n_threads + 1, n_threads,
            strerror(failed));
    pool_free(p);
    return NULL;
}

void pool_free(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->quit, true);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i + 1 < p->n_threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    mem_free_pages(p, sizeof *p);
}

int pool_usable_cores(void)
{
    int n = resources_cores(NULL);
    return n < POOL_MAX_THREADS ? n : POOL_MAX_THREADS;
}

int pool_n_threads(const struct pool *p)
{
    return p->n_threads;
}

static bool run_inline(size_t n_chunks, pool_fn *fn, void *ctx, const atomic_bool *cancel)
{
    for (size_t i = 0; i < n_chunks; i++) {
        if (cancel_is_set(cancel)) return false;
        fn(ctx, i, 0);
    }
    return true;
}

bool pool_run(struct pool *p, size_t n_chunks, pool_fn *fn, void *ctx,
              const atomic_bool *cancel)
{
    assert(n_chunks <= UINT32_MAX);
    if (p->n_threads == 1 || n_chunks <= 1) return run_inline(n_chunks, fn, ctx, cancel);
    p->fn = fn;
    p->ctx = ctx;
    p->n_chunks = n_chunks;
    p->cancel = cancel;
    /* Whoever sees a ticket sees all that comes before. A full barrier after each would wait
     * for its line, one line after the other. */
    atomic_store_explicit(&p->n_done, 0, memory_order_relaxed);
    const uint_fast32_t loop = (uint32_t)(atomic_load(&p->loop) + 1);
    for (int i = 0; i < p->n_threads; i++) {
        const size_t n = share_begin(p, n_chunks, i + 1) - share_begin(p, n_chunks, i);
        atomic_store_explicit(&p->shares[i].ticket, (uint_fast64_t)loop << 32 | n,
                              memory_order_release);
    }
    atomic_store(&p->loop, loop);
    wake_sleepers(p);
    work(p, 0);
    for (int i = 0; atomic_load(&p->n_done) < n_chunks; i++) {
        if (i >= SPINS + PAUSES)
            sched_yield();
        else if (i >= SPINS)
            pause_core();
    }
    return !cancel_is_set(cancel);
}
