/* What the files of the Vulkan backend share: backend.c (the table, weights), plan.c and
 * dispatch.h (ops become dispatches), record.c (command buffers), step.c and exec.c (a step),
 * states.c (recurrent states), draw.c (tokens), block.c (drafts and their check at once). */
#ifndef VULKAN_IMPL_H
#define VULKAN_IMPL_H

#include "backend/impl.h"
#include "vulkan/pages.h"
#include "vulkan/pipeline.h"

/* Rows first..first+n_rows-1 of every matrix of a weight, in whole tiles: as much of it as a
 * device binds at once. */
struct vulkan_piece {
    struct vulkan_region region;
    VkBufferView view; /* none: a vector */
    size_t first, n_rows;
};

struct vulkan_weight {
    struct weight base; /* first */
    struct vulkan_piece *pieces;
    size_t n_pieces; /* 1 of a vector */
    struct vulkan_weight *next;
};

struct vulkan_backend {
    struct backend base; /* first */
    struct backend_impl impl;
    struct vulkan_choice choice;
    char *cache_dir;   /* of choice */
    struct vulkan *vk; /* shared with the backends beside it; the last one closes it */
    struct vulkan_pipelines pipelines;
    struct vulkan_staging staging;
    struct vulkan_arena memory; /* of weights */
    struct vulkan_weight *weights;
    struct vulkan_pages pages;
    uint64_t state_version;  /* changes when an object of states may have others, or is freed */
    struct vulkan_exec *due; /* that has put an advance of states off; NULL: none has */
    bool differs;            /* in its elementary functions: */
    struct err difference;
    char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE + 32];
};

/* Row counts that command buffers are recorded for: up to 1, 2, 4 rows, and any number, in
 * groups of 8. */
enum { N_BUCKETS = 4 };
/* Of a draw: bias and penalties, bins, the list, the token. */
enum { DRAW_STAGES = 4 };
/* The body runs for all rows, the head (what follows OP_HEAD_ROWS) for those whose logits are
 * wanted; a step that keeps its trail runs the body with the copies that it takes; the trail
 * advances the states alone; the draw makes tokens of the head's logits. */
enum { PART_BODY, PART_HEAD, PART_KEEP, PART_ADVANCE, PART_DRAW, N_PARTS };

/* A row buffer on the device. */
struct vulkan_rows {
    struct vulkan_region region;
    VkBufferView view;
    size_t stride; /* of a row: floats, texels (ROW_A8) or words (ROW_ROUTE) */
};

enum vulkan_grid_kind {
    GRID_ROWS,    /* x groups for every row */
    GRID_MATMUL,  /* the values of every matrix, for every block of rows */
    GRID_EXPERTS, /* the values of one, for every row and rank */
    GRID_STORE,   /* x groups for the slots and pages that the step writes to a slab */
    GRID_ATTEND,  /* queries of the row block, for every page of a slab */
    GRID_FOLD,    /* x heads, for every row of the row block */
    GRID_ONCE,    /* x groups, whatever the rows */
};

struct vulkan_grid {
    enum vulkan_grid_kind kind;
    uint32_t x;
    uint32_t n_values[3];   /* GRID_MATMUL, GRID_EXPERTS: of each matrix; 0: there is none */
    uint32_t n_used;        /* GRID_EXPERTS */
    uint32_t n_stripes;     /* GRID_MATMUL, GRID_EXPERTS: of a row */
    uint32_t slab;          /* GRID_STORE, GRID_ATTEND: its number in the plan */
    uint32_t n_kv, n_group; /* GRID_ATTEND */
    bool has_wide_groups;   /* GRID_ATTEND: those of attend_wide.glsl */
    uint32_t first, n_rows; /* GRID_ATTEND, GRID_FOLD: the row block */
};

struct vulkan_dispatch {
    struct vulkan_variant variant;
    VkDescriptorSet set;
    uint32_t push[VULKAN_PUSH_BYTES / 4], n_push;
    struct vulkan_grid grid;
    uint64_t reads, writes; /* resources, by bit */
    int part, layer;        /* PART_KEEP: what it has beyond PART_BODY */
    size_t op;              /* index in the program */
};

/* A slab that one part of a program's pages may lie in, and the tables of the step that belong
 * to it. */
struct vulkan_plan_slab {
    enum page_part part;
    size_t index; /* of pages.slabs */
    uint32_t attend_at, store_at;
};

/* What a step has in a slab: pages, pages it writes, the most pairs of slots of one of these.
 */
struct vulkan_slab_use {
    uint32_t n_pages, n_stored, n_slot_pairs;
};

/* Command buffers of one part and bucket, one per layer. */
struct vulkan_recorded {
    VkCommandBuffer *commands;
    uint32_t n;
    bool is_done;
};

/* What draws need on the device, for as many rows as one step draws from. */
struct vulkan_draws {
    struct vulkan_region counts, bias;   /* [n_vocab] */
    struct vulkan_region adjusted, list; /* [rows][n_vocab] logits; ids */
    struct vulkan_region marks;          /* draw_layout.h */
    struct vulkan_region drawn;          /* [rows] ids, seen by the host */
    uint64_t n_changes; /* of struct draw, as far as counts has them; 0: nothing is there */
    uint32_t at;        /* word of the step where the request begins */
    size_t first;       /* of its DRAW_STAGES dispatches */
};

