/* Last stage of a draw, one work group per row: the exact cut of the list, and the token. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "draw.glsl"

const uint N_DIGITS = 256u;

/* A place in the order of draws: the bits of -x, then the id. */
struct place {
    uint key, id;
};

shared uint low[N_DIGITS], high[N_DIGITS];
shared uint digit_found;
shared uvec2 needed;

bool is_after(place a, place b)
{
    return a.key > b.key || (a.key == b.key && a.id > b.id);
}

place listed(uint row, uint i, float largest)
{
    uint id = list[row * n_row + i];
    return place(draw_key(adjusted[row * n_row + id], largest), id);
}

void clear()
{
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < N_DIGITS; i += gl_WorkGroupSize.x)
        low[i] = high[i] = 0u;
    barrier();
}

void add_to(uint i, uint weight)
{
    uint before = atomicAdd(low[i], weight);
    if (before + weight < before) atomicAdd(high[i], 1u);
}

/* The i-th digit of a place from the front, of eight: four of the key, four of the id. */
uint digit(place p, uint i)
{
    return (i < 4u ? p.key : p.id) >> (24u - 8u * (i % 4u)) & 255u;
}

bool begins_alike(place p, place q, uint n_digits)
{
    uint keys_shift = n_digits < 4u ? 32u - 8u * n_digits : 0u;
    if (n_digits == 0u) return true;
    if (p.key >> keys_shift != q.key >> keys_shift) return false;
    return n_digits <= 4u || p.id >> (64u - 8u * n_digits) == q.id >> (64u - 8u * n_digits);
}

/* The first place of the list, none of which is behind `end`, up to which it has `need` tokens, or
 * weight: digit by digit, each by the sums of all that begin like those found before. */
place cut_at(uint row, uint n, float largest, place end, bool weighs, uvec2 need)
{
    uint lane = gl_LocalInvocationID.x;
    place found = place(0u, 0u);
    for (uint i = 0u; i < 8u; i++) {
        clear();
        for (uint k = lane; k < n; k += gl_WorkGroupSize.x) {
            place p = listed(row, k, largest);
            if (is_after(p, end) || !begins_alike(p, found, i)) continue;
            add_to(digit(p, i), weighs ? draw_weight(p.key) : 1u);
        }
        barrier();
        if (lane == 0u) {
            uint d = 0u;
            for (; d < N_DIGITS - 1u; d++) {
                uvec2 sum = uvec2(low[d], high[d]);
                if (!is_less_64(sum, need)) break;
                need = sub_64(need, sum);
            }
            digit_found = d;
            needed = need;
        }
        barrier();
        need = needed;
        uint shifted = digit_found << (24u - 8u * (i % 4u));
        if (i < 4u)
            found.key |= shifted;
        else
            found.id |= shifted;
    }
    return found;
}

/* What top-p is a share of: the weight of the list as far as `end`; without top-k, of all bins. */
uvec2 weight_of(uint row, uint n, float largest, place end)
{
    clear();
    if (draw_word(DRAW_TOP_K) == 0u) {
        for (uint b = gl_LocalInvocationID.x; b < DRAW_N_BINS; b += gl_WorkGroupSize.x) {
            uint bin = marks_of(row) + MARK_BINS + 3u * b;
            add_to(0u, marks[bin + 1u]);
            atomicAdd(high[0], marks[bin + 2u]);
        }
        barrier();
        return uvec2(low[0], high[0]);
    }
    for (uint k = gl_LocalInvocationID.x; k < n; k += gl_WorkGroupSize.x) {
        place p = listed(row, k, largest);
        if (!is_after(p, end)) add_to(0u, draw_weight(p.key));
    }
    barrier();
    return uvec2(low[0], high[0]);
}

/* The largest x + noise of the list, cut, into ids[0]. */
void draw_listed(uint row, float largest)
{
    uint n = marks[marks_of(row)], top_k = draw_word(DRAW_TOP_K);
    place end = place(DRAW_NONE, DRAW_NONE);
    if (top_k > 0u && top_k < n) end = cut_at(row, n, largest, end, false, uvec2(top_k, 0u));
    if (draw_word(DRAW_TOP_P) < 0x1000000u)
        end = cut_at(row, n, largest, end, true, draw_share(weight_of(row, n, largest, end)));
    int best_key = -0x7fffffff - 1;
    uint best = DRAW_NONE;
    for (uint k = gl_LocalInvocationID.x; k < n; k += gl_WorkGroupSize.x) {
        place p = listed(row, k, largest);
        if (is_after(p, end) || p.key > draw_word(DRAW_MOST)) continue;
        int score = draw_score(row, p.key, p.id);
        if (score > best_key || (score == best_key && p.id < best)) {
            best_key = score;
            best = p.id;
        }
    }
    reduce(best_key, best);
}

void main()
{
    uint row = gl_WorkGroupID.y, id;
    float largest;
    bool can = row_max(row, largest, id);
    if (can && !is_greedy()) {
        if (has_cuts())
            draw_listed(row, largest);
        else
            reduce_chunks(row, MARK_CHUNKS + 2u * n_chunks);
        id = ids[0];
    }
    if (gl_LocalInvocationID.x == 0u) drawn[row] = can ? id : DRAW_NONE;
}
