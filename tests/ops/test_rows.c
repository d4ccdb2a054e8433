/* Ops along a row: all machines give the reference's bits at every width and batch, the
 * reference is near the formula in double, and its bits are the stored ones. */
#include "row_case.h"
#include "row_routes.h"

static struct ref build_norm_by(struct trial *t, struct ref in, size_t width, size_t group,
                                bool weighted)
{
    struct err err;
    struct ref out = trial_buffer(t, ROW_F32, width);
    struct weight *w = weighted ? backend_vector(t->be, norm_weights, group, &err) : NULL;
    trial_op(t, OP_NORM)->norm = (struct op_norm){in, out, w, group, 1e-6f, NULL};
    return out;
}

static struct ref build_norm(struct trial *t, struct ref in, size_t width)
{
    return build_norm_by(t, in, width, width, true);
}

static struct ref build_head_norm(struct trial *t, struct ref in, size_t width)
{
    return build_norm_by(t, in, width, width / 2, false);
}

static struct ref build_centre(struct trial *t, struct ref in, size_t width)
{
    struct ref out = trial_buffer(t, ROW_F32, width);
    trial_op(t, OP_CENTRE)->centre = (struct op_centre){in, out, width};
    return out;
}

static struct ref build_head_centre(struct trial *t, struct ref in, size_t width)
{
    struct ref out = trial_buffer(t, ROW_F32, width);
    trial_op(t, OP_CENTRE)->centre = (struct op_centre){in, out, width / 2};
    return out;
}

static double exact_centre(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double sum = 0;
    for (size_t k = 0; k < width; k++)
        sum += (double)x[k];
    return (double)x[i] - sum / (double)width;
}

static double exact_head_centre(const float *x, size_t width, size_t i, size_t pos)
{
    const size_t group = width / 2;
    return exact_centre(x + i / group * group, group, i % group, pos);
}

/* Two groups, each with weights of its own. */
static struct ref build_group_norm(struct trial *t, struct ref in, size_t width)
{
    struct err err;
    struct ref out = trial_buffer(t, ROW_F32, width);
    struct weight *w = backend_vector(t->be, norm_weights, width, &err);
    trial_op(t, OP_NORM)->norm = (struct op_norm){in, out, w, width / 2, 1e-6f, NULL};
    return out;
}

static struct ref build_bias_by(struct trial *t, struct ref in, size_t width, size_t group,
                                size_t n_weights)
{
    struct err err;
    struct ref out = trial_buffer(t, ROW_F32, width);
    struct weight *w = backend_vector(t->be, norm_weights, n_weights, &err);
    struct weight *bias = backend_vector(t->be, norm_weights + BIAS_AT, n_weights, &err);
    trial_op(t, OP_NORM)->norm = (struct op_norm){in, out, w, group, 1e-6f, bias};
    return out;
}

static struct ref build_bias(struct trial *t, struct ref in, size_t width)
{
    return build_bias_by(t, in, width, width, width);
}

/* Two groups share weights and biases, or each has its own. */
static struct ref build_head_bias(struct trial *t, struct ref in, size_t width)
{
    return build_bias_by(t, in, width, width / 2, width / 2);
}

static struct ref build_group_bias(struct trial *t, struct ref in, size_t width)
{
    return build_bias_by(t, in, width, width / 2, width);
}

static double norm_of(const float *x, size_t from, size_t n, size_t i)
{
    double s = 0;
    for (size_t k = from; k < from + n; k++)
        s += (double)x[k] * (double)x[k];
    return (double)x[i] / sqrt(s / (double)n + 1e-6);
}

static double exact_norm(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return norm_of(x, 0, width, i) * (double)norm_weights[i];
}

static double exact_head_norm(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return norm_of(x, i / (width / 2) * (width / 2), width / 2, i);
}

static double exact_group_norm(const float *x, size_t width, size_t i, size_t pos)
{
    return exact_head_norm(x, width, i, pos) * (double)norm_weights[i];
}

static double exact_bias(const float *x, size_t width, size_t i, size_t pos)
{
    return exact_norm(x, width, i, pos) + (double)norm_weights[BIAS_AT + i];
}

static double exact_head_bias(const float *x, size_t width, size_t i, size_t pos)
{
    const size_t k = i % (width / 2);
    return exact_head_norm(x, width, i, pos) * (double)norm_weights[k] +
           (double)norm_weights[BIAS_AT + k];
}

