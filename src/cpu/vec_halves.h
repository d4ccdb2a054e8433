/* Eight lanes as two vectors of four: what vec_avx2.h, which has the types of eight, takes from
 * here where the processor's vectors have 128 bits. No include guard: it alone includes this.
 *
 * gcc 12 adds and multiplies wider vectors in halves, but it compares them, and shuffles them
 * into one, lane by lane. So numeric.h is instantiated for four lanes, of which eight are two
 * calls: scaling 4,096 floats took 13.6 us with comparisons of eight and takes 0.9 (SSE4.1 of a
 * Zen 4, 2026-11). */
typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4x __attribute__((vector_size(16)));
typedef uint32_t u4x __attribute__((vector_size(16)));

#define F f4
#define I i4x
#define U u4x
#define FN static inline __attribute__((always_inline, unused))
#define NUM(name) num4_##name
#define K(c) ((f4)_mm_set1_ps(c))
#define UK(c) ((u4x)_mm_set1_epi32((int)(c)))
#define fadd(a, b) ((a) + (b))
#define fsub(a, b) ((a) - (b))
#define fmul(a, b) ((a) * (b))
#define sel_f(c, a, b) ((f4)_mm_blendv_ps((__m128)(b), (__m128)(a), (__m128)(c)))
#define sel_u(c, a, b) ((u4x)_mm_blendv_ps((__m128)(b), (__m128)(a), (__m128)(c)))
#define u_of(x) ((u4x)(x))
#define f_of(u) ((f4)(u))
#define i_of_u(u) ((i4x)(u))
#define u_of_i(i) ((u4x)(i))
#define f_of_i(i) ((f4)_mm_cvtepi32_ps((__m128i)(i)))

#include "base/numeric.h"

#define LOW(v) _mm256_castps256_ps128((__m256)(v))
#define HIGH(v) _mm256_extractf128_ps((__m256)(v), 1)
#define BOTH(a, b) _mm256_set_m128((__m128)(b), (__m128)(a))
#define HALVES(type, name)                                                      \
    static inline __attribute__((always_inline, unused)) type num8_##name(f8 x) \
    {                                                                           \
        return (type)BOTH(num4_##name((f4)LOW(x)), num4_##name((f4)HIGH(x)));   \
    }
HALVES(f8, keep)
HALVES(f8, flush)
HALVES(f8, narrow)
HALVES(i8x, order)
HALVES(i8x, rne)
HALVES(u8x, f32_to_f16_kv)
HALVES(f8, exp)
HALVES(f8, exp2_below)
HALVES(f8, exp2_weight)
HALVES(f8, rcp)
HALVES(f8, rsqrt)
HALVES(f8, sigmoid)
HALVES(f8, softplus)
HALVES(f8, tanh)
HALVES(f8, weight_scale)
HALVES(f8, weight_log2)
HALVES(f8, weight_inverse)

static inline __attribute__((always_inline, unused)) f8 num8_xielu(f8 x, f8 square, f8 bend,
                                                                   f8 slope)
{
    return (f8)BOTH(num4_xielu((f4)LOW(x), (f4)LOW(square), (f4)LOW(bend), (f4)LOW(slope)),
                    num4_xielu((f4)HIGH(x), (f4)HIGH(square), (f4)HIGH(bend), (f4)HIGH(slope)));
}

/* part: f4 or i4x. */
#define COMPARE(part, a, is, b) \
    ((i8x)BOTH((part)LOW(a) is(part) LOW(b), (part)HIGH(a) is(part) HIGH(b)))
