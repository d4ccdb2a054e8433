/* A step on the device: what was recorded is submitted, and the logits are taken. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/op_parts.h"
#include "backend/tables.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "vulkan/impl.h"

/* Rows are computed in whole groups, so there is room for a few more than are asked for. */
enum { GROUP_ROWS = 8 };
/* Logits of as many rows at once as fit in about this much; at least those of a draw. */
static const size_t LOGITS_BYTES = (size_t)32 << 20;
static const size_t SCRATCH_BLOCK_BYTES = (size_t)256 << 20;
/* A submission of many rows should not take much longer: a cancel waits for it. */
static const double SUBMIT_MS = 30;

/* ---- memory ---- */

static uint32_t head_rows_of(const struct program *p, uint32_t max_rows)
{
    size_t fit = LOGITS_BYTES / (p->n_vocab * sizeof(float) + 1);
    if (fit < DRAW_ROWS) fit = DRAW_ROWS;
    return fit < max_rows ? (uint32_t)fit : max_rows;
}

/* Whether an op touches a buffer in another way than as the result of a product, or as the
 * logits themselves. */
static bool is_product_only(const struct op *op, uint32_t buf)
{
    struct op mine = *op;
    struct op_ref refs[OP_MOST_REFS];
    const size_t n = op->kind == OP_LOGITS ? 0 : op_refs(&mine, refs);
    for (size_t i = 0; i < n; i++)
        if (refs[i].ref->buf == buf && (op->kind != OP_MATMUL || refs[i].reads)) return false;
    return true;
}

/* A buffer of the vocabulary's width is large: where its rows are just the logits, a product
 * writes them to where the host reads them, the wanted rows only. */
static size_t find_direct(const struct program *p)
{
    const struct op *last = &p->ops[p->n_ops - 1];
    if (last->kind != OP_LOGITS) return p->n_buffers;
    const struct ref *in = &last->logits.in;
    if (in->at != 0 || in->n != p->buffers[in->buf].width) return p->n_buffers;
    bool in_head = false;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->ops[i];
        if (op->kind == OP_HEAD_ROWS) in_head = true;
        if (!is_product_only(op, in->buf)) return p->n_buffers;
        for (uint32_t m = 0; op->kind == OP_MATMUL && m < op->matmul.n_mats; m++)
            if (op->matmul.mat[m].out.buf == in->buf && !in_head) return p->n_buffers;
    }
    return in->buf;
}

/* Stride and bytes of the rows of a buffer. A product's groups take rows from any on, and load
 * the rest of a group's from behind the last. */
static size_t rows_bytes(const struct vulkan *vk, const struct row_buffer *b, uint32_t max_rows,
                         size_t *stride)
{
    const size_t n = max_rows + GROUP_ROWS - 1;
    switch (b->kind) {
    case ROW_F32: *stride = mem_round_up(b->width, 16); return n * *stride * sizeof(float);
    case ROW_A8: *stride = b->width / 32 * vulkan_a8_texels(vk); return n * *stride * 16;
    case ROW_ROUTE: *stride = 2 * b->width; return n * *stride * sizeof(uint32_t);
    }
    return 0;
}

/* Texels of the widest query that is compared with codes; 0: none is. */
static size_t q8_stride(const struct vulkan *vk, const struct program *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op_attend *a = &p->ops[i].attend;
        if (p->ops[i].kind != OP_ATTEND) continue;
        enum kv_type type = p->kv[a->kv].type;
        if ((type == KV_Q8_0 || type == KV_Q4_0) && a->q.n > most) most = a->q.n;
    }
    return most / 32 * vulkan_a8_texels(vk);
}

static size_t trail_bytes(const struct op *op)
{
    return TRAIL_ROWS * vulkan_trail_width(op) * sizeof(float);
}

