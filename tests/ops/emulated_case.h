/* Products by one function against the scalar reference, for the tests that compile the text of
 * a kernel without its instructions, or take tables that no backend here takes. Include ops.h
 * first. */
#ifndef TESTS_EMULATED_CASE_H
#define TESTS_EMULATED_CASE_H

#include "cpu/ref.h"
#include "matmul_case.h"

enum { MAX_ROWS = 70 /* some kernels take more than 64 in another way */ };

static const float emulated_factor = 0.37f; /* of products with a bias */

struct operands {
    struct cpu_weight w;
    uint8_t *file;
    float *bias;
    struct a8 rows; /* one after the other */
};

static void a8_new(struct a8 *a, size_t n_cols, size_t side)
{
    const size_t n_rows = (MAX_ROWS + side - 1) / side * side;
    *a = (struct a8){.stride = (n_cols + 63) / 64 * 64, .side = side};
    a->q = zalloc64(n_rows * a->stride);
    a->d = zalloc64(n_rows * a->stride / A8_BLOCK * sizeof(float));
    a->dsum = zalloc64(n_rows * a->stride / A8_BLOCK * sizeof(float));
    a->sum = zalloc64(n_rows * a->stride / A8_HALF * sizeof(int16_t));
}

static void a8_free(struct a8 *a)
{
    free(a->q);
    free(a->d);
    free(a->dsum);
    free(a->sum);
}

/* The same rows side by side. */
static struct a8 strips_of(const struct a8 *rows, size_t side)
{
    struct a8 to;
    a8_new(&to, rows->stride, side);
    for (size_t r = 0; r < MAX_ROWS; r++) {
        for (size_t b = 0; b < rows->stride / A8_BLOCK; b++) {
            const size_t i = a8_at(rows, r, b), at = a8_at(&to, r, b);
            memcpy(to.q + A8_BLOCK * at, rows->q + A8_BLOCK * i, A8_BLOCK);
            to.d[at] = rows->d[i];
            to.sum[2 * at] = rows->sum[2 * i];
            to.sum[2 * at + 1] = rows->sum[2 * i + 1];
            to.dsum[at] = rows->d[i] * (float)(rows->sum[2 * i] + rows->sum[2 * i + 1]);
        }
    }
    return to;
}

static void operands_new(struct operands *o, enum qtype type, bool bytes_unsigned,
                         size_t n_rows, size_t n_cols, enum spread spread)
{
    const size_t row_bytes = qtype_bytes(type, n_cols);
    const size_t panel_bytes = pack_panel_bytes(type, n_cols);
    const size_t n_panels = (n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    o->file = zalloc64(n_rows * row_bytes);
    random_blocks(type, o->file, n_rows * n_cols);
    uint8_t *packed = zalloc64(n_panels * panel_bytes);
    for (size_t p = 0; p < n_panels; p++) {
        size_t left = n_rows - p * PANEL_ROWS;
        pack_panel(type, bytes_unsigned, o->file + p * PANEL_ROWS * row_bytes, row_bytes,
                   left < PANEL_ROWS ? left : PANEL_ROWS, n_cols, packed + p * panel_bytes);
    }
    o->w = (struct cpu_weight){
        .base = {type, 1, n_rows, n_cols, NULL}, .file = o->file, .packed = packed};
    a8_new(&o->rows, n_cols, 1);
    o->bias = zalloc64(n_rows * sizeof(float));
    random_floats(NORMAL, o->bias, n_rows);
    float *x = mem_zalloc(n_cols, sizeof *x);
    for (size_t r = 0; r < MAX_ROWS; r++) {
        random_floats(spread, x, n_cols);
        const struct a8 to = a8_from(o->rows, r);
        ref_quantise_row(x, n_cols, to.q, to.d, to.sum);
    }
    free(x);
}

static void operands_free(struct operands *o)
{
    free(o->file);
    free(o->w.packed);
    a8_free(&o->rows);
    free(o->bias);
}

/* A product by the name of what it stands for. */
struct variant {
    const char *name;
    void (*matmul)(const struct matmul *m, size_t lo, size_t hi, void *scratch);
    size_t (*scratch)(size_t n_cols);
    bool bytes_unsigned; /* of what it reads packed */
};

/* Rows first to first + n - 1. */
static void check(const struct variant *v, const struct operands *o, size_t first, size_t n,
                  bool bias, const float *want)
{
    const size_t n_values = o->w.base.n_rows, side = first + n < 16 ? first + n : 16;
    float *got = mem_zalloc(MAX_ROWS * n_values, sizeof *got);
    void *scratch = zalloc64(v->scratch(o->w.base.n_cols));
    struct a8 strips = strips_of(&o->rows, side);
    struct matmul m = {.w = &o->w,
                       .a8 = a8_from(strips, first),
                       .n_rows = n,
                       .factor = bias ? &emulated_factor : NULL,
                       .bias = bias ? o->bias : NULL,
                       .out = got,
                       .out_stride = n_values};
    v->matmul(&m, 0, n_values, scratch);
    char what[96];
    snprintf(what, sizeof what, "%s: %s %zux%zu, %zu rows from %zu", v->name,
             qtype_info(o->w.base.type)->name, n_values, o->w.base.n_cols, n, first);
    assert_same_bits(got, want + first * n_values, n * n_values, what);
    a8_free(&strips);
    free(got);
    free(scratch);
}

/* Every type, at several shapes and numbers of rows. */
static void check_all_types(const struct variant *v)
{
    static const size_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 37, MAX_ROWS};
    const struct qtype_info *info;
    random_seed(512);
    for (size_t i = 0; (info = qtype_at(i)); i++) {
        if (info->block_len == 1) continue;
        for (size_t s = 0; s < 4; s++) {
            const size_t n_values[] = {16, 1, 33, 40};
            const size_t n_cols =
                info->block_len == 32 ? (const size_t[]){32, 96, 288, 544}[s] : 256 * (s + 1);
            struct operands o;
            operands_new(&o, info->type, v->bytes_unsigned, n_values[s], n_cols,
                         (enum spread)(s % N_SPREADS));
            float *want = mem_zalloc(MAX_ROWS * n_values[s], sizeof *want);
            for (int bias = 0; bias < 2; bias++) {
                struct matmul m = {.w = &o.w,
                                   .a8 = o.rows,
                                   .n_rows = MAX_ROWS,
                                   .factor = bias ? &emulated_factor : NULL,
                                   .bias = bias ? o.bias : NULL,
                                   .out = want,
                                   .out_stride = n_values[s]};
                ref_matmul(&m, 0, n_values[s], NULL);
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                    check(v, &o, 0, rows[r], bias, want);
                /* The head of a model takes the last rows of a step. */
                check(v, &o, 11, 1, bias, want);
                check(v, &o, 9, 23, bias, want);
            }
            free(want);
            operands_free(&o);
        }
        char name[64];
        snprintf(name, sizeof name, "matmul_%s, %s", info->name, v->name);
        say_compared(name);
    }
}

#endif
