/* What the files of schema.h share: simple values and the parts that all values are made of.
 * Every function that is given `next` makes the places of something before it, and returns
 * where that begins. */
#ifndef TEXT_SCHEMA_IMPL_H
#define TEXT_SCHEMA_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "text/chars.h"
#include "text/grammar.h"

/* Rules that every grammar of JSON has. */
struct schema_rules {
    uint32_t space; /* white space between two things, or none */
    uint32_t character;
    uint32_t string; /* any */
    uint32_t value;  /* any */
};

/* The rules, begun, in a grammar whose rule 0 is there. */
struct schema_rules schema_rules(struct grammar *g);

/* A value of any kind, one of objects and arrays only, a literal in its shortest spelling. */
grammar_place schema_container(struct grammar *g, const struct schema_rules *r,
                               grammar_place next);
grammar_place schema_literal(struct grammar *g, const json_t *value, grammar_place next);

/* A string of min to max characters; max SIZE_MAX: no end. */
grammar_place schema_string(struct grammar *g, const struct schema_rules *r, size_t min,
                            size_t max, grammar_place next);
/* One character of a tidy set that is not empty, in a string: as it is, or its one escape where
 * JSON wants one (of control characters DEL, too). */
grammar_place schema_characters(struct grammar *g, const struct chars *set, grammar_place next);
/* A string of a format ("date", "time", "date-time", "uuid"); false: another. */
bool schema_format(struct grammar *g, const char *format, grammar_place next,
                   grammar_place *out);

/* Bounds of a number; whole ones, at most about SCHEMA_MAX_BOUND from 0. Where none is given,
 * and the other does not ask for more, it is SCHEMA_MAX_NUMBER: most readers keep as many
 * digits. */
#define SCHEMA_MAX_NUMBER 999999999999999
#define SCHEMA_MAX_BOUND 1000000000000000000
struct schema_bounds {
    int64_t min, max;
    bool above_min, below_max; /* the bound itself is not allowed */
    bool is_given;
};
/* *is_empty: there is no such number, and what is returned is none. */
grammar_place schema_integer(struct grammar *g, const struct schema_bounds *b,
                             grammar_place next, bool *is_empty);
grammar_place schema_number(struct grammar *g, const struct schema_bounds *b,
                            grammar_place next, bool *is_empty);

/* A rule for a member of an object: any name, and a value of the rule kind. */
uint32_t schema_pair(struct grammar *g, const struct schema_rules *r, uint32_t kind);
/* What stands behind an opening bracket: min to max elements of a rule with commas between them
 * (max SIZE_MAX: any number), and the bracket that closes. */
grammar_place schema_elements(struct grammar *g, const struct schema_rules *r, uint32_t element,
                              size_t min, size_t max, char close, grammar_place next);

/* What "#/a/b" names in a schema, by RFC 6901, borrowed from root; NULL: nothing. */
const json_t *schema_resolve(const json_t *root, const char *ref);

#endif
