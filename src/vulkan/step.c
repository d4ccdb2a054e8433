/* What the shaders read of a step: positions, tokens, the places of pages, how many groups of
 * each dispatch run. The host writes it before each submission. */
#include <string.h>

#include "base/numeric_c.h"
#include "base/real.h"
#include "vulkan/impl.h"
#include "vulkan/step_layout.h"

static uint32_t *step_words(const struct vulkan_exec *x)
{
    return (uint32_t *)x->step.data;
}

/* The tables of a step's positions: host arithmetic in double, the same on every machine. */
static void rope_table(const struct vulkan_exec *x, size_t i, const struct step *step)
{
    const struct rope *rope = &x->p->ropes[i];
    size_t n_pairs = rope->n_rot / 2;
    uint32_t *out = step_words(x) + x->rope_at[i];
    for (uint32_t r = 0; r < step->n_rows; r++, out += rope->n_rot) {
        for (size_t k = 0; k < n_pairs; k++) {
            double s, c;
            real_sincos((double)(step->pos + r) * rope->freq[k], &s, &c);
            out[k] = num_bits(num_keep((float)(c * rope->mscale)));
            out[n_pairs + k] = num_bits(num_keep((float)(s * rope->mscale)));
        }
    }
}

static void factor_table(const struct vulkan_exec *x, size_t i, const struct step *step)
{
    const struct row_scale *s = &x->p->row_scales[i];
    for (uint32_t r = 0; r < step->n_rows; r++) {
        size_t periods = (step->pos + r) / s->period;
        double factor = 1.0 + s->log_scale * real_log(1.0 + (double)periods);
        step_words(x)[x->factor_at[i] + r] = num_bits(num_keep((float)factor));
    }
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
    uint32_t n_pages = (step->pos + step->n_rows + PAGE_LEN - 1) / PAGE_LEN;
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
    for (size_t i = 0; i < x->n_dispatches; i++)
        if (x->dispatches[i].part == part)
            vulkan_groups(x, &x->dispatches[i], bucket, n_rows, x->use, out + 3 * i);
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
    for (size_t i = 0; i < x->p->n_ropes; i++)
        rope_table(x, i, step);
    for (size_t i = 0; i < x->p->n_row_scales; i++)
        factor_table(x, i, step);
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
