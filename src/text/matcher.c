/* Sets of places, found once and then known by number. */
#include "text/matcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/grammar.h"

/* The rules to come back to are lists that share their ends: the place behind the call, and the
 * list before it. List 0 is empty. */
struct frame {
    grammar_place back;
    uint32_t before, depth;
};

/* A place before a byte, and where to come back to. */
struct spot {
    grammar_place at;
    uint32_t frames;
};

struct state {
    size_t spots; /* where they begin in the matcher's */
    uint32_t n_spots;
    bool may_end;
    matcher_state *next; /* [n_classes] NOT_KNOWN where nobody asked; NULL: none was */
};

enum { NOT_KNOWN = -2 };

/* Open addressing by hash; the slots hold numbers from 1. */
struct table {
    uint32_t *slots;
    size_t n, cap;
};

struct matcher {
    const struct grammar *grammar;
    uint8_t classes[256];
    size_t n_classes;
    struct frame *frames;
    size_t n_frames, cap_frames;
    struct table frame_table;
    struct spot *spots; /* of all states, one behind the other */
    size_t n_spots, cap_spots;
    struct state *states;
    size_t n_states, cap_states;
    struct table state_table;
    struct spot *work; /* the set that is being made */
    size_t n_work, cap_work;
    struct spot *todo;
    size_t n_todo, cap_todo;
    struct table seen; /* of todo: each spot once */
    bool may_end;
    bool is_full;
};

/* ---- tables ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static void table_grow(struct table *t, uint64_t (*hash_of)(const struct matcher *, uint32_t),
                       const struct matcher *m)
{
    const struct table old = *t;
    t->cap = old.cap ? 2 * old.cap : 64;
    t->slots = mem_zalloc(t->cap, sizeof *t->slots);
    for (size_t i = 0; i < old.cap; i++) {
        if (!old.slots[i]) continue;
        size_t at = hash_of(m, old.slots[i] - 1) & (t->cap - 1);
        while (t->slots[at])
            at = (at + 1) & (t->cap - 1);
        t->slots[at] = old.slots[i];
    }
    free(old.slots);
}

static uint64_t spot_hash(struct spot p)
{
    return mix(mix(0, p.at), p.frames);
}

static uint64_t frame_hash(const struct matcher *m, uint32_t i)
{
    return mix(mix(1, m->frames[i].back), m->frames[i].before);
}

static uint64_t set_hash(const struct spot *spots, size_t n, bool may_end)
{
    uint64_t h = may_end;
    for (size_t i = 0; i < n; i++)
        h = mix(mix(h, spots[i].at), spots[i].frames);
    return h;
}

static uint64_t state_hash(const struct matcher *m, uint32_t i)
{
    const struct state *s = &m->states[i];
    return set_hash(m->spots + s->spots, s->n_spots, s->may_end);
}

static uint64_t todo_hash(const struct matcher *m, uint32_t i)
{
    return spot_hash(m->todo[i]);
}

/* ---- places ---- */

/* The list with a place more. */
static uint32_t push_frame(struct matcher *m, grammar_place back, uint32_t before)
{
    struct table *t = &m->frame_table;
    const uint32_t depth = m->frames[before].depth + 1;
    if (2 * (t->n + 1) > t->cap) table_grow(t, frame_hash, m);
    size_t at = mix(mix(1, back), before) & (t->cap - 1);
    for (; t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        const struct frame *f = &m->frames[t->slots[at] - 1];
        if (f->back == back && f->before == before) return t->slots[at] - 1;
    }
    MEM_GROW(m->frames, m->n_frames, m->cap_frames);
    m->frames[m->n_frames] = (struct frame){back, before, depth};
    t->slots[at] = (uint32_t)++m->n_frames;
    t->n++;
    return t->slots[at] - 1;
}

