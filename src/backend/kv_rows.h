/* Where the keys and values of one position lie within a page: for whoever compares, poisons or
 * saves the rows that are in use and no others.
 *
 * A page interleaves its positions (ops.h), so a row is a set of pieces at a stride. Pure, any
 * thread; it knows the layout and no values. */
#ifndef BACKEND_KV_ROWS_H
#define BACKEND_KV_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "backend/ops.h"

/* The bytes of slot s of a page (position % PAGE_LEN): n pieces of unit bytes, piece i at
 * at + kv_part_at(group, n, i, s) * unit. */
struct kv_plane {
    size_t at, n, unit, group;
    bool is_key;
};

enum { KV_MAX_PLANES = 4 };

/* The planes of a head of one layer: together all that it has of a row. Returns how many. */
size_t kv_planes(const struct kv_layer *kv, size_t head, struct kv_plane planes[KV_MAX_PLANES]);

/* The first of n_slots rows that differs between a part of two pages, layer by layer; false:
 * none does. Sets the layer (of the program's kv list), the slot and whether a key does. */
struct kv_difference {
    size_t layer, slot;
    bool is_key;
};
bool kv_rows_differ(const struct kv_layer *kv, size_t n_layers, enum page_part part,
                    const void *a, const void *b, size_t n_slots, struct kv_difference *where);

/* Fills rows from..PAGE_LEN-1 of a part with bytes 0xff: NaN in every float type. */
void kv_rows_poison(const struct kv_layer *kv, size_t n_layers, enum page_part part, void *page,
                    size_t from);

#endif
