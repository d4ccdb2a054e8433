/* Tokens whose scores add up to the most (tokenizer model "plamo2"): of all ways to cut a text
 * the best is taken, and of two that are as good that with the longer token in front. A
 * character may stay without a token, which costs as much as a bad one; it becomes bytes.
 *
 * Sums are of whole numbers, scores in ten-thousandths, so that no order of additions matters.
 * A struct unigram is immutable after open: any thread may read; what it says is of the
 * vocabulary it was opened with. A struct chart ({0}) is scratch memory of one encoding: one
 * thread, freed with chart_free. */
#ifndef TEXT_UNIGRAM_H
#define TEXT_UNIGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "text/sorted.h"

struct vocab;

struct unigram {
    struct sorted sorted; /* the tokens that text may become */
};

/* The best way from a place of the text to the end of the stretch it is in. */
struct place {
    int64_t cost;
    uint32_t len; /* bytes of what comes first there; 0: inside a character */
    int32_t id;   /* its token, -1 for a character that has none */
};

struct chart {
    struct place *places;
    size_t n, cap;
    const atomic_bool *cancel; /* NULL: never. Once it is set the result is only a part */
};

/* v has scores, and its kinds of tokens are settled: control, unknown, byte and unused ones are
 * left out, and those whose score is too bad to be one. */
void unigram_open(struct unigram *u, const struct vocab *v);
void unigram_close(struct unigram *u);

/* Appends the ids of text[0..len), at most 2^30 bytes. */
void unigram_encode(const struct unigram *u, const struct vocab *v, const char *text,
                    size_t len, struct chart *scratch, struct ids *out);
void chart_free(struct chart *c);

#endif
