/* The builder: lists that grow, and one function per op. */
#include "model/program.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kv.h"
#include "base/mem.h"

void build_init(struct builder *b, const struct hparams *hp, struct weights *ws,
                enum kv_type kv_type)
{
    memset(b, 0, sizeof *b);
    b->hp = hp;
    b->ws = ws;
    b->kv_type = kv_type;
    b->layer = -1;
}

void build_free(struct builder *b)
{
    for (size_t i = 0; i < b->n_ropes; i++)
        free((double *)b->ropes[i].freq);
    free(b->buffers);
    free(b->ops);
    free(b->kv);
    free(b->ropes);
    free(b->row_scales);
    free(b->states);
    free(b->copies);
    memset(b, 0, sizeof *b);
}

void build_finish(struct builder *b, struct program *p)
{
    *p = (struct program){
        .n_buffers = b->n_buffers,
        .n_ops = b->n_ops,
        .n_kv = b->n_kv,
        .n_ropes = b->n_ropes,
        .n_row_scales = b->n_row_scales,
        .n_states = b->n_states,
        .buffers = b->buffers,
        .ops = b->ops,
        .kv = b->kv,
        .ropes = b->ropes,
        .row_scales = b->row_scales,
        .states = b->states,
        .page_bytes = {b->page_bytes[PAGE_FULL], b->page_bytes[PAGE_WINDOW]},
        .page_unit = {kv_page_unit(b->kv, b->n_kv, PAGE_FULL),
                      kv_page_unit(b->kv, b->n_kv, PAGE_WINDOW)},
        .window = b->window,
        .state_bytes = b->state_bytes,
        .n_vocab = b->hp->n_vocab,
    };
    free(b->copies);
    memset(b, 0, sizeof *b);
}

void program_free(struct program *p)
{
    for (size_t i = 0; i < p->n_ropes; i++)
        free((double *)p->ropes[i].freq);
    free((void *)p->buffers);
    free((void *)p->ops);
    free((void *)p->kv);
    free((void *)p->ropes);
    free((void *)p->row_scales);
    free((void *)p->states);
    memset(p, 0, sizeof *p);
}

static struct ref add_buffer(struct builder *b, const char *name, enum row_kind kind,
                             size_t width)
{
    MEM_GROW(b->buffers, b->n_buffers, b->cap_buffers);
    b->buffers[b->n_buffers] = (struct row_buffer){name, kind, width};
    return (struct ref){(uint32_t)b->n_buffers++, 0, width};
}

static struct ref named_buffer(struct builder *b, const char *name, enum row_kind kind,
                               size_t width)
{
    for (size_t i = 0; i < b->n_buffers; i++) {
        struct row_buffer *r = &b->buffers[i];
        if (r->kind != kind || strcmp(r->name, name) != 0) continue;
        /* Layers may differ in width; the buffer is as wide as the widest. */
        if (width > r->width) r->width = width;
        return (struct ref){(uint32_t)i, 0, width};
    }
    return add_buffer(b, name, kind, width);
}

struct ref build_rows(struct builder *b, const char *name, size_t width)
{
    return named_buffer(b, name, ROW_F32, width);
}

struct ref build_route_rows(struct builder *b, const char *name, size_t n)
{
    return named_buffer(b, name, ROW_ROUTE, n);
}

struct ref ref_part(struct ref r, size_t at, size_t n)
{
    assert(at <= r.n && n <= r.n - at);
    return (struct ref){r.buf, r.at + at, n};
}

