/* The softmax of few queries on AVX-512, and the weights that it gives values of codes: members
 * of struct attend_few (attend_avx2.h), which says what they do. For attend_few*_avx512.c. */
#ifndef CPU_ATTEND_FEW_SOFTMAX_AVX512_H
#define CPU_ATTEND_FEW_SOFTMAX_AVX512_H

#include "cpu/attend_avx2.h"

void avx512_few_weigh_keys(const struct kv_layer *kv, const struct block_tile *t);
void avx512_few_softmax(const struct attend *a, struct batch *t, size_t at, size_t n);
void avx512_few_weights(const struct batch *t, size_t n_v_scales, int16_t *u);

/* Where the weights of four keys that follow each other are among those that
 * avx512_few_weights makes of a page, in bytes. */
static inline size_t few_weights_at(size_t four)
{
    return four % 4 * 16 + four / 4 * 4;
}

#endif
