/* Everything is done twice: by the front, then by the back. */
#include "backend/split.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cut.h"
#include "backend/impl.h"
#include "backend/op_parts.h"
#include "base/buf.h"
#include "base/mem.h"

/* Which sides read the matrix whose bytes in the file these are. */
struct place {
    const void *file;
    bool on[CUT_SIDES];
};

struct split_weight {
    struct weight base;                 /* first */
    const struct weight *on[CUT_SIDES]; /* NULL: not there */
    struct split_weight *next;
};

/* A part of a page, or states. */
struct pair {
    void *on[CUT_SIDES]; /* NULL: that side has none of it */
};

struct split_backend {
    struct backend base; /* first */
    struct backend_impl impl;
    struct backend *on[CUT_SIDES];
    uint32_t layer;
    /* Bytes of a part of a page and of states: all, and those of the front. */
    size_t page_bytes[PAGE_PARTS], front_page_bytes[PAGE_PARTS];
    size_t state_bytes, front_state_bytes;
    struct place *places; /* sorted by file */
    size_t n_places, cap_places;
    struct split_weight *weights;
    struct buf name;
};

struct split_exec {
    struct exec base; /* first */
    struct program_cut cut;
    struct exec *on[CUT_SIDES];
    float *rows;                         /* [max_rows][n_output]: what is handed over */
    void **pages[CUT_SIDES][PAGE_PARTS]; /* of the step under way */
    size_t cap_pages;
};

static struct split_backend *of(struct backend *be)
{
    return (struct split_backend *)be;
}

/* ---- weights ---- */

static void free_weights(struct split_backend *sb)
{
    while (sb->weights) {
        struct split_weight *next = sb->weights->next;
        free(sb->weights);
        sb->weights = next;
    }
}

static void reset(struct backend *be)
{
    free_weights(of(be));
    for (int side = 0; side < CUT_SIDES; side++)
        backend_reset(of(be)->on[side]);
}

static void close_backend(struct backend *be)
{
    struct split_backend *sb = of(be);
    free_weights(sb);
    for (int side = 0; side < CUT_SIDES; side++)
        backend_close(sb->on[side]);
    free(sb->places);
    buf_free(&sb->name);
    free(sb);
}

/* The back is full: what comes beside it is in front. */
static struct backend *beside(struct backend *be)
{
    return backend_beside(of(be)->on[CUT_FRONT]);
}

static bool is_lost(const struct backend *be)
{
    const struct split_backend *sb = (const struct split_backend *)be;
    return backend_is_lost(sb->on[CUT_FRONT]) || backend_is_lost(sb->on[CUT_BACK]);
}

static const char *name_of(const struct backend *be)
{
    return buf_str(&((const struct split_backend *)be)->name);
}

static int by_file(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct place *)a)->file;
    const uintptr_t y = (uintptr_t)((const struct place *)b)->file;
    return x < y ? -1 : x > y;
}

static const struct place *place_of(const struct split_backend *sb, const void *file)
{
    const struct place key = {.file = file};
    return bsearch(&key, sb->places, sb->n_places, sizeof key, by_file);
}

static struct split_weight *add_weight(struct split_backend *sb, struct weight base)
{
    struct split_weight *w = mem_zalloc(1, sizeof *w);
    w->base = base;
    w->next = sb->weights;
    sb->weights = w;
    return w;
}

static struct weight *matrix(struct backend *be, enum qtype type, size_t n_mats, size_t n_rows,
                             size_t n_cols, const void *data, const atomic_bool *cancel,
                             struct err *err)
{
    struct split_backend *sb = of(be);
    const struct place *place = place_of(sb, data);
    assert(place); /* it is of the program that was cut */
    struct split_weight *w =
        add_weight(sb, (struct weight){.type = type, n_mats, n_rows, n_cols});
    for (int side = 0; side < CUT_SIDES; side++) {
        if (!place->on[side]) continue;
        w->on[side] =
            backend_matrix(sb->on[side], type, n_mats, n_rows, n_cols, data, cancel, err);
        if (!w->on[side]) return NULL;
    }
    return &w->base;
}

/* Vectors are small: both sides have all of them. */
static struct weight *vector(struct backend *be, const float *data, size_t n, struct err *err)
{
    struct split_backend *sb = of(be);
    struct split_weight *w = add_weight(sb, (struct weight){.type = QTYPE_F32, 1, 1, n});
    for (int side = 0; side < CUT_SIDES; side++) {
        w->on[side] = backend_vector(sb->on[side], data, n, err);
        if (!w->on[side]) return NULL;
    }
    return &w->base;
}

