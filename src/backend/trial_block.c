/* Blocks of drafts over two tables: a row of the draft's, a row of the model's, for every
 * token. */
#include "backend/trial_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/draw.h"
#include "backend/impl.h"
#include "base/mem.h"
#include "gguf/random_blocks.h"

/* The tokens before the block, which the penalties count: the last WINDOW of them. */
enum { N_VOCAB = 67, N_DRAFTS = 6, N_BEFORE = 9, N_REQUESTS = 6 };

static const int32_t before[N_BEFORE] = {3, 1, 4, 1, 5, 9, 2, 6, 5};

/* How much of the model's table the draft's shares, and what is asked for. */
struct request {
    float shared, inverse_temp;
    uint32_t window; /* of the penalties; 0: there are none */
};

static const struct request requests[N_REQUESTS] = {{0.9f, 0, 0}, {0.9f, 0, 3},     {1, 1, 4},
                                                    {1, 0.8f, 9}, {0.9f, 1.25f, 2}, {1, 4, 3}};

struct tables {
    float *draft, *model; /* [N_VOCAB][N_VOCAB] */
};

struct side {
    struct row_buffer rows;
    struct op ops[3];
    struct program p;
    struct exec *x;
};

static bool open_side(struct side *s, struct backend *be, const float *table, struct err *err)
{
    const struct ref all = {0, 0, N_VOCAB};
    s->rows = (struct row_buffer){"trial", ROW_F32, N_VOCAB};
    struct weight *w = backend_matrix(be, QTYPE_F32, 1, N_VOCAB, N_VOCAB, table, NULL, err);
    s->ops[0] = (struct op){.kind = OP_EMBED, .embed = {w, all, 1}};
    s->ops[1] = (struct op){.kind = OP_HEAD_ROWS};
    s->ops[2] = (struct op){.kind = OP_LOGITS, .logits = {all, 1, 0}};
    s->p = (struct program){.buffers = &s->rows,
                            .n_buffers = 1,
                            .ops = s->ops,
                            .n_ops = sizeof s->ops / sizeof *s->ops,
                            .n_vocab = N_VOCAB};
    s->x = w ? exec_new(be, &s->p, N_DRAFTS + 1, err) : NULL;
    return s->x != NULL;
}

/* What counts among n tokens. */
static void count_window(const int32_t *ids, uint32_t n, uint32_t window, uint32_t *count)
{
    memset(count, 0, N_VOCAB * sizeof *count);
    for (uint32_t i = n > window ? n - window : 0; i < n; i++)
        count[ids[i]]++;
}

static void ask(const struct request *r, const uint32_t *count, const int32_t *recent,
                struct draw *d)
{
    *d = (struct draw){
        .n_vocab = N_VOCAB,
        .seed = 0xfedcba987654321ull,
        .inverse_temp = r->inverse_temp,
        .top_p = DRAW_WHOLE,
        .min_x = -INFINITY,
        .repeat = 2,
        .inverse_repeat = 0.5f,
        .frequency = 0.5f,
        .presence = 0.5f,
        .n_changes = DRAW_RECENT + 1,
        .recent = recent,
    };
    if (r->window > 0) d->count = count;
}

/* The token after ids[0..n), by the host. */
static bool draw_after(const struct request *r, const float *table, const int32_t *ids,
                       uint32_t n, struct draw_scratch *scratch, int32_t *id, struct err *err)
{
    uint32_t count[N_VOCAB];
    int32_t distinct[N_VOCAB];
    struct draw d;
    ask(r, count, NULL, &d);
    count_window(ids, n, r->window, count);
    for (int32_t i = 0; i < N_VOCAB; i++)
        if (count[i] > 0) distinct[d.n_distinct++] = i;
    d.distinct = distinct;
    return draw_host(scratch, &d, table + ids[n - 1] * N_VOCAB, n, id, err);
}

