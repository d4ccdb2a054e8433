/* RMS norm of groups of a row: a work group is one group of one row, of which it takes a tile after
 * the other, so that all lanes wait for memory at once. With QUANTISES it also makes A8 of the
 * group. With ROTATES the groups are heads, which are rotated by the row's position, a lane pairs;
 * the heads from second_group on have weights of their own. */
#include "step.glsl"
#include "numeric.glsl"
#include "row_sum.glsl"

layout(local_size_x_id = 0) in;
const uint LANES = gl_WorkGroupSize.x; /* 32 or 128 */
layout(constant_id = 1) const bool WEIGHTED = true;
layout(constant_id = 2) const bool QUANTISES = false;
layout(constant_id = 3) const uint ROTATES = 0; /* 1: dims 2i and 2i+1, 2: dims i and i + n/2 */
layout(constant_id = 4) const uint HOLDS = 1; /* values of a tile that each lane has */
layout(constant_id = 5) const uint BLOCK_LANES = 8; /* or 1 */
layout(constant_id = 6) const bool ONE_TILE = false; /* holds all values of a group */
layout(constant_id = 7) const bool BIASED = false;
layout(set = 0, binding = 1, std430) SHARED_PLACE writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer In { float x[]; };
layout(set = 0, binding = 3, std430) readonly buffer Weight { float w[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Codes { uint codes[]; };
layout(set = 0, binding = 5, std430) readonly buffer Bias { float bias[]; }; /* as Weight, never ROTATES */
layout(push_constant) uniform Push {
    uint part, n; /* values of a group */
    uint in_stride, in_at, out_stride, out_at;
    float inverse_n, eps;
    uint w_stride; /* from the weights of one group to those of the next */
    uint codes_stride, codes_at; /* texels */
    uint w_at, second_group, second_w_at;
    uint n_pairs, table_at; /* word of the step: cosines, then sines, of each row */
};

const uint TILE = HOLDS * LANES, A8_TILE = TILE;
#include "a8_tile.glsl"

/* Weights are on their way while the sum is made. */
const bool WEIGHTS_FIRST = ONE_TILE && ROTATES == 0u;
float held[HOLDS], weight[HOLDS]; /* the values of this lane, and their weights */

/* Of value k of this lane: its place in the tile. */
uint place(uint k)
{
    return k * LANES + gl_LocalInvocationID.x;
}

/* The tile that begins with value `at` of the group; zeros where the group has ended. */
void bring(uint from, uint at)
{
    [[unroll]] for (uint k = 0u; k < HOLDS; k++) {
        held[k] = 0.0;
        if (at + place(k) < n) held[k] = x[from + at + place(k)];
    }
}

void bring_weights(uint weights, uint at)
{
    [[unroll]] for (uint k = 0u; k < HOLDS; k++) {
        weight[k] = 0.0;
        if (WEIGHTED && at + place(k) < n) weight[k] = w[weights + at + place(k)];
    }
}

/* The partial sum that this lane has, if any, and the squares of the tile. Zeros, before the first
 * term and where the group has ended, change no sum of squares. */
float add_squares(float partial)
{
    if (LANES == 32u) {
        [[unroll]] for (uint k = 0u; k < HOLDS; k++)
            partial = fadd(partial, fmul(held[k], held[k]));
        return partial;
    }
    barrier();
    [[unroll]] for (uint k = 0u; k < HOLDS; k++)
        a8_tile[place(k)] = fmul(held[k], held[k]);
    barrier();
    if (gl_LocalInvocationID.x >= 32u) return 0.0;
    for (uint i = gl_LocalInvocationID.x; i < TILE; i += 128u)
        [[unroll]] for (uint k = 0u; k < 128u; k += 32u)
            partial = fadd(partial, a8_tile[i + k]);
    return partial;
}

float normed(float v, float by, float r)
{
    float y = num_keep(fmul(v, r));
    return WEIGHTED ? num_keep(fmul(y, by)) : y;
}

void rotate(uint from, uint to, uint weights, float r, uint row)
{
    uint table = table_at + row * 2u * n_pairs;
    for (uint i = gl_LocalInvocationID.x; i < n_pairs; i += LANES) {
        uint a = ROTATES == 2u ? i : 2u * i, b = ROTATES == 2u ? i + n_pairs : 2u * i + 1u;
        float c = f_of(step_words[table + i]), s = f_of(step_words[table + n_pairs + i]);
        float x0 = normed(x[from + a], w[weights + a], r);
        float x1 = normed(x[from + b], w[weights + b], r);
        y[to + a] = num_keep(fsub(fmul(x0, c), fmul(x1, s)));
        y[to + b] = num_keep(fadd(fmul(x0, s), fmul(x1, c)));
    }
}

void main()
{
    uint row = step_first_row(part) + gl_WorkGroupID.y, group = gl_WorkGroupID.x;
    if (row >= step_n_rows()) return;
    uint from = row * in_stride + in_at + group * n, to = row * out_stride + out_at + group * n;
    uint weights = group * w_stride, first = ROTATES != 0u ? 2u * n_pairs : 0u;
    if (ROTATES != 0u) weights += group < second_group ? w_at : second_w_at;
    uint end = ONE_TILE ? 1u : n; /* of where tiles begin: known, it spares drivers the loops */
    float partial = 0.0;
    if (WEIGHTS_FIRST) bring_weights(weights, 0u);
    for (uint at = 0u; at < end; at += TILE) {
        bring(from, at);
        partial = add_squares(partial);
    }
    float r = num_rsqrt(fadd(fmul(row_fold(partial, n), inverse_n), eps));
    if (ROTATES != 0u) rotate(from, to, weights, r, row);
    for (uint at = ROTATES != 0u && first >= n ? end : 0u; at < end; at += TILE) {
        if (!ONE_TILE) bring(from, at);
        if (!WEIGHTS_FIRST) bring_weights(weights, at);
        [[unroll]] for (uint k = 0u; k < HOLDS; k++) {
            uint i = at + place(k);
            float v = normed(held[k], weight[k], r);
            if (BIASED && i < n) v = num_keep(fadd(v, bias[group * w_stride + i]));
            if (QUANTISES) a8_tile[place(k)] = v;
            if (i >= first && i < n) y[to + i] = v;
        }
        uint codes_to = row * codes_stride + codes_at + (group * n + at) / 32u * A8_TEXELS;
        if (QUANTISES) a8_put_tile(codes_to, n - at < TILE ? n - at : TILE);
        if (QUANTISES && !ONE_TILE) barrier(); /* the tile is free again */
    }
}
