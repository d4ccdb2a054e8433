#include "vulkan/dispatch.h"

#include <assert.h>

#include "base/mem.h"
#include "base/numeric_c.h"

uint32_t dispatch_groups(size_t n, size_t local)
{
    return (uint32_t)((n + local - 1) / local);
}

struct dispatch_build dispatch_begin(struct vulkan_exec *x, const struct op *op, int part,
                                     enum vulkan_shader shader, uint32_t local)
{
    struct dispatch_build b = {.x = x, .op = op, .part = part};
    b.d.variant = (struct vulkan_variant){.shader = shader, 1, {local}};
    b.d.part = part;
    b.d.layer = op->layer;
    b.d.op = (size_t)(op - x->p->ops);
    b.bindings[0].region = x->step;
    b.n_bindings = 1;
    b.d.push[b.d.n_push++] = (uint32_t)part;
    return b;
}

void dispatch_constant(struct dispatch_build *b, uint32_t value)
{
    assert(b->d.variant.n_constants < VULKAN_MAX_CONSTANTS);
    b->d.variant.constants[b->d.variant.n_constants++] = value;
}

void dispatch_push(struct dispatch_build *b, size_t value)
{
    assert(b->d.n_push < VULKAN_PUSH_BYTES / 4 && value <= UINT32_MAX);
    b->d.push[b->d.n_push++] = (uint32_t)value;
}

void dispatch_push_float(struct dispatch_build *b, float value)
{
    dispatch_push(b, num_bits(value));
}

void dispatch_bind(struct dispatch_build *b, uint32_t at, const struct vulkan_region *region,
                   VkBufferView view)
{
    b->bindings[b->n_bindings++] = (struct vulkan_binding){at, *region, view};
}

/* The rows of a buffer; the logits have a place of their own. */
static const struct vulkan_rows *rows_of(const struct dispatch_build *b, uint32_t buf)
{
    return &b->x->rows[buf];
}

void dispatch_reads(struct dispatch_build *b, uint32_t at, const struct ref *ref)
{
    const struct vulkan_rows *r = rows_of(b, ref->buf);
    dispatch_bind(b, at, &r->region, r->view);
    b->d.reads |= 1ull << ref->buf;
}

void dispatch_writes(struct dispatch_build *b, uint32_t at, const struct ref *ref)
{
    const struct vulkan_rows *r = rows_of(b, ref->buf);
    dispatch_bind(b, at, &r->region, r->view);
    b->d.writes |= 1ull << ref->buf;
}

const struct vulkan_region *dispatch_region(const struct weight *w)
{
    return &((const struct vulkan_weight *)w)->pieces[0].region;
}

/* A binding that a shader names must be there, though it is not read. */
void dispatch_vector(struct dispatch_build *b, uint32_t at, const struct weight *w)
{
    dispatch_bind(b, at, w ? dispatch_region(w) : &b->x->step, VK_NULL_HANDLE);
}

/* Binds memory that no other dispatch uses: the validation layers and some drivers find hazards
 * by what is bound, and must find none here. */
void dispatch_no_result(struct dispatch_build *b, uint32_t at)
{
    dispatch_bind(b, at, &b->x->nothing, VK_NULL_HANDLE);
}

void dispatch_push_place(struct dispatch_build *b, const struct ref *ref)
{
    dispatch_push(b, rows_of(b, ref->buf)->stride);
    dispatch_push(b, ref->at);
}

bool dispatch_end(struct dispatch_build *b, struct vulkan_grid grid, struct err *err)
{
    struct vulkan_exec *x = b->x;
    b->d.grid = grid;
    b->d.set = b->set;
    if (!b->set && !vulkan_set_new(&x->sets, b->bindings, b->n_bindings, &b->d.set, err))
        return false;
    MEM_GROW(x->dispatches, x->n_dispatches, x->cap_dispatches);
    x->dispatches[x->n_dispatches++] = b->d;
    return true;
}

bool dispatch_end_rows(struct dispatch_build *b, size_t n, size_t local, struct err *err)
{
    return dispatch_end(
        b, (struct vulkan_grid){.kind = GRID_ROWS, .x = dispatch_groups(n, local)}, err);
}

const struct op_quantise *dispatch_codes_after(const struct vulkan_exec *x, const struct op *op,
                                               const struct ref *out)
{
    const struct op *next = dispatch_next_of(x, op);
    if (!next || next->kind != OP_QUANTISE) return NULL;
    return dispatch_same_place(&next->quantise.in, out) ? &next->quantise : NULL;
}

enum vulkan_shader dispatch_packed_or(const struct vulkan_exec *x, enum vulkan_shader shader,
                                      enum vulkan_shader packed)
{
    return vulkan_of(x)->vk->has_packed_dot ? packed : shader;
}

bool dispatch_cover(struct vulkan_region *all, const struct vulkan_region *r, size_t most)
{
    if (all->n_bytes == 0) {
        *all = *r;
        return true;
    }
    size_t from = all->at < r->at ? all->at : r->at;
    size_t end_all = all->at + all->n_bytes, end_r = r->at + r->n_bytes;
    size_t n_bytes = (end_all > end_r ? end_all : end_r) - from;
    if (all->buffer != r->buffer || n_bytes > most) return false;
    *all = (struct vulkan_region){.buffer = all->buffer, .at = from, .n_bytes = n_bytes};
    return true;
}