/* The drafts that were right and the draw after them, as the host makes them step by step. */
static bool want_of(const struct request *r, const struct tables *t, int32_t *drawn,
                    uint32_t *n_right, struct draw_scratch *scratch, struct err *err)
{
    int32_t ids[N_BEFORE + N_DRAFTS], draft = -1;
    memcpy(ids, before, sizeof before);
    for (*n_right = 0;; ++*n_right) {
        const uint32_t n = N_BEFORE + *n_right;
        int32_t *id = &drawn[*n_right];
        if (!draw_after(r, t->model, ids, n, scratch, id, err)) return false;
        if (*n_right == N_DRAFTS) return true;
        if (!draw_after(r, t->draft, ids, n, scratch, &draft, err)) return false;
        if (draft != *id) return true;
        ids[n] = draft;
    }
}

/* A device takes no block before it knows what a step takes. */
static bool take_step(const struct side *s, struct err *err)
{
    float logits[N_VOCAB];
    const struct step step = {.n_rows = 1, .tokens = before, .n_logits = 1, .logits = logits};
    return exec_run(s->x, &step, err);
}

static bool got_of(const struct request *r, const struct side *draft, const struct side *model,
                   int32_t *drawn, uint32_t *n_right, struct err *err)
{
    static const int32_t recent[DRAW_RECENT];
    uint32_t count[N_VOCAB];
    int32_t leaves[N_DRAFTS], tokens[N_DRAFTS + 1] = {before[N_BEFORE - 1]};
    struct draw d;
    ask(r, count, recent, &d);
    count_window(before, N_BEFORE, r->window, count);
    for (int32_t i = 0; i < N_DRAFTS; i++) {
        const int32_t left = N_BEFORE + i - (int32_t)r->window;
        leaves[i] = left < 0 ? -1 : left < N_BEFORE ? before[left] : -2 - (left - N_BEFORE);
    }
    if (d.count) d.leaves = leaves;
    const struct step read = {.n_rows = 2,
                              .pos = N_BEFORE - 2,
                              .tokens = before + N_BEFORE - 2,
                              .n_logits = 1,
                              .draw = &d};
    const struct step check = {.n_rows = N_DRAFTS + 1,
                               .pos = N_BEFORE - 1,
                               .tokens = tokens,
                               .n_logits = N_DRAFTS + 1,
                               .draw = &d,
                               .drawn = drawn};
    struct draft_block b = {
        .draft = draft->x, .model = model->x, .read = &read, .check = &check};
    if (!exec_block(&b, err)) return false;
    *n_right = b.n_right;
    return true;
}

static bool try_request(const struct request *r, struct tables *t, struct backend *be,
                        struct draw_scratch *scratch, struct err *err)
{
    int32_t want[N_DRAFTS + 1], got[N_DRAFTS + 1];
    uint32_t n_want, n_got;
    struct side draft = {0}, model = {0};
    bool ok = open_side(&draft, be, t->draft, err) && open_side(&model, be, t->model, err) &&
              take_step(&draft, err) && take_step(&model, err);
    if (ok && exec_takes_blocks(model.x, draft.x))
        ok =
            want_of(r, t, want, &n_want, scratch, err) &&
            got_of(r, &draft, &model, got, &n_got, err) &&
            ((n_got == n_want && memcmp(got, want, (n_got + 1) * sizeof *got) == 0) ||
             err_set(err, ERR_DEVICE,
                     "%s: draws other tokens in a block of drafts than the CPU: it cannot give "
                     "the same text",
                     backend_name(be)));
    exec_free(draft.x);
    exec_free(model.x);
    return ok;
}

bool trial_blocks(struct backend *be, struct err *err)
{
    const size_t n = N_VOCAB * N_VOCAB;
    struct tables t = {mem_zalloc(n, sizeof *t.draft), mem_zalloc(n, sizeof *t.model)};
    struct draw_scratch *scratch = draw_scratch_new(N_VOCAB);
    bool ok = true;
    for (size_t i = 0; ok && i < N_REQUESTS; i++) {
        struct random_blocks r = random_blocks_new(QTYPE_F32, 1, i + 1);
        for (size_t k = 0; k < n; k++) {
            t.model[k] = random_blocks_normal(&r);
            const float other = random_blocks_normal(&r);
            t.draft[k] = t.model[k] + (1 - requests[i].shared) * other;
        }
        ok = try_request(&requests[i], &t, be, scratch, err);
        backend_reset(be);
    }
    draw_scratch_free(scratch);
    free(t.draft);
    free(t.model);
    return ok;
}
