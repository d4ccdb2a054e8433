/* Recurrent states on the device: objects that the engine keeps, and the states at work, which
 * the steps of an exec change.
 *
 * A step copies from an object to what is at work and back within its submission. An advance by
 * the trail is put off until the next step, so that it needs none of its own; who reads, writes
 * or frees states that it is about makes it first. If that fails the device counts as lost, and
 * says so at the next step: what is read of states cannot tell. */
#include <stdlib.h>

#include "base/mem.h"
#include "vulkan/impl.h"
#include "vulkan/step_layout.h"

static struct vulkan_backend *of(struct backend *be)
{
    return (struct vulkan_backend *)be;
}

void vulkan_states_end(struct vulkan_exec *x)
{
    struct err ignored;
    if (vulkan_of(x)->due != x || vulkan_states_settle(vulkan_of(x), &ignored)) return;
    vulkan_of(x)->vk->is_lost = true; /* it was not, if memory is all that lacked */
    vulkan_states_begun(x);
}

/* What was put off and is about these states is put off no more. */
static void settle(struct vulkan_backend *vb, const struct vulkan_state *s)
{
    struct vulkan_exec *x = vb->due;
    if (x && (x->due.from == s || x->due.to == s)) vulkan_states_end(x);
}

static void free_moves(const struct vulkan *vk, struct vulkan_state *s)
{
    vulkan_commands_free(vk, s->take);
    vulkan_commands_free(vk, s->give);
    s->take = s->give = VK_NULL_HANDLE;
    s->plan = 0;
}

void vulkan_state_free(struct backend *be, void *state, size_t state_bytes)
{
    struct vulkan_state *s = state;
    (void)state_bytes;
    settle(of(be), s);
    of(be)->state_version++;
    free_moves(of(be)->vk, s);
    vulkan_arena_free(&s->memory);
    free(s);
}

void vulkan_state_write(struct backend *be, void *state, size_t state_bytes, const void *host)
{
    struct vulkan_state *s = state;
    struct err ignored;
    settle(of(be), s);
    of(be)->state_version++;
    vulkan_write(&of(be)->staging, &s->region, 0, host, state_bytes, &ignored);
}

void *vulkan_state_new(struct backend *be, size_t state_bytes)
{
    struct err ignored;
    struct vulkan_state *s = mem_zalloc(1, sizeof *s);
    s->memory = (struct vulkan_arena){.vk = of(be)->vk, .place = VULKAN_NEAR_DEVICE};
    if (!vulkan_arena_take(&s->memory, state_bytes, &s->region, &ignored)) {
        free(s);
        return NULL;
    }
    void *zeros = mem_zalloc(1, state_bytes);
    vulkan_state_write(be, s, state_bytes, zeros);
    free(zeros);
    return s;
}

void vulkan_state_read(struct backend *be, const void *state, size_t state_bytes, void *host)
{
    const struct vulkan_state *s = state;
    struct err ignored;
    settle(of(be), s);
    vulkan_read(&of(be)->staging, &s->region, 0, host, state_bytes, &ignored);
}

/* ---- at work ---- */

