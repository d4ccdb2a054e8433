/* Cutting text into words before byte pairs are merged: one table of regular expressions.
 *
 * tokenizer.ggml.pre names the way a vocabulary was trained; merges never cross the border of a
 * word, so a wrong cut gives ids the model never saw. PCRE2 runs the expressions (JIT, Unicode
 * properties). A struct pretokenizer is immutable after open, any thread may split with its own
 * struct words. Private to this folder. */
#ifndef TEXT_PRETOKENIZE_H
#define TEXT_PRETOKENIZE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define PRE_MAX_STEPS 6

enum pre_trait {
    PRE_WHOLE_WORDS = 1,  /* a word that is a token is taken as it is, without merges */
    PRE_WHOLE_BREAKS = 2, /* a word of line breaks is, which no merge builds */
    PRE_SPACES = 4,       /* the vocabulary is spelled as text (SPELL_SPACES), not as bytes */
    PRE_ADD_BOS = 8,      /* unless the file says otherwise */
    PRE_MUST_BOS = 16,    /* whatever the file says */
};

struct pretokenizer {
    const char *name;          /* as the file says it; static */
    unsigned traits;           /* of enum pre_trait */
    void *code[PRE_MAX_STEPS]; /* compiled expressions, one step after the other */
};

/* Words of one text: word i ends (exclusive) at ends[i] and begins where the one before ends.
 * {0} is empty; words_free frees it. Keep it for the next text: it holds scratch memory. */
struct words {
    size_t *ends, *spare;
    size_t n, cap, cap_spare;
    struct buf shadow;
    void *match, *context, *stack;
};

/* Compiles the expressions of a pre-tokenizer; an unknown name is refused with the list of
 * those hearth knows. len is the length of name. */
bool pretokenize_open(struct pretokenizer *p, const char *name, size_t len, struct err *err);
void pretokenize_close(struct pretokenizer *p);

/* Cuts text[0..len) into words that cover it. Bytes that are not UTF-8 count as symbols. Fails
 * only where PCRE2 runs out of memory, and with ERR_CANCELLED once *cancel (may be NULL) is
 * true. */
bool pretokenize_split(const struct pretokenizer *p, const char *text, size_t len,
                       const atomic_bool *cancel, struct words *w, struct err *err);
void words_free(struct words *w);

#endif
