/* A set of characters, and its UTF-8 as places of a grammar.
 *
 * A set is ranges of code points, put in in any order. Surrogates are no characters: they are
 * left out of whatever is put in. The owner begins with {0} and ends with chars_free. Pure, one
 * thread at a time for each set.
 *
 * Knows no notation: regex.h and gbnf.h read sets that a person wrote. */
#ifndef TEXT_CHARS_H
#define TEXT_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/grammar.h"

enum { CHARS_MAX = 0x10ffff };

struct chars_range {
    uint32_t lo, hi; /* both in it */
};

struct chars {
    struct chars_range *ranges;
    size_t n, cap;
};

void chars_free(struct chars *c);

/* Puts lo..hi in; lo <= hi <= CHARS_MAX. */
void chars_add(struct chars *c, uint32_t lo, uint32_t hi);
/* Puts in what is in another set. */
void chars_add_set(struct chars *c, const struct chars *other);
/* Behind what was put in: the ranges in order, with a gap between any two. What is below wants
 * a tidy set. */
void chars_tidy(struct chars *c);

/* Turns a set into what is not in it, tidy too. */
void chars_complement(struct chars *c);
bool chars_has(const struct chars *c, uint32_t cp);
/* One character of a set that is not empty, as UTF-8, before next. */
grammar_place chars_place(struct grammar *g, const struct chars *c, grammar_place next);

#endif
