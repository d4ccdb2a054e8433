/* The elementary functions of numeric.h over a list of n bit patterns, for the self-test of a device:
 * out[f n + i] = function f of in[i]. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"
#include "vulkan/elementary_list.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0, std430) readonly buffer In { uint x_bits[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint y_bits[]; };

#define CASE(number, name, bits) case number: return bits;

uint apply(uint function, uint u)
{
    float x = f_of(u);
    switch (function) {
    ELEMENTARY_FUNCTIONS(CASE)
    }
    return 0u;
}

void main()
{
    uint i = gl_GlobalInvocationID.x, n = x_bits.length();
    y_bits[i] = apply(i / n, x_bits[i % n]);
}
