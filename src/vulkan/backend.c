/* The table of the Vulkan backend: its device, its weights, its pages. */
#include "vulkan/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "vulkan/impl.h"
#include "vulkan/pack.h"
#include "vulkan/selftest.h"

/* Weights share blocks of memory: those of one block can be read by one dispatch. Matrices that
 * fill 50 of 64 MiB would leave a fifth of the device's memory over, so blocks are larger where
 * it is known how many bytes will come. */
static const size_t BLOCK_BYTES = (size_t)64 << 20, LARGE_BLOCK_BYTES = (size_t)512 << 20;

static struct vulkan_backend *of(struct backend *be)
{
    return (struct vulkan_backend *)be;
}

static void free_weights(struct vulkan_backend *vb)
{
    while (vb->weights) {
        struct vulkan_weight *next = vb->weights->next;
        free(vb->weights->pieces);
        free(vb->weights);
        vb->weights = next;
    }
    vulkan_arena_free(&vb->memory);
}

/* Empty arenas, before anything is taken from them. */
static void set_arenas(struct vulkan_backend *vb)
{
    const size_t most = vulkan_matrix_limit(vb->vk);
    vb->memory = (struct vulkan_arena){.vk = vb->vk,
                                       .place = VULKAN_NEAR_DEVICE,
                                       .block_bytes = most < BLOCK_BYTES ? most : BLOCK_BYTES};
    vb->pages.arena = (struct vulkan_arena){.vk = vb->vk, .place = VULKAN_NEAR_DEVICE};
}

static void reset(struct backend *be)
{
    struct vulkan_backend *vb = of(be);
    const uint64_t generation = vb->pages.generation;
    free_weights(vb);
    vulkan_pages_close(&vb->pages);
    set_arenas(vb);
    vb->pages.generation = generation + 1; /* an exec that was kept plans anew */
}

static void expect(struct backend *be, uint64_t n_bytes)
{
    struct vulkan_backend *vb = of(be);
    const size_t most = vulkan_matrix_limit(vb->vk);
    vb->memory.large_bytes = most < LARGE_BLOCK_BYTES ? most : LARGE_BLOCK_BYTES;
    vb->memory.expected = n_bytes;
}

static void close_backend(struct backend *be)
{
    struct vulkan_backend *vb = of(be);
    vulkan_staging_close(&vb->staging);
    vulkan_pages_close(&vb->pages);
    free_weights(vb);
    vulkan_pipeline_cache_save(vb->vk);
    vulkan_pipelines_free(&vb->pipelines);
    if (--vb->vk->n_users == 0) {
        vulkan_close(vb->vk);
        free(vb->vk);
    }
    free(vb->cache_dir);
    free(vb);
}

static bool is_lost(const struct backend *be)
{
    return ((const struct vulkan_backend *)be)->vk->is_lost;
}

static const char *name_of(const struct backend *be)
{
    return ((const struct vulkan_backend *)be)->name;
}

/* ---- weights ---- */

static size_t n_tiles(size_t n_rows)
{
    return (n_rows + PACK_TILE_ROWS - 1) / PACK_TILE_ROWS;
}

static size_t matrix_bytes(const struct backend *be, enum qtype type, size_t n_mats,
                           size_t n_rows, size_t n_cols)
{
    (void)be;
    return n_mats * n_tiles(n_rows) * pack_tile_bytes(type, n_cols);
}

/* Adds a weight whose pieces have the rows of `tiles` tiles each, the last one maybe fewer. The
 * pieces have no memory yet. */
static struct vulkan_weight *add_weight(struct vulkan_backend *vb, struct weight base,
                                        size_t tiles)
{
    struct vulkan_weight *w = mem_zalloc(1, sizeof *w);
    const size_t most = tiles * PACK_TILE_ROWS;
    w->base = base;
    w->next = vb->weights;
    vb->weights = w;
    w->n_pieces = (base.n_rows + most - 1) / most;
    w->pieces = mem_zalloc(w->n_pieces, sizeof *w->pieces);
    for (size_t i = 0; i < w->n_pieces; i++) {
        const size_t first = i * most, left = base.n_rows - first;
        w->pieces[i] =
            (struct vulkan_piece){.first = first, .n_rows = left < most ? left : most};
    }
    return w;
}

