/* Matrix products on AVX-512 with VNNI: packed panels, a lane per row of weights.
 *
 * One inline function, tile, computes 16 values for 1 to 8 rows of activations straight from a
 * panel. A code is an unsigned byte, so one instruction adds four products of it and the signed
 * activations; the offset of the codes times the block's sum is where the integer sum begins.
 * The arithmetic is that of ref_matmul.c. Float matrices go to AVX2: no model that is meant to
 * be fast has them. */
#include <assert.h>

#include "cpu/avx2.h"
#include "cpu/avx512.h"
#include "cpu/panel16.h"

enum { TILE_ROWS = 8 };

/* Where the dots of a block of a row begin: the offset times its sums. */
VEC_INLINE void begin(const struct layout t, const int16_t *sum, iz *id0, iz *id1)
{
    const uint32_t low = (uint32_t)-t.offset & 0xffff, high = low << 16;
    *id0 = *id1 = (iz)z_all_u(0);
    if (t.offset == 0) return;
    *id0 = z_dot_pairs(*id0, (bz)z_all_u(t.halves ? low : low | high), z_all_4(sum));
    if (t.halves) *id1 = z_dot_pairs(*id1, (bz)z_all_u(high), z_all_4(sum));
}

/* out[r] = values of row r of the strip, before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct strip *x, fz out[TILE_ROWS])
{
    /* A few rows alone would wait for the sums of their one chain. */
    const bool two_chains = !t.halves && n <= 2;
    const uint8_t *head = w;
    size_t b = 0;
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        /* From 0 instead of the first term: that differs only where a sum is -0, which keep
         * hides. */
        fz acc[TILE_ROWS] = {{0}};
        for (; b < to; b++) {
            const size_t at = b * x->beside;
            const int8_t *q = x->q + A8_BLOCK * at;
            if (b % t.head_blocks == 0) {
                head = w;
                w += t.head_bytes;
            }
            const struct scales s = read_head(t, head, b);
            iz id0[TILE_ROWS], id1[TILE_ROWS];
            UNROLL for (int r = 0; r < n; r++)
                begin(t, x->sum + 2 * (at + (size_t)r), &id0[r], &id1[r]);
            UNROLL for (int k = 0; k < 8; k++)
            {
                bz codes = read_codes(t, w, k);
                prefetch_codes(t, w, (uint32_t)k, &codes);
                const bool second = t.halves ? k >= 4 : two_chains && k % 2;
                UNROLL for (int r = 0; r < n; r++)
                {
                    iz *id = second ? &id1[r] : &id0[r];
                    *id = z_dot(*id, codes, z_all_4(q + A8_BLOCK * r + 4 * k));
                }
            }
            w += t.code_bytes;
            UNROLL for (int r = 0; r < n; r++)
            {
                if (two_chains) id0[r] += id1[r];
                acc[r] = step(t, acc[r], &s, id0[r], id1[r], x, at + (size_t)r);
            }
        }
        UNROLL for (int r = 0; r < n; r++) out[r] = from == 0 ? acc[r] : out[r] + acc[r];
    }
}

/* n rows, of the strip x, from row `at` on; w is the panel of values first.. . */
typedef void panel_fn(const struct matmul *m, const uint8_t *w, const struct strip *x,
                      size_t at, size_t first, size_t n_values);

VEC_INLINE void panel(const struct layout t, int n, const struct matmul *m, const uint8_t *w,
                      const struct strip *x, size_t at, size_t first, size_t n_values)
{
    fz y[TILE_ROWS] = {{0}};
    tile(t, n, w, m->w->base.n_cols / A8_BLOCK, x, y);
    UNROLL for (int r = 0; r < n; r++) finish16(m, at + (size_t)r, first, n_values, y[r]);
}

#define ROWS(name, n)                                                            \
    static void name##_panel_##n(const struct matmul *m, const uint8_t *w,       \
                                 const struct strip *x, size_t at, size_t first, \
                                 size_t n_values)                                \
    {                                                                            \
        panel(name, n, m, w, x, at, first, n_values);                            \
    }
#define INSTANCE(name)                                                  \
    ROWS(name, 1)                                                       \
    ROWS(name, 2)                                                       \
    ROWS(name, 3)                                                       \
    ROWS(name, 4)                                                       \
    ROWS(name, 5)                                                       \
    ROWS(name, 6)                                                       \
    ROWS(name, 7)                                                       \
    ROWS(name, 8)                                                       \
    static panel_fn *const name##_panels[TILE_ROWS] = {                 \
        name##_panel_1, name##_panel_2, name##_panel_3, name##_panel_4, \
        name##_panel_5, name##_panel_6, name##_panel_7, name##_panel_8};
ALL_LAYOUTS(INSTANCE)

/* By the number of rows less one. */
static panel_fn *const *panels_of(enum qtype type)
{
#define CASE(type, name) \
    case type: return name##_panels;
    switch (type) {
        CASES_OF_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return NULL;
}

static const uint8_t *packed_panel(const struct matmul *m, size_t value)
{
    const struct weight *w = &m->w->base;
    const size_t panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    return m->w->packed +
           (m->mat * panels + value / PANEL_ROWS) * pack_panel_bytes(w->type, w->n_cols);
}

void avx512_panel(const struct matmul *m, size_t first, size_t n, size_t first_value,
                  size_t n_values)
{
    const uint8_t *w = packed_panel(m, first_value);
    panel_fn *const *fns = panels_of(m->w->base.type);
    for (const size_t end = first + n; first < end; first += n) {
        const struct strip x = strip_at(m, first, &n);
        if (n > end - first) n = end - first;
        if (n > TILE_ROWS) n = (n + 1) / 2;
        fns[n - 1](m, w, &x, first, first_value, n_values);
    }
}

/* A few rows of one strip: with small matrices a panel takes no longer than finding it. */
static void few_rows(const struct matmul *m, const struct strip *x, panel_fn *fn, size_t lo,
                     size_t hi)
{
    const size_t panel_bytes = pack_panel_bytes(m->w->base.type, m->w->base.n_cols);
    const uint8_t *w = packed_panel(m, lo);
    for (size_t i = lo; i < hi; i += PANEL_ROWS, w += panel_bytes)
        fn(m, w, x, 0, i, hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS);
}

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    panel_fn *const *fns = panels_of(m->w->base.type);
    size_t n;
    if (!fns) {
        avx2_matmul(m, lo, hi, scratch);
        return;
    }
    const struct strip x = strip_at(m, 0, &n);
    if (n == m->n_rows && n <= TILE_ROWS) {
        few_rows(m, &x, fns[n - 1], lo, hi);
        return;
    }
    for (size_t i = lo; i < hi; i += PANEL_ROWS)
        avx512_panel(m, 0, m->n_rows, i, hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS);
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .packs = true,
    .macs_per_ms = 40000000,
    .a8_side = PANEL_ROWS,
    .matmul_scratch = avx2_matmul_scratch,
    .matmul = avx512_matmul,
    AVX512_ATTEND_AND_ROWS,
};
