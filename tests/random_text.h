/* Texts of a grammar, written byte by byte. What goes wrong in here fails the cmocka test that
 * called. */
#ifndef TESTS_RANDOM_TEXT_H
#define TESTS_RANDOM_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/philox.h"
#include "text/matcher.h"

/* A text of bytes that may follow, one of those chosen by number `seed`; it ends where it may
 * with some chance. False: it had not ended with `most` bytes. */
static inline bool random_text(struct matcher *m, uint64_t seed, size_t most, struct buf *out)
{
    matcher_state s = MATCHER_START;
    buf_clear(out);
    for (uint32_t at = 0; at < most; at++) {
        const struct philox_block dice = philox(seed, at, 0, 0, 0);
        if (matcher_may_end(m, s) && (!matcher_may_go_on(m, s) || dice.word[0] % 4 == 0))
            return true;
        /* Printable bytes come first, so that most texts are words and not escapes. */
        uint8_t byte = (uint8_t)(32 + dice.word[1] % 95);
        matcher_state next = matcher_step(m, s, byte);
        for (uint32_t k = 0; next == MATCHER_DEAD && k < 256; k++) {
            byte = (uint8_t)(dice.word[2] + k);
            next = matcher_step(m, s, byte);
        }
        assert_true(next != MATCHER_DEAD); /* no text is stuck */
        buf_putc(out, (char)byte);
        s = next;
    }
    return false;
}

#endif
