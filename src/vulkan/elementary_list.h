/* The elementary functions of numeric.h as the self-test of a device asks for them, one text
 * for C and GLSL: X(number, name, bits of the result) of the bits u, which as a float are x. An
 * includer has NUM, u_of and f_of as numeric.h defines them.
 *
 * Every result is one that may be stored. What a sum or product with a NaN has for bits is the
 * processor's choice until keep makes it the one NaN, so a function that ends in either is kept
 * here, as it is wherever it is used. */
#ifndef VULKAN_ELEMENTARY_LIST_H
#define VULKAN_ELEMENTARY_LIST_H

#define ELEMENTARY_FUNCTIONS(X)                                             \
    X(0u, keep, u_of(NUM(keep)(x)))                                         \
    X(1u, flush, u_of(NUM(flush)(x)))                                       \
    X(2u, exp, u_of(NUM(exp)(x)))                                           \
    X(3u, log, u_of(NUM(log)(x)))                                           \
    X(4u, rcp, u_of(NUM(rcp)(x)))                                           \
    X(5u, rsqrt, u_of(NUM(rsqrt)(x)))                                       \
    X(6u, sigmoid, u_of(NUM(keep)(NUM(sigmoid)(x))))                        \
    X(7u, silu, u_of(NUM(silu)(x)))                                         \
    X(8u, gelu, u_of(NUM(gelu)(x)))                                         \
    X(9u, tanh, u_of(NUM(tanh)(x)))                                         \
    X(10u, softplus, u_of(NUM(softplus)(x)))                                \
    X(11u, f16_to_f32, u_of(NUM(f16_to_f32)(u & 0xffffu)))                  \
    X(12u, f32_to_f16_kv, NUM(f32_to_f16_kv)(x))                            \
    X(13u, narrow, u_of(NUM(narrow)(x)))                                    \
    X(14u, exp2_below, u_of(NUM(exp2_below)(f_of(u | NUM_SIGN))))           \
    X(15u, exp2_weight, u_of(NUM(exp2_weight)(f_of(u | NUM_SIGN))))         \
    X(16u, weight_log2, u_of(NUM(weight_log2)(NUM(weight_scale)(x))))       \
    X(17u, weight_inverse, u_of(NUM(weight_inverse)(NUM(weight_scale)(x)))) \
    X(18u, clamped_glu_gate, u_of(NUM(clamped_glu)(x, 1.0f)))               \
    X(19u, clamped_glu_up, u_of(NUM(clamped_glu)(1.0f, x)))                 \
    X(20u, relu, u_of(NUM(keep)(NUM(relu)(x))))                             \
    X(21u, limit, u_of(NUM(keep)(NUM(limit)(x, 1.0f))))                     \
    X(22u, xielu, u_of(NUM(xielu)(x, 0.8f, 1.3f, 0.5f)))

#endif
