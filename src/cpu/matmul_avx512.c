/* Matrix products on AVX-512 with VNNI: packed panels, a lane per row of weights.
 *
 * One inline function, tile, computes 16 values for 1 to 8 rows of activations straight from a
 * panel. A code is an unsigned byte, so one instruction adds four products of it and the signed
 * activations; minus the offset of the codes times the block's sum is where the integer sum
 * begins. The arithmetic is that of ref_matmul.c. Matrices of floats: matmul_f_avx512.c. */

#include "cpu/avx512.h"
#include "cpu/panel16.h"

enum {
    TILE_ROWS = 8,
    MOST_NEAR = 4, /* rows of a tile that may ask for lines in another way than READ_AHEAD */
#ifdef CPU_ZEN5_H
    FOR_ZEN5 = true,
#else
    FOR_ZEN5 = false,
#endif
};

/* Where the dots of a strip's rows begin: minus the offset of the codes times the sums of
 * activations, [block][row of the strip], of whole blocks or of each half. Found once for many
 * panels: in the tile it would take a tenth of the vector instructions of Q6_K. */
struct begins {
    const int32_t *whole_or_first, *second; /* from the row on that is meant */
};

static size_t begins_bytes(size_t n_cols)
{
    return 2 * PANEL_ROWS * n_cols / A8_BLOCK * sizeof(int32_t);
}

/* Of all rows of a strip, n_blocks blocks; x is what follows from its row-th row on. */
VEC_INLINE struct begins find_begins(const struct layout t, const struct strip *x, size_t row,
                                     size_t n_blocks, int32_t *to)
{
    const size_t n = x->beside * n_blocks;
    const int16_t *sum = x->sum - 2 * row;
    const int32_t by = -(int32_t)t.offset;
    int32_t *second = to + n;
    size_t i = 0;
    for (; t.offset != 0 && i + PANEL_ROWS <= n; i += PANEL_ROWS) {
        const iz both = (iz)z_load(sum + 2 * i);
        const iz low = (iz)((uz)both << 16) >> 16, high = both >> 16;
        z_store(to + i, (bz)((t.halves ? low : low + high) * by));
        if (t.halves) z_store(second + i, (bz)(high * by));
    }
    for (; t.offset != 0 && i < n; i++) {
        to[i] = by * (t.halves ? sum[2 * i] : sum[2 * i] + sum[2 * i + 1]);
        if (t.halves) second[i] = by * sum[2 * i + 1];
    }
    return (struct begins){to + row, second + row};
}

/* Rows that one tile takes. */
struct tile_rows {
    struct strip x;
    struct begins begins;
    struct ahead ahead;
    size_t at, n;
};

/* Adds the dots of the block whose codes are at w and the activations at q, of n rows: to id0,
 * and of the second half to id1 if it is apart. Lines of later blocks are asked for.
 *
 * Four columns of all rows after four columns. */
VEC_INLINE void dots_by_columns(const struct layout t, int n, const uint8_t *w,
                                const struct ahead ahead, const int8_t *q, bool two_chains,
                                iz id0[TILE_ROWS], iz id1[TILE_ROWS])
{
    UNROLL for (int i = 0; i < 8; i++)
    {
        const int k = two_chains ? i % 2 * 4 + i / 2 : i;
        bz codes = read_codes(t, w, k);
        prefetch_codes(t, w, ahead, (uint32_t)i, &codes);
        const bool second = (t.halves || two_chains) && k >= 4;
        UNROLL for (int r = 0; r < n; r++)
        {
            iz *id = second ? &id1[r] : &id0[r];
            *id = z_dot_all_4(*id, codes, q + A8_BLOCK * r + 4 * k);
        }
    }
}

/* Lines of a block's codes that are read more than once, from their first reading on. */
struct lines {
    bz low[4], high;
};

/* Codes 4k..4k+3, and for what k reads first, its lines into `lines`. */
VEC_INLINE bz read_codes_once(const struct layout t, const uint8_t *w, int k,
                              struct lines *lines)
{
    const struct piece low = low_piece(t, k), high = high_piece(t, k);
    const int first_low = t.bits >= 4 ? (int)low.line : 4 * (int)low.line;
    if (k == first_low) lines->low[low.line % 4] = z_in_register(z_load(w + 64 * low.line));
    bz q = take(lines->low[low.line % 4], low);
    if (has_high(t)) {
        if (k % (t.more_bits == 1 ? 8 : 4) == 0)
            lines->high = z_in_register(z_load(w + 64 * high.line));
        q |= take(lines->high, high);
    }
    return t.codebook ? z_lookup(t.codebook, q) : q;
}

