/* What every fuzz target has: the entry that libFuzzer, or driver.c in its place, calls, and
 * the way to say that something is wrong, which is a crash. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Tries one input, which ends without a NUL; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* What holds whatever the input is. */
static inline void must(bool ok)
{
    if (!ok) abort();
}

#endif
