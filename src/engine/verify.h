/* Whether what a timeline holds is what its tokens give: computes them again from nothing, in
 * pages of its own, and compares every byte.
 *
 * It borrows everything of its subject and changes none of it. One thread at a time; cancel may
 * be set by any. It knows no text. */
#ifndef ENGINE_VERIFY_H
#define ENGINE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"

struct backend;
struct exec;
struct program;
struct timeline_watch;

/* What is held for the first n > 0 tokens. */
struct verify_held {
    size_t n;
    const float *logits; /* [n_vocab]; NULL: none */
    const void *states;  /* [state_bytes]; NULL: none */
};

struct verify_subject {
    struct backend *be;
    const struct program *program;
    struct exec *exec;
    uint32_t max_rows; /* of the exec */
    const int32_t *ids;
    size_t n;
    void *const *pages[PAGE_PARTS]; /* of the n tokens */
    /* [pages]: how many rows of each, its first, PAGE_WINDOW still has; NULL: all. */
    const uint32_t *windows;
    const struct verify_held *held; /* [n_held], by n */
    size_t n_held;
};

enum verify_what { VERIFY_SAME, VERIFY_KEYS, VERIFY_VALUES, VERIFY_STATES, VERIFY_LOGITS };

/* What was found: the first difference in the order of positions, or VERIFY_SAME. */
struct verify_verdict {
    enum verify_what what;
    size_t pos;   /* of the token */
    size_t layer; /* of keys and values: among the layers that have them; of states: the part */
    size_t n_tokens, n_held, n_bytes; /* compared until then */
};

/* False without memory for a second copy (ERR_MEMORY), when cancelled, or when the device
 * fails. watch may be NULL; its progress counts tokens. */
bool verify_run(const struct verify_subject *s, const struct timeline_watch *watch,
                struct verify_verdict *out, struct err *err);

#endif
