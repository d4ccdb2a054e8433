/* Second stage of a draw that cuts: the tokens of each bin are counted for top-k, weighed for top-p
 * alone. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "draw.glsl"

void main()
{
    uint row = gl_WorkGroupID.y, at = row * n_row;
    uint n = draw_word(DRAW_N_VOCAB), first = gl_WorkGroupID.x * DRAW_CHUNK;
    uint end = first + DRAW_CHUNK < n ? first + DRAW_CHUNK : n, id;
    bool counts_them = draw_word(DRAW_TOP_K) > 0u;
    float largest;
    if (!row_max(row, largest, id)) return;
    for (uint i = first + gl_LocalInvocationID.x; i < end; i += gl_WorkGroupSize.x) {
        uint key = draw_key(adjusted[at + i], largest);
        if (is_hopeless(key)) continue;
        uint bin = marks_of(row) + MARK_BINS + 3u * draw_bin(key);
        if (counts_them) {
            atomicAdd(marks[bin], 1u);
            continue;
        }
        uint weight = draw_weight(key), before = atomicAdd(marks[bin + 1u], weight);
        if (before + weight < before) atomicAdd(marks[bin + 2u], 1u);
    }
}
