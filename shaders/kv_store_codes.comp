/* Puts rows' keys and values into pages as codes and scales, see lib/kv_store.glsl: a work group is
 * one head. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "kv_store.glsl"
#include "head_row.glsl"

const bool IS_Q4 = KV_TYPE == KV_Q4_0;

/* Whether there are no codes of the dims of a scale. */
bool is_broken(uint b)
{
    return is_key ? head_broken != 0u : head_most[b] >> 1 >= LARGEST;
}

/* The bits of a scale. */
uint scale(uint b)
{
    const float unit = IS_Q4 ? 0.125 : f_of(0x3c010204u); /* 1/127 */
    uint most = head_most[b], d = num_f32_to_bf16(num_keep(fmul(f_of(most >> 1), unit)));
    if (d != 0u && IS_Q4 && (most & 1u) == 0u) d |= 0x8000u;
    return is_broken(b) ? NUM_NAN >> 16 : d;
}

/* Four codes from dim i on, as bytes. */
uint four_codes(uint i)
{
    uint b = IS_Q4 ? i / 32u : 0u, d = scale(b), bytes = 0u;
    bool none = is_broken(b) || d == 0u;
    float inverse = num_rcp(num_bf16_to_f32(d));
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        int c = none ? 0 : num_rne(fmul(head_row[i + k], inverse));
        if (IS_Q4) c = (c > 7 ? 7 : c) + Q4_BIAS;
        bytes |= (uint(c) & 0xffu) << (8u * k);
    }
    return bytes;
}

/* Word w of a row's codes. */
uint word_of(uint w)
{
    if (!IS_Q4) return four_codes(4u * w);
    /* Keys pair neighbouring fours, values those of both halves of 32 dims. */
    uint low = is_key ? 8u * w : w / 4u * 32u + w % 4u * 4u;
    return four_codes(low) | four_codes(low + (is_key ? 4u : 16u)) << 4;
}

void store_row(uint slot, uint row)
{
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    head_row_begin();
    for (uint i = lane; i < dim; i += lanes)
        head_row_put(i, value(row, group * dim + i));
    if (is_key) head_row_turn(dim);
    head_row_measure(dim, !IS_Q4);
    uint n_words = dim / (IS_Q4 ? 8u : 4u), n_scales = IS_Q4 ? dim / 32u : 1u;
    uint codes = codes_at + group * head_words, scales = scales_at + group * head_words;
    for (uint w = lane; w < n_words; w += lanes)
        slab[codes + (is_key ? key_at(n_words, w, slot) : slot * n_words + w)] = word_of(w);
    for (uint b = lane; b < n_scales; b += lanes)
        put_half(scales + (b * PAGE_LEN + slot) / 2u, slot & 1u, scale(b));
}

void main()
{
    begin_group();
    for (uint s = 0u; s < 2u; s++) {
        uint slot, row;
        if (find_slot(s, slot, row)) store_row(slot, row);
    }
}
