#include "text/grammar.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct grammar {
    atomic_int n_holders;
    struct grammar_node *nodes;
    size_t n, cap;
    grammar_place *rules;
    size_t n_rules, cap_rules;
    bool is_full;
};

static grammar_place add(struct grammar *g, struct grammar_node node)
{
    if (g->n >= GRAMMAR_MAX_PLACES) {
        g->is_full = true;
        return GRAMMAR_END;
    }
    MEM_GROW(g->nodes, g->n, g->cap);
    g->nodes[g->n] = node;
    return (grammar_place)g->n++;
}

struct grammar *grammar_new(void)
{
    struct grammar *g = mem_zalloc(1, sizeof *g);
    atomic_init(&g->n_holders, 1);
    add(g, (struct grammar_node){.kind = GRAMMAR_RETURN});
    return g;
}

struct grammar *grammar_retain(const struct grammar *g)
{
    struct grammar *held = (struct grammar *)g;
    atomic_fetch_add(&held->n_holders, 1);
    return held;
}

void grammar_release(const struct grammar *g)
{
    struct grammar *held = (struct grammar *)g;
    if (!held || atomic_fetch_sub(&held->n_holders, 1) > 1) return;
    free(held->nodes);
    free(held->rules);
    free(held);
}

grammar_place grammar_byte(struct grammar *g, uint8_t lo, uint8_t hi, grammar_place next)
{
    assert(lo <= hi);
    return add(g, (struct grammar_node){GRAMMAR_BYTE, lo, hi, next, 0});
}

grammar_place grammar_either(struct grammar *g, grammar_place a, grammar_place b)
{
    return add(g, (struct grammar_node){GRAMMAR_EITHER, 0, 0, a, b});
}

grammar_place grammar_text(struct grammar *g, const char *s, size_t n, grammar_place next)
{
    while (n-- > 0)
        next = grammar_byte(g, (uint8_t)s[n], (uint8_t)s[n], next);
    return next;
}

grammar_place grammar_call(struct grammar *g, uint32_t rule, grammar_place next)
{
    return add(g, (struct grammar_node){GRAMMAR_CALL, 0, 0, next, rule});
}

grammar_place grammar_hole(struct grammar *g)
{
    const grammar_place hole = grammar_either(g, GRAMMAR_END, GRAMMAR_END);
    if (hole != GRAMMAR_END) grammar_fill(g, hole, hole); /* leads nowhere */
    return hole;
}

void grammar_fill(struct grammar *g, grammar_place hole, grammar_place to)
{
    if (hole == GRAMMAR_END) return;
    g->nodes[hole].a = g->nodes[hole].b = to;
}

uint32_t grammar_rule(struct grammar *g)
{
    if (g->n_rules >= GRAMMAR_MAX_RULES) {
        g->is_full = true;
        return (uint32_t)g->n_rules - 1;
    }
    MEM_GROW(g->rules, g->n_rules, g->cap_rules);
    g->rules[g->n_rules] = GRAMMAR_END;
    return (uint32_t)g->n_rules++;
}

void grammar_begin(struct grammar *g, uint32_t rule, grammar_place begin)
{
    g->rules[rule] = begin;
}

/* ---- rules that call themselves ---- */

/* The search for them: what is known of a rule. */
enum mark { MARK_NEW, MARK_OPEN, MARK_DONE };

struct search {
    const struct grammar *g;
    uint8_t *rule_marks; /* [n_rules] */
    bool *is_nullable;   /* [n_rules] of those that are done: it may be nothing at all */
    uint32_t *chains; /* [n_rules] of those: how many it calls before a byte, one in another */
    uint32_t *seen;   /* [n] the visit that was here last */
    uint32_t visit;
    grammar_place *stack; /* of the visits under way, one behind the other */
    size_t n_stack, cap_stack;
};

static bool visit_rule(struct search *s, uint32_t rule);

static void visit_later(struct search *s, grammar_place at, uint32_t visit)
{
    if (s->seen[at] == visit) return;
    s->seen[at] = visit;
    MEM_GROW(s->stack, s->n_stack, s->cap_stack);
    s->stack[s->n_stack++] = at;
}

/* What can come of a place of a rule before a byte, one step. */
static bool visit_place(struct search *s, grammar_place at, uint32_t visit, uint32_t rule,
                        bool *ends)
{
    const struct grammar_node *node = &s->g->nodes[at];
    uint32_t chain;
    switch ((enum grammar_kind)node->kind) {
    case GRAMMAR_RETURN: *ends = true; break;
    case GRAMMAR_BYTE: break;
    case GRAMMAR_EITHER:
        visit_later(s, node->a, visit);
        visit_later(s, node->b, visit);
        break;
    case GRAMMAR_CALL:
        if (!visit_rule(s, node->b)) return false;
        chain = s->chains[node->b] + (node->a != GRAMMAR_END);
        if (chain > s->chains[rule]) s->chains[rule] = chain;
        if (s->is_nullable[node->b]) visit_later(s, node->a, visit);
        break;
    }
    return true;
}

/* False: the rule calls itself before a byte, or too many each other. A place may be seen by
 * several rules, so each visit has a number; the deepest chain of rules is as long as there are
 * rules. */
