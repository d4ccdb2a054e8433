/* Ops that work row by row, and how their rows are cut into chunks; for two of them rows alone
 * would not do. Short ops of a single row run on the calling thread: a barrier costs more than
 * they do. */
#include <string.h>

#include "backend/positions.h"
#include "base/numeric_c.h"
#include "cpu/exec_impl.h"

/* Below this many values an op is not worth waking the pool; the same of keys and values. What
 * is quantised in one go: values of a row, and rows, which are whole strips. */
enum { INLINE_VALUES = 16384, INLINE_STORED = 1536, QUANTISE_RUN = 512, QUANTISE_ROWS = 16 };
_Static_assert(QUANTISE_ROWS % PANEL_ROWS == 0, "a strip has at most PANEL_ROWS rows");

static void embed_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_embed *op = &x->op->embed;
    for (size_t r = lo; r < hi; r++)
        ref_embed((const struct cpu_weight *)op->table, (size_t)x->step->tokens[r], op->scale,
                  row_f32(x, &op->out, r));
}

static void norm_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_norm *op = &x->op->norm;
    const struct norm norm = {.w = vector_of(op->w),
                              .w_step = op->w && op->w->n_cols > op->group ? op->group : 0,
                              .n = op->group,
                              .n_groups = op->in.n / op->group,
                              .eps = op->eps};
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->norm(&norm, row_f32(x, &op->in, r), row_f32(x, &op->out, r));
}

static void rope_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_rope *op = &x->op->rope;
    const struct rope *rope = &x->p->ropes[op->rope];
    for (size_t r = lo; r < hi; r++)
        for (size_t i = 0; i < op->x.n; i += op->head_dim)
            kernels_of(x)->rope(row_f32(x, &op->x, r) + i, rope->pairs, rope->n_rot / 2,
                                x->cos_sin[op->rope] + r * rope->n_rot);
}

static void row_scale_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_row_scale *op = &x->op->row_scale;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->scale(row_f32(x, &op->x, r), op->x.n, x->factors[op->scale][r]);
}

static void scale_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_scale *op = &x->op->scale;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->scale(row_f32(x, &op->x, r), op->x.n, op->factor);
}

static void glu_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_glu *op = &x->op->glu;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->glu(op->kind, row_f32(x, &op->gate, r), row_f32(x, &op->up, r),
                           op->out.n, row_f32(x, &op->out, r));
}

static void add_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_add *op = &x->op->add;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->add(row_f32(x, &op->a, r), row_f32(x, &op->b, r), op->scale, op->out.n,
                           row_f32(x, &op->out, r));
}

static void unzip_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_unzip *op = &x->op->unzip;
    for (size_t r = lo; r < hi; r++) {
        const float *in = row_f32(x, &op->in, r);
        float *a = row_f32(x, &op->a, r), *b = row_f32(x, &op->b, r);
        for (size_t i = 0; i < op->a.n; i += op->run) {
            memcpy(a + i, in + 2 * i, op->run * sizeof *a);
            memcpy(b + i, in + 2 * i + op->run, op->run * sizeof *b);
        }
    }
}

static void row_gate_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_row_gate *op = &x->op->row_gate;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->scale(row_f32(x, &op->x, r), op->x.n,
                             num_sigmoid(*row_f32(x, &op->gate, r)));
}

static void route_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_route *op = &x->op->route;
    const struct rows *out = &x->rows[op->out.buf];
    for (size_t r = lo; r < hi; r++) {
        size_t at = r * out->stride + op->out.at;
        ref_route(op, row_f32(x, &op->scores, r), vector_of(op->select), vector_of(op->scales),
                  out->ids + at, out->weights + at);
    }
}

static void input_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_input *op = &x->op->input;
    for (size_t r = lo; r < hi; r++)
        memcpy(row_f32(x, &op->out, r), x->step->input + r * x->p->n_input + op->at,
               op->out.n * sizeof(float));
}

static void output_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_output *op = &x->op->output;
    for (size_t r = lo; r < hi; r++)
        memcpy(x->step->output + r * x->p->n_output + op->at, row_f32(x, &op->in, r),
               op->in.n * sizeof(float));
}

static void combine_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_combine *op = &x->op->combine;
    const struct rows *route = &x->rows[op->route.buf];
    for (size_t r = lo; r < hi; r++)
        ref_combine(row_f32(x, &op->in, r), route->weights + r * route->stride + op->route.at,
                    op->route.n, op->out.n, row_f32(x, &op->out, r));
}

static void logits_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_logits *op = &x->op->logits;
    for (size_t r = lo; r < hi; r++)
        kernels_of(x)->logits(row_f32(x, &op->in, r), op->in.n, op->scale, op->softcap,
                              x->step->logits + (r - x->lo) * op->in.n);
}

