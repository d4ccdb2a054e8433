/* The eight tiles of AMX, which a thread has to itself. For *_amx.c files only.
 *
 * Where the compiler has no AMX the same text compiles to plain C, as with vec16.h: so
 * tests/ops/test_emulated*.c hold these kernels to the reference on any machine. Numbers of
 * tiles are literals, for they are part of the instructions. */
#ifndef CPU_TILES_AMX_H
#define CPU_TILES_AMX_H

#include <assert.h>
#include <stdbool.h>

#include "cpu/vec16.h"

enum { N_TILES = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

/* What is used of a tile: TILE_ROWS rows of TILE_ROW_BYTES at most; none of one that is 0. */
struct tile_shape {
    uint8_t n_rows, row_bytes;
};

#if defined __AMX_INT8__ || defined __AMXINT8__ /* as clang 14 has it */

/* The tiles of this thread take these shapes, until tiles_end. */
static inline void tiles_begin(const struct tile_shape shapes[N_TILES])
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    for (int i = 0; i < N_TILES; i++) {
        c.row_bytes[i] = shapes[i].n_rows > 0 ? shapes[i].row_bytes : 0;
        c.rows[i] = shapes[i].n_rows;
    }
    /* gcc 12 believes that the intrinsics read less memory than they do. */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&c);
}

static inline void tiles_end(void)
{
    _tile_release();
}

/* Bytes from row to row, in a general register each time: a compiler that keeps them in a
 * vector register has the loads wait for the vector ports, behind all floats of the block
 * before. Compilers keep what is written before it before the loads and stores of tiles behind
 * it, but not the reverse: what a tile was loaded from may be written again only behind a
 * tile_store or the next LINES_APART. */
#define LINES_APART(name, n) \
    size_t name = n;         \
    __asm__ volatile("" : "+r"(name)::"memory")

#define tile_load(t, from, apart) _tile_loadd(t, from, apart)
#define tile_store(t, to, apart) _tile_stored(t, to, apart)
#define tile_zero(t) _tile_zero(t)

/* Int32 c[m][n] += the products of the bytes a[m][4k..] and b[k][4n..], over all k: a signed,
 * b signed or unsigned. */
#define tile_dot_ss(c, a, b) _tile_dpbssd(c, a, b)
#define tile_dot_su(c, a, b) _tile_dpbsud(c, a, b)

#else

static _Thread_local struct {
    struct tile_shape shape;
    union {
        uint8_t bytes[TILE_ROWS][TILE_ROW_BYTES];
        int32_t sums[TILE_ROWS][TILE_ROW_BYTES / 4];
    };
} tiles_emulated[N_TILES];

VEC_INLINE void tiles_begin(const struct tile_shape shapes[N_TILES])
{
    memset(tiles_emulated, 0, sizeof tiles_emulated);
    for (int i = 0; i < N_TILES; i++) {
        assert(shapes[i].n_rows <= TILE_ROWS && shapes[i].row_bytes <= TILE_ROW_BYTES);
        tiles_emulated[i].shape = shapes[i];
    }
}

VEC_INLINE void tiles_end(void)
{
    memset(tiles_emulated, 0, sizeof tiles_emulated);
}

#define LINES_APART(name, n) const size_t name = n

VEC_INLINE void tile_load(int t, const void *from, size_t apart)
{
    const struct tile_shape s = tiles_emulated[t].shape;
    assert(s.n_rows > 0);
    for (size_t i = 0; i < s.n_rows; i++)
        memcpy(tiles_emulated[t].bytes[i], (const uint8_t *)from + i * apart, s.row_bytes);
}

VEC_INLINE void tile_store(int t, void *to, size_t apart)
{
    const struct tile_shape s = tiles_emulated[t].shape;
    assert(s.n_rows > 0);
    for (size_t i = 0; i < s.n_rows; i++)
        memcpy((uint8_t *)to + i * apart, tiles_emulated[t].bytes[i], s.row_bytes);
}

VEC_INLINE void tile_zero(int t)
{
    assert(tiles_emulated[t].shape.n_rows > 0);
    memset(tiles_emulated[t].bytes, 0, sizeof tiles_emulated[t].bytes);
}

VEC_INLINE void tile_dot(bool is_signed, int c, int a, int b)
{
    const struct tile_shape of_a = tiles_emulated[a].shape, of_b = tiles_emulated[b].shape,
                            of_c = tiles_emulated[c].shape;
    assert(a != b && b != c && c != a && of_c.n_rows > 0 && of_a.row_bytes > 0);
    assert(of_c.n_rows == of_a.n_rows && of_c.row_bytes == of_b.row_bytes);
    assert(of_b.n_rows == of_a.row_bytes / 4);
    for (size_t m = 0; m < of_c.n_rows; m++) {
        for (size_t n = 0; n < of_c.row_bytes / 4; n++) {
            int32_t sum = 0;
            for (size_t k = 0; k < of_a.row_bytes; k++) {
                const uint8_t x = tiles_emulated[b].bytes[k / 4][4 * n + k % 4];
                sum += (int8_t)tiles_emulated[a].bytes[m][k] * (is_signed ? (int8_t)x : x);
            }
            tiles_emulated[c].sums[m][n] += sum;
        }
    }
}

VEC_INLINE void tile_dot_ss(int c, int a, int b)
{
    tile_dot(true, c, a, b);
}

VEC_INLINE void tile_dot_su(int c, int a, int b)
{
    tile_dot(false, c, a, b);
}

#endif

#endif
