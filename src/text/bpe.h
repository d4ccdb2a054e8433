/* Byte-pair encoding by a list of merges (tokenizer models "gpt2" and "gemma4").
 *
 * Works on one word of the pre-tokenizer at a time. In gpt2 a symbol is a byte, in gemma4 a
 * character. A struct bpe is immutable after open and private to this folder. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/ids.h"

struct gguf;
struct vocab;
struct merger;
struct bpe_merge;

struct bpe {
    struct bpe_merge *slots; /* hash table by the pair of ids */
    size_t n_slots;
    bool whole_words; /* a word that is a token is not built by merges */
};

/* Reads tokenizer.ggml.merges. Refused: no such array, a line that is not two tokens, a merge
 * whose parts or result are not in the vocabulary. ERR_CANCELLED once *cancel (may be NULL) is
 * true. */
bool bpe_open(struct bpe *b, const struct gguf *g, const struct vocab *v, bool whole_words,
              const atomic_bool *cancel, struct err *err);
void bpe_close(struct bpe *b);

/* Appends the ids of one word: raw bytes for gpt2, text with U+2581 for spaces for gemma4. */
void bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                struct merger *scratch, struct ids *out);

#endif
