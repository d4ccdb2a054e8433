/* One switch over the kinds of ops for each thing that they point at. */
#include "backend/op_parts.h"

#include <assert.h>

struct refs {
    struct op_ref *out;
    size_t n;
};

static void add(struct refs *r, struct ref *ref, bool reads, bool writes)
{
    if (ref->n == 0) return;
    assert(r->n < OP_MOST_REFS);
    r->out[r->n++] = (struct op_ref){ref, reads, writes};
}

static void reads(struct refs *r, struct ref *ref)
{
    add(r, ref, true, false);
}

static void writes(struct refs *r, struct ref *ref)
{
    add(r, ref, false, true);
}

static void in_place(struct refs *r, struct ref *ref)
{
    add(r, ref, true, true);
}

static void matmul_refs(struct refs *r, struct op_matmul *m)
{
    reads(r, &m->in_f32);
    reads(r, &m->in_a8);
    for (uint32_t i = 0; i < m->n_mats; i++)
        writes(r, &m->mat[i].out);
}

static void experts_refs(struct refs *r, struct op_matmul_experts *e)
{
    reads(r, &e->in_f32);
    reads(r, &e->in_a8);
    reads(r, &e->route);
    writes(r, &e->out);
}

static void recur_refs(struct refs *r, struct op_recur *o)
{
    reads(r, &o->q);
    reads(r, &o->k);
    reads(r, &o->v);
    reads(r, &o->gates);
    writes(r, &o->out);
}

static void runs_refs(struct refs *r, struct op_runs *o)
{
    struct ref *const parts[] = {&o->a, &o->b};
    if (!o->join) reads(r, &o->all);
    for (size_t i = 0; i < 2; i++)
        add(r, parts[i], o->join, !o->join);
    if (o->join) writes(r, &o->all);
}

size_t op_refs(struct op *op, struct op_ref out[OP_MOST_REFS])
{
    struct refs r = {out, 0};
    switch (op->kind) {
    case OP_EMBED: writes(&r, &op->embed.out); break;
    case OP_CENTRE: reads(&r, &op->centre.in), writes(&r, &op->centre.out); break;
    case OP_SIZE: reads(&r, &op->size.in), writes(&r, &op->size.out); break;
    case OP_CUT: reads(&r, &op->cut.in), writes(&r, &op->cut.out); break;
    case OP_NORM: reads(&r, &op->norm.in), writes(&r, &op->norm.out); break;
    case OP_QUANTISE: reads(&r, &op->quantise.in), writes(&r, &op->quantise.out); break;
    case OP_MATMUL: matmul_refs(&r, &op->matmul); break;
    case OP_ROPE: in_place(&r, &op->rope.x); break;
    case OP_ROW_SCALE: in_place(&r, &op->row_scale.x); break;
    case OP_SCALE: in_place(&r, &op->scale.x); break;
    case OP_FACTORS: reads(&r, &op->factors.in), writes(&r, &op->factors.out); break;
    case OP_LIMIT: in_place(&r, &op->limit.x); break;
    case OP_KV_STORE: reads(&r, &op->kv_store.k), reads(&r, &op->kv_store.v); break;
    case OP_ATTEND: reads(&r, &op->attend.q), writes(&r, &op->attend.out); break;
    case OP_GLU:
        reads(&r, &op->glu.gate), reads(&r, &op->glu.up), writes(&r, &op->glu.out);
        break;
    case OP_XIELU: in_place(&r, &op->xielu.x); break;
    case OP_ADD: reads(&r, &op->add.a), reads(&r, &op->add.b), writes(&r, &op->add.out); break;
    case OP_ROUTE: in_place(&r, &op->route.scores), writes(&r, &op->route.out); break;
    case OP_MATMUL_EXPERTS: experts_refs(&r, &op->experts); break;
    case OP_COMBINE:
        reads(&r, &op->combine.in), reads(&r, &op->combine.route);
        writes(&r, &op->combine.out);
        break;
    case OP_CONV: reads(&r, &op->conv.in), writes(&r, &op->conv.out); break;
    case OP_DECAY: reads(&r, &op->decay.in), writes(&r, &op->decay.out); break;
    case OP_RECUR: recur_refs(&r, &op->recur); break;
    case OP_RUNS: runs_refs(&r, &op->runs); break;
    case OP_ROW_GATE: in_place(&r, &op->row_gate.x), reads(&r, &op->row_gate.gate); break;
    case OP_HEAD_ROWS: break;
    case OP_LOGITS: in_place(&r, &op->logits.in); break;
    case OP_INPUT: writes(&r, &op->input.out); break;
    case OP_OUTPUT: reads(&r, &op->output.in); break;
    }
    return r.n;
}

struct weight_slots {
    const struct weight ***out;
    size_t n;
};

static void slot(struct weight_slots *s, const struct weight **w)
{
    if (*w) s->out[s->n++] = w;
}

size_t op_weights(struct op *op, const struct weight **out[OP_MOST_WEIGHTS])
{
    struct weight_slots s = {out, 0};
    switch (op->kind) {
    case OP_EMBED: slot(&s, &op->embed.table); break;
    case OP_NORM: slot(&s, &op->norm.w), slot(&s, &op->norm.bias); break;
    case OP_FACTORS: slot(&s, &op->factors.w), slot(&s, &op->factors.bias); break;
    case OP_MATMUL:
        for (uint32_t i = 0; i < op->matmul.n_mats; i++) {
            slot(&s, &op->matmul.mat[i].w);
            slot(&s, &op->matmul.mat[i].factor);
            slot(&s, &op->matmul.mat[i].bias);
        }
        break;
    case OP_ATTEND: slot(&s, &op->attend.sinks); break;
    case OP_ROUTE: slot(&s, &op->route.select), slot(&s, &op->route.scales); break;
    case OP_MATMUL_EXPERTS:
        slot(&s, &op->experts.w), slot(&s, &op->experts.factors), slot(&s, &op->experts.bias);
        break;
    case OP_CONV: slot(&s, &op->conv.w), slot(&s, &op->conv.bias); break;
    case OP_DECAY: slot(&s, &op->decay.bias), slot(&s, &op->decay.a); break;
    case OP_RECUR: slot(&s, &op->recur.skip), slot(&s, &op->recur.a); break;
    default: break;
    }
    return s.n;
}

uint32_t *op_kv_index(struct op *op)
{
    if (op->kind == OP_KV_STORE) return &op->kv_store.kv;
    return op->kind == OP_ATTEND ? &op->attend.kv : NULL;
}

uint32_t *op_state_index(struct op *op)
{
    if (op->kind == OP_CONV) return &op->conv.state;
    return op->kind == OP_RECUR ? &op->recur.state : NULL;
}
