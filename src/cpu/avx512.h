/* The AVX-512 and AMX kernels by name. */
#ifndef CPU_AVX512_H
#define CPU_AVX512_H

#include "cpu/avx2.h"
#include "cpu/kernels.h"

void avx512_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
size_t avx512_matmul_scratch(size_t n_cols);
/* The same with GFNI (gfni.h). */
void gfni_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
/* Of weights that are floats, and what it needs of that scratch. */
void avx512_matmul_floats(const struct matmul *m, size_t lo, size_t hi, void *scratch);
size_t avx512_matmul_floats_scratch(size_t n_cols);
/* Values that strips take one after the other: their panels stay in the second cache. */
size_t avx512_band(const struct weight *w);

size_t avx512_attend_rows(size_t n_group);
size_t avx512_attend_scratch(const struct kv_layer *kv, size_t n_group);
void avx512_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);
/* For at most eight queries; the scratch of avx2_attend. */
void avx512_attend_few(const struct attend *a, size_t kv_head, size_t lo, size_t hi,
                       void *scratch);
void avx512_attend_heads(const struct attend *a, size_t kv_head, size_t n_heads, size_t lo,
                         size_t hi, void *scratch);
void avx512_attend_part(const struct attend *a, const struct attend_part *part, void *scratch);

void avx512_kv_store(const struct kv_layer *kv, void *page, size_t head, size_t slot,
                     struct kv_rows rows);
void avx512_norm(const struct norm *o);
void avx512_quantise(const struct quantise *o);
void avx512_rope(float *x, enum rope_pairs pairs, size_t n_pairs, const float *cos_sin);
void avx512_scale(float *x, size_t n, float factor);
void avx512_glu(enum glu_kind kind, const float *gate, const float *up, size_t n, float *out);
void avx512_add(const float *a, const float *b, float scale, size_t n, float *out);
void avx512_combine(const float *in, size_t stride, const float *weights, size_t n_used,
                    size_t n, float *out);
void avx512_logits(const float *x, size_t n, float scale, float softcap, float *out);
void avx512_conv(const struct conv *c, size_t lo, size_t hi);
void avx512_recur(const struct recur *r, size_t head, size_t lo, size_t hi);

size_t amx_matmul_scratch(size_t n_cols);
void amx_matmul(const struct matmul *m, size_t lo, size_t hi, void *scratch);
size_t amx_attend_scratch(const struct kv_layer *kv, size_t n_group);
void amx_attend(const struct attend *a, size_t kv_head, size_t lo, size_t hi, void *scratch);

/* Members of the tables of AVX-512 and AMX: all but the products and .attend. */
#define AVX512_ROWS                                                                           \
    .attend_rows = avx512_attend_rows, .attend_heads = avx512_attend_heads,                   \
    .attend_part = avx512_attend_part, .attend_join = avx2_attend_join,                       \
    .kv_store = avx512_kv_store, .norm = avx512_norm, .centre = avx2_centre, .cut = avx2_cut, \
    .xielu = avx2_xielu, .quantise = avx512_quantise, .rope = avx512_rope,                    \
    .scale = avx512_scale, .glu = avx512_glu, .add = avx512_add, .combine = avx512_combine,   \
    .logits = avx512_logits, .conv = avx512_conv, .decay = avx2_decay, .recur = avx512_recur

#endif
