/* Ops that run together. What stands between two products works on heads, or on blocks of
 * columns, that go each their own way: a thread takes the same rows and columns, a tile,
 * through all of these ops, so it finds in its own caches what it left there an op before, and
 * threads meet once and not after each op. Products cut their matrices in the same proportion
 * (exec_matmul.c), so of few rows most of what a tile reads was made by the thread that takes
 * it.
 *
 * What a step of the 0.6B shape takes beside the products, 2 threads, ms, op by op and so: 1
 * row 0.62 and 0.57, 8 rows 2.10 and 1.90, 512 rows 174 and 171 (Emerald Rapids, 2026-11). */
#include "backend/op_parts.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/exec_impl.h"

/* Below INLINE_COST a run is not worth waking the pool: a row of 3072 values through its gate
 * and quantised, 18432, takes 2.8 us and on two threads 3.5 (Emerald Rapids, 2026-11). A tile
 * has whole strips of rows, and of each row values enough to be fetched in one run. */
enum { INLINE_COST = 24576, TILE_ROWS = 16, TILE_VALUES = 512 };
_Static_assert(TILE_ROWS % PANEL_ROWS == 0, "a strip has at most PANEL_ROWS rows");

/* ---- what can be cut ---- */

/* Columns that are cut anywhere between blocks: a block's lines are one thread's. */
static size_t blocks_of(size_t n)
{
    return n % A8_BLOCK == 0 ? n / A8_BLOCK : 1;
}

/* The equal parts of a row that go each their own way, 1: only rows do; 0: they do not, or the
 * op is cut by other rules. Attention of few rows is cut by KV heads, or is no part of a run
 * (exec_attend.c). */
static size_t units_of(const struct program *p, const struct op *op, bool few)
{
    switch (op->kind) {
    case OP_CENTRE: return op->centre.in.n / op->centre.group;
    case OP_NORM: return op->norm.in.n / op->norm.group;
    case OP_QUANTISE: return op->quantise.in.n / A8_BLOCK;
    case OP_ROPE: return op->rope.x.n / op->rope.head_dim;
    case OP_ROW_SCALE: return blocks_of(op->row_scale.x.n);
    case OP_SCALE: return blocks_of(op->scale.x.n);
    case OP_LIMIT: return blocks_of(op->limit.x.n);
    case OP_KV_STORE: return p->kv[op->kv_store.kv].n_heads;
    case OP_ATTEND: return few ? p->kv[op->attend.kv].n_heads : 0;
    case OP_XIELU: return blocks_of(op->xielu.x.n);
    case OP_GLU: return blocks_of(op->glu.out.n);
    case OP_ADD: return blocks_of(op->add.out.n);
    case OP_RUNS: return runs_repeat(&op->runs) ? 1 : runs_turns(&op->runs);
    case OP_ROW_GATE: return op->row_gate.gate.n;
    case OP_EMBED:
    case OP_SIZE:
    case OP_CUT:
    case OP_FACTORS:
    case OP_ROUTE:
    case OP_COMBINE:
    case OP_INPUT:
    case OP_OUTPUT: return 1;
    default: return 0;
    }
}

/* What a row costs: values, times what one takes in the place of a norm's. */
static size_t cost_of(const struct op *op)
{
    switch (op->kind) {
    case OP_EMBED: return op->embed.out.n;
    case OP_CENTRE: return 2 * op->centre.in.n;
    case OP_SIZE: return 2 * op->size.in.n;
    case OP_CUT: return 4 * op->cut.in.n;
    case OP_NORM: return op->norm.in.n;
    case OP_QUANTISE: return 2 * op->quantise.in.n;
    case OP_ROPE: return op->rope.x.n;
    case OP_ROW_SCALE: return op->row_scale.x.n;
    case OP_SCALE: return op->scale.x.n;
    case OP_FACTORS: return op->factors.in.n;
    case OP_LIMIT: return op->limit.x.n;
    /* A key's numbers lie in as many lines, with f16 in half as many, none of them at hand. */
    case OP_KV_STORE: return 10 * (op->kv_store.k.n + op->kv_store.v.n);
    case OP_XIELU: return 4 * op->xielu.x.n;
    case OP_GLU: return 4 * op->glu.out.n;
    case OP_ADD: return op->add.out.n;
    case OP_ROUTE: return op->route.scores.n * op->route.out.n;
    case OP_COMBINE: return op->combine.in.n;
    case OP_RUNS: return op->runs.all.n;
    case OP_ROW_GATE: return op->row_gate.x.n;
    case OP_INPUT: return op->input.out.n;
    case OP_OUTPUT: return op->output.in.n;
    default: return 0;
    }
}

