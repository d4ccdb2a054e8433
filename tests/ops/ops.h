/* For the tests of ops: seeded data, one-op programs, the backends to compare, stored hashes.
 *
 * Everything goes through backend.h: rows of input are the rows of an F32 embedding, results
 * leave as logits. The first backend is the scalar reference on one thread. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "vulkan/backend.h"

#include "../soak.h"

/* ---- seeded data ---- */

static uint64_t random_state;

static inline void random_seed(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

static inline uint64_t random_u64(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline double random_unit(void)
{
    return (double)(random_u64() >> 11) * 0x1p-53;
}

/* About normal: a sum of twelve, exact arithmetic, so the same on every machine. */
static inline double random_normal(void)
{
    double s = -6;
    for (int i = 0; i < 12; i++)
        s += random_unit();
    return s;
}

enum spread { NORMAL, OUTLIERS, ZEROS, TINY, HUGE_VALUES, N_SPREADS };

/* n values of a kind of activations that models produce, or that only bugs do. */
static inline void random_floats(enum spread spread, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = random_normal();
        if (spread == OUTLIERS && random_u64() % 97 == 0) v *= 1000;
        if (spread == ZEROS && random_u64() % 4 != 0) v = 0;
        if (spread == TINY) v *= ldexp(1, -(int)(random_u64() % 90));
        if (spread == HUGE_VALUES) v *= ldexp(1, (int)(random_u64() % 40));
        x[i] = (float)v;
    }
    /* Whole blocks of zeros, too. */
    if (spread == ZEROS)
        for (size_t i = 0; i + 32 <= n; i += 160)
            memset(x + i, 0, 32 * sizeof *x);
}

/* ---- the backends ---- */

struct machine {
    enum cpu_isa isa;
    int n_threads; /* 0: a Vulkan device */
    struct vulkan_choice choice;
    size_t turn; /* it takes one case in four, the turn-th of them; 0: all */
    struct backend *be;
    size_t n_runs; /* of programs, by trial_run */
};

static struct machine machines[] = {
    {.isa = CPU_SCALAR, .n_threads = 1},
    {.isa = CPU_SCALAR, .n_threads = 2},
    {.isa = CPU_SIMD, .n_threads = 1},
    {.isa = CPU_SIMD, .n_threads = 7, .turn = 2},
    {.isa = CPU_DOTPROD, .n_threads = 1},
    {.isa = CPU_DOTPROD, .n_threads = 2, .turn = 1},
    {.isa = CPU_DOTPROD, .n_threads = 7, .turn = 3},
    {.isa = CPU_AVX2, .n_threads = 1},
    {.isa = CPU_AVX2, .n_threads = 2, .turn = 2},
    {.isa = CPU_AVX2, .n_threads = 7, .turn = 4},
    {.isa = CPU_AVXVNNI, .n_threads = 1},
    {.isa = CPU_AVXVNNI, .n_threads = 2, .turn = 3},
    {.isa = CPU_AVXVNNI, .n_threads = 7, .turn = 1},
    {.isa = CPU_AVX512, .n_threads = 1},
    {.isa = CPU_AVX512, .n_threads = 2},
    {.isa = CPU_AVX512, .n_threads = 7},
    {.isa = CPU_AMX, .n_threads = 1},
    {.isa = CPU_AMX, .n_threads = 2},
    {.isa = CPU_AMX, .n_threads = 7},
    {.choice = {.never_packed_dot = true, .least = true}},
    {.choice = {.always_packed_dot = true,
                .always_wide = true,
                .always_staged = true,
                .piece_tiles = 2},
     .turn = 3},
    {.choice = {.never_packed_dot = true, .always_wide = true, .least = true}, .turn = 1},
    {.choice = {.always_packed_dot = true}, .turn = 2},
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

static inline void machines_open(void)
{
    struct err err;
    for (int i = 0; i < N_MACHINES; i++) {
        struct machine *m = &machines[i];
        m->be = NULL;
        if (m->n_threads == 0 && vulkan_count() > 0) {
            m->be = vulkan_backend_open(&m->choice, &err);
            if (!m->be) fail_msg("%s", err.msg);
        } else if (m->n_threads > 0 && cpu_has(m->isa)) {
            m->be = cpu_open(&(struct cpu_options){m->n_threads, m->isa}, &err);
        }
    }
    assert_non_null(machines[0].be);
}

/* Whether a machine sits out the i-th case of many. A software Vulkan driver takes a second to
 * compile the shaders of each, so of several devices all but the first take turns; how work is
 * cut among threads is the same code for all instruction sets, so most of those with several
 * threads do, too. None does with HEARTH_SOAK. */
static inline bool machine_skips(const struct machine *m, size_t i)
{
    return !m->be || (soak() == 1 && m->turn > 0 && i % 4 != m->turn - 1);
}

static inline void machines_close(void)
{
    for (int i = 0; i < N_MACHINES; i++) {
        backend_close(machines[i].be);
        machines[i].be = NULL;
    }
}

/* ---- programs ---- */

enum { MAX_OPS = 16, MAX_BUFFERS = 16 };

/* A program under construction: buffer 0 holds the input rows. */
struct trial {
    struct row_buffer buffers[MAX_BUFFERS];
    struct op ops[MAX_OPS];
    struct kv_layer kv;
    struct rope rope;
    struct row_scale row_scale;
    struct state_part states[2];
    void *state_in, *state_out; /* NULL without states */
    uint32_t n_keep;            /* rows that count for state_out; 0: all */
    bool has_kept;              /* the backend can */
    struct program p;
    struct backend *be;
    uint32_t pos;
};

static inline struct ref trial_buffer(struct trial *t, enum row_kind kind, size_t width)
{
    t->buffers[t->p.n_buffers] = (struct row_buffer){"test", kind, width};
    return (struct ref){(uint32_t)t->p.n_buffers++, 0, width};
}

static inline struct ref ref_part(struct ref r, size_t at, size_t n)
{
    return (struct ref){r.buf, r.at + at, n};
}

static inline struct op *trial_op(struct trial *t, enum op_kind kind)
{
    struct op *op = &t->ops[t->p.n_ops++];
    assert_true(t->p.n_ops <= MAX_OPS);
    *op = (struct op){.kind = kind};
    return op;
}

/* n_rows rows of width inputs become buffer 0. */
static inline struct ref trial_begin(struct trial *t, struct backend *be, const float *input,
                                     size_t n_rows, size_t width)
{
    struct err err;
    memset(t, 0, sizeof *t);
    t->be = be;
    struct ref in = trial_buffer(t, ROW_F32, width);
    struct weight *w = backend_matrix(be, QTYPE_F32, 1, n_rows, width, input, NULL, &err);
    assert_non_null(w);
    trial_op(t, OP_EMBED)->embed = (struct op_embed){.table = w, .out = in, .scale = 1};
    return in;
}

/* Runs rows first..first+n-1 of the input at t->pos + first; out [n][result.n]. */
static inline void trial_run(struct trial *t, struct ref result, uint32_t first, uint32_t n,
                             void *const *pages, float *out)
{
    size_t n_ops = t->p.n_ops;
    trial_op(t, OP_HEAD_ROWS);
    trial_op(t, OP_LOGITS)->logits = (struct op_logits){result, 1, 0};
    t->p.buffers = t->buffers;
    t->p.ops = t->ops;
    t->p.kv = &t->kv;
    t->p.ropes = &t->rope;
    t->p.row_scales = &t->row_scale;
    t->p.states = t->states;
    t->p.n_vocab = result.n;
    struct err err;
    struct exec *x = exec_new(t->be, &t->p, n, &err);
    if (!x) fail_msg("%s: %s", backend_name(t->be), err.msg);
    int32_t *tokens = mem_zalloc(n, sizeof *tokens);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(first + i);
    const struct step step = {.n_rows = n,
                              .pos = t->pos + first,
                              .tokens = tokens,
                              .pages = {pages, NULL},
                              .n_logits = n,
                              .logits = out,
                              .state_in = t->state_in,
                              .state_out = t->state_out,
                              .keeps_trail = t->n_keep > 0};
    if (!exec_run(x, &step, &err)) fail_msg("%s: %s", backend_name(t->be), err.msg);
    if (t->n_keep) t->has_kept = exec_advance(x, t->state_in, t->state_out, t->n_keep, &err);
    for (int i = 0; i < N_MACHINES; i++)
        machines[i].n_runs += machines[i].be == t->be;
    exec_free(x);
    free(tokens);
    t->p.n_ops = n_ops;
}

/* ---- comparison ---- */

static size_t n_compared; /* since say_compared */

/* Says how many runs of what were compared with the reference. */
static inline void say_compared(const char *what)
{
    print_message("# %s: %zu comparisons\n", what, n_compared);
    n_compared = 0;
}

static inline void assert_same_bits(const float *got, const float *want, size_t n,
                                    const char *what)
{
    n_compared++;
    if (memcmp(got, want, n * sizeof *got) == 0) return;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof *got) == 0) continue;
        fail_msg("%s: value %zu of %zu is %a, the reference has %a", what, i, n, (double)got[i],
                 (double)want[i]);
    }
}

