/* Regular expressions as JSON Schemas have them, as places of a grammar.
 *
 * Of ECMA-262, as with its flag u: characters, ., classes, escapes, groups that capture or not,
 * alternatives and how often; a lazy ? says nothing about which texts match and is passed over.
 * ^ and $ are kept to at the ends of the pattern and of its outermost alternatives, and where
 * there is none, anything may stand in front or behind. What looks around or back, borders of
 * words, properties of Unicode, and flags are refused.
 *
 * Pure, any thread. Knows nothing of JSON: how a character is written is its caller's. */
#ifndef TEXT_REGEX_H
#define TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/expr.h"

/* The places of a text that pattern[0..len), which is UTF-8, matches, before next. False and
 * err, "character 3: …": it is no pattern, or one that cannot be kept to. */
bool regex_place(struct grammar *g, const char *pattern, size_t len, expr_writer *write,
                 grammar_place next, grammar_place *out, struct err *err);

#endif