/* ---- runs ---- */

static bool overlap(const struct ref *a, const struct ref *b)
{
    return a->buf == b->buf && a->at < b->at + b->n && b->at < a->at + a->n;
}

/* Whether the parts of one's rows are those of the other's, wherever they share values. */
static bool are_parallel(struct op a, struct op b)
{
    struct op_ref of_a[OP_MOST_REFS], of_b[OP_MOST_REFS];
    const size_t n_a = op_refs(&a, of_a), n_b = op_refs(&b, of_b);
    for (size_t i = 0; i < n_a; i++) {
        for (size_t j = 0; j < n_b; j++) {
            const struct ref *r = of_a[i].ref, *s = of_b[j].ref;
            if (overlap(r, s) && (r->at != s->at || r->n != s->n)) return false;
        }
    }
    return true;
}

/* The longest of the rows that an op works on. */
static size_t values_of(struct op op)
{
    struct op_ref refs[OP_MOST_REFS];
    size_t most = 0;
    for (size_t i = 0, n = op_refs(&op, refs); i < n; i++)
        if (refs[i].ref->n > most) most = refs[i].ref->n;
    return most;
}

/* An op joins if the coarser cut of the two is one of the other: a row's cut is not given up
 * for a longer run. */
static bool joins(const struct program *p, size_t first, const struct run *run, size_t n_units)
{
    const struct op *op = &p->ops[first + run->n_ops];
    const size_t coarser = n_units < run->n_units ? n_units : run->n_units;
    const size_t finer = n_units < run->n_units ? run->n_units : n_units;
    if (n_units == 0 || finer % coarser != 0 || (coarser == 1 && finer > 1)) return false;
    for (size_t i = 0; i < run->n_ops; i++)
        if (!are_parallel(p->ops[first + i], *op)) return false;
    return true;
}

static struct run find_run(const struct program *p, size_t first, bool few)
{
    const size_t n_units = units_of(p, &p->ops[first], few);
    struct run run = {.n_units = (uint32_t)n_units};
    if (n_units == 0) return run;
    for (size_t i = first; i < p->n_ops; i++) {
        const size_t n = units_of(p, &p->ops[i], few), n_values = values_of(p->ops[i]);
        if (!joins(p, first, &run, n)) break;
        if (n < run.n_units) run.n_units = (uint32_t)n;
        run.cost += cost_of(&p->ops[i]);
        if (n_values > run.n_values) run.n_values = n_values;
        if (p->ops[i].kind == OP_KV_STORE) run.stores = true;
        run.n_ops++;
    }
    return run;
}

/* An op that rotates queries and keys side by side cuts its row across the heads of either: if
 * its last part is what the layer stores as keys, it becomes two ops. Returns how many. */
static size_t split_rope(const struct program *p, size_t i, struct op out[2])
{
    const struct op *op = &p->ops[i];
    const struct ref all = op->rope.x;
    out[0] = *op;
    for (size_t j = i + 1; j < p->n_ops && p->ops[j].layer == op->layer; j++) {
        const struct ref *k = &p->ops[j].kv_store.k;
        if (p->ops[j].kind != OP_KV_STORE || k->buf != all.buf || k->at <= all.at ||
            k->at + k->n != all.at + all.n)
            continue;
        out[1] = *op;
        out[0].rope.x.n = k->at - all.at;
        out[1].rope.x = *k;
        return 2;
    }
    return 1;
}

struct op *runs_ops(const struct program *p, size_t *n)
{
    struct op *ops = mem_zalloc(2 * p->n_ops, sizeof *ops);
    *n = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind == OP_ROPE)
            *n += split_rope(p, i, ops + *n);
        else
            ops[(*n)++] = p->ops[i];
    }
    return ops;
}

