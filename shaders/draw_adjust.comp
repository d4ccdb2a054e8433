/* First stage of a draw: bias and penalties; the largest logit of each chunk; empty bins.
 *
 * The counts of tokens stay on the device. Those that changed since the last draw come with the
 * request, and for the rows of a block of drafts those that are ahead of it: the lane that made a
 * logit makes it again with such a count. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "draw.glsl"

shared uint is_broken;

float adjust(float x, uint id, uint n)
{
    if (u_of(x) == MINUS_INF) return x;
    if (draw_word(DRAW_HAS_BIAS) > 0u) x = u_of(bias[id]) == MINUS_INF ? bias[id] : fadd(x, bias[id]);
    if (n == 0u || u_of(x) == MINUS_INF) return x;
    float repeat = draw_float(DRAW_REPEAT);
    if (repeat != 1.0) x = fmul(x, x > 0.0 ? draw_float(DRAW_INVERSE_REPEAT) : repeat);
    x = fsub(x, fmul(float(n), draw_float(DRAW_FREQUENCY)));
    return fsub(x, draw_float(DRAW_PRESENCE));
}

/* Neither NaN nor +infinity. */
bool is_fine(float x)
{
    uint bits = u_of(x);
    return bits == MINUS_INF || (bits & NUM_ABS) < NUM_INF;
}

void main()
{
    uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
    uint chunk = gl_WorkGroupID.x, row = gl_WorkGroupID.y, at = row * n_row;
    uint n = draw_word(DRAW_N_VOCAB), first = chunk * DRAW_CHUNK;
    uint end = first + DRAW_CHUNK < n ? first + DRAW_CHUNK : n;
    bool has_counts = draw_word(DRAW_HAS_COUNTS) > 0u, fine = true;
    for (uint w = chunk * lanes + lane; w < MARK_CHUNKS; w += n_chunks * lanes)
        marks[marks_of(row) + w] = 0u;
    if (lane == 0u) is_broken = 0u;
    for (uint i = first + lane; i < end; i += lanes) {
        float x = logits[at + i];
        fine = fine && is_fine(x);
        adjusted[at + i] = adjust(x, i, has_counts ? counts[i] : 0u);
    }
    uint n_counts = draw_word(DRAW_N_COUNTS + row);
    for (uint k = 0u; k < n_counts; k++) {
        uint id = draw_word(DRAW_COUNTS + 2u * k), count = draw_word(DRAW_COUNTS + 2u * k + 1u);
        if (id < first || id >= end || (id - first) % lanes != lane) continue;
        adjusted[at + id] = adjust(logits[at + id], id, count);
        if (row == 0u && k < draw_word(DRAW_N_KEPT)) counts[id] = count;
    }
    int key = -0x7fffffff - 1;
    uint best = DRAW_NONE - 1u;
    for (uint i = first + lane; i < end; i += lanes) {
        float x = adjusted[at + i];
        fine = fine && is_fine(x);
        int k = num_order(u_of(x) == NUM_SIGN ? 0.0 : x); /* +0 and -0 are one */
        if (k > key) {
            key = k;
            best = i;
        }
    }
    barrier();
    if (!fine) atomicOr(is_broken, 1u);
    reduce(key, best);
    if (lane > 0u) return;
    uint to = marks_of(row) + MARK_CHUNKS + 2u * chunk;
    marks[to] = is_broken > 0u ? 0x7fffffffu : uint(keys[0]);
    marks[to + 1u] = is_broken > 0u ? DRAW_NONE : ids[0];
}
