/* The shape of every op: what a model's program is made of.
 *
 * A program is a list of ops over named row buffers, built once when a model is opened and then
 * immutable. It says nothing of devices, threads or the number of rows: those arrive with each
 * step (backend.h). What an op means to the last bit is stated in hearth-numerics(7) and by the
 * scalar reference in src/cpu; here stand its operands and shapes. The program is owned by the
 * model; weights are owned by the backend that bound them. */
#ifndef BACKEND_OPS_H
#define BACKEND_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weight; /* a bound matrix or vector; backend.h */

enum { PAGE_LEN = 64 };    /* positions per page of the KV cache */
enum { KEY_GROUP = 16 };   /* whose keys lie together in a page */
enum { STRIPE_LEN = 256 }; /* values summed in order before stripes are folded */

/* How many pages the first n positions take. */
static inline size_t pages_for(size_t n)
{
    return (n + PAGE_LEN - 1) / PAGE_LEN;
}

/* What one row of a buffer holds. */
enum row_kind {
    ROW_F32,   /* width floats */
    ROW_A8,    /* width int8 codes, one f32 scale per 32, one integer sum per 16 */
    ROW_ROUTE, /* width pairs of expert id and f32 weight, by rank */
};

struct row_buffer {
    const char *name; /* static, for messages and inspection */
    enum row_kind kind;
    size_t width; /* values per row; a multiple of 32 for ROW_A8 */
};

/* n consecutive values of each row of a buffer, from the at-th on. */
struct ref {
    uint32_t buf; /* index into program.buffers */
    size_t at, n;
};

enum op_kind {
    OP_EMBED,    /* out = scale · row[token] of a matrix, or row[position] */
    OP_CENTRE,   /* takes its mean from a row or groups: LayerNorm is this and the next */
    OP_SIZE,     /* gives the root mean square of a row */
    OP_CUT,      /* leaves of a row what is above its size times a number */
    OP_NORM,     /* RMS norm of groups of a row, times a vector, plus a vector */
    OP_QUANTISE, /* f32 row -> A8 row */
    OP_MATMUL, /* out[i] = factor · W[i]·in + bias[i], for up to three matrices on one input */
    OP_ROPE,   /* rotates heads in place by the row's position */
    OP_ROW_SCALE,      /* multiplies a row by a function of its position */
    OP_SCALE,          /* multiplies a row by a number */
    OP_FACTORS,        /* multiplies a row by a vector, and may add another */
    OP_LIMIT,          /* keeps the values of a row within two bounds */
    OP_KV_STORE,       /* puts the row's keys and values into its page */
    OP_ATTEND,         /* attention of the row over its visible pages */
    OP_GLU,            /* out = act(gate) · up */
    OP_XIELU,          /* a curve above 0, another below */
    OP_ADD,            /* out = a + scale · b */
    OP_ROUTE,          /* expert scores -> ranked experts and their weights */
    OP_MATMUL_EXPERTS, /* one product per chosen expert */
    OP_COMBINE,        /* out = sum over ranks of weight · expert output */
    OP_CONV,           /* causal convolution over the rows before, channel by channel */
    OP_DECAY,          /* what a recurrent layer keeps of its state, and how much it adds */
    OP_RECUR,          /* advances a matrix per head by the row and reads it */
    OP_RUNS,           /* deals a row out to two others, run by run, or joins them */
    OP_ROW_GATE,       /* multiplies runs of a row by a function of one value each */
    OP_HEAD_ROWS,      /* from here on only the rows whose logits are wanted remain */
    OP_LOGITS,         /* delivers a row buffer as the step's logits: scale, then softcap */
    OP_INPUT,          /* takes part of the row from another program */
    OP_OUTPUT,         /* leaves part of the row for another program */
};

/* OP_HEAD_ROWS occurs once, in the last layer that stores K and V or advances states, once that
 * is done: the ops after it run for the last n_logits rows of the step only (rows keep their
 * index and position), and not at all if n_logits is 0. The buffer that OP_LOGITS reads has the
 * width of the vocabulary and is written and read only after OP_HEAD_ROWS, so a backend lets it
 * live in step.logits and needs no scratch for it; OP_LOGITS is the last op.
 *
 * A program may also be one of two that were cut apart (cut.h): the front ends with OP_OUTPUT
 * and has neither head nor logits, the back begins with OP_INPUT. A backend that is never in
 * front need not have OP_OUTPUT.
 *
 * OP_CONV and OP_RECUR read and replace parts of the recurrent state (struct state_part), each
 * part belonging to one op. */

