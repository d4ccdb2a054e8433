/* What a step needs before it is submitted: the plan, tokens that the vocabulary has, and what
 * the shaders read of it: positions, tokens, the places of pages, how many groups of each
 * dispatch run. The host writes these before each submission. */
#include <string.h>

#include "backend/positions.h"
#include "base/mem.h"
#include "vulkan/impl.h"
#include "vulkan/step_layout.h"

bool vulkan_need_plan(struct vulkan_exec *x, struct err *err)
{
    if (x->is_planned && x->generation == vulkan_of(x)->pages.generation) return true;
    if (!vulkan_plan_make(x, err)) return false;
    x->use = mem_resize(x->use, x->n_slabs + 1, sizeof *x->use);
    return true;
}

void vulkan_add_all(struct vulkan_exec *x, uint32_t n, const VkCommandBuffer *commands)
{
    if (x->n_all + n > x->cap_all) {
        x->cap_all = 2 * (x->n_all + n);
        x->all = mem_resize(x->all, x->cap_all, sizeof(VkCommandBuffer));
    }
    memcpy(x->all + x->n_all, commands, n * sizeof(VkCommandBuffer));
    x->n_all += n;
}

/* ---- what the shaders read ---- */

static uint32_t *step_words(const struct vulkan_exec *x)
{
    return (uint32_t *)x->step.data;
}

static float *step_floats(const struct vulkan_exec *x)
{
    void *data = x->step.data;
    return data;
}

static void position_tables(const struct vulkan_exec *x, const struct step *step)
{
    const struct program *p = x->p;
    for (size_t i = 0; i < p->n_ropes; i++)
        for (uint32_t r = 0; r < step->n_rows; r++)
            positions_rope(&p->ropes[i], step->pos + r,
                           step_floats(x) + x->rope_at[i] + r * p->ropes[i].n_rot);
    for (size_t i = 0; i < p->n_row_scales; i++)
        for (uint32_t r = 0; r < step->n_rows; r++)
            step_floats(x)[x->factor_at[i] + r] =
                positions_factor(&p->row_scales[i], step->pos + r);
}

/* Slots first..first+n-1 of a page are written by the step: from an even one on, in pairs. */
static uint32_t slot_pairs(const struct step *step, uint32_t page)
{
    uint32_t begin = page * PAGE_LEN, end = step->pos + step->n_rows;
    uint32_t first = step->pos > begin ? (step->pos - begin) / 2 * 2 : 0;
    uint32_t last = end - begin < PAGE_LEN ? end - begin : PAGE_LEN;
    return (last - first + 1) / 2;
}

/* The first page of a part that a row of the step sees. */
static uint32_t first_page(const struct vulkan_exec *x, const struct step *step, int part)
{
    uint32_t end = step->pos + 1;
    return part == PAGE_WINDOW && end > x->p->window ? (end - x->p->window) / PAGE_LEN : 0;
}

/* Puts page i of a part into the tables of its slab. */
static void add_page(struct vulkan_exec *x, const struct step *step, int part, uint32_t i)
{
    uint32_t place, *words = step_words(x);
    const struct vulkan_pages *pages = &vulkan_of(x)->pages;
    const struct vulkan_slab *slab = vulkan_page_find(pages, step->pages[part][i], &place);
    size_t s = 0;
    while (x->slabs[s].part != (enum page_part)part || &pages->slabs[x->slabs[s].index] != slab)
        s++;
    struct vulkan_slab_use *use = &x->use[s];
    uint32_t *entry = words + x->slabs[s].attend_at + 2 * use->n_pages++;
    entry[0] = i;
    entry[1] = place;
    if ((i + 1) * PAGE_LEN <= step->pos) return;
    entry = words + x->slabs[s].store_at + 2 * use->n_stored++;
    entry[0] = i;
    entry[1] = place;
    uint32_t pairs = slot_pairs(step, i);
    if (pairs > use->n_slot_pairs) use->n_slot_pairs = pairs;
}

/* Sorts the sequence's pages by slab: their numbers and places. */
static void page_tables(struct vulkan_exec *x, const struct step *step)
{
    const uint32_t n_pages = (uint32_t)pages_for(step->pos + step->n_rows);
    memset(x->use, 0, x->n_slabs * sizeof *x->use);
    for (int part = 0; part < PAGE_PARTS; part++) {
        if (x->p->page_bytes[part] == 0) continue;
        for (uint32_t i = first_page(x, step, part); i < n_pages; i++)
            add_page(x, step, part, i);
    }
}

void vulkan_group_counts(const struct vulkan_exec *x, int part, uint32_t n_rows)
{
    uint32_t *out = step_words(x) + x->indirect_at, bucket = vulkan_bucket(n_rows);
    const bool few = bucket < N_BUCKETS - 1;
    const size_t n = few ? x->n_of_few : x->n_dispatches;
    for (size_t k = 0; k < n; k++) {
        const size_t i = few ? x->of_few[k] : k;
        if (x->dispatches[i].part == part)
            vulkan_groups(x, &x->dispatches[i], bucket, n_rows, x->use, out + 3 * i);
    }
}

void vulkan_step_write(struct vulkan_exec *x, const struct step *step)
{
    uint32_t *words = step_words(x);
    words[STEP_N_ROWS] = step->n_rows;
    words[STEP_POS] = step->pos;
    words[STEP_FIRST + PART_BODY] = 0;
    for (uint32_t r = 0; r < step->n_rows; r++)
        words[x->tokens_at + r] = (uint32_t)step->tokens[r];
    if (x->p->n_input > 0)
        memcpy(x->input.data, step->input,
               (size_t)step->n_rows * x->p->n_input * sizeof(float));
    position_tables(x, step);
    page_tables(x, step);
    vulkan_group_counts(x, PART_BODY, step->n_rows);
    if (step->keeps_trail) vulkan_group_counts(x, PART_KEEP, step->n_rows);
}

/* The head runs for rows lo..hi-1. */
void vulkan_head_write(struct vulkan_exec *x, uint32_t lo, uint32_t hi)
{
    step_words(x)[STEP_N_ROWS] = hi;
    step_words(x)[STEP_FIRST + PART_HEAD] = lo;
    vulkan_group_counts(x, PART_HEAD, hi - lo);
}
