/* A block of drafts on two timelines whose models lie on one device: the draft's tokens, and
 * the target's rows over them, in one submission (backend.h).
 *
 * It is timeline_append and timeline_append_rows, many times, without a host in between: what
 * it leaves in both timelines are the bits of these. It borrows both; one thread at a time. It
 * knows no sampling. */
#ifndef ENGINE_TIMELINE_BLOCK_H
#define ENGINE_TIMELINE_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct draw;
struct timeline;

struct timeline_block {
    /* What the draft's timeline lacks of the tokens, n from 1 to TIMELINE_MAX_VERIFY, each
     * known to both models; the target's lacks just the last. */
    const int32_t *ids;
    size_t n;
    size_t n_drafts; /* 1 .. TIMELINE_MAX_VERIFY - 1; both contexts have room */
    const struct draw *draft_draw, *draw; /* sampler_request_block */
    /* Set: the draws that are known are timeline_drawn of the target, 0..n_right; the first
     * n_right drafts are these. */
    size_t n_right;
    double draft_share; /* of what it took */
};

/* Whether one device takes blocks of both (exec_takes_blocks): if not, drafts are made step by
 * step. */
bool timeline_takes_blocks(const struct timeline *target, const struct timeline *draft);
/* Whether it takes one now, the draft's timeline lacking n tokens: a window must be there that
 * rows were taken back into, and states after all tokens; those of the draft may be behind by
 * some that can be read again with the n. */
bool timeline_takes_block_now(const struct timeline *target, const struct timeline *draft,
                              size_t n);

/* Appends to the target the newest token and the drafts that were right, as
 * timeline_append_rows does, so that timeline_keep_rows follows, even if all count; and to the
 * draft's timeline what it lacks and those of the drafts but the last. On failure both hold
 * what they held. */
bool timeline_block(struct timeline *target, struct timeline *draft, struct timeline_block *b,
                    const atomic_bool *cancel, struct err *err);

#endif
