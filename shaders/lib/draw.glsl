/* What the stages of a draw share (backend/draw.h says what a draw is). A work group goes through a
 * chunk of the vocabulary of one row; what it finds it leaves in the marks of the row.
 *
 * Everything a stage finds is independent of the order of its work groups: sums of integers, the
 * largest of values where ties go to the lower id, and a list whose order does not matter. */
#include "step.glsl"
#include "numeric.glsl"
#include "vulkan/draw_layout.h"

layout(local_size_x_id = 0) in; /* a power of two, at most MAX_LANES */
layout(set = 0, binding = 1, std430) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 2, std430) buffer Counts { uint counts[]; };
layout(set = 0, binding = 3, std430) readonly buffer Bias { float bias[]; };
layout(set = 0, binding = 4, std430) buffer Adjusted { float adjusted[]; };
layout(set = 0, binding = 5, std430) buffer Marks { uint marks[]; };
layout(set = 0, binding = 6, std430) buffer List { uint list[]; };
layout(set = 0, binding = 7, std430) writeonly buffer Drawn { uint drawn[]; };
layout(push_constant) uniform Push {
    uint part, draw_at, n_row, n_chunks;
};

const uint MAX_LANES = 256u;
const uint MINUS_INF = 0xff800000u;

shared int keys[MAX_LANES];
shared uint ids[MAX_LANES];

uint draw_word(uint i)
{
    return step_words[draw_at + i];
}

float draw_float(uint i)
{
    return f_of(draw_word(i));
}

bool is_greedy()
{
    return draw_word(DRAW_INVERSE_TEMP) == 0u;
}

/* Whether something is cut away by top-k or top-p; without, nothing is counted or weighed. */
bool has_cuts()
{
    return draw_word(DRAW_TOP_K) > 0u || draw_word(DRAW_TOP_P) < 0x1000000u;
}

/* The place of a row among the marks. */
uint marks_of(uint row)
{
    return row * MARK_WORDS(n_chunks);
}

/* Of all lanes the largest key, and of these the lowest id, into keys[0] and ids[0]. */
void reduce(int key, uint id)
{
    uint lane = gl_LocalInvocationID.x;
    barrier();
    keys[lane] = key;
    ids[lane] = id;
    barrier();
    for (uint n = gl_WorkGroupSize.x / 2u; n > 0u; n /= 2u) {
        if (lane < n) {
            int other = keys[lane + n];
            if (other > keys[lane] || (other == keys[lane] && ids[lane + n] < ids[lane])) {
                keys[lane] = other;
                ids[lane] = ids[lane + n];
            }
        }
        barrier();
    }
}

/* The same of what all chunks of a row left, from the word `at` of its marks on. */
void reduce_chunks(uint row, uint at)
{
    int key = -0x7fffffff - 1;
    uint id = DRAW_NONE;
    for (uint c = gl_LocalInvocationID.x; c < n_chunks; c += gl_WorkGroupSize.x) {
        uint from = marks_of(row) + at + 2u * c;
        int k = int(marks[from]);
        if (k > key || (k == key && marks[from + 1u] < id)) {
            key = k;
            id = marks[from + 1u];
        }
    }
    reduce(key, id);
}

/* The largest logit of a row into *largest and its id; false: nothing can be drawn. All lanes have
 * the same answer. A chunk with a broken logit has a key above all others. */
bool row_max(uint row, out float largest, out uint id)
{
    reduce_chunks(row, MARK_CHUNKS);
    largest = num_order_back(keys[0]);
    id = ids[0];
    return id != DRAW_NONE && u_of(largest) != MINUS_INF;
}

/* The bits of -x, which have the order of draws; DRAW_NONE: banned. */
uint draw_key(float logit, float largest)
{
    uint bits = u_of(fmul(fsub(logit, largest), draw_float(DRAW_INVERSE_TEMP))) & NUM_ABS;
    return u_of(logit) == MINUS_INF ? DRAW_NONE : bits;
}

bool is_hopeless(uint key)
{
    return key > u_of(float(DRAW_LEAST_X));
}

/* x, which is at most 0. */
float draw_x(uint key)
{
    return f_of(key | NUM_SIGN);
}

/* Monotonic: a product with a power of two is exact. */
uint draw_bin(uint key)
{
    return uint(fmul(f_of(key), 64.0));
}

uint draw_weight(uint key)
{
    return key > u_of(21.0) ? 0u : uint(fmul(num_exp(draw_x(key)), 1073741824.0));
}

/* base/philox.h: the first word for (id, pos). */
uint philox_noise(uint id, uint pos)
{
    uint k0 = draw_word(DRAW_SEED), k1 = draw_word(DRAW_SEED + 1);
    uint c0 = id, c1 = pos, c2 = 0u, c3 = 0u;
    for (int i = 0; i < 10; i++) {
        uint hi0, lo0, hi1, lo1;
        umulExtended(0xD2511F53u, c0, hi0, lo0);
        umulExtended(0xCD9E8D57u, c2, hi1, lo1);
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0;
}

float negative(float x)
{
    return f_of(u_of(x) ^ NUM_SIGN);
}

/* draw_noise of the token that follows a row. */
float draw_noise(uint row, uint id)
{
    uint r = philox_noise(id, draw_word(DRAW_POS) + row);
    uint place = r >> 9u;
    float minus_ln_v;
    if (place < 0x7fffffu)
        minus_ln_v = negative(num_log(fmul(float(2u * place + 1u), f_of(0x33800000u)))); /* 2^-24 */
    else
        minus_ln_v = fmul(float(2u * (511u - (r & 511u)) + 1u), f_of(0x2f000000u)); /* 2^-33 */
    return negative(num_log(minus_ln_v));
}

/* The key of x + noise; +0 and -0 are one. */
int draw_score(uint row, uint key, uint id)
{
    float y = fadd(draw_x(key), draw_noise(row, id));
    return num_order(u_of(y) == NUM_SIGN ? 0.0 : y);
}

/* ---- sums of 64 bits: the low word, the high word ---- */

uvec2 add_64(uvec2 a, uvec2 b)
{
    uint lo = a.x + b.x;
    return uvec2(lo, a.y + b.y + (lo < a.x ? 1u : 0u));
}

uvec2 sub_64(uvec2 a, uvec2 b)
{
    return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u));
}

bool is_less_64(uvec2 a, uvec2 b)
{
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

/* top_p of a sum, rounded up; at least 1, which the first token alone has. */
uvec2 draw_share(uvec2 sum)
{
    uint top_p = draw_word(DRAW_TOP_P), hi, lo;
    umulExtended(sum.x & 0xffffffu, top_p, hi, lo);
    lo += 0xffffffu;
    hi += lo < 0xffffffu ? 1u : 0u;
    uint low = lo >> 24u | hi << 8u;
    umulExtended(sum.x >> 24u | sum.y << 8u, top_p, hi, lo);
    uvec2 share = add_64(uvec2(lo, hi), uvec2(low, 0u));
    return share.x == 0u && share.y == 0u ? uvec2(1u, 0u) : share;
}
