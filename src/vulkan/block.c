/* A block of drafts in one submission: the steps of the draft model, that of the model, and
 * between them copies that the device makes.
 *
 * What is recorded for a step reads one place. So the host writes the first step of the draft
 * there and those behind it into slots; once a draft is drawn, the next slot is copied to that
 * place, and the draft's id goes wherever it is read: to the token of the next step, to a token
 * of the model's step, and to the drafts that the draws of both count. */
#include <stdlib.h>
#include <string.h>

#include "backend/draw.h"
#include "backend/tables.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "vulkan/draw_layout.h"
#include "vulkan/impl.h"
#include "vulkan/step_layout.h"

enum { MOST_DRAFTS = DRAW_MOST_DRAFTS, N_TIMES = 3 };

/* Words of a step that one row has, in the slots one behind the other. */
struct range {
    uint32_t at, n;
};

/* From a draft model to the model it drafts for: recorded once for the plans of both. */
struct vulkan_link {
    const struct vulkan_exec *model;
    uint64_t plan, model_plan;
    struct vulkan_arena written, host;
    struct vulkan_region slots;   /* of the steps behind the first */
    struct vulkan_region drafted; /* [MOST_DRAFTS] ids, read by the host */
    uint8_t *scratch;             /* a step as it is written, where reading it is fast */
    struct range *ranges;
    size_t n_ranges, slot_words;
    VkCommandBuffer pass[MOST_DRAFTS - 1]; /* what follows the i-th draft, */
    VkCommandBuffer last[MOST_DRAFTS];     /* and if it is the last */
    VkCommandBuffer time[N_TIMES];         /* before the draft, between, behind the model */
    VkQueryPool times;
};

/* Whether a block may take longer than the device's kernel waits: by the last steps of both, of
 * which the draft's may have read many rows. Nobody knows before a step of each. */
static bool may_take_long(const struct vulkan_exec *m, const struct vulkan_exec *x)
{
    const double patience_ms = vulkan_of(m)->vk->patience_ms;
    if (patience_ms < 0) return false;
    return m->step_ms == 0 || x->step_ms == 0 ||
           MOST_DRAFTS * x->step_ms + m->step_ms > patience_ms;
}

bool vulkan_takes_blocks(const struct exec *model, const struct exec *draft)
{
    const struct vulkan_exec *m = (const struct vulkan_exec *)model,
                             *x = (const struct vulkan_exec *)draft;
    return vulkan_of(m)->vk == vulkan_of(x)->vk && vulkan_of(m)->vk->clock_bits > 0 && m != x &&
           m->p->n_input == 0 && x->p->n_input == 0 && !may_take_long(m, x);
}

/* ---- what is recorded ---- */

static void add_range(struct vulkan_link *l, size_t at, size_t n)
{
    l->ranges[l->n_ranges++] = (struct range){(uint32_t)at, (uint32_t)n};
    l->slot_words += n;
}

/* All that step.c and draw.c write for one row. */
static void find_ranges(const struct vulkan_exec *x, struct vulkan_link *l)
{
    const struct program *p = x->p;
    l->ranges =
        mem_zalloc(3 + p->n_ropes + p->n_row_scales + 2 * x->n_slabs, sizeof *l->ranges);
    add_range(l, 0, STEP_WORDS);
    for (size_t i = 0; i < p->n_ropes; i++)
        if (p->ropes[i].n_rot > 0) add_range(l, x->rope_at[i], p->ropes[i].n_rot);
    for (size_t i = 0; i < p->n_row_scales; i++)
        add_range(l, x->factor_at[i], 1);
    for (size_t i = 0; i < x->n_slabs; i++) {
        const struct vulkan_plan_slab *s = &x->slabs[i];
        add_range(l, s->attend_at, s->store_at - s->attend_at);
        add_range(l, s->store_at, 2);
    }
    add_range(l, x->draws.at, DRAW_DRAFTED);
    add_range(l, x->indirect_at, 3 * x->n_dispatches);
}

static void copy_words(VkCommandBuffer c, const struct vulkan_region *to, size_t to_word,
                       const struct vulkan_region *from, size_t from_word, size_t n)
{
    const VkBufferCopy range = {from->at + 4 * from_word, to->at + 4 * to_word, 4 * n};
    vkCmdCopyBuffer(c, from->buffer, to->buffer, 1, &range);
}

