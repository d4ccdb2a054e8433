/* Guesses by looking back: what followed the same tokens before.
 *
 * It indexes the runs of tokens of one sequence, the conversation with all that was read into
 * it, and follows it as it grows or is cut. The speculator owns it; one thread at a time. It
 * knows no text and no model. */
#ifndef ENGINE_LOOKUP_H
#define ENGINE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lookup;

struct lookup *lookup_new(void);
void lookup_free(struct lookup *l); /* NULL is fine */

struct lookup_match {
    const int32_t *next; /* [n] what followed; inside the ids that were asked about */
    size_t n;            /* 0: nothing was found */
    bool is_long;        /* the run before is the same for LOOKUP_LONG tokens at least */
};

enum { LOOKUP_LONG = 6 };

/* Where the last tokens of ids[0..n) stood before: of the places with the longest run of the
 * same tokens the newest. What the sequence shares with the one before is not indexed again. */
struct lookup_match lookup_find(struct lookup *l, const int32_t *ids, size_t n);

#endif
