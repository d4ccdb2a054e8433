/* Which values live on across the cut, and what is left of everything else in each half. */
#include "backend/cut.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/op_parts.h"
#include "base/mem.h"

uint32_t program_n_layers(const struct program *p)
{
    int last = -1;
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].layer > last) last = p->ops[i].layer;
    return (uint32_t)(last + 1);
}

/* ---- where ---- */

/* The index of the first op of a layer, or if it has none, of the next that has some. */
static size_t first_op(const struct program *p, uint32_t layer)
{
    size_t i = 0;
    while (p->ops[i].layer < (int)layer)
        i++;
    return i;
}

/* How many KV layers, or states, the ops before `at` have: theirs are the first. */
static uint32_t n_indices(const struct program *p, size_t at,
                          uint32_t *(*index_of)(struct op *))
{
    uint32_t n = 0;
    for (size_t i = 0; i < at; i++) {
        struct op op = p->ops[i];
        const uint32_t *index = index_of(&op);
        if (index && *index >= n) n = *index + 1;
    }
    return n;
}

/* Whether an op from `at` on has one of the first n. */
static bool reaches_back(const struct program *p, size_t at, uint32_t n)
{
    for (size_t i = at; i < p->n_ops; i++) {
        struct op op = p->ops[i];
        const uint32_t *kv = op_kv_index(&op);
        if (kv && *kv < n) return true;
    }
    return false;
}

/* Bytes of a part of a page that belong to its first n KV layers. */
static size_t front_page_bytes(const struct program *p, uint32_t n, enum page_part part)
{
    for (size_t i = n; i < p->n_kv; i++)
        if (p->kv[i].part == part) return p->kv[i].at;
    return p->page_bytes[part];
}

static bool sizes_tell_parts(const struct program *p, uint32_t n_kv)
{
    return p->page_bytes[PAGE_FULL] != p->page_bytes[PAGE_WINDOW] ||
           front_page_bytes(p, n_kv, PAGE_FULL) == front_page_bytes(p, n_kv, PAGE_WINDOW);
}

/* Values of each buffer that ops from `at` on read before any of them writes these:
 * [n_buffers][width]. */
static unsigned char **live_values(const struct program *p, size_t at)
{
    unsigned char **live = mem_zalloc(p->n_buffers, sizeof *live);
    enum { UNKNOWN, LIVE, DEAD };
    for (size_t i = 0; i < p->n_buffers; i++)
        live[i] = mem_zalloc(p->buffers[i].width, 1);
    for (size_t i = at; i < p->n_ops; i++) {
        struct op op = p->ops[i];
        struct op_ref refs[OP_MOST_REFS];
        const size_t n = op_refs(&op, refs);
        for (int pass = 0; pass < 2; pass++)
            for (size_t k = 0; k < n; k++) {
                if (!(pass == 0 ? refs[k].reads : refs[k].writes)) continue;
                unsigned char *v = live[refs[k].ref->buf] + refs[k].ref->at;
                for (size_t j = 0; j < refs[k].ref->n; j++)
                    if (v[j] == UNKNOWN) v[j] = pass == 0 ? LIVE : DEAD;
            }
    }
    for (size_t i = 0; i < p->n_buffers; i++)
        for (size_t j = 0; j < p->buffers[i].width; j++)
            live[i][j] = live[i][j] == LIVE;
    return live;
}

static void free_live(const struct program *p, unsigned char **live)
{
    for (size_t i = 0; i < p->n_buffers; i++)
        free(live[i]);
    free(live);
}

static bool floats_alone_live(const struct program *p, size_t at)
{
    bool ok = true;
    unsigned char **live = live_values(p, at);
    for (size_t i = 0; i < p->n_buffers; i++)
        ok = ok &&
             (p->buffers[i].kind == ROW_F32 || memchr(live[i], 1, p->buffers[i].width) == NULL);
    free_live(p, live);
    return ok;
}

static bool can_cut(const struct program *p, uint32_t layer)
{
    const size_t at = first_op(p, layer);
    const uint32_t n_kv = n_indices(p, at, op_kv_index);
    for (size_t i = 0; i < at; i++)
        if (p->ops[i].kind == OP_HEAD_ROWS) return false;
    return !reaches_back(p, at, n_kv) && sizes_tell_parts(p, n_kv) && floats_alone_live(p, at);
}

uint32_t program_cut_at(const struct program *p, uint32_t layer)
{
    while (layer > 0 && !can_cut(p, layer))
        layer--;
    assert(can_cut(p, layer));
    return layer;
}

/* ---- the halves ---- */

/* A half as it grows. */
struct half {
    struct program *p;
    struct op *ops;
    size_t cap_ops;
    struct row_buffer *buffers;
    uint32_t *of_buffer; /* of the whole's: its index here + 1; 0: it has none yet */
};

static struct half half_begin(const struct program *whole)
{
    struct half h = {.p = mem_alloc(sizeof *h.p)};
    *h.p = *whole;
    h.p->n_ops = h.p->n_buffers = 0;
    h.buffers = mem_zalloc(whole->n_buffers, sizeof *h.buffers);
    h.of_buffer = mem_zalloc(whole->n_buffers, sizeof *h.of_buffer);
    return h;
}

