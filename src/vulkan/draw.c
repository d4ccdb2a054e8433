/* Draws on the device: four dispatches behind the head, the request among the words of the
 * step, and one id for each row where the host sees it. A step takes them all, a block of
 * drafts as far as they are right. The logits stay until the next step. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/draw.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "vulkan/dispatch.h"
#include "vulkan/draw_layout.h"

enum { MOST_LANES = 256, MOST_COUNTS = DRAW_RECENT + 2 * TRAIL_ROWS };

static_assert(DRAW_N_COUNTS + TRAIL_ROWS <= DRAW_LEAVES &&
                  DRAW_LEAVES + DRAW_MOST_DRAFTS == DRAW_DRAFTED &&
                  DRAW_DRAFTED + DRAW_MOST_DRAFTS <= DRAW_COUNTS,
              "the words of a request overlap");
static_assert(DRAW_MOST_DRAFTS == DRAW_ROWS - 1, "a block has a row and its drafts");

static uint32_t n_chunks(const struct vulkan_exec *x)
{
    return dispatch_groups(x->p->n_vocab, DRAW_CHUNK);
}

size_t vulkan_draw_words(void)
{
    return DRAW_COUNTS + 2 * MOST_COUNTS;
}

static uint32_t most_rows(uint32_t max_rows)
{
    return max_rows < TRAIL_ROWS ? max_rows : TRAIL_ROWS;
}

size_t vulkan_draw_bytes(const struct program *p, uint32_t max_rows)
{
    const size_t n_rows = most_rows(max_rows);
    return 4 * (2 * p->n_vocab * (n_rows + 1) +
                n_rows * MARK_WORDS(dispatch_groups(p->n_vocab, DRAW_CHUNK)));
}

bool vulkan_draw_memory(struct vulkan_exec *x, struct err *err)
{
    struct vulkan_draws *d = &x->draws;
    const size_t n_vocab = x->p->n_vocab, n_rows = most_rows(x->max_rows);
    const struct {
        struct vulkan_arena *arena;
        struct vulkan_region *region;
        size_t n_words;
    } all[] = {
        {&x->scratch, &d->counts, n_vocab},
        {&x->scratch, &d->bias, n_vocab},
        {&x->scratch, &d->adjusted, n_rows * n_vocab},
        {&x->scratch, &d->list, n_rows * n_vocab},
        {&x->scratch, &d->marks, n_rows * MARK_WORDS(n_chunks(x))},
        {&x->host, &d->drawn, n_rows},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!vulkan_arena_take(all[i].arena, 4 * all[i].n_words, all[i].region, err))
            return false;
    return true;
}

static uint32_t n_lanes(const struct vulkan_exec *x)
{
    const uint32_t most = vulkan_of(x)->vk->properties.limits.maxComputeWorkGroupInvocations;
    return most < MOST_LANES ? 64 : MOST_LANES;
}

bool vulkan_plan_draw(struct vulkan_exec *x, struct err *err)
{
    static const enum vulkan_shader stages[] = {SHADER_DRAW_ADJUST, SHADER_DRAW_SPREAD,
                                                SHADER_DRAW_COLLECT, SHADER_DRAW_FINAL};
    struct vulkan_draws *d = &x->draws;
    const struct op *last = &x->p->ops[x->p->n_ops - 1];
    d->first = x->n_dispatches;
    for (size_t i = 0; i < DRAW_STAGES; i++) {
        struct dispatch_build b = dispatch_begin(x, last, PART_DRAW, stages[i], n_lanes(x));
        const struct vulkan_region *regions[] = {&x->logits, &d->counts, &d->bias, &d->adjusted,
                                                 &d->marks,  &d->list,   &d->drawn};
        for (uint32_t at = 0; at < sizeof regions / sizeof *regions; at++)
            dispatch_bind(&b, at + 1, regions[at], VK_NULL_HANDLE);
        b.d.reads = b.d.writes = 1ull << BIT_LOGITS; /* each stage waits for the one before */
        dispatch_push(&b, d->at);
        dispatch_push(&b, x->p->n_vocab);
        dispatch_push(&b, n_chunks(x));
        const uint32_t groups = i == DRAW_STAGES - 1 ? 1 : n_chunks(x);
        if (!dispatch_end(&b, (struct vulkan_grid){.kind = GRID_ROWS, .x = groups}, err))
            return false;
    }
    return true;
}

/* All counts and biases anew: a reply has begun, or they changed too often since. */
static bool load(struct vulkan_exec *x, const struct draw *q, struct err *err)
{
    struct vulkan_draws *d = &x->draws;
    struct vulkan_staging *staging = &vulkan_of(x)->staging;
    d->n_changes = 0;
    if (q->count && !vulkan_write(staging, &d->counts, 0, q->count, 4 * q->n_vocab, err))
        return false;
    if (q->n_bias > 0) {
        float *dense = mem_zalloc(q->n_vocab, sizeof *dense);
        for (size_t i = 0; i < q->n_bias; i++)
            if ((size_t)q->bias[i].id < q->n_vocab) dense[q->bias[i].id] = q->bias[i].bias;
        const bool ok = vulkan_write(staging, &d->bias, 0, dense, 4 * q->n_vocab, err);
        free(dense);
        if (!ok) return false;
    }
    d->n_changes = q->n_changes;
    return true;
}

