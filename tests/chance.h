/* Chance that is the same in every run: one sequence of numbers for each key. A program draws
 * from one of them at a time, at first from that of key 0; a child process goes on with a copy.
 */
#ifndef TESTS_CHANCE_H
#define TESTS_CHANCE_H

#include <stdint.h>

#include "base/philox.h"

static struct {
    uint64_t key;
    uint32_t n_drawn;
} chance;

static inline void chance_begin(uint64_t key)
{
    chance.key = key;
    chance.n_drawn = 0;
}

static inline uint32_t chance_word(void)
{
    return philox(chance.key, chance.n_drawn++, 0, 0, PHILOX_BENCH).word[0];
}

/* 0 to n - 1. */
static inline uint32_t below(uint32_t n)
{
    return chance_word() % n;
}

/* At least 0, less than 1. */
static inline double uniform(void)
{
    return chance_word() / 4294967296.0;
}

#endif
