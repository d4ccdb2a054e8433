/* Philox 4x32-10, a counter-based generator: the same key and counter give the same four words
 * on every machine and device, in any order, with no state in between (Salmon, Moraes, Dror and
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Pure, any thread.
 *
 * Each use has a domain of its own in the last word of the counter, so that no two of them ever
 * see the same words. */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

enum philox_domain {
    PHILOX_NOISE = 0, /* sampling: key = reply seed, counter = (id, position) */
    PHILOX_REPLY = 1, /* reply seeds: key = session seed, counter = (turn, attempt) */
    PHILOX_BENCH = 2, /* token ids of benchmarks and tests: counter = (index) */
};

struct philox_block {
    uint32_t word[4];
};

/* Ten rounds over the counter with the 64-bit key, its low half first. */
static inline struct philox_block philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                         uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct philox_block){{c0, c1, c2, c3}};
}

#endif
