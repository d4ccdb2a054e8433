/* One elementary function of numeric.h over a list of bit patterns, for the self-test of a
 * device: out[i] = function(in[i]). The functions are numbered as in elementary.h. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const int FUNCTION = 0;
layout(set = 0, binding = 0, std430) readonly buffer In { uint x_bits[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint y_bits[]; };

uint apply(uint u)
{
    float x = f_of(u);
    switch (FUNCTION) {
    case 0: return u_of(num_keep(x));
    case 1: return u_of(num_flush(x));
    case 2: return u_of(num_exp(x));
    case 3: return u_of(num_log(x));
    case 4: return u_of(num_rcp(x));
    case 5: return u_of(num_rsqrt(x));
    case 6: return u_of(num_sigmoid(x));
    case 7: return u_of(num_silu(x));
    case 8: return u_of(num_gelu(x));
    case 9: return u_of(num_tanh(x));
    case 10: return u_of(num_softplus(x));
    case 11: return u_of(num_f16_to_f32(u & 0xffffu));
    case 12: return num_f32_to_f16_kv(x);
    }
    return 0u;
}

void main()
{
    uint i = gl_GlobalInvocationID.x;
    y_bits[i] = apply(x_bits[i]);
}