static uint32_t take_buffer(struct half *h, const struct program *whole, uint32_t buf)
{
    if (h->of_buffer[buf] == 0) {
        h->buffers[h->p->n_buffers] = whole->buffers[buf];
        h->of_buffer[buf] = (uint32_t)++h->p->n_buffers;
    }
    return h->of_buffer[buf] - 1;
}

static void take_op(struct half *h, const struct program *whole, const struct op *op)
{
    struct op_ref refs[OP_MOST_REFS];
    MEM_GROW(h->ops, h->p->n_ops, h->cap_ops);
    struct op *mine = &h->ops[h->p->n_ops++];
    *mine = *op;
    const size_t n = op_refs(mine, refs);
    for (size_t i = 0; i < n; i++)
        refs[i].ref->buf = take_buffer(h, whole, refs[i].ref->buf);
}

/* Appends an op to each half for every run of values that lives on. */
static void hand_over(const struct program *whole, size_t at, uint32_t layer,
                      struct half halves[CUT_SIDES])
{
    size_t n = 0;
    unsigned char **live = live_values(whole, at);
    for (uint32_t b = 0; b < whole->n_buffers; b++) {
        const size_t width = whole->buffers[b].width;
        for (size_t i = 0, end; i < width; i = end + 1) {
            for (end = i; end < width && live[b][end];)
                end++;
            if (end == i) continue;
            const struct ref run = {b, i, end - i};
            const struct op out = {
                .kind = OP_OUTPUT, .layer = (int)layer - 1, .output = {run, n}};
            const struct op in = {.kind = OP_INPUT, .layer = (int)layer, .input = {run, n}};
            take_op(&halves[CUT_FRONT], whole, &out);
            take_op(&halves[CUT_BACK], whole, &in);
            n += run.n;
        }
    }
    free_live(whole, live);
    halves[CUT_FRONT].p->n_output = halves[CUT_BACK].p->n_input = n;
}

/* The first n_front KV layers of the whole, or those behind them. */
static void take_kv(struct program *p, const struct program *whole, uint32_t n_front, int side)
{
    const size_t first = side == CUT_FRONT ? 0 : n_front;
    size_t cut[PAGE_PARTS];
    for (int part = 0; part < PAGE_PARTS; part++) {
        cut[part] = front_page_bytes(whole, n_front, (enum page_part)part);
        p->page_bytes[part] =
            side == CUT_FRONT ? cut[part] : whole->page_bytes[part] - cut[part];
    }
    p->n_kv = side == CUT_FRONT ? n_front : whole->n_kv - n_front;
    struct kv_layer *kv = mem_zalloc(p->n_kv, sizeof *kv);
    for (size_t i = 0; i < p->n_kv; i++) {
        kv[i] = whole->kv[first + i];
        if (side == CUT_BACK) kv[i].at -= cut[kv[i].part];
    }
    p->kv = kv;
}

/* The same of the states. */
static void take_states(struct program *p, const struct program *whole, uint32_t n_front,
                        int side)
{
    const size_t first = side == CUT_FRONT ? 0 : n_front;
    const size_t cut =
        n_front < whole->n_states ? whole->states[n_front].at : whole->state_bytes;
    p->n_states = side == CUT_FRONT ? n_front : whole->n_states - n_front;
    p->state_bytes = side == CUT_FRONT ? cut : whole->state_bytes - cut;
    struct state_part *states = mem_zalloc(p->n_states, sizeof *states);
    for (size_t i = 0; i < p->n_states; i++) {
        states[i] = whole->states[first + i];
        if (side == CUT_BACK) states[i].at -= cut;
    }
    p->states = states;
}

/* Indices that count from the first of the half. */
static void rebase(struct half *h, uint32_t n_kv, uint32_t n_states)
{
    for (size_t i = 0; i < h->p->n_ops; i++) {
        uint32_t *kv = op_kv_index(&h->ops[i]), *state = op_state_index(&h->ops[i]);
        if (kv) *kv -= n_kv;
        if (state) *state -= n_states;
    }
}

void program_cut(const struct program *p, uint32_t layer, struct program_cut *out)
{
    assert(can_cut(p, layer));
    const size_t at = first_op(p, layer);
    const uint32_t n_kv = n_indices(p, at, op_kv_index);
    const uint32_t n_states = n_indices(p, at, op_state_index);
    struct half halves[CUT_SIDES] = {half_begin(p), half_begin(p)};
    for (size_t i = 0; i < at; i++)
        take_op(&halves[CUT_FRONT], p, &p->ops[i]);
    hand_over(p, at, layer, halves);
    for (size_t i = at; i < p->n_ops; i++)
        take_op(&halves[CUT_BACK], p, &p->ops[i]);
    rebase(&halves[CUT_BACK], n_kv, n_states);
    for (int side = 0; side < CUT_SIDES; side++) {
        struct half *h = &halves[side];
        take_kv(h->p, p, n_kv, side);
        take_states(h->p, p, n_states, side);
        h->p->buffers = h->buffers;
        h->p->ops = h->ops;
        out->side[side] = *h->p;
        out->ops[side] = h->ops;
        free(h->of_buffer);
        free(h->p);
    }
}

void program_cut_free(struct program_cut *cut)
{
    for (int side = 0; side < CUT_SIDES; side++) {
        free(cut->ops[side]);
        free((void *)cut->side[side].buffers);
        free((void *)cut->side[side].kv);
        free((void *)cut->side[side].states);
    }
    *cut = (struct program_cut){0};
}
