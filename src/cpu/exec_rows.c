/* Ops that work row by row: what each does to a tile (exec_runs.c), and how the few that have
 * no tiles are cut into chunks of rows. */
#include <assert.h>
#include <string.h>

#include "backend/positions.h"
#include "base/numeric_c.h"
#include "base/pool.h"
#include "cpu/exec_impl.h"

/* Below this many values an op is not worth waking the pool. */
enum { INLINE_VALUES = 16384 };

enum { QUANTISE_RUN = 512 }; /* values of a row that are quantised in one go */

/* A tile's part of a row. */
static struct ref part_of(const struct ref *ref, const struct tile *t)
{
    const size_t from = ref->n * t->from / t->n_units, to = ref->n * t->to / t->n_units;
    return (struct ref){ref->buf, ref->at + from, to - from};
}

static void embed_tile(const struct cpu_exec *x, const struct op_embed *op,
                       const struct tile *t)
{
    const struct step *step = x->step;
    for (size_t r = t->lo; r < t->hi; r++)
        ref_embed((const struct cpu_weight *)op->table,
                  op->by_pos ? step->pos + r : (size_t)step->tokens[r], op->scale,
                  row_f32(x, &op->out, r));
}

static void norm_tile(const struct cpu_exec *x, const struct op_norm *op, const struct tile *t)
{
    const struct ref in = part_of(&op->in, t), out = part_of(&op->out, t);
    const bool apart = op->w && op->w->n_cols > op->group;
    const size_t from = apart ? in.at - op->in.at : 0;
    const float *w = vector_of(op->w), *bias = vector_of(op->bias);
    const struct norm norm = {.x = row_f32(x, &in, t->lo),
                              .out = row_f32(x, &out, t->lo),
                              .x_stride = x->rows[in.buf].stride,
                              .out_stride = x->rows[out.buf].stride,
                              .n_rows = t->hi - t->lo,
                              .w = w ? w + from : NULL,
                              .bias = bias ? bias + from : NULL,
                              .w_step = apart ? op->group : 0,
                              .n = op->group,
                              .n_groups = in.n / op->group,
                              .eps = op->eps};
    kernels_of(x)->norm(&norm);
}

static void centre_tile(const struct cpu_exec *x, const struct op_centre *op,
                        const struct tile *t)
{
    const struct ref in = part_of(&op->in, t), out = part_of(&op->out, t);
    for (size_t r = t->lo; r < t->hi; r++)
        for (size_t i = 0; i < in.n; i += op->group)
            kernels_of(x)->centre(row_f32(x, &in, r) + i, op->group, row_f32(x, &out, r) + i);
}

static void size_tile(const struct cpu_exec *x, const struct op_size *op, const struct tile *t)
{
    for (size_t r = t->lo; r < t->hi; r++)
        *row_f32(x, &op->out, r) = ref_size(row_f32(x, &op->in, r), op->in.n);
}

static void cut_tile(const struct cpu_exec *x, const struct op_cut *op, const struct tile *t)
{
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->cut(row_f32(x, &op->in, r), op->in.n, op->factor,
                           row_f32(x, &op->out, r));
}

static void rope_tile(const struct cpu_exec *x, const struct op_rope *op, const struct tile *t)
{
    const struct ref heads = part_of(&op->x, t);
    const struct rope *rope = &x->p->ropes[op->rope];
    for (size_t r = t->lo; r < t->hi; r++)
        for (size_t i = 0; i < heads.n; i += op->head_dim)
            kernels_of(x)->rope(row_f32(x, &heads, r) + i, rope->pairs, rope->n_rot / 2,
                                x->cos_sin[op->rope] + r * rope->n_rot);
}

static void row_scale_tile(const struct cpu_exec *x, const struct op_row_scale *op,
                           const struct tile *t)
{
    const struct ref part = part_of(&op->x, t);
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->scale(row_f32(x, &part, r), part.n, x->factors[op->scale][r]);
}

static void scale_tile(const struct cpu_exec *x, const struct op_scale *op,
                       const struct tile *t)
{
    const struct ref part = part_of(&op->x, t);
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->scale(row_f32(x, &part, r), part.n, op->factor);
}

static void factors_tile(const struct cpu_exec *x, const struct op_factors *op,
                         const struct tile *t)
{
    const float *w = vector_of(op->w), *bias = vector_of(op->bias);
    for (size_t r = t->lo; r < t->hi; r++) {
        float *out = row_f32(x, &op->out, r);
        kernels_of(x)->glu(GLU_LINEAR, row_f32(x, &op->in, r), w, op->in.n, out);
        if (bias) kernels_of(x)->add(out, bias, 1, op->in.n, out);
    }
}

static void limit_tile(const struct cpu_exec *x, const struct op_limit *op,
                       const struct tile *t)
{
    const struct ref part = part_of(&op->x, t);
    for (size_t r = t->lo; r < t->hi; r++)
        ref_limit(row_f32(x, &part, r), part.n, op->limit);
}

static void xielu_tile(const struct cpu_exec *x, const struct op_xielu *op,
                       const struct tile *t)
{
    const struct ref part = part_of(&op->x, t);
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->xielu(row_f32(x, &part, r), part.n, op->square, op->bend, op->slope);
}