/* A spot to look at, unless it was there already. */
static void visit(struct matcher *m, grammar_place at, uint32_t frames)
{
    if (m->n_todo == MATCHER_MAX_SET) return;
    struct table *t = &m->seen;
    const struct spot p = {at, frames};
    if (2 * (t->n + 1) > t->cap) table_grow(t, todo_hash, m);
    size_t i = spot_hash(p) & (t->cap - 1);
    for (; t->slots[i]; i = (i + 1) & (t->cap - 1)) {
        const struct spot *q = &m->todo[t->slots[i] - 1];
        if (q->at == at && q->frames == frames) return;
    }
    MEM_GROW(m->todo, m->n_todo, m->cap_todo);
    m->todo[m->n_todo] = p;
    t->slots[i] = (uint32_t)++m->n_todo;
    t->n++;
}

static void keep(struct matcher *m, struct spot p)
{
    MEM_GROW(m->work, m->n_work, m->cap_work);
    m->work[m->n_work++] = p;
}

static void begin_set(struct matcher *m)
{
    m->n_work = m->n_todo = 0;
    m->seen.n = 0;
    if (m->seen.cap) memset(m->seen.slots, 0, m->seen.cap * sizeof *m->seen.slots);
    m->may_end = false;
}

/* A rule is called. Behind the last thing of a rule there is nothing to come back to but where
 * that rule does, so a list that calls itself at its end is never deep. */
static void visit_rule(struct matcher *m, const struct grammar_node *call, uint32_t frames)
{
    if (call->a != GRAMMAR_END) {
        if (m->frames[frames].depth == MATCHER_MAX_DEPTH) return;
        frames = push_frame(m, call->a, frames);
    }
    visit(m, grammar_rule_begin(m->grammar, call->b), frames);
}

