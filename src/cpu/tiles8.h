/* The products of panel8.h: their tiles, an instance per layout and number of rows, the table
 * of them by type, and the op.
 *
 * The file that includes this has defined tile and unpack; struct wide_block, of which unpack
 * writes one for each block; tile_rows, what tiles read activations from; rows_in_place, for
 * how many rows of a type a panel is read where it lies; and rows_at, which gives the rows of a
 * product from row r on, *n of them, at most TILE_ROWS. Matrices of floats go to AVX2's.
 * No include guard: it is a text for three files. */

typedef void tile_fn(const uint8_t *w, size_t n_blocks, const tile_rows *x, struct ahead *ahead,
                     values out);

struct instance {
    tile_fn *tile[TILE_ROWS], *wide[TILE_ROWS]; /* wide: of a panel that unpack has written */
    void (*unpack)(const uint8_t *w, size_t n_blocks, uint8_t *out);
};

#define TILE(name, n, is_wide)                                                                \
    static void name##_##n##_##is_wide(const uint8_t *w, size_t n_blocks, const tile_rows *x, \
                                       struct ahead *ahead, values out)                       \
    {                                                                                         \
        struct layout t = name;                                                               \
        t.unpacked = is_wide;                                                                 \
        tile(t, n, w, n_blocks, x, ahead, out);                                               \
    }
#define INSTANCE(type, name)                                                   \
    TILE(name, 1, 0)                                                           \
    TILE(name, 2, 0)                                                           \
    TILE(name, 3, 0)                                                           \
    TILE(name, 4, 0)                                                           \
    TILE(name, 1, 1)                                                           \
    TILE(name, 2, 1)                                                           \
    TILE(name, 3, 1)                                                           \
    TILE(name, 4, 1)                                                           \
    static void name##_unpack(const uint8_t *w, size_t n_blocks, uint8_t *out) \
    {                                                                          \
        unpack(name, w, n_blocks, out);                                        \
    }                                                                          \
    static const struct instance name##_kernels = {                            \
        {name##_1_0, name##_2_0, name##_3_0, name##_4_0},                      \
        {name##_1_1, name##_2_1, name##_3_1, name##_4_1},                      \
        name##_unpack,                                                         \
    };
PACKED_TYPES(INSTANCE)

/* NULL for floats. */
static const struct instance *instance_of(enum qtype type)
{
#define CASE(type, name) \
    case type: return &name##_kernels;
    switch (type) {
        PACKED_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return NULL;
}

static size_t matmul_scratch(size_t n_cols)
{
    const size_t floats = avx2_matmul_floats_scratch(n_cols);
    const size_t wide = n_cols / A8_BLOCK * sizeof(struct wide_block);
    return floats > wide ? floats : wide;
}

/* kernels.matmul. For many rows a panel is unpacked first, into scratch. */
static void matmul_packed(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const struct weight *w = &m->w->base;
    const struct instance *k = instance_of(w->type);
    if (!k) {
        avx2_matmul_floats(m, lo, hi, scratch);
        return;
    }
    const size_t n_blocks = w->n_cols / A8_BLOCK;
    const size_t panel_bytes = pack_panel_bytes(w->type, w->n_cols);
    const size_t n_tiles = (m->n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const bool wide = m->n_rows > rows_in_place(w->type);
    for (size_t first = lo; first < hi; first += PANEL_ROWS) {
        const uint8_t *p = packed_panel(m, first);
        const size_t n_values = hi - first < PANEL_ROWS ? hi - first : PANEL_ROWS;
        struct ahead ahead = {0};
        if (wide) {
            k->unpack(p, n_blocks, scratch);
            if (hi - first > PANEL_ROWS)
                ahead = ahead_of(p + panel_bytes, panel_bytes, n_tiles * n_blocks);
        }
        for (size_t r = 0, n; r < m->n_rows; r += n) {
            const tile_rows x = rows_at(m, r, &n);
            values y;
            (wide ? k->wide : k->tile)[n - 1](wide ? scratch : p, n_blocks, &x, &ahead, y);
            finish(m, r, n, first, n_values, y);
        }
    }
}
