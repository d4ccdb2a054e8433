/* What cpu.c (the backend, its weights) and exec.c (a program running) share. */
#ifndef CPU_CPU_IMPL_H
#define CPU_CPU_IMPL_H

#include "backend/impl.h"
#include "cpu/kernels.h"

struct cpu_pages;
struct pool;

struct cpu_backend {
    struct backend base;
    const struct kernels *kernels;
    struct pool *pool;
    bool borrows_pool;          /* it is another's */
    struct cpu_weight *weights; /* all that were bound */
    struct pack_slab *packs;    /* memory of packed matrices, newest first */
    struct cpu_pages *pages;
    char name[64];
};

size_t cpu_exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows);
struct exec *cpu_exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                          struct err *err);
void cpu_exec_free(struct exec *x);
bool cpu_exec_run(struct exec *x, const struct step *step, struct err *err);
bool cpu_exec_advance(struct exec *x, const void *state_in, void *state_out, uint32_t n_rows,
                      struct err *err);

#endif
