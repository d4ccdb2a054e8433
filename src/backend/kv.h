/* The types of the KV cache: their names, and how many bytes their parts take in a page.
 *
 * f32 and f16 store values as they are. q8_0 and q4_0 store blocks of KV_BLOCK dims of one key
 * or value: a code per dim and one scale per block, so that a row which is appended never
 * touches another. Where the parts lie is said at struct kv_layer (ops.h). Pure, any thread; it
 * knows no arithmetic and no device. */
#ifndef BACKEND_KV_H
#define BACKEND_KV_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/ops.h"

enum { KV_BLOCK = 32 };

const char *kv_type_name(enum kv_type type); /* "q8_0"; static */
/* The type of that name; false: there is none. */
bool kv_type_find(const char *name, enum kv_type *out);
/* Whether rows are stored as blocks of codes and scales; their dims are multiples of KV_BLOCK.
 */
bool kv_type_blocks(enum kv_type type);

/* Bytes of the PAGE_LEN keys, or values, of one head of dim dims: as numbers or codes, and as
 * scales (0 for f32 and f16). */
size_t kv_code_bytes(enum kv_type type, size_t dim);
size_t kv_scale_bytes(enum kv_type type, size_t dim);
/* Bytes of all heads of a layer: its keys, its values. */
size_t kv_layer_k_bytes(const struct kv_layer *kv);
size_t kv_layer_v_bytes(const struct kv_layer *kv);

#endif
