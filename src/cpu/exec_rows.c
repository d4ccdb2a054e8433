/* Ops that work row by row, and how their rows are cut into chunks. */
#include <string.h>

#include "backend/positions.h"
#include "base/numeric_c.h"
#include "cpu/exec_impl.h"

/* Below this many values an op is not worth waking the pool. */
enum { INLINE_VALUES = 16384 };

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

/* A row of a strip. */
static void quantise_beside(const struct kernels *k, const float *in, size_t n,
                            const struct a8 *to)
{
    enum { PIECE = 512 };
    int8_t q[PIECE];
    float d[PIECE / A8_BLOCK];
    int16_t sum[PIECE / A8_HALF];
    for (size_t at = 0; at < n; at += PIECE) {
        const size_t n_values = n - at < PIECE ? n - at : PIECE;
        k->quantise(in + at, n_values, q, d, sum);
        for (size_t b = 0; b < n_values / A8_BLOCK; b++) {
            const size_t i = a8_at(to, 0, at / A8_BLOCK + b);
            memcpy(to->q + A8_BLOCK * i, q + A8_BLOCK * b, A8_BLOCK);
            to->d[i] = d[b];
            to->sum[2 * i] = sum[2 * b];
            to->sum[2 * i + 1] = sum[2 * b + 1];
            to->dsum[i] = a8_dsum(d[b], sum + 2 * b);
        }
    }
}

static void quantise_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_quantise *op = &x->op->quantise;
    const struct kernels *k = kernels_of(x);
    for (size_t r = lo; r < hi; r++) {
        const struct a8 to = row_a8(x, &op->out, r);
        if (to.side > 1) {
            quantise_beside(k, row_f32(x, &op->in, r), op->in.n, &to);
            continue;
        }
        k->quantise(row_f32(x, &op->in, r), op->in.n, to.q, to.d, to.sum);
        for (size_t b = 0; to.dsum && b < op->in.n / A8_BLOCK; b++)
            to.dsum[b] = a8_dsum(to.d[b], to.sum + 2 * b);
    }
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

static void kv_store_rows(struct cpu_exec *x, size_t lo, size_t hi)
{
    const struct op_kv_store *op = &x->op->kv_store;
    const struct kv_layer *kv = &x->p->kv[op->kv];
    for (size_t h = 0; h < kv->n_heads; h++) {
        struct kv_rows rows = {.k = row_f32(x, &op->k, lo) + h * kv->head_dim_k,
                               .v = row_f32(x, &op->v, lo) + h * kv->head_dim_v,
                               .k_stride = x->rows[op->k.buf].stride,
                               .v_stride = x->rows[op->v.buf].stride};
        for (size_t r = lo; r < hi; r += rows.n) {
            const size_t pos = x->step->pos + r, slot = pos % PAGE_LEN;
            rows.n = hi - r < PAGE_LEN - slot ? hi - r : PAGE_LEN - slot;
            kernels_of(x)->kv_store(kv, x->step->pages[kv->part][pos / PAGE_LEN], h, slot,
                                    rows);
            rows.k += rows.n * rows.k_stride;
            rows.v += rows.n * rows.v_stride;
        }
    }
}

/* At most what gives a chunk a page's rows, for their keys lie side by side in it. */
static size_t kv_store_cost(const struct op_kv_store *op)
{
    const size_t n = op->k.n + op->v.n, most = INLINE_VALUES / PAGE_LEN;
    return n < most ? n : most;
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
    case OP_QUANTISE: return for_rows(x, op->quantise.in.n, quantise_rows);
    case OP_ROPE: return for_rows(x, op->rope.x.n, rope_rows);
    case OP_ROW_SCALE: return for_rows(x, op->row_scale.x.n, row_scale_rows);
    case OP_SCALE: return for_rows(x, op->scale.x.n, scale_rows);
    case OP_KV_STORE: return for_rows(x, kv_store_cost(&op->kv_store), kv_store_rows);
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