static bool visit_rule(struct search *s, uint32_t rule)
{
    if (s->rule_marks[rule] == MARK_OPEN) return false;
    if (s->rule_marks[rule] == MARK_DONE) return true;
    s->rule_marks[rule] = MARK_OPEN;
    const uint32_t visit = ++s->visit;
    const size_t bottom = s->n_stack;
    bool ok = true, ends = false;
    visit_later(s, s->g->rules[rule], visit);
    while (ok && s->n_stack > bottom)
        ok = visit_place(s, s->stack[--s->n_stack], visit, rule, &ends);
    s->is_nullable[rule] = ends;
    s->rule_marks[rule] = MARK_DONE;
    return ok && s->chains[rule] <= GRAMMAR_MAX_CHAIN;
}

bool grammar_is_full(const struct grammar *g)
{
    return g->is_full;
}

bool grammar_finish(struct grammar *g)
{
    assert(g->n_rules > 0);
    if (g->is_full) return false;
    struct search s = {.g = g};
    s.rule_marks = mem_zalloc(g->n_rules, sizeof *s.rule_marks);
    s.is_nullable = mem_zalloc(g->n_rules, sizeof *s.is_nullable);
    s.chains = mem_zalloc(g->n_rules, sizeof *s.chains);
    s.seen = mem_zalloc(g->n, sizeof *s.seen);
    bool ok = true;
    for (uint32_t i = 0; ok && i < g->n_rules; i++)
        ok = visit_rule(&s, i);
    free(s.rule_marks);
    free(s.is_nullable);
    free(s.chains);
    free(s.seen);
    free(s.stack);
    return ok;
}

/* ---- rules that never end ---- */

/* The search for those that do, from the end of a rule backwards: each place ends once what it
 * waits for does. It may wait for two places, by two numbers: 2 * place and the next one. */
struct ends {
    const struct grammar *g;
    bool *ends;        /* [n] */
    uint32_t *waiting; /* [n] the newest number that waits for the place; 0: none does */
    uint32_t *older;   /* [2 * n] that waits for the same */
    grammar_place *stack;
    size_t n_stack;
};

static void wait_for(struct ends *s, grammar_place at, uint32_t number)
{
    s->older[number] = s->waiting[at];
    s->waiting[at] = number;
}

static void place_ends(struct ends *s, grammar_place at)
{
    s->ends[at] = true;
    s->stack[s->n_stack++] = at;
}

/* Something that the place waits for ends. */
static void look_again(struct ends *s, grammar_place at)
{
    const struct grammar_node *node = &s->g->nodes[at];
    const bool is_call = node->kind == GRAMMAR_CALL;
    if (s->ends[at]) return;
    if (is_call && !(s->ends[node->a] && s->ends[s->g->rules[node->b]])) return;
    place_ends(s, at);
}

static void find_ends(struct ends *s)
{
    for (grammar_place at = 1; at < s->g->n; at++) {
        const struct grammar_node *node = &s->g->nodes[at];
        wait_for(s, node->a, 2 * at);
        if (node->kind == GRAMMAR_EITHER) wait_for(s, node->b, 2 * at + 1);
        if (node->kind == GRAMMAR_CALL) wait_for(s, s->g->rules[node->b], 2 * at + 1);
    }
    place_ends(s, GRAMMAR_END);
    while (s->n_stack > 0) {
        const grammar_place at = s->stack[--s->n_stack];
        for (uint32_t number = s->waiting[at]; number; number = s->older[number])
            look_again(s, number / 2);
    }
}

uint32_t grammar_endless_rule(const struct grammar *g, uint32_t from)
{
    struct ends s = {.g = g};
    s.ends = mem_zalloc(g->n, sizeof *s.ends);
    s.waiting = mem_zalloc(g->n, sizeof *s.waiting);
    s.older = mem_zalloc(2 * g->n, sizeof *s.older);
    s.stack = mem_zalloc(g->n, sizeof *s.stack);
    find_ends(&s);
    uint32_t rule = from;
    while (rule < g->n_rules && s.ends[g->rules[rule]])
        rule++;
    free(s.ends);
    free(s.waiting);
    free(s.older);
    free(s.stack);
    return rule < g->n_rules ? rule : GRAMMAR_NO_RULE;
}

/* ---- reading ---- */

const struct grammar_node *grammar_node(const struct grammar *g, grammar_place at)
{
    assert(at < g->n);
    return &g->nodes[at];
}

grammar_place grammar_rule_begin(const struct grammar *g, uint32_t rule)
{
    assert(rule < g->n_rules);
    return g->rules[rule];
}

size_t grammar_classes(const struct grammar *g, uint8_t classes[256])
{
    bool begins[257] = {true};
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i].kind != GRAMMAR_BYTE) continue;
        begins[g->nodes[i].lo] = true;
        begins[g->nodes[i].hi + 1] = true;
    }
    size_t n = 0;
    for (size_t i = 0; i < 256; i++) {
        if (begins[i] && i > 0) n++;
        classes[i] = (uint8_t)n;
    }
    return n + 1;
}