/* The same, a row of half a block after the other: a quarter of the rows load their activations
 * by one instruction where the others take four. Zen 5 loads as often as it multiplies, and
 * shuffles beside. ns per block, in cache, with 4 and 8 rows, by columns and so: Q4_0 7.8 13.6,
 * 6.4 12.1; Q8_0 8.2 14.4, 7.2 12.8; Q4_K 8.0 13.8, 7.3 13.9; Q6_K 8.9 16.8, 8.1 14.8. Of the
 * rows none, a quarter, half, 8 rows: Q4_0 13.5 12.3 12.8, Q4_K 14.5 14.4 15.7, Q6_K 16.9 15.8
 * 15.4. Lines of Q4_0 loaded for each half and once: 1 row 3.5 and 2.6, 4 rows 7.3 and 6.4 (Zen
 * 5, 2026-11). */
VEC_INLINE void dots_by_rows(const struct layout t, int n, const uint8_t *w,
                             const struct ahead ahead, const int8_t *q, bool two_chains,
                             iz id0[TILE_ROWS], iz id1[TILE_ROWS])
{
    struct lines lines = {0};
    UNROLL for (int half = 0; half < 2; half++)
    {
        bz codes[4];
        UNROLL for (int k = 0; k < 4; k++)
        {
            codes[k] = read_codes_once(t, w, 4 * half + k, &lines);
            prefetch_codes(t, w, ahead, (uint32_t)(4 * half + k), &codes[k]);
        }
        const bool second = (t.halves || two_chains) && half == 1;
        UNROLL for (int r = 0; r < n; r++)
        {
            iz *id = second ? &id1[r] : &id0[r];
            const int8_t *x = q + A8_BLOCK * r + A8_BLOCK / 2 * half;
            if (r < (n + 1) / 4) {
                *id = z_dot_all_16(*id, codes, x);
                continue;
            }
            UNROLL for (int k = 0; k < 4; k++) *id = z_dot_all_4(*id, codes[k], x + 4 * k);
        }
    }
}

/* How a tile of n rows asks for lines. What the compiler knows takes no registers: a hundredth
 * of eight rows of Q4_K.
 *
 * On Zen 5 a few rows pass by, for a line on its way to the second cache costs there, and one
 * row of codes that are bytes comes as fast as its own reading ahead is. ms of a step of the
 * 0.6B shape, 2 threads, with 1, 4 and 8 rows, as READ_AHEAD, once 8 KiB ahead, so passing by,
 * and once 64 bytes ahead: Q4_0 8.0 8.9 12.1, 8.0 8.9 12.2, 7.7 8.7 11.9, 8.9 11.9 16.4;
 * Q6_K 9.6 10.3 15.2, 9.7 10.1 15.2, 9.2 9.7 14.7, 13.8 18.3 23.3;
 * Q8_0 13.4 14.7 15.3, 12.6 15.8 17.0, 12.8 15.9 17.1, 11.9 14.9 19.8, and once lines were
 * asked for as they lie, 1, 2, 3, 4 rows, passing by 10.0 10.5 10.8 11.2, 64 bytes
 * ahead 9.7 10.6 11.5 12.2 (Zen 5, 2026-11). Steps of many rows, whose tiles are of eight, read
 * a panel again and again: those do not pass by. */
VEC_INLINE struct ahead ahead_of(const struct layout t, int n, const struct tile_rows *rows)
{
    if (n > MOST_NEAR) return READ_AHEAD;
    if (FOR_ZEN5 && t.bits == 8 && n == 1) return (struct ahead){.near = 64, .way = AHEAD_ONCE};
    if (FOR_ZEN5) return (struct ahead){.near = 8192, .way = AHEAD_PASSING};
    return (struct ahead){rows->ahead.far, rows->ahead.near, AHEAD_TWICE};
}