/* An advance that is put off: the states `to` are to be made of `from` by the first rows of the
 * exec's trail. */
struct vulkan_advance {
    struct vulkan_state *from, *to;
    uint32_t n_rows; /* 0: there are none to be made */
};

struct vulkan_exec {
    struct exec base; /* first */
    const struct program *p;
    uint32_t max_rows, max_head_rows;
    struct vulkan_arena scratch; /* rows; lives as long as the exec */
    struct vulkan_rows *rows;    /* per buffer */
    struct vulkan_rows q8;       /* queries as A8, where the KV type stores codes */
    struct vulkan_region
        nothing;                 /* bound where a shader names a result that it does not make */
    size_t direct;               /* the buffer that is the logits, or n_buffers */
    struct vulkan_region state;  /* recurrent states at work, after the last step */
    const void *state_of;        /* the object that holds the same; NULL: none */
    uint64_t state_version;      /* of the objects when that was so */
    struct vulkan_region *trail; /* per state: TRAIL_ROWS rows of what its op takes in */
    bool has_trail;              /* of the last step */
    struct vulkan_advance due;   /* what was put off: the next submission begins with it */
    struct vulkan_arena host;
    struct vulkan_region logits; /* [max_head_rows][n_vocab] */
    struct vulkan_region input;  /* [max_rows][n_input], seen by the host */
    struct vulkan_draws draws;

    /* The plan: made again when a slab is added. */
    uint64_t generation;
    uint64_t plan; /* its number, of all that were made on the device */
    bool is_planned;
    struct vulkan_arena tables, step_memory; /* of parts; of step */
    struct vulkan_region step, parts;

    struct vulkan_sets sets;
    struct vulkan_dispatch *dispatches;
    size_t n_dispatches, cap_dispatches;
    size_t *of_few, n_of_few; /* those that steps of few rows have (vulkan_has_few) */
    struct vulkan_plan_slab *slabs;
    size_t n_slabs;
    uint32_t tokens_at, *rope_at, *factor_at, indirect_at; /* words of the step */
    uint32_t block_rows; /* rows of attention that the parts have room for */
    struct vulkan_recorded recorded[N_PARTS][N_BUCKETS];
    struct vulkan_slab_use *use; /* of each slab, in the step under way */
    VkCommandBuffer *all;        /* what is submitted at once */
    uint32_t n_all, cap_all;
    struct vulkan_link *link; /* block.c: to the model that it drafts for; NULL: none yet */
    double step_ms;    /* of the last step; of one in pieces, but for its head; 0: not yet */
    double segment_ms; /* measured time of one command buffer of steps in pieces; 0: not yet */
    uint32_t segment_rows; /* of that step */
};

/* Recurrent states after some number of tokens. */
struct vulkan_state {
    struct vulkan_arena memory;
    struct vulkan_region region;
    /* Recorded for the plan of an exec: the copy to its states at work, and the copy back. */
    VkCommandBuffer take, give;
    uint64_t plan; /* 0: nothing is */
};

/* ---- plan_check.c, plan.c ---- */

/* Whether every op of the program can be run; names what cannot. */
bool vulkan_plan_check(const struct vulkan_backend *be, const struct program *p,
                       struct err *err);
bool vulkan_plan_make(struct vulkan_exec *x, struct err *err);
/* Values per row of the trail of an op; 0: it has no state. (plan_recurrent.c) */
size_t vulkan_trail_width(const struct op *op);
void vulkan_plan_free(struct vulkan_exec *x);

/* ---- draw.c ---- */

size_t vulkan_draw_words(void); /* that a request takes of a step */
size_t vulkan_draw_bytes(const struct program *p, uint32_t max_rows);
bool vulkan_draw_memory(struct vulkan_exec *x, struct err *err);
bool vulkan_plan_draw(struct vulkan_exec *x, struct err *err);
/* Writes the request of a step (step->draw) and how many groups its stages take. ahead: how
 * many drafts of a block the model has drawn before this step; 0 outside of a block. Only with
 * 0 the counts that changed since the last draw are written: the later steps find them on the
 * device. */
bool vulkan_draw_write(struct vulkan_exec *x, const struct step *step, uint32_t ahead,
                       struct err *err);
/* The draw is done: the counts on the device are those that it had. */
void vulkan_draw_done(struct vulkan_exec *x, const struct draw *draw);
/* The same, and step->drawn gets the tokens. */
void vulkan_draw_take(struct vulkan_exec *x, const struct step *step);

/* ---- record.c ---- */

uint32_t vulkan_bucket(uint32_t n_rows);
/* Whether the command buffers for few rows (of all buckets but the last) have the dispatch: one
 * for a row block of attention behind these rows they do not have. */
bool vulkan_has_few(const struct vulkan_dispatch *d);
/* Work groups of a dispatch for n_rows rows of its part. */
void vulkan_groups(const struct vulkan_exec *x, const struct vulkan_dispatch *d,
                   uint32_t bucket, uint32_t n_rows, const struct vulkan_slab_use *use,
                   uint32_t groups[3]);
