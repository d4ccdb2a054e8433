/* How fast the threads of a backend read its weights: what bounds decode. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/cpu.h"
#include "cpu/cpu_impl.h"
#include "cpu/pack.h"

enum { LINE_BYTES = 64, PREFETCH_BYTES = 2048, N_TRIES = 3 };
/* A thread takes so much at a time. */
static const size_t PIECE_BYTES = (size_t)1 << 20;
/* Read for one timing: weights of less again and again, of more as far as this goes. */
static const size_t LEAST_BYTES = (size_t)256 << 20, MOST_BYTES = (size_t)1 << 30;

struct piece {
    const uint8_t *data;
    size_t n_bytes;
};

struct reading {
    struct piece *pieces;
    size_t n_pieces, cap, n_bytes;
    uint64_t (*read)(const uint8_t *data, size_t n_bytes);
};

static uint64_t word_at(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* A load per line: it is the lines that cost. Loading all of them in vectors of 16 bytes read
 * 10 to 12 GB/s with one thread where this and vectors of 64 bytes read 14 to 16 (Emerald
 * Rapids, 2026-11). */
static uint64_t read_plain(const uint8_t *data, size_t n_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + LINE_BYTES <= n_bytes; i += LINE_BYTES)
        sum ^= word_at(data + i);
    return sum;
}

/* The same, what is ahead of it fetched. Four lines a turn, for where the loop happens to lie
 * cost a seventh with one. */
static uint64_t read_ahead(const uint8_t *data, size_t n_bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 4 * LINE_BYTES <= n_bytes; i += 4 * LINE_BYTES) {
        for (size_t line = 0; line < 4; line++)
            __builtin_prefetch(data + i + PREFETCH_BYTES + line * LINE_BYTES);
        for (size_t line = 0; line < 4; line++)
            sum ^= word_at(data + i + line * LINE_BYTES);
    }
    return sum;
}

static void read_piece(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    const struct reading *r = ctx;
    const struct piece *p = &r->pieces[chunk % r->n_pieces];
    const uint64_t sum = r->read(p->data, p->n_bytes);
    __asm__ volatile("" : : "r"(sum)); /* it is wanted */
}

static void add_pieces(struct reading *r, const uint8_t *data, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes && r->n_bytes < MOST_BYTES; at += PIECE_BYTES) {
        const size_t n = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
        MEM_GROW(r->pieces, r->n_pieces, r->cap);
        r->pieces[r->n_pieces++] = (struct piece){data + at, n};
        r->n_bytes += n;
    }
}

static void add_weight(struct reading *r, const struct cpu_weight *w)
{
    const struct weight *b = &w->base;
    const size_t panels = (b->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    if (w->packed)
        add_pieces(r, w->packed, b->n_mats * panels * pack_panel_bytes(b->type, b->n_cols));
    else if (w->file)
        add_pieces(r, w->file, b->n_mats * b->n_rows * qtype_bytes(b->type, b->n_cols));
}

static double read_pieces(const struct cpu_backend *cpu, struct reading *r, int n_tries)
{
    const size_t times = (LEAST_BYTES + r->n_bytes - 1) / r->n_bytes;
    double best = 0;
    for (int i = 0; i < 2 * n_tries; i++) {
        /* Which is faster depends on the processor. GB/s with 2 threads, plain and ahead: 34.3
         * and 32.4, minutes later 50.9 and 47.1 (Zen 4, 2026-11). */
        r->read = i % 2 == 0 ? read_plain : read_ahead;
        const double start = clock_ms();
        pool_run(cpu->pool, times * r->n_pieces, read_piece, r, NULL);
        const double speed = (double)(times * r->n_bytes) / 1e6 / (clock_ms() - start);
        best = speed > best ? speed : best;
    }
    free(r->pieces);
    return best;
}

double cpu_read_speed(const struct backend *be)
{
    const struct cpu_backend *cpu = (const struct cpu_backend *)be;
    struct reading r = {0};
    for (const struct cpu_weight *w = cpu->weights; w; w = w->next)
        add_weight(&r, w);
    assert(r.n_bytes > 0);
    return read_pieces(cpu, &r, N_TRIES);
}

double cpu_read_speed_at(const struct backend *be, const void *data, size_t n_bytes)
{
    struct reading r = {0};
    add_pieces(&r, data, n_bytes);
    return read_pieces((const struct cpu_backend *)be, &r, 1);
}
