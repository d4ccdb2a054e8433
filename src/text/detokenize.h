/* Token ids to text as they come.
 *
 * A character may be spread over several tokens: its bytes are held back until it is whole.
 * Bytes that cannot be UTF-8 become U+FFFD, once per longest valid beginning, and set a flag
 * for the one warning. The owner embeds a struct detokenizer ({0} plus detokenizer_init); it
 * holds no memory. One thread at a time. Knows nothing of reasoning or ends. */
#ifndef TEXT_DETOKENIZE_H
#define TEXT_DETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct tokenizer;

struct detokenizer {
    const struct tokenizer *tok;
    bool show_control; /* control tokens appear as the text that spells them, else not at all */
    bool invalid;      /* some byte was not UTF-8 and is now U+FFFD */
    char held[4];
    size_t n_held;
};

/* tok must live as long as d, and may be NULL if only detokenizer_bytes is used. */
void detokenizer_init(struct detokenizer *d, const struct tokenizer *tok, bool show_control);
/* Appends to out what is whole with this token. */
void detokenizer_add(struct detokenizer *d, int32_t id, struct buf *out);
/* The same for bytes that are already there. */
void detokenizer_bytes(struct detokenizer *d, const char *bytes, size_t n, struct buf *out);
/* The end, or a border of a piece: what is still held back becomes U+FFFD. */
void detokenizer_flush(struct detokenizer *d, struct buf *out);

/* Appends the whole text of n ids, control tokens as they are spelled. False: some byte was not
 * UTF-8 and is U+FFFD now. */
bool detokenize(const struct tokenizer *tok, const int32_t *ids, size_t n, struct buf *out);

#endif
