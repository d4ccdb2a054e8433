/* What every fuzz target has: the entry that libFuzzer, or driver.c in its place, calls, and
 * the way to say that something is wrong, which is a crash. */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/printable.h"
#include "base/utf8.h"

/* Tries one input, which ends without a NUL; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* What holds whatever the input is. */
static inline void must(bool ok)
{
    if (!ok) abort();
}

/* What is refused is refused in one line of words that a terminal may see. */
static inline void must_be_refusal(const struct err *err)
{
    const size_t n = strlen(err->msg);
    must(err->code != ERR_NONE && n > 0);
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        const int len = utf8_decode(err->msg + at, n - at, &cp);
        must(len > 0 && printable_char(cp));
        at += (size_t)len;
    }
}

#endif
