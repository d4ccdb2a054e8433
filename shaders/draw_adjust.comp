/* First stage of a draw: bias and penalties; the largest logit of each chunk; empty bins.
 *
 * The counts of tokens stay on the device. Those that changed since the last draw come with the
 * request, and for rows of drafts that the host knows those that are ahead of it. Drafts that the
 * device alone knows are counted here. The lane that made a logit makes it again with such a count. */
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

/* The k-th change that the drafts ahead make: one counts once more, then what it drives out of the
 * window of the penalties once less. */
uint draft_change(uint k)
{
    uint i = k / 2u;
    if (k % 2u == 0u) return draw_word(DRAW_DRAFTED + i);
    int id = int(draw_word(DRAW_LEAVES + i));
    return id < -1 ? draw_word(DRAW_DRAFTED + uint(-2 - id)) : uint(id);
}

/* The count of an id after the first n changes. Row 0 keeps counts that came with the request, and
 * others may see them or not. */
uint count_after(uint id, uint n)
{
    uint n_kept = draw_word(DRAW_N_KEPT), count = counts[id];
    for (uint k = 0u; k < n_kept; k++)
        if (draw_word(DRAW_COUNTS + 2u * k) == id) count = draw_word(DRAW_COUNTS + 2u * k + 1u);
    for (uint k = 0u; k < n; k++)
        if (draft_change(k) == id) count += k % 2u == 0u ? 1u : 0xffffffffu;
    return count;
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
    uint ahead = draw_word(DRAW_AHEAD), n_changes = ahead > 0u ? 2u * (ahead - 1u + row) : 0u;
    for (uint k = 0u; k < n_changes; k++) {
        uint id = draft_change(k);
        if (id < first || id >= end || (id - first) % lanes != lane) continue;
        adjusted[at + id] = adjust(logits[at + id], id, count_after(id, n_changes));
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
