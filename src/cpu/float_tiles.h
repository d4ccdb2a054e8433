/* Products with matrices of floats (pack.h), by type and by rows.
 *
 * The file that includes this has defined TILE_ROWS, at least 4, and FLOAT_MORE_ROWS, which
 * lists those above 4; sums, what a tile leaves; tile and widen, by type; finish_rows, for
 * sums; and IN_PLACE_ROWS: for more rows weights of two bytes become floats first, once for all
 * of them. No include guard: it is a text for two files.
 *
 * A sum may be neither split nor fused, so a column of a panel is a product and an addition for
 * each row of activations. Chains of additions leave the processor little to run ahead with, so
 * lines are asked for. GMAC/s of a thread, BF16 from memory, 1, 2, 4, 8 and 512 rows of 1024
 * columns, best of five: AVX2 without both 13 15 19 21 29, so 11 20 34 35 47; AVX-512 so 13 22
 * 35 41 50 (Zen 4, 2026-11). */

/* How a type is read. */
struct floats {
    /* Sixteen values of n rows of activations, `stride` floats apart. */
    void (*tile)(size_t n, const uint8_t *w, size_t n_cols, const float *x, size_t stride,
                 sums out);
    void (*widen)(const uint8_t *w, size_t n_cols, float *to);
};

#define FLOAT_ROWS(type, n)                       \
    case n:                                       \
        tile(type, n, w, n_cols, x, stride, out); \
        break;
#define FLOATS(type, name)                                                             \
    static void name##_tile(size_t n, const uint8_t *w, size_t n_cols, const float *x, \
                            size_t stride, sums out)                                   \
    {                                                                                  \
        switch (n) {                                                                   \
            FLOAT_ROWS(type, 1)                                                        \
            FLOAT_ROWS(type, 2)                                                        \
            FLOAT_ROWS(type, 3)                                                        \
            FLOAT_ROWS(type, 4)                                                        \
            FLOAT_MORE_ROWS(type)                                                      \
        }                                                                              \
    }                                                                                  \
    static void name##_widen(const uint8_t *w, size_t n_cols, float *to)               \
    {                                                                                  \
        widen(type, w, n_cols, to);                                                    \
    }                                                                                  \
    static const struct floats name##_floats = {name##_tile, name##_widen};
FLOATS(QTYPE_F32, f32)
FLOATS(QTYPE_F16, f16)
FLOATS(QTYPE_BF16, bf16)

static const struct floats *floats_of(enum qtype type)
{
    if (type == QTYPE_F32) return &f32_floats;
    return type == QTYPE_F16 ? &f16_floats : &bf16_floats;
}

/* Bytes of a panel that is widened: the scratch. */
static size_t wide_panel_bytes(size_t n_cols)
{
    return n_cols * PANEL_ROWS * sizeof(float);
}

/* Values lo..hi-1 of all rows. */
static void matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const struct weight *w = &m->w->base;
    const bool widens = w->type != QTYPE_F32 && m->n_rows > IN_PLACE_ROWS;
    const struct floats *of_file = floats_of(w->type);
    const struct floats *floats = widens ? &f32_floats : of_file;
    for (; lo < hi; lo += PANEL_ROWS) {
        const size_t n_values = hi - lo < PANEL_ROWS ? hi - lo : PANEL_ROWS;
        const uint8_t *p = packed_panel(m, lo);
        if (widens) {
            of_file->widen(p, w->n_cols, scratch);
            p = scratch;
        }
        for (size_t at = 0, n; at < m->n_rows; at += n) {
            sums y;
            n = m->n_rows - at < TILE_ROWS ? m->n_rows - at : TILE_ROWS;
            floats->tile(n, p, w->n_cols, m->f32 + at * m->f32_stride, m->f32_stride, y);
            finish_rows(m, at, n, lo, n_values, y);
        }
    }
}