static double exact_group_bias(const float *x, size_t width, size_t i, size_t pos)
{
    return exact_group_norm(x, width, i, pos) + (double)norm_weights[BIAS_AT + i];
}

static struct ref build_rope_by(struct trial *t, struct ref in, size_t width,
                                enum rope_pairs pairs)
{
    t->rope = (struct rope){pairs, width / 4 * 2, frequencies, 1.25};
    t->p.n_ropes = 1;
    trial_op(t, OP_ROPE)->rope = (struct op_rope){in, width, 0};
    return in;
}

static struct ref build_rope_neox(struct trial *t, struct ref in, size_t width)
{
    return build_rope_by(t, in, width, ROPE_NEOX);
}

static struct ref build_rope_norm(struct trial *t, struct ref in, size_t width)
{
    return build_rope_by(t, in, width, ROPE_NORM);
}

static double rotated(const float *x, size_t a, size_t b, size_t pair, bool second, size_t pos)
{
    double angle = (double)pos * frequencies[pair], c = 1.25 * cos(angle),
           s = 1.25 * sin(angle);
    return second ? (double)x[a] * s + (double)x[b] * c : (double)x[a] * c - (double)x[b] * s;
}

static double exact_rope_neox(const float *x, size_t width, size_t i, size_t pos)
{
    size_t n_pairs = width / 4;
    if (i >= 2 * n_pairs) return (double)x[i];
    size_t pair = i % n_pairs;
    return rotated(x, pair, pair + n_pairs, pair, i >= n_pairs, pos);
}

static double exact_rope_norm(const float *x, size_t width, size_t i, size_t pos)
{
    size_t n_pairs = width / 4;
    if (i >= 2 * n_pairs) return (double)x[i];
    return rotated(x, i / 2 * 2, i / 2 * 2 + 1, i / 2, i % 2, pos);
}

static struct ref build_row_scale(struct trial *t, struct ref in, size_t width)
{
    (void)width;
    t->row_scale = (struct row_scale){0.1, 16, 0};
    t->p.n_row_scales = 1;
    trial_op(t, OP_ROW_SCALE)->row_scale = (struct op_row_scale){in, 0};
    return in;
}

static double exact_row_scale(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width;
    return (double)x[i] * (1 + 0.1 * log(1 + floor((double)pos / 16)));
}

static struct ref build_glu_by(struct trial *t, struct ref in, size_t width, enum glu_kind kind)
{
    struct ref out = trial_buffer(t, ROW_F32, width / 2);
    trial_op(t, OP_GLU)->glu = (struct op_glu){ref_part(in, 0, width / 2),
                                               ref_part(in, width / 2, width / 2), out, kind};
    return out;
}

static struct ref build_silu(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_SILU);
}

static struct ref build_gelu(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_GELU);
}

static struct ref build_gelu_alone(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_GELU_ALONE);
}

static struct ref build_sigmoid(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_SIGMOID);
}

static struct ref build_linear(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_LINEAR);
}

static struct ref build_relu(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_RELU);
}

static double exact_relu(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return x[i] < 0 ? 0 : (double)x[i] * (double)x[i + width / 2];
}

static double exact_sigmoid(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[i + width / 2] / (1 + exp(-(double)x[i]));
}

static double exact_linear(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[i] * (double)x[i + width / 2];
}

/* Runs of four go to the second half's place and to the first's. */
static struct ref build_deal_evenly(struct trial *t, struct ref in, size_t width)
{
    struct ref out = trial_buffer(t, ROW_F32, width);
    trial_op(t, OP_RUNS)->runs = (struct op_runs){
        in, ref_part(out, width / 2, width / 2), ref_part(out, 0, width / 2), 4, 4, false};
    return out;
}

static double exact_deal_evenly(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    size_t at = i % (width / 2);
    return (double)x[at / 4 * 8 + at % 4 + (i < width / 2 ? 4 : 0)];
}

/* Of turns of three and five values the fives come first. */
static struct ref build_deal(struct trial *t, struct ref in, size_t width)
{
    const size_t n_turns = width / 8;
    struct ref out = trial_buffer(t, ROW_F32, 8 * n_turns);
    trial_op(t, OP_RUNS)->runs = (struct op_runs){ref_part(in, 0, 8 * n_turns),
                                                  ref_part(out, 5 * n_turns, 3 * n_turns),
                                                  ref_part(out, 0, 5 * n_turns),
                                                  3,
                                                  5,
                                                  false};
    return out;
}

