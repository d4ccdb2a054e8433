/* Text to token ids and back, as the vocabulary of a GGUF file says.
 *
 * A tokenizer is opened from a file's metadata and copies what it needs, so it may outlive the
 * file. The engine owns it. It is immutable after open: any thread may call any function here
 * at the same time. It knows no tensors, no templates and no conversation. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "text/spans.h"

struct gguf;
struct tokenizer;

/* Bytes of a token; not NUL-terminated, live as long as the tokenizer. */
struct piece {
    const char *data;
    size_t len;
};

/* The tokenizer of the file's vocabulary. Refused with a message: no vocabulary, a tokenizer
 * model or pre-tokenizer that hearth does not know (with the list of those it knows), arrays
 * that do not fit together, a vocabulary that cannot spell a line of ASCII. A large vocabulary
 * takes a tenth of a second: ERR_CANCELLED once *cancel (may be NULL) is true. ERR_MEMORY
 * if there is none for its tables. Free with tokenizer_close. */
struct tokenizer *tokenizer_open(const struct gguf *g, const atomic_bool *cancel,
                                 struct err *err);
void tokenizer_close(struct tokenizer *tok); /* NULL is fine */

/* What is made of a text. */
enum tokenizer_how {
    ENCODE_PLAIN = 0,
    ENCODE_CONTROL = 1, /* text that spells a control token becomes it */
    ENCODE_ENDS = 2,    /* the file's BOS and EOS are added if the file asks for them */
};

/* Appends the ids of text[0..len) to out; how: what of enum tokenizer_how, or-ed. Invalid UTF-8
 * is fine: its bytes are encoded as they stand. A byte that the vocabulary has no token for, of
 * text or not, is encoded as U+FFFD. On failure out is as before. */
bool tokenizer_encode(const struct tokenizer *tok, const char *text, size_t len, unsigned how,
                      struct ids *out, struct err *err);

/* Appends the ids of a rendered prompt to out. Control tokens are recognised in MARKUP only,
 * whole ones within one piece of it; otherwise the text of neighbouring MARKUP and TEXT is
 * tokenised as if it were one string. IDS are copied. The file's BOS comes first if the file
 * asks for one and the rendering does not begin with it. On failure out is as before;
 * ERR_CANCELLED once *cancel (may be NULL) is true. */
bool tokenizer_encode_spans(const struct tokenizer *tok, const struct spans *spans,
                            const atomic_bool *cancel, struct ids *out, struct err *err);

/* A prompt and its ids, kept for the next one, which mostly begins alike; {0} is none. Of one
 * tokenizer, and of one thread at a time. Freed with encoded_free. */
struct encoded {
    struct spans spans;
    struct ids ids; /* without a BOS that the file asks for */
    size_t *n_ids;  /* [spans.n] up to the end of a span; unset where text goes on behind it */
    size_t n_taken; /* of ids: they are those of the prompt before */
};
void encoded_free(struct encoded *e);

/* The same for a prompt after another, *last, which it replaces: what both begin with, up to
 * the last border of IDS, is not tokenised again. */
bool tokenizer_encode_next(const struct tokenizer *tok, struct encoded *last,
                           const struct spans *spans, const atomic_bool *cancel,
                           struct ids *out, struct err *err);

size_t tokenizer_n_vocab(const struct tokenizer *tok);
/* The bytes a token stands for, possibly a part of a character; for a control token the text
 * that spells it ("<|im_end|>"). An id outside the vocabulary gives an empty piece. */
struct piece tokenizer_piece(const struct tokenizer *tok, int32_t id);
/* A token without text of its own: control or unknown. Replies do not show it. */
bool tokenizer_is_control(const struct tokenizer *tok, int32_t id);
/* The token of any kind that the file spells exactly so; -1 if there is none. */
int32_t tokenizer_find(const struct tokenizer *tok, const char *text, size_t len);

/* The file's own special ids; -1 where it has none. */
int32_t tokenizer_bos(const struct tokenizer *tok);
int32_t tokenizer_eos(const struct tokenizer *tok);

/* Ends of a turn: the file's eos, eot and eom, and tokens with a well-known name
 * (turn_names.h). Sampling one ends the reply. */
bool tokenizer_is_end(const struct tokenizer *tok, int32_t id);
/* All of them, ascending; *n is set to their number. Lives as long as the tokenizer. */
const int32_t *tokenizer_ends(const struct tokenizer *tok, size_t *n);

/* What a reply never draws, as the file says (tokenizer.ggml.suppress_tokens): for gemma4 the
 * ends of images and sounds, which it would write now and then. *n is set to their number.
 * Lives as long as the tokenizer. */
const int32_t *tokenizer_suppressed(const struct tokenizer *tok, size_t *n);

/* The chat template in the file (tokenizer.chat_template), or with a name its variant
 * (tokenizer.chat_template.NAME); data is NULL if there is none, or a blank one. */
struct piece tokenizer_template(const struct tokenizer *tok, const char *name);

/* "llama", "gpt2", "gemma4", "plamo2", "rwkv" and the pre-tokenizer's name ("" where none
 * applies): for
 * /show. */
const char *tokenizer_model(const struct tokenizer *tok);
const char *tokenizer_pre(const struct tokenizer *tok);
/* Whether the vocabulary needs a pre-tokenizer, but the file does not say which. */
bool tokenizer_pre_is_guess(const struct tokenizer *tok);

#endif
