/* Attention of rows over one page: it leaves the page's maximum, sum and weighted values of each
 * row and head for attend_fold.comp.
 *
 * Eight lanes work on QUERIES queries (a query is a row and a head) of one KV head. For the scores
 * a lane owns eight consecutive keys, for the values eight dims (four of a block of 32 where codes
 * are stored). Eight such clusters make a work group; y counts the pages of the slab that the
 * sequence has. Keys that a row does not see enter nothing. */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "attend_page.glsl"

layout(constant_id = 7) const bool SUBGROUP_8 = false; /* subgroups are clusters */

uint shuffle(uint x, uint from)
{
    return subgroupShuffle(x, SUBGROUP_8 ? from : (gl_SubgroupInvocationID & ~7u) + from);
}

float shuffle_float(float x, uint from)
{
    return f_of(shuffle(u_of(x), from));
}

/* Eight consecutive numbers of a f32 or f16 page, element `at` of the part at `base`; at is a
 * multiple of 8 (of 4 with f32) unless the head size forbids it. */
void load_8(uint base, uint at, bool aligned, out float x[8])
{
    if (KV_TYPE == KV_F32) {
        uvec4 a = texelFetch(slab, int(base + at / 4u)), b = texelFetch(slab, int(base + at / 4u + 1u));
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            x[i] = f_of(a[i]), x[i + 4u] = f_of(b[i]);
    } else if (aligned) {
        uvec4 a = texelFetch(slab, int(base + at / 8u));
        [[unroll]] for (uint i = 0u; i < 8u; i++)
            x[i] = half_in(a, i);
    } else {
        [[unroll]] for (uint i = 0u; i < 8u; i++)
            x[i] = half_in(texelFetch(slab, int(base + (at + i) / 8u)), (at + i) % 8u);
    }
}

float score[QUERIES * 8]; /* then the probability, or the weight with codes */
float key_log2[8], key_inverse[8]; /* with codes: of the scales of weights, see ref_attend_q.c */
visible seen[QUERIES];
float slope[QUERIES];
int own_key[QUERIES]; /* that of the row, counted from the page's first */
uint query_at[QUERIES]; /* texel */
float acc[QUERIES * 8]; /* weighted values, or the first four of each query with codes */
int weight[QUERIES * 8]; /* with codes: of the keys, integers */

void score_floats(uint keys, uint lane)
{
    [[unroll]] for (int i = 0; i < QUERIES * 8; i++)
        score[i] = 0.0;
    for (uint d = 0u; d < DIM_K; d += 4u) {
        uvec4 q[QUERIES];
        [[unroll]] for (int i = 0; i < QUERIES; i++)
            q[i] = texelFetch(queries, int(query_at[i] + d / 4u));
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            float k[8];
            load_8(keys, key_at(DIM_K, d + c, lane * 8u), true, k);
            [[unroll]] for (int i = 0; i < QUERIES; i++) {
                float x = narrowed(f_of(q[i][c]));
                [[unroll]] for (int e = 0; e < 8; e++) {
                    float term = fmul(x, k[e]);
                    score[i * 8 + e] = d + c == 0u ? term : fadd(score[i * 8 + e], term);
                }
            }
        }
    }
}

/* Word k of eight keys' codes of a block: bytes of dims 4k..4k+3. */
void load_codes(uint keys, uint block, uint k, uint lane, out uint words[8])
{
    uint row = IS_Q4 ? block * 4u + k / 2u : block * 8u + k;
    uint at = keys + key_at(DIM_K / (IS_Q4 ? 8u : 4u), row, lane * 8u) / 4u;
    uvec4 a = texelFetch(slab, int(at)), b = texelFetch(slab, int(at + 1u));
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        words[i] = a[i], words[i + 4u] = b[i];
    if (IS_Q4)
        [[unroll]] for (uint i = 0u; i < 8u; i++)
            words[i] = (words[i] >> (4u * (k & 1u))) & 0x0f0f0f0fu;
}

#define QUERY_TEXEL(at) texelFetch(queries, int(at))

/* Sums of integers belong to a scale: to that of the whole key, or to those of each block. */
void score_codes(uint keys, uint scales, uint lane)
{
    int sum[QUERIES * 8];
    uvec4 meta[QUERIES];
    for (uint b = 0u; b < DIM_K / 32u; b++) {
        if (IS_Q4 || b == 0u)
            [[unroll]] for (int i = 0; i < QUERIES; i++) {
                meta[i] = texelFetch(queries, int(query_at[i] + b * A8_TEXELS + A8_META));
                [[unroll]] for (int e = 0; e < 8; e++)
                    sum[i * 8 + e] = IS_Q4 ? -Q4_BIAS * int(meta[i].w) : 0;
            }
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            a8_half x[QUERIES];
            [[unroll]] for (int i = 0; i < QUERIES; i++)
                A8_LOAD(QUERY_TEXEL, query_at[i] + b * A8_TEXELS + h * A8_HALF_TEXELS, x[i])
            [[unroll]] for (int k = 0; k < 4; k++) {
                uint words[8];
                load_codes(keys, b, h * 4u + uint(k), lane, words);
                [[unroll]] for (int i = 0; i < QUERIES; i++)
                    [[unroll]] for (int e = 0; e < 8; e++)
                        sum[i * 8 + e] += dot4(words[e], x[i], k, !IS_Q4);
            }
        }
        if (!IS_Q4 && b + 1u < DIM_K / 32u) continue;
        uvec4 d = texelFetch(slab, int(scales + (IS_Q4 ? b * 8u : 0u) + lane));
        [[unroll]] for (int i = 0; i < QUERIES; i++)
            [[unroll]] for (int e = 0; e < 8; e++) {
                float dk = f_of(scale_bits(d, uint(e)));
                float term = fmul(fmul(f_of(meta[i].x), dk), float(sum[i * 8 + e]));
                score[i * 8 + e] = !IS_Q4 || b == 0u ? term : fadd(score[i * 8 + e], term);
            }
    }
}

