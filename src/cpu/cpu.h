/* The CPU backend: every op of ops.h on a pool of threads.
 *
 * It has one set of kernels per instruction set, chosen once at opening, all with the bits of
 * the scalar reference (ref_*.c), which defines what an op means. It knows ops and weights, no
 * model family, no conversation. Threading is that of backend.h. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct backend;

enum cpu_isa {
    CPU_AUTO, /* cpu_best */
    CPU_SCALAR,
    CPU_SIMD,    /* vectors of 128 bits: SSE4.1, NEON or what the compiler has elsewhere */
    CPU_DOTPROD, /* dot products of bytes of ARMv8.2, on top of NEON */
    CPU_AVX2,    /* with F16C and FMA */
    CPU_AVXVNNI, /* on top of AVX2 */
    CPU_AVX512,  /* F, BW, VL, DQ, VNNI, on top of AVX2 */
    CPU_AMX,     /* tiles and int8 products, on top of AVX-512 with GFNI */
    N_CPU_ISAS,
};

struct cpu_options {
    int n_threads; /* at most POOL_MAX_THREADS; 0: one per core that the process may use */
    enum cpu_isa isa;
};

/* Whether this machine and its system can run the kernels of an instruction set. */
bool cpu_has(enum cpu_isa isa);
/* The fastest that this machine has, which it measures when first asked where it has several
 * (fastest.h); the same ever after. What CPU_AUTO stands for. */
enum cpu_isa cpu_best(void);
/* "auto", "scalar", "avx2", ...: static. */
const char *cpu_isa_name(enum cpu_isa isa);

/* NULL if the instruction set is missing here or a thread cannot be started. Weights read
 * from files stay mapped until backend_close. */
struct backend *cpu_open(const struct cpu_options *options, struct err *err);

/* GB/s at which the threads of a backend that cpu_open made read the weights bound to it, where
 * they lie and with nothing to compute, the best of six: from memory, or from caches as far as
 * these hold them. Of more than 1 GiB of weights so much is read. */
double cpu_read_speed(const struct backend *be);
/* The same of n_bytes of memory, more than 0, at data, roughly: the better of two. */
double cpu_read_speed_at(const struct backend *be, const void *data, size_t n_bytes);

#endif
