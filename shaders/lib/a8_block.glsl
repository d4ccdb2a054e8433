/* Blocks of A8, by BLOCK_LANES lanes each: eight, or one where lanes that tell each other something
 * are dear. Include it behind the local size, a multiple of eight, this constant and the buffer
 * `uint codes[]` that the blocks go to. */
#include "a8.glsl"

const uint A8_EACH = 32u / BLOCK_LANES; /* consecutive values of a lane */
const uint A8_MOST_LANES = 128u;        /* of a work group */

/* What eight lanes tell each other: integers, in any order the same. Through shared memory, as there
 * are drivers whose subgroups have fewer lanes than they say. */
shared uint a8_largest[A8_MOST_LANES];
shared int a8_sum[A8_MOST_LANES];

uint largest_of_eight(uint largest)
{
    uint lane = gl_LocalInvocationID.x;
    a8_largest[lane] = largest;
    barrier();
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint a = a8_largest[(lane & ~7u) + i];
        largest = a > largest ? a : largest;
    }
    return largest;
}

/* The sums of both halves of the block. */
ivec2 sums_of_eight(int sum)
{
    uint lane = gl_LocalInvocationID.x;
    a8_sum[lane] = sum;
    barrier();
    ivec2 sums = ivec2(0);
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        sums[i / 4u] += a8_sum[(lane & ~7u) + i];
    return sums;
}

/* All lanes of a work group call it, those of a block with its values in order; at: the block's first
 * texel. Lanes of which it is not wanted write nothing. */
void a8_put(uint at, float v[32], bool is_wanted)
{
    uint own = gl_LocalInvocationID.x % BLOCK_LANES, largest = 0u;
    [[unroll]] for (uint i = 0u; i < A8_EACH; i++) {
        uint a = u_of(v[i]) & NUM_ABS;
        largest = a > largest ? a : largest;
    }
    if (BLOCK_LANES == 8u) largest = largest_of_eight(largest);
    float m = f_of(largest), inverse = a8_inverse(m);
    bool broken = largest > 0x71800000u; /* 2^100 */
    int q[32];
    ivec2 sums = ivec2(0);
    [[unroll]] for (uint i = 0u; i < A8_EACH; i++) {
        q[i] = broken ? 0 : num_rne(fmul(v[i], inverse));
        sums[i / 16u] += q[i];
    }
    if (BLOCK_LANES == 8u) sums = sums_of_eight(sums[0]);
    if (!is_wanted) return;
    uint words[A8_WORDS], to = 4u * at + own * (A8_EACH / 4u) * A8_WORDS;
    [[unroll]] for (uint i = 0u; i < A8_EACH / 4u; i++) {
        a8_words(q[4u * i], q[4u * i + 1u], q[4u * i + 2u], q[4u * i + 3u], words);
        [[unroll]] for (uint k = 0u; k < A8_WORDS; k++)
            codes[to + i * A8_WORDS + k] = words[k];
    }
    uvec4 meta = uvec4(broken ? NUM_NAN : u_of(a8_scale(m)), sums[0], sums[1], sums[0] + sums[1]);
    [[unroll]] for (uint k = 0u; k < 4u; k++)
        if (own == k % BLOCK_LANES) codes[4u * (at + A8_META) + k] = meta[k];
}