/* The bits of a case, against tests/ops/hashes.txt: "case hash" per line. A fused or reordered
 * reference fails here even where it agrees with every kernel. HEARTH_RECORD_HASHES=1 adds the
 * cases that have none: after a change of the definition, and only then. */
static inline void assert_hash(const char *name, uint64_t hash)
{
    FILE *f = fopen("tests/ops/hashes.txt", "r");
    assert_non_null(f);
    char line[128], key[96];
    unsigned long long want;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%95s %llx", key, &want) != 2 || strcmp(key, name) != 0) continue;
        fclose(f);
        if (want != hash)
            fail_msg("%s: the bits hash to %016llx, stored is %016llx", name,
                     (unsigned long long)hash, want);
        return;
    }
    fclose(f);
    if (getenv("HEARTH_RECORD_HASHES")) {
        f = fopen("tests/ops/hashes.txt", "a");
        assert_non_null(f);
        fprintf(f, "%s %016llx\n", name, (unsigned long long)hash);
        fclose(f);
        return;
    }
    fail_msg("%s: no stored hash; these bits have %016llx", name, (unsigned long long)hash);
}

static inline int group_setup(void **state)
{
    (void)state;
    machines_open();
    return 0;
}

/* Says what was compared: a run of one shape and batch each. */
static inline int group_teardown(void **state)
{
    (void)state;
    machines_close();
    for (int i = 0; i < N_MACHINES; i++) {
        const struct machine *m = &machines[i];
        char name[64];
        if (m->n_threads > 0)
            snprintf(name, sizeof name, "%s, %d threads", cpu_isa_name(m->isa), m->n_threads);
        else
            snprintf(name, sizeof name, "vulkan:%u%s%s%s", m->choice.index,
                     m->choice.always_wide ? ", wide" : "",
                     m->choice.always_packed_dot ? ", packed bytes" : "",
                     m->choice.always_staged ? ", staged, in pieces" : "");
        if (m->n_runs)
            print_message("# %s: %zu runs\n", name, m->n_runs);
        else
            print_message("# %s: not here\n", name);
    }
    return 0;
}

/* Zeroed, aligned to 64, with 64 bytes behind it that may be read. */
static inline void *zalloc64(size_t n_bytes)
{
    n_bytes = (n_bytes + 64 + 63) / 64 * 64;
    void *p = aligned_alloc(64, n_bytes);
    assert_non_null(p);
    memset(p, 0, n_bytes);
    return p;
}

#endif
