/* The pieces of one position in every layer of a page. */
#include "backend/kv_rows.h"

#include <stdint.h>
#include <string.h>

#include "backend/kv.h"

size_t kv_planes(const struct kv_layer *kv, size_t head, struct kv_plane planes[KV_MAX_PLANES])
{
    const size_t dk = kv->head_dim_k, dv = kv->head_dim_v, scale = sizeof(uint16_t);
    const size_t k_bytes = kv_code_bytes(kv->type, dk), v_bytes = kv_code_bytes(kv->type, dv);
    /* Bytes that lie together: one number, or four codes of keys. */
    const size_t unit = kv_type_codes(kv->type) ? 4 : k_bytes / PAGE_LEN / dk;
    const struct kv_head at = kv_head_at(kv, head);
    planes[0] = (struct kv_plane){at.k, k_bytes / PAGE_LEN / unit, unit, KEY_GROUP, true};
    planes[1] = (struct kv_plane){at.v, 1, v_bytes / PAGE_LEN, PAGE_LEN, false};
    if (!kv_type_codes(kv->type)) return 2;
    planes[2] = (struct kv_plane){at.k_scales, kv_scales(kv->type, dk), scale, PAGE_LEN, true};
    planes[3] = (struct kv_plane){at.v_scales, kv_scales(kv->type, dv), scale, PAGE_LEN, false};
    return 4;
}

/* Where piece i of a slot is. */
static size_t piece_at(const struct kv_plane *p, size_t i, size_t slot)
{
    return p->at + kv_part_at(p->group, p->n, i, slot) * p->unit;
}

static bool plane_differs(const struct kv_plane *p, const uint8_t *a, const uint8_t *b,
                          size_t slot)
{
    for (size_t i = 0; i < p->n; i++) {
        const size_t at = piece_at(p, i, slot);
        if (memcmp(a + at, b + at, p->unit) != 0) return true;
    }
    return false;
}

/* Whether a slot of a layer differs: in a key, if one does. */
static bool slot_differs(const struct kv_layer *kv, const void *a, const void *b, size_t slot,
                         bool *is_key)
{
    struct kv_plane planes[KV_MAX_PLANES];
    bool differs = false;
    *is_key = false;
    for (size_t head = 0; head < kv->n_heads && !*is_key; head++) {
        const size_t n = kv_planes(kv, head, planes);
        for (size_t i = 0; i < n && !*is_key; i++) {
            if (!plane_differs(&planes[i], a, b, slot)) continue;
            differs = true;
            *is_key = planes[i].is_key;
        }
    }
    return differs;
}

bool kv_rows_differ(const struct kv_layer *kv, size_t n_layers, enum page_part part,
                    const void *a, const void *b, size_t n_slots, struct kv_difference *where)
{
    for (size_t layer = 0; layer < n_layers; layer++) {
        if (kv[layer].part != part) continue;
        for (size_t slot = 0; slot < n_slots; slot++) {
            bool is_key;
            if (!slot_differs(&kv[layer], a, b, slot, &is_key)) continue;
            *where = (struct kv_difference){layer, slot, is_key};
            return true;
        }
    }
    return false;
}

/* Slots from..PAGE_LEN-1. */
static void poison_plane(const struct kv_plane *p, uint8_t *page, size_t from)
{
    for (size_t slot = from, n; slot < PAGE_LEN; slot += n) {
        n = p->group - slot % p->group; /* of a group, side by side */
        for (size_t i = 0; i < p->n; i++)
            memset(page + piece_at(p, i, slot), 0xff, n * p->unit);
    }
}

void kv_rows_poison(const struct kv_layer *kv, size_t n_layers, enum page_part part, void *page,
                    size_t from)
{
    struct kv_plane planes[KV_MAX_PLANES];
    for (size_t layer = 0; layer < n_layers; layer++) {
        if (kv[layer].part != part) continue;
        for (size_t head = 0; head < kv[layer].n_heads; head++) {
            const size_t n = kv_planes(&kv[layer], head, planes);
            for (size_t i = 0; i < n; i++)
                poison_plane(&planes[i], page, from);
        }
    }
}
