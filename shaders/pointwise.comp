/* Ops that make value i of a row from values i of others: an invocation is one value. */
#version 450
#extension GL_GOOGLE_include_directive : require
#include "step.glsl"
#include "numeric.glsl"
#include "glu.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OP = 0;
layout(set = 0, binding = 1, std430) SHARED_PLACE buffer Out { float y[]; };
layout(set = 0, binding = 2, std430) SHARED_PLACE readonly buffer A { float a[]; };
layout(set = 0, binding = 3, std430) SHARED_PLACE readonly buffer B { float b[]; };
layout(push_constant) uniform Push {
    uint part, rebase, n;
    uint out_stride, out_at, a_stride, a_at, b_stride, b_at;
    /* Word of the step: the factor of each row. ROW_GATE: values of a run. RUNS: the same; b's are
     * values from one run to the next in a (stride) and y (at). */
    uint factors_at;
    float factor, cap, inverse_cap; /* XIELU: square, bend, slope */
};

const uint ADD = 3u, SCALE = 4u, ROW_SCALE = 5u, CAP = 6u, ROW_GATE = 9u, RUNS = 10u, COPY = 11u,
           LIMIT = 14u, XIELU = 16u, ROW_GATE_SOFTPLUS = 18u;

void main()
{
    uint i = gl_GlobalInvocationID.x, first = step_first_row(part), row = first + gl_WorkGroupID.y;
    if (i >= n || row >= step_n_rows()) return;
    /* Rows of the logits are counted from the first that is wanted, in and out. */
    uint moved = row - first;
    uint from = i, into = i;
    if (OP == RUNS) {
        from = i / factors_at * b_stride + i % factors_at;
        into = i / factors_at * b_at + i % factors_at;
    }
    uint to = (rebase != 0u ? moved : row) * out_stride + out_at + into;
    float x = a[(rebase > 1u ? moved : row) * a_stride + a_at + from];
    float v;
    switch (OP) {
    case SILU:
    case GELU:
    case CLAMPED:
    case SIGMOID:
    case RELU:
    case GELU_ALONE:
    case TANH_ALONE:
    case SOFTPLUS:
    case LINEAR: v = glu(OP, x, b[row * b_stride + b_at + i]); break;
    case ROW_GATE:
        v = num_keep(fmul(x, num_sigmoid(b[row * b_stride + b_at + i / factors_at])));
        break;
    case ROW_GATE_SOFTPLUS:
        v = num_keep(fmul(x, num_softplus(b[row * b_stride + b_at + i / factors_at])));
        break;
    case COPY:
    case RUNS: v = x; break;
    case ADD: v = num_keep(fadd(x, fmul(b[row * b_stride + b_at + i], factor))); break;
    case SCALE: v = num_keep(fmul(x, factor)); break;
    case LIMIT: v = num_keep(num_limit(x, factor)); break;
    case XIELU: v = num_xielu(x, factor, cap, inverse_cap); break;
    case ROW_SCALE: v = num_keep(fmul(x, f_of(step_words[factors_at + row]))); break;
    default: /* CAP */
        v = num_keep(fmul(x, factor));
        v = num_keep(fmul(cap, num_tanh(fmul(v, inverse_cap))));
    }
    y[to] = v;
}
