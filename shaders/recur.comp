/* Advances the matrix of each head by the step's rows, in order, and reads it: an invocation owns one
 * column of one head. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool DELTA = false;
layout(constant_id = 2) const bool TILED = false;
layout(constant_id = 3) const bool HAS_SKIP = false;
layout(constant_id = 4) const bool BY_DIM = false;
layout(constant_id = 5) const bool EACH = false; /* values of the state have a decay each */
layout(constant_id = 6) const bool ERASE = false; /* behind the decays e and f; no steps */
layout(set = 0, binding = 1, std430) buffer State { float state[]; }; /* [head][dim][column] */
layout(set = 0, binding = 2, std430) readonly buffer Q { float q[]; };
layout(set = 0, binding = 3, std430) readonly buffer K { float k[]; };
layout(set = 0, binding = 4, std430) readonly buffer V { float v[]; };
layout(set = 0, binding = 5, std430) readonly buffer Gates { float gates[]; };
layout(set = 0, binding = 6, std430) writeonly buffer Out { float y[]; };
layout(set = 0, binding = 7, std430) readonly buffer Own { float own[]; }; /* skip of heads, or a */
layout(push_constant) uniform Push {
    uint part, n_heads, n_groups, n_dim, n_width;
    uint q_stride, q_at, k_stride, k_at, v_stride, v_at, gates_stride, gates_at;
    uint out_stride, out_at, state_at, n_rows_at;
};

void main()
{
    uint id = gl_GlobalInvocationID.x, n_rows = step_words[n_rows_at];
    if (id >= n_heads * n_width) return;
    uint head = id / n_width, j = id % n_width;
    uint group = (TILED ? head % n_groups : head / (n_heads / n_groups)) * n_dim;
    uint s = state_at + head * n_dim * n_width + j;
    for (uint row = 0u; row < n_rows; row++) {
        uint q_row = row * q_stride + q_at + group, k_row = row * k_stride + k_at + group;
        uint gate = row * gates_stride + gates_at, decay_at = gate + (BY_DIM ? head * n_dim : head);
        float value = v[row * v_stride + v_at + head * n_width + j];
        float factor = gates[gate + (EACH ? id : head + (BY_DIM ? n_heads * n_dim : n_heads))];
        float decay = gates[decay_at], target = value;
        if (EACH) factor = num_softplus(factor);
        if (DELTA) {
            float held = 0.0;
            for (uint i = 0u; i < n_dim; i++) {
                float key = k[k_row + i];
                if (BY_DIM) key = num_keep(fmul(key, gates[decay_at + i]));
                float term = fmul(state[s + i * n_width], key);
                held = i == 0u ? term : fadd(held, term);
            }
            held = num_keep(held);
            target = num_keep(fsub(value, BY_DIM ? held : fmul(held, decay)));
        }
        float d = ERASE ? value : num_keep(fmul(factor, target)), sum = 0.0, erased = 0.0;
        uint e_at = decay_at + n_heads * n_dim, f_at = e_at + n_heads * n_dim;
        if (ERASE) {
            for (uint i = 0u; i < n_dim; i++) {
                float term = fmul(state[s + i * n_width], gates[e_at + i]);
                erased = i == 0u ? term : fadd(erased, term);
            }
            erased = num_keep(erased);
        }
        for (uint i = 0u; i < n_dim; i++) {
            if (BY_DIM) decay = gates[decay_at + i];
            if (EACH) decay = num_exp(num_keep(fmul(factor, own[s - state_at + i * n_width])));
            float next = fadd(fmul(state[s + i * n_width], decay), fmul(k[k_row + i], d));
            if (ERASE) next = fsub(next, fmul(gates[f_at + i], erased));
            next = num_keep(next);
            state[s + i * n_width] = next;
            float term = fmul(next, q[q_row + i]);
            sum = i == 0u ? term : fadd(sum, term);
        }
        if (HAS_SKIP) sum = fadd(sum, fmul(own[head], value));
        y[row * out_stride + out_at + head * n_width + j] = num_keep(sum);
    }
}
