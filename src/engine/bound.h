/* A reply that a grammar binds: which tokens may come next.
 *
 * It follows the tokens of the answer through the grammar and knows, in each state, all tokens
 * of the vocabulary whose bytes may come next: found once and kept for the states that come
 * again, as they mostly do, of the grammars that came last. Before the answer begins, while the
 * model thinks, it is at ease and allows everything.
 *
 * The engine owns one per model; the sampler asks it, the generator says when the answer
 * begins. One thread at a time. */
#ifndef ENGINE_BOUND_H
#define ENGINE_BOUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bound;
struct grammar;
struct tokenizer;

/* n_vocab: of the logits, which may have more ids than the vocabulary; those are never allowed.
 * tok outlives it. */
struct bound *bound_new(const struct tokenizer *tok, size_t n_vocab);
void bound_free(struct bound *b); /* NULL is fine */

/* So many grammars, the present one among them, keep what was found of them. */
enum { BOUND_GRAMMARS = 4 };

/* A reply begins, whose answer so far is said[0..n); g NULL: nothing binds it. Sorts the
 * vocabulary the first time that there is a grammar (16 to 25 ms for 151,936 tokens, most of
 * them padding; Zen 4, November 2026).
 * ERR_USER: what was said is not how a text of the grammar begins. */
bool bound_begin(struct bound *b, const struct grammar *g, const char *said, size_t n,
                 struct err *err);
/* Whether a grammar binds the reply, be it at ease: no device may draw its tokens. */
bool bound_is_bound(const struct bound *b);

/* The next token is the answer's, or one of opens[0..n), with which a thought may begin: then
 * it is at ease again. */
void bound_answer(struct bound *b, const int32_t *opens, size_t n);
/* The next token is a thought's, or of what stands between thought and answer. */
void bound_ease(struct bound *b);
/* The token that came next. */
void bound_accept(struct bound *b, int32_t id);
/* Undoes the last bound_accept; what was said of the next token stays undone with it. */
void bound_take_back(struct bound *b);

/* A bit for each id that may come next ([n_vocab] bits, words of 32), until the next call;
 * NULL: all of them. */
const uint32_t *bound_allowed(struct bound *b);
/* Whether the answer is whole and nothing may follow it. */
bool bound_is_over(const struct bound *b);
/* How often the vocabulary was walked so far: what is kept is not walked for again. */
uint64_t bound_n_walks(const struct bound *b);

#endif
