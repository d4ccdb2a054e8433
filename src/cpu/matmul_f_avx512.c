/* Products with matrices of floats on AVX-512: packed panels (pack.h), a lane per row of
 * weights. See dot_floats of ref_matmul.c for what is computed, and float_tiles.h. */
#include "cpu/avx512.h"
#include "cpu/panel16.h"

enum {
    TILE_ROWS = 8, /* lines of a set of the first cache, which rows of 1024 floats share */
    IN_PLACE_ROWS = TILE_ROWS,
};
typedef fz sums[TILE_ROWS]; /* before bias and keep */

VEC_INLINE fz read_column(enum qtype type, const uint8_t *w)
{
    if (type == QTYPE_F32) return (fz)z_load(w);
    return type == QTYPE_F16 ? z_halves(w) : z_bf16(w);
}

VEC_INLINE void ask_ahead(const uint8_t *w)
{
    z_fetch_far(w + READ_AHEAD.far);
    z_fetch_near(w + READ_AHEAD.near);
}

/* A sum begins as 0 instead of the first term: that differs only where it is -0, which keep
 * hides. */
VEC_INLINE void tile(enum qtype type, int n, const uint8_t *w, size_t n_cols, const float *x,
                     size_t stride, sums out)
{
    const size_t bytes = pack_column_bytes(type);
    for (size_t from = 0; from < n_cols; from += STRIPE_LEN) {
        const size_t to = n_cols - from < STRIPE_LEN ? n_cols : from + STRIPE_LEN;
        fz sum[TILE_ROWS];
        UNROLL for (int r = 0; r < n; r++) sum[r] = z_all(0);
        for (size_t i = from; i < to; i++, w += bytes) {
            if (i % (64 / bytes) == 0) ask_ahead(w);
            const fz c = read_column(type, w);
            UNROLL for (int r = 0; r < n; r++) sum[r] =
                sum[r] + z_all(x[(size_t)r * stride + i]) * c;
        }
        UNROLL for (int r = 0; r < n; r++) out[r] = from == 0 ? sum[r] : out[r] + sum[r];
    }
}

VEC_INLINE void widen(enum qtype type, const uint8_t *w, size_t n_cols, float *to)
{
    for (size_t i = 0; i < n_cols; i++, w += pack_column_bytes(type), to += PANEL_ROWS) {
        ask_ahead(w);
        z_store_f(to, read_column(type, w));
    }
}

static void finish_rows(const struct matmul *m, size_t at, size_t n, size_t first,
                        size_t n_values, sums y)
{
    for (size_t r = 0; r < n; r++)
        finish16(m, at + r, first, n_values, y[r]);
}

#define FLOAT_MORE_ROWS(type) \
    FLOAT_ROWS(type, 5)       \
    FLOAT_ROWS(type, 6)       \
    FLOAT_ROWS(type, 7)       \
    FLOAT_ROWS(type, 8)
#include "cpu/float_tiles.h"

size_t avx512_matmul_floats_scratch(size_t n_cols)
{
    return wide_panel_bytes(n_cols);
}

void avx512_matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    matmul_floats(m, lo, hi, scratch);
}
