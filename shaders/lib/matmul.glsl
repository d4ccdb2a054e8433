/* Products of a quantised matrix with rows of A8: a lane has VALUES rows of the matrix, as many
 * lanes apart as there are, a work group takes ROWS rows of activations. Every column of the result
 * is the reference's: exact integers per block, blocks added in order in stripes, stripes folded.
 *
 * On a device with many lanes (WIDE) memory is far and lanes are many: a lane has one row, asks for
 * all codes of a stripe at once, and SPLIT parts of a work group, 32 lanes each, take stripes that
 * follow each other. What all lanes of a part read, the activations of its stripe, is brought to
 * shared memory first, a texel by each lane. There the sums meet, too, and one lane folds those of a
 * value. */
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define HOLDS_CODES WIDE
#include "step.glsl"
#include "numeric.glsl"
#include "matrices.glsl"
#include "weights.glsl"
#include "dot.glsl"

/* sums = addends + factor * what is written to the output. */
layout(constant_id = 6) const bool ADDS = false;
/* Eight lanes load activations for each other: of a row each, or if there is one row, of a block of
 * the stripe each. A cache does that for many lanes. */
const bool SHARES = !WIDE;

/* Where nothing is added: of the matrix, or of each expert's, what the product is multiplied by
 * first; addends_stride says whether there are such. */
layout(set = 0, binding = 4, std430) SHARED_PLACE readonly buffer Addends { float addends[]; };
#define factors addends
layout(set = 0, binding = 5, std430) SHARED_PLACE writeonly buffer Sums { float sums_out[]; };

/* The activations of the stripes at hand: [part][row][texel of the stripe]. */
const uint STRIPE_TEXELS = STRIPE_BLOCKS * A8_TEXELS;
const uint PART_TEXELS = uint(ROWS) * STRIPE_TEXELS;
shared uvec4 staged[WIDE ? uint(SPLIT) * PART_TEXELS : 1u];
#define BLOCK_TEXEL(at) (WIDE ? staged[at] : ACTIVATION_TEXEL(at))

/* Brings those of the stripes s_0.. there; all lanes call it, and wait for each other behind it. */
void stage(task t, uint s_0)
{
    for (uint i = gl_LocalInvocationID.x; i < uint(SPLIT) * PART_TEXELS; i += gl_WorkGroupSize.x) {
        uint row = i / STRIPE_TEXELS % uint(ROWS);
        uint at = (s_0 + i / PART_TEXELS) * STRIPE_TEXELS + i % STRIPE_TEXELS;
        if (at < n_in * A8_TEXELS) staged[i] = ACTIVATION_TEXEL(t.x_row + row * x_stride + at);
    }
    barrier();
}

/* A block of activations. */
struct a8_block {
    a8_half lo, hi;
    uvec4 meta;
};

a8_block load_block(uint at)
{
    a8_block x;
    A8_LOAD(BLOCK_TEXEL, at, x.lo)
    A8_LOAD(BLOCK_TEXEL, at + A8_HALF_TEXELS, x.hi)
    x.meta = BLOCK_TEXEL(at + A8_META);
    return x;
}

/* What lane `from` has loaded. */
a8_block shared_block(a8_block x, uint from)
{
    x.lo.a = subgroupShuffle(x.lo.a, from);
    x.hi.a = subgroupShuffle(x.hi.a, from);
#ifndef DOT_PACKED
    x.lo.b = subgroupShuffle(x.lo.b, from);
    x.hi.b = subgroupShuffle(x.hi.b, from);
#endif
    x.meta = subgroupShuffle(x.meta, from);
    return x;
}

scales head[VALUES];
uint at[VALUES]; /* texels of the lane's rows of the matrix, in the stripe at hand */
float least[VALUES * ROWS];

