/* The name of a state: 128 bits that follow from everything it depends on.
 *
 * key(n) = XXH3-128(fingerprint, key of the pages before, ids since), for any count of tokens
 * n; the pages before are the whole ones before the last token's. Equal keys are a good guess,
 * no proof: whoever finds by key compares the ids it has stored. Pure, any thread. */
#ifndef CACHE_KEY_H
#define CACHE_KEY_H

#include <stddef.h>
#include <stdint.h>

struct key {
    uint64_t lo, hi;
};

/* All that changes a number besides the tokens. The caller fills it; no padding. */
struct fingerprint {
    struct key weights; /* of the weights' contents */
    struct key options; /* of every option that changes a number: rope scaling, exactness */
    uint32_t numerics;  /* NUMERICS_VERSION */
    uint32_t kv_type;
};

/* An order of keys, for qsort and bsearch of struct key. */
int key_compare(const void *a, const void *b);

/* The key of no tokens. */
struct key key_begin(const struct fingerprint *f);
/* The key of n more tokens, 1..PAGE_LEN, after a whole number of pages whose key is before. */
struct key key_next(const struct fingerprint *f, struct key before, const int32_t *ids,
                    size_t n);

#endif