bool is_seen(int i, uint key)
{
    return key >= seen[i].lo && key < seen[i].hi;
}

/* scales: texel of those of the page's values, by key. */
void weigh_keys(uint scales, uint lane)
{
    uint largest[8];
    [[unroll]] for (int e = 0; e < 8; e++)
        largest[e] = 0u;
    for (uint b = 0u; b < (IS_Q4 ? DIM_V / 32u : 1u); b++) {
        uvec4 d = texelFetch(slab, int(scales + b * 8u + lane));
        [[unroll]] for (int e = 0; e < 8; e++) {
            uint size = scale_bits(d, uint(e)) & NUM_ABS;
            largest[e] = size > largest[e] ? size : largest[e];
        }
    }
    [[unroll]] for (int e = 0; e < 8; e++) {
        float d = num_weight_scale(f_of(largest[e])), r = num_weight_inverse(d);
        key_log2[e] = num_weight_log2(d);
        key_inverse[e] = IS_Q4 ? fmul(r, f_of(0x3efefeffu)) : r; /* 127/255 */
    }
}

/* Scores become probabilities or weights; the maximum and the sum of the page. */
void softmax(int i, uint lane, out float m, out float l)
{
    int largest = -2147483647 - 1;
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        int ahead = int(lane * 8u + e) - own_key[i];
        float s = score_of(score[i * 8 + int(e)], slope[i], ahead, key_log2[e]);
        score[i * 8 + int(e)] = s;
        int order = num_order(s);
        if (is_seen(i, lane * 8u + e) && order > largest) largest = order;
    }
    int all = largest;
    [[unroll]] for (uint g = 0u; g < 8u; g++) {
        int other = int(shuffle(uint(largest), g));
        all = other > all ? other : all;
    }
    m = num_order_back(all);
    float run = 0.0;
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        float p = probability(fsub(score[i * 8 + int(e)], m));
        score[i * 8 + int(e)] = is_seen(i, lane * 8u + e) ? p : 0.0;
        if (HAS_CODES) p = fmul(p, key_inverse[e]);
        p = is_seen(i, lane * 8u + e) ? p : 0.0;
        run = e == 0u ? p : fadd(run, p);
    }
    l = shuffle_float(run, 0u);
    [[unroll]] for (uint g = 1u; g < 8u; g++)
        l = fadd(l, shuffle_float(run, g));
}

/* Eight dims from `at` on, of all queries: sums over the keys in order. all_seen: no key is masked. */
void weigh_floats(uint values, uint at, bool all_seen)
{
    [[unroll]] for (int i = 0; i < QUERIES * 8; i++)
        acc[i] = 0.0;
    for (uint g = 0u; g < 8u; g++)
        [[unroll]] for (uint j = 0u; j < 8u; j++) {
            float v[8];
            uint key = g * 8u + j;
            load_8(values, key * DIM_V + at, DIM_V % 8u == 0u, v);
            [[unroll]] for (int i = 0; i < QUERIES; i++) {
                float p = shuffle_float(score[i * 8 + int(j)], g);
                bool opens = key == (all_seen ? 0u : seen[i].lo), in_it = all_seen || is_seen(i, key);
                [[unroll]] for (int e = 0; e < 8; e++) {
                    float term = fmul(p, v[e]);
                    float sum = opens ? term : fadd(acc[i * 8 + e], term);
                    acc[i * 8 + e] = in_it ? sum : acc[i * 8 + e];
                }
            }
        }
}

/* Integers of the weights of block b, whose scales are at that texel. */
void make_weights(uint scales, uint lane)
{
    uvec4 d = texelFetch(slab, int(scales + lane));
    [[unroll]] for (int e = 0; e < 8; e++) {
        float share = fmul(f_of(scale_bits(d, uint(e))), key_inverse[e]);
        [[unroll]] for (int i = 0; i < QUERIES; i++) {
            float w = score[i * 8 + e];
            if (IS_Q4) w = fmul(w, share);
            weight[i * 8 + e] = is_seen(i, lane * 8u + uint(e)) ? num_rne(w) : 0;
        }
    }
}

