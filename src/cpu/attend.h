/* What the sets of attention kernels share. */
#ifndef CPU_ATTEND_H
#define CPU_ATTEND_H

#include "backend/kv.h"
#include "cpu/kernels.h"

/* Of the integer weights of KV types of blocks, see ref_attend_q.c. */
enum { WEIGHT_MAX = 2047, LARGEST = 0x71800000 /* 2^100 */ };

/* Where in a page the keys and the values of a KV head lie. */
struct head_at {
    size_t k, k_scales, v, v_scales;
};

static inline struct head_at attend_head_at(const struct kv_layer *kv, size_t head)
{
    const size_t k = kv_code_bytes(kv->type, kv->head_dim_k);
    const size_t v = kv_code_bytes(kv->type, kv->head_dim_v);
    return (struct head_at){
        .k = kv->k_at + head * k,
        .k_scales =
            kv->k_at + kv->n_heads * k + head * kv_scale_bytes(kv->type, kv->head_dim_k),
        .v = kv->v_at + head * v,
        .v_scales =
            kv->v_at + kv->n_heads * v + head * kv_scale_bytes(kv->type, kv->head_dim_v),
    };
}

/* Parts of the scratch begin at a line. */
static inline size_t attend_align(size_t n)
{
    return (n + 63) / 64 * 64;
}

#endif