static void position_tables(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct program *p = x->p;
    for (size_t i = 0; i < p->n_ropes; i++)
        for (size_t r = lo; r < hi; r++)
            positions_rope(&p->ropes[i], x->step->pos + r,
                           x->cos_sin[i] + r * p->ropes[i].n_rot);
    for (size_t i = 0; i < p->n_row_scales; i++)
        for (size_t r = lo; r < hi; r++)
            x->factors[i][r] = positions_factor(&p->row_scales[i], x->step->pos + r);
}

struct row_loop {
    struct cpu_exec *x;
    rows_fn *fn;
};

static void row_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    struct row_loop *loop = ctx;
    struct cpu_exec *x = loop->x;
    size_t lo = x->lo + chunk * x->chunk_rows, hi = lo + x->chunk_rows;
    loop->fn(x, lo, hi < x->hi ? hi : x->hi);
}

bool for_rows(struct cpu_exec *x, size_t n_values, rows_fn *fn)
{
    size_t n = x->hi - x->lo;
    if (n == 1 || n * n_values <= INLINE_VALUES) {
        fn(x, x->lo, x->hi);
        return true;
    }
    struct row_loop loop = {x, fn};
    x->chunk_rows = (INLINE_VALUES + n_values - 1) / n_values;
    size_t n_chunks = (n + x->chunk_rows - 1) / x->chunk_rows;
    return pool_run(backend_of(x)->pool, n_chunks, row_chunk, &loop, x->step->cancel);
}

/* ---- quantisation, by strips of rows and runs of columns ---- */

/* n values of a row of a strip. */
static void quantise_beside(const struct kernels *k, const float *in, size_t n,
                            const struct a8 *to)
{
    int8_t q[QUANTISE_RUN];
    float d[QUANTISE_RUN / A8_BLOCK];
    int16_t sum[QUANTISE_RUN / A8_HALF];
    size_t i = a8_at(to, 0, 0);
    for (size_t at = 0; at < n; at += QUANTISE_RUN) {
        const size_t n_values = n - at < QUANTISE_RUN ? n - at : QUANTISE_RUN;
        k->quantise(in + at, n_values, q, d, sum);
        for (size_t b = 0; b < n_values / A8_BLOCK; b++, i += to->side) {
            memcpy(to->q + A8_BLOCK * i, q + A8_BLOCK * b, A8_BLOCK);
            to->d[i] = d[b];
            to->sum[2 * i] = sum[2 * b];
            to->sum[2 * i + 1] = sum[2 * b + 1];
            to->dsum[i] = a8_dsum(d[b], sum + 2 * b);
        }
    }
}

/* n values from `from` on of rows lo to hi - 1. */
static void quantise_part(struct cpu_exec *x, size_t lo, size_t hi, size_t from, size_t n)
{
    const struct op_quantise *op = &x->op->quantise;
    const struct kernels *k = kernels_of(x);
    for (size_t r = lo; r < hi; r++) {
        const struct a8 to = a8_columns(row_a8(x, &op->out, r), from / A8_BLOCK);
        const float *in = row_f32(x, &op->in, r) + from;
        if (to.side > 1) {
            quantise_beside(k, in, n, &to);
            continue;
        }
        k->quantise(in, n, to.q, to.d, to.sum);
        for (size_t b = 0; to.dsum && b < n / A8_BLOCK; b++)
            to.dsum[b] = a8_dsum(to.d[b], to.sum + 2 * b);
    }
}

static void quantise_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    struct cpu_exec *x = ctx;
    const size_t n_values = x->op->quantise.in.n;
    const size_t n_runs = (n_values + QUANTISE_RUN - 1) / QUANTISE_RUN;
    const size_t from = chunk % n_runs * QUANTISE_RUN, left = n_values - from;
    const size_t lo = x->lo + chunk / n_runs * QUANTISE_ROWS, hi = lo + QUANTISE_ROWS;
    quantise_part(x, lo, hi < x->hi ? hi : x->hi, from,
                  left < QUANTISE_RUN ? left : QUANTISE_RUN);
}

/* Rows of a strip share their lines: threads that took some of them each would pass the lines
 * to and fro. 8 rows of 3072 values on 2 threads so 16 us, by columns 9 (Emerald Rapids,
 * 2026-11). */
static bool run_quantise(struct cpu_exec *x)
{
    const size_t n_rows = x->hi - x->lo, n_values = x->op->quantise.in.n;
    if (n_rows == 1 || n_rows * n_values <= INLINE_VALUES / 2) {
        quantise_part(x, x->lo, x->hi, 0, n_values);
        return true;
    }
    const size_t n_runs = (n_values + QUANTISE_RUN - 1) / QUANTISE_RUN;
    const size_t n_strips = (n_rows + QUANTISE_ROWS - 1) / QUANTISE_ROWS;
    return pool_run(backend_of(x)->pool, n_strips * n_runs, quantise_chunk, x, x->step->cancel);
}

