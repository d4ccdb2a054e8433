/* The pieces of one position in every layer of a page. */
#include "backend/kv_rows.h"

#include <stdint.h>
#include <string.h>

#include "backend/kv.h"

size_t kv_planes(const struct kv_layer *kv, struct kv_plane planes[KV_MAX_PLANES])
{
    size_t dk = kv->head_dim_k, dv = kv->head_dim_v, n_heads = kv->n_heads;
    size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    /* Bytes that lie together: one number, or four codes of keys. */
    size_t unit = kv_type_codes(kv->type) ? 4 : k_bytes / PAGE_LEN / dk;
    const struct kv_head at = kv_head_at(kv, 0);
    planes[0] = (struct kv_plane){at.k, n_heads * k_bytes / PAGE_LEN / unit, unit, true};
    planes[1] = (struct kv_plane){at.v, n_heads, v_bytes / PAGE_LEN, false};
    if (!kv_type_codes(kv->type)) return 2;
    size_t scale = sizeof(uint16_t);
    planes[2] = (struct kv_plane){at.k_scales, n_heads * kv_scales(kv->type, dk), scale, true};
    planes[3] = (struct kv_plane){at.v_scales, n_heads * kv_scales(kv->type, dv), scale, false};
    return 4;
}

static bool plane_differs(const struct kv_plane *p, const uint8_t *a, const uint8_t *b,
                          size_t slot)
{
    for (size_t i = 0; i < p->n; i++) {
        size_t at = p->at + (i * PAGE_LEN + slot) * p->unit;
        if (memcmp(a + at, b + at, p->unit) != 0) return true;
    }
    return false;
}

bool kv_rows_differ(const struct kv_layer *kv, size_t n_layers, enum page_part part,
                    const void *a, const void *b, size_t n_slots, struct kv_difference *where)
{
    struct kv_plane planes[KV_MAX_PLANES];
    for (size_t layer = 0; layer < n_layers; layer++) {
        if (kv[layer].part != part) continue;
        size_t n = kv_planes(&kv[layer], planes);
        for (size_t slot = 0; slot < n_slots; slot++) {
            for (size_t i = 0; i < n; i++) {
                if (!plane_differs(&planes[i], a, b, slot)) continue;
                *where = (struct kv_difference){layer, slot, planes[i].is_key};
                return true;
            }
        }
    }
    return false;
}

void kv_rows_poison(const struct kv_layer *kv, size_t n_layers, enum page_part part, void *page,
                    size_t from)
{
    struct kv_plane planes[KV_MAX_PLANES];
    for (size_t layer = 0; layer < n_layers; layer++) {
        if (kv[layer].part != part) continue;
        size_t n = kv_planes(&kv[layer], planes);
        for (size_t i = 0; i < n; i++) {
            const struct kv_plane *p = &planes[i];
            for (size_t k = 0; k < p->n && from < PAGE_LEN; k++)
                memset((uint8_t *)page + p->at + (k * PAGE_LEN + from) * p->unit, 0xff,
                       (PAGE_LEN - from) * p->unit);
        }
    }
}
