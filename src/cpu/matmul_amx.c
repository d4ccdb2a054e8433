/* Matrix products on AMX: up to sixteen rows of activations times a packed panel of sixteen
 * rows.
 *
 * A panel is unpacked once per call to signed bytes, eight lines of 64 per block, which is how
 * the tile unit wants its second operand. One tile product gives the exact integers of a block
 * for a strip of rows and 16 values; the float step is that of AVX-512, some blocks behind,
 * because the load of a line whose tile store has not yet been committed waits for it. The
 * first strip unpacks as it goes, some blocks ahead for the same reason. A few rows go to the
 * AVX-512 kernel. The arithmetic is that of ref_matmul.c. */
#include <assert.h>

#include "cpu/avx2.h"
#include "cpu/avx512.h"
#include "cpu/panel16.h"

enum {
    TILE_ROWS = 16,
    LAG = 3,
    N_BUFFERS = 4,
    AHEAD = 2,
};

/* Fewer rows are left to the AVX-512 kernel: a tile product and its store take as long for one
 * row as for ten, unpacking for a single strip as long again, and with a scale per half there
 * are two of them. Microseconds for 256 values of 1024 columns, AVX-512 and AMX (Emerald
 * Rapids, 2026-11): Q4_0 with 9 rows 15.2 and 14.9, with 12 18.7 and 15.9; Q4_K 17.0
 * and 17.8, 21.5 and 18.3; Q6_K 22.4 and 26.2, 27.1 and 26.7, with 16 34.1 and 31.9. */
enum { FRESH_LEAST = 10, FRESH_LEAST_HALVES = 12, AGAIN_LEAST = 1, AGAIN_LEAST_HALVES = 8 };

struct wide_block {
    int8_t codes[8][64];
    struct scales scales;
};

typedef int32_t products[TILE_ROWS][PANEL_ROWS];

#ifdef __AMX_INT8__

/* Tile 0: results, tile 1: n_bytes of each row of activations, tile 2: lines of weights; and 3
 * and 4 as 0 and 1 for n_rest rows. */
static void tiles_begin(uint8_t n_bytes, uint8_t n_rest)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    const uint8_t rows[] = {TILE_ROWS, TILE_ROWS, n_bytes / 4, n_rest, n_rest};
    const uint8_t row_bytes[] = {64, n_bytes, 64, 64, n_bytes};
    for (int i = 0; i < 5; i++) {
        c.row_bytes[i] = rows[i] > 0 ? row_bytes[i] : 0;
        c.rows[i] = rows[i];
    }
    /* gcc 12 believes that the intrinsics read less memory than they do. */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&c);
}

static void tiles_end(void)
{
    _tile_release();
}

#define PRODUCT(c_tile, x_tile)           \
    do {                                  \
        _tile_zero(c_tile);               \
        _tile_loadd(x_tile, x, A8_BLOCK); \
        _tile_loadd(2, lines, 64);        \
        _tile_dpbssd(c_tile, x_tile, 2);  \
        _tile_stored(c_tile, out, 64);    \
    } while (0)

/* out[r][i] = x[r] · w[i] over the n_bytes of the configuration, for sixteen rows or the rest.
 */
VEC_INLINE void product(bool rest, int n_bytes, size_t n_rows, const int8_t *x,
                        const int8_t (*lines)[64], products out)
{
    (void)n_bytes;
    (void)n_rows;
    __asm__ volatile("" ::: "memory");
    if (rest)
        PRODUCT(3, 4);
    else
        PRODUCT(0, 1);
}

#else

static void tiles_begin(uint8_t n_bytes, uint8_t n_rest)
{
    (void)n_bytes;
    (void)n_rest;
}

static void tiles_end(void)
{
}

VEC_INLINE void product(bool rest, int n_bytes, size_t n_rows, const int8_t *x,
                        const int8_t (*lines)[64], products out)
{
    (void)rest;
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t i = 0; i < PANEL_ROWS; i++) {
            int sum = 0;
            for (int k = 0; k < n_bytes; k++)
                sum += x[r * A8_BLOCK + (size_t)k] * lines[k / 4][4 * i + (size_t)k % 4];
            out[r][i] = sum;
        }
    }
}

#endif

/* A packed panel being read. */
struct reader {
    const uint8_t *w, *head;
    size_t b;
};

VEC_INLINE void unpack(const struct layout t, struct reader *p, struct wide_block *out)
{
    if (p->b % t.head_blocks == 0) {
        p->head = p->w;
        p->w += t.head_bytes;
    }
    out->scales = read_head(t, p->head, p->b);
    UNROLL for (int k = 0; k < 8; k++)
    {
        bz codes = read_codes(t, p->w, k);
        prefetch_codes(t, p->w, (uint32_t)k, &codes);
        z_store(out->codes[k], codes - (unsigned char)t.offset);
    }
    p->w += t.code_bytes;
    p->b++;
}

/* What the tiles of a panel have in common. */
struct panel {
    const struct matmul *m;
    const uint8_t *w;        /* packed */
    struct wide_block *wide; /* unpacked */
    size_t first, n_values;
};

VEC_INLINE void multiply(const struct layout t, bool rest, const struct strip *x, size_t n_rows,
                         const struct wide_block *w, size_t b, products to[2])
{
    const int8_t *q = x->q + A8_BLOCK * x->beside * b;
    if (t.halves) {
        product(rest, A8_HALF, n_rows, q, w[b].codes, to[0]);
        product(rest, A8_HALF, n_rows, q + A8_HALF, w[b].codes + 4, to[1]);
    } else {
        product(rest, A8_BLOCK, n_rows, q, w[b].codes, to[0]);
    }
}

