/* What both kinds of attention over a page share, attend.glsl and attend_wide.glsl: what is bound
 * and pushed, how a query is found, and the steps between a product and a weight. */
#include "step.glsl"
#include "numeric.glsl"
#include "dot.glsl"
#include "kv.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_TYPE = 1;
layout(constant_id = 2) const uint DIM_K = 64;
layout(constant_id = 3) const uint DIM_V = 64;
layout(constant_id = 4) const int QUERIES = 1;
layout(constant_id = 5) const bool HAS_CAP = false;
layout(constant_id = 6) const bool HAS_SLOPES = false;

layout(set = 0, binding = 1, std430) writeonly buffer Parts { float parts[]; };
layout(set = 0, binding = 8) uniform usamplerBuffer slab;
layout(set = 0, binding = 9) uniform usamplerBuffer queries; /* f32, or A8 where codes are stored */

layout(push_constant) uniform Push {
    uint part, n_kv_heads, n_group, window;
    uint first_row, n_block_rows; /* rows of the part that this dispatch covers */
    uint q_stride, q_at;          /* texels */
    uint page_texels, head_texels, k_at, v_at, k_scales_at, v_scales_at; /* of the first head */
    uint list_at; /* words of the step: page number and place in the slab of each page */
    float factor, cap, inverse_cap; /* of products; see kv_factors (kv.h) */
    uint ring; /* pages of a row that the parts have room for, the others' place is free again */
    float slope_step; /* see op_attend (ops.h) */
};

const bool HAS_CODES = KV_TYPE == KV_Q8_0 || KV_TYPE == KV_Q4_0, IS_Q4 = KV_TYPE == KV_Q4_0;

float half_in(uvec4 v, uint i)
{
    return kv_half((v[i >> 1] >> (16u * (i & 1u))) & 0xffffu);
}

/* Products of f16 are exact, see narrow (numeric.h). */
float narrowed(float x)
{
    return KV_TYPE == KV_F16 ? num_narrow(x) : x;
}

uint scale_bits(uvec4 d, uint e)
{
    return ((d[e >> 1] >> (16u * (e & 1u))) & 0xffffu) << 16;
}

/* Texel of the first dims of a query. */
uint query_texel(uint row, uint head)
{
    return q_at + row * q_stride + head * (HAS_CODES ? DIM_K / 32u * A8_TEXELS : DIM_K / 4u);
}

/* Where in the parts the page's of a query are: its row is the r-th of the dispatch. */
uint part_place(uint r, uint head, uint page)
{
    return ((r * n_kv_heads * n_group + head) * ring + page % ring) * (DIM_V + 2u);
}

/* What a score of a query head grows by from key to key. */
float slope_of(uint head)
{
    uint n = 1u;
    while (n <= n_kv_heads * n_group / 2u)
        n *= 2u;
    float steps = head < n ? float(head + 1u) : fadd(float(head - n), 0.5);
    float bits = fsub(0.0, fmul(slope_step, steps));
    return HAS_SLOPES ? fmul(num_exp2_below(bits), NUM_LOG2_E) : 0.0;
}

/* The score of a product. ahead: of the row's position the key's is, so never more than 0;
 * log2_scale: with codes, of the scale of the key's value. */
float score_of(float product, float slope, int ahead, float log2_scale)
{
    float s = num_keep(fmul(product, factor));
    if (HAS_CAP) s = num_keep(fmul(cap, num_tanh(fmul(s, inverse_cap))));
    if (HAS_SLOPES) s = fadd(s, fmul(slope, float(ahead)));
    return HAS_CODES ? fadd(s, log2_scale) : s;
}

/* What is multiplied with values; x: how far the score is below the largest. */
float probability(float x)
{
    return HAS_CODES ? num_exp2_weight(x) : narrowed(num_exp2_below(x));
}
