/* How a matrix lies in device memory: for shaders that have a lane per row.
 *
 * Rows are grouped in tiles of 32, a tile is a run of planes of one 16-byte texel per row, so
 * that neighbouring lanes read neighbouring texels. What the planes of 256 columns of each type
 * hold is said in shaders/lib/weights.glsl; a float plane is four columns of F32 or eight of
 * F16 and BF16. Rows beyond the matrix and columns beyond its last are zero. Pure, any thread;
 * it knows no device. */
#ifndef VULKAN_PACK_H
#define VULKAN_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/qtype.h"

enum { PACK_TILE_ROWS = 32, PACK_STRIPE = 256 /* columns */ };

/* Bytes of a tile of n_cols columns. */
size_t pack_tile_bytes(enum qtype type, size_t n_cols);
/* Packs n_rows (1..PACK_TILE_ROWS) rows of file blocks, row_bytes apart, into one tile. */
void pack_tile(enum qtype type, const uint8_t *rows, size_t row_bytes, size_t n_rows,
               size_t n_cols, uint8_t *tile);

#endif