/* Where a matrix is bound does not follow from its shape: what it takes if it takes most. If
 * one side reads it in the file, none may be thought to have copied it. */
static size_t matrix_bytes(const struct backend *be, enum qtype type, size_t n_mats,
                           size_t n_rows, size_t n_cols)
{
    const struct split_backend *sb = (const struct split_backend *)be;
    size_t n[CUT_SIDES];
    for (int side = 0; side < CUT_SIDES; side++)
        n[side] = backend_matrix_bytes(sb->on[side], type, n_mats, n_rows, n_cols);
    if (n[CUT_FRONT] == 0 || n[CUT_BACK] == 0) return 0;
    return n[CUT_FRONT] > n[CUT_BACK] ? n[CUT_FRONT] : n[CUT_BACK];
}

/* ---- pages and states ---- */

/* The front's bytes of a part of a page: its size tells which part it is (program_cut_at). */
static size_t page_cut(const struct backend *be, size_t page_bytes)
{
    const struct split_backend *sb = (const struct split_backend *)be;
    const int part = page_bytes == sb->page_bytes[PAGE_FULL] ? PAGE_FULL : PAGE_WINDOW;
    assert(page_bytes == sb->page_bytes[part]);
    return sb->front_page_bytes[part];
}

/* Bytes of a side of n_bytes that are cut behind the first `cut`. */
static size_t side_bytes(int side, size_t n_bytes, size_t cut)
{
    return side == CUT_FRONT ? cut : n_bytes - cut;
}

static uint8_t *side_data(int side, const void *host, size_t cut)
{
    return (uint8_t *)host + (side == CUT_FRONT ? 0 : cut);
}

static void page_free(struct backend *be, void *page, size_t page_bytes)
{
    struct pair *pair = page;
    const size_t cut = page_cut(be, page_bytes);
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_page_free(of(be)->on[side], pair->on[side],
                              side_bytes(side, page_bytes, cut));
    free(pair);
}

static void *page_new(struct backend *be, size_t page_bytes, size_t page_unit)
{
    struct pair *pair = mem_zalloc(1, sizeof *pair);
    const size_t cut = page_cut(be, page_bytes);
    for (int side = 0; side < CUT_SIDES; side++) {
        const size_t n = side_bytes(side, page_bytes, cut);
        if (n == 0) continue;
        pair->on[side] = backend_page_new(of(be)->on[side], n, page_unit);
        if (pair->on[side]) continue;
        page_free(be, pair, page_bytes);
        return NULL;
    }
    return pair;
}

static void page_copy(struct backend *be, void *to, const void *from, size_t page_bytes)
{
    const struct pair *t = to, *f = from;
    const size_t cut = page_cut(be, page_bytes);
    for (int side = 0; side < CUT_SIDES; side++)
        if (t->on[side])
            backend_page_copy(of(be)->on[side], t->on[side], f->on[side],
                              side_bytes(side, page_bytes, cut));
}

static void page_read(struct backend *be, const void *page, size_t page_bytes, void *host)
{
    const struct pair *pair = page;
    const size_t cut = page_cut(be, page_bytes);
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_page_read(of(be)->on[side], pair->on[side],
                              side_bytes(side, page_bytes, cut), side_data(side, host, cut));
}

static void page_write(struct backend *be, void *page, size_t page_bytes, const void *host)
{
    const struct pair *pair = page;
    const size_t cut = page_cut(be, page_bytes);
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_page_write(of(be)->on[side], pair->on[side],
                               side_bytes(side, page_bytes, cut), side_data(side, host, cut));
}

static size_t state_cut(const struct backend *be)
{
    return ((const struct split_backend *)be)->front_state_bytes;
}

static void state_free(struct backend *be, void *state, size_t state_bytes)
{
    struct pair *pair = state;
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_state_free(of(be)->on[side], pair->on[side],
                               side_bytes(side, state_bytes, state_cut(be)));
    free(pair);
}

static void *state_new(struct backend *be, size_t state_bytes)
{
    assert(state_bytes == of(be)->state_bytes);
    struct pair *pair = mem_zalloc(1, sizeof *pair);
    for (int side = 0; side < CUT_SIDES; side++) {
        const size_t n = side_bytes(side, state_bytes, state_cut(be));
        if (n == 0) continue;
        pair->on[side] = backend_state_new(of(be)->on[side], n);
        if (pair->on[side]) continue;
        state_free(be, pair, state_bytes);
        return NULL;
    }
    return pair;
}