/* The lane's four dims of block b. */
void weigh_codes(uint values, uint b, uint lane)
{
    int sum[QUERIES * 4];
    [[unroll]] for (int i = 0; i < QUERIES * 4; i++)
        sum[i] = 0;
    for (uint g = 0u; g < 8u; g++)
        [[unroll]] for (uint j = 0u; j < 8u; j++) {
            uint key = g * 8u + j, at = IS_Q4 ? key * DIM_V / 8u + b * 4u + (lane & 3u)
                                              : key * DIM_V / 4u + b * 8u + lane;
            uint word = texelFetch(slab, int(values + at / 4u))[at & 3u];
            if (IS_Q4) word = (word >> (lane < 4u ? 0u : 4u)) & 0x0f0f0f0fu;
            [[unroll]] for (int i = 0; i < QUERIES; i++) {
                int w = int(shuffle(uint(weight[i * 8 + int(j)]), g));
                [[unroll]] for (int e = 0; e < 4; e++) {
                    int code = IS_Q4 ? int((word >> (8 * e)) & 15u) - Q4_BIAS
                                     : int(word << (24 - 8 * e)) >> 24;
                    sum[i * 4 + e] += w * code;
                }
            }
        }
    [[unroll]] for (int i = 0; i < QUERIES; i++)
        [[unroll]] for (int e = 0; e < 4; e++)
            acc[i * 8 + e] = float(sum[i * 4 + e]);
}

void main()
{
    /* A driver may run narrower subgroups than gl_SubgroupSize says (Intel's: 8 or 16 lanes of 32);
     * how many there are is true. */
    uint lane = gl_SubgroupInvocationID & 7u, lanes = gl_WorkGroupSize.x / gl_NumSubgroups;
    uint cluster = gl_WorkGroupID.x * (gl_WorkGroupSize.x / 8u) +
                   (gl_SubgroupID * lanes + gl_SubgroupInvocationID) / 8u;
    uint kv_head = cluster % n_kv_heads, block = cluster / n_kv_heads;
    uint entry = list_at + 2u * gl_WorkGroupID.y, page = step_words[entry];
    uint base = step_words[entry + 1u] * page_texels + kv_head * head_texels;
    uint row_0 = step_first_row(part) + first_row, end = step_n_rows();
    uint n_rows = end - row_0 < n_block_rows ? end - row_0 : n_block_rows;
    if (row_0 >= end || block * uint(QUERIES) >= n_rows * n_group) return;

    bool any = false, all_seen = true;
    [[unroll]] for (int i = 0; i < QUERIES; i++) {
        uint query = block * uint(QUERIES) + uint(i), last = n_rows * n_group - 1u;
        query = query < last ? query : last;
        uint row = row_0 + query / n_group, head = kv_head * n_group + query % n_group;
        seen[i] = visible_keys(page, step_pos() + row, window);
        any = any || seen[i].lo < seen[i].hi;
        all_seen = all_seen && seen[i].lo == 0u && seen[i].hi == PAGE_LEN;
        query_at[i] = query_texel(row, head);
        slope[i] = slope_of(head);
        own_key[i] = int(step_pos() + row) - int(page * PAGE_LEN);
    }
    if (!any) return;

    if (HAS_CODES)
        score_codes(base + k_at, base + k_scales_at, lane);
    else
        score_floats(base + k_at, lane);

    uint v_scales = base + v_scales_at;
    if (HAS_CODES) weigh_keys(v_scales, lane);
    uint part_at[QUERIES];
    bool store[QUERIES];
    [[unroll]] for (int i = 0; i < QUERIES; i++) {
        uint query = block * uint(QUERIES) + uint(i);
        uint head = kv_head * n_group + query % n_group;
        float m, l;
        softmax(i, lane, m, l);
        store[i] = query < n_rows * n_group && seen[i].lo < seen[i].hi;
        part_at[i] = part_place(query / n_group, head, page);
        if (store[i] && lane == 0u) {
            parts[part_at[i]] = m;
            parts[part_at[i] + 1u] = l;
        }
    }
    if (HAS_CODES) {
        for (uint b = 0u; b < DIM_V / 32u; b++) {
            if (IS_Q4 || b == 0u) make_weights(v_scales + b * 8u, lane);
            weigh_codes(base + v_at, b, lane);
            [[unroll]] for (int i = 0; i < QUERIES; i++)
                [[unroll]] for (uint e = 0u; e < 4u; e++)
                    if (store[i]) parts[part_at[i] + 2u + b * 32u + lane * 4u + e] = acc[i * 8 + int(e)];
        }
        return;
    }
    for (uint e0 = 0u; e0 < DIM_V; e0 += 64u) {
        uint at = e0 + lane * 8u, from = at < DIM_V ? at : 0u;
        if (all_seen)
            weigh_floats(base + v_at, from, true);
        else
            weigh_floats(base + v_at, from, false);
        [[unroll]] for (int i = 0; i < QUERIES; i++)
            [[unroll]] for (uint e = 0u; e < 8u; e++)
                if (store[i] && at + e < DIM_V)
                    parts[part_at[i] + 2u + at + e] = num_keep(acc[i * 8 + int(e)]);
    }
}