/* Whatever touched these bytes is done, and whatever will waits. */
static bool record_copy(const struct vulkan_exec *x, const struct vulkan_region *to,
                        const struct vulkan_region *from, VkCommandBuffer *c, struct err *err)
{
    const VkPipelineStageFlags steps =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkBufferCopy all = {from->at, to->at, x->p->state_bytes};
    if (!vulkan_begin(vulkan_of(x)->vk, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT, c, err))
        return false;
    vulkan_wait_for(*c, steps, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                    VK_PIPELINE_STAGE_TRANSFER_BIT,
                    VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    vkCmdCopyBuffer(*c, from->buffer, to->buffer, 1, &all);
    vulkan_wait_for(*c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                    steps | VK_PIPELINE_STAGE_HOST_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT |
                        VK_ACCESS_HOST_READ_BIT);
    return vulkan_end(*c, err);
}

/* The copies between these states and those at work are recorded. */
static bool need_moves(const struct vulkan_exec *x, struct vulkan_state *s, struct err *err)
{
    if (s->plan == x->plan) return true;
    free_moves(vulkan_of(x)->vk, s);
    if (!record_copy(x, &x->state, &s->region, &s->take, err) ||
        !record_copy(x, &s->region, &x->state, &s->give, err)) {
        free_moves(vulkan_of(x)->vk, s);
        return false;
    }
    s->plan = x->plan;
    return true;
}

static bool add_take(struct vulkan_exec *x, const struct vulkan_exec *of,
                     struct vulkan_state *in, struct err *err)
{
    if (!need_moves(of, in, err)) return false;
    vulkan_add_all(x, 1, &in->take);
    return true;
}

static bool add_give(struct vulkan_exec *x, const struct vulkan_exec *of,
                     struct vulkan_state *out, struct err *err)
{
    if (!need_moves(of, out, err)) return false;
    vulkan_add_all(x, 1, &out->give);
    return true;
}

/* The advance that was put off. */
static bool add_due(struct vulkan_exec *x, struct vulkan_exec *of, struct err *err)
{
    const struct vulkan_recorded *r = vulkan_recorded(of, PART_ADVANCE, 0, err);
    if (!r || !add_take(x, of, of->due.from, err)) return false;
    ((uint32_t *)of->step.data)[STEP_N_ADVANCE] = of->due.n_rows;
    vulkan_group_counts(of, PART_ADVANCE, of->due.n_rows);
    vulkan_add_all(x, r->n, r->commands);
    return add_give(x, of, of->due.to, err);
}

bool vulkan_states_begin(struct vulkan_exec *x, struct vulkan_exec *of, const void *in,
                         struct err *err)
{
    struct vulkan_backend *vb = vulkan_of(of);
    if (of->p->state_bytes == 0) return true;
    if (vb->due && vb->due != of && !vulkan_states_settle(vb, err)) return false;
    const void *at_work = of->state_version == vb->state_version ? of->state_of : NULL;
    of->state_of = NULL; /* until the step is done */
    if (of->due.n_rows > 0) {
        if (!add_due(x, of, err)) return false;
        at_work = of->due.to;
    }
    return at_work == in || add_take(x, of, (struct vulkan_state *)in, err);
}

bool vulkan_states_give(struct vulkan_exec *x, struct vulkan_exec *of, void *out,
                        struct err *err)
{
    return of->p->state_bytes == 0 || add_give(x, of, out, err);
}

void vulkan_states_begun(struct vulkan_exec *of)
{
    if (of->due.n_rows == 0) return;
    of->due.n_rows = 0;
    vulkan_of(of)->due = NULL;
}

void vulkan_states_done(struct vulkan_exec *of, const void *out)
{
    if (of->p->state_bytes == 0) return;
    of->state_of = out;
    of->state_version = ++vulkan_of(of)->state_version; /* others may hold what `out` was */
}

bool vulkan_states_settle(struct vulkan_backend *vb, struct err *err)
{
    struct vulkan_exec *x = vb->due;
    if (!x) return true;
    x->n_all = 0;
    if (!vulkan_need_plan(x, err) || !add_due(x, x, err) ||
        !vulkan_submit(vb->vk, x->n_all, x->all, err))
        return false;
    vulkan_states_begun(x);
    vulkan_states_done(x, x->due.to);
    return true;
}

/* Whatever may fail but the device itself fails here. */
bool vulkan_exec_advance(struct exec *base, const void *state_in, void *state_out,
                         uint32_t n_rows, struct err *err)
{
    struct vulkan_exec *x = (struct vulkan_exec *)base;
    struct vulkan_backend *vb = vulkan_of(x);
    const struct vulkan_advance due = {(struct vulkan_state *)state_in, state_out, n_rows};
    if (!x->has_trail)
        return err_set(err, ERR_DEVICE, "the last step left nothing to advance states by");
    const bool again = vb->due == x && x->due.from == due.from && x->due.to == due.to;
    if ((!again && !vulkan_states_settle(vb, err)) || !vulkan_need_plan(x, err) ||
        !vulkan_recorded(x, PART_ADVANCE, 0, err) || !need_moves(x, due.from, err) ||
        !need_moves(x, due.to, err))
        return false;
    x->due = due;
    x->state_of = NULL; /* `to` has others now */
    vb->due = x;
    return true;
}
