/* What a text may be, byte by byte: rules that call each other, as of a language of nested
 * things.
 *
 * A grammar is built from its end to its beginning: each function makes a place where a text
 * may stand, before the place that comes next, and returns it. Place 0 (GRAMMAR_END) is the end
 * of a rule. A rule is a place that can be called from elsewhere, itself included, as long as a
 * byte comes before it calls itself again. When it is built it never changes: any thread may
 * read it, and it lives until the last of its holders lets go.
 *
 * Knows no tokens (see matcher.h) and no JSON (see schema.h). */
#ifndef TEXT_GRAMMAR_H
#define TEXT_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grammar;

typedef uint32_t grammar_place;
enum { GRAMMAR_END = 0 };
/* More places than any schema that a person wrote needs; memory is bounded by it. */
enum { GRAMMAR_MAX_PLACES = 1 << 20 };
/* More rules, too; and the most that begin with each other before a byte, those aside that end
 * with the next one (see matcher.h: it comes back from so many at least). */
enum { GRAMMAR_MAX_RULES = 1 << 13, GRAMMAR_MAX_CHAIN = 64 };
enum { GRAMMAR_NO_RULE = GRAMMAR_MAX_RULES };

enum grammar_kind {
    GRAMMAR_RETURN, /* the end of a rule: only place 0 */
    GRAMMAR_BYTE,   /* a byte of lo..hi, then a */
    GRAMMAR_EITHER, /* a or b */
    GRAMMAR_CALL,   /* the rule b, then a */
};

struct grammar_node {
    uint8_t kind, lo, hi;
    grammar_place a, b;
};

/* Empty, with one holder. */
struct grammar *grammar_new(void);
/* One more holder; returns g. */
struct grammar *grammar_retain(const struct grammar *g);
void grammar_release(const struct grammar *g); /* NULL is fine */

/* ---- Building: by its only holder. Past GRAMMAR_MAX_PLACES all return GRAMMAR_END, and
 * grammar_finish fails. ---- */

grammar_place grammar_byte(struct grammar *g, uint8_t lo, uint8_t hi, grammar_place next);
grammar_place grammar_either(struct grammar *g, grammar_place a, grammar_place b);
/* The bytes of s[0..n). */
grammar_place grammar_text(struct grammar *g, const char *s, size_t n, grammar_place next);
grammar_place grammar_call(struct grammar *g, uint32_t rule, grammar_place next);
/* A place for a loop, which grammar_fill says later: nothing at first, then the same as to. */
grammar_place grammar_hole(struct grammar *g);
void grammar_fill(struct grammar *g, grammar_place hole, grammar_place to);
/* A rule, and where it begins, which may be said after it was called. Rule 0 is the text. Past
 * GRAMMAR_MAX_RULES it is the last one, and grammar_finish fails. */
uint32_t grammar_rule(struct grammar *g);
void grammar_begin(struct grammar *g, uint32_t rule, grammar_place begin);

/* Whether there were too many places or rules already. */
bool grammar_is_full(const struct grammar *g);
/* False if there are too many places or rules, a rule calls itself before a byte, or more than
 * GRAMMAR_MAX_CHAIN do each other. */
bool grammar_finish(struct grammar *g);
/* The first rule from `from` on of which no text is finite; GRAMMAR_NO_RULE: there is none. */
uint32_t grammar_endless_rule(const struct grammar *g, uint32_t from);

/* ---- Reading ---- */

const struct grammar_node *grammar_node(const struct grammar *g, grammar_place at);
grammar_place grammar_rule_begin(const struct grammar *g, uint32_t rule);
/* Bytes of one class are the same to the whole grammar: classes[256] is filled with numbers
 * from 0; returns how many there are. */
size_t grammar_classes(const struct grammar *g, uint8_t classes[256]);

#endif
