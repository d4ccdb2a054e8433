/* The elementary functions of numeric.h over a list of n bit patterns, for the self-test of a device:
 * out[f n + i] = function f of in[i]. They are numbered as in src/vulkan/selftest.c. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0, std430) readonly buffer In { uint x_bits[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint y_bits[]; };

uint apply(uint function, uint u)
{
    float x = f_of(u);
    switch (function) {
    case 0u: return u_of(num_keep(x));
    case 1u: return u_of(num_flush(x));
    case 2u: return u_of(num_exp(x));
    case 3u: return u_of(num_log(x));
    case 4u: return u_of(num_rcp(x));
    case 5u: return u_of(num_rsqrt(x));
    case 6u: return u_of(num_sigmoid(x));
    case 7u: return u_of(num_silu(x));
    case 8u: return u_of(num_gelu(x));
    case 9u: return u_of(num_tanh(x));
    case 10u: return u_of(num_softplus(x));
    case 11u: return u_of(num_f16_to_f32(u & 0xffffu));
    case 12u: return num_f32_to_f16_kv(x);
    case 13u: return u_of(num_narrow(x));
    case 14u: return u_of(num_exp2_below(f_of(u | NUM_SIGN)));
    case 15u: return u_of(num_exp2_weight(f_of(u | NUM_SIGN)));
    case 16u: return u_of(num_weight_log2(num_weight_scale(x)));
    case 17u: return u_of(num_weight_inverse(num_weight_scale(x)));
    }
    return 0u;
}

void main()
{
    uint i = gl_GlobalInvocationID.x, n = x_bits.length();
    y_bits[i] = apply(i / n, x_bits[i % n]);
}
