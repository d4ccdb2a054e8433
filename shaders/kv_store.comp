/* Puts rows' keys and values into pages as numbers, see lib/kv_store.glsl: an invocation is one dim
 * of a head, or two where a word has values of both as f16. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "kv_store.glsl"

void store_f32(uint i, uint slot, uint row)
{
    uint d = i % dim, at = codes_at + i / dim * head_words;
    slab[at + (is_key ? key_at(dim, d, slot) : slot * dim + d)] = u_of(value(row, i));
}

void store_f16(uint i, uint slot, uint row)
{
    uint unit = is_key ? 1u : 2u, d = unit * i % dim, at = codes_at + unit * i / dim * head_words;
    if (is_key) {
        put_half(at + key_at(dim, d, slot) / 2u, slot & 1u, num_f32_to_f16_kv(value(row, i)));
        return;
    }
    slab[at + (slot * dim + d) / 2u] =
        num_f32_to_f16_kv(value(row, 2u * i)) | num_f32_to_f16_kv(value(row, 2u * i + 1u)) << 16;
}

void main()
{
    begin_group();
    uint i = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint unit = KV_TYPE == KV_F16 && !is_key ? 2u : 1u; /* dims */
    if (i >= n_heads * dim / unit) return;
    for (uint s = 0u; s < 2u; s++) {
        uint slot, row;
        if (!find_slot(s, slot, row)) continue;
        if (KV_TYPE == KV_F32)
            store_f32(i, slot, row);
        else
            store_f16(i, slot, row);
    }
}
