/* Matrix products on AMX: sixteen rows of activations times a packed panel of sixteen rows.
 *
 * A panel is unpacked once per call to signed bytes, eight lines of 64 per block, which is how
 * the tile unit wants its second operand. One tile product gives the exact integers of a block
 * for 16 rows and 16 values; the float step is that of AVX-512, two blocks behind, because the
 * load of a line whose tile store has not yet been committed waits for it. Rows that do not
 * make sixteen go to the AVX-512 kernel. The arithmetic is that of ref_matmul.c. */
#include <assert.h>

#include "cpu/avx2.h"
#include "cpu/avx512.h"
#include "cpu/panel16.h"

enum { TILE_ROWS = 16, LAG = 2, N_BUFFERS = 4 };

struct wide_block {
    int8_t codes[8][64];
    struct scales scales;
};

typedef int32_t products[TILE_ROWS][PANEL_ROWS];

#ifdef __AMX_INT8__

/* Tiles 0 and 1: results; 4 and 5: activations, n_bytes of 16 rows; 6 and 7: lines of weights.
 */
static void tiles_begin(uint8_t n_bytes)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = i == 4 || i == 5 ? n_bytes : 64;
        c.rows[i] = i >= 6 ? n_bytes / 4 : TILE_ROWS;
    }
    /* gcc 12 believes that the intrinsics read less memory than they do. */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&c);
}

static void tiles_end(void)
{
    _tile_release();
}

#define PRODUCT(c_tile, x_tile, w_tile)       \
    do {                                      \
        _tile_zero(c_tile);                   \
        _tile_loadd(x_tile, x, (int)stride);  \
        _tile_loadd(w_tile, lines, 64);       \
        _tile_dpbssd(c_tile, x_tile, w_tile); \
        _tile_stored(c_tile, out, 64);        \
    } while (0)

/* out[r][i] = x[r] · w[i] over the n_bytes of the configuration. */
VEC_INLINE void product(bool odd, int n_bytes, const int8_t *x, size_t stride,
                        const int8_t (*lines)[64], products out)
{
    (void)n_bytes;
    __asm__ volatile("" ::: "memory");
    if (odd)
        PRODUCT(1, 5, 7);
    else
        PRODUCT(0, 4, 6);
}

#else

static void tiles_begin(uint8_t n_bytes)
{
    (void)n_bytes;
}

static void tiles_end(void)
{
}

VEC_INLINE void product(bool odd, int n_bytes, const int8_t *x, size_t stride,
                        const int8_t (*lines)[64], products out)
{
    (void)odd;
    for (size_t r = 0; r < TILE_ROWS; r++) {
        for (size_t i = 0; i < PANEL_ROWS; i++) {
            int sum = 0;
            for (int k = 0; k < n_bytes; k++)
                sum += x[r * stride + (size_t)k] * lines[k / 4][4 * i + (size_t)k % 4];
            out[r][i] = sum;
        }
    }
}

#endif

VEC_INLINE void unpack(const struct layout t, const uint8_t *w, size_t n_blocks,
                       struct wide_block *out)
{
    const uint8_t *head = w;
    for (size_t b = 0; b < n_blocks; b++, out++, w += t.code_bytes) {
        if (b % t.head_blocks == 0) {
            head = w;
            w += t.head_bytes;
        }
        out->scales = read_head(t, head, b);
        UNROLL for (int k = 0; k < 8; k++)
            z_store(out->codes[k], read_codes(t, w, k) - (unsigned char)t.offset);
    }
}

