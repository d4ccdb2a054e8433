/* The AVX-VNNI kernels by name. */
#ifndef CPU_AVXVNNI_H
#define CPU_AVXVNNI_H

#include "cpu/kernels.h"

size_t avxvnni_matmul_scratch(size_t n_cols);
void avxvnni_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);

#endif
