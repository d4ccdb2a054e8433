/* Hashes of hashes: each key takes in the one before. */
#include "cache/key.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "backend/ops.h"

/* The bytes that are hashed: fingerprint, key before, ids. */
struct hashed {
    struct fingerprint f;
    struct key before;
    int32_t ids[PAGE_LEN];
};

static struct key hash(const struct hashed *h, size_t n)
{
    XXH128_hash_t x = XXH3_128bits(h, offsetof(struct hashed, ids) + n * sizeof *h->ids);
    return (struct key){x.low64, x.high64};
}

int key_compare(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->hi != y->hi) return x->hi < y->hi ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

struct key key_begin(const struct fingerprint *f)
{
    struct hashed h = {.f = *f};
    return hash(&h, 0);
}

struct key key_next(const struct fingerprint *f, struct key before, const int32_t *ids,
                    size_t n)
{
    assert(n >= 1 && n <= PAGE_LEN);
    struct hashed h = {.f = *f, .before = before};
    memcpy(h.ids, ids, n * sizeof *ids);
    return hash(&h, n);
}