size_t vulkan_exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows)
{
    const struct vulkan *vk = ((const struct vulkan_backend *)be)->vk;
    size_t direct = find_direct(p), stride, n = 0;
    for (size_t i = 0; i < p->n_buffers; i++)
        if (i != direct) n += rows_bytes(vk, &p->buffers[i], max_rows, &stride);
    n +=
        head_rows_of(p, max_rows) * p->n_vocab * sizeof(float) + vulkan_draw_bytes(p, max_rows);
    n += max_rows * p->n_input * sizeof(float);
    for (size_t i = 0; i < p->n_ops; i++)
        n += trail_bytes(&p->ops[i]);
    return n + p->state_bytes + q8_stride(vk, p) * 16 * mem_round_up(max_rows, GROUP_ROWS);
}

static bool take_rows(struct vulkan_exec *x, size_t n_bytes, struct vulkan_rows *r,
                      struct err *err)
{
    struct vulkan *vk = vulkan_of(x)->vk;
    if (n_bytes > vulkan_storage_limit(vk))
        return err_set(err, ERR_MEMORY, "%s: %zu MiB of scratch for %u rows: it binds %zu MiB",
                       vk->properties.deviceName, n_bytes >> 20, x->max_rows,
                       vulkan_storage_limit(vk) >> 20);
    return vulkan_arena_take(&x->scratch, n_bytes, &r->region, err) &&
           vulkan_arena_view(&x->scratch, &r->region, &r->view, err);
}

/* Rows that share a block can be written by one dispatch. */
static size_t scratch_block(const struct vulkan_exec *x)
{
    size_t stride, n = 0;
    for (size_t i = 0; i < x->p->n_buffers; i++)
        if (i != x->direct)
            n += mem_round_up(
                rows_bytes(vulkan_of(x)->vk, &x->p->buffers[i], x->max_rows, &stride), 256);
    return n < SCRATCH_BLOCK_BYTES ? n : SCRATCH_BLOCK_BYTES;
}

static bool take_memory(struct vulkan_exec *x, struct err *err)
{
    struct vulkan *vk = vulkan_of(x)->vk;
    const struct program *p = x->p;
    x->scratch = (struct vulkan_arena){
        .vk = vk, .place = VULKAN_NEAR_DEVICE, .block_bytes = scratch_block(x)};
    x->host = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_HOST};
    if (!vulkan_arena_take(&x->scratch, x->max_head_rows * p->n_vocab * sizeof(float),
                           &x->logits, err) ||
        !vulkan_arena_take(&x->scratch, 1, &x->nothing, err) || !vulkan_draw_memory(x, err))
        return false;
    if (p->n_input > 0 &&
        !vulkan_arena_take(&x->host, x->max_rows * p->n_input * sizeof(float), &x->input, err))
        return false;
    for (size_t i = 0; i < p->n_buffers; i++) {
        if (i == x->direct) {
            x->rows[i] = (struct vulkan_rows){.region = x->logits, .stride = p->n_vocab};
            continue;
        }
        size_t n_bytes = rows_bytes(vk, &p->buffers[i], x->max_rows, &x->rows[i].stride);
        if (!take_rows(x, n_bytes, &x->rows[i], err)) return false;
    }
    if (p->state_bytes > 0 && !vulkan_arena_take(&x->scratch, p->state_bytes, &x->state, err))
        return false;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->ops[i];
        size_t n_bytes = trail_bytes(op);
        uint32_t state = op->kind == OP_CONV ? op->conv.state : op->recur.state;
        if (n_bytes && !vulkan_arena_take(&x->scratch, n_bytes, &x->trail[state], err))
            return false;
    }
    x->q8.stride = q8_stride(vk, p);
    return x->q8.stride == 0 ||
           take_rows(x, x->q8.stride * 16 * mem_round_up(x->max_rows, GROUP_ROWS), &x->q8, err);
}

