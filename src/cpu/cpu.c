#include "cpu/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuid.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "base/pool.h"
#include "base/readable.h"
#include "cpu/cpu_impl.h"
#include "cpu/fastest.h"
#include "cpu/pack.h"
#include "cpu/pages.h"

static bool always(void)
{
    return true;
}

static bool has_simd(void)
{
#ifdef __x86_64__
    return cpuid_sse41();
#else
    return true;
#endif
}

/* For other processors than these hearth is built without such kernels. */
#ifdef __x86_64__
#define X86_64(kernels) (&(kernels))
#else
#define X86_64(kernels) NULL
#endif
#ifdef __aarch64__
#define AARCH64(kernels) (&(kernels))
#else
#define AARCH64(kernels) NULL
#endif

static const struct {
    const char *name, *needs;
    bool (*here)(void);
    const struct kernels *kernels;
} isas[N_CPU_ISAS] = {
    [CPU_AUTO] = {"auto", "", always, NULL},
    [CPU_SCALAR] = {"scalar", "", always, &kernels_scalar},
    [CPU_SIMD] = {"simd", "SSE4.1", has_simd, &kernels_simd},
    [CPU_DOTPROD] = {"dotprod", "dot products of ARMv8.2", cpuid_dotprod,
                     AARCH64(kernels_dotprod)},
    [CPU_AVX2] = {"avx2", "AVX2 with F16C and FMA", cpuid_avx2, X86_64(kernels_avx2)},
    [CPU_AVXVNNI] = {"avxvnni", "AVX-VNNI", cpuid_avxvnni, X86_64(kernels_avxvnni)},
    [CPU_AVX512] = {"avx512", "AVX-512 with VNNI", cpuid_avx512, X86_64(kernels_avx512)},
    [CPU_AMX] = {"amx", "AMX that its system lends", cpuid_amx, X86_64(kernels_amx)},
};

bool cpu_has(enum cpu_isa isa)
{
    return isas[isa].here();
}

const char *cpu_isa_name(enum cpu_isa isa)
{
    return isas[isa].name;
}

static enum cpu_isa best; /* by choose_best */

/* The kernels of an instruction set, on this processor. */
static const struct kernels *set_of(enum cpu_isa isa)
{
    if (isa != CPU_AVX512) return isas[isa].kernels;
    if (cpuid_amd_family() >= FAMILY_ZEN5 && cpuid_gfni()) return X86_64(kernels_zen5);
    if (cpuid_amd_family())
        return cpuid_gfni() ? X86_64(kernels_gfni_amd) : X86_64(kernels_avx512_amd);
    return cpuid_gfni() ? X86_64(kernels_gfni) : X86_64(kernels_avx512);
}

/* The scalar kernels are no match for any others, nor are vectors of 128 bits for longer ones
 * or without ARM's dot products for those with them, or the products of AVX-VNNI for those of
 * AVX-512, which has attention and rows of its own, too. */
static void choose_best(void)
{
    const struct kernels *sets[N_CPU_ISAS];
    enum cpu_isa of[N_CPU_ISAS];
    size_t n = 0;
    for (enum cpu_isa isa = CPU_AVX2; isa < N_CPU_ISAS; isa++) {
        if (!cpu_has(isa) || (isa == CPU_AVXVNNI && cpu_has(CPU_AVX512))) continue;
        sets[n] = set_of(isa);
        of[n++] = isa;
    }
    enum cpu_isa narrow = CPU_DOTPROD;
    while (!cpu_has(narrow))
        narrow--;
    best = n == 0 ? narrow : of[fastest_kernels(sets, n)];
}

enum cpu_isa cpu_best(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose_best);
    return best;
}

static const struct kernels *kernels_of(enum cpu_isa isa, struct err *err)
{
    if (isa == CPU_AUTO) isa = cpu_best();
    if (cpu_has(isa)) return set_of(isa);
    err_set(err, ERR_DEVICE, "this CPU has no %s: use %s", isas[isa].needs,
            isas[cpu_best()].name);
    return NULL;
}