static double exact_deal(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    const size_t n_b = width / 8 * 5, at = i - n_b;
    return i < n_b ? (double)x[i / 5 * 8 + 3 + i % 5] : (double)x[at / 3 * 8 + at % 3];
}

/* The same joined again. */
static struct ref build_join(struct trial *t, struct ref in, size_t width)
{
    const size_t n_turns = width / 8;
    struct ref out = trial_buffer(t, ROW_F32, 8 * n_turns);
    trial_op(t, OP_RUNS)->runs = (struct op_runs){
        out, ref_part(in, 5 * n_turns, 3 * n_turns), ref_part(in, 0, 5 * n_turns), 3, 5, true};
    return out;
}

static double exact_join(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    const size_t turn = i / 8, at = i % 8;
    return (double)x[at < 3 ? width / 8 * 5 + 3 * turn + at : 5 * turn + at - 3];
}

/* One run of three before each of five. */
static struct ref build_repeat(struct trial *t, struct ref in, size_t width)
{
    const size_t n_turns = width / 8;
    struct ref out = trial_buffer(t, ROW_F32, 8 * n_turns);
    trial_op(t, OP_RUNS)->runs = (struct op_runs){
        out, ref_part(in, 5 * n_turns, 3), ref_part(in, 0, 5 * n_turns), 3, 5, true};
    return out;
}

static double exact_repeat(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    const size_t turn = i / 8, at = i % 8;
    return (double)x[at < 3 ? width / 8 * 5 + at : 5 * turn + at - 3];
}

static struct ref build_row_gate(struct trial *t, struct ref in, size_t width)
{
    struct ref x = ref_part(in, 1, width - 1);
    trial_op(t, OP_ROW_GATE)->row_gate = (struct op_row_gate){x, ref_part(in, 0, 1), false};
    return x;
}

static double exact_row_gate(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width;
    (void)pos;
    return (double)x[i + 1] / (1 + exp(-(double)x[0]));
}

/* Runs of seven. */
static struct ref gate_runs(struct trial *t, struct ref in, size_t width, bool softplus)
{
    const size_t n = width / 8;
    struct ref x = ref_part(in, n, 7 * n);
    trial_op(t, OP_ROW_GATE)->row_gate = (struct op_row_gate){x, ref_part(in, 0, n), softplus};
    return x;
}

static struct ref build_gate_runs(struct trial *t, struct ref in, size_t width)
{
    return gate_runs(t, in, width, false);
}

static struct ref build_gate_softplus(struct trial *t, struct ref in, size_t width)
{
    return gate_runs(t, in, width, true);
}

static double exact_gate_runs(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[width / 8 + i] / (1 + exp(-(double)x[i / 7]));
}

static double exact_gate_softplus(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[width / 8 + i] * log1p(exp((double)x[i / 7]));
}

static struct ref build_softplus(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_SOFTPLUS);
}

static double exact_softplus(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return log1p(exp((double)x[i])) * (double)x[i + width / 2];
}

static double exact_silu(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[i] / (1 + exp(-(double)x[i])) * (double)x[i + width / 2];
}

static double exact_gelu_alone(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width;
    (void)pos;
    double g = (double)x[i];
    return 0.5 * g * (1 + tanh(0.79788456080286536 * (g + 0.044715 * g * g * g)));
}

static double exact_gelu(const float *x, size_t width, size_t i, size_t pos)
{
    return exact_gelu_alone(x, width, i, pos) * (double)x[i + width / 2];
}

static struct ref build_clamped(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_CLAMPED);
}

static double exact_clamped(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    double g = fmin((double)x[i], 7), u = fmax(-7, fmin((double)x[i + width / 2], 7));
    return g / (1 + exp(-1.702 * g)) * (u + 1);
}

static struct ref build_scale(struct trial *t, struct ref in, size_t width)
{
    (void)width;
    trial_op(t, OP_SCALE)->scale = (struct op_scale){in, 0.3f};
    return in;
}

static struct ref build_limit(struct trial *t, struct ref in, size_t width)
{
    (void)width;
    trial_op(t, OP_LIMIT)->limit = (struct op_limit){in, 0.75f};
    return in;
}

static double exact_limit(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width;
    (void)pos;
    return fmax(-0.75, fmin(0.75, (double)x[i]));
}

/* The root mean square; of two halves, into the first value of each, so that every value of the
 * result is one. */
static struct ref build_size(struct trial *t, struct ref in, size_t width)
{
    struct ref out = trial_buffer(t, ROW_F32, 2);
    for (size_t i = 0; i < 2; i++)
        trial_op(t, OP_SIZE)->size =
            (struct op_size){ref_part(in, i * (width / 2), width / 2), ref_part(out, i, 1)};
    return out;
}

