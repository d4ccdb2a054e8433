/* The AVX-512 and AMX kernels by name. */
#ifndef CPU_AVX512_H
#define CPU_AVX512_H

#include "cpu/avx2.h"
#include "cpu/kernels.h"

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
/* Rows first..first+n-1 of m for values from first_value on, at most sixteen values. Quantised
 * types only. */
void avx512_panel(const struct matmul *m, size_t first, size_t n, size_t first_value,
                  size_t n_values);

size_t avx512_attend_scratch(const struct kv_layer *kv, size_t n_group);
void avx512_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);

size_t amx_matmul_scratch(size_t n_cols);
void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);

/* Members of a table of kernels: all but the products. */
#define AVX512_ATTEND_AND_ROWS                                                \
    .attend_rows = AVX2_ATTEND_ROWS, .attend_scratch = avx512_attend_scratch, \
    .attend = avx512_attend, AVX2_ROWS

#endif