/* Tiles first..first+n-1 of a piece of all matrices, in memory that the host sees. room of the
 * file's rows of a tile. */
static void pack_tiles(const struct vulkan_weight *w, const struct vulkan_piece *piece,
                       const uint8_t *data, size_t first, size_t n, uint8_t *room, uint8_t *out)
{
    const size_t per_mat = n_tiles(piece->n_rows), n_cols = w->base.n_cols;
    const size_t row_bytes = qtype_bytes(w->base.type, n_cols);
    const size_t tile_bytes = pack_tile_bytes(w->base.type, n_cols);
    for (size_t i = first; i < first + n; i++, out += tile_bytes) {
        const size_t at = i % per_mat * PACK_TILE_ROWS, left = piece->n_rows - at;
        const size_t n_rows = left < PACK_TILE_ROWS ? left : PACK_TILE_ROWS;
        const size_t row = i / per_mat * w->base.n_rows + piece->first + at;
        const uint8_t *rows = file_map_bytes(data + row * row_bytes, n_rows * row_bytes, room);
        pack_tile(w->base.type, rows, row_bytes, n_rows, n_cols, out);
    }
}

static bool fill_tiles(struct vulkan_backend *vb, const struct vulkan_weight *w,
                       const struct vulkan_piece *piece, const uint8_t *data, uint8_t *room,
                       const atomic_bool *cancel, struct err *err)
{
    const size_t n = w->base.n_mats * n_tiles(piece->n_rows);
    const size_t tile_bytes = pack_tile_bytes(w->base.type, w->base.n_cols);
    const size_t most = VULKAN_STAGING_BYTES / tile_bytes;
    const struct vulkan_region *region = &piece->region;
    if (most == 0)
        return err_set(err, ERR_DEVICE, "a matrix of %zu columns is wider than Vulkan takes",
                       w->base.n_cols);
    for (size_t at = 0; at < n;) {
        size_t k = n - at < most ? n - at : most;
        if (cancel_is_set(cancel)) return err_set(err, ERR_CANCELLED, "cancelled");
        uint8_t *out =
            vulkan_fill_begin(&vb->staging, region, at * tile_bytes, k * tile_bytes, err);
        if (!out) return false;
        pack_tiles(w, piece, data, at, k, room, out);
        if (!vulkan_fill_end(&vb->staging, region, at * tile_bytes, k * tile_bytes, err))
            return false;
        at += k;
    }
    return vulkan_fill_wait(&vb->staging, err);
}

static bool fill_piece(struct vulkan_backend *vb, const struct vulkan_weight *w,
                       const struct vulkan_piece *piece, const uint8_t *data,
                       const atomic_bool *cancel, struct err *err)
{
    uint8_t *room = mem_resize(NULL, PACK_TILE_ROWS, qtype_bytes(w->base.type, w->base.n_cols));
    const bool ok = fill_tiles(vb, w, piece, data, room, cancel, err);
    free(room);
    return ok;
}

/* Tiles of each matrix that make pieces of about the same size, the fewest that the device
 * binds; 0: it does not even bind one tile of each. */
static size_t tiles_of_piece(const struct vulkan_backend *vb, const struct weight *w)
{
    const size_t row_of_tiles = w->n_mats * pack_tile_bytes(w->type, w->n_cols);
    const size_t all = n_tiles(w->n_rows), wished = vb->choice.piece_tiles;
    size_t most = vulkan_matrix_limit(vb->vk) / row_of_tiles;
    if (wished > 0 && wished < most) most = wished;
    if (most == 0) return 0;
    const size_t n_pieces = (all + most - 1) / most;
    return (all + n_pieces - 1) / n_pieces;
}