static double size_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum / (double)n);
}

static double exact_size(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return size_of(x + i * (width / 2), width / 2);
}

static struct ref build_cut(struct trial *t, struct ref in, size_t width)
{
    struct ref out = trial_buffer(t, ROW_F32, width);
    trial_op(t, OP_CUT)->cut = (struct op_cut){in, out, 0.6f};
    return out;
}

static double exact_cut(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return fmax(0, (double)x[i] - (double)0.6f * size_of(x, width));
}

/* A factor below 0 leaves more than what is above 0; in place. */
static struct ref build_cut_below(struct trial *t, struct ref in, size_t width)
{
    (void)width;
    trial_op(t, OP_CUT)->cut = (struct op_cut){in, in, -0.6f};
    return in;
}

static double exact_cut_below(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return fmax(0, (double)x[i] + (double)0.6f * size_of(x, width));
}

static struct ref build_factors(struct trial *t, struct ref in, size_t width)
{
    struct err err;
    struct ref out = trial_buffer(t, ROW_F32, width);
    struct weight *w = backend_vector(t->be, norm_weights, width, &err);
    trial_op(t, OP_FACTORS)->factors = (struct op_factors){in, out, w, NULL};
    return out;
}

static struct ref build_factors_bias(struct trial *t, struct ref in, size_t width)
{
    struct err err;
    struct weight *w = backend_vector(t->be, norm_weights, width, &err);
    struct weight *bias = backend_vector(t->be, norm_weights + BIAS_AT, width, &err);
    trial_op(t, OP_FACTORS)->factors = (struct op_factors){in, in, w, bias};
    return in;
}

static double exact_factors(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width, (void)pos;
    return (double)x[i] * (double)norm_weights[i];
}

static double exact_factors_bias(const float *x, size_t width, size_t i, size_t pos)
{
    return exact_factors(x, width, i, pos) + (double)norm_weights[BIAS_AT + i];
}

static struct ref build_tanh_alone(struct trial *t, struct ref in, size_t width)
{
    return build_glu_by(t, in, width, GLU_TANH_ALONE);
}

static double exact_tanh_alone(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width, (void)pos;
    return tanh((double)x[i]);
}

static struct ref build_xielu(struct trial *t, struct ref in, size_t width)
{
    (void)width;
    trial_op(t, OP_XIELU)->xielu = (struct op_xielu){in, 0.8f, 1.3f, 0.5f};
    return in;
}

static double exact_xielu(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width, (void)pos;
    const double v = (double)x[i], line = 0.5 * v;
    return v > 0 ? line + (double)0.8f * v * v : line + (double)1.3f * (expm1(v) - v);
}

static double exact_scale(const float *x, size_t width, size_t i, size_t pos)
{
    (void)width, (void)pos;
    return (double)x[i] * (double)0.3f;
}

static struct ref build_add(struct trial *t, struct ref in, size_t width)
{
    struct ref a = ref_part(in, 0, width / 2), b = ref_part(in, width / 2, width / 2);
    trial_op(t, OP_ADD)->add = (struct op_add){a, b, a, 0.75f};
    return a;
}

static double exact_add(const float *x, size_t width, size_t i, size_t pos)
{
    (void)pos;
    return (double)x[i] + 0.75 * (double)x[i + width / 2];
}

