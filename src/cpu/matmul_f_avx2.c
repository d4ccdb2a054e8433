/* Products with matrices of floats on AVX2, and for AVX-VNNI: packed panels (pack.h), a lane
 * per row of weights. See dot_floats of ref_matmul.c for what is computed, and float_tiles.h.
 */
#include "cpu/avx2.h"
#include "cpu/panel8.h"

enum {
    IN_PLACE_ROWS = 2 * TILE_ROWS,
    AHEAD_FAR = 8192, /* bytes, into the second cache */
    AHEAD_NEAR = 2048,
};
typedef values sums;

/* Half h of a column. */
VEC_INLINE f8 read_column(enum qtype type, const uint8_t *w, int h)
{
    w += (size_t)h * pack_column_bytes(type) / 2;
    if (type == QTYPE_F32) return vec_load((const float *)w);
    const __m128i v = _mm_loadu_si128((const __m128i *)w);
    if (type == QTYPE_F16) return _mm256_cvtph_ps(v);
    return (f8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16);
}

VEC_INLINE void ask_for(const uint8_t *w)
{
    _mm_prefetch((const char *)(w + AHEAD_FAR), _MM_HINT_T1);
    _mm_prefetch((const char *)(w + AHEAD_NEAR), _MM_HINT_T0);
}

VEC_INLINE void tile(enum qtype type, int n, const uint8_t *w, size_t n_cols, const float *x,
                     size_t stride, sums out)
{
    const size_t bytes = pack_column_bytes(type);
    for (size_t from = 0; from < n_cols; from += STRIPE_LEN) {
        const size_t to = n_cols - from < STRIPE_LEN ? n_cols : from + STRIPE_LEN;
        f8 sum[TILE_ROWS][2] = {{{0}}};
        for (size_t i = from; i < to; i++, w += bytes) {
            if (i % (64 / bytes) == 0) ask_for(w);
            const f8 c[2] = {read_column(type, w, 0), read_column(type, w, 1)};
            UNROLL for (int r = 0; r < n; r++)
            {
                const f8 xs = vec_all(x[(size_t)r * stride + i]);
                sum[r][0] = sum[r][0] + xs * c[0];
                sum[r][1] = sum[r][1] + xs * c[1];
            }
        }
        UNROLL for (int r = 0; r < n; r++)
        {
            UNROLL for (int h = 0; h < 2; h++)
            {
                float *o = out[r] + 8 * h;
                vec_store(o, from == 0 ? sum[r][h] : vec_load(o) + sum[r][h]);
            }
        }
    }
}

VEC_INLINE void widen(enum qtype type, const uint8_t *w, size_t n_cols, float *to)
{
    for (size_t i = 0; i < n_cols; i++, w += pack_column_bytes(type), to += PANEL_ROWS) {
        ask_for(w);
        vec_store(to, read_column(type, w, 0));
        vec_store(to + 8, read_column(type, w, 1));
    }
}

static void finish_rows(const struct matmul *m, size_t at, size_t n, size_t first,
                        size_t n_values, sums y)
{
    finish(m, at, n, first, n_values, y);
}

#define FLOAT_MORE_ROWS(type)
#include "cpu/float_tiles.h"

size_t avx2_matmul_floats_scratch(size_t n_cols)
{
    return wide_panel_bytes(n_cols);
}

void avx2_matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    matmul_floats(m, lo, hi, scratch);
}