static struct weight *matrix(struct backend *be, enum qtype type, size_t n_mats, size_t n_rows,
                             size_t n_cols, const void *data, const atomic_bool *cancel,
                             struct err *err)
{
    struct vulkan_backend *vb = of(be);
    const struct weight base = {.type = type, n_mats, n_rows, n_cols};
    const size_t tiles = tiles_of_piece(vb, &base);
    if (tiles == 0) {
        err_set(
            err, ERR_DEVICE, "%s: binds %zu KiB at once, %zu matrices of %zu columns need more",
            vb->vk->properties.deviceName, vulkan_matrix_limit(vb->vk) >> 10, n_mats, n_cols);
        return NULL;
    }
    struct vulkan_weight *w = add_weight(vb, base, tiles);
    vb->vk->counters.more_pieces += w->n_pieces - 1;
    for (size_t i = 0; i < w->n_pieces; i++) {
        struct vulkan_piece *p = &w->pieces[i];
        if (!vulkan_arena_take(&vb->memory, matrix_bytes(be, type, n_mats, p->n_rows, n_cols),
                               &p->region, err) ||
            !vulkan_arena_view(&vb->memory, &p->region, &p->view, err) ||
            !fill_piece(vb, w, p, data, cancel, err))
            return NULL;
    }
    return &w->base;
}

static struct weight *vector(struct backend *be, const float *data, size_t n, struct err *err)
{
    struct vulkan_backend *vb = of(be);
    const struct weight base = {.type = QTYPE_F32, 1, 1, n};
    struct vulkan_weight *w = add_weight(vb, base, 1);
    struct vulkan_region *region = &w->pieces[0].region;
    if (!vulkan_arena_take(&vb->memory, n * sizeof(float), region, err)) return NULL;
    float *kept = mem_zalloc(n, sizeof *kept);
    for (size_t i = 0; i < n; i++)
        kept[i] = num_keep(data[i]);
    bool ok = vulkan_write(&vb->staging, region, 0, kept, n * sizeof *kept, err);
    free(kept);
    return ok ? &w->base : NULL;
}

/* ---- pages; a device that was lost says so at the next step ---- */

static void *page_new(struct backend *be, size_t page_bytes, size_t page_unit)
{
    (void)page_unit;
    return vulkan_page_new(&of(be)->pages, page_bytes);
}

static void page_free(struct backend *be, void *page, size_t page_bytes)
{
    (void)page_bytes;
    vulkan_page_free(&of(be)->pages, page);
}

static void page_copy(struct backend *be, void *to, const void *from, size_t page_bytes)
{
    struct vulkan_backend *vb = of(be);
    struct err ignored;
    uint32_t to_place, from_place;
    const struct vulkan_slab *t = vulkan_page_find(&vb->pages, to, &to_place);
    const struct vulkan_slab *f = vulkan_page_find(&vb->pages, from, &from_place);
    vulkan_copy(&vb->staging, &t->region, to_place * t->stride, &f->region,
                from_place * f->stride, page_bytes, &ignored);
}

static void page_read(struct backend *be, const void *page, size_t page_bytes, void *host)
{
    struct vulkan_backend *vb = of(be);
    struct err ignored;
    uint32_t place;
    const struct vulkan_slab *s = vulkan_page_find(&vb->pages, page, &place);
    vulkan_read(&vb->staging, &s->region, place * s->stride, host, page_bytes, &ignored);
}

static void page_write(struct backend *be, void *page, size_t page_bytes, const void *host)
{
    struct vulkan_backend *vb = of(be);
    struct err ignored;
    uint32_t place;
    const struct vulkan_slab *s = vulkan_page_find(&vb->pages, page, &place);
    vulkan_write(&vb->staging, &s->region, place * s->stride, host, page_bytes, &ignored);
}

static struct backend *beside(struct backend *be);