/* out[r] = values of row r of the tile, before bias and keep. */
VEC_INLINE void tile(const struct layout t, int n, const uint8_t *w, size_t n_blocks,
                     const struct tile_rows *rows, fz out[TILE_ROWS])
{
    const struct strip *x = &rows->x;
    const struct begins begins = rows->begins;
    const struct ahead ahead = ahead_of(t, n, rows);
    /* A few rows alone would wait for the sums of their one chain: two of each go on side by
     * side. Cycles per block, in cache, so and with one: Q4_0 with 3 rows 30.2 and 32.4, with 4
     * 37.3 and 39.2; of 6 and 8 they are equal (Emerald Rapids, 2026-11). */
    const bool two_chains = n <= 4;
    const uint8_t *head = w;
    size_t b = 0;
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        struct stripe stripe[TILE_ROWS] = {0};
        struct scales s = {0};
        for (; b < to; b++) {
            const size_t at = b * x->beside;
            const int8_t *q = x->q + A8_BLOCK * at;
            if (b % t.head_blocks == 0) {
                head = w;
                w += t.head_bytes;
                prefetch_head(t, head, ahead);
                read_head(t, head, &s);
            }
            read_scales(t, head, b, &s);
            iz id0[TILE_ROWS], id1[TILE_ROWS];
            UNROLL for (int r = 0; r < n; r++)
            {
                id0[r] = z_all_i(t.offset ? begins.whole_or_first[at + (size_t)r] : 0);
                id1[r] = z_all_i(t.offset && t.halves ? begins.second[at + (size_t)r] : 0);
            }
            if (FOR_ZEN5)
                dots_by_rows(t, n, w, ahead, q, two_chains, id0, id1);
            else
                dots_by_columns(t, n, w, ahead, q, two_chains, id0, id1);
            w += t.code_bytes;
            UNROLL for (int r = 0; r < n; r++)
            {
                if (two_chains && !t.halves) id0[r] += id1[r];
                step(t, &stripe[r], &s, z_float(id0[r]), z_float(id1[r]), x, at + (size_t)r);
            }
        }
        UNROLL for (int r = 0; r < n; r++)
        {
            const fz sum = stripe_sum(t, &stripe[r], &s);
            out[r] = from == 0 ? sum : out[r] + sum;
        }
    }
}

/* w is the panel of values first.. . */
typedef void panel_fn(const struct matmul *m, const uint8_t *w, const struct tile_rows *rows,
                      size_t first, size_t n_values);
typedef struct begins begins_fn(const struct strip *x, size_t row, size_t n_blocks,
                                int32_t *to);

VEC_INLINE void panel(const struct layout t, int n, const struct matmul *m, const uint8_t *w,
                      const struct tile_rows *rows, size_t first, size_t n_values)
{
    fz y[TILE_ROWS] = {{0}};
    /* While the line of a result is awaited it holds a buffer that the panel's own lines need.
     * Nanoseconds per block of Q4_0 with 4 rows, one thread: without 21.5, so 19.6, with
     * results at hand 17.5 (Granite Rapids, 2026-11). */
    UNROLL for (int r = 0; r < n; r++)
        z_fetch_far(m->out + (rows->at + (size_t)r) * m->out_stride + first + 2 * PANEL_ROWS);
    tile(t, n, w, m->w->base.n_cols / A8_BLOCK, rows, y);
    UNROLL for (int r = 0; r < n; r++) finish16(m, rows->at + (size_t)r, first, n_values, y[r]);
}

#define ROWS(name, n)                                                                         \
    static void name##_panel_##n(const struct matmul *m, const uint8_t *w,                    \
                                 const struct tile_rows *rows, size_t first, size_t n_values) \
    {                                                                                         \
        panel(name, n, m, w, rows, first, n_values);                                          \
    }
#define INSTANCE(type, name)                                                               \
    ROWS(name, 1)                                                                          \
    ROWS(name, 2)                                                                          \
    ROWS(name, 3)                                                                          \
    ROWS(name, 4)                                                                          \
    ROWS(name, 5)                                                                          \
    ROWS(name, 6)                                                                          \
    ROWS(name, 7)                                                                          \
    ROWS(name, 8)                                                                          \
    static struct begins name##_begins(const struct strip *x, size_t row, size_t n_blocks, \
                                       int32_t *to)                                        \
    {                                                                                      \
        return find_begins(name, x, row, n_blocks, to);                                    \
    }
PACKED_TYPES(INSTANCE)

/* Panels by the number of rows less one. */
struct panels {
    begins_fn *begins;
    panel_fn *fns[TILE_ROWS];
    size_t n_near; /* tiles of at most so many rows ask for lines as READ_AHEAD_NEAR has it */
};

