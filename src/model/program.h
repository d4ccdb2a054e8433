/* Building a program: families say what a layer does, the builder turns it into ops.
 *
 * A builder owns the lists it grows (buffers, ops, KV layers, ropes) until build_finish hands
 * them to the model. Each build_* appends one op, or the few that belong together: a product
 * puts OP_QUANTISE before itself only if one of its matrices is quantised and its input has not
 * been quantised since it was written. Errors of the file stick in weights (weights.h), so a
 * family's code runs through and is judged at the end. One thread, at open. */
#ifndef MODEL_PROGRAM_H
#define MODEL_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"
#include "base/err.h"
#include "model/hparams.h"
#include "model/weights.h"

/* The A8 copy of a row range and whether it is up to date. */
struct a8_copy {
    struct ref of, a8;
    bool fresh;
};

struct builder {
    const struct hparams *hp;
    struct weights *ws;
    enum kv_type kv_type;
    int layer;      /* ops are marked with it; -1 outside the layers */
    bool head_rows; /* OP_HEAD_ROWS has been emitted */

    struct row_buffer *buffers;
    struct op *ops;
    struct kv_layer *kv;
    struct rope *ropes;
    struct row_scale *row_scales;
    struct state_part *states;
    struct a8_copy *copies;
    size_t n_buffers, n_ops, n_kv, n_ropes, n_row_scales, n_states, n_copies;
    size_t cap_buffers, cap_ops, cap_kv, cap_ropes, cap_row_scales, cap_states, cap_copies;
    size_t page_bytes[PAGE_PARTS], state_bytes;
    uint32_t window; /* as program.window */
};

struct linear {
    const struct weight *w;      /* [out.n][in.n] */
    const struct weight *factor; /* NULL: none */
    const struct weight *bias;   /* NULL: none */
    struct ref out;
};

void build_init(struct builder *b, const struct hparams *hp, struct weights *ws,
                enum kv_type kv_type);
/* Moves what was built into *p (free with program_free) and empties b. */
void build_finish(struct builder *b, struct program *p);
void build_free(struct builder *b);
void program_free(struct program *p);

/* Width values of the buffer of floats of that name (static), which is made at its first
 * mention and as wide as the widest: whoever mentions it again writes over what it had. */
struct ref build_rows(struct builder *b, const char *name, size_t width);
/* n values of r, from the at-th on. */
struct ref ref_part(struct ref r, size_t at, size_t n);

void build_embed(struct builder *b, const struct weight *table, float scale, struct ref out);
/* The same by the row's position, unscaled. */
void build_places(struct builder *b, const struct weight *table, struct ref out);
/* group 0: the whole row. */
void build_centre(struct builder *b, struct ref in, size_t group, struct ref out);
/* The size of a row into one value; what of a row is above its size times a number. */
void build_size(struct builder *b, struct ref in, struct ref out);
void build_cut(struct builder *b, struct ref in, float factor, struct ref out);
/* w NULL: no factors. group 0: the whole row. */
void build_norm(struct builder *b, struct ref in, const struct weight *w, size_t group,
                struct ref out);
/* The same of a whole row that a block gives: by hparams.post_norm_eps. */
void build_post_norm(struct builder *b, struct ref in, const struct weight *w, struct ref out);
/* The norm of a whole row that the family has; its factors are the tensor of that name,
 * "<stem>.weight", and its biases, where it has some, "<stem>.bias". out may be in. */
void build_row_norm(struct builder *b, struct ref in, const char *name, struct ref out);
/* Any other norm. */
void build_norm_by(struct builder *b, const struct op_norm *norm);
/* Each row becomes the vector w, whatever in has, which was written before. */
void build_fill(struct builder *b, struct ref in, const struct weight *w, struct ref out);
/* Groups get a size of 1; those of zeros stay. */
void build_unit(struct builder *b, struct ref x, size_t group);
/* The L2 norm of groups, times scale: x / sqrt(sum of squares + eps). */
void build_l2_norm(struct builder *b, struct ref x, size_t group, float scale);
/* n_mats products (1..3) on one input. */
void build_matmul(struct builder *b, struct ref in, const struct linear *mats, uint32_t n_mats);
void build_rope(struct builder *b, struct ref x, size_t head_dim, uint32_t rope);
void build_row_scale(struct builder *b, struct ref x, uint32_t scale);
/* In place; by 1 it is no op. */
void build_scale(struct builder *b, struct ref x, float factor);
/* bias NULL: none. */
void build_factors(struct builder *b, struct ref in, const struct weight *w,
                   const struct weight *bias, struct ref out);
/* In place; limit 0: none, and no op. */
void build_limit(struct builder *b, struct ref x, float limit);
void build_kv_store(struct builder *b, struct ref k, struct ref v, uint32_t kv);
void build_attend(struct builder *b, const struct op_attend *attend);
void build_glu(struct builder *b, struct ref gate, struct ref up, enum glu_kind kind,
               struct ref out);
void build_xielu(struct builder *b, struct ref x, float square, float bend, float slope);
void build_add(struct builder *b, struct ref a, struct ref addend, float scale, struct ref out);
void build_route(struct builder *b, const struct op_route *route);
/* As op_matmul_experts, whose inputs are set here; in is ROW_F32. */
void build_experts(struct builder *b, struct ref in, const struct op_matmul_experts *experts);
void build_combine(struct builder *b, struct ref in, struct ref route, struct ref out);
/* state, the part that it keeps, is added here. */
void build_conv(struct builder *b, const struct op_conv *conv);
void build_decay(struct builder *b, const struct op_decay *decay);
/* Likewise. */
void build_recur(struct builder *b, const struct op_recur *recur);
/* Deals all out to a and b, or joins these, in turns of run_a and run_b values; as op_runs. */
void build_deal(struct builder *b, struct ref all, size_t run_a, size_t run_b, struct ref to_a,
                struct ref to_b);
void build_join(struct builder *b, struct ref from_a, size_t run_a, struct ref from_b,
                size_t run_b, struct ref all);
/* kind: GLU_SIGMOID or GLU_SOFTPLUS. */
void build_row_gate(struct builder *b, struct ref x, struct ref gate, enum glu_kind kind);
void build_head_rows(struct builder *b);
void build_logits(struct builder *b, struct ref in, float scale, float softcap);

/* The same of pairs by rank. */
struct ref build_route_rows(struct builder *b, const char *name, size_t n);
/* Places K and V of one more layer in the page, for rows that see `window` of them (0: all);
 * its index. */
uint32_t build_kv(struct builder *b, uint32_t n_heads, size_t head_dim_k, size_t head_dim_v,
                  uint32_t window);
/* The index of a rope equal to this one, added if there is none; freq is then owned by b, and
 * freed here otherwise. */
uint32_t build_rope_table(struct builder *b, enum rope_pairs pairs, size_t n_rot, double *freq,
                          double mscale);
uint32_t build_row_scale_table(struct builder *b, double log_scale, uint32_t period,
                               uint32_t ahead);

/* Whether a program keeps every rule of ops.h: refs within their buffers and of the right kind,
 * dimensions that agree with the weights and each other, nothing read before it was written,
 * pages without overlap, OP_HEAD_ROWS and OP_LOGITS where they belong. err says what is wrong
 * with which op. */
bool program_check(const struct program *p, struct err *err);
/* "row scale": static. */
const char *op_kind_name(enum op_kind kind);

#endif
