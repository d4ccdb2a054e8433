/* Expert scores of a row -> ranked experts and their weights: a work group of 32 lanes is a row. An
 * expert's rank is the number of experts before it. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"
#include "row_sum.glsl"

layout(local_size_x_id = 0) in; /* 32 */
layout(constant_id = 1) const uint KIND = 0; /* enum route_kind */
layout(constant_id = 2) const bool HAS_SELECT = false;
layout(constant_id = 3) const bool HAS_SCALES = false;
layout(constant_id = 4) const bool RENORMALISE = false;
layout(constant_id = 5) const bool GROUPS = false;
layout(set = 0, binding = 1, std430) writeonly buffer Out { uint route[]; }; /* id, weight by rank */
layout(set = 0, binding = 2, std430) readonly buffer Scores { float scores[]; };
layout(set = 0, binding = 3, std430) readonly buffer Select { float select[]; };
layout(set = 0, binding = 4, std430) readonly buffer Scales { float scales[]; };
layout(push_constant) uniform Push {
    uint part, n, n_used;
    uint in_stride, in_at, out_stride, out_at;
    float scale;
    uint n_groups, n_groups_used;
};

const bool SIGMOID = KIND == 1u, EACH = KIND == 2u, GIVEN = KIND == 3u;
const uint MAX_EXPERTS = 512u, MAX_USED = 32u, MAX_GROUPS = 64u;

shared int ratings[MAX_EXPERTS], group_ratings[MAX_GROUPS];
shared uint ids[MAX_USED];
shared float chosen[MAX_USED];

float largest = 0.0, inverse = 0.0; /* of the softmax */

/* What an expert counts by if it is chosen. */
float weight(uint from, uint e)
{
    float s = scores[from + e];
    return num_keep(SIGMOID ? num_sigmoid(s) : fmul(num_exp(fsub(s, largest)), inverse));
}

/* Of all scores, by their order. */
void find_softmax(uint from, uint lane)
{
    for (uint e = lane; e < n; e += 32u)
        ratings[e] = num_order(scores[from + e]);
    barrier();
    int most = ratings[0];
    for (uint e = 1u; e < n; e++)
        if (ratings[e] > most) most = ratings[e];
    largest = num_order_back(most);
    float partial = 0.0;
    for (uint e = lane; e < n; e += 32u) {
        float term = num_exp(fsub(scores[from + e], largest));
        partial = e < 32u ? term : fadd(partial, term);
    }
    inverse = num_rcp(row_fold(partial, n));
    barrier();
}

/* Experts of all but the best groups come last. */
void keep_best_groups(uint lane)
{
    uint len = n / n_groups;
    barrier();
    for (uint g = lane; g < n_groups; g += 32u) {
        int a = ratings[g * len], b = ratings[g * len + 1u];
        if (b > a) {
            int least = a;
            a = b;
            b = least;
        }
        for (uint e = g * len + 2u; e < (g + 1u) * len; e++) {
            int r = ratings[e];
            if (r > a) {
                b = a;
                a = r;
            } else if (r > b) {
                b = r;
            }
        }
        group_ratings[g] = num_order(num_keep(fadd(num_order_back(a), num_order_back(b))));
    }
    barrier();
    for (uint e = lane; e < n; e += 32u) {
        uint g = e / len, rank = 0u;
        for (uint other = 0u; other < n_groups; other++) {
            int r = group_ratings[other];
            rank += r > group_ratings[g] || (r == group_ratings[g] && other < g) ? 1u : 0u;
        }
        if (rank >= n_groups_used) ratings[e] = int(0x80000000u);
    }
}

void main()
{
    uint lane = gl_LocalInvocationID.x, row = step_first_row(part) + gl_WorkGroupID.y;
    if (row >= step_n_rows()) return;
    uint to = row * out_stride + 2u * out_at;
    uint from = row * in_stride + in_at;
    if (EACH || GIVEN) {
        for (uint j = lane; j < n_used; j += 32u) {
            route[to + 2u * j] = j;
            route[to + 2u * j + 1u] = u_of(EACH ? 1.0 : num_keep(scores[from + j]));
        }
        return;
    }
    if (!SIGMOID) find_softmax(from, lane);
    for (uint e = lane; e < n; e += 32u) {
        if (HAS_SELECT)
            ratings[e] = num_order(num_keep(fadd(weight(from, e), select[e])));
        else
            ratings[e] = num_order(SIGMOID ? weight(from, e) : scores[from + e]);
    }
    if (GROUPS) keep_best_groups(lane);
    barrier();
    for (uint e = lane; e < n; e += 32u) {
        uint rank = 0u;
        int own = ratings[e];
        for (uint other = 0u; other < n; other++)
            rank += ratings[other] > own || (ratings[other] == own && other < e) ? 1u : 0u;
        if (rank < n_used) ids[rank] = e;
    }
    barrier();
    float w = 0.0;
    if (lane < n_used) chosen[lane] = w = weight(from, ids[lane]);
    barrier();
    if (lane >= n_used) return;
    if (RENORMALISE) {
        float sum = chosen[0];
        for (uint j = 1u; j < n_used; j++)
            sum = fadd(sum, chosen[j]);
        float least = f_of(0x38800000u); /* 2^-14 */
        w = num_keep(fmul(w, num_rcp(sum < least ? least : sum)));
    }
    w = num_keep(fmul(w, scale));
    if (HAS_SCALES) w = num_keep(fmul(w, scales[ids[lane]]));
    route[to + 2u * lane] = ids[lane];
    route[to + 2u * lane + 1u] = u_of(w);
}
