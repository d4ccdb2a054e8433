/* A reply: draws tokens after a prompt until something ends it, and tells text from reasoning.
 *
 * The generator owns the buffers of one reply at a time, which the struct engine_reply it hands
 * out borrows. The speculator draws its tokens and grows the timeline; the generator gives
 * whole UTF-8 to a sink as it becomes certain: bytes that may begin a stop string wait. Stop
 * strings are looked for in the answer, not in the reasoning. The engine owns it; one thread at
 * a time; it knows no events and no prompt but its ids. */
#ifndef ENGINE_GENERATE_H
#define ENGINE_GENERATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/reasoning.h"

struct bound;
struct engine_reply;
struct engine_sampling;
struct generator;
struct ids;
struct sampler;
struct speculator;
struct timeline;
struct tokenizer;

struct generator *generator_new(void);
void generator_free(struct generator *g); /* NULL is fine */
/* Tokens drawn for the reply that is being made, or was made last. */
uint32_t generator_n_drawn(const struct generator *g);

/* Where a reply goes while it is made. text lives during the call; len is not 0. */
struct generate_sink {
    void (*piece)(void *user, enum reply_part part, const char *text, size_t len);
    void (*warning)(void *user, const char *line);
    void *user;
    /* After a failure (err): another timeline and speculator take over, with the logits after
     * all tokens. False: not this failure, or it failed too; NULLs then if those before are
     * gone. NULL: nobody can. */
    bool (*take_over)(void *user, const struct ids *all, struct timeline **tl,
                      struct speculator **spec, struct err *err);
};

/* What draws and spells a reply; borrowed for the call. spec's target is tl, and it draws with
 * the same sampler. */
struct generate_parts {
    struct timeline *tl;
    struct sampler *sampler;
    struct speculator *spec;
    const struct tokenizer *tok;
    struct bound *bound; /* the sampler's; NULL: grammars bind no reply */
};

/* Makes a reply to the tokens of tl, which holds the logits after the last of them. A cancel is
 * no failure: the reply ends there. NULL on failure (broken logits, a device): tl holds the
 * tokens that were finished. The reply lives until the next call; its counts of cached and
 * prefilled tokens and prefill_ms are the caller's to fill in. */
struct engine_reply *generate(struct generator *g, const struct generate_parts *parts,
                              const struct engine_sampling *how,
                              const struct generate_sink *sink, const atomic_bool *cancel,
                              struct err *err);

#endif