static const struct row_case cases[] = {
    {"norm", build_norm, exact_norm, 1e-6},
    {"head_norm", build_head_norm, exact_head_norm, 1e-6},
    {"rope_neox", build_rope_neox, exact_rope_neox, 1e-6},
    {"rope_norm", build_rope_norm, exact_rope_norm, 1e-6},
    {"row_scale", build_row_scale, exact_row_scale, 2e-7},
    {"silu", build_silu, exact_silu, 1e-6},
    {"gelu", build_gelu, exact_gelu, 4e-6},
    {"add", build_add, exact_add, 4e-7},
    {"route", build_route, exact_route, 2e-6},
    {"clamped", build_clamped, exact_clamped, 2e-6},
    {"scale", build_scale, exact_scale, 2e-7},
    {"route_sigmoid", build_route_sigmoid, exact_route_sigmoid, 4e-6},
    {"group_norm", build_group_norm, exact_group_norm, 1e-6},
    {"sigmoid", build_sigmoid, exact_sigmoid, 1e-6},
    {"linear", build_linear, exact_linear, 2e-7},
    {"deal_evenly", build_deal_evenly, exact_deal_evenly, 0},
    {"row_gate", build_row_gate, exact_row_gate, 1e-6},
    {"route_softmax", build_route_softmax, exact_route_softmax, 4e-6},
    {"relu", build_relu, exact_relu, 2e-7},
    {"deal", build_deal, exact_deal, 0},
    {"join", build_join, exact_join, 0},
    {"repeat", build_repeat, exact_repeat, 0},
    {"route_each", build_route_each, exact_route_each, 4e-7},
    {"route_groups", build_route_groups, exact_route_groups, 4e-6},
    {"centre", build_centre, exact_centre, 1e-6},
    {"head_centre", build_head_centre, exact_head_centre, 1e-6},
    {"bias", build_bias, exact_bias, 1e-6},
    {"head_bias", build_head_bias, exact_head_bias, 1e-6},
    {"group_bias", build_group_bias, exact_group_bias, 1e-6},
    {"gelu_alone", build_gelu_alone, exact_gelu_alone, 4e-6},
    {"limit", build_limit, exact_limit, 0},
    {"size", build_size, exact_size, 4e-7},
    {"cut", build_cut, exact_cut, 1e-6},
    {"cut_below", build_cut_below, exact_cut_below, 1e-6},
    {"factors", build_factors, exact_factors, 2e-7},
    {"tanh_alone", build_tanh_alone, exact_tanh_alone, 4e-7},
    {"route_given", build_route_given, exact_route_given, 2e-6},
    {"xielu", build_xielu, exact_xielu, 4e-7},
    {"gate_runs", build_gate_runs, exact_gate_runs, 1e-6},
    {"gate_softplus", build_gate_softplus, exact_gate_softplus, 2e-6},
    {"softplus", build_softplus, exact_softplus, 2e-6},
    {"factors_bias", build_factors_bias, exact_factors_bias, 4e-7},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Rows of n from first on; returns the width of the result. */
static size_t run(struct backend *be, const struct row_case *c, const float *x, size_t width,
                  uint32_t first, uint32_t n, float *out)
{
    struct trial t;
    struct ref in = trial_begin(&t, be, x, N_ROWS, width);
    struct ref y = c->build(&t, in, width);
    trial_run(&t, y, first, n, NULL, out);
    return y.n;
}

static void check_accuracy(const struct row_case *c, const float *x, size_t width,
                           const float *y, size_t n_out)
{
    for (size_t r = 0; r < N_ROWS; r++) {
        for (size_t i = 0; i < n_out; i++) {
            double want = c->exact(x + r * width, width, i, r);
            double got = (double)y[r * n_out + i];
            if (!(fabs(got - want) <= c->bound * fmax(1, fabs(want))))
                fail_msg("%s of %zu: row %zu value %zu: %.9g, in double %.9g", c->name, width,
                         r, i, got, want);
        }
    }
}

static void one_width(const struct row_case *c, size_t width, enum spread spread,
                      XXH3_state_t *hash)
{
    static const uint32_t batches[] = {1, 2, 3, 7, 8, N_ROWS};
    float *x = mem_zalloc(N_ROWS * width, sizeof *x);
    float *want = mem_zalloc(N_ROWS * width, sizeof *want);
    float *got = mem_zalloc(N_ROWS * width, sizeof *got);
    random_floats(spread, x, N_ROWS * width);
    size_t n_out = run(machines[0].be, c, x, width, 0, N_ROWS, want);
    XXH3_64bits_update(hash, want, N_ROWS * n_out * sizeof *want);
    if (spread == NORMAL) check_accuracy(c, x, width, want, n_out);
    for (int m = 1; m < N_MACHINES; m++) {
        uint32_t first = 0;
        for (size_t b = 0; machines[m].be && b < sizeof batches / sizeof *batches; b++) {
            uint32_t n = batches[b];
            if (n == N_ROWS) first = 0;
            char what[96];
            snprintf(what, sizeof what, "%s of %zu, %u rows, %s", c->name, width, n,
                     backend_name(machines[m].be));
            run(machines[m].be, c, x, width, first, n, got);
            assert_same_bits(got, want + first * n_out, n * n_out, what);
            first += n;
        }
    }
    free(x);
    free(want);
    free(got);
}

static void all_cases(void **state)
{
    (void)state;
    static const size_t widths[] = {16, 24, 64, 72, 256, 1096};
    random_seed(5);
    random_floats(NORMAL, norm_weights, MAX_WIDTH);
    for (size_t i = 0; i < MAX_WIDTH; i++)
        frequencies[i] = 1.0 / (1.0 + (double)i * 0.37);
    for (size_t i = 0; i < N_CASES; i++) {
        XXH3_state_t *hash = XXH3_createState();
        XXH3_64bits_reset(hash);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (enum spread k = NORMAL; k < N_SPREADS; k++)
                one_width(&cases[i], widths[w], k, hash);
        char name[32];
        snprintf(name, sizeof name, "row_%s", cases[i].name);
        assert_hash(name, XXH3_64bits_digest(hash));
        XXH3_freeState(hash);
        say_compared(name);
        machines_close();
        machines_open();
    }
}

/* Norms of groups that devices take in many lanes or more than one tile. */
static void long_norms(void **state)
{
    (void)state;
    static const size_t widths[] = {258, 514, 1026, 3584, 3586, 7202};
    for (size_t i = 0; i < N_CASES; i++) {
        const bool is_norm =
            cases[i].build == build_norm || cases[i].build == build_head_norm ||
            cases[i].build == build_group_norm || cases[i].build == build_group_bias;
        if (!is_norm) continue;
        XXH3_state_t *hash = XXH3_createState();
        XXH3_64bits_reset(hash);
        random_seed(6);
        random_floats(NORMAL, norm_weights, LONG_WIDTH);
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            one_width(&cases[i], widths[w], w % 2 ? HUGE_VALUES : NORMAL, hash);
        char name[32];
        snprintf(name, sizeof name, "long_%s", cases[i].name);
        assert_hash(name, XXH3_64bits_digest(hash));
        XXH3_freeState(hash);
        say_compared(name);
    }
}

static float nan_of(int sign)
{
    uint32_t bits = sign < 0 ? 0xffc01234u : 0x7fc01234u;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* NaN and infinity are an error state: they come out as the one NaN, the same everywhere. */
static void broken_values(void **state)
{
    (void)state;
    float x[N_ROWS * 64], want[N_ROWS * 64], got[N_ROWS * 64];
    for (size_t i = 0; i < N_CASES; i++) {
        random_seed(i);
        random_floats(NORMAL, x, N_ROWS * 64);
        for (size_t r = 0; r < N_ROWS; r++) {
            float odd[] = {nan_of(1), nan_of(-1), INFINITY, -INFINITY};
            x[r * 64 + r % 64] = odd[r / 16];
        }
        size_t n = N_ROWS * run(machines[0].be, &cases[i], x, 64, 0, N_ROWS, want);
        for (size_t k = 0; k < n; k++) {
            uint32_t bits;
            memcpy(&bits, &want[k], sizeof bits);
            if (want[k] != want[k]) assert_int_equal(bits, 0x7fc00000);
        }
        for (int m = 1; m < N_MACHINES; m++) {
            if (!machines[m].be) continue;
            run(machines[m].be, &cases[i], x, 64, 0, N_ROWS, got);
            assert_same_bits(got, want, n, cases[i].name);
        }
    }
}

/* Equal scores go to the lower id, on every machine. */
static void route_ties(void **state)
{
    (void)state;
    float x[64] = {0}, y[8];
    for (size_t i = 0; i < 8; i++)
        for (size_t j = 0; j < 4; j++)
            x[32 + j * 8 + i] = (float)(j + 1);
    x[9] = 1;
    for (int m = 0; m < N_MACHINES; m++) {
        if (!machines[m].be) continue;
        struct trial t;
        struct ref in = trial_begin(&t, machines[m].be, x, 1, 64);
        struct ref route = trial_buffer(&t, ROW_ROUTE, 4), out = trial_buffer(&t, ROW_F32, 8);
        trial_op(&t, OP_ROUTE)->route = (struct op_route){.scores = ref_part(in, 0, 16),
                                                          .out = route,
                                                          .kind = ROUTE_SOFTMAX,
                                                          .renormalise = true,
                                                          .scale = 1};
        trial_op(&t, OP_COMBINE)->combine =
            (struct op_combine){ref_part(in, 32, 32), route, out};
        trial_run(&t, out, 0, 1, NULL, y);
        double e = exp(1.0), want = (1 * e + 2 + 3 + 4) / (e + 3);
        assert_true(fabs((double)y[0] - want) < 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cases),
        cmocka_unit_test(long_norms),
        cmocka_unit_test(broken_values),
        cmocka_unit_test(route_ties),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
