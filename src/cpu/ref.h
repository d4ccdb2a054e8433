/* The scalar kernels by name: the table of kernels.h, and for kernels of other instruction
 * sets that leave an odd end to them. */
#ifndef CPU_REF_H
#define CPU_REF_H

#include "cpu/kernels.h"

size_t ref_matmul_scratch(size_t n_cols);
void ref_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
size_t ref_attend_scratch(const struct kv_layer *kv, size_t n_group);
void ref_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);
void ref_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                  const float *k, const float *v);
/* KV types of codes (ref_attend_q.c has the arithmetic). */

/* Turns and quantises a query x[head_dim_k]: to codes[head_dim_k], their scales d[kv_scales],
 * times factor and kept, and the sums[head_dim_k/16] of sixteen codes each. */
void ref_query_codes(const struct kv_layer *kv, float factor, const float *x, int8_t *codes,
                     float *d, int16_t *sums);
/* Stores a key k[head_dim_k] and a value v[head_dim_v]. */
void ref_kv_store_q(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                    const float *k, const float *v);
/* The score of a key: q · k, times the factor that is in q's scales. */
float ref_dot_q(const struct kv_layer *kv, const void *page, size_t head, size_t key,
                const struct a8 *q);
/* What the scales of a key's value make of its weight: log2 D, and r, which is 1/D times n/255.
 */
float ref_weight_log2(const struct kv_layer *kv, const void *page, size_t head, size_t key);
float ref_weight_inverse(const struct kv_layer *kv, const void *page, size_t head, size_t key);
/* The values of keys lo..hi-1, weighted by w[PAGE_LEN], into out[head_dim_v]. */
void ref_values_q(const struct kv_layer *kv, const void *page, size_t head, size_t lo,
                  size_t hi, const float *w, float *out);

void ref_norm(const struct norm *o);
void ref_centre(const float *x, size_t n, float *out);
void ref_cut(const float *x, size_t n, float factor, float *out);
void ref_quantise(const struct quantise *o);
/* n values of one row. */
void ref_quantise_row(const float *x, size_t n, int8_t *q, float *d, int16_t *sum);
void ref_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin);
void ref_xielu(float *x, size_t n, float square, float bend, float slope);
void ref_scale(float *x, size_t n, float factor);
void ref_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out);
void ref_add(const float *a, const float *b, float scale, size_t n, float *out);
void ref_combine(const float *in, size_t stride, const float *weights, size_t n_used, size_t n,
                 float *out);
void ref_logits(const float *x, size_t n, float scale, float softcap, float *out);
void ref_conv(const struct conv *c, size_t lo, size_t hi);
void ref_decay(const struct op_decay *op, const float *in, const float *bias, const float *a,
               float *out);
void ref_recur(const struct recur *r, size_t head, size_t lo, size_t hi);

#endif
