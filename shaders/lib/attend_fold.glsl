/* Folds the pages that attend.comp or attend_wide.comp left, from the first visible one on, then a
 * sink, and divides by the sum: a work group is a row and a head, a lane a dim. With QUANTISES it
 * also makes A8 of the head, BLOCK_LANES lanes a block. */
#include "step.glsl"
#include "numeric.glsl"
#include "kv.glsl"

layout(local_size_x_id = 0) in; /* a multiple of 32 */
layout(constant_id = 1) const bool HAS_SINK = false;
layout(constant_id = 2) const bool QUANTISES = false;
layout(constant_id = 3) const uint BLOCK_LANES = 8; /* or 1 */
layout(set = 0, binding = 1, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) readonly buffer Parts { float parts[]; };
layout(set = 0, binding = 3, std430) readonly buffer Sinks { float sinks[]; };
layout(set = 0, binding = 4, std430) writeonly buffer Codes { uint codes[]; };
layout(push_constant) uniform Push {
    uint part, n_heads, dim, window;
    uint first_row, n_block_rows;
    uint out_stride, out_at;
    uint ring; /* as in attend_page.glsl */
    uint codes_stride, codes_at; /* texels */
    float sink_sum;
};

const uint A8_TILE = 512u; /* the most dims with QUANTISES */
#include "a8_tile.glsl"

float later(float a, float b)
{
    return num_order(a) > num_order(b) ? a : b;
}

/* A dim of the head. */
float fold(uint r, uint head, uint first, uint n, uint e)
{
    uint row_at = (r * n_heads + head) * ring, at = (row_at + first % ring) * (dim + 2u);
    float m = parts[at], l = parts[at + 1u], o = parts[at + 2u + e];
    for (uint page = first + 1u; page < n; page++) {
        at = (row_at + page % ring) * (dim + 2u);
        float page_m = parts[at], new_m = later(m, page_m);
        float a = num_exp2_below(fsub(m, new_m)), b = num_exp2_below(fsub(page_m, new_m));
        l = fadd(fmul(l, a), fmul(parts[at + 1u], b));
        float before = a == 1.0 ? o : fmul(num_keep(o), a);
        o = fadd(before, fmul(parts[at + 2u + e], b));
        m = new_m;
    }
    if (HAS_SINK) {
        float sink = fmul(sinks[head], NUM_LOG2_E), new_m = later(m, sink);
        float a = num_exp2_below(fsub(m, new_m)), b = num_exp2_below(fsub(sink, new_m));
        l = fadd(fmul(l, a), fmul(sink_sum, b));
        o = fmul(num_keep(o), a); /* and nothing of b */
    }
    return num_keep(fmul(num_keep(o), num_rcp(l)));
}

void main()
{
    uint head = gl_WorkGroupID.x, r = gl_WorkGroupID.y;
    uint row = step_first_row(part) + first_row + r;
    if (r >= n_block_rows || row >= step_n_rows()) return;
    uint end = step_pos() + row + 1u;
    uint first = first_seen(window, end - 1u) / PAGE_LEN;
    uint n = (end + PAGE_LEN - 1u) / PAGE_LEN;
    uint to = row * out_stride + out_at + head * dim;
    for (uint e = gl_LocalInvocationID.x; e < dim; e += gl_WorkGroupSize.x) {
        float o = fold(r, head, first, n, e);
        y[to + e] = o;
        if (QUANTISES) a8_tile[e] = o;
    }
    if (QUANTISES)
        a8_put_tile(row * codes_stride + codes_at + head * (dim / 32u) * A8_TEXELS, dim);
}
