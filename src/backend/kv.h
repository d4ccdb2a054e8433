/* The types of the KV cache: their names, how many bytes their parts take in a page, and where
 * those of a head begin.
 *
 * f32 and f16 store values as they are. q8_0 and q4_0 store codes, one per dim, and scales: one
 * per key or value with q8_0, one per KV_BLOCK dims of it with q4_0, so that a row which is
 * appended never touches another. What lies in the parts is said at struct kv_layer (ops.h).
 * And the factors of scores, which CPU and Vulkan share. Pure, any thread; it knows no device.
 */
#ifndef BACKEND_KV_H
#define BACKEND_KV_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/ops.h"

enum {
    KV_BLOCK = 32,    /* of whose multiples the dims of types of codes are */
    KV_MAX_DIM = 512, /* the most dims with types of codes: sums of products fit in 24 bits */
};

const char *kv_type_name(enum kv_type type); /* "q8_0"; static */
/* The type of that name; false: there is none. */
bool kv_type_find(const char *name, enum kv_type *out);
/* Whether rows are stored as codes and scales. */
bool kv_type_codes(enum kv_type type);
/* Whether a head of dim dims can be. */
bool kv_codes_fit(size_t dim);
/* Scales of one key or value of dim dims; 0 for f32 and f16. */
size_t kv_scales(enum kv_type type, size_t dim);
/* Dims of a key that are turned together where it is stored as codes: the largest power of two
 * that divides dim. */
size_t kv_turned_dims(size_t dim);

/* What makes scores of queries and keys, as exponents of two: those cost less than of e. A sink
 * becomes a score when it is multiplied by NUM_LOG2_E. */
struct kv_factors {
    float query; /* of a query's scales where keys are codes; turning is undone with it */
    float dot;   /* of the product with a key; 1 where keys are codes */
    float cap, inverse_cap; /* of cap · tanh(inverse_cap · score); 0: no softcap */
    /* The sum of the probabilities of a sink alone: sums and outputs of codes are so many times
     * over, for weights become integers up to that. Codes of q4_0 leave a weight its sign. */
    float sink_sum;
};
/* The factors of an op with this scale and softcap (0: none). */
struct kv_factors kv_factors(const struct kv_layer *kv, float scale, float softcap);

/* Bytes of the PAGE_LEN keys, or values, of one head of dim dims as numbers or codes; their
 * scales come on top. */
size_t kv_code_bytes(enum kv_type type, size_t dim);

/* Where the i-th of the n parts of a slot lies where the slots of a group have each part side
 * by side: counted in parts. */
static inline size_t kv_part_at(size_t group, size_t n, size_t i, size_t slot)
{
    return (slot / group * n + i) * group + slot % group;
}

/* The same among the keys of a head: parts are numbers, or with types of codes four bytes. */
static inline size_t kv_key_at(size_t n, size_t i, size_t slot)
{
    return kv_part_at(KEY_GROUP, n, i, slot);
}

/* Where in a page the keys and the values of a KV head lie, and their scales (of no meaning for
 * f32 and f16): bytes from the address of the part of the page, whose heads are further apart
 * where pages lie side by side (kv_layer.n_beside). */
struct kv_head {
    size_t k, k_scales, v, v_scales;
};
struct kv_head kv_head_at(const struct kv_layer *kv, size_t head);

/* Bytes of a page that a head of a layer has, after which the next one's begin; that all have.
 * Multiples of 64. */
size_t kv_head_bytes(const struct kv_layer *kv);
size_t kv_layer_bytes(const struct kv_layer *kv);
/* kv_head_bytes of all layers that are in a part of a page, if it is the same; else 0. */
size_t kv_page_unit(const struct kv_layer *kv, size_t n_layers, enum page_part part);

#endif
