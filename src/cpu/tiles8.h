/* The tiles of the products with eight lanes, an instance per layout (panel8.h) and number of
 * rows, and the table of them by type.
 *
 * The file that includes this has defined tile and unpack, and names as tile_rows what its
 * tiles read activations from. No include guard: it is a text for three files. */

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