/* Sixteen rows from row `at` on. */
VEC_INLINE void tile(const struct layout t, const struct matmul *m, const struct wide_block *w,
                     size_t at, size_t first, size_t n_values)
{
    const size_t stride = m->a8.stride, n_blocks = m->w->base.n_cols / A8_BLOCK;
    const int8_t *x = m->a8.q + at * stride;
    const float *d = m->a8.d + at * stride / A8_BLOCK;
    const int16_t *sum = m->a8.sum + at * stride / A8_HALF;
    _Alignas(64) products c[N_BUFFERS][2];
    fz acc[TILE_ROWS] = {{0}}, total[TILE_ROWS] = {{0}};
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (b < n_blocks) {
            products *to = c[b % N_BUFFERS];
            const int8_t *xb = x + A8_BLOCK * b;
            if (t.halves) {
                product(false, A8_HALF, xb, stride, w[b].codes, to[0]);
                product(true, A8_HALF, xb + A8_HALF, stride, w[b].codes + 4, to[1]);
            } else {
                product(b % 2, A8_BLOCK, xb, stride, w[b].codes, to[0]);
            }
        }
        if (b < LAG) continue;
        const size_t done = b - LAG;
        const products *from = (const products *)c[done % N_BUFFERS];
        const bool last =
            done % BLOCKS_PER_STRIPE == BLOCKS_PER_STRIPE - 1 || done + 1 == n_blocks;
        UNROLL for (size_t r = 0; r < TILE_ROWS; r++)
        {
            const iz id0 = (iz)z_load(from[0][r]);
            const iz id1 = t.halves ? (iz)z_load(from[1][r]) : id0;
            acc[r] = step(t, acc[r], &w[done].scales, id0, id1, d[r * stride / A8_BLOCK + done],
                          sum + r * stride / A8_HALF + 2 * done);
        }
        if (!last) continue;
        UNROLL for (size_t r = 0; r < TILE_ROWS; r++)
        {
            total[r] = done < BLOCKS_PER_STRIPE ? acc[r] : total[r] + acc[r];
            acc[r] = z_all(0);
        }
    }
    for (size_t r = 0; r < TILE_ROWS; r++)
        finish16(m, at + r, first, n_values, total[r]);
}

/* All whole tiles of rows of one panel. */
typedef void panel_fn(const struct matmul *m, const uint8_t *w, size_t first, size_t n_values,
                      struct wide_block *wide);

#define INSTANCE(name)                                                               \
    static void name##_tiles(const struct matmul *m, const uint8_t *w, size_t first, \
                             size_t n_values, struct wide_block *wide)               \
    {                                                                                \
        unpack(name, w, m->w->base.n_cols / A8_BLOCK, wide);                         \
        for (size_t at = 0; at + TILE_ROWS <= m->n_rows; at += TILE_ROWS)            \
            tile(name, m, wide, at, first, n_values);                                \
    }
ALL_LAYOUTS(INSTANCE)

struct instance {
    panel_fn *tiles;
    bool halves;
};

static struct instance instance_of(enum qtype type)
{
#define CASE(type, name) \
    case type: return (struct instance){name##_tiles, name.halves};
    switch (type) {
        CASES_OF_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return (struct instance){0};
}

size_t amx_matmul_scratch(size_t n_cols)
{
    const size_t wide = n_cols / A8_BLOCK * sizeof(struct wide_block);
    const size_t narrow = avx2_matmul_scratch(n_cols);
    return wide > narrow ? wide : narrow;
}

void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const struct weight *w = &m->w->base;
    const struct instance k = instance_of(w->type);
    if (!k.tiles || m->n_rows < TILE_ROWS) {
        avx512_matmul(m, lo, hi, scratch);
        return;
    }
    const size_t panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const size_t whole = m->n_rows / TILE_ROWS * TILE_ROWS;
    tiles_begin(k.halves ? A8_HALF : A8_BLOCK);
    for (size_t i = lo; i < hi; i += PANEL_ROWS) {
        const size_t n = hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS;
        k.tiles(m,
                m->w->packed +
                    (m->mat * panels + i / PANEL_ROWS) * pack_panel_bytes(w->type, w->n_cols),
                i, n, scratch);
        if (whole < m->n_rows) avx512_panel(m, whole, m->n_rows - whole, i, n);
    }
    tiles_end();
}

const struct kernels kernels_amx = {
    .name = "amx",
    .packs = true,
    .macs_per_ms = 80000000,
    .matmul_scratch = amx_matmul_scratch,
    .matmul = amx_matmul,
    AVX2_ATTEND_AND_ROWS,
};
