/* The flag by which a user stops what runs: set by any thread or signal handler, looked at
 * between chunks of work that take a few milliseconds at most. */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdatomic.h>
#include <stdbool.h>

/* NULL is never set. */
static inline bool cancel_is_set(const atomic_bool *cancel)
{
    return cancel && atomic_load_explicit(cancel, memory_order_relaxed);
}

#endif