struct op_embed {
    const struct weight *table; /* [n_vocab][out.n]; by_pos [any][out.n] */
    struct ref out;
    float scale; /* 1: none */
    bool by_pos; /* it is the row of the position, not of the token; a step beyond fails */
};

/* Each group of `group` values is normalised on its own (group == in.n: the whole row; the head
 * size: per head) and multiplied by w, or by nothing if w is NULL; then bias is added, if there
 * is one, as long as w. out may be in. */
struct op_norm {
    struct ref in, out;
    const struct weight *w; /* vector of `group` values, for each group, or of in.n; or NULL */
    size_t group;
    float eps;
    const struct weight *bias; /* or NULL; not without w */
};

/* Of each group of `group` values the mean is taken from these. */
struct op_centre {
    struct ref in, out; /* same n; out may be in */
    size_t group;
};

/* The size of a row: the root of the mean of its squares. */
struct op_size {
    struct ref in, out; /* out.n = 1 */
};

/* out = in - factor · size where that is above 0, else 0. */
struct op_cut {
    struct ref in, out; /* same n; out may be in */
    float factor;
};

struct op_quantise {
    struct ref in;  /* ROW_F32 */
    struct ref out; /* ROW_A8, same n */
};

/* Quantised matrices read in_a8; F32, F16 and BF16 ones read in_f32. The one that no matrix
 * needs has n == 0. All matrices of one op have the same number of columns. */
struct op_matmul {
    struct ref in_f32, in_a8;
    uint32_t n_mats; /* 1..3 */
    struct {
        const struct weight *w;      /* [out.n][in.n] */
        const struct weight *factor; /* vector of 1, of quantised matrices only; NULL: none */
        const struct weight *bias;   /* vector of out.n, or NULL */
        struct ref out;
    } mat[3];
};

enum rope_pairs {
    ROPE_NORM, /* dims 2i and 2i+1 */
    ROPE_NEOX, /* dims i and i + n_rot/2 */
};

struct op_rope {
    struct ref x; /* in place: x.n / head_dim heads */
    size_t head_dim;
    uint32_t rope; /* index into program.ropes */
};

struct op_row_scale {
    struct ref x;   /* in place */
    uint32_t scale; /* index into program.row_scales */
};

struct op_scale {
    struct ref x; /* in place */
    float factor;
};

struct op_factors {
    struct ref in, out;        /* same n; out may be in */
    const struct weight *w;    /* vector of in.n */
    const struct weight *bias; /* as long, added behind; or NULL */
};

struct op_limit {
    struct ref x; /* in place */
    float limit;  /* positive: values go from -limit to limit */
};

struct op_kv_store {
    struct ref k, v; /* n_heads · head_dim_k and · head_dim_v of the kv layer */
    uint32_t kv;     /* index into program.kv */
};

/* In a window: positions lie in chunks of so many, and a row sees what is of its own chunk. */
enum { WINDOW_CHUNKS = 1 << 30 };

/* Keys that a row sees at most. */
static inline uint32_t window_len(uint32_t window)
{
    return window & ~(uint32_t)WINDOW_CHUNKS;
}

/* Query head h reads KV head h / (n_heads / kv.n_heads). */
struct op_attend {
    struct ref q, out; /* n_heads · head_dim_k; n_heads · head_dim_v */
    uint32_t kv;
    uint32_t n_heads;
    float scale;   /* of the scores */
    float softcap; /* 0: none */
    /* Visible keys, the row's own included, or with WINDOW_CHUNKS the length of a chunk; 0: all
     * up to the row. */
    uint32_t window;
    const struct weight *sinks; /* vector of n_heads, or NULL */
    /* ALiBi: a key's score is less by a head's slope for each position between it and the row.
     * Of heads from 0 on the first n (attend_even_heads) have 2^(-step (h + 1)), the others
     * 2^(-step (h - n + 1/2)). Times n it is 32 at most; 0: there are no slopes. */
    float slope_step;
};

/* The largest power of two that there are heads. */
static inline uint32_t attend_even_heads(uint32_t n_heads)
{
    uint32_t n = 1;
    while (n <= n_heads / 2)
        n *= 2;
    return n;
}

enum glu_kind {
    GLU_SILU,
    GLU_GELU,
    GLU_SIGMOID,
    GLU_LINEAR,     /* the gate as it is */
    GLU_RELU,       /* the gate where it is above 0; with up for a gate its square */
    GLU_CLAMPED,    /* both within 7, sigmoid of 1.702 gate, up + 1 */
    GLU_GELU_ALONE, /* the GELU of the gate, whatever up is: what has no gate of its own */
    GLU_TANH_ALONE, /* its tanh */
    GLU_SOFTPLUS,
};