/* What the stages `to` do with memory waits for what the stages `from` wrote. */
void vulkan_wait_for(VkCommandBuffer c, VkPipelineStageFlags from, VkAccessFlags wrote,
                     VkPipelineStageFlags to, VkAccessFlags uses);
/* The command buffers of a part and bucket, recorded if it is the first time. */
const struct vulkan_recorded *vulkan_recorded(struct vulkan_exec *x, int part, uint32_t bucket,
                                              struct err *err);
void vulkan_records_free(struct vulkan_exec *x);
/* Into c, which is begun and is ended: all dispatches of a step of n_rows with one row of
 * logits, each behind a barrier and before a timestamp of pool; another comes first. ops[i] is
 * the op of the i-th dispatch, *n how many. */
bool vulkan_record_timed(struct vulkan_exec *x, uint32_t n_rows, VkCommandBuffer c,
                         VkQueryPool pool, size_t *ops, uint32_t *n, struct err *err);

/* ---- step.c ---- */

/* Makes the plan if there is none, or if slabs were added since. */
bool vulkan_need_plan(struct vulkan_exec *x, struct err *err);
/* Appends command buffers to those that x submits at once (x->all). */
void vulkan_add_all(struct vulkan_exec *x, uint32_t n, const VkCommandBuffer *commands);
/* Writes what the shaders read of a step, but for its head and its draw. */
void vulkan_step_write(struct vulkan_exec *x, const struct step *step);
/* Writes that the head runs for rows lo..hi-1. */
void vulkan_head_write(struct vulkan_exec *x, uint32_t lo, uint32_t hi);
/* Writes how many groups each dispatch of a part has for n_rows rows of it; for few rows only
 * of those dispatches that are recorded for them (vulkan_has_few). */
void vulkan_group_counts(const struct vulkan_exec *x, int part, uint32_t n_rows);

/* ---- states.c ---- */

void *vulkan_state_new(struct backend *be, size_t state_bytes);
void vulkan_state_free(struct backend *be, void *state, size_t state_bytes);
void vulkan_state_read(struct backend *be, const void *state, size_t state_bytes, void *host);
void vulkan_state_write(struct backend *be, void *state, size_t state_bytes, const void *host);

/* A step calls the next four, in this order: the first two while it is put together, the third
 * once the submission that the first added to is done, the fourth once all of it is. `of` is
 * its exec, which is planned; x is the exec whose list of command buffers (x->all) is
 * submitted: the same, but in a block of drafts the draft's, for both models. Without recurrent
 * layers they do nothing. */
/* Adds what the step begins with: the advance that `of` has put off, if it has, and the copy of
 * `in` to the states at work, unless these have it already. An advance that another exec has
 * put off is made first (vulkan_states_settle). */
bool vulkan_states_begin(struct vulkan_exec *x, struct vulkan_exec *of, const void *in,
                         struct err *err);
/* Adds the copy of the states at work to `out`. */
bool vulkan_states_give(struct vulkan_exec *x, struct vulkan_exec *of, void *out,
                        struct err *err);
/* `of` has no advance put off any more. */
void vulkan_states_begun(struct vulkan_exec *of);
/* The step is done: `out` and the states at work are the same. */
void vulkan_states_done(struct vulkan_exec *of, const void *out);
/* Makes the advance that an exec has put off, if one has, in a submission of its own. On
 * failure it stays put off. */
bool vulkan_states_settle(struct vulkan_backend *vb, struct err *err);
/* The same if it is x that has put one off, before states that the advance reads or makes are
 * read, written or freed. On failure it is given up, and the device counts as lost. */
void vulkan_states_end(struct vulkan_exec *x);
bool vulkan_exec_advance(struct exec *x, const void *state_in, void *state_out, uint32_t n_rows,
                         struct err *err);

/* ---- times.c ---- */

bool vulkan_exec_time(struct exec *x, const struct step *step, double *ms, struct err *err);

/* ---- block.c ---- */

bool vulkan_takes_blocks(const struct exec *model, const struct exec *draft);
bool vulkan_exec_block(struct draft_block *b, struct err *err);
void vulkan_link_free(struct vulkan_exec *x);

/* ---- exec.c ---- */

size_t vulkan_exec_bytes(const struct backend *be, const struct program *p, uint32_t max_rows);
struct exec *vulkan_exec_new(struct backend *be, const struct program *p, uint32_t max_rows,
                             struct err *err);
void vulkan_exec_free(struct exec *x);
bool vulkan_exec_run(struct exec *x, const struct step *step, struct err *err);
bool vulkan_exec_logits(struct exec *x, uint32_t i, float *logits, struct err *err);

static inline struct vulkan_backend *vulkan_of(const struct vulkan_exec *x)
{
    return (struct vulkan_backend *)x->base.be;
}

/* A8: texels of a block of 32 values. */
static inline uint32_t vulkan_a8_texels(const struct vulkan *vk)
{
    return vk->has_packed_dot ? 3 : 5;
}

#endif