static struct op *add_op(struct builder *b, enum op_kind kind)
{
    MEM_GROW(b->ops, b->n_ops, b->cap_ops);
    struct op *op = &b->ops[b->n_ops++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->layer = b->layer;
    return op;
}

static bool overlaps(struct ref a, struct ref c)
{
    return a.buf == c.buf && a.at < c.at + c.n && c.at < a.at + a.n;
}

/* Copies of what has just been written are out of date. */
static void written(struct builder *b, struct ref out)
{
    for (size_t i = 0; i < b->n_copies; i++)
        if (overlaps(b->copies[i].of, out)) b->copies[i].fresh = false;
}

/* The up-to-date A8 copy of in, quantising it first if need be. */
static struct ref quantised(struct builder *b, struct ref in)
{
    size_t i = 0;
    while (i < b->n_copies && (b->copies[i].of.buf != in.buf || b->copies[i].of.at != in.at ||
                               b->copies[i].of.n != in.n))
        i++;
    if (i == b->n_copies) {
        struct ref a8 = add_buffer(b, b->buffers[in.buf].name, ROW_A8, in.n);
        MEM_GROW(b->copies, b->n_copies, b->cap_copies);
        b->copies[b->n_copies++] = (struct a8_copy){.of = in, .a8 = a8};
    }
    struct a8_copy *copy = &b->copies[i];
    if (!copy->fresh) {
        add_op(b, OP_QUANTISE)->quantise = (struct op_quantise){.in = in, .out = copy->a8};
        copy->fresh = true;
    }
    return copy->a8;
}

void build_embed(struct builder *b, const struct weight *table, float scale, struct ref out)
{
    add_op(b, OP_EMBED)->embed = (struct op_embed){.table = table, .out = out, .scale = scale};
    written(b, out);
}

void build_places(struct builder *b, const struct weight *table, struct ref out)
{
    add_op(b, OP_EMBED)->embed =
        (struct op_embed){.table = table, .out = out, .scale = 1, .by_pos = true};
    written(b, out);
}

void build_centre(struct builder *b, struct ref in, size_t group, struct ref out)
{
    add_op(b, OP_CENTRE)->centre = (struct op_centre){in, out, group ? group : in.n};
    written(b, out);
}

void build_size(struct builder *b, struct ref in, struct ref out)
{
    add_op(b, OP_SIZE)->size = (struct op_size){in, out};
    written(b, out);
}

void build_cut(struct builder *b, struct ref in, float factor, struct ref out)
{
    add_op(b, OP_CUT)->cut = (struct op_cut){in, out, factor};
    written(b, out);
}

void build_norm(struct builder *b, struct ref in, const struct weight *w, size_t group,
                struct ref out)
{
    add_op(b, OP_NORM)->norm = (struct op_norm){
        .in = in, .out = out, .w = w, .group = group ? group : in.n, .eps = b->hp->norm_eps};
    written(b, out);
}

void build_post_norm(struct builder *b, struct ref in, const struct weight *w, struct ref out)
{
    add_op(b, OP_NORM)->norm = (struct op_norm){
        .in = in, .out = out, .w = w, .group = in.n, .eps = b->hp->post_norm_eps};
    written(b, out);
}

void build_norm_by(struct builder *b, const struct op_norm *norm)
{
    add_op(b, OP_NORM)->norm = *norm;
    written(b, norm->out);
}

/* The vector beside the one of that name, "<stem>.weight". */
static const struct weight *bias_beside(struct builder *b, const char *name, size_t n)
{
    const char *dot = strrchr(name, '.');
    char bias[128];
    assert(dot && strcmp(dot, ".weight") == 0);
    snprintf(bias, sizeof bias, "%.*s.bias", (int)(dot - name), name);
    return weights_vector(b->ws, bias, n);
}

void build_row_norm(struct builder *b, struct ref in, const char *name, struct ref out)
{
    const struct hparams *hp = b->hp;
    struct op_norm norm = {.in = in, .out = out, .group = in.n, .eps = hp->norm_eps};
    if (hp->norm_vectors != NORM_BARE) norm.w = weights_vector(b->ws, name, in.n);
    if (hp->norm_vectors == NORM_BIASED) norm.bias = bias_beside(b, name, in.n);
    if (hp->centred) {
        build_centre(b, in, 0, out);
        norm.in = out;
    }
    add_op(b, OP_NORM)->norm = norm;
    written(b, out);
}

/* A norm times nothing, and then w. */
void build_fill(struct builder *b, struct ref in, const struct weight *w, struct ref out)
{
    add_op(b, OP_NORM)->norm = (struct op_norm){.in = in,
                                                .out = out,
                                                .w = weights_constant(b->ws, in.n, 0),
                                                .group = in.n,
                                                .eps = b->hp->norm_eps,
                                                .bias = w};
    written(b, out);
}

void build_unit(struct builder *b, struct ref x, size_t group)
{
    add_op(b, OP_NORM)->norm = (struct op_norm){.in = x, .out = x, .group = group};
    written(b, x);
}

void build_l2_norm(struct builder *b, struct ref x, size_t group, float scale)
{
    /* sqrt(mean) is sqrt(sum) · 1/sqrt(group). */
    const float factor = (float)(scale / sqrt((double)group));
    add_op(b, OP_NORM)->norm = (struct op_norm){.in = x,
                                                .out = x,
                                                .w = weights_constant(b->ws, group, factor),
                                                .group = group,
                                                .eps = b->hp->norm_eps / (float)group};
    written(b, x);
}

/* What an adapter has for the matrix: out += scale · B (A in). */
static void add_adapter(struct builder *b, struct ref in, const struct linear *m)
{
    const struct adapter *adapter = &b->hp->adapter;
    struct linear down = {0}, up = {0};
    const size_t rank = weights_adapter(b->ws, m->w, &down.w, &up.w);
    if (rank == 0) return;
    down.out = build_rows(b, "adapter", rank);
    up.out = build_rows(b, "adapted", m->out.n);
    build_matmul(b, in, &down, 1);
    build_matmul(b, down.out, &up, 1);
    const float scale = adapter->by_rank ? adapter->scale / (float)rank : adapter->scale;
    build_add(b, m->out, up.out, scale, m->out);
}

void build_matmul(struct builder *b, struct ref in, const struct linear *mats, uint32_t n_mats)
{
    assert(n_mats >= 1 && n_mats <= 3);
    struct op_matmul mm = {.n_mats = n_mats};
    for (uint32_t i = 0; i < n_mats; i++) {
        mm.mat[i].w = mats[i].w;
        mm.mat[i].factor = mats[i].factor;
        mm.mat[i].bias = mats[i].bias;
        mm.mat[i].out = mats[i].out;
        if (weight_quantised(mats[i].w))
            mm.in_a8 = quantised(b, in);
        else
            mm.in_f32 = in;
    }
    add_op(b, OP_MATMUL)->matmul = mm;
    for (uint32_t i = 0; i < n_mats; i++)
        written(b, mats[i].out);
    for (uint32_t i = 0; i < n_mats && b->hp->adapter.scale != 0; i++)
        add_adapter(b, in, &mats[i]);
}

void build_rope(struct builder *b, struct ref x, size_t head_dim, uint32_t rope)
{
    add_op(b, OP_ROPE)->rope = (struct op_rope){.x = x, .head_dim = head_dim, .rope = rope};
    written(b, x);
}

void build_row_scale(struct builder *b, struct ref x, uint32_t scale)
{
    add_op(b, OP_ROW_SCALE)->row_scale = (struct op_row_scale){.x = x, .scale = scale};
    written(b, x);
}

void build_scale(struct builder *b, struct ref x, float factor)
{
    if (factor == 1.0f) return;
    add_op(b, OP_SCALE)->scale = (struct op_scale){.x = x, .factor = factor};
    written(b, x);
}

void build_factors(struct builder *b, struct ref in, const struct weight *w,
                   const struct weight *bias, struct ref out)
{
    add_op(b, OP_FACTORS)->factors = (struct op_factors){in, out, w, bias};
    written(b, out);
}

void build_limit(struct builder *b, struct ref x, float limit)
{
    if (limit == 0.0f) return;
    add_op(b, OP_LIMIT)->limit = (struct op_limit){.x = x, .limit = limit};
    written(b, x);
}

void build_kv_store(struct builder *b, struct ref k, struct ref v, uint32_t kv)
{
    add_op(b, OP_KV_STORE)->kv_store = (struct op_kv_store){.k = k, .v = v, .kv = kv};
}

void build_attend(struct builder *b, const struct op_attend *attend)
{
    add_op(b, OP_ATTEND)->attend = *attend;
    written(b, attend->out);
}

void build_glu(struct builder *b, struct ref gate, struct ref up, enum glu_kind kind,
               struct ref out)
{
    add_op(b, OP_GLU)->glu = (struct op_glu){.gate = gate, .up = up, .out = out, .kind = kind};
    written(b, out);
}

void build_xielu(struct builder *b, struct ref x, float square, float bend, float slope)
{
    add_op(b, OP_XIELU)->xielu =
        (struct op_xielu){.x = x, .square = square, .bend = bend, .slope = slope};
    written(b, x);
}

void build_add(struct builder *b, struct ref a, struct ref addend, float scale, struct ref out)
{
    add_op(b, OP_ADD)->add = (struct op_add){.a = a, .b = addend, .out = out, .scale = scale};
    written(b, out);
}

void build_route(struct builder *b, const struct op_route *route)
{
    add_op(b, OP_ROUTE)->route = *route;
    written(b, route->scores);
}

void build_experts(struct builder *b, struct ref in, const struct op_matmul_experts *experts)
{
    struct op_matmul_experts ex = *experts;
    if (weight_quantised(ex.w))
        ex.in_a8 = quantised(b, in);
    else
        ex.in_f32 = in;
    add_op(b, OP_MATMUL_EXPERTS)->experts = ex;
    written(b, ex.out);
}

void build_combine(struct builder *b, struct ref in, struct ref route, struct ref out)
{
    add_op(b, OP_COMBINE)->combine = (struct op_combine){.in = in, .route = route, .out = out};
    written(b, out);
}

/* The index of a part of n floats, after all others. */
static uint32_t add_state(struct builder *b, size_t n)
{
    MEM_GROW(b->states, b->n_states, b->cap_states);
    b->states[b->n_states] = (struct state_part){.at = b->state_bytes, .n = n};
    b->state_bytes += mem_round_up(n * sizeof(float), 64);
    return (uint32_t)b->n_states++;
}

void build_conv(struct builder *b, const struct op_conv *conv)
{
    struct op *op = add_op(b, OP_CONV);
    op->conv = *conv;
    op->conv.state = add_state(b, (conv->n_taps - 1) * conv->in.n);
    written(b, conv->out);
}

void build_decay(struct builder *b, const struct op_decay *decay)
{
    add_op(b, OP_DECAY)->decay = *decay;
    written(b, decay->out);
}

void build_recur(struct builder *b, const struct op_recur *recur)
{
    struct op *op = add_op(b, OP_RECUR);
    op->recur = *recur;
    op->recur.state = add_state(b, (size_t)recur->n_heads * recur->n_dim * recur->n_width);
    written(b, recur->out);
}

void build_deal(struct builder *b, struct ref all, size_t run_a, size_t run_b, struct ref to_a,
                struct ref to_b)
{
    add_op(b, OP_RUNS)->runs = (struct op_runs){all, to_a, to_b, run_a, run_b, false};
    written(b, to_a);
    written(b, to_b);
}

void build_join(struct builder *b, struct ref from_a, size_t run_a, struct ref from_b,
                size_t run_b, struct ref all)
{
    add_op(b, OP_RUNS)->runs = (struct op_runs){all, from_a, from_b, run_a, run_b, true};
    written(b, all);
}

void build_row_gate(struct builder *b, struct ref x, struct ref gate, enum glu_kind kind)
{
    assert(kind == GLU_SIGMOID || kind == GLU_SOFTPLUS);
    add_op(b, OP_ROW_GATE)->row_gate =
        (struct op_row_gate){.x = x, .gate = gate, .softplus = kind == GLU_SOFTPLUS};
    written(b, x);
}

void build_head_rows(struct builder *b)
{
    assert(!b->head_rows);
    b->head_rows = true;
    add_op(b, OP_HEAD_ROWS);
}

void build_logits(struct builder *b, struct ref in, float scale, float softcap)
{
    add_op(b, OP_LOGITS)->logits =
        (struct op_logits){.in = in, .scale = scale, .softcap = softcap};
}

uint32_t build_kv(struct builder *b, uint32_t n_heads, size_t head_dim_k, size_t head_dim_v,
                  uint32_t window)
{
    MEM_GROW(b->kv, b->n_kv, b->cap_kv);
    struct kv_layer *kv = &b->kv[b->n_kv];
    *kv = (struct kv_layer){.type = b->kv_type,
                            .n_heads = n_heads,
                            .head_dim_k = head_dim_k,
                            .head_dim_v = head_dim_v,
                            .part = window ? PAGE_WINDOW : PAGE_FULL};
    if (window_len(window) > b->window) b->window = window_len(window);
    /* Limits of hparams.h keep these products far below SIZE_MAX. */
    size_t *page_bytes = &b->page_bytes[kv->part];
    kv->at = *page_bytes;
    *page_bytes += kv_layer_bytes(kv);
    return (uint32_t)b->n_kv++;
}

uint32_t build_rope_table(struct builder *b, enum rope_pairs pairs, size_t n_rot, double *freq,
                          double mscale)
{
    for (size_t i = 0; i < b->n_ropes; i++) {
        const struct rope *r = &b->ropes[i];
        if (r->pairs != pairs || r->n_rot != n_rot || memcmp(&r->mscale, &mscale, 8) != 0 ||
            memcmp(r->freq, freq, n_rot / 2 * sizeof *freq) != 0)
            continue;
        free(freq);
        return (uint32_t)i;
    }
    MEM_GROW(b->ropes, b->n_ropes, b->cap_ropes);
    b->ropes[b->n_ropes] =
        (struct rope){.pairs = pairs, .n_rot = n_rot, .freq = freq, .mscale = mscale};
    return (uint32_t)b->n_ropes++;
}

uint32_t build_row_scale_table(struct builder *b, double log_scale, uint32_t period,
                               uint32_t ahead)
{
    for (size_t i = 0; i < b->n_row_scales; i++)
        if (b->row_scales[i].period == period && b->row_scales[i].ahead == ahead &&
            memcmp(&b->row_scales[i].log_scale, &log_scale, 8) == 0)
            return (uint32_t)i;
    MEM_GROW(b->row_scales, b->n_row_scales, b->cap_row_scales);
    b->row_scales[b->n_row_scales] = (struct row_scale){log_scale, period, ahead};
    return (uint32_t)b->n_row_scales++;
}