/* The i-th draft is drawn: its id goes where it is read, and the next step, if it has a slot,
 * where it runs. */
static void record_pass(VkCommandBuffer c, const struct vulkan_exec *x,
                        const struct vulkan_link *l, size_t i, bool is_last)
{
    const struct vulkan_exec *m = l->model;
    const struct vulkan_region *id = &x->draws.drawn;
    const VkPipelineStageFlags steps = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                       VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT |
                                       VK_PIPELINE_STAGE_TRANSFER_BIT;
    vulkan_wait_for(c, steps, VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                    VK_PIPELINE_STAGE_TRANSFER_BIT,
                    VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    copy_words(c, &l->drafted, i, id, 0, 1);
    copy_words(c, &m->step, m->tokens_at + 1 + i, id, 0, 1);
    copy_words(c, &m->step, m->draws.at + DRAW_DRAFTED + i, id, 0, 1);
    if (!is_last) {
        copy_words(c, &x->step, x->tokens_at, id, 0, 1);
        copy_words(c, &x->step, x->draws.at + DRAW_DRAFTED + i, id, 0, 1);
        size_t at = i * l->slot_words;
        for (size_t k = 0; k < l->n_ranges; at += l->ranges[k++].n)
            copy_words(c, &x->step, l->ranges[k].at, &l->slots, at, l->ranges[k].n);
    }
    vulkan_wait_for(c, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT, steps,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_INDIRECT_COMMAND_READ_BIT |
                        VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
}

static void record_time(VkCommandBuffer c, const struct vulkan_link *l, uint32_t i)
{
    if (i == 0) vkCmdResetQueryPool(c, l->times, 0, N_TIMES);
    vkCmdWriteTimestamp(c, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, l->times, i);
    if (i == N_TIMES - 1)
        vulkan_wait_for(c,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                        VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                        VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
}

static bool record_link(const struct vulkan_exec *x, struct vulkan_link *l, struct err *err)
{
    const struct vulkan *vk = vulkan_of(x)->vk;
    for (size_t i = 0; i + 1 < MOST_DRAFTS; i++) {
        if (!vulkan_begin(vk, 0, &l->pass[i], err)) return false;
        record_pass(l->pass[i], x, l, i, false);
        if (!vulkan_end(l->pass[i], err)) return false;
    }
    for (size_t i = 0; i < MOST_DRAFTS; i++) {
        if (!vulkan_begin(vk, 0, &l->last[i], err)) return false;
        record_pass(l->last[i], x, l, i, true);
        if (!vulkan_end(l->last[i], err)) return false;
    }
    for (uint32_t i = 0; i < N_TIMES; i++) {
        if (!vulkan_begin(vk, 0, &l->time[i], err)) return false;
        record_time(l->time[i], l, i);
        if (!vulkan_end(l->time[i], err)) return false;
    }
    return true;
}

/* ---- the link ---- */

static void free_commands(const struct vulkan *vk, VkCommandBuffer *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vulkan_commands_free(vk, c[i]);
}

void vulkan_link_free(struct vulkan_exec *x)
{
    const struct vulkan *vk = vulkan_of(x)->vk;
    struct vulkan_link *l = x->link;
    if (!l) return;
    free_commands(vk, l->pass, MOST_DRAFTS - 1);
    free_commands(vk, l->last, MOST_DRAFTS);
    free_commands(vk, l->time, N_TIMES);
    if (l->times) vkDestroyQueryPool(vk->device, l->times, NULL);
    vulkan_arena_free(&l->written);
    vulkan_arena_free(&l->host);
    free(l->scratch);
    free(l->ranges);
    free(l);
    x->link = NULL;
}

static bool make_link(struct vulkan_exec *x, const struct vulkan_exec *m, struct err *err)
{
    struct vulkan *vk = vulkan_of(x)->vk;
    struct vulkan_link *l = x->link = mem_zalloc(1, sizeof *l);
    l->model = m;
    l->plan = x->plan;
    l->model_plan = m->plan;
    l->written = (struct vulkan_arena){.vk = vk, .place = VULKAN_WRITTEN};
    l->host = (struct vulkan_arena){.vk = vk, .place = VULKAN_NEAR_HOST};
    l->scratch = mem_zalloc(1, x->step.n_bytes);
    find_ranges(x, l);
    const VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = N_TIMES,
    };
    return vulkan_check(vkCreateQueryPool(vk->device, &info, NULL, &l->times),
                        "vkCreateQueryPool", err) &&
           vulkan_arena_take(&l->written, 4 * l->slot_words * (MOST_DRAFTS - 1), &l->slots,
                             err) &&
           vulkan_arena_take(&l->host, 4 * MOST_DRAFTS, &l->drafted, err) &&
           record_link(x, l, err);
}

/* Plans x and m where needed, and makes a link unless x has one for these plans. */
static bool need_link(struct vulkan_exec *x, struct vulkan_exec *m, struct err *err)
{
    if (!vulkan_need_plan(x, err) || !vulkan_need_plan(m, err)) return false;
    const struct vulkan_link *l = x->link;
    if (l && l->model == m && l->plan == x->plan && l->model_plan == m->plan) return true;
    vulkan_link_free(x);
    if (make_link(x, m, err)) return true;
    vulkan_link_free(x);
    return false;
}

/* ---- running ---- */

/* A step as the host writes it, with so many drafts ahead of its first draw. */
static bool write_all(struct vulkan_exec *x, const struct step *step, uint32_t ahead,
                      struct err *err)
{
    vulkan_step_write(x, step);
    vulkan_head_write(x, step->n_rows - step->n_logits, step->n_rows);
    return vulkan_draw_write(x, step, ahead, err);
}

static void fill_slot(const struct vulkan_link *l, size_t slot)
{
    const uint32_t *words = (const uint32_t *)l->scratch;
    uint32_t *out = (uint32_t *)l->slots.data + slot * l->slot_words;
    for (size_t k = 0; k < l->n_ranges; out += l->ranges[k++].n)
        memcpy(out, words + l->ranges[k].at, 4 * l->ranges[k].n);
}

/* The n steps of the draft: the first where it runs, those behind it into the slots. */
static bool write_drafts(struct vulkan_exec *x, const struct step *read, uint32_t n,
                         struct err *err)
{
    static const int32_t later;
    uint8_t *const runs = x->step.data;
    bool ok = write_all(x, read, 0, err);
    x->step.data = x->link->scratch;
    for (uint32_t i = 1; ok && i < n; i++) {
        struct step step = *read;
        step.pos = read->pos + read->n_rows + i - 1;
        step.n_rows = 1;
        step.tokens = &later;
        ok = write_all(x, &step, i, err);
        fill_slot(x->link, i - 1);
    }
    x->step.data = runs;
    return ok;
}

static bool write_check(struct vulkan_exec *m, const struct step *check, struct err *err)
{
    int32_t tokens[DRAW_ROWS] = {check->tokens[0]};
    struct step step = *check;
    step.tokens = tokens;
    return write_all(m, &step, 0, err);
}

/* What was recorded for a step of an exec joins what x submits. */
static bool add_step(struct vulkan_exec *x, struct vulkan_exec *of, int body, uint32_t n_rows,
                     uint32_t n_logits, struct err *err)
{
    const struct vulkan_recorded *parts[] = {
        vulkan_recorded(of, body, vulkan_bucket(n_rows), err),
        vulkan_recorded(of, PART_HEAD, vulkan_bucket(n_logits), err),
        vulkan_recorded(of, PART_DRAW, 0, err)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!parts[i]) return false;
        vulkan_add_all(x, parts[i]->n, parts[i]->commands);
    }
    return true;
}

/* The steps of the draft, from the states before them to those after. */
static bool add_drafts(struct vulkan_exec *x, const struct draft_block *b, uint32_t n,
                       struct err *err)
{
    const struct vulkan_link *l = x->link;
    if (!vulkan_states_begin(x, x, b->read->state_in, err)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!add_step(x, x, PART_BODY, i == 0 ? b->read->n_rows : 1, 1, err)) return false;
        if (i == 0 && !vulkan_states_give(x, x, b->read->state_out, err)) return false;
        vulkan_add_all(x, 1, i + 1 < n ? &l->pass[i] : &l->last[i]);
    }
    return n == 1 || vulkan_states_give(x, x, b->state_end, err);
}

