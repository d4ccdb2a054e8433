/* Puts rows' keys and values into the pages of a slab. An invocation owns whole words: both slots of
 * an even and odd pair, of one dim (f32, f16 keys), two dims (f16 values) or a block of 32 dims.
 * x counts those, first the work groups of the keys, y pairs of slots, z pages of the slab that the
 * step writes. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "step.glsl"
#include "numeric.glsl"
#include "kv.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint KV_TYPE = 1;
layout(set = 0, binding = 1, std430) buffer Slab { uint slab[]; };
layout(set = 0, binding = 2, std430) readonly buffer Keys { float key_rows[]; };
layout(set = 0, binding = 3, std430) readonly buffer Values { float value_rows[]; };

struct side {
    uint dim;
    uint in_stride, in_at;
    uint codes_at, scales_at; /* words of a page */
};

layout(push_constant) uniform Push {
    uint part, n_heads;
    side keys, values;
    uint page_words;
    uint list_at; /* words of the step: page number and place in the slab of each page written */
    uint key_groups;
};

const bool IS_Q4 = KV_TYPE == KV_Q4_0;

/* Of the work group. */
bool is_key;
uint dim, codes_at, scales_at;

float value(uint row, uint i)
{
    return is_key ? key_rows[row * keys.in_stride + keys.in_at + i]
                  : value_rows[row * values.in_stride + values.in_at + i];
}

/* Half h of a word; the other stays. */
void put_half(uint word, uint h, uint bits)
{
    uint shift = 16u * h;
    slab[word] = (slab[word] & ~(0xffffu << shift)) | bits << shift;
}

void store_f32(uint base, uint i, uint slot, uint row)
{
    uint head = i / dim, d = i % dim;
    uint at = is_key ? i * PAGE_LEN + slot : (head * PAGE_LEN + slot) * dim + d;
    slab[base + codes_at + at] = u_of(value(row, i));
}

void store_f16(uint base, uint i, uint slot, uint row)
{
    if (is_key) {
        put_half(base + codes_at + (i * PAGE_LEN + slot) / 2u, slot & 1u,
                 num_f32_to_f16_kv(value(row, i)));
        return;
    }
    uint head = 2u * i / dim, d = 2u * i % dim;
    slab[base + codes_at + ((head * PAGE_LEN + slot) * dim + d) / 2u] =
        num_f32_to_f16_kv(value(row, 2u * i)) | num_f32_to_f16_kv(value(row, 2u * i + 1u)) << 16;
}

/* 32 values -> codes and a bfloat16 scale; returns the bits of the scale. */
uint quantise(uint row, uint from, out int c[32])
{
    uint largest = 0u;
    bool negative = false; /* whether -m is there */
    for (uint i = 0u; i < 32u; i++) {
        uint a = u_of(value(row, from + i)) & NUM_ABS;
        largest = a > largest ? a : largest;
    }
    for (uint i = 0u; i < 32u; i++)
        negative = negative || u_of(value(row, from + i)) == (largest | NUM_SIGN);
    float unit = IS_Q4 ? 0.125 : f_of(0x3c010204u); /* 1/127 */
    bool broken = largest >= 0x71800000u;           /* 2^100 */
    uint d = num_f32_to_bf16(num_keep(fmul(f_of(largest), unit)));
    if (d != 0u && IS_Q4 && !negative) d |= 0x8000u;
    if (broken) d = NUM_NAN >> 16;
    float inverse = d == 0u || broken ? 0.0 : num_rcp(num_bf16_to_f32(d));
    [[unroll]] for (uint i = 0u; i < 32u; i++) {
        c[i] = broken ? 0 : num_rne(fmul(value(row, from + i), inverse));
        if (IS_Q4 && c[i] > 7) c[i] = 7;
    }
    return d;
}

uint four_bytes(int a, int b, int c, int d)
{
    return (uint(a) & 0xffu) | (uint(b) & 0xffu) << 8 | (uint(c) & 0xffu) << 16 | uint(d) << 24;
}

void store_block(uint base, uint i, uint slot, uint row)
{
    uint per_head = dim / 32u, head = i / per_head, b = i % per_head;
    int c[32];
    uint d = quantise(row, i * 32u, c);
    put_half(base + scales_at + (i * PAGE_LEN + slot) / 2u, slot & 1u, d);
    uint w[8];
    [[unroll]] for (uint k = 0u; k < 8u; k++)
        w[k] = four_bytes(c[4u * k], c[4u * k + 1u], c[4u * k + 2u], c[4u * k + 3u]);
    uint at = base + codes_at;
    if (!IS_Q4) {
        [[unroll]] for (uint k = 0u; k < 8u; k++)
            slab[at + (is_key ? (i * 8u + k) * PAGE_LEN + slot
                              : (head * PAGE_LEN + slot) * dim / 4u + b * 8u + k)] = w[k];
        return;
    }
    [[unroll]] for (uint k = 0u; k < 8u; k++)
        w[k] = four_bytes(c[4u * k] + Q4_BIAS, c[4u * k + 1u] + Q4_BIAS, c[4u * k + 2u] + Q4_BIAS,
                          c[4u * k + 3u] + Q4_BIAS);
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        /* Keys pair neighbouring words, values those of both halves of the block. */
        uint low = is_key ? w[2u * k] : w[k], high = is_key ? w[2u * k + 1u] : w[k + 4u];
        slab[at + (is_key ? (i * 4u + k) * PAGE_LEN + slot
                          : (head * PAGE_LEN + slot) * dim / 8u + b * 4u + k)] = low | high << 4;
    }
}

void main()
{
    is_key = gl_WorkGroupID.x < key_groups;
    dim = is_key ? keys.dim : values.dim;
    codes_at = is_key ? keys.codes_at : values.codes_at;
    scales_at = is_key ? keys.scales_at : values.scales_at;
    uint entry = list_at + 2u * gl_WorkGroupID.z;
    uint group = gl_WorkGroupID.x - (is_key ? 0u : key_groups);
    uint i = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint unit = KV_TYPE == KV_F32 ? 1u : KV_TYPE == KV_F16 ? (is_key ? 1u : 2u) : 32u; /* dims */
    if (i >= n_heads * dim / unit) return;
    uint page = step_words[entry], base = step_words[entry + 1u] * page_words;
    uint pos = step_pos(), begin = page * PAGE_LEN, end = pos + step_n_rows();
    uint first = pos > begin ? (pos - begin) / 2u * 2u : 0u;
    for (uint s = 0u; s < 2u; s++) {
        uint slot = first + 2u * gl_WorkGroupID.y + s, at = begin + slot;
        if (slot >= PAGE_LEN || at < pos || at >= end) continue;
        if (KV_TYPE == KV_F32)
            store_f32(base, i, slot, at - pos);
        else if (KV_TYPE == KV_F16)
            store_f16(base, i, slot, at - pos);
        else
            store_block(base, i, slot, at - pos);
    }
}