/* Rows `at` to at + n_rows - 1, the strip x, in registers for n rows: what they hold for rows
 * beyond n_rows is not used. fresh: the panel is unpacked, too. */
VEC_INLINE void tile(const struct layout t, size_t n, bool fresh, const struct panel *p,
                     const struct strip *x, size_t at, size_t n_rows)
{
    const size_t n_blocks = p->m->w->base.n_cols / A8_BLOCK;
    struct reader reader = {p->w, p->w, 0};
    _Alignas(64) products c[N_BUFFERS][2];
    fz acc[TILE_ROWS] = {{0}}, total[TILE_ROWS] = {{0}};
    /* Stores are done in order: those of the tiles would wait for the lines of the results. */
    for (size_t r = 0; r < n_rows; r++)
        __builtin_prefetch(p->m->out + (at + r) * p->m->out_stride + p->first, 1);
    if (fresh)
        for (size_t b = 0; b < AHEAD && b < n_blocks; b++)
            unpack(t, &reader, &p->wide[b]);
    for (size_t b = 0; b < n_blocks + LAG; b++) {
        if (fresh && reader.b < n_blocks) unpack(t, &reader, &p->wide[reader.b]);
        if (b < n_blocks)
            multiply(t, n_rows < TILE_ROWS, x, n_rows, p->wide, b, c[b % N_BUFFERS]);
        if (b < LAG) continue;
        const size_t done = b - LAG;
        const products *from = (const products *)c[done % N_BUFFERS];
        const struct scales *s = &p->wide[done].scales;
        UNROLL for (size_t r = 0; r < n; r++)
        {
            const iz id0 = (iz)z_load(from[0][r]);
            const iz id1 = t.halves ? (iz)z_load(from[1][r]) : id0;
            acc[r] = step(t, acc[r], s, id0, id1, x, x->beside * done + r);
        }
        if (done % BLOCKS_PER_STRIPE != BLOCKS_PER_STRIPE - 1 && done + 1 < n_blocks) continue;
        UNROLL for (size_t r = 0; r < n; r++)
        {
            total[r] = done < BLOCKS_PER_STRIPE ? acc[r] : total[r] + acc[r];
            acc[r] = z_all(0);
        }
    }
    UNROLL for (size_t r = 0; r < n; r++) if (r < n_rows)
        finish16(p->m, at + r, p->first, p->n_values, total[r]);
}

typedef void tile_fn(const struct panel *p, const struct strip *x, size_t at, size_t n_rows);

#define TILE(name, n, fresh)                                                                  \
    static void name##_##n##_##fresh(const struct panel *p, const struct strip *x, size_t at, \
                                     size_t n_rows)                                           \
    {                                                                                         \
        tile(name, n, fresh, p, x, at, n_rows);                                               \
    }
#define INSTANCE(name)    \
    TILE(name, 4, false)  \
    TILE(name, 8, false)  \
    TILE(name, 12, false) \
    TILE(name, 16, false) \
    TILE(name, 12, true)  \
    TILE(name, 16, true)
ALL_LAYOUTS(INSTANCE)

/* By rows up to 4, 8, 12 and 16. */
struct instance {
    tile_fn *tiles[4], *fresh[4];
    bool halves;
};

static struct instance instance_of(enum qtype type)
{
#define CASE(type, name)                                                        \
    case type:                                                                  \
        return (struct instance){                                               \
            {name##_4_false, name##_8_false, name##_12_false, name##_16_false}, \
            {NULL, NULL, name##_12_true, name##_16_true},                       \
            name.halves};
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

/* Rows of the last strip that do not make sixteen. */
static size_t rest_rows(const struct matmul *m)
{
    const size_t end = m->a8.first + m->n_rows, side = m->a8.side;
    const size_t n = end % side > 0 ? end % side : side;
    return n < m->n_rows ? n : m->n_rows;
}

void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const struct weight *w = &m->w->base;
    const struct instance k = instance_of(w->type);
    const size_t fresh_least = k.halves ? FRESH_LEAST_HALVES : FRESH_LEAST;
    const size_t again_least = k.halves ? AGAIN_LEAST_HALVES : AGAIN_LEAST;
    if (!k.tiles[0] || m->n_rows < fresh_least) {
        avx512_matmul(m, lo, hi, scratch);
        return;
    }
    const size_t panels = (w->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const size_t rest = rest_rows(m);
    tiles_begin(k.halves ? A8_HALF : A8_BLOCK, (uint8_t)rest);
    for (size_t i = lo; i < hi; i += PANEL_ROWS) {
        const struct panel p = {
            .m = m,
            .w = m->w->packed +
                 (m->mat * panels + i / PANEL_ROWS) * pack_panel_bytes(w->type, w->n_cols),
            .wide = scratch,
            .first = i,
            .n_values = hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS,
        };
        bool fresh = true;
        for (size_t n, at = 0; at < m->n_rows; at += n) {
            const struct strip x = strip_at(m, at, &n);
            const size_t i_tile = (n - 1) / 4;
            const size_t least = fresh ? fresh_least : again_least;
            if (n >= least && (n == TILE_ROWS || n == rest)) {
                (fresh ? k.fresh : k.tiles)[i_tile](&p, &x, at, n);
                fresh = false;
            } else {
                avx512_panel(m, at, n, i, p.n_values);
            }
        }
    }
    tiles_end();
}

const struct kernels kernels_amx = {
    .name = "amx",
    .packs = true,
    .macs_per_ms = 80000000,
    .a8_side = PANEL_ROWS,
    .matmul_scratch = amx_matmul_scratch,
    .matmul = amx_matmul,
    AVX512_ATTEND_AND_ROWS,
};
