/* Products with matrices of floats on AVX2, and for the sets beyond it: packed panels (pack.h),
 * a lane per row of weights. See dot_floats of ref_matmul.c for what is computed. */
#include "cpu/avx2.h"
#include "cpu/panel8.h"

VEC_INLINE f8 read_column(enum qtype type, const uint8_t *w, size_t i, int h)
{
    if (type == QTYPE_F32) return vec_load((const float *)(w + 64 * i + 32 * h));
    __m128i v = _mm_loadu_si128((const __m128i *)(w + 32 * i + 16 * h));
    if (type == QTYPE_F16) return _mm256_cvtph_ps(v);
    return (f8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16);
}

VEC_INLINE void float_tile(enum qtype type, int n, const uint8_t *w, size_t n_cols,
                           const float *x, size_t stride, values out)
{
    for (size_t from = 0; from < n_cols; from += STRIPE_LEN) {
        size_t to = n_cols - from < STRIPE_LEN ? n_cols : from + STRIPE_LEN;
        f8 acc[TILE_ROWS][2] = {{{0}}};
        for (size_t i = from; i < to; i++) {
            f8 c[2] = {read_column(type, w, i, 0), read_column(type, w, i, 1)};
            UNROLL for (int r = 0; r < n; r++)
            {
                f8 xs = vec_all(x[(size_t)r * stride + i]);
                acc[r][0] = acc[r][0] + xs * c[0];
                acc[r][1] = acc[r][1] + xs * c[1];
            }
        }
        UNROLL for (int r = 0; r < n; r++)
        {
            UNROLL for (int h = 0; h < 2; h++)
            {
                float *o = out[r] + 8 * h;
                vec_store(o, from == 0 ? acc[r][h] : vec_load(o) + acc[r][h]);
            }
        }
    }
}

#define FLOAT_TILE(type, n)                             \
    case n:                                             \
        float_tile(type, n, w, n_cols, x, stride, out); \
        break;
#define FLOAT_TILES(type)   \
    switch (n) {            \
        FLOAT_TILE(type, 1) \
        FLOAT_TILE(type, 2) \
        FLOAT_TILE(type, 3) \
        FLOAT_TILE(type, 4) \
    }

static void float_tiles(enum qtype type, size_t n, const uint8_t *w, size_t n_cols,
                        const float *x, size_t stride, values out)
{
    if (type == QTYPE_F32)
        FLOAT_TILES(QTYPE_F32)
    else if (type == QTYPE_F16)
        FLOAT_TILES(QTYPE_F16)
    else
        FLOAT_TILES(QTYPE_BF16)
}

void avx2_matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    (void)scratch;
    const struct weight *w = &m->w->base;
    values y;
    for (size_t first = lo; first < hi; first += PANEL_ROWS) {
        const uint8_t *p = packed_panel(m, first);
        const size_t n_values = hi - first < PANEL_ROWS ? hi - first : PANEL_ROWS;
        for (size_t r = 0; r < m->n_rows; r += TILE_ROWS) {
            const size_t n = m->n_rows - r < TILE_ROWS ? m->n_rows - r : TILE_ROWS;
            float_tiles(w->type, n, p, w->n_cols, m->f32 + r * m->f32_stride, m->f32_stride, y);
            finish(m, r, n, first, n_values, y);
        }
    }
}
