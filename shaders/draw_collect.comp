/* Third stage of a draw with noise. Where something is cut: the tokens of the bins that reach to
 * the cut, as a list. Otherwise the largest x + noise of each chunk. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "draw.glsl"

shared uvec2 sums[MAX_LANES];
shared uint last_bin;

/* What counts of a bin: tokens or weight. */
uvec2 in_bin(uint row, uint bin)
{
    uint at = marks_of(row) + MARK_BINS + 3u * bin;
    return draw_word(DRAW_TOP_K) > 0u ? uvec2(marks[at], 0u)
                                      : uvec2(marks[at + 1u], marks[at + 2u]);
}

/* The bin in which the cut lies; the last one, if there is none. */
uint cut_bin(uint row)
{
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint stripe = (DRAW_N_BINS + lanes - 1u) / lanes, first = lane * stripe;
    uvec2 sum = uvec2(0u);
    for (uint b = first; b < first + stripe && b < DRAW_N_BINS; b++)
        sum = add_64(sum, in_bin(row, b));
    sums[lane] = sum;
    barrier();
    if (lane == 0u) {
        uvec2 need = uvec2(draw_word(DRAW_TOP_K), 0u), got = uvec2(0u);
        if (need.x == 0u) {
            for (uint i = 0u; i < lanes; i++)
                got = add_64(got, sums[i]);
            need = draw_share(got);
            got = uvec2(0u);
        }
        uint i = 0u;
        for (; i < lanes - 1u && is_less_64(add_64(got, sums[i]), need); i++)
            got = add_64(got, sums[i]);
        uint bin = i * stripe;
        for (; bin < DRAW_N_BINS - 1u; bin++) {
            got = add_64(got, in_bin(row, bin));
            if (!is_less_64(got, need)) break;
        }
        last_bin = bin;
    }
    barrier();
    return last_bin;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, chunk = gl_WorkGroupID.x;
    uint row = gl_WorkGroupID.y, at = row * n_row;
    uint n = draw_word(DRAW_N_VOCAB), first = chunk * DRAW_CHUNK;
    uint end = first + DRAW_CHUNK < n ? first + DRAW_CHUNK : n, id;
    float largest;
    if (!row_max(row, largest, id)) return;
    bool cuts = has_cuts();
    uint last = cuts ? cut_bin(row) : 0u;
    int best_key = -0x7fffffff - 1;
    uint best = DRAW_NONE;
    for (uint i = first + lane; i < end; i += gl_WorkGroupSize.x) {
        uint key = draw_key(adjusted[at + i], largest);
        if (is_hopeless(key)) continue;
        if (cuts) {
            if (draw_bin(key) <= last) list[at + atomicAdd(marks[marks_of(row)], 1u)] = i;
        } else if (key <= draw_word(DRAW_MOST)) {
            int score = draw_score(row, key, i);
            if (score > best_key) {
                best_key = score;
                best = i;
            }
        }
    }
    if (cuts) return;
    reduce(best_key, best);
    if (lane > 0u) return;
    uint to = marks_of(row) + MARK_CHUNKS + 2u * (n_chunks + chunk);
    marks[to] = uint(keys[0]);
    marks[to + 1u] = ids[0];
}
