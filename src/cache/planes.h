/* The shuffle of a blob's content: its bytes by planes, first the first bytes of all elements,
 * then their second bytes and so on, then what makes no whole element.
 *
 * The planes of a content are never in memory as a whole: a page of a large model has tens of
 * MiB, and several threads pack and unpack. Pure; any thread. */
#ifndef CACHE_PLANES_H
#define CACHE_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A content of n_bytes, of elements of element_bytes >= 1. */
struct planes {
    size_t n_bytes, element_bytes;
};

/* Bytes at..at+n of the planes of raw[0..n_bytes) into out[0..n), which is apart from it. */
void planes_get(const struct planes *p, const uint8_t *restrict raw, size_t at, size_t n,
                uint8_t *restrict out);
/* Puts them back: in[0..n) to their places in raw. Each call may write over what later planes
 * put there, so the calls come in order. */
void planes_put(const struct planes *p, uint8_t *restrict raw, size_t at, size_t n,
                const uint8_t *restrict in);

#endif