struct op_glu {
    struct ref gate, up, out; /* same n; out may be gate or up */
    enum glu_kind kind;
};

/* slope · x + square · x² above 0, slope · x + bend · (e^x - 1 - x) below. */
struct op_xielu {
    struct ref x;              /* in place */
    float square, bend, slope; /* the first two 0 or at least 2^-20 */
};

struct op_add {
    struct ref a, b, out; /* same n; out may be a or b */
    float scale;          /* of b; 1: none */
};

enum route_kind {
    ROUTE_SOFTMAX, /* softmax over all experts; renormalised: over the chosen ones */
    ROUTE_SIGMOID, /* sigmoid of each */
    ROUTE_EACH,    /* all of them by number, each counts by 1; no scores are read */
    ROUTE_GIVEN,   /* all of them by number, each counts by its score */
};

enum { MAX_ROUTE_GROUPS = 64 };

/* With groups, equal runs of experts, only those of the n_groups_used best are chosen: a group
 * counts by the sum of what its two best are chosen by. ROUTE_SIGMOID. */
struct op_route {
    struct ref scores; /* the router's n_expert products; any values afterwards; EACH: n 0 */
    struct ref out;    /* ROW_ROUTE, n = experts used */
    enum route_kind kind;
    bool renormalise;
    uint32_t n_groups, n_groups_used; /* 0: experts are in none */
    float scale;                      /* of the weights; 1: none */
    const struct weight *select; /* vector of n_expert, added for the choice only; NULL: none */
    const struct weight *scales; /* vector of n_expert, one more factor of the weights; NULL */
};

/* One product per rank of the route. If split, rank j reads the j-th of route.n equal parts of
 * the input, otherwise all of it; it writes the j-th of route.n equal parts of out. Where an
 * expert has several matrices after each other (gate and up), w has n_parts for each, of which
 * this op takes the part-th. */
struct op_matmul_experts {
    struct ref in_f32, in_a8, route;
    const struct weight *w; /* [n_expert · n_parts][out.n / route.n][columns] */
    struct ref out;
    bool split;
    uint32_t n_parts, part; /* 1 and 0: one matrix per expert */
    /* So many experts in a row have one matrix, factor and bias together, of which there are as
     * many fewer; 0 or 1: each has its own. */
    uint32_t n_share;
    /* Vector of n_expert, of quantised matrices only; NULL: none. As op_matmul's factor. */
    const struct weight *factors;
    const struct weight *bias; /* vector of n_expert · out.n / route.n, or NULL */
};

/* Experts in a row that have one matrix together. */
static inline uint32_t experts_n_share(const struct op_matmul_experts *o)
{
    return o->n_share ? o->n_share : 1;
}

struct op_combine {
    struct ref in; /* route.n · out.n */
    struct ref route, out;
};

/* out = act(sum over taps j of w[j] · (row - (n_taps-1) + j) + bias), channel by channel; rows
 * before the step's first are in the state, [n_taps-1][in.n], the oldest first. */
struct op_conv {
    struct ref in, out;        /* same n, apart */
    const struct weight *w;    /* vector of n_taps · in.n: [n_taps][in.n], the oldest first */
    const struct weight *bias; /* vector of in.n, or NULL */
    uint32_t n_taps;           /* at least 2 */
    bool silu;                 /* act; otherwise none */
    uint32_t state;            /* index into program.states */
};

/* Per head h: dt = softplus(in + bias); decay exp(dt · a). The step, by which what is new
 * counts, is dt, or if there are betas, sigmoid(beta). With betas, in holds runs of `run`
 * betas, then the dt of as many heads; without, dt of all heads. A head may have several dt and
 * decays, one behind the other, all with its one a; then there are betas.
 *
 * By exponentials dt is exp(in + bias) in the place of the softplus. With a bound the decay is
 * exp(bound · sigmoid((in + bias) · |a|)), so that no state is kept
 * by less than exp(bound); steps are what they are without one. Without an input decays are of
 * the heads alone: dt is 1. */
