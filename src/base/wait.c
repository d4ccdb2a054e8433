/* Deadlines on the steady clock, which nobody sets. */
#include "base/wait.h"

#include <errno.h>
#include <time.h>

void wait_init(pthread_cond_t *cond)
{
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &steady);
    pthread_condattr_destroy(&steady);
}

bool wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, double ms)
{
    if (!(ms > 0)) return false;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double s = ms / 1e3 + (double)t.tv_nsec / 1e9;
    t.tv_sec += (time_t)s;
    t.tv_nsec = (long)((s - (double)(time_t)s) * 1e9);
    return pthread_cond_timedwait(cond, lock, &t) != ETIMEDOUT;
}
