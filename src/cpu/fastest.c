/* The sets take turns at a small product, as prefill and as decoding have it. */
#include "cpu/fastest.h"

#include "base/file.h"
#include "base/mem.h"
#include "cpu/carve.h"
#include "cpu/kernels.h"
#include "cpu/pack.h"

/* A matrix that stays in the cache. A turn is a step of many rows and some of one; the shortest
 * of a set's turns counts, for the others were interrupted. */
enum { N_VALUES = 64, N_COLS = 1024, N_ROWS = 64, N_SINGLE = 16, N_TURNS = 6 };
static const enum qtype TYPE = QTYPE_Q4_0;

/* All of it is zero, which takes as long as anything else. */
struct product {
    struct cpu_weight w;
    struct matmul m;
    void *scratch;
};

/* Returns the bytes of all. */
static size_t lay_out(struct product *p, uint8_t *memory, const struct kernels *const *sets,
                      size_t n)
{
    struct carver c = {memory, 0};
    size_t scratch_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = sets[i]->matmul_scratch(N_COLS);
        if (bytes > scratch_bytes) scratch_bytes = bytes;
    }
    p->w.base =
        (struct weight){.type = TYPE, .n_mats = 1, .n_rows = N_VALUES, .n_cols = N_COLS};
    p->w.packed =
        carve(&c, N_VALUES / PANEL_ROWS * pack_panel_bytes(TYPE, N_COLS) + PACK_SLACK);
    p->m = (struct matmul){.w = &p->w, .out_stride = N_VALUES};
    p->m.a8.stride = N_COLS;
    p->m.a8.q = carve(&c, (size_t)N_ROWS * N_COLS);
    p->m.a8.d = carve(&c, (size_t)N_ROWS * N_COLS / A8_BLOCK * sizeof(float));
    p->m.a8.dsum = carve(&c, (size_t)N_ROWS * N_COLS / A8_BLOCK * sizeof(float));
    p->m.a8.sum = carve(&c, (size_t)N_ROWS * N_COLS / A8_HALF * sizeof(int16_t));
    p->m.out = carve(&c, (size_t)N_ROWS * N_VALUES * sizeof(float));
    p->scratch = carve(&c, scratch_bytes);
    return c.used;
}

static double turn_ms(struct product *p, const struct kernels *k)
{
    const double start = clock_ms();
    p->m.n_rows = N_ROWS;
    p->m.a8.side = k->a8_side;
    k->matmul(&p->m, 0, N_VALUES, p->scratch);
    p->m.n_rows = p->m.a8.side = 1;
    for (int i = 0; i < N_SINGLE; i++)
        k->matmul(&p->m, 0, N_VALUES, p->scratch);
    return clock_ms() - start;
}

size_t fastest_kernels(const struct kernels *const *sets, size_t n)
{
    struct product p = {0};
    size_t best = n - 1;
    double least = 0;
    if (n == 1) return 0;
    const size_t n_bytes = lay_out(&p, NULL, sets, n);
    uint8_t *memory = mem_try_pages(n_bytes);
    if (!memory) return best;
    lay_out(&p, memory, sets, n);
    for (int turn = 0; turn < N_TURNS; turn++) {
        for (size_t i = 0; i < n; i++) {
            const double ms = turn_ms(&p, sets[i]);
            if (least > 0 && ms >= least) continue;
            least = ms;
            best = i;
        }
    }
    mem_free_pages(memory, n_bytes);
    return best;
}
