/* Reasoning and answer told apart in a reply as its tokens come.
 *
 * One table of markers (reasoning_at): think tags, [THINK], harmony channels, whom messages of
 * Muse are to, the named parts of Kimi K3, gemma's channel and their kin. Where the vocabulary
 * has a marker as one token, only that token counts, so a model may write about "<think>" in
 * plain letters; otherwise the marker is matched in the text, an opening one only at the start
 * of the reply. In harmony `<|end|>`, and in Muse `<|eom|>`, ends a message and not the turn:
 * the reply goes on in the next.
 *
 * struct reasoning belongs to one reply of the engine; it owns a little memory. One thread. */
#ifndef TEXT_REASONING_H
#define TEXT_REASONING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;
struct reasoning;

/* One way of marking thoughts. Static. */
struct reasoning_marker {
    const char *name;  /* "think", "harmony": for /show model */
    const char *open;  /* "<think>"; harmony: "<|channel|>analysis<|message|>" */
    const char *close; /* "</think>"; harmony: "<|end|>" */
};

/* The i-th row of the table; NULL past the end: for listing. */
const struct reasoning_marker *reasoning_at(size_t i);
/* The row whose markers this vocabulary has as tokens of their own; NULL if none: markers are
 * then looked for in the text. */
const struct reasoning_marker *reasoning_of(const struct tokenizer *tok);

enum reply_part { REPLY_TEXT, REPLY_REASONING };

/* Receives whole UTF-8; len is never 0. text lives during the call. Markers, control tokens
 * and the white space around a thought are left out; nothing else is. */
typedef void reasoning_emit(void *ctx, enum reply_part part, const char *text, size_t len);

/* A splitter for one reply; emit is called from reasoning_add and reasoning_flush. tok must
 * live as long. Free with reasoning_free. */
struct reasoning *reasoning_new(const struct tokenizer *tok, reasoning_emit *emit, void *ctx);
void reasoning_free(struct reasoning *r); /* NULL is fine */

/* Before the first reasoning_add: the ids of the prompt. Its end tells whether the generation
 * prompt opened a thought already ("<think>\n") or stands inside a harmony header. */
void reasoning_prompt(struct reasoning *r, const int32_t *ids, size_t n);
/* Index of the marker with which the prompt ids[0..n) opens a thought of the reply, or skips
 * it; n: there is none that is a token of its own. A later prompt may show this turn without
 * it. */
size_t reasoning_opened_at(const struct tokenizer *tok, const int32_t *ids, size_t n);
/* One token of the reply; a token that ends the turn is not passed. */
void reasoning_add(struct reasoning *r, int32_t id);
/* The end of the reply: emits what was held back. */
void reasoning_flush(struct reasoning *r);

/* Inside emit: where the piece begins in the whole reply as a detokenizer that shows control
 * tokens writes it. */
size_t reasoning_piece_at(const struct reasoning *r);
/* Whether a token that usually ends a turn does so here: false for <|end|> in harmony and
 * <|eom|> in Muse, which end a message. */
bool reasoning_ends_turn(const struct reasoning *r, int32_t id);
/* Whether the next token belongs to the answer, if it marks nothing: no thought is open, and no
 * header or the place before one is reached. */
bool reasoning_in_answer(const struct reasoning *r);
enum { REASONING_MAX_IDS = 32 };
/* The tokens with which a thought may begin here, instead of the answer; how many there are. */
size_t reasoning_opens(const struct reasoning *r, int32_t ids[REASONING_MAX_IDS]);
/* All tokens of the vocabulary that mark something; how many there are. */
size_t reasoning_ids(const struct tokenizer *tok, int32_t ids[REASONING_MAX_IDS]);
/* Whether invalid UTF-8 was replaced by U+FFFD so far: the face warns once. */
bool reasoning_saw_invalid(const struct reasoning *r);

#endif
