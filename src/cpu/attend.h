/* What kernels of attention share, whatever their instruction set: bounds of numbers, sinks,
 * and which keys a row sees. ref_attend.c and ref_attend_q.c define what is computed. Pure, any
 * thread. */
#ifndef CPU_ATTEND_H
#define CPU_ATTEND_H

#include "base/numeric_c.h"
#include "cpu/kernels.h"

/* Of KV types of codes, see ref_attend_q.c. Magnitudes from which values, and keys and queries
 * before they are turned, are broken: 2^100 and 2^90. */
enum { LARGEST = 0x71800000, TURN_LARGEST = 0x6c800000 };

/* What is left of weights of up to 255: those of q4_0 have a sign. */
static inline float attend_weight_unit(const struct kv_layer *kv)
{
    return kv->type == KV_Q4_0 ? 127.0f / 255.0f : 1.0f;
}

/* The sink of a query head, as a score. */
static inline float attend_sink(const struct attend *a, size_t head)
{
    return a->sinks[head] * NUM_LOG2_E;
}

/* Whether scores are just products times a factor. */
static inline bool attend_is_plain(const struct attend *a)
{
    return a->factors.cap == 0.0f && a->slopes.step == 0.0f;
}

/* What a score of a query head grows by from key to key; 0 without slopes. */
static inline float attend_slope(const struct attend *a, size_t head)
{
    const struct attend_slopes *s = &a->slopes;
    if (s->step == 0.0f) return 0;
    const size_t h = s->first + head, n = attend_even_heads(s->n_heads);
    const float steps = h < n ? (float)(h + 1) : (float)(h - n) + 0.5f;
    return num_exp2_below(-(s->step * steps)) * NUM_LOG2_E;
}

/* The first position that the row at pos sees. */
static inline size_t attend_first(uint32_t window, size_t pos)
{
    const size_t n = window_len(window);
    if (window & WINDOW_CHUNKS) return pos / n * n;
    return n > 0 && pos + 1 > n ? pos + 1 - n : 0;
}

#endif
