/* The products of AVX-512 once more, as AMD's Zen 5 computes and reads fastest.
 *
 * Zen 5 multiplies two vectors of 512 bits a cycle, which is also how many it loads, and
 * shuffles four. A product of eight rows whose activations are all loaded lane by lane would
 * wait for loads, so the rows of a tile differ and each line of a panel is loaded once
 * (dots_by_rows in matmul_avx512.c). Lines of later blocks are asked for in other ways, too
 * (ahead_of).
 *
 * The Makefile builds matmul_avx512.c a third time with this file before its first line, as it
 * does with gfni.h. The bits are the same. */
#ifndef CPU_ZEN5_H
#define CPU_ZEN5_H

#define avx512_band zen5_band
#define avx512_matmul zen5_matmul
#define avx512_matmul_scratch zen5_matmul_scratch
#define kernels_avx512 kernels_zen5

#endif
