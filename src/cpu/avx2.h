/* The AVX2 kernels by name: for the table of their own set, and for those of AVX-VNNI, AVX-512
 * and AMX where these have none of their own. */
#ifndef CPU_AVX2_H
#define CPU_AVX2_H

#include "cpu/kernels.h"

enum { AVX2_ATTEND_ROWS = 64 }; /* rows of one call of avx2_attend */

/* Products of weights that are floats, and what it needs of that scratch. */
void avx2_matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch);
size_t avx2_matmul_floats_scratch(size_t n_cols);
size_t avx2_attend_rows(size_t n_group);
size_t avx2_attend_scratch(const struct kv_layer *kv, size_t n_group);
void avx2_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);
void avx2_attend_heads(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                       size_t hi, void *scratch);
void avx2_attend_part(const struct attend *a, const struct attend_part *part, void *scratch);
void avx2_attend_join(const struct attend *a, size_t kv_head, size_t n_rows,
                      struct attend_sums sums, size_t n, void *scratch);
void avx2_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                   struct kv_rows rows);
/* Types of codes, as ref_kv_store_q and ref_query_codes. */
void avx2_store_codes(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                      const float *k, const float *v);
void avx2_query_codes(const struct kv_layer *kv, float factor, const float *x, int8_t *codes,
                      float *d, int16_t *sums);
void avx2_norm(const struct norm *o);
void avx2_centre(const float *x, size_t n, float *out);
void avx2_cut(const float *x, size_t n, float factor, float *out);
void avx2_quantise(const struct quantise *o);
void avx2_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin);
void avx2_xielu(float *x, size_t n, float square, float bend, float slope);
void avx2_scale(float *x, size_t n, float factor);
void avx2_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out);
void avx2_add(const float *a, const float *b, float scale, size_t n, float *out);
void avx2_combine(const float *in, size_t stride, const float *weights, size_t n_used, size_t n,
                  float *out);
void avx2_logits(const float *x, size_t n, float scale, float softcap, float *out);
void avx2_conv(const struct conv *c, size_t lo, size_t hi);
void avx2_decay(const struct op_decay *op, const float *in, const float *bias, const float *a,
                float *out);
void avx2_recur(const struct recur *r, size_t head, size_t lo, size_t hi);

/* Members of the tables of AVX2, AVX-VNNI and ARM's dot products: all but the products. */
#define AVX2_ATTEND_AND_ROWS                                                                   \
    .attend_rows = avx2_attend_rows, .attend_scratch = avx2_attend_scratch,                    \
    .attend = avx2_attend, .attend_heads = avx2_attend_heads, .attend_part = avx2_attend_part, \
    .attend_join = avx2_attend_join, .kv_store = avx2_kv_store, .norm = avx2_norm,             \
    .centre = avx2_centre, .cut = avx2_cut, .xielu = avx2_xielu, .quantise = avx2_quantise,    \
    .rope = avx2_rope, .scale = avx2_scale, .glu = avx2_glu, .add = avx2_add,                  \
    .combine = avx2_combine, .logits = avx2_logits, .conv = avx2_conv, .decay = avx2_decay,    \
    .recur = avx2_recur

#endif
