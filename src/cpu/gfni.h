/* The products of AVX-512 once more, with GFNI, which takes some bits of each byte to another
 * place by one instruction (z_bits in vec16.h).
 *
 * The Makefile builds matmul_avx512.c a second time with this file before its first line: it
 * gives what the text defines another name. The bits are the same. Cascade Lake and Cooper Lake
 * have AVX-512 with VNNI without GFNI; all later processors have both. */
#ifndef CPU_GFNI_H
#define CPU_GFNI_H

#define avx512_band gfni_band
#define avx512_matmul gfni_matmul
#define avx512_matmul_scratch gfni_matmul_scratch
#define kernels_avx512 kernels_gfni
#define kernels_avx512_amd kernels_gfni_amd

#endif
