/* A program running: the walk through its ops, one after another or tile by tile in runs
 * (exec_runs.c), and its row buffers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tables.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/readable.h"
#include "cpu/carve.h"
#include "cpu/exec_impl.h"
#include "cpu/pages.h"

/* ---- the walk ---- */

static bool run_op(struct cpu_exec *x)
{
    const struct op *op = x->op;
    switch (op->kind) {
    case OP_MATMUL: return run_matmul(x);
    case OP_ATTEND: return run_attend(x);
    case OP_MATMUL_EXPERTS: return run_experts(x);
    case OP_CONV: return run_conv(x);
    case OP_DECAY: return run_decay(x);
    case OP_RECUR: return run_recur(x);
    case OP_HEAD_ROWS: x->lo = x->hi - x->step->n_logits; return true;
    case OP_LOGITS: return run_logits(x);
    default: assert(false); return false; /* the others are parts of runs */
    }
}

bool cpu_exec_run(struct exec *base, const struct step *step, struct err *err)
{
    struct cpu_exec *x = (struct cpu_exec *)base;
    assert(step->n_rows <= x->max_rows);
    x->step = step;
    x->lo = 0;
    x->hi = step->n_rows;
    x->side = kernels_of(x)->a8_side < x->hi ? kernels_of(x)->a8_side : x->hi;
    if (!tables_have(x->p, step, step->n_rows, err)) return false;
    size_t n_ops = step->n_logits > 0 ? x->p->n_ops : x->head_rows;
    if (x->direct < x->p->n_buffers && step->n_logits > 0) {
        /* Rows of the direct buffer are the wanted ones, the last of the step. */
        struct rows *b = &x->rows[x->direct];
        b->f32 = step->logits - (size_t)(step->n_rows - step->n_logits) * b->stride;
    }
    bool ran = run_positions(x);
    for (size_t i = 0, n; ran && i < n_ops; i += n) {
        const struct run *run = runs_at(x, i);
        x->op = &x->p->ops[i];
        n = run->n_ops > 0 ? run->n_ops : 1;
        ran = run->n_ops > 0 ? runs_run(x, run) : run_op(x);
        if (cancel_is_set(step->cancel)) ran = false;
    }
    if (!ran) err_set(err, ERR_CANCELLED, "cancelled");
    return ran;
}

/* ---- memory ---- */

static size_t find_head_rows(const struct program *p)
{
    size_t i = 0;
    while (i < p->n_ops && p->ops[i].kind != OP_HEAD_ROWS)
        i++;
    return i;
}

/* A buffer of the vocabulary's width is large: where its rows are just the logits, products go
 * straight to the caller's memory. */
static size_t find_direct(const struct program *p)
{
    for (size_t i = find_head_rows(p); i < p->n_ops; i++) {
        const struct ref *in = &p->ops[i].logits.in;
        if (p->ops[i].kind == OP_LOGITS && in->at == 0 && in->n == p->buffers[in->buf].width)
            return in->buf;
    }
    return p->n_buffers;
}

/* Hands out parts of the arena; with base NULL it only counts. */
static void carve_rows(struct carver *c, const struct row_buffer *b, size_t n_rows,
                       size_t a8_side, struct rows *out)
{
    struct rows r = {0};
    switch (b->kind) {
    case ROW_F32:
        r.stride = mem_round_up(b->width, 16);
        r.f32 = carve(c, n_rows * r.stride * sizeof(float));
        break;
    case ROW_A8:
        n_rows = (n_rows + a8_side - 1) / a8_side * a8_side;
        r.stride = r.a8.stride = mem_round_up(b->width, 64);
        r.a8.q = carve(c, n_rows * r.stride);
        r.a8.d = carve(c, n_rows * r.stride / A8_BLOCK * sizeof(float));
        if (a8_side > 1) r.a8.dsum = carve(c, n_rows * r.stride / A8_BLOCK * sizeof(float));
        r.a8.sum = carve(c, n_rows * r.stride / A8_HALF * sizeof(int16_t));
        break;
    case ROW_ROUTE:
        r.stride = b->width;
        r.ids = carve(c, n_rows * r.stride * sizeof(int32_t));
        r.weights = carve(c, n_rows * r.stride * sizeof(float));
        break;
    }
    *out = r;
}

static size_t scratch_bytes(const struct kernels *k, const struct program *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->ops[i];
        size_t n = 0;
        if (op->kind == OP_MATMUL) n = k->matmul_scratch(op->matmul.mat[0].w->n_cols);
        if (op->kind == OP_MATMUL_EXPERTS) n = experts_scratch(k, &op->experts);
        if (op->kind == OP_ATTEND) {
            const struct kv_layer *kv = &p->kv[op->attend.kv];
            n = k->attend_scratch(kv, op->attend.n_heads / kv->n_heads);
        }
        if (n > most) most = n;
    }
    return mem_round_up(most, 64) + 64; /* a line apart, so that workers share none */
}