/* Packed matrices lie side by side in slabs: in pages of their own each would end in a huge
 * page of which most is never used. */
struct pack_slab {
    uint8_t *data;
    size_t n_bytes, used;
    struct pack_slab *next;
};

static const size_t PACK_SLAB_BYTES = (size_t)64 << 20;

/* n_bytes aligned to 64; NULL if there is no memory. What a slab has left when the next one
 * begins is never touched. */
static uint8_t *pack_alloc(struct cpu_backend *cpu, size_t n_bytes)
{
    n_bytes = mem_round_up(n_bytes, 64);
    struct pack_slab *s = cpu->packs;
    if (!s || s->n_bytes - s->used < n_bytes) {
        size_t size = n_bytes > PACK_SLAB_BYTES ? n_bytes : PACK_SLAB_BYTES;
        uint8_t *data = mem_try_pages(size);
        if (!data) return NULL;
        s = mem_alloc(sizeof *s);
        *s = (struct pack_slab){data, size, 0, cpu->packs};
        cpu->packs = s;
    }
    uint8_t *p = s->data + s->used;
    s->used += n_bytes;
    return p;
}

static void free_packs(struct cpu_backend *cpu)
{
    while (cpu->packs) {
        struct pack_slab *next = cpu->packs->next;
        mem_free_pages(cpu->packs->data, cpu->packs->n_bytes);
        free(cpu->packs);
        cpu->packs = next;
    }
}

static void free_weight(struct cpu_weight *w)
{
    free(w->vector);
    free(w);
}

static void cpu_reset(struct backend *be)
{
    struct cpu_backend *cpu = (struct cpu_backend *)be;
    while (cpu->weights) {
        struct cpu_weight *next = cpu->weights->next;
        free_weight(cpu->weights);
        cpu->weights = next;
    }
    free_packs(cpu);
}

static void cpu_close(struct backend *be)
{
    struct cpu_backend *cpu = (struct cpu_backend *)be;
    cpu_reset(be);
    cpu_pages_close(cpu->pages);
    if (!cpu->borrows_pool) pool_free(cpu->pool);
    free(cpu);
}

static const char *cpu_name(const struct backend *be)
{
    return ((const struct cpu_backend *)be)->name;
}

static struct cpu_weight *add_weight(struct backend *be, struct weight w)
{
    struct cpu_backend *cpu = (struct cpu_backend *)be;
    struct cpu_weight *cw = mem_zalloc(1, sizeof *cw);
    cw->base = w;
    cw->next = cpu->weights;
    cpu->weights = cw;
    return cw;
}

static struct weight *cpu_vector(struct backend *be, const float *data, size_t n,
                                 struct err *err)
{
    (void)err;
    struct cpu_weight *w =
        add_weight(be, (struct weight){.type = QTYPE_F32, 1, .n_rows = 1, .n_cols = n});
    w->vector = mem_alloc(n * sizeof *w->vector);
    for (size_t i = 0; i < n; i++)
        w->vector[i] = num_keep(data[i]);
    return &w->base;
}