struct run *runs_find(const struct program *p)
{
    struct run *runs = mem_zalloc(2 * p->n_ops, sizeof *runs);
    for (size_t i = 0; i < p->n_ops; i++) {
        runs[i] = find_run(p, i, false);
        runs[p->n_ops + i] = find_run(p, i, true);
    }
    return runs;
}

/* ---- tiles ---- */

struct tiles {
    struct cpu_exec *x;
    const struct op *ops;
    const struct run *run;
    size_t n_rows, n_parts; /* rows of a tile, parts of a row */
};

/* The parts of some rows follow each other: of 512 rows 447 ms for the 0.6B shape, and 454
 * where the rows of a part did (Emerald Rapids, 2026-11). */
static void tile_chunk(void *ctx, size_t chunk, int worker)
{
    const struct tiles *c = ctx;
    const size_t n_units = c->run->n_units, part = chunk % c->n_parts;
    const size_t lo = c->x->lo + chunk / c->n_parts * c->n_rows, hi = lo + c->n_rows;
    const struct tile t = {.lo = lo,
                           .hi = hi < c->x->hi ? hi : c->x->hi,
                           .from = n_units * part / c->n_parts,
                           .to = n_units * (part + 1) / c->n_parts,
                           .n_units = n_units,
                           .scratch = scratch_of(c->x, worker)};
    for (size_t i = 0; i < c->run->n_ops; i++)
        run_tile(c->x, &c->ops[i], &t);
}

/* The attention of a run, or NULL. */
static const struct op_attend *attention_of(const struct op *ops, const struct run *run)
{
    for (size_t i = 0; i < run->n_ops; i++)
        if (ops[i].kind == OP_ATTEND) return &ops[i].attend;
    return NULL;
}

const struct run *runs_at(struct cpu_exec *x, size_t i)
{
    const struct run *without = &x->runs[i], *with = &x->runs[x->p->n_ops + i];
    if (x->hi - x->lo > FEW_ROWS) return without;
    const struct op_attend *attention = attention_of(&x->p->ops[i], with);
    return attention && attend_is_apart(x, attention) ? without : with;
}

/* As many parts as attention has alone. Where that is more than two per thread, it is no more
 * than rows have long runs of values. */
static size_t parts_of_attention(const struct cpu_exec *x, const struct op_attend *op,
                                 size_t n_long)
{
    const size_t n_wanted = 2 * (size_t)pool_n_threads(backend_of(x)->pool);
    const size_t n = attend_head_chunks(x, op), most = n_long > n_wanted ? n_long : n_wanted;
    return n < most ? n : most;
}

/* Of rows that are not cut a tile has as many as are worth it. Keys that are stored together
 * are transposed together (kv_store_avx512.c). */
static size_t rows_per_tile(const struct run *run, size_t n_rows)
{
    size_t n = TILE_ROWS;
    if (run->n_units == 1 && !run->stores) n = (INLINE_COST + run->cost - 1) / run->cost;
    return n < n_rows ? n : n_rows;
}

bool runs_run(struct cpu_exec *x, const struct run *run)
{
    const size_t n_rows = x->hi - x->lo;
    const size_t n_long = (run->n_values + TILE_VALUES - 1) / TILE_VALUES;
    struct tiles c = {.x = x, .ops = x->op, .run = run, .n_rows = n_rows, .n_parts = 1};
    const struct op_attend *attention = attention_of(c.ops, run);
    if (attention) {
        c.n_parts = parts_of_attention(x, attention, n_long);
    } else if (n_rows * run->cost > INLINE_COST) {
        c.n_rows = rows_per_tile(run, n_rows);
        c.n_parts = n_long;
    }
    if (c.n_parts > run->n_units) c.n_parts = run->n_units;
    const size_t n_tiles = (n_rows + c.n_rows - 1) / c.n_rows * c.n_parts;
    return pool_run(backend_of(x)->pool, n_tiles, tile_chunk, &c, x->step->cancel);
}