/* Adds block b of the stripe to the sums. */
void add_block(uint b, uint x_block, a8_block mine)
{
    block w[VALUES];
    [[unroll]] for (int t = 0; t < VALUES; t++) {
        read_scales(head[t], b, w[t]);
        if (TYPE == TYPE_MXFP4) w[t].dw = num_keep(w[t].dw);
        read_codes(at[t], b, w[t]);
    }
    uint lane_0 = gl_SubgroupInvocationID & ~7u;
    [[unroll]] for (int r = 0; r < ROWS; r++) {
        a8_block x;
        if (SHARES)
            x = shared_block(mine, lane_0 + (ROWS > 1 ? uint(r) : b));
        else
            x = load_block(x_block + uint(r) * (WIDE ? STRIPE_TEXELS : x_stride));
        float da = f_of(x.meta.x);
        int sum0 = int(x.meta.y), sum1 = int(x.meta.z), sums = int(x.meta.w);
        [[unroll]] for (int t = 0; t < VALUES; t++) {
            int i0 = dot16(w[t].lo, x.lo, DOT_PER, SIGNED_CODES);
            int i1 = dot16(w[t].hi, x.hi, DOT_PER, SIGNED_CODES);
            float i;
            if (LARGE_SCALES)
                i = fadd(fmul(float(w[t].s0), float(i0)), fmul(float(w[t].s1), float(i1)));
            else
                i = float(HALF_SCALES ? w[t].s0 * (i0 - CODE_BIAS * sum0) +
                                            w[t].s1 * (i1 - CODE_BIAS * sum1)
                                      : i0 + i1 - CODE_BIAS * sums);
            int k = t * ROWS + r;
            float term = fmul(HALF_SCALES ? da : fmul(da, w[t].dw), i);
            acc[k] = b == 0u ? term : fadd(acc[k], term);
            if (!HAS_MIN) continue;
            int j = HALF_SCALES ? w[t].m0 * sum0 + w[t].m1 * sum1 : sums;
            float less = fmul(da, float(j));
            if (HALF_SCALES)
                least[k] = b == 0u ? less : fadd(least[k], less);
            else
                acc[k] = fsub(acc[k], fmul(w[t].mw, less));
        }
    }
}

/* Asks for what is read of stripe s of the lane's rows. */
void load_stripe(task t, uint s, uint n_stripes)
{
    [[unroll]] for (int v = 0; v < VALUES; v++) {
        uint i = value_row(t, v), tile = t.tile_0 + i / TILE_ROWS;
        at[v] = t.mat.w_at + stripe_at(tile, n_stripes, s, i % TILE_ROWS);
        head[v] = load_scales(at[v]);
    }
    [[unroll]] for (uint i = 0u; WIDE && i < STRIPE_PLANES - HEAD_PLANES; i++)
        held[i] = plane(at[0], HEAD_PLANES + i);
}

/* acc becomes the sums of a stripe of n blocks, whose activations begin at x_stripe. */
void add_stripe(uint x_stripe, uint n)
{
    if (WIDE) {
        a8_block none;
        [[unroll]] for (uint b = 0u; b < STRIPE_BLOCKS; b++)
            if (b < n) add_block(b, x_stripe + b * A8_TEXELS, none);
    } else {
        uint lane = gl_SubgroupInvocationID & 7u;
        a8_block mine;
        if (ROWS == 1) mine = load_block(x_stripe + lane * A8_TEXELS);
        for (uint b = 0u; b < n; b++) {
            uint x_block = x_stripe + b * A8_TEXELS;
            if (ROWS > 1) mine = load_block(x_block + (lane < uint(ROWS) ? lane : 0u) * x_stride);
            add_block(b, x_block, mine);
        }
    }
    [[unroll]] for (int t = 0; t < VALUES; t++) {
        block w;
        if (HALF_SCALES) read_scales(head[t], 0u, w); /* dw and mw are the stripe's */
        [[unroll]] for (int r = 0; r < ROWS; r++) {
            int k = t * ROWS + r;
            if (HALF_SCALES) acc[k] = fmul(w.dw, acc[k]);
            if (HALF_SCALES && HAS_MIN) acc[k] = fsub(acc[k], fmul(w.mw, least[k]));
        }
    }
}

void main()
{
    task t;
    if (!find_task(t)) return;
    uint n_stripes = (n_in + STRIPE_BLOCKS - 1u) / STRIPE_BLOCKS;
    for (uint s_0 = 0u; s_0 < n_stripes; s_0 += uint(SPLIT)) {
        uint s = s_0 + t.mine, left = n_in - s * STRIPE_BLOCKS;
        if (s < n_stripes) load_stripe(t, s, n_stripes);
        if (WIDE) stage(t, s_0);
        if (s < n_stripes)
            add_stripe(WIDE ? t.mine * PART_TEXELS : t.x_row + s * STRIPE_TEXELS,
                       left < STRIPE_BLOCKS ? left : STRIPE_BLOCKS);
        fold_stripes(s_0, n_stripes);
    }
    [[unroll]] for (int v = 0; v < VALUES; v++) {
        uint i = t.value + uint(v) * PART_LANES;
        [[unroll]] for (int k = 0; k < FOLDS; k++) {
            uint r = uint(k * SPLIT) + t.mine, to = t.row + r;
            if (i >= t.mat.n_values || r >= uint(ROWS) || to >= t.n_rows) continue;
            float sum = total[v * FOLDS + k];
            if (!ADDS && addends_stride != 0u) sum = fmul(factors[t.expert], sum);
            sum = with_bias(t, i, sum);
            if (ADDS)
                sums_out[to * sums_stride + sums_at + i] =
                    num_keep(fadd(addends[to * addends_stride + addends_at + i], fmul(sum, factor)));
            put(t, to, i, sum);
        }
    }
}
