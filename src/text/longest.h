/* Text cut from left to right, each time into the longest token that it goes on with (tokenizer
 * model "rwkv").
 *
 * Owned by a struct tokenizer, immutable after open; any thread may encode. */
#ifndef TEXT_LONGEST_H
#define TEXT_LONGEST_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "text/sorted.h"

struct vocab;

struct longest {
    struct sorted sorted; /* the plain tokens */
};

/* v must keep its kinds of tokens from now on. Free with longest_close. */
void longest_open(struct longest *l, const struct vocab *v);
void longest_close(struct longest *l); /* {0} is fine */

/* Appends the ids of text[0..len); a byte that no token begins with is encoded as
 * vocab_spell does. A part of them once *cancel (may be NULL) is true. */
void longest_encode(const struct longest *l, const struct vocab *v, const char *text,
                    size_t len, const atomic_bool *cancel, struct ids *out);

#endif
