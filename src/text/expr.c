/* Expressions, and their places from the end to the beginning. */
#include "text/expr.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

void expr_free(struct expr *e)
{
    for (size_t i = 0; i < e->n_sets; i++)
        chars_free(&e->sets[i]);
    free(e->sets);
    free(e->nodes);
    *e = (struct expr){0};
}

uint32_t expr_add(struct expr *e, enum expr_kind kind, uint32_t lo, uint32_t hi)
{
    MEM_GROW(e->nodes, e->n, e->cap);
    e->nodes[e->n] = (struct expr_node){.kind = (uint8_t)kind,
                                        .lo = lo,
                                        .hi = hi,
                                        .first = EXPR_NONE,
                                        .last = EXPR_NONE,
                                        .before = EXPR_NONE,
                                        .after = EXPR_NONE};
    return (uint32_t)e->n++;
}

uint32_t expr_add_set(struct expr *e, struct chars *set)
{
    chars_tidy(set);
    if (set->n == 0) {
        chars_free(set);
        return EXPR_NONE;
    }
    MEM_GROW(e->sets, e->n_sets, e->cap_sets);
    e->sets[e->n_sets] = *set;
    *set = (struct chars){0};
    return expr_add(e, EXPR_SET, (uint32_t)e->n_sets++, 0);
}

void expr_append(struct expr *e, uint32_t parent, uint32_t child)
{
    struct expr_node *p = &e->nodes[parent], *c = &e->nodes[child];
    c->before = p->last;
    if (p->last == EXPR_NONE)
        p->first = child;
    else
        e->nodes[p->last].after = child;
    p->last = child;
}

uint32_t expr_repeat(struct expr *e, uint32_t child, uint32_t lo, uint32_t hi)
{
    const uint32_t node = expr_add(e, EXPR_REPEAT, lo, hi);
    expr_append(e, node, child);
    return node;
}

/* ---- places ---- */

struct writing {
    const struct expr *e;
    struct grammar *g;
    const uint32_t *rules;
    expr_writer *write;
};

static grammar_place place(const struct writing *w, uint32_t node, grammar_place next);

static grammar_place character(const struct writing *w, uint32_t cp, grammar_place next)
{
    struct chars_range range = {cp, cp};
    const struct chars one = {&range, 1, 1};
    return w->write(w->g, &one, next);
}

static grammar_place either(const struct writing *w, const struct expr_node *n,
                            grammar_place next)
{
    grammar_place at = place(w, n->first, next);
    for (uint32_t i = w->e->nodes[n->first].after; i != EXPR_NONE; i = w->e->nodes[i].after)
        at = grammar_either(w->g, at, place(w, i, next));
    return at;
}

/* One time of what is repeated: itself, or the rule that it was made. */
struct body {
    uint32_t node, rule;
    bool is_rule;
};

static grammar_place once(const struct writing *w, const struct body *b, grammar_place next)
{
    return b->is_rule ? grammar_call(w->g, b->rule, next) : place(w, b->node, next);
}

/* Counted out, of which the last of any number come back to themselves. */
static grammar_place repeat(const struct writing *w, const struct expr_node *n,
                            grammar_place next)
{
    const bool is_endless = n->hi == EXPR_NO_END;
    const uint32_t max = !is_endless ? n->hi : n->lo > 0 ? n->lo : 1;
    struct body b = {.node = n->first};
    b.is_rule = max > 1 && w->e->nodes[n->first].kind != EXPR_CHAR;
    if (b.is_rule) {
        b.rule = grammar_rule(w->g);
        grammar_begin(w->g, b.rule, place(w, n->first, GRAMMAR_END));
    }
    grammar_place at = next;
    uint32_t left = max;
    if (is_endless) {
        const grammar_place more = grammar_hole(w->g);
        at = once(w, &b, more);
        grammar_fill(w->g, more, grammar_either(w->g, at, next));
        if (n->lo == 0) return more;
        left--;
    }
    for (; left > 0 && !grammar_is_full(w->g); left--) {
        at = once(w, &b, at);
        if (left > n->lo) at = grammar_either(w->g, at, next);
    }
    return at;
}

static grammar_place place(const struct writing *w, uint32_t node, grammar_place next)
{
    const struct expr_node *n = &w->e->nodes[node];
    switch ((enum expr_kind)n->kind) {
    case EXPR_CHAR: return character(w, n->lo, next);
    case EXPR_SET: return w->write(w->g, &w->e->sets[n->lo], next);
    case EXPR_EITHER: return either(w, n, next);
    case EXPR_REPEAT: return repeat(w, n, next);
    case EXPR_RULE: return grammar_call(w->g, w->rules[n->lo], next);
    case EXPR_SEQUENCE:
        for (uint32_t i = n->last; i != EXPR_NONE; i = w->e->nodes[i].before)
            next = place(w, i, next);
        break;
    }
    return next;
}

grammar_place expr_place(const struct expr *e, uint32_t node, struct grammar *g,
                         const uint32_t *rules, expr_writer *write, grammar_place next)
{
    const struct writing w = {e, g, rules, write};
    return place(&w, node, next);
}
