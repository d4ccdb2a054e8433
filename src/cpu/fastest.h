/* Which of several sets of kernels computes fastest on this processor.
 *
 * It is measured, for what a wider instruction set gains depends on the processor: on how wide
 * its units are, on the clock that it keeps meanwhile, on who emulates it. All sets give the
 * same bits, so nothing but time depends on the answer. Any thread; it knows no model. */
#ifndef CPU_FASTEST_H
#define CPU_FASTEST_H

#include <stddef.h>

struct kernels;

/* The index of the fastest of n >= 1 sets that read packed matrices and whose instructions are
 * all here. With n > 1 it takes two or three milliseconds; without memory it is the last. */
size_t fastest_kernels(const struct kernels *const *sets, size_t n);

#endif