/* The most experts that one row chooses, and the most that there are. */
static void most_experts(const struct program *p, size_t *n_chosen, size_t *n_experts)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op_matmul_experts *op = &p->ops[i].experts;
        if (p->ops[i].kind != OP_MATMUL_EXPERTS) continue;
        if (op->route.n > *n_chosen) *n_chosen = op->route.n;
        if (op->w->n_mats / op->n_parts > *n_experts) *n_experts = op->w->n_mats / op->n_parts;
    }
}

/* Lays out all memory of an exec; x NULL only counts. */
static size_t layout(const struct backend *be, const struct program *p, uint32_t max_rows,
                     struct cpu_exec *x)
{
    const struct cpu_backend *cpu = (const struct cpu_backend *)be;
    struct carver c = {x ? x->arena : NULL, 0};
    size_t direct = find_direct(p);
    for (size_t i = 0; i < p->n_buffers; i++) {
        struct rows r = {.stride = p->buffers[i].width};
        if (i != direct) carve_rows(&c, &p->buffers[i], max_rows, cpu->kernels->a8_side, &r);
        if (x) x->rows[i] = r;
    }
    for (size_t i = 0; i < p->n_ropes; i++) {
        float *t = carve(&c, max_rows * p->ropes[i].n_rot * sizeof(float));
        if (x) x->cos_sin[i] = t;
    }
    for (size_t i = 0; i < p->n_row_scales; i++) {
        float *t = carve(&c, max_rows * sizeof(float));
        if (x) x->factors[i] = t;
    }
    for (size_t i = 0; i < p->n_ops; i++) {
        const size_t n = trail_width(&p->ops[i]);
        if (n == 0) continue;
        float *t = carve(&c, TRAIL_ROWS * n * sizeof(float));
        if (x) x->trail[op_state(&p->ops[i])] = t;
    }
    size_t n_pairs = 0, n_experts = 0;
    most_experts(p, &n_pairs, &n_experts);
    uint32_t *pairs = carve(&c, max_rows * n_pairs * sizeof *pairs);
    uint32_t *starts = carve(&c, (n_experts + 1) * sizeof *starts);
    uint32_t *chosen = carve(&c, n_experts * sizeof *chosen);
    size_t per_worker = scratch_bytes(cpu->kernels, p);
    uint8_t *scratch = carve(&c, per_worker * (size_t)pool_n_threads(cpu->pool));
    float *sums = carve(&c, attend_sums_bytes(be, p));
    if (x) {
        x->sums = sums;
        x->scratch = scratch;
        x->scratch_bytes = per_worker;
        x->pairs = pairs;
        x->pair_starts = starts;
        x->chosen = chosen;
    }
    return c.used + 64; /* vector loads may read past the last row */
}

size_t cpu_exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows)
{
    return layout(be, p, max_rows, NULL);
}

/* The layers of a program as they lie in its pages (pages.h). */
static struct kv_layer *kv_beside(const struct program *p)
{
    struct kv_layer *kv = mem_zalloc(p->n_kv, sizeof *kv);
    for (size_t i = 0; i < p->n_kv; i++) {
        kv[i] = p->kv[i];
        kv[i].n_beside = cpu_pages_beside(p->page_bytes[kv[i].part], p->page_unit[kv[i].part]);
    }
    return kv;
}

struct exec *cpu_exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                          struct err *err)
{
    struct cpu_exec *x = mem_zalloc(1, sizeof *x);
    x->base.be = be;
    x->own = *p;
    x->own.ops = runs_ops(p, &x->own.n_ops);
    x->own.kv = kv_beside(p);
    x->p = p = &x->own;
    x->max_rows = max_rows;
    x->runs = runs_find(p);
    x->head_rows = find_head_rows(p);
    x->direct = find_direct(p);
    x->rows = mem_zalloc(p->n_buffers, sizeof *x->rows);
    x->cos_sin = mem_zalloc(p->n_ropes, sizeof *x->cos_sin);
    x->factors = mem_zalloc(p->n_row_scales, sizeof *x->factors);
    x->trail = mem_zalloc(p->n_states, sizeof *x->trail);
    x->arena_bytes = layout(be, p, max_rows, NULL);
    x->arena = mem_try_pages(x->arena_bytes);
    if (!x->arena) {
        char size[READABLE_BYTES];
        err_set(err, ERR_MEMORY, "no memory for %s of scratch",
                readable_size(size, x->arena_bytes));
        cpu_exec_free(&x->base);
        return NULL;
    }
    layout(be, p, max_rows, x);
    return &x->base;
}

void cpu_exec_free(struct exec *base)
{
    struct cpu_exec *x = (struct cpu_exec *)base;
    mem_free_pages(x->arena, x->arena_bytes);
    free(x->runs);
    free((void *)x->own.ops);
    free((void *)x->own.kv);
    free(x->rows);
    free(x->cos_sin);
    free(x->factors);
    free(x->trail);
    free(x);
}
