/* Speculation: a reply's next token, computed ahead together with those behind tokens that
 * somebody guessed.
 *
 * The generator asks for the token after its tokens, one after the other, as if they were
 * appended one by one. Behind that a source guesses what comes next, the target computes the
 * rows of all guesses in one step, and the draws from these rows, on the device or here, decide
 * which of the guesses were right: whatever is guessed, the logits are those of plain decoding,
 * and so is the text. A refused guess is forgotten (timeline_keep_rows).
 *
 * It borrows both timelines and the sampler, which the sources draw with too: noise belongs to
 * a position and an id, so a draft model that agrees draws the same token. The engine owns it;
 * one thread at a time. It knows no text. */
#ifndef ENGINE_SPECULATE_H
#define ENGINE_SPECULATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ids;
struct sampler;
struct speculator;
struct timeline;

struct speculator_parts {
    struct timeline *target;
    size_t n_vocab; /* of the target's logits */
    struct sampler *sampler;
    const int32_t *ends; /* [n_ends] ids that end a turn: nothing is guessed behind one */
    size_t n_ends;
    struct timeline *draft; /* the draft model's; NULL: none */
    size_t n_draft_vocab;   /* of its logits: shared ids mean the same in both */
    double draft_cost;      /* guess: a token of the draft as a share of one of the target */
    bool lookup;            /* guess what followed the same tokens before */
    uint32_t fixed;         /* drafts so many tokens each time, for tests; 0: as it pays */
};

/* What parts points to is borrowed. Without draft and lookup it decodes plainly. */
struct speculator *speculator_new(const struct speculator_parts *parts);
void speculator_free(struct speculator *s); /* NULL is fine */

/* A reply begins after the tokens of the target. */
void speculate_begin(struct speculator *s);
/* Draws the token after all of `all` into *id; false on failure or when cancelled. Each call
 * has the tokens of the one before and one more, which the sampler has accepted; the first has
 * those of the target. At most `most` more tokens will be asked for after this one. `all` is
 * used to try guesses on and is as before afterwards. */
bool speculate_draw(struct speculator *s, struct ids *all, size_t most,
                    const atomic_bool *cancel, int32_t *id, struct err *err);
/* The reply is over: the target holds what plain decoding would have left in it, and the draft
 * no guess that was wrong. */
void speculate_end(struct speculator *s, const struct ids *all);

/* Of the last reply. */
struct speculate_counts {
    uint32_t n_drafted, n_accepted;
    uint32_t n_steps; /* of the target: one per block of rows */
    double plain_ms;  /* what a token would have taken without drafts; 0: not known */
};
struct speculate_counts speculate_counts(const struct speculator *s);
/* The same, and counts from nothing again: of a speculator that may be gone in a moment. */
struct speculate_counts speculate_take_counts(struct speculator *s);

#endif
