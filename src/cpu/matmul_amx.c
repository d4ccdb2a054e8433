/* Matrix products on AMX: up to sixteen rows of activations times a packed panel of sixteen
 * rows.
 *
 * A panel is unpacked once per call to signed bytes, eight lines of 64 per block, which is how
 * the tile unit wants its second operand. One tile product gives the exact integers of a block,
 * or with a scale per half those of a half, for a strip of rows and 16 values; the float step
 * is that of AVX-512. Each waits long for what it needs of the one before: a block is unpacked
 * some blocks before its product, which is stored when the next one has begun, and the step
 * comes a block later still. The arithmetic is that of ref_matmul.c.
 *
 * For a thousand cycles after any instruction of AMX only the first of the two vector ports
 * multiplies and converts; both add, and the second passes on each row of a tile that is
 * stored. So a store comes in the middle of the steps of another block, and every fourth line
 * becomes floats by additions. Cycles per block and strip of 512 rows, 1024 columns, in cache,
 * with the store before the steps and all lines converted, and so: Q4_0 74 and 70, Q8_0 75 and
 * 70, Q4_K 97 and 93, Q6_K 122 and 116 (Emerald Rapids, 2026-11). */

#include "cpu/avx512.h"
#include "cpu/panel16.h"
#include "cpu/tiles_amx.h"

enum {
    SETS = 2,        /* of tiles that a whole strip's products take in turn */
    LAG = 2,         /* blocks from a product to its step */
    N_BUFFERS = 4,   /* blocks whose products are kept */
    AHEAD = 5,       /* blocks from unpacking to the step */
    RING = 8,        /* unpacked blocks that are kept for a strip alone, more than AHEAD */
    BY_ADDITION = 4, /* one of so many lines becomes floats by additions */
    PREFETCH = 7,    /* blocks from asking for activations, which are in the second cache */
};

/* Fewer rows are left to the AVX-512 kernel: unpacking, a tile product and its store take
 * nearly as long for one row as for eight, and with a scale per half there are two of them. ms
 * of a step of the 0.6B shape, 2 threads, medians of three in turn, AVX-512 and AMX: Q4_0 with
 * 8 rows 17.4 and 18.4, with 10 25.2 and 23.5; Q4_K_M 18.6 and 19.1, 27.5 and 27.7, with
 * 12 31.6 and 29.2; Q6_K with 10 31.3 and 32.2, with 12 34.6 and 34.1, with 16 39.6 and 37.9
 * (Emerald Rapids, 2026-11). */
enum {
    LEAST = 9,
    LEAST_MIN = 10,
    LEAST_HALVES = 12,
    REST_LEAST = 1,
    REST_LEAST_HALVES = 8,
};
_Static_assert(LEAST > 8 && LEAST_MIN > 8 && LEAST_HALVES > 8, "struct instance: alone");

typedef int32_t products[TILE_ROWS][PANEL_ROWS];

/* Tiles 0 and 3: results, 1 and 4: n_bytes of each of n_rows rows of activations, 2 and 5:
 * lines of weights; 6 and 7 are 0 and 1 for n_rest rows. */
static void products_begin(uint8_t n_bytes, uint8_t n_rows, uint8_t n_rest)
{
    const struct tile_shape out = {n_rows, 64}, x = {n_rows, n_bytes}, w = {n_bytes / 4, 64};
    tiles_begin(
        (struct tile_shape[N_TILES]){out, x, w, out, x, w, {n_rest, 64}, {n_rest, n_bytes}});
}

#define BEGIN(c_tile, x_tile, w_tile)        \
    do {                                     \
        tile_load(x_tile, x, x_apart);       \
        tile_load(w_tile, lines, w_apart);   \
        tile_zero(c_tile);                   \
        tile_dot_ss(c_tile, x_tile, w_tile); \
    } while (0)

/* x[r] · w[i] over the n_bytes of the configuration: of a whole strip, in this set, or of the
 * rest. */