struct exec *vulkan_exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                             struct err *err)
{
    struct vulkan_backend *vb = (struct vulkan_backend *)be;
    if (!vulkan_plan_check(vb, p, err)) return NULL;
    struct vulkan_exec *x = mem_zalloc(1, sizeof *x);
    x->base.be = be;
    x->p = p;
    x->max_rows = max_rows;
    x->max_head_rows = head_rows_of(p, max_rows);
    x->direct = find_direct(p);
    x->rows = mem_zalloc(p->n_buffers, sizeof *x->rows);
    x->trail = mem_zalloc(p->n_states, sizeof *x->trail);
    x->rope_at = mem_zalloc(p->n_ropes, sizeof *x->rope_at);
    x->factor_at = mem_zalloc(p->n_row_scales, sizeof *x->factor_at);
    if (take_memory(x, err)) return &x->base;
    vulkan_exec_free(&x->base);
    return NULL;
}

void vulkan_exec_free(struct exec *base)
{
    struct vulkan_exec *x = (struct vulkan_exec *)base;
    vulkan_states_end(x);
    vulkan_link_free(x);
    vulkan_plan_free(x);
    vulkan_arena_free(&x->scratch);
    vulkan_arena_free(&x->host);
    free(x->rows);
    free(x->trail);
    free(x->rope_at);
    free(x->factor_at);
    free(x->use);
    free(x->all);
    free(x);
}

/* ---- running ---- */

static bool not_cancelled(const struct step *step, struct err *err)
{
    return !cancel_is_set(step->cancel) || err_set(err, ERR_CANCELLED, "cancelled");
}

/* Submits the command buffers of a part in pieces of about SUBMIT_MS. */
static bool submit_pieces(struct vulkan_exec *x, const struct vulkan_recorded *r,
                          const struct step *step, struct err *err)
{
    const double begin = clock_ms();
    for (uint32_t at = 0; at < r->n;) {
        if (!not_cancelled(step, err)) return false;
        /* Fewer rows may take as long, more take longer. */
        const bool is_more = x->segment_rows > 0 && step->n_rows > x->segment_rows;
        const double grown = is_more ? (double)step->n_rows / x->segment_rows : 1;
        const double expected = x->segment_ms * grown;
        uint32_t fit = expected > 0 ? (uint32_t)fmin(SUBMIT_MS / expected, UINT16_MAX) : 1;
        uint32_t n = fit < 1 ? 1 : fit < r->n - at ? fit : r->n - at;
        const double start = clock_ms();
        if (!vulkan_submit(vulkan_of(x)->vk, n, r->commands + at, err)) return false;
        x->segment_ms = (clock_ms() - start) / n;
        x->segment_rows = step->n_rows;
        at += n;
    }
    x->step_ms = clock_ms() - begin;
    return true;
}

/* Submits, all at once, the commands that vulkan_add_all has collected since the last time. */
static bool submit_all(struct vulkan_exec *x, struct err *err)
{
    const uint32_t n = x->n_all;
    x->n_all = 0;
    return n == 0 || vulkan_submit(vulkan_of(x)->vk, n, x->all, err);
}

/* Adds the commands that are recorded for a part. */
static bool add_part(struct vulkan_exec *x, int part, uint32_t bucket, struct err *err)
{
    const struct vulkan_recorded *r = vulkan_recorded(x, part, bucket, err);
    if (r) vulkan_add_all(x, r->n, r->commands);
    return r != NULL;
}

static bool take_logits(struct vulkan_exec *x, const struct step *step, uint32_t lo,
                        uint32_t hi, struct err *err)
{
    size_t n = x->p->n_vocab, skipped = lo - (step->n_rows - step->n_logits);
    return vulkan_read(&vulkan_of(x)->staging, &x->logits, 0, step->logits + skipped * n,
                       (hi - lo) * n * sizeof(float), err);
}

