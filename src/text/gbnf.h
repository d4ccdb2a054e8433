/* Grammars as llama.cpp writes them (GBNF), as a grammar of texts.
 *
 * Rules (name ::= …) of literals, classes of characters, ., groups, alternatives, * + ? and
 * counts, with comments; a text is what the rule root says, from its first byte to its last.
 * Tokens (<…>) are refused, as are rules that begin with themselves, that never end, that are
 * there twice or not at all.
 *
 * Source: grammars/README.md of llama.cpp, 2026. Pure, any thread. Knows no JSON. */
#ifndef TEXT_GBNF_H
#define TEXT_GBNF_H

#include <stddef.h>

#include "base/err.h"

struct grammar;

/* The grammar of text[0..len), to grammar_release. NULL and err, "line 3: …": it is none, or
 * one that cannot be kept to. */
struct grammar *gbnf_grammar(const char *text, size_t len, struct err *err);

#endif
