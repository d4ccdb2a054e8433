/* Building one dispatch of a plan: what plan.c and its parts share.
 *
 * dispatch_begin names the op and the shader, the calls after it add specialisation constants,
 * push constants and bindings in the order in which the shader has them, and dispatch_end adds
 * it to the plan of the exec. It knows buffers, not what an op means. Nobody else includes it.
 */
#ifndef VULKAN_DISPATCH_H
#define VULKAN_DISPATCH_H

#include "vulkan/impl.h"

/* Invocations of a work group: of values, of rows of a tile of weights. */
enum { LOCAL = 64, TILE = 32 };

/* The kind of pointwise.comp that copies; the others are named in plan.c. */
enum { POINTWISE_COPY = 11 };

/* Resources beside the row buffers, which have the bits below. */
enum { BIT_STATE = 59, BIT_PARTS, BIT_Q8, BIT_PAGES, BIT_LOGITS };

struct dispatch_build {
    struct vulkan_exec *x;
    const struct op *op;
    int part;
    struct vulkan_dispatch d;
    struct vulkan_binding bindings[VULKAN_BINDINGS];
    size_t n_bindings;
    VkDescriptorSet set; /* of a dispatch that binds the same; none: one is made */
};

/* The step is binding 0, the part the first push constant. */
struct dispatch_build dispatch_begin(struct vulkan_exec *x, const struct op *op, int part,
                                     enum vulkan_shader shader, uint32_t local);
void dispatch_constant(struct dispatch_build *b, uint32_t value);
void dispatch_push(struct dispatch_build *b, size_t value);
void dispatch_push_float(struct dispatch_build *b, float value);
/* Floats, texels or words from row to row, and where the rows begin. */
void dispatch_push_place(struct dispatch_build *b, const struct ref *ref);
void dispatch_bind(struct dispatch_build *b, uint32_t at, const struct vulkan_region *region,
                   VkBufferView view);
void dispatch_reads(struct dispatch_build *b, uint32_t at, const struct ref *ref);
void dispatch_writes(struct dispatch_build *b, uint32_t at, const struct ref *ref);
/* Where a vector lies. */
const struct vulkan_region *dispatch_region(const struct weight *w);
/* A vector; NULL: something in its place, to be read. */
void dispatch_vector(struct dispatch_build *b, uint32_t at, const struct weight *w);
/* Something in the place of a result that the shader does not make here. */
void dispatch_no_result(struct dispatch_build *b, uint32_t at);
bool dispatch_end(struct dispatch_build *b, struct vulkan_grid grid, struct err *err);
/* n invocations for every row. */
bool dispatch_end_rows(struct dispatch_build *b, size_t n, size_t local, struct err *err);

uint32_t dispatch_groups(size_t n, size_t local);
/* The second, if the device multiplies packed bytes fast. */
enum vulkan_shader dispatch_packed_or(const struct vulkan_exec *x, enum vulkan_shader shader,
                                      enum vulkan_shader packed);

/* Grows a region to what it covers together with another of the same buffer; false: they are of
 * two, or apart by more than most bytes. A region of no bytes covers nothing yet. */
bool dispatch_cover(struct vulkan_region *all, const struct vulkan_region *r, size_t most);

static inline bool dispatch_is_float(enum qtype type)
{
    return qtype_info(type)->block_len == 1;
}

/* Texels of n values of A8. */
static inline size_t dispatch_a8_texels(const struct vulkan_exec *x, size_t n)
{
    return n / 32 * vulkan_a8_texels(vulkan_of(x)->vk);
}

/* Lanes that make a block of A8: eight read what lies side by side and wait for it once; where
 * lanes are emulated, what they tell each other costs more than that. */
static inline uint32_t dispatch_block_lanes(const struct vulkan_exec *x)
{
    return vulkan_of(x)->vk->is_wide ? 8 : 1;
}

static inline bool dispatch_same_place(const struct ref *a, const struct ref *b)
{
    return a->buf == b->buf && a->at == b->at && a->n == b->n;
}

/* The op that follows in the same layer; NULL: none does. */
static inline const struct op *dispatch_next_of(const struct vulkan_exec *x,
                                                const struct op *op)
{
    const struct op *next = op + 1;
    return next < x->p->ops + x->p->n_ops && next->layer == op->layer ? next : NULL;
}

/* The op behind one that quantises its result; NULL: there is none. */
const struct op_quantise *dispatch_codes_after(const struct vulkan_exec *x, const struct op *op,
                                               const struct ref *out);

/* ---- ops planned elsewhere than in plan.c ---- */

bool vulkan_plan_matmul(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
bool vulkan_plan_experts(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
/* The op after a product that is the sum of its result and another row; the product makes it as
 * well, in the same dispatch. NULL: there is none. */
const struct op_add *vulkan_plan_sum_of(const struct vulkan_exec *x, const struct op *op);

bool vulkan_plan_kv_store(struct vulkan_exec *x, const struct op *op, int part,
                          struct err *err);
bool vulkan_plan_attend(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
/* The op behind an attention that its last dispatch makes, too. NULL: there is none. */
const struct op_quantise *vulkan_plan_attend_codes(const struct vulkan_exec *x,
                                                   const struct op *op);
/* Pages that one row of an attention may see at once: it leaves partial results of as many. */
size_t vulkan_plan_ring(const struct vulkan_exec *x, const struct op_attend *a);
bool vulkan_plan_conv(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
bool vulkan_plan_decay(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
bool vulkan_plan_recur(struct vulkan_exec *x, const struct op *op, int part, struct err *err);
/* The dispatches by which the states of an op advance over the rows of its trail. */
bool vulkan_plan_advance(struct vulkan_exec *x, const struct op *op, struct err *err);

#endif