VEC_INLINE void product_begin(bool rest, size_t set, const int8_t *x, const int8_t *lines)
{
    LINES_APART(x_apart, A8_BLOCK);
    LINES_APART(w_apart, 64);
    if (rest)
        BEGIN(6, 7, 2);
    else if (set == 0)
        BEGIN(0, 1, 2);
    else
        BEGIN(3, 4, 5);
}

/* To out[r][i]. */
VEC_INLINE void product_end(bool rest, size_t set, products out)
{
    LINES_APART(apart, 64);
    if (rest)
        tile_store(6, out, apart);
    else if (set == 0)
        tile_store(0, out, apart);
    else
        tile_store(3, out, apart);
}

/* A packed panel being unpacked. A block becomes eight lines of codes and its scales. */
struct reader {
    const uint8_t *w, *head;
    size_t b;
};

enum { LINES = 8, MAX_BLOCK_BYTES = 64 * (LINES + 6) };

VEC_INLINE size_t block_bytes(const struct layout t)
{
    return 64 * (LINES + 1 + (t.min != MIN_NONE) + 2 * t.halves + 2 * (t.min == MIN_PAIR));
}

VEC_INLINE void unpack_scales(const struct layout t, struct reader *p, int8_t *to)
{
    if (p->b % t.head_blocks == 0) {
        p->head = p->w;
        p->w += t.head_bytes;
    }
    struct scales s = {0};
    read_head(t, p->head, &s);
    read_scales(t, p->head, p->b, &s);
    to += 64 * LINES;
    z_store(to, (bz)s.dw);
    if (t.min != MIN_NONE) z_store(to += 64, (bz)s.mw);
    if (t.halves) {
        z_store(to += 64, (bz)s.s0);
        z_store(to += 64, (bz)s.s1);
    }
    if (t.min == MIN_PAIR) {
        z_store(to += 64, (bz)s.m0);
        z_store(to += 64, (bz)s.m1);
    }
}

VEC_INLINE struct scales unpacked_scales(const struct layout t, const int8_t *from)
{
    struct scales s = {0};
    from += 64 * LINES;
    s.dw = (fz)z_load(from);
    if (t.min != MIN_NONE) s.mw = (fz)z_load(from += 64);
    if (t.halves) {
        s.s0 = (fz)z_load(from += 64);
        s.s1 = (fz)z_load(from += 64);
    }
    if (t.min == MIN_PAIR) {
        s.m0 = (fz)z_load(from += 64);
        s.m1 = (fz)z_load(from += 64);
    }
    return s;
}

VEC_INLINE void unpack_line(const struct layout t, const struct reader *p, size_t k, int8_t *to)
{
    bz codes = read_codes(t, p->w, (int)k);
    prefetch_codes(t, p->w, READ_AHEAD, (uint32_t)k, &codes);
    z_store(to + 64 * k, codes - (unsigned char)t.offset);
}

VEC_INLINE void unpack_next(const struct layout t, struct reader *p)
{
    p->w += t.code_bytes;
    p->b++;
}

VEC_INLINE void unpack_block(const struct layout t, struct reader *p, int8_t *to)
{
    unpack_scales(t, p, to);
    UNROLL for (size_t k = 0; k < LINES; k++) unpack_line(t, p, k, to);
    unpack_next(t, p);
}

/* What the tiles of a panel have in common. */
struct panel {
    const struct matmul *m;
    const uint8_t *w; /* packed */
    int8_t *unpacked;
    size_t first, n_values;
};

/* The first of several strips unpacks the panel; then come whole strips again, and a rest; or
 * there is one strip alone. What is APART goes to AVX-512. */
enum kind { FIRST, AGAIN, REST, ALONE, APART };

/* What the products of a tile read. A unit is what one product covers: a block, or half of one.
 * Passed by value, so that it is in registers: what a tile store could have changed would be
 * loaded again each time, and tile loads wait for their addresses (69 cycles become 76). */
struct tile_input {
    const int8_t *x;
    int8_t *w;
    size_t x_apart; /* bytes from block to block */
    size_t n_units;
};