static void glu_tile(const struct cpu_exec *x, const struct op_glu *op, const struct tile *t)
{
    const struct ref gate = part_of(&op->gate, t), up = part_of(&op->up, t);
    const struct ref out = part_of(&op->out, t);
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->glu(op->kind, row_f32(x, &gate, r), row_f32(x, &up, r), out.n,
                           row_f32(x, &out, r));
}

static void add_tile(const struct cpu_exec *x, const struct op_add *op, const struct tile *t)
{
    const struct ref a = part_of(&op->a, t), b = part_of(&op->b, t);
    const struct ref out = part_of(&op->out, t);
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->add(row_f32(x, &a, r), row_f32(x, &b, r), op->scale, out.n,
                           row_f32(x, &out, r));
}

/* From the part to the whole if in, else back. */
static void copy(float *whole, float *part, size_t n, bool in)
{
    memcpy(in ? whole : part, in ? part : whole, n * sizeof *whole);
}

static void runs_tile(const struct cpu_exec *x, const struct op_runs *op, const struct tile *t)
{
    const struct ref all = part_of(&op->all, t), b = part_of(&op->b, t);
    const struct ref a = runs_repeat(op) ? op->a : part_of(&op->a, t);
    const size_t a_step = runs_repeat(op) ? 0 : op->run_a, turn = op->run_a + op->run_b;
    for (size_t r = t->lo; r < t->hi; r++) {
        float *of_all = row_f32(x, &all, r);
        float *of_a = row_f32(x, &a, r), *of_b = row_f32(x, &b, r);
        for (size_t i = 0; i < all.n / turn; i++) {
            float *run_a = of_all + i * turn, *run_b = run_a + op->run_a;
            copy(run_a, of_a + i * a_step, op->run_a, op->join);
            copy(run_b, of_b + i * op->run_b, op->run_b, op->join);
        }
    }
}

static void row_gate_tile(const struct cpu_exec *x, const struct op_row_gate *op,
                          const struct tile *t)
{
    const struct ref gates = part_of(&op->gate, t), runs = part_of(&op->x, t);
    const size_t n = op->x.n / op->gate.n;
    for (size_t r = t->lo; r < t->hi; r++) {
        const float *gate = row_f32(x, &gates, r);
        float *run = row_f32(x, &runs, r);
        for (size_t i = 0; i < gates.n; i++)
            kernels_of(x)->scale(run + i * n, n,
                                 op->softplus ? num_softplus(gate[i]) : num_sigmoid(gate[i]));
    }
}

static void route_tile(const struct cpu_exec *x, const struct op_route *op,
                       const struct tile *t)
{
    const struct rows *out = &x->rows[op->out.buf];
    for (size_t r = t->lo; r < t->hi; r++) {
        size_t at = r * out->stride + op->out.at;
        ref_route(op, row_f32(x, &op->scores, r), vector_of(op->select), vector_of(op->scales),
                  out->ids + at, out->weights + at);
    }
}

static void input_tile(const struct cpu_exec *x, const struct op_input *op,
                       const struct tile *t)
{
    for (size_t r = t->lo; r < t->hi; r++)
        memcpy(row_f32(x, &op->out, r), x->step->input + r * x->p->n_input + op->at,
               op->out.n * sizeof(float));
}

static void output_tile(const struct cpu_exec *x, const struct op_output *op,
                        const struct tile *t)
{
    for (size_t r = t->lo; r < t->hi; r++)
        memcpy(x->step->output + r * x->p->n_output + op->at, row_f32(x, &op->in, r),
               op->in.n * sizeof(float));
}

static void combine_tile(const struct cpu_exec *x, const struct op_combine *op,
                         const struct tile *t)
{
    const struct rows *route = &x->rows[op->route.buf];
    for (size_t r = t->lo; r < t->hi; r++)
        kernels_of(x)->combine(row_f32(x, &op->in, r), op->out.n,
                               route->weights + r * route->stride + op->route.at, op->route.n,
                               op->out.n, row_f32(x, &op->out, r));
}

/* n values of all rows of the strip that begins at `to`. */
static void quantise_strip(const struct kernels *k, const float *in, size_t stride, size_t n,
                           const struct a8 *to)
{
    const size_t i = a8_at(to, 0, 0);
    k->quantise(&(struct quantise){.x = in,
                                   .x_stride = stride,
                                   .n_rows = to->side,
                                   .n = n,
                                   .q = to->q + A8_BLOCK * i,
                                   .d = to->d + i,
                                   .dsum = to->dsum ? to->dsum + i : NULL,
                                   .sum = to->sum + 2 * i});
}