static void state_read(struct backend *be, const void *state, size_t state_bytes, void *host)
{
    const struct pair *pair = state;
    const size_t cut = state_cut(be);
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_state_read(of(be)->on[side], pair->on[side],
                               side_bytes(side, state_bytes, cut), side_data(side, host, cut));
}

static void state_write(struct backend *be, void *state, size_t state_bytes, const void *host)
{
    const struct pair *pair = state;
    const size_t cut = state_cut(be);
    for (int side = 0; side < CUT_SIDES; side++)
        if (pair->on[side])
            backend_state_write(of(be)->on[side], pair->on[side],
                                side_bytes(side, state_bytes, cut), side_data(side, host, cut));
}

/* ---- running ---- */

static size_t rows_bytes(const struct program_cut *cut, uint32_t max_rows)
{
    return max_rows * cut->side[CUT_FRONT].n_output * sizeof(float);
}

static size_t exec_bytes_of(const struct backend *be, const struct program *p,
                            uint32_t max_rows)
{
    const struct split_backend *sb = (const struct split_backend *)be;
    struct program_cut cut;
    program_cut(p, sb->layer, &cut);
    size_t n = rows_bytes(&cut, max_rows);
    for (int side = 0; side < CUT_SIDES; side++)
        n += exec_bytes(sb->on[side], &cut.side[side], max_rows);
    program_cut_free(&cut);
    return n;
}

static void free_exec(struct exec *base)
{
    struct split_exec *x = (struct split_exec *)base;
    for (int side = 0; side < CUT_SIDES; side++) {
        exec_free(x->on[side]);
        for (int part = 0; part < PAGE_PARTS; part++)
            free(x->pages[side][part]);
    }
    program_cut_free(&x->cut);
    free(x->rows);
    free(x);
}

/* The ops of a side read what is bound there. */
static void rebind(struct program_cut *cut, int side)
{
    for (size_t i = 0; i < cut->side[side].n_ops; i++) {
        const struct weight **slots[OP_MOST_WEIGHTS];
        const size_t n = op_weights(&cut->ops[side][i], slots);
        for (size_t k = 0; k < n; k++) {
            *slots[k] = ((const struct split_weight *)*slots[k])->on[side];
            assert(*slots[k]);
        }
    }
}

static struct exec *new_exec(struct backend *be, const struct program *p, uint32_t max_rows,
                             struct err *err)
{
    struct split_backend *sb = of(be);
    struct split_exec *x = mem_zalloc(1, sizeof *x);
    x->base.be = be;
    program_cut(p, sb->layer, &x->cut);
    x->rows = mem_zalloc(1, rows_bytes(&x->cut, max_rows));
    for (int side = 0; side < CUT_SIDES; side++) {
        rebind(&x->cut, side);
        x->on[side] = exec_new(sb->on[side], &x->cut.side[side], max_rows, err);
        if (x->on[side]) continue;
        free_exec(&x->base);
        return NULL;
    }
    return &x->base;
}

/* The sides' pages of the step; more room for them only as the conversation grows. */
static void take_pages(struct split_exec *x, const struct step *step)
{
    const size_t n = pages_for(step->pos + step->n_rows);
    const bool grows = n > x->cap_pages;
    if (grows) x->cap_pages = 2 * n;
    for (int side = 0; side < CUT_SIDES; side++)
        for (int part = 0; part < PAGE_PARTS; part++) {
            if (x->cut.side[side].page_bytes[part] == 0) continue;
            void **pages = x->pages[side][part];
            if (grows) pages = mem_resize(pages, x->cap_pages, sizeof *pages);
            x->pages[side][part] = pages;
            for (size_t i = 0; i < n; i++) {
                const struct pair *pair = step->pages[part][i];
                pages[i] = pair ? pair->on[side] : NULL;
            }
        }
}

/* The step as one side sees it. */
static struct step side_step(const struct split_exec *x, const struct step *step, int side)
{
    struct step mine = *step;
    for (int part = 0; part < PAGE_PARTS; part++)
        mine.pages[part] = x->pages[side][part];
    mine.state_in = step->state_in ? ((const struct pair *)step->state_in)->on[side] : NULL;
    mine.state_out = step->state_out ? ((const struct pair *)step->state_out)->on[side] : NULL;
    if (side == CUT_FRONT) {
        mine.n_logits = 0;
        mine.logits = NULL;
        mine.draw = NULL;
        mine.output = x->rows;
    } else {
        mine.input = x->rows;
    }
    return mine;
}

