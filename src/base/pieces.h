/* Bytes that do not follow each other: pieces of one size, each as far from the one before.
 * They are borrowed. Pure, any thread. */
#ifndef BASE_PIECES_H
#define BASE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pieces {
    const void *data;      /* the first */
    size_t n_bytes, apart; /* of a piece; from the start of one to that of the next */
};

static inline bool pieces_are_joined(const struct pieces *p)
{
    return p->apart == p->n_bytes;
}

/* The first n_bytes of them, whole pieces, to `to`, where they are so far apart. */
static inline void pieces_copy(const struct pieces *p, void *to, size_t apart, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes / p->n_bytes; i++)
        memcpy((uint8_t *)to + i * apart, (const uint8_t *)p->data + i * p->apart, p->n_bytes);
}

/* The same, one after the other. */
static inline void pieces_join(const struct pieces *p, void *to, size_t n_bytes)
{
    pieces_copy(p, to, p->n_bytes, n_bytes);
}

#endif