/* *ms: from the submission until it is done. What is recorded and compiled for the first block
 * says nothing of the next. */
static bool submit(struct vulkan_exec *x, const struct draft_block *b, uint32_t n, double *ms,
                   struct err *err)
{
    struct vulkan_exec *m = (struct vulkan_exec *)b->model;
    const struct vulkan_link *l = x->link;
    x->n_all = 0;
    vulkan_add_all(x, 1, &l->time[0]);
    if (!add_drafts(x, b, n, err)) return false;
    vulkan_add_all(x, 1, &l->time[1]);
    if (!vulkan_states_begin(x, m, b->check->state_in, err) ||
        !add_step(x, m, b->check->keeps_trail ? PART_KEEP : PART_BODY, n + 1, n + 1, err) ||
        !vulkan_states_give(x, m, b->check->state_out, err))
        return false;
    vulkan_add_all(x, 1, &l->time[2]);
    const double start = clock_ms();
    if (!vulkan_submit(vulkan_of(x)->vk, x->n_all, x->all, err)) return false;
    *ms = clock_ms() - start;
    return true;
}

static bool take_times(const struct vulkan_exec *x, double *share, struct err *err)
{
    struct vulkan *vk = vulkan_of(x)->vk;
    uint64_t t[N_TIMES];
    if (!vulkan_done(vk,
                     vkGetQueryPoolResults(vk->device, x->link->times, 0, N_TIMES, sizeof t, t,
                                           sizeof *t,
                                           VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                     "vkGetQueryPoolResults", err))
        return false;
    vk->counters.bytes_back += sizeof t;
    const uint64_t mask = vk->clock_bits < 64 ? (1ull << vk->clock_bits) - 1 : UINT64_MAX;
    const double draft = (double)((t[1] - t[0]) & mask), check = (double)((t[2] - t[1]) & mask);
    *share = draft + check > 0 ? draft / (draft + check) : 0.5;
    return true;
}

/* Drafts and draws, as far as they agree. */
static void take_drawn(const struct vulkan_exec *m, const struct vulkan_link *l,
                       struct draft_block *b, uint32_t n)
{
    const int32_t *drafted = (const int32_t *)l->drafted.data;
    const int32_t *drawn = (const int32_t *)m->draws.drawn.data;
    int32_t *out = b->check->drawn;
    uint32_t i = 0, n_words = 1;
    for (out[0] = drawn[0]; i < n; n_words += 2) {
        if (out[i] < 0 || out[i] != drafted[i]) break;
        i++;
        out[i] = drawn[i];
    }
    b->n_right = i;
    vulkan_of(m)->vk->counters.bytes_back += 4 * (n_words + (i < n));
}

bool vulkan_exec_block(struct draft_block *b, struct err *err)
{
    struct vulkan_exec *x = (struct vulkan_exec *)b->draft, *m = (struct vulkan_exec *)b->model;
    const uint32_t n = b->check->n_rows - 1;
    double ms;
    x->has_trail = m->has_trail = false;
    if (cancel_is_set(b->check->cancel)) return err_set(err, ERR_CANCELLED, "cancelled");
    /* A draft keeps no trail in blocks: what it has put off is from another time. */
    if (x->due.n_rows > 0 && !vulkan_states_settle(vulkan_of(x), err)) return false;
    if (!tables_have(x->p, b->read, b->read->n_rows, err) ||
        !tables_have(m->p, b->check, 1, err) || !need_link(x, m, err) ||
        !write_drafts(x, b->read, n, err) || !write_check(m, b->check, err) ||
        !submit(x, b, n, &ms, err) || !take_times(x, &b->draft_share, err))
        return false;
    x->step_ms = ms * b->draft_share / n;
    m->step_ms = ms * (1 - b->draft_share);
    vulkan_states_begun(m);
    vulkan_states_done(x, n == 1 ? b->read->state_out : b->state_end);
    vulkan_states_done(m, b->check->state_out);
    m->has_trail = b->check->keeps_trail;
    take_drawn(m, x->link, b, n);
    vulkan_draw_done(x, b->read->draw);
    vulkan_draw_done(m, b->check->draw);
    return true;
}