VEC_INLINE size_t units_of(const struct layout t)
{
    return t.halves ? 2 : 1;
}

/* Where block b of the panel is unpacked: a strip alone needs it once. */
VEC_INLINE int8_t *unpacked_at(const struct layout t, enum kind kind, int8_t *w, size_t b)
{
    return w + block_bytes(t) * (kind == ALONE ? b % RING : b);
}

VEC_INLINE products *slot(const struct layout t, products *c, size_t u)
{
    return c + u % (units_of(t) * N_BUFFERS);
}

VEC_INLINE void end_unit(const struct layout t, enum kind kind, const struct tile_input in,
                         size_t u, products *c)
{
    const bool rest = kind == REST;
    if (u < in.n_units) product_end(rest, rest ? 0 : u % SETS, *slot(t, c, u));
}

/* Begins the product of unit u, if there is one; that of the unit before ends where end_before
 * comes, and that of a rest, which has one set of tiles only, at first. */
VEC_INLINE void begin_unit(const struct layout t, enum kind kind, const struct tile_input in,
                           size_t u, products *c)
{
    const bool rest = kind == REST;
    const size_t b = u / units_of(t), half = u % units_of(t);
    if (rest) end_unit(t, kind, in, u - 1, c);
    if (u < in.n_units)
        product_begin(rest, rest ? 0 : u % SETS, in.x + in.x_apart * b + A8_HALF * half,
                      unpacked_at(t, kind, in.w, b) + 64 * LINES / 2 * half);
}

VEC_INLINE void end_before(const struct layout t, enum kind kind, const struct tile_input in,
                           size_t u, products *c)
{
    if (kind != REST) end_unit(t, kind, in, u - 1, c);
}

/* Dots of row r of a tile, 32 · 128 · 127 at most: below 2^22 both ways are exact. */
VEC_INLINE fz to_floats(iz dots, size_t r)
{
    if (r % BY_ADDITION != BY_ADDITION - 1) return z_float(dots);
    return (fz)((uz)dots + 0x4b400000u) - z_all(12582912.0f);
}

/* Rows `at` to at + n_rows - 1, the strip x, in registers for n rows: what they hold for rows
 * beyond n_rows is not used. */
VEC_INLINE void tile(const struct layout t, size_t n, enum kind kind, const struct panel *p,
                     const struct strip x, size_t at, size_t n_rows)
{
    const size_t n_blocks = p->m->w->base.n_cols / A8_BLOCK, units = units_of(t);
    const bool fresh = kind == FIRST || kind == ALONE;
    int8_t *const unpacked = p->unpacked;
    const struct tile_input in = {x.q, unpacked, A8_BLOCK * x.beside, units * n_blocks};
    struct reader reader = {p->w, p->w, 0};
    _Alignas(64) products c[2 * N_BUFFERS];
    fz total[TILE_ROWS] = {{0}};
    /* Stores are done in order: those of the tiles would wait for the lines of the results. */
    for (size_t r = 0; r < n_rows; r++)
        __builtin_prefetch(p->m->out + (at + r) * p->m->out_stride + p->first, 1);
    while (fresh && reader.b < AHEAD && reader.b < n_blocks)
        unpack_block(t, &reader, unpacked_at(t, kind, unpacked, reader.b));
    for (size_t u = 0; u < LAG * units; u++) {
        begin_unit(t, kind, in, u, c);
        end_before(t, kind, in, u, c);
    }
    for (size_t from = 0; from < n_blocks; from += BLOCKS_PER_STRIPE) {
        size_t to = n_blocks - from < BLOCKS_PER_STRIPE ? n_blocks : from + BLOCKS_PER_STRIPE;
        struct stripe stripe[TILE_ROWS] = {0};
        struct scales scales = {0};
        for (size_t b = from; b < to; b++) {
            const products *dots = slot(t, c, units * b);
            const int8_t *soon = x.q + A8_BLOCK * x.beside * (b + PREFETCH);
            scales = unpacked_scales(t, unpacked_at(t, kind, unpacked, b));
            const bool more = fresh && reader.b < n_blocks;
            int8_t *next = unpacked_at(t, kind, unpacked, reader.b);
            if (more) unpack_scales(t, &reader, next);
            UNROLL for (size_t half = 0; half < units; half++)
            {
                const size_t u = units * (b + LAG) + half;
                const size_t middle = (2 * half + 1) * n / (2 * units);
                begin_unit(t, kind, in, u, c);
                UNROLL for (size_t r = half * n / units; r < (half + 1) * n / units; r++)
                {
                    if (r == middle) end_before(t, kind, in, u, c);
                    if (kind == AGAIN && r % 2 == 0) __builtin_prefetch(soon + 32 * r);
                    if (more) {
                        UNROLL for (size_t k = LINES * r / n; k < LINES * (r + 1) / n; k++)
                            unpack_line(t, &reader, k, next);
                    }
                    const fz id0 = to_floats((iz)z_load(dots[0][r]), r);
                    const fz id1 = t.halves ? to_floats((iz)z_load(dots[1][r]), r) : id0;
                    step(t, &stripe[r], &scales, id0, id1, &x, x.beside * b + r);
                }
            }
            if (more) unpack_next(t, &reader);
        }
        UNROLL for (size_t r = 0; r < n; r++)
        {
            const fz sum = stripe_sum(t, &stripe[r], &scales);
            total[r] = from == 0 ? sum : total[r] + sum;
        }
    }
    UNROLL for (size_t r = 0; r < n; r++) if (r < n_rows)
        finish16(p->m, at + r, p->first, p->n_values, total[r]);
}