/* Rows lo..n_rows-1 through the head, as many at a time as there is room for. */
static bool run_head(struct vulkan_exec *x, const struct step *step, uint32_t lo,
                     struct err *err)
{
    while (lo < step->n_rows) {
        uint32_t left = step->n_rows - lo,
                 n = left < x->max_head_rows ? left : x->max_head_rows;
        const struct vulkan_recorded *r = vulkan_recorded(x, PART_HEAD, vulkan_bucket(n), err);
        if (!r || !not_cancelled(step, err)) return false;
        vulkan_head_write(x, lo, lo + n);
        if (r->n && !vulkan_submit(vulkan_of(x)->vk, r->n, r->commands, err)) return false;
        if (!take_logits(x, step, lo, lo + n, err)) return false;
        lo += n;
    }
    return true;
}

/* Many rows take longer than few, so what they took counts until few have been measured. */
static bool is_slow(const struct vulkan_exec *x)
{
    const double patience_ms = vulkan_of(x)->vk->patience_ms;
    return patience_ms >= 0 && x->step_ms > patience_ms;
}

/* A step of many rows, or a slow one: its body in pieces. */
static bool run_pieces(struct vulkan_exec *x, const struct step *step, int part,
                       struct err *err)
{
    const struct vulkan_recorded *body =
        vulkan_recorded(x, part, vulkan_bucket(step->n_rows), err);
    if (!body || !submit_all(x, err)) return false;
    vulkan_states_begun(x);
    return submit_pieces(x, body, step, err);
}

/* Body, head and draw of a step, with the states before it and after. Few rows are one
 * submission, and so are those of drafts; of many the body is submitted in pieces first, and
 * without a draw the head goes on alone. */
static bool run_step(struct vulkan_exec *x, const struct step *step, struct err *err)
{
    const uint32_t first = step->n_rows - step->n_logits;
    const uint32_t few = step->draw ? DRAW_ROWS : GROUP_ROWS;
    const bool is_long = step->n_rows > few || step->n_logits > x->max_head_rows || is_slow(x);
    const int part = step->keeps_trail ? PART_KEEP : PART_BODY;
    const bool has_head = step->n_logits > 0 && (!is_long || step->draw);
    x->n_all = 0;
    if (!vulkan_states_begin(x, x, step->state_in, err)) return false;
    vulkan_step_write(x, step);
    if (is_long ? !run_pieces(x, step, part, err)
                : !add_part(x, part, vulkan_bucket(step->n_rows), err))
        return false;
    if (has_head) {
        if (!add_part(x, PART_HEAD, vulkan_bucket(step->n_logits), err)) return false;
        vulkan_head_write(x, first, step->n_rows);
    }
    if (step->draw && (!add_part(x, PART_DRAW, 0, err) || !vulkan_draw_write(x, step, 0, err)))
        return false;
    if (!vulkan_states_give(x, x, step->state_out, err)) return false;
    const double start = clock_ms();
    if (!submit_all(x, err)) return false;
    if (!is_long) x->step_ms = clock_ms() - start;
    vulkan_states_begun(x);
    vulkan_states_done(x, step->state_out);
    if (step->draw)
        vulkan_draw_take(x, step);
    else if (is_long)
        return run_head(x, step, first, err);
    else if (step->n_logits > 0)
        return take_logits(x, step, first, step->n_rows, err);
    return true;
}

bool vulkan_exec_logits(struct exec *base, uint32_t i, float *logits, struct err *err)
{
    struct vulkan_exec *x = (struct vulkan_exec *)base;
    const size_t n_bytes = x->p->n_vocab * sizeof *logits;
    assert(i < x->max_head_rows);
    return vulkan_read(&vulkan_of(x)->staging, &x->logits, i * n_bytes, logits, n_bytes, err);
}

bool vulkan_exec_run(struct exec *base, const struct step *step, struct err *err)
{
    struct vulkan_exec *x = (struct vulkan_exec *)base;
    assert(step->n_rows <= x->max_rows);
    x->has_trail = false;
    if (!tables_have(x->p, step, step->n_rows, err) || !not_cancelled(step, err) ||
        !vulkan_need_plan(x, err) || !run_step(x, step, err))
        return false;
    x->has_trail = step->keeps_trail;
    return true;
}
