/* The AVX-512 and AMX products by name. */
#ifndef CPU_AVX512_H
#define CPU_AVX512_H

#include "cpu/kernels.h"

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
/* Rows first..first+n-1 of m for values from first_value on, at most sixteen values. Quantised
 * types only. */
void avx512_panel(const struct matmul *m, size_t first, size_t n, size_t first_value,
                  size_t n_values);

size_t amx_matmul_scratch(size_t n_cols);
void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);

#endif
