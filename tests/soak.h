/* HEARTH_SOAK: how many times as long the random tests run. */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <stdlib.h>

/* 1 unless it is set. */
static inline unsigned soak(void)
{
    const char *s = getenv("HEARTH_SOAK");
    long times = s ? strtol(s, NULL, 10) : 1;
    return times > 1 ? (unsigned)times : 1;
}

#endif