typedef void tile_fn(const struct panel *p, const struct strip *x, size_t at, size_t n_rows);

#define TILE(name, n, kind)                                                                  \
    static void name##_##kind##_##n(const struct panel *p, const struct strip *x, size_t at, \
                                    size_t n_rows)                                           \
    {                                                                                        \
        tile(name, n, kind, p, *x, at, n_rows);                                              \
    }
#define INSTANCE(type, name) \
    TILE(name, 16, FIRST)    \
    TILE(name, 16, AGAIN)    \
    TILE(name, 4, REST)      \
    TILE(name, 8, REST)      \
    TILE(name, 12, REST)     \
    TILE(name, 16, REST)     \
    TILE(name, 12, ALONE)    \
    TILE(name, 16, ALONE)
PACKED_TYPES(INSTANCE)

/* A rest by rows up to 4, 8, 12 and 16, a strip alone by more than 8. */
struct instance {
    tile_fn *first, *again, *rest[4], *alone[4];
    bool halves;
    size_t least;
};

static size_t least_of(const struct layout t)
{
    if (t.halves) return LEAST_HALVES;
    return t.min == MIN_NONE ? LEAST : LEAST_MIN;
}

static struct instance instance_of(enum qtype type)
{
#define CASE(type, name)                                                    \
    case type:                                                              \
        return (struct instance){                                           \
            name##_FIRST_16,                                                \
            name##_AGAIN_16,                                                \
            {name##_REST_4, name##_REST_8, name##_REST_12, name##_REST_16}, \
            {NULL, NULL, name##_ALONE_12, name##_ALONE_16},                 \
            name.halves,                                                    \
            least_of(name)};
    switch (type) {
        PACKED_TYPES(CASE)
    case QTYPE_F32:
    case QTYPE_F16:
    case QTYPE_BF16: break;
    }
    return (struct instance){0};
}

size_t amx_matmul_scratch(size_t n_cols)
{
    const size_t wide = n_cols / A8_BLOCK * MAX_BLOCK_BYTES;
    const size_t narrow = avx512_matmul_scratch(n_cols);
    return wide > narrow ? wide : narrow;
}

/* Rows of the last strip that do not make sixteen. */
static size_t rest_rows(const struct matmul *m)
{
    const size_t end = m->a8.first + m->n_rows, side = m->a8.side;
    const size_t n = end % side > 0 ? end % side : side;
    return n < m->n_rows ? n : m->n_rows;
}

/* The strips of a product, one after the other. */
struct walk {
    struct strip x;
    size_t at, n; /* its rows */
    enum kind kind;
    bool unpacked; /* by a strip before */
};

/* The strip from row `at` on; false: there is none. */
static bool walk_strip(const struct matmul *m, size_t rest, size_t rest_least, struct walk *s)
{
    if (s->at >= m->n_rows) return false;
    s->x = strip_at(m, s->at, &s->n);
    if (s->n == m->n_rows)
        s->kind = ALONE;
    else if (s->n == TILE_ROWS)
        s->kind = s->unpacked ? AGAIN : FIRST;
    else
        s->kind = s->unpacked && s->n == rest && s->n >= rest_least ? REST : APART;
    return true;
}

static void walk_on(struct walk *s)
{
    s->unpacked |= s->kind == FIRST;
    s->at += s->n;
}

/* Rows of a strip by AVX-512, for all panels. */
static void strip_apart(const struct matmul *m, const struct walk *s, size_t lo, size_t hi,
                        void *scratch)
{
    struct matmul part = *m;
    part.n_rows = s->n;
    part.a8 = a8_from(m->a8, s->at);
    part.out += s->at * m->out_stride;
    gfni_matmul(&part, lo, hi, scratch);
}

/* What a product has in common for all its panels. */
struct product {
    const struct matmul *m;
    struct instance k;
    size_t rest, rest_least;
};

/* Values first.., n of them, of all strips that are not apart. */
static void panel_strips(const struct product *c, size_t first, size_t n, void *scratch)
{
    const struct matmul *m = c->m;
    const struct panel p = {
        .m = m,
        .w = packed_panel(m, first),
        .unpacked = scratch,
        .first = first,
        .n_values = n,
    };
    for (struct walk s = {0}; walk_strip(m, c->rest, c->rest_least, &s); walk_on(&s)) {
        const size_t i_tile = (s.n - 1) / 4;
        switch (s.kind) {
        case FIRST: c->k.first(&p, &s.x, s.at, s.n); break;
        case AGAIN: c->k.again(&p, &s.x, s.at, s.n); break;
        case REST: c->k.rest[i_tile](&p, &s.x, s.at, s.n); break;
        case ALONE: c->k.alone[i_tile](&p, &s.x, s.at, s.n); break;
        case APART: break;
        }
    }
}

void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch)
{
    const struct weight *w = &m->w->base;
    const struct instance k = instance_of(w->type);
    if (!k.again || m->n_rows < k.least) {
        gfni_matmul(m, lo, hi, scratch);
        return;
    }
    const struct product c = {m, k, rest_rows(m), k.halves ? REST_LEAST_HALVES : REST_LEAST};
    const size_t whole = m->n_rows < TILE_ROWS ? m->n_rows : TILE_ROWS, band = avx512_band(w);
    products_begin(k.halves ? A8_HALF : A8_BLOCK, (uint8_t)whole, (uint8_t)c.rest);
    for (; lo < hi; lo += band) {
        const size_t to = hi - lo < band ? hi : lo + band;
        for (size_t i = lo; i < to; i += PANEL_ROWS)
            panel_strips(&c, i, to - i < PANEL_ROWS ? to - i : PANEL_ROWS, scratch);
        for (struct walk s = {0}; walk_strip(m, c.rest, c.rest_least, &s); walk_on(&s))
            if (s.kind == APART) strip_apart(m, &s, lo, to, scratch);
    }
    tiles_end();
}

const struct kernels kernels_amx = {
    .name = "amx",
    .packs = true,
    .bytes_unsigned = true,
    .macs_per_ms = 80000000,
    .a8_side = PANEL_ROWS,
    .matmul_scratch = amx_matmul_scratch,
    .matmul = amx_matmul,
    .attend_scratch = amx_attend_scratch,
    .attend = amx_attend,
    AVX512_ROWS,
};
