/* Waiting for a condition, but not for ever. Any thread; time is that of the steady clock. */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <pthread.h>
#include <stdbool.h>

/* A condition for wait_ms; pthread_cond_destroy ends it. */
void wait_init(pthread_cond_t *cond);
/* pthread_cond_wait of at most ms milliseconds, if more than 0. False: they have passed. */
bool wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, double ms);

#endif