static bool run(struct exec *base, const struct step *step, struct err *err)
{
    struct split_exec *x = (struct split_exec *)base;
    take_pages(x, step);
    for (int side = 0; side < CUT_SIDES; side++) {
        const struct step mine = side_step(x, step, side);
        if (!exec_run(x->on[side], &mine, err)) return false;
    }
    return true;
}

/* The head is the back's, so draws are, too. */
static bool drawn_logits(struct exec *base, uint32_t i, float *logits, struct err *err)
{
    return exec_logits(((struct split_exec *)base)->on[CUT_BACK], i, logits, err);
}

static bool advance(struct exec *base, const void *state_in, void *state_out, uint32_t n_rows,
                    struct err *err)
{
    struct split_exec *x = (struct split_exec *)base;
    const struct pair *in = state_in, *out = state_out;
    for (int side = 0; side < CUT_SIDES; side++)
        if (in->on[side] &&
            !exec_advance(x->on[side], in->on[side], out->on[side], n_rows, err))
            return false;
    return true;
}

static const struct backend_impl impl = {
    .beside = beside,
    .close = close_backend,
    .reset = reset,
    .is_lost = is_lost,
    .name = name_of,
    .matrix = matrix,
    .vector = vector,
    .matrix_bytes = matrix_bytes,
    .exec_bytes = exec_bytes_of,
    .exec_new = new_exec,
    .exec_free = free_exec,
    .exec_run = run,
    .exec_logits = drawn_logits,
    .exec_advance = advance,
    .page_new = page_new,
    .page_free = page_free,
    .page_copy = page_copy,
    .page_read = page_read,
    .page_write = page_write,
    .state_new = state_new,
    .state_free = state_free,
    .state_read = state_read,
    .state_write = state_write,
};

/* ---- opening ---- */

/* The matrices of each side; those that lie at the same place in the file are one. */
static void find_places(struct split_backend *sb, const struct program_cut *cut)
{
    for (int side = 0; side < CUT_SIDES; side++)
        for (size_t i = 0; i < cut->side[side].n_ops; i++) {
            const struct weight **slots[OP_MOST_WEIGHTS];
            const size_t n = op_weights(&cut->ops[side][i], slots);
            for (size_t k = 0; k < n; k++) {
                if (!(*slots[k])->file) continue;
                MEM_GROW(sb->places, sb->n_places, sb->cap_places);
                struct place *place = &sb->places[sb->n_places++];
                *place = (struct place){.file = (*slots[k])->file};
                place->on[side] = true;
            }
        }
    qsort(sb->places, sb->n_places, sizeof *sb->places, by_file);
    size_t n = 0;
    for (size_t i = 0; i < sb->n_places; i++) {
        if (n == 0 || sb->places[n - 1].file != sb->places[i].file) {
            sb->places[n++] = sb->places[i];
            continue;
        }
        for (int side = 0; side < CUT_SIDES; side++)
            sb->places[n - 1].on[side] |= sb->places[i].on[side];
    }
    sb->n_places = n;
}

struct backend *split_open(struct backend *front, struct backend *back, const struct program *p,
                           uint32_t layer)
{
    struct split_backend *sb = mem_zalloc(1, sizeof *sb);
    struct program_cut cut;
    program_cut(p, layer, &cut);
    sb->impl = impl;
    if (!back->impl->exec_logits) sb->impl.exec_logits = NULL;
    sb->base.impl = &sb->impl;
    sb->on[CUT_FRONT] = front;
    sb->on[CUT_BACK] = back;
    sb->layer = layer;
    for (int part = 0; part < PAGE_PARTS; part++) {
        sb->page_bytes[part] = p->page_bytes[part];
        sb->front_page_bytes[part] = cut.side[CUT_FRONT].page_bytes[part];
    }
    sb->state_bytes = p->state_bytes;
    sb->front_state_bytes = cut.side[CUT_FRONT].state_bytes;
    find_places(sb, &cut);
    program_cut_free(&cut);
    const uint32_t n = program_n_layers(p);
    buf_printf(&sb->name, "%u of %u layers on %s, %s on %s", n - layer, n, backend_name(back),
               layer > 0 ? "the rest" : "the embedding", backend_name(front));
    return &sb->base;
}
