/* The op of the products with tiles (tiles8.h) whose activations lie in strips, and its
 * scratch.
 *
 * The file that includes this has defined struct wide_block, a block of a panel that is
 * unpacked, and included tiles8.h. Float matrices go to AVX2. No include guard: it is a text
 * for two files. */

static size_t matmul_scratch(size_t n_cols)
{
    const size_t floats = avx2_matmul_floats_scratch(n_cols);
    const size_t wide = n_cols / A8_BLOCK * sizeof(struct wide_block);
    return floats > wide ? floats : wide;
}

/* For more rows than in_place a panel is unpacked first. */
static void matmul_strips(const struct matmul *m, size_t lo, size_t hi, size_t in_place,
                          void *scratch)
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
    const bool wide = m->n_rows > in_place;
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
            const struct strip x = strip_at(m, r, &n);
            if (n > TILE_ROWS) n = TILE_ROWS;
            values y;
            (wide ? k->wide : k->tile)[n - 1](wide ? scratch : p, n_blocks, &x, &ahead, y);
            finish(m, r, n, first, n_values, y);
        }
    }
}