struct op_decay {
    struct ref in;             /* n_heads · n_each, and n_heads more with betas; n 0: none */
    struct ref out;            /* n_heads · n_each decays, then n_heads steps */
    const struct weight *bias; /* vector of n_heads · n_each; NULL without an input */
    const struct weight *a;    /* vector of n_heads */
    float bound;               /* below 0; 0: none */
    bool betas;
    bool by_exp;     /* not with betas or a bound, or without an input */
    uint32_t run;    /* divides n_heads; unused without betas */
    uint32_t n_each; /* decays of a head; 0: one */
};

static inline size_t decay_n_each(const struct op_decay *o)
{
    return o->n_each ? o->n_each : 1;
}

static inline size_t decay_n_heads(const struct op_decay *o)
{
    return o->out.n / (decay_n_each(o) + 1);
}

/* A state S[n_dim][n_width] of each head h advances by every row: with q and k of its group,
 * v, decay and step of its own,
 *
 *   d = step · (v - decay · k S)   if delta (gated delta net)
 *   d = step · v                   otherwise (Mamba-2: k is B, q is C)
 *   S = decay · S + k d
 *   out = q S + skip · v
 *
 * With a decay for each dim (Kimi delta attention) row i of S has its own, and d takes k S with
 * S as they leave it:
 *
 *   d = step · (v - (k · decay) S)
 *
 * With an a for each value of S (Mamba-1), which then has a decay of its own, and each column a
 * step, both by what gates have for the column:
 *
 *   step = softplus(gate)
 *   decay = exp(step · a)
 *
 * With an erasure (RWKV-7), which is by dims, too, what S holds for one vector, e, is taken out
 * of it along another, f; nothing has a step, and gates have the decays of all heads, then
 * their e, then their f:
 *
 *   S = decay · S + k v - f (e S)
 */
struct op_recur {
    struct ref q, k;   /* n_groups · n_dim */
    struct ref v, out; /* n_heads · n_width, apart */
    /* Of OP_DECAY: decays of all heads, n_heads steps; with a, n_heads · n_width; with an
     * erasure 3 · n_heads · n_dim. */
    struct ref gates;
    const struct weight *skip; /* vector of n_heads, or NULL; not with a */
    const struct weight *a;    /* vector that lies as the state does, or NULL; not with delta */
    uint32_t n_heads, n_groups, n_dim, n_width;
    bool delta;
    bool by_dim;    /* a head has n_dim decays */
    bool erase;     /* not with delta, skip or a */
    bool tiled;     /* head h is of group h % n_groups; otherwise h / (n_heads / n_groups) */
    uint32_t state; /* index into program.states: [n_heads][n_dim][n_width] */
};

/* all is turns of run_a and run_b values, those of a and b, which lie after each other there.
 * They are dealt out, or if join, put together; an a of a single run then is in every turn. */
struct op_runs {
    struct ref all, a, b; /* apart from each other */
    size_t run_a, run_b;
    bool join;
};

static inline size_t runs_turns(const struct op_runs *o)
{
    return o->all.n / (o->run_a + o->run_b);
}

static inline bool runs_repeat(const struct op_runs *o)
{
    return o->join && o->a.n == o->run_a && runs_turns(o) > 1;
}

/* x = x · sigmoid(gate): each of gate.n equal runs of x has a gate of its own. */
struct op_row_gate {
    struct ref x;    /* in place */
    struct ref gate; /* gate.n divides x.n */
    bool softplus;   /* in the place of the sigmoid */
};

struct op_logits {
    struct ref in;
    float scale;   /* 1: none */
    float softcap; /* 0: none */
};

/* Values at.. of the row that two programs have in common (step.input, step.output): copies of
 * floats. */
struct op_input {
    struct ref out;
    size_t at;
};

struct op_output {
    struct ref in;
    size_t at;
};

struct op {
    enum op_kind kind;
    int layer; /* for messages and inspection; -1 outside the layers */
    union {
        struct op_embed embed;
        struct op_centre centre;
        struct op_size size;
        struct op_cut cut;
        struct op_norm norm;
        struct op_quantise quantise;
        struct op_matmul matmul;
        struct op_rope rope;
        struct op_row_scale row_scale;
        struct op_scale scale;
        struct op_factors factors;
        struct op_limit limit;
        struct op_kv_store kv_store;
        struct op_attend attend;
        struct op_glu glu;
        struct op_xielu xielu;
        struct op_add add;
        struct op_route route;
        struct op_matmul_experts experts;
        struct op_combine combine;
        struct op_conv conv;
        struct op_decay decay;
        struct op_recur recur;
        struct op_runs runs;
        struct op_row_gate row_gate;
        struct op_logits logits;
        struct op_input input;
        struct op_output output;
    };
};

