/* The AVX2 kernels once more, with vectors of 128 bits: for x86-64 without AVX2 (SSE4.1) and
 * for other processors (NEON on ARM; elsewhere what the compiler makes of them).
 *
 * The Makefile builds each *_avx2.c a second time with this file before its first line, and so
 * matmul_dotprod.c, the only time. It gives the intrinsics a meaning in terms of what the
 * processor has (SIMDe, headers alone), and what the text defines another name. The bits are
 * the same. A function of AVX2 that other files call needs a line here: without it the program
 * does not link. */
#ifndef CPU_SIMD_H
#define CPU_SIMD_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#ifdef HEARTH_SANITIZED
#define SIMDE_NO_INLINE /* for the reason that VEC_INLINE has */
#endif
#include <simde/x86/avx2.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#define avx2_add simd_add
#define avx2_attend simd_attend
#define avx2_attend_heads simd_attend_heads
#define avx2_attend_join simd_attend_join
#define avx2_attend_part simd_attend_part
#define avx2_attend_rows simd_attend_rows
#define avx2_attend_scratch simd_attend_scratch
#define avx2_batch simd_batch
#define avx2_centre simd_centre
#define avx2_cut simd_cut
#define avx2_xielu simd_xielu
#define avx2_combine simd_combine
#define avx2_conv simd_conv
#define avx2_decay simd_decay
#define avx2_fold_factors simd_fold_factors
#define avx2_glu simd_glu
#define avx2_kv_store simd_kv_store
#define avx2_logits simd_logits
#define avx2_look_ahead simd_look_ahead
#define avx2_matmul_floats simd_matmul_floats
#define avx2_matmul_floats_scratch simd_matmul_floats_scratch
#define avx2_norm simd_norm
#define avx2_pages_f simd_pages_f
#define avx2_pages_f_scratch simd_pages_f_scratch
#define avx2_pages_q simd_pages_q
#define avx2_pages_q_scratch simd_pages_q_scratch
#define avx2_quantise simd_quantise
#define avx2_query_codes simd_query_codes
#define avx2_query_q simd_query_q
#define avx2_query_q_bytes simd_query_q_bytes
#define avx2_recur simd_recur
#define avx2_rope simd_rope
#define avx2_scale simd_scale
#define avx2_softmax simd_softmax
#define avx2_store_codes simd_store_codes
#define avx2_weigh_keys simd_weigh_keys
#define avx2_weights simd_weights
#define attend_by_rows simd_attend_by_rows
#define attend_part_by_rows simd_attend_part_by_rows
#define kernels_avx2 kernels_simd

/* What SIMDe 0.7.4 does lane by lane, in two halves of 128 bits. */
#define SIMD_FN static inline __attribute__((always_inline, unused))

SIMD_FN __m256i simd_from_bytes(__m128i v)
{
    return _mm256_set_m128i(_mm_cvtepi8_epi32(_mm_srli_si128(v, 4)), _mm_cvtepi8_epi32(v));
}
#undef _mm256_cvtepi8_epi32
#define _mm256_cvtepi8_epi32 simd_from_bytes

SIMD_FN __m256i simd_from_words(__m128i v)
{
    return _mm256_set_m128i(_mm_cvtepu16_epi32(_mm_srli_si128(v, 8)), _mm_cvtepu16_epi32(v));
}
#undef _mm256_cvtepu16_epi32
#define _mm256_cvtepu16_epi32 simd_from_words

SIMD_FN __m256i simd_sign(__m256i a, __m256i b)
{
    return _mm256_set_m128i(
        _mm_sign_epi8(_mm256_extracti128_si256(a, 1), _mm256_extracti128_si256(b, 1)),
        _mm_sign_epi8(_mm256_castsi256_si128(a), _mm256_castsi256_si128(b)));
}
#undef _mm256_sign_epi8
#define _mm256_sign_epi8 simd_sign

SIMD_FN __m256 simd_unpacklo(__m256 a, __m256 b)
{
    return _mm256_set_m128(
        _mm_unpacklo_ps(_mm256_extractf128_ps(a, 1), _mm256_extractf128_ps(b, 1)),
        _mm_unpacklo_ps(_mm256_castps256_ps128(a), _mm256_castps256_ps128(b)));
}
#undef _mm256_unpacklo_ps
#define _mm256_unpacklo_ps simd_unpacklo

SIMD_FN __m256 simd_unpackhi(__m256 a, __m256 b)
{
    return _mm256_set_m128(
        _mm_unpackhi_ps(_mm256_extractf128_ps(a, 1), _mm256_extractf128_ps(b, 1)),
        _mm_unpackhi_ps(_mm256_castps256_ps128(a), _mm256_castps256_ps128(b)));
}
#undef _mm256_unpackhi_ps
#define _mm256_unpackhi_ps simd_unpackhi

/* Four halves in the low half of each lane as floats: as half_f16_to_f32, but for the quiet bit
 * of a NaN. */
SIMD_FN __m128 simd_four_halves(__m128i v)
{
    const __m128i bias = _mm_set1_epi32(112 << 23), one = _mm_set1_epi32(1 << 23);
    const __m128i size = _mm_slli_epi32(_mm_and_si128(v, _mm_set1_epi32(0x7fff)), 13);
    const __m128i is_least = _mm_cmplt_epi32(size, one); /* 0 or subnormal */
    const __m128i is_most = _mm_cmpgt_epi32(size, _mm_set1_epi32((31 << 23) - 1)); /* or NaN */
    const __m128i normal = _mm_add_epi32(size, bias);
    const __m128 least =
        _mm_sub_ps(_mm_castsi128_ps(_mm_add_epi32(normal, one)), _mm_set1_ps(0x1p-14f));
    const __m128i most = _mm_add_epi32(normal, _mm_and_si128(is_most, bias));
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(v, _mm_set1_epi32(0x8000)), 16);
    return _mm_or_ps(_mm_castsi128_ps(sign),
                     _mm_blendv_ps(_mm_castsi128_ps(most), least, _mm_castsi128_ps(is_least)));
}

SIMD_FN __m256 simd_halves(__m128i v)
{
    return _mm256_set_m128(simd_four_halves(_mm_cvtepu16_epi32(_mm_srli_si128(v, 8))),
                           simd_four_halves(_mm_cvtepu16_epi32(v)));
}
#undef _mm256_cvtph_ps
#define _mm256_cvtph_ps simd_halves

#endif