static void put(uint32_t *words, uint32_t *n, struct draw_count c)
{
    words[DRAW_COUNTS + 2 * *n] = (uint32_t)c.id;
    words[DRAW_COUNTS + 2 * *n + 1] = c.n;
    ++*n;
}

/* The counts that changed since the last draw, then those that are ahead of it. */
static void write_counts(const struct vulkan_draws *d, const struct draw *q, uint32_t n_rows,
                         uint32_t *words)
{
    uint32_t n = 0;
    for (uint64_t v = d->n_changes; v < q->n_changes; v++) {
        const int32_t id = q->recent[v % DRAW_RECENT];
        put(words, &n, (struct draw_count){id, q->count[id]});
    }
    words[DRAW_N_KEPT] = n;
    for (uint32_t r = 0; r < n_rows; r++)
        words[DRAW_N_COUNTS + r] = n + (q->ahead ? q->n_ahead[r] : 0);
    for (uint32_t i = 0; q->ahead && i < q->n_ahead[n_rows - 1]; i++)
        put(words, &n, q->ahead[i]);
}

/* What the n drafts of a block change, of which some are ahead of row 0. */
static void write_ahead(const struct draw *q, uint32_t ahead, uint32_t n, uint32_t *words)
{
    words[DRAW_AHEAD] = 1 + ahead;
    for (uint32_t i = 0; i < n; i++)
        words[DRAW_LEAVES + i] = (uint32_t)q->leaves[i];
}

bool vulkan_draw_write(struct vulkan_exec *x, const struct step *step, uint32_t ahead,
                       struct err *err)
{
    struct vulkan_draws *d = &x->draws;
    const struct draw *q = step->draw;
    uint32_t *words = (uint32_t *)x->step.data + d->at;
    const bool has_counts = q->count != NULL;
    assert(q->n_vocab <= x->p->n_vocab && step->n_logits <= most_rows(x->max_rows));
    if ((has_counts || q->n_bias > 0) &&
        (d->n_changes == 0 || q->n_changes - d->n_changes > DRAW_RECENT) && !load(x, q, err))
        return false;
    words[DRAW_N_VOCAB] = (uint32_t)q->n_vocab;
    words[DRAW_SEED] = (uint32_t)q->seed;
    words[DRAW_SEED + 1] = (uint32_t)(q->seed >> 32);
    words[DRAW_POS] = step->pos + step->n_rows - step->n_logits + 1;
    words[DRAW_INVERSE_TEMP] = num_bits(q->inverse_temp);
    words[DRAW_TOP_K] = q->top_k;
    words[DRAW_TOP_P] = q->top_p;
    words[DRAW_MOST] = num_bits(q->min_x) & NUM_ABS;
    words[DRAW_REPEAT] = num_bits(q->repeat);
    words[DRAW_INVERSE_REPEAT] = num_bits(q->inverse_repeat);
    words[DRAW_FREQUENCY] = num_bits(q->frequency);
    words[DRAW_PRESENCE] = num_bits(q->presence);
    words[DRAW_HAS_COUNTS] = has_counts;
    words[DRAW_HAS_BIAS] = q->n_bias > 0;
    words[DRAW_N_KEPT] = words[DRAW_AHEAD] = 0;
    memset(words + DRAW_N_COUNTS, 0, TRAIL_ROWS * sizeof *words);
    if (has_counts && ahead == 0) write_counts(d, q, step->n_logits, words);
    if (has_counts && q->leaves) write_ahead(q, ahead, ahead + step->n_logits - 1, words);
    /* Greedy draws need two of the stages, those that cut nothing three. */
    const bool greedy = q->inverse_temp == 0, cuts = q->top_k > 0 || q->top_p < DRAW_WHOLE;
    uint32_t *groups = (uint32_t *)x->step.data + x->indirect_at + 3 * d->first;
    for (size_t i = 0; i < DRAW_STAGES; i++, groups += 3) {
        const bool runs = i == 0 || i == DRAW_STAGES - 1 || (!greedy && (i == 2 || cuts));
        groups[0] = runs ? x->dispatches[d->first + i].grid.x : 0;
        groups[1] = runs ? step->n_logits : 0;
        groups[2] = runs;
    }
    return true;
}

void vulkan_draw_done(struct vulkan_exec *x, const struct draw *draw)
{
    if (draw->count) x->draws.n_changes = draw->n_changes;
}

void vulkan_draw_take(struct vulkan_exec *x, const struct step *step)
{
    vulkan_draw_done(x, step->draw);
    memcpy(step->drawn, x->draws.drawn.data, step->n_logits * sizeof *step->drawn);
    vulkan_of(x)->vk->counters.bytes_back += step->n_logits * sizeof *step->drawn;
}