enum kv_type { KV_F32, KV_F16, KV_Q8_0, KV_Q4_0 };

/* A page holds PAGE_LEN positions of all layers, in two parts of memory: layers that see
 * everything before them, and layers that see a window only, whose part of older pages may be
 * gone. */
enum page_part { PAGE_FULL, PAGE_WINDOW, PAGE_PARTS };

/* How K and V of one layer lie in their part of a page: head by head from `at` on, bytes from
 * the start of the part and a multiple of 64, each with the following parts in this order
 * (kv_head_at in kv.h). What heads have lies side by side, for memory gives long runs faster:
 * with keys of all heads in front of their values 26 GB/s of q8_0 could be read where 33 are
 * from end to end, so 31 (Zen 4, 2 threads with 4 heads of 128 dims each, 2026-11). A lane is
 * a key. Keys lie in groups of as many as a vector of AVX-512 has lanes: one that is appended
 * writes to half as many lines of f16 as where all of a page lie side by side, and of a page
 * that has begun only groups need be read that have keys. One row side by side and so, ms: 8.10
 * and 7.88, while memory was slow 12.33 and 12.15 (Q4_0 of the 0.6B shape, 2 threads, Zen 4,
 * 2026-11).
 *
 *   f32, f16  keys   [PAGE_LEN/KEY_GROUP][head_dim_k][KEY_GROUP]
 *             values [PAGE_LEN][head_dim_v]
 *   q8_0      keys   int8 [PAGE_LEN/KEY_GROUP][head_dim_k/4][KEY_GROUP][4]
 *                    scales [PAGE_LEN]
 *             values int8 [PAGE_LEN][head_dim_v]
 *                    scales [PAGE_LEN]
 *   q4_0      two codes + 8 in a byte, and a scale per 32 dims:
 *             keys   [PAGE_LEN/KEY_GROUP][head_dim_k/8][KEY_GROUP][4]: dims 8i..8i+3 low,
 *                    8i+4..8i+7 high
 *                    scales [head_dim_k/32][PAGE_LEN]
 *             values [PAGE_LEN][head_dim_v/32][16]: the first half of 32 dims low
 *                    scales [head_dim_v/32][PAGE_LEN]
 *
 * A scale is the upper half of an f32 (bfloat16): codes are found with the rounded scale, so
 * its eight bits cost no accuracy, and its range is that of the values, unlike that of f16. */
struct kv_layer {
    enum kv_type type;
    uint32_t n_heads;
    size_t head_dim_k, head_dim_v;
    size_t at;
    enum page_part part; /* PAGE_WINDOW: all that read it have windows */
    /* Pages that a backend has side by side, in its own copy of a program: what the first has
     * of a head, what the second has of it, and so on. 0: each page for itself, as `at` says.
     */
    size_t n_beside;
};

/* The rotation of a position: pair i turns by pos · freq[i]; cos and sin are both multiplied by
 * mscale. freq already contains base, scaling and factors. */
struct rope {
    enum rope_pairs pairs;
    size_t n_rot;       /* rotated dims of each head; the rest pass through */
    const double *freq; /* [n_rot/2] radians per position */
    double mscale;
};

/* A row's factor is 1 + log_scale · ln(1 + floor((pos + ahead) / period)). */
struct row_scale {
    double log_scale;
    uint32_t period, ahead;
};

/* A part of the recurrent state: n floats at this many bytes from its beginning, a multiple of
 * 64. The state after a number of tokens is one object per sequence (backend.h), f32 for every
 * KV type; before the first token it is zeros. */
struct state_part {
    size_t at, n;
};

struct program {
    size_t n_buffers, n_ops, n_kv, n_ropes, n_row_scales, n_states;
    const struct row_buffer *buffers;
    const struct op *ops;
    const struct kv_layer *kv;
    const struct rope *ropes;
    const struct row_scale *row_scales;
    const struct state_part *states;
    size_t page_bytes[PAGE_PARTS]; /* of one page, all layers */
    size_t page_unit[PAGE_PARTS];  /* what every head has of it, or 0: kv_page_unit in kv.h */
    uint32_t window;    /* rows that layers of PAGE_WINDOW see at most; 0: there are none */
    size_t state_bytes; /* of one state, all layers; 0: the model is not recurrent */
    size_t n_vocab;     /* width of the logits */
    size_t n_input;     /* floats of a row that OP_INPUT takes from; 0: there is none */
    size_t n_output;    /* the same of OP_OUTPUT */
};

#endif
