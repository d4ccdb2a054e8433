/* A JSON Schema as a grammar: every text of the grammar is JSON that the schema allows.
 *
 * Not everything that the schema allows is a text of the grammar: properties come in the order
 * of the schema and none beside them, white space is what people write, numbers have at most 15
 * digits before the point (18 where a bound asks for more), oneOf is anyOf, and a pattern
 * (regex.h says which) writes each character one way. Where an object may have any names, one
 * may come twice: of such, readers mostly take the last. A number is what its digits say; a
 * reader of doubles may round 4.9999999999999999 to a 5 that is not allowed. What would let a
 * text through that the schema does not allow (not, allOf of several, …) is refused by name, an
 * unknown word too, and so is a schema, wherever it stands, that no finite text satisfies.
 * Annotations (title, description, default, …) say nothing about a text and are passed over.
 * References are those within the schema ("#/$defs/name").
 *
 * Source: JSON Schema 2020-12, Core and Validation; items as an array and definitions as of
 * draft 7. Pure, any thread. */
#ifndef TEXT_SCHEMA_H
#define TEXT_SCHEMA_H

#include <stddef.h>

#include "base/err.h"

struct grammar;

/* The grammar of text[0..len), to grammar_release. NULL and err: it is no JSON, no schema, or
 * one that cannot be promised; err names the place, as "/properties/age: …". */
struct grammar *schema_grammar(const char *text, size_t len, struct err *err);
/* Any object or array of JSON. */
struct grammar *schema_any(void);

#endif
