/* Joining neighbouring symbols, best pair first: what byte-level BPE and SentencePiece share.
 *
 * The text is a chain of symbols. Of all neighbours that may be joined, those with the lowest
 * rank are, the leftmost first, until none is left. Pairs wait in a heap and are looked at
 * again when they come up, so n symbols cost O(n log n) whatever they are. A struct merger
 * ({0}) is scratch memory of one encoding: one thread, freed with merger_free. */
#ifndef TEXT_MERGE_H
#define TEXT_MERGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"

struct vocab;

struct symbol {
    uint32_t start, len; /* bytes of the text; len 0: joined into the symbol before */
    int32_t id;          /* its token, -1 if it is none */
    int32_t prev, next;  /* neighbours in the chain, -1 at the ends */
};

/* Symbols and pairs between two looks at the cancel flag. */
enum { MERGER_STEP = 4096 };

struct merger {
    struct symbol *sym;
    size_t n, cap;
    uint64_t *heap; /* pairs that may be joined */
    size_t n_heap, cap_heap;
    const atomic_bool *cancel; /* NULL: never. Once it is set the result is only a part */
};

/* Whether the neighbours l and r of text may be joined; sets the rank and the joined token. */
typedef bool merge_lookup(const void *ctx, const char *text, const struct symbol *l,
                          const struct symbol *r, uint32_t *rank, int32_t *id);

/* Empties the chain and keeps the memory. */
void merger_start(struct merger *m);
/* Adds the next symbol of the text, which has fewer than 2^32 bytes; fewer than 2^31 in all. */
void merger_add(struct merger *m, uint32_t start, uint32_t len, int32_t id);
/* Adds n bytes of text from `at` on, a symbol each, whose ids are those of byte_id. */
void merger_add_bytes(struct merger *m, const int32_t byte_id[256], const char *text, size_t at,
                      size_t n);
/* Adds the characters of text from `at` on up to a border that no token spans, so that no merge
 * crosses it: a word or so, instead of the whole text in one heap. Returns where it lies, at
 * most len. */
size_t merger_add_stretch(struct merger *m, const struct vocab *v, const char *text, size_t at,
                          size_t len);
/* Joins all there is to join; the result is the chain from m->sym[0] on (if n is not 0). */
void merger_run(struct merger *m, const char *text, merge_lookup *lookup, const void *ctx);
/* Appends the ids of the chain: what is no token as bytes, and a byte that no valid text holds
 * and the vocabulary lacks as U+FFFD. */
void merger_emit(const struct merger *m, const struct vocab *v, const char *text,
                 struct ids *out);
void merger_free(struct merger *m);

#endif
