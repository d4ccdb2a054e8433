/* Byte-pair encoding by a list of merges (tokenizer models "gpt2" and "gemma4").
 *
 * Works on one word of the pre-tokenizer at a time. A symbol is a byte or, where the vocabulary
 * is spelled as text, a character. A struct bpe is immutable after open and private to this
 * folder. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/ids.h"

struct gguf;
struct pretokenizer;
struct vocab;
struct merger;
struct bpe_merge;

struct bpe {
    struct bpe_merge *slots; /* hash table by the pair of ids */
    size_t n_slots;
    bool whole_words, whole_breaks; /* as the pre-tokenizer says */
};

/* Reads tokenizer.ggml.merges; pre is read during the call. Refused: no such array, a line that
 * is not two tokens, a merge whose parts or result are not in the vocabulary. ERR_CANCELLED
 * once *cancel (may be NULL) is true, ERR_MEMORY if there is none for the table. */
bool bpe_open(struct bpe *b, const struct gguf *g, const struct vocab *v,
              const struct pretokenizer *pre, const atomic_bool *cancel, struct err *err);
void bpe_close(struct bpe *b);

/* Appends the ids of one word: raw bytes or, where the vocabulary is spelled as text, text with
 * U+2581 for spaces. */
void bpe_encode(const struct bpe *b, const struct vocab *v, const char *word, size_t len,
                struct merger *scratch, struct ids *out);

#endif
