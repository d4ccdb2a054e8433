/* y = W x for Q8_0 weights and one A8 row: a lane is a row of W.
 *
 * Codes are interleaved so that lanes read neighbouring words: [block][8 words][row], a word being
 * four codes; scales [block][row] as binary16. A block's dot product is an exact integer; stripes
 * of 8 blocks are summed in order and folded left to right. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint N_BLOCKS = 1;
layout(set = 0, binding = 0, std430) readonly buffer Codes { uint codes[]; };
layout(set = 0, binding = 1, std430) readonly buffer Scales { uint scales[]; };
layout(set = 0, binding = 2, std430) readonly buffer X { uint x_codes[]; };
layout(set = 0, binding = 3, std430) readonly buffer XScales { float x_scales[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Y { float y[]; };
layout(push_constant, std430) uniform Push { uint n_rows; };

const uint STRIPE_BLOCKS = 8u;

int dot4(uint a, uint b)
{
    int sum = 0;
    for (int shift = 0; shift < 32; shift += 8)
        sum += bitfieldExtract(int(a), shift, 8) * bitfieldExtract(int(b), shift, 8);
    return sum;
}

void main()
{
    uint row = gl_GlobalInvocationID.x;
    if (row >= n_rows) return;
    float total = 0.0, acc = 0.0;
    for (uint b = 0u; b < N_BLOCKS; b++) {
        int sum = 0;
        for (uint w = 0u; w < 8u; w++)
            sum += dot4(codes[(b * 8u + w) * n_rows + row], x_codes[b * 8u + w]);
        float scale = fmul(x_scales[b], num_f16_to_f32(scales[b * n_rows + row]));
        float term = fmul(scale, float(sum));
        bool opens = b % STRIPE_BLOCKS == 0u;
        acc = opens ? term : fadd(acc, term);
        if ((b + 1u) % STRIPE_BLOCKS == 0u || b + 1u == N_BLOCKS)
            total = b < STRIPE_BLOCKS ? acc : fadd(total, acc);
    }
    y[row] = num_keep(total);
}