static struct panels panels_of(enum qtype type, size_t n_near)
{
#define CASE(type, name)                                                        \
    case type:                                                                  \
        return (struct panels){name##_begins,                                   \
                               {name##_panel_1, name##_panel_2, name##_panel_3, \
                                name##_panel_4, name##_panel_5, name##_panel_6, \
                                name##_panel_7, name##_panel_8},                \
                               n_near};
    switch (type) {
        PACKED_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return (struct panels){0};
}

size_t avx512_matmul_scratch(size_t n_cols)
{
    const size_t floats = avx512_matmul_floats_scratch(n_cols), begins = begins_bytes(n_cols);
    return floats > begins ? floats : begins;
}

/* What AMD's Zen 4 reads fastest with while products are few: its processors read ahead by
 * themselves, but not behind lines that were asked for long before. ms of a step of the 0.6B
 * shape, 2 threads, as READ_AHEAD, in one level 5 KiB ahead, and so, in brackets while memory
 * was slow: 1 row of Q4_0 9.8, 8.2 and 8.1 (12.4, 11.4, 11.5), Q4_K_M 9.9, 9.0 and 9.0
 * (12.9, 12.4, 12.3), Q6_K 12.4, 10.7 and 10.7 (15.8, 15.1, 15.0), Q8_0 15.1, 12.7 and 12.0
 * (20.2, 19.1, 18.7), 4 rows of it 15.9, 15.7 and 15.3. 2 rows of Q4_K_M lose: 9.3 and 10.3
 * (Zen 4, 2026-11). */
static const struct ahead READ_AHEAD_NEAR = {.far = 64, .near = 64};

/* The n rows from row `at` on to the end of their strip, in two tiles if there are many. */
static size_t cut_strip(const struct matmul *m, const struct panels *k, size_t at, size_t n,
                        int32_t *scratch, struct tile_rows out[2])
{
    const size_t row = (m->a8.first + at) % m->a8.side;
    const size_t n_first = n > TILE_ROWS ? (n + 1) / 2 : n;
    size_t rest;
    out[0] = (struct tile_rows){.x = strip_at(m, at, &rest), .at = at, .n = n_first};
    out[0].begins = k->begins(&out[0].x, row, m->w->base.n_cols / A8_BLOCK, scratch);
    out[0].ahead = n <= k->n_near ? READ_AHEAD_NEAR : READ_AHEAD;
    if (n == n_first) return 1;
    out[1] = (struct tile_rows){
        strip_at(m, at + n_first, &rest),
        {out[0].begins.whole_or_first + n_first, out[0].begins.second + n_first},
        READ_AHEAD,
        at + n_first,
        n - n_first};
    return 2;
}

/* Rows of a strip, for values lo..hi-1. */
static void strip_values(const struct matmul *m, const struct panels *k, size_t at, size_t n,
                         size_t lo, size_t hi, int32_t *scratch)
{
    const size_t panel_bytes = pack_panel_bytes(m->w->base.type, m->w->base.n_cols);
    const uint8_t *p = packed_panel(m, lo);
    struct tile_rows tiles[2];
    const size_t n_tiles = cut_strip(m, k, at, n, scratch, tiles);
    for (size_t i = lo; i < hi; i += PANEL_ROWS, p += panel_bytes) {
        const size_t n_values = hi - i < PANEL_ROWS ? hi - i : PANEL_ROWS;
        for (size_t j = 0; j < n_tiles; j++)
            k->fns[tiles[j].n - 1](m, p, &tiles[j], i, n_values);
    }
}

size_t avx512_band(const struct weight *w)
{
    enum { BAND_BYTES = 524288 };
    const size_t n = BAND_BYTES / pack_panel_bytes(w->type, w->n_cols);
    return (n > 0 ? n : 1) * PANEL_ROWS;
}

static void matmul(const struct matmul *m, size_t lo, size_t hi, size_t n_near, void *scratch)
{
    const struct weight *w = &m->w->base;
    const struct panels k = panels_of(w->type, n_near);
    if (!k.begins) {
        avx512_matmul_floats(m, lo, hi, scratch);
        return;
    }
    const size_t band = avx512_band(w);
    for (; lo < hi; lo += band) {
        const size_t to = hi - lo < band ? hi : lo + band;
        for (size_t at = 0, n; at < m->n_rows; at += n) {
            strip_at(m, at, &n);
            strip_values(m, &k, at, n, lo, to, scratch);
        }
    }
}

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    matmul(m, lo, hi, 0, scratch);
}

/* All that is the same on every processor. */
#define AVX512_TABLE                                                                  \
    .name = "avx512", .packs = true, .bytes_unsigned = true, .macs_per_ms = 40000000, \
    .a8_side = PANEL_ROWS, .matmul_scratch = avx512_matmul_scratch,                   \
    .attend_scratch = avx512_attend_scratch, .attend = avx512_attend, AVX512_ROWS

const struct kernels kernels_avx512 = {.matmul = avx512_matmul, AVX512_TABLE};

#ifndef CPU_ZEN5_H
static void matmul_amd(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    matmul(m, lo, hi, pack_format(m->w->base.type)->bits == 8 ? MOST_NEAR : 1, scratch);
}

const struct kernels kernels_avx512_amd = {.matmul = matmul_amd, AVX512_TABLE};
#endif
