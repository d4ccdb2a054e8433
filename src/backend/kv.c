/* The table of KV types, the bytes of their parts, and what makes scores of them. */
#include "backend/kv.h"

#include <stdint.h>
#include <string.h>

#include "base/numeric_c.h"

static const struct {
    const char *name;
    size_t bits;       /* of a number or code */
    size_t scale_dims; /* that share a scale; 0: there are none */
} types[] = {
    [KV_F32] = {"f32", 32, 0},
    [KV_F16] = {"f16", 16, 0},
    [KV_Q8_0] = {"q8_0", 8, KV_MAX_DIM},
    [KV_Q4_0] = {"q4_0", 4, KV_BLOCK},
};
enum { N_TYPES = sizeof types / sizeof *types };

const char *kv_type_name(enum kv_type type)
{
    return types[type].name;
}

bool kv_type_find(const char *name, enum kv_type *out)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        *out = (enum kv_type)i;
        return true;
    }
    return false;
}

bool kv_type_codes(enum kv_type type)
{
    return types[type].scale_dims > 0;
}

bool kv_codes_fit(size_t dim)
{
    return dim % KV_BLOCK == 0 && dim <= KV_MAX_DIM;
}

size_t kv_scales(enum kv_type type, size_t dim)
{
    const size_t n = types[type].scale_dims;
    return n > 0 ? (dim + n - 1) / n : 0;
}

size_t kv_turned_dims(size_t dim)
{
    return dim & -dim;
}

struct kv_factors kv_factors(const struct kv_layer *kv, float scale, float softcap)
{
    const float score = softcap == 0.0f ? scale * NUM_LOG2_E : scale;
    return (struct kv_factors){
        .query = 1.0f / (float)kv_turned_dims(kv->head_dim_k) * score,
        .dot = kv_type_codes(kv->type) ? 1.0f : score,
        .cap = softcap * NUM_LOG2_E,
        .inverse_cap = softcap == 0.0f ? 0.0f : (float)(1.0 / (double)softcap),
        .sink_sum = !kv_type_codes(kv->type) ? 1
                    : kv->type == KV_Q4_0    ? 127
                                             : 255,
    };
}

size_t kv_code_bytes(enum kv_type type, size_t dim)
{
    return dim * types[type].bits / 8 * PAGE_LEN;
}

/* Bytes of the scales of as many keys or values; 0 for f32 and f16. */
static size_t scale_bytes(enum kv_type type, size_t dim)
{
    return kv_scales(type, dim) * sizeof(uint16_t) * PAGE_LEN;
}

struct kv_head kv_head_at(const struct kv_layer *kv, size_t head)
{
    const size_t n_beside = kv->n_beside > 0 ? kv->n_beside : 1;
    struct kv_head at = {.k = n_beside * (kv->at + head * kv_head_bytes(kv))};
    at.k_scales = at.k + kv_code_bytes(kv->type, kv->head_dim_k);
    at.v = at.k_scales + scale_bytes(kv->type, kv->head_dim_k);
    at.v_scales = at.v + kv_code_bytes(kv->type, kv->head_dim_v);
    return at;
}

static size_t part_bytes(enum kv_type type, size_t dim)
{
    return kv_code_bytes(type, dim) + scale_bytes(type, dim);
}

size_t kv_head_bytes(const struct kv_layer *kv)
{
    return part_bytes(kv->type, kv->head_dim_k) + part_bytes(kv->type, kv->head_dim_v);
}

size_t kv_layer_bytes(const struct kv_layer *kv)
{
    return kv->n_heads * kv_head_bytes(kv);
}

size_t kv_page_unit(const struct kv_layer *kv, size_t n_layers, enum page_part part)
{
    size_t unit = 0;
    for (size_t i = 0; i < n_layers; i++) {
        if (kv[i].part != part) continue;
        const size_t n_bytes = kv_head_bytes(&kv[i]);
        if (unit != 0 && unit != n_bytes) return 0;
        unit = n_bytes;
    }
    return unit;
}