/* n values of one row of a strip, whose others are not at hand. */
static void quantise_beside(const struct kernels *k, const float *in, size_t n,
                            const struct a8 *to)
{
    int8_t q[QUANTISE_RUN];
    float d[QUANTISE_RUN / A8_BLOCK], dsum[QUANTISE_RUN / A8_BLOCK];
    int16_t sum[QUANTISE_RUN / A8_HALF];
    size_t i = a8_at(to, 0, 0);
    for (size_t at = 0; at < n; at += QUANTISE_RUN) {
        const size_t n_values = n - at < QUANTISE_RUN ? n - at : QUANTISE_RUN;
        k->quantise(&(struct quantise){.x = in + at,
                                       .n_rows = 1,
                                       .n = n_values,
                                       .q = q,
                                       .d = d,
                                       .dsum = dsum,
                                       .sum = sum});
        for (size_t b = 0; b < n_values / A8_BLOCK; b++, i += to->side) {
            memcpy(to->q + A8_BLOCK * i, q + A8_BLOCK * b, A8_BLOCK);
            to->d[i] = d[b];
            to->dsum[i] = dsum[b];
            to->sum[2 * i] = sum[2 * b];
            to->sum[2 * i + 1] = sum[2 * b + 1];
        }
    }
}

static void quantise_tile(const struct cpu_exec *x, const struct op_quantise *op,
                          const struct tile *t)
{
    const struct kernels *k = kernels_of(x);
    const struct ref in = part_of(&op->in, t), out = part_of(&op->out, t);
    for (size_t r = t->lo, n; r < t->hi; r += n) {
        const struct a8 to = row_a8(x, &out, r);
        const bool whole = to.first % to.side == 0 && t->hi - r >= to.side;
        n = whole ? to.side : 1;
        if (whole)
            quantise_strip(k, row_f32(x, &in, r), x->rows[in.buf].stride, in.n, &to);
        else
            quantise_beside(k, row_f32(x, &in, r), in.n, &to);
    }
}

static void kv_store_tile(const struct cpu_exec *x, const struct op_kv_store *op,
                          const struct tile *t)
{
    const struct kv_layer *kv = &x->p->kv[op->kv];
    const size_t k_stride = x->rows[op->k.buf].stride, v_stride = x->rows[op->v.buf].stride;
    const size_t from = kv->n_heads * t->from / t->n_units;
    const size_t to = kv->n_heads * t->to / t->n_units;
    for (size_t head = from; head < to; head++) {
        struct kv_rows rows = {.k = row_f32(x, &op->k, t->lo) + head * kv->head_dim_k,
                               .v = row_f32(x, &op->v, t->lo) + head * kv->head_dim_v,
                               .k_stride = k_stride,
                               .v_stride = v_stride};
        for (size_t r = t->lo; r < t->hi; r += rows.n) {
            const size_t pos = x->step->pos + r, slot = pos % PAGE_LEN;
            rows.n = t->hi - r < PAGE_LEN - slot ? t->hi - r : PAGE_LEN - slot;
            kernels_of(x)->kv_store(kv, x->step->pages[kv->part][pos / PAGE_LEN], head, slot,
                                    rows);
            rows.k += rows.n * k_stride;
            rows.v += rows.n * v_stride;
        }
    }
}

void run_tile(const struct cpu_exec *x, const struct op *op, const struct tile *t)
{
    switch (op->kind) {
    case OP_EMBED: embed_tile(x, &op->embed, t); break;
    case OP_CENTRE: centre_tile(x, &op->centre, t); break;
    case OP_SIZE: size_tile(x, &op->size, t); break;
    case OP_CUT: cut_tile(x, &op->cut, t); break;
    case OP_NORM: norm_tile(x, &op->norm, t); break;
    case OP_QUANTISE: quantise_tile(x, &op->quantise, t); break;
    case OP_ROPE: rope_tile(x, &op->rope, t); break;
    case OP_ROW_SCALE: row_scale_tile(x, &op->row_scale, t); break;
    case OP_SCALE: scale_tile(x, &op->scale, t); break;
    case OP_FACTORS: factors_tile(x, &op->factors, t); break;
    case OP_LIMIT: limit_tile(x, &op->limit, t); break;
    case OP_KV_STORE: kv_store_tile(x, &op->kv_store, t); break;
    case OP_ATTEND: attend_tile(x, &op->attend, t); break;
    case OP_XIELU: xielu_tile(x, &op->xielu, t); break;
    case OP_GLU: glu_tile(x, &op->glu, t); break;
    case OP_ADD: add_tile(x, &op->add, t); break;
    case OP_ROUTE: route_tile(x, &op->route, t); break;
    case OP_COMBINE: combine_tile(x, &op->combine, t); break;
    case OP_RUNS: runs_tile(x, &op->runs, t); break;
    case OP_ROW_GATE: row_gate_tile(x, &op->row_gate, t); break;
    case OP_INPUT: input_tile(x, &op->input, t); break;
    case OP_OUTPUT: output_tile(x, &op->output, t); break;
    default: assert(false); /* the others have no tiles */
    }
}

/* ---- what is cut by rows only ---- */

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

bool run_logits(struct cpu_exec *x)
{
    const struct op_logits *op = &x->op->logits;
    if (op->in.buf == x->direct && op->scale == 1.0f && op->softcap == 0.0f) return true;
    return for_rows(x, op->in.n, logits_rows);
}

bool run_positions(struct cpu_exec *x)
{
    return for_rows(x, 16 * 64 * x->p->n_ropes, position_tables);
}
