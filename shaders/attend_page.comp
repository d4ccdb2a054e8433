/* Attention of one query row over one page of f16 keys and values: a work group of 64 lanes is one
 * (head, page). It leaves the page's maximum, sum and weighted values for attend_fold.comp.
 *
 * For the scores a lane is a key and sums over the dims in order; for the values a lane is a dim
 * and sums over the visible keys in order. Masked keys enter nothing. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "numeric.glsl"

layout(local_size_x_id = 0) in; /* 64: the keys of a page */
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint N_HEADS = 1;
layout(constant_id = 3) const uint N_KV_HEADS = 1;
layout(set = 0, binding = 0, std430) readonly buffer Q { float q[]; };       /* [head][dim] */
layout(set = 0, binding = 1, std430) readonly buffer Pages { uint pages[]; }; /* two f16 a word */
layout(set = 0, binding = 2, std430) writeonly buffer Parts { float parts[]; };
layout(push_constant, std430) uniform Push {
    uint n_keys;     /* visible: keys 0 .. n_keys-1 of the sequence */
    uint page_words; /* of one page */
    uint k_at, v_at; /* words from its start */
    float scale;
};

const uint PAGE_LEN = 64u, STRIPE = 8u;

shared float p[PAGE_LEN];

float half_at(uint word_at, uint i)
{
    uint w = pages[word_at + i / 2u];
    return num_f16_to_f32(i % 2u == 0u ? w & 0xffffu : w >> 16);
}

void main()
{
    uint lane = gl_LocalInvocationID.x, group = gl_WorkGroupID.x;
    uint head = group % N_HEADS, page = group / N_HEADS, n_pages = (n_keys + 63u) / 64u;
    uint kv_head = head / (N_HEADS / N_KV_HEADS);
    uint later = n_keys - page * PAGE_LEN, visible = later < PAGE_LEN ? later : PAGE_LEN;
    uint k = page * page_words + k_at + kv_head * HEAD_DIM * PAGE_LEN / 2u;
    uint v = page * page_words + v_at + kv_head * HEAD_DIM * PAGE_LEN / 2u;

    float s = fmul(q[head * HEAD_DIM], half_at(k, lane));
    for (uint d = 1u; d < HEAD_DIM; d++)
        s = fadd(s, fmul(q[head * HEAD_DIM + d], half_at(k, d * PAGE_LEN + lane)));
    s = num_keep(fmul(s, scale));
    p[lane] = s;
    barrier();
    float m = p[0];
    for (uint i = 1u; i < visible; i++)
        m = p[i] > m ? p[i] : m;
    barrier();
    p[lane] = num_exp(fsub(s, m));
    barrier();

    uint out_at = (head * n_pages + page) * (HEAD_DIM + 2u);
    if (lane == 0u) {
        float total = 0.0, acc = 0.0;
        for (uint i = 0u; i < visible; i++) {
            acc = i % STRIPE == 0u ? p[i] : fadd(acc, p[i]);
            if ((i + 1u) % STRIPE == 0u || i + 1u == visible)
                total = i < STRIPE ? acc : fadd(total, acc);
        }
        parts[out_at] = m;
        parts[out_at + 1u] = total;
    }
    for (uint d = lane; d < HEAD_DIM; d += PAGE_LEN) {
        float acc = fmul(p[0], half_at(v, d));
        for (uint i = 1u; i < visible; i++)
            acc = fadd(acc, fmul(p[i], half_at(v, i * HEAD_DIM + d)));
        parts[out_at + 2u + d] = num_keep(acc);
    }
}