static const struct backend_impl impl = {
    .beside = beside,
    .close = close_backend,
    .reset = reset,
    .expect = expect,
    .is_lost = is_lost,
    .name = name_of,
    .matrix = matrix,
    .vector = vector,
    .matrix_bytes = matrix_bytes,
    .exec_bytes = vulkan_exec_bytes,
    .exec_new = vulkan_exec_new,
    .exec_free = vulkan_exec_free,
    .exec_run = vulkan_exec_run,
    .exec_logits = vulkan_exec_logits,
    .takes_blocks = vulkan_takes_blocks,
    .exec_block = vulkan_exec_block,
    .exec_time = vulkan_exec_time,
    .exec_advance = vulkan_exec_advance,
    .page_new = page_new,
    .page_free = page_free,
    .page_copy = page_copy,
    .page_read = page_read,
    .page_write = page_write,
    .state_new = vulkan_state_new,
    .state_free = vulkan_state_free,
    .state_read = vulkan_state_read,
    .state_write = vulkan_state_write,
};

/* For tests: the last logit is off by a bit. */
static bool run_wrongly(struct exec *x, const struct step *step, struct err *err)
{
    if (!vulkan_exec_run(x, step, err)) return false;
    const size_t n = step->n_logits * ((const struct vulkan_exec *)x)->p->n_vocab;
    if (n > 0 && step->logits)
        step->logits[n - 1] = num_of_bits(num_bits(step->logits[n - 1]) ^ 1);
    return true;
}

const struct vulkan_counters *vulkan_backend_counters(const struct backend *be)
{
    return &((const struct vulkan_backend *)be)->vk->counters;
}

bool vulkan_backend_differs(const struct backend *be, struct err *err)
{
    const struct vulkan_backend *vb = (const struct vulkan_backend *)be;
    if (vb->differs) *err = vb->difference;
    return vb->differs;
}

void vulkan_backend_keep(struct backend *be)
{
    vulkan_pipeline_cache_save(of(be)->vk);
}

void vulkan_backend_lose_at(struct backend *be, uint64_t n)
{
    struct vulkan *vk = of(be)->vk;
    vk->lost_at = n ? vk->counters.submits + n : 0;
}

uint64_t vulkan_backend_memory(const struct backend *be)
{
    return vulkan_own_memory(((const struct vulkan_backend *)be)->vk);
}

/* A backend on an open device, which it takes its part in. */
static struct backend *backend_on(struct vulkan *vk, const struct vulkan_choice *choice,
                                  struct err *err)
{
    struct vulkan_backend *vb = mem_zalloc(1, sizeof *vb);
    vb->impl = impl;
    if (choice->wrong_bits) vb->impl.exec_run = run_wrongly;
    vb->base.impl = &vb->impl;
    vb->choice = *choice;
    vb->vk = vk;
    vk->n_users++;
    vb->pipelines.vk = vk;
    vulkan_pipeline_cache_open(vk, choice->cache_dir);
    if (choice->cache_dir) vb->choice.cache_dir = vb->cache_dir = mem_strdup(choice->cache_dir);
    set_arenas(vb);
    snprintf(vb->name, sizeof vb->name, "vulkan:%u (%s)", choice->index,
             vk->properties.deviceName);
    if (vulkan_staging_open(&vb->staging, vk, err)) {
        if (vulkan_selftest(&vb->pipelines, err)) return &vb->base;
        vb->differs = choice->may_differ && err->code == ERR_DEVICE && !vk->is_lost;
        vb->difference = *err;
        if (vb->differs) return &vb->base;
    }
    close_backend(&vb->base);
    return NULL;
}

static struct backend *beside(struct backend *be)
{
    struct err ignored;
    return backend_on(of(be)->vk, &of(be)->choice, &ignored);
}

struct backend *vulkan_backend_open(const struct vulkan_choice *choice, struct err *err)
{
    struct vulkan *vk = mem_zalloc(1, sizeof *vk);
    if (vulkan_open(vk, choice, err)) return backend_on(vk, choice, err);
    free(vk);
    return NULL;
}