/* ---- storing keys and values, by heads ---- */

static void kv_store_part(struct cpu_exec *x, size_t lo, size_t hi, size_t head)
{
    const struct op_kv_store *op = &x->op->kv_store;
    const struct kv_layer *kv = &x->p->kv[op->kv];
    struct kv_rows rows = {.k = row_f32(x, &op->k, lo) + head * kv->head_dim_k,
                           .v = row_f32(x, &op->v, lo) + head * kv->head_dim_v,
                           .k_stride = x->rows[op->k.buf].stride,
                           .v_stride = x->rows[op->v.buf].stride};
    for (size_t r = lo; r < hi; r += rows.n) {
        const size_t pos = x->step->pos + r, slot = pos % PAGE_LEN;
        rows.n = hi - r < PAGE_LEN - slot ? hi - r : PAGE_LEN - slot;
        kernels_of(x)->kv_store(kv, x->step->pages[kv->part][pos / PAGE_LEN], head, slot, rows);
        rows.k += rows.n * rows.k_stride;
        rows.v += rows.n * rows.v_stride;
    }
}

static void kv_store_chunk(void *ctx, size_t chunk, int worker)
{
    (void)worker;
    struct cpu_exec *x = ctx;
    const size_t n_heads = x->p->kv[x->op->kv_store.kv].n_heads;
    const size_t lo = x->lo + chunk / n_heads * PAGE_LEN, hi = lo + PAGE_LEN;
    kv_store_part(x, lo, hi < x->hi ? hi : x->hi, chunk % n_heads);
}

/* Keys of one page lie side by side, so a chunk has as many rows as a page; and a row's values
 * lie in as many lines as there are values, none of them at hand, so even one row of a large
 * model is shared out: 2048 values 10.4 us on one thread, 7.6 on two, 8 rows of them 22 and 13
 * (Emerald Rapids, 2026-11). */
static bool run_kv_store(struct cpu_exec *x)
{
    const struct op_kv_store *op = &x->op->kv_store;
    const size_t n_heads = x->p->kv[op->kv].n_heads, n_rows = x->hi - x->lo;
    if (n_rows * (op->k.n + op->v.n) < INLINE_STORED) {
        for (size_t head = 0; head < n_heads; head++)
            kv_store_part(x, x->lo, x->hi, head);
        return true;
    }
    const size_t n_runs = (n_rows + PAGE_LEN - 1) / PAGE_LEN;
    return pool_run(backend_of(x)->pool, n_heads * n_runs, kv_store_chunk, x, x->step->cancel);
}

/* ---- the switch ---- */

static bool run_logits(struct cpu_exec *x)
{
    const struct op_logits *op = &x->op->logits;
    if (op->in.buf == x->direct && op->scale == 1.0f && op->softcap == 0.0f) return true;
    return for_rows(x, op->in.n, logits_rows);
}

bool run_row_op(struct cpu_exec *x)
{
    const struct op *op = x->op;
    switch (op->kind) {
    case OP_EMBED: return for_rows(x, op->embed.out.n, embed_rows);
    case OP_NORM: return for_rows(x, op->norm.in.n, norm_rows);
    case OP_QUANTISE: return run_quantise(x);
    case OP_ROPE: return for_rows(x, op->rope.x.n, rope_rows);
    case OP_ROW_SCALE: return for_rows(x, op->row_scale.x.n, row_scale_rows);
    case OP_SCALE: return for_rows(x, op->scale.x.n, scale_rows);
    case OP_KV_STORE: return run_kv_store(x);
    case OP_GLU: return for_rows(x, 4 * op->glu.out.n, glu_rows);
    case OP_ADD: return for_rows(x, op->add.out.n, add_rows);
    case OP_ROUTE: return for_rows(x, op->route.scores.n * op->route.out.n, route_rows);
    case OP_COMBINE: return for_rows(x, op->combine.in.n, combine_rows);
    case OP_UNZIP: return for_rows(x, op->unzip.in.n, unzip_rows);
    case OP_ROW_GATE: return for_rows(x, op->row_gate.x.n, row_gate_rows);
    case OP_INPUT: return for_rows(x, op->input.out.n, input_rows);
    case OP_OUTPUT: return for_rows(x, op->output.in.n, output_rows);
    case OP_LOGITS: return run_logits(x);
    default: return false;
    }
}

bool run_positions(struct cpu_exec *x)
{
    return for_rows(x, 16 * 64 * x->p->n_ropes, position_tables);
}
