/* How often each token occurs in the last tokens of the conversation: what the repeat, presence
 * and frequency penalties are computed from.
 *
 * The counts are kept as tokens come, at a constant cost per token, and equal a fresh count of
 * the window at any time. The sampler owns one. Pure: one thread, no I/O. */
#ifndef ENGINE_PENALTIES_H
#define ENGINE_PENALTIES_H

#include <stddef.h>
#include <stdint.h>

#include "backend/draw.h"

struct penalties {
    size_t n_vocab, len; /* len: tokens in a full window, 0 if it counts nothing */
    uint32_t *count;     /* [n_vocab] */
    uint32_t *slot;      /* [n_vocab]: where an id with a count stands in distinct */
    int32_t *distinct;   /* [n_distinct] ids with a count, in no order */
    size_t n_distinct, cap;
    /* The changes of counts, as struct draw hands them on. Each struct penalties counts from
     * another number on, so that a device never takes the changes of one for another's. */
    uint64_t n_changes;
    int32_t recent[DRAW_RECENT];
};

void penalties_init(struct penalties *p, size_t n_vocab);
void penalties_free(struct penalties *p);

/* Counts the last len (-1: all) of ids[0..n) afresh. Ids lie inside the vocabulary. */
void penalties_count(struct penalties *p, int len, const int32_t *ids, size_t n);
/* ids[n-1] has been appended to the tokens counted so far; the oldest leaves a full window. */
void penalties_add(struct penalties *p, const int32_t *ids, size_t n);
/* ids[n-1] is taken away again; the one that left a full window for it is back. */
void penalties_remove(struct penalties *p, const int32_t *ids, size_t n);

/* The counts as ids[n..n+n_ahead) would be appended one by one: of those that change the first
 * n_upto[i] are there after i of them, i from 0 to n_ahead. out has room for 2 n_ahead. */
void penalties_ahead(const struct penalties *p, const int32_t *ids, size_t n, size_t n_ahead,
                     struct draw_count *out, uint32_t *n_upto);

/* What counts once less when ids[n..n+n_ahead) are appended one by one, which nobody knows yet:
 * for each an id, -1 for nothing, or -2 - i for the i-th of them. */
void penalties_leaving(const struct penalties *p, const int32_t *ids, size_t n, size_t n_ahead,
                       int32_t *out);

#endif
