/* The vocabulary of a GGUF file: token texts, kinds, scores, and the way from a text to its id.
 *
 * Owned by a struct tokenizer and private to this folder. Everything is copied out of the file
 * and checked once at open, so that the rest of the folder can trust ids, kinds and pieces.
 * Immutable after open: any thread may read. Ids given to its functions are below n. */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "text/tokenizer.h"

struct gguf;

/* Longer tokens than this are refused: matching costs their length per byte of text. */
#define VOCAB_MAX_TOKEN 4096

/* What a token of the vocabulary is, as tokenizer.ggml.token_type numbers it. */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,      /* never written by plain text, never shown in a reply */
    TOKEN_USER_DEFINED = 4, /* matched whole in any text, and shown */
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

/* How the texts of normal tokens stand for bytes. */
enum vocab_spelling {
    SPELL_BYTES,   /* each character is one byte, by the table of vocab_byte_char (gpt2) */
    SPELL_SPACES,  /* text, with U+2581 for a space; bytes as <0xXX> */
    SPELL_TEXT,    /* text as it is; bytes as <0xXX> */
    SPELL_ESCAPES, /* as a literal of Python: \n, \r, \t and \xXX, a backslash before any other
                      character for that one (rwkv) */
};

struct vocab {
    size_t n;
    enum vocab_spelling spelling;
    size_t max_len;       /* bytes of the longest text */
    struct piece *text;   /* n, as the file spells them, but without escapes */
    struct piece *piece;  /* n, the bytes they stand for */
    uint8_t *type;        /* n, enum token_type */
    float *score;         /* n, NULL if none are needed */
    uint32_t *order;      /* n, 0 for the best score; equal scores share a number; or NULL */
    int32_t byte_id[256]; /* the token of each single byte, -1 if there is none */
    uint32_t *slots;      /* hash table of id + 1 by text */
    size_t n_slots;
    uint64_t *pairs; /* which two characters stand side by side in some token: a sieve */
    char *bytes;     /* what text and piece point into */
};

/* Reads tokenizer.ggml.tokens, token_type and scores. Refused: missing or misfit arrays, two
 * tokens with one text, scores that are not numbers, misspelled byte tokens, an escape that is
 * broken off, a vocabulary that cannot spell a line of ASCII and U+FFFD. need_scores: the
 * scores must be there. ERR_MEMORY: there is none for its table. */
bool vocab_open(struct vocab *v, const struct gguf *g, enum vocab_spelling spelling,
                bool need_scores, struct err *err);
void vocab_close(struct vocab *v);

/* The token with exactly this text; -1 if there is none. */
int32_t vocab_find(const struct vocab *v, const char *text, size_t len);
/* The same, but only a token that plain text may become: never control, unknown or byte. */
int32_t vocab_find_plain(const struct vocab *v, const char *text, size_t len);
/* A token that plain text may become. */
bool vocab_is_plain(const struct vocab *v, int32_t id);
/* A token that is matched whole by its spelling: control, unknown or user-defined. */
bool vocab_is_special(const struct vocab *v, int32_t id);

/* Appends the tokens of the bytes of text, those of U+FFFD for one that has none. */
void vocab_spell(const struct vocab *v, const char *text, size_t len, struct ids *out);

/* Bytes of the character at s[0..n): 1 where it is not valid UTF-8. n is at least 1. */
size_t vocab_char_len(const char *s, size_t n);
/* False if no token has the characters a and b (of these lengths) side by side: no merge can
 * ever cross that border. May be true where no token has them. */
bool vocab_may_join(const struct vocab *v, const char *a, size_t a_len, const char *b,
                    size_t b_len);

/* The character that spells a byte in byte-level vocabularies. */
uint32_t vocab_byte_char(uint8_t byte);

#endif