/* From the spots that were visited to those before a byte. */
static void close_set(struct matcher *m)
{
    for (size_t i = 0; i < m->n_todo; i++) {
        const struct spot p = m->todo[i];
        const struct grammar_node *node = grammar_node(m->grammar, p.at);
        switch ((enum grammar_kind)node->kind) {
        case GRAMMAR_BYTE: keep(m, p); break;
        case GRAMMAR_EITHER:
            visit(m, node->a, p.frames);
            visit(m, node->b, p.frames);
            break;
        case GRAMMAR_CALL: visit_rule(m, node, p.frames); break;
        case GRAMMAR_RETURN:
            if (p.frames == 0)
                m->may_end = true;
            else
                visit(m, m->frames[p.frames].back, m->frames[p.frames].before);
            break;
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const struct spot *p = a, *q = b;
    if (p->at != q->at) return p->at < q->at ? -1 : 1;
    return p->frames < q->frames ? -1 : p->frames > q->frames;
}

/* The number of the set that was made. */
static matcher_state end_set(struct matcher *m)
{
    struct table *t = &m->state_table;
    if (m->n_work == 0 && !m->may_end) return MATCHER_DEAD;
    if (m->n_work > 0) qsort(m->work, m->n_work, sizeof *m->work, by_place);
    if (2 * (t->n + 1) > t->cap) table_grow(t, state_hash, m);
    size_t at = set_hash(m->work, m->n_work, m->may_end) & (t->cap - 1);
    for (; t->slots[at]; at = (at + 1) & (t->cap - 1)) {
        const struct state *s = &m->states[t->slots[at] - 1];
        if (s->n_spots == m->n_work && s->may_end == m->may_end &&
            (m->n_work == 0 ||
             memcmp(m->spots + s->spots, m->work, m->n_work * sizeof *m->work) == 0))
            return (matcher_state)(t->slots[at] - 1);
    }
    if (m->n_states >= MATCHER_MAX_STATES || m->n_spots + m->n_work > MATCHER_MAX_SPOTS ||
        m->n_frames > MATCHER_MAX_SPOTS) {
        m->is_full = true;
        return MATCHER_DEAD;
    }
    const size_t first = m->n_spots;
    for (size_t i = 0; i < m->n_work; i++) {
        MEM_GROW(m->spots, m->n_spots, m->cap_spots);
        m->spots[m->n_spots++] = m->work[i];
    }
    MEM_GROW(m->states, m->n_states, m->cap_states);
    m->states[m->n_states] = (struct state){first, (uint32_t)m->n_work, m->may_end, NULL};
    t->slots[at] = (uint32_t)++m->n_states;
    t->n++;
    return (matcher_state)(m->n_states - 1);
}

/* ---- the matcher ---- */

struct matcher *matcher_new(const struct grammar *g)
{
    struct matcher *m = mem_zalloc(1, sizeof *m);
    m->grammar = grammar_retain(g);
    m->n_classes = grammar_classes(g, m->classes);
    MEM_GROW(m->frames, m->n_frames, m->cap_frames);
    m->frames[m->n_frames++] = (struct frame){0};
    begin_set(m);
    visit(m, grammar_rule_begin(g, 0), 0);
    close_set(m);
    const matcher_state start = end_set(m);
    assert(start == MATCHER_START);
    (void)start;
    return m;
}

void matcher_free(struct matcher *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_states; i++)
        free(m->states[i].next);
    free(m->frames);
    free(m->frame_table.slots);
    free(m->spots);
    free(m->states);
    free(m->state_table.slots);
    free(m->work);
    free(m->todo);
    free(m->seen.slots);
    grammar_release(m->grammar);
    free(m);
}

const struct grammar *matcher_grammar(const struct matcher *m)
{
    return m->grammar;
}

static matcher_state find_next(struct matcher *m, matcher_state s, uint8_t byte)
{
    begin_set(m);
    for (size_t i = 0; i < m->states[s].n_spots; i++) {
        const struct spot p = m->spots[m->states[s].spots + i];
        const struct grammar_node *node = grammar_node(m->grammar, p.at);
        if (byte >= node->lo && byte <= node->hi) visit(m, node->a, p.frames);
    }
    close_set(m);
    return end_set(m);
}

matcher_state matcher_step(struct matcher *m, matcher_state s, uint8_t byte)
{
    if (s == MATCHER_DEAD) return s;
    const size_t class = m->classes[byte];
    if (!m->states[s].next) {
        matcher_state *next = mem_zalloc(m->n_classes, sizeof *next);
        for (size_t i = 0; i < m->n_classes; i++)
            next[i] = NOT_KNOWN;
        m->states[s].next = next;
    }
    if (m->states[s].next[class] == NOT_KNOWN) {
        /* Each set would be made again and again only to be thrown away. */
        if (m->is_full) return MATCHER_DEAD;
        const matcher_state to = find_next(m, s, byte);
        m->states[s].next[class] = to;
    }
    return m->states[s].next[class];
}

matcher_state matcher_steps(struct matcher *m, matcher_state s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && s != MATCHER_DEAD; i++)
        s = matcher_step(m, s, (uint8_t)bytes[i]);
    return s;
}

bool matcher_may_end(const struct matcher *m, matcher_state s)
{
    return s != MATCHER_DEAD && m->states[s].may_end;
}

bool matcher_may_go_on(const struct matcher *m, matcher_state s)
{
    return s != MATCHER_DEAD && m->states[s].n_spots > 0;
}

bool matcher_is_full(const struct matcher *m)
{
    return m->is_full;
}

/* The list of another matcher, place by place from its end. */
static uint32_t bring_frames(struct matcher *to, const struct matcher *from, uint32_t frames)
{
    grammar_place backs[MATCHER_MAX_DEPTH];
    size_t n = 0;
    for (; frames != 0; frames = from->frames[frames].before)
        backs[n++] = from->frames[frames].back;
    while (n > 0)
        frames = push_frame(to, backs[--n], frames);
    return frames;
}

matcher_state matcher_bring(struct matcher *to, const struct matcher *from, matcher_state s)
{
    assert(to != from && to->grammar == from->grammar);
    if (s == MATCHER_DEAD) return s;
    const struct state *state = &from->states[s];
    begin_set(to);
    for (size_t i = 0; i < state->n_spots; i++) {
        const struct spot p = from->spots[state->spots + i];
        keep(to, (struct spot){p.at, bring_frames(to, from, p.frames)});
    }
    to->may_end = state->may_end;
    return end_set(to);
}

size_t matcher_n_states(const struct matcher *m)
{
    return m->n_states;
}
