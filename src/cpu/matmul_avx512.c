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

enum { TILE_ROWS = 8, PREFETCH_BYTES = 2048 };

/* A row of activations. */
struct row {
    const int8_t *x;
    const float *d;
    const int16_t *sum;
};

VEC_INLINE void begin(const struct layout t, const int16_t *sum, iz *id0, iz *id1)
{
    int whole = t.halves ? sum[0] : sum[0] + sum[1];
    *id0 = (iz)z_all_u((uint32_t)(-t.offset * whole));
    *id1 = (iz)z_all_u((uint32_t)(t.halves ? -t.offset * sum[1] : 0));
}

/* out[r] = values of row r before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct row *rows, fz out[TILE_ROWS])
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
            if (b % t.head_blocks == 0) {
                head = w;
                w += t.head_bytes;
            }
            const struct scales s = read_head(t, head, b);
            UNROLL for (uint32_t i = 0; i < t.code_bytes; i += 64)
                __builtin_prefetch(w + PREFETCH_BYTES + i);
            iz id0[TILE_ROWS], id1[TILE_ROWS];
            UNROLL for (int r = 0; r < n; r++) begin(t, rows[r].sum + 2 * b, &id0[r], &id1[r]);
            UNROLL for (int k = 0; k < 8; k++)
            {
                const bz q = read_codes(t, w, k);
                const bool second = t.halves ? k >= 4 : two_chains && k % 2;
                UNROLL for (int r = 0; r < n; r++)
                {
                    const bz x = z_all_4(rows[r].x + A8_BLOCK * b + 4 * k);
                    iz *id = second ? &id1[r] : &id0[r];
                    *id = z_dot(*id, q, x);
                }
            }
            w += t.code_bytes;
            UNROLL for (int r = 0; r < n; r++)
            {
                if (two_chains) id0[r] += id1[r];
                acc[r] = step(t, acc[r], &s, id0[r], id1[r], rows[r].d[b], rows[r].sum + 2 * b);
            }
        }
        UNROLL for (int r = 0; r < n; r++) out[r] = from == 0 ? acc[r] : out[r] + acc[r];
    }
}

/* n_rows rows from row on; w is the panel of values first.. . */
typedef void panel_fn(const struct matmul *m, const uint8_t *w, size_t row, size_t n_rows,
                      size_t first, size_t n_values);

VEC_INLINE void panel(const struct layout t, int n, const struct matmul *m, const uint8_t *w,
                      size_t at, size_t first, size_t n_values)
{
    struct row rows[TILE_ROWS];
    fz y[TILE_ROWS] = {{0}};
    UNROLL for (int r = 0; r < n; r++)
    {
        const size_t i = (at + (size_t)r) * m->a8.stride;
        rows[r] = (struct row){m->a8.q + i, m->a8.d + i / A8_BLOCK, m->a8.sum + i / A8_HALF};
    }
    tile(t, n, w, m->w->base.n_cols / A8_BLOCK, rows, y);
    UNROLL for (int r = 0; r < n; r++) finish16(m, at + (size_t)r, first, n_values, y[r]);
}

#define INSTANCE(name)                                                                      \
    static void name##_panel(const struct matmul *m, const uint8_t *w, size_t at, size_t n, \
                             size_t first, size_t n_values)                                 \
    {                                                                                       \
        for (; n >= TILE_ROWS; n -= TILE_ROWS, at += TILE_ROWS)                             \
            panel(name, TILE_ROWS, m, w, at, first, n_values);                              \
        if (n >= 4) {                                                                       \
            panel(name, 4, m, w, at, first, n_values);                                      \
            n -= 4;                                                                         \
            at += 4;                                                                        \
        }                                                                                   \
        if (n == 3) panel(name, 3, m, w, at, first, n_values);                              \
        if (n == 2) panel(name, 2, m, w, at, first, n_values);                              \
        if (n == 1) panel(name, 1, m, w, at, first, n_values);                              \
    }
ALL_LAYOUTS(INSTANCE)

static panel_fn *panel_of(enum qtype type)
{
#define CASE(type, name) \
    case type: return name##_panel;
    switch (type) {
        CASES_OF_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return NULL;
}

void avx512_panel(const struct matmul *m, size_t first, size_t n, size_t first_value,
                  size_t n_values)
{
    const struct weight *w = &m->w->base;
    const size_t panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const uint8_t *p = m->w->packed + (m->mat * panels + first_value / PANEL_ROWS) *
                                          pack_panel_bytes(w->type, w->n_cols);
    panel_of(w->type)(m, p, first, n, first_value, n_values);
}

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    if (!panel_of(m->w->base.type)) {
        avx2_matmul(m, lo, hi, scratch);
        return;
    }
    for (size_t i = lo; i < hi; i += PANEL_ROWS)
        avx512_panel(m, 0, m->n_rows, i, hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS);
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .packs = true,
    .macs_per_ms = 40000000,
    .matmul_scratch = avx2_matmul_scratch,
    .matmul = avx512_matmul,
    AVX2_ATTEND_AND_ROWS,
};