static size_t n_panels(size_t n_rows)
{
    return (n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
}

static size_t packed_bytes(enum qtype type, size_t n_mats, size_t n_rows, size_t n_cols)
{
    return n_mats * n_panels(n_rows) * pack_panel_bytes(type, n_cols) + PACK_SLACK;
}

static size_t cpu_matrix_bytes(const struct backend *be, enum qtype type, size_t n_mats,
                               size_t n_rows, size_t n_cols)
{
    bool packs = ((const struct cpu_backend *)be)->kernels->packs;
    return packs ? packed_bytes(type, n_mats, n_rows, n_cols) : 0;
}

/* Panels are packed bite by bite: what a thread reads of the file stays in its second cache
 * until it is packed, and is enough to be worth the call. Of small matrices a bite has less, so
 * that there are some for every thread. */
enum { BITE_BYTES = 128 << 10, BITES_PER_THREAD = 4 };

struct packing {
    const struct cpu_weight *w;
    bool bytes_unsigned;
    size_t per_bite; /* panels */
    uint8_t *rooms;  /* of a bite, for each thread */
};

static size_t bite_bytes(const struct packing *p)
{
    const struct weight *w = &p->w->base;
    return p->per_bite * PANEL_ROWS * qtype_bytes(w->type, w->n_cols);
}

static size_t n_bites(const struct packing *p)
{
    return (n_panels(p->w->base.n_rows) + p->per_bite - 1) / p->per_bite;
}

/* A bite of a matrix. */
static void pack_chunk(void *ctx, size_t chunk, int worker)
{
    const struct packing *p = ctx;
    const struct cpu_weight *cw = p->w;
    const struct weight *w = &cw->base;
    const size_t row_bytes = qtype_bytes(w->type, w->n_cols), bites = n_bites(p);
    const size_t mat = chunk / bites, first = chunk % bites * p->per_bite * PANEL_ROWS;
    size_t left = w->n_rows - first;
    if (left > p->per_bite * PANEL_ROWS) left = p->per_bite * PANEL_ROWS;
    const uint8_t *rows =
        file_map_bytes(cw->file + (mat * w->n_rows + first) * row_bytes, left * row_bytes,
                       p->rooms + (size_t)worker * bite_bytes(p));
    uint8_t *panel = cw->packed + (mat * n_panels(w->n_rows) + first / PANEL_ROWS) *
                                      pack_panel_bytes(w->type, w->n_cols);
    for (size_t n; left > 0; left -= n, rows += n * row_bytes) {
        n = left < PANEL_ROWS ? left : PANEL_ROWS;
        pack_panel(w->type, p->bytes_unsigned, rows, row_bytes, n, w->n_cols, panel);
        panel += pack_panel_bytes(w->type, w->n_cols);
    }
}

/* False: it was cancelled. */
static bool pack(const struct cpu_backend *cpu, const struct cpu_weight *w,
                 const atomic_bool *cancel)
{
    const size_t n_threads = (size_t)pool_n_threads(cpu->pool);
    struct packing p = {w, cpu->kernels->bytes_unsigned, 1, NULL};
    const size_t most = BITE_BYTES / bite_bytes(&p);
    p.per_bite = w->base.n_mats * n_panels(w->base.n_rows) / (BITES_PER_THREAD * n_threads);
    if (p.per_bite > most) p.per_bite = most;
    if (p.per_bite == 0) p.per_bite = 1;
    p.rooms = mem_resize(NULL, n_threads, bite_bytes(&p));
    const bool done = pool_run(cpu->pool, w->base.n_mats * n_bites(&p), pack_chunk, &p, cancel);
    free(p.rooms);
    return done;
}

static struct weight *cpu_matrix(struct backend *be, enum qtype type, size_t n_mats,
                                 size_t n_rows, size_t n_cols, const void *data,
                                 const atomic_bool *cancel, struct err *err)
{
    struct cpu_backend *cpu = (struct cpu_backend *)be;
    struct cpu_weight *w =
        add_weight(be, (struct weight){.type = type, n_mats, n_rows, n_cols});
    w->file = data;
    if (!cpu->kernels->packs) return &w->base;
    const size_t n_bytes = packed_bytes(type, n_mats, n_rows, n_cols);
    w->packed = pack_alloc(cpu, n_bytes);
    if (!w->packed) {
        char size[READABLE_BYTES];
        err_set(err, ERR_MEMORY, "no memory for a packed matrix of %s",
                readable_size(size, n_bytes));
        return NULL;
    }
    if (pack(cpu, w, cancel)) return &w->base;
    err_set(err, ERR_CANCELLED, "cancelled");
    return NULL;
}

static struct cpu_pages *pages_of(const struct backend *be)
{
    return ((const struct cpu_backend *)be)->pages;
}

static void *cpu_page_new(struct backend *be, size_t page_bytes, size_t page_unit)
{
    return cpu_pages_new(pages_of(be), page_bytes, page_unit);
}

static void cpu_page_free(struct backend *be, void *page, size_t page_bytes)
{
    cpu_pages_free(pages_of(be), page, page_bytes);
}

static void cpu_page_copy(struct backend *be, void *to, const void *from, size_t page_bytes)
{
    cpu_pages_copy(pages_of(be), to, from, page_bytes);
}

static bool cpu_page_host(const struct backend *be, const void *page, struct pieces *bytes)
{
    *bytes = cpu_pages_bytes(pages_of(be), page);
    return true;
}

static void cpu_page_read(struct backend *be, const void *page, size_t page_bytes, void *host)
{
    cpu_pages_read(pages_of(be), page, page_bytes, host);
}

static void cpu_page_write(struct backend *be, void *page, size_t page_bytes, const void *host)
{
    cpu_pages_write(pages_of(be), page, page_bytes, host);
}

static struct backend *cpu_beside(struct backend *be)
{
    struct cpu_backend *cpu = mem_alloc(sizeof *cpu);
    *cpu = *(const struct cpu_backend *)be;
    cpu->borrows_pool = true;
    cpu->weights = NULL;
    cpu->packs = NULL;
    cpu->pages = cpu_pages_open();
    return &cpu->base;
}

/* Fresh memory is zeros. */
static void *cpu_state_new(struct backend *be, size_t state_bytes)
{
    (void)be;
    return mem_try_pages(state_bytes);
}

static void cpu_state_free(struct backend *be, void *state, size_t state_bytes)
{
    (void)be;
    mem_free_pages(state, state_bytes);
}

static void cpu_state_read(struct backend *be, const void *state, size_t state_bytes,
                           void *host)
{
    (void)be;
    memcpy(host, state, state_bytes);
}

static void cpu_state_write(struct backend *be, void *state, size_t state_bytes,
                            const void *host)
{
    (void)be;
    memcpy(state, host, state_bytes);
}

static const struct backend_impl impl = {
    .beside = cpu_beside,
    .close = cpu_close,
    .reset = cpu_reset,
    .name = cpu_name,
    .matrix = cpu_matrix,
    .vector = cpu_vector,
    .matrix_bytes = cpu_matrix_bytes,
    .exec_bytes = cpu_exec_bytes,
    .exec_new = cpu_exec_new,
    .exec_free = cpu_exec_free,
    .exec_run = cpu_exec_run,
    .exec_advance = cpu_exec_advance,
    .page_new = cpu_page_new,
    .page_free = cpu_page_free,
    .page_copy = cpu_page_copy,
    .page_host = cpu_page_host,
    .page_read = cpu_page_read,
    .page_write = cpu_page_write,
    .state_new = cpu_state_new,
    .state_free = cpu_state_free,
    .state_read = cpu_state_read,
    .state_write = cpu_state_write,
};

struct backend *cpu_open(const struct cpu_options *options, struct err *err)
{
    const struct kernels *kernels = kernels_of(options->isa, err);
    if (!kernels) return NULL;
    int n_threads = options->n_threads > 0 ? options->n_threads : pool_usable_cores();
    struct pool *pool = pool_new(n_threads, err);
    if (!pool) return NULL;
    struct cpu_backend *cpu = mem_zalloc(1, sizeof *cpu);
    cpu->base.impl = &impl;
    cpu->kernels = kernels;
    cpu->pool = pool;
    cpu->pages = cpu_pages_open();
    char threads[READABLE_BYTES];
    snprintf(cpu->name, sizeof cpu->name, "cpu (%s, %s)", kernels->name,
             readable_count(threads, (uint64_t)n_threads, "thread"));
    return &cpu->base;
}
