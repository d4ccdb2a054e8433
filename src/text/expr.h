/* An expression of characters, as patterns and grammars have them: characters, sets of them,
 * one thing after another, one of several, and how often.
 *
 * A reader makes its nodes from the beginning to the end of what a person wrote; a grammar is
 * built the other way round (grammar.h), which expr_place does. Node numbers live as long as
 * the expression. The owner begins with {0} and ends with expr_free. Pure, one thread at a
 * time.
 *
 * Knows no notation (see regex.h, gbnf.h) and not how a character is written: as UTF-8 that is
 * chars_place, in a string of JSON schema_characters. */
#ifndef TEXT_EXPR_H
#define TEXT_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/chars.h"
#include "text/grammar.h"

enum expr_kind {
    EXPR_CHAR,     /* the character lo */
    EXPR_SET,      /* one of the set lo */
    EXPR_SEQUENCE, /* its children, one after another; without one nothing at all */
    EXPR_EITHER,   /* one of its children */
    EXPR_REPEAT,   /* its child, lo to hi times */
    EXPR_RULE,     /* the rule lo of the reader's */
};

/* As hi of EXPR_REPEAT: any number of times. Other numbers are up to EXPR_MAX_COUNT. */
#define EXPR_NO_END UINT32_MAX
enum { EXPR_MAX_COUNT = 10000 };
/* The deepest that a reader nests: what walks an expression calls itself so often. */
enum { EXPR_MAX_DEPTH = 100 };

/* No node. */
#define EXPR_NONE UINT32_MAX

struct expr_node {
    uint8_t kind;
    uint32_t lo, hi;
    uint32_t first, last;   /* children; EXPR_NONE: there are none */
    uint32_t before, after; /* its siblings */
};

struct expr {
    struct expr_node *nodes;
    size_t n, cap;
    struct chars *sets; /* tidy, none of them empty */
    size_t n_sets, cap_sets;
};

void expr_free(struct expr *e);

/* A node without a parent or children. */
uint32_t expr_add(struct expr *e, enum expr_kind kind, uint32_t lo, uint32_t hi);
/* A node of a set, which it takes over and tidies; EXPR_NONE: the set is empty. */
uint32_t expr_add_set(struct expr *e, struct chars *set);
/* Makes child, which has no parent, the last child of parent. */
void expr_append(struct expr *e, uint32_t parent, uint32_t child);
/* A node that is child, lo to hi times. */
uint32_t expr_repeat(struct expr *e, uint32_t child, uint32_t lo, uint32_t hi);

/* How a character of a tidy set is written, before next. */
typedef grammar_place expr_writer(struct grammar *g, const struct chars *set,
                                  grammar_place next);

/* The places of a node before next. rules: of the grammar, by the reader's numbers; NULL if
 * there is no EXPR_RULE. What is repeated becomes a rule of its own. */
grammar_place expr_place(const struct expr *e, uint32_t node, struct grammar *g,
                         const uint32_t *rules, expr_writer *write, grammar_place next);

#endif
