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

/* The draft knows fewer tokens. Each request makes blocks one after another: the first counts
 * are loaded, the later ones are told what changed, and the draft reads one row or two. */
enum { N_VOCAB = 67, N_DRAFT_VOCAB = 61, N_BEFORE = 9, N_REQUESTS = 6, N_BLOCKS = 3 };
enum { MOST_DRAFTS = 6, MOST_IDS = N_BEFORE + N_BLOCKS * (MOST_DRAFTS + 1) };

static const uint32_t drafts_of[N_BLOCKS] = {MOST_DRAFTS, 1, 4};

/* What is asked for. */
struct request {
    float inverse_temp;
    uint32_t window; /* of the penalties: the last so many tokens; 0: there are none */
};

static const struct request requests[N_REQUESTS] = {{0, 0},    {0, 3},     {1, 4},
                                                    {0.8f, 9}, {1.25f, 2}, {4, 3}};

struct tables {
    float *draft, *model; /* [n_vocab][n_vocab] of each */
};

/* The tokens so far, and what the penalties count of them. */
struct talk {
    int32_t ids[MOST_IDS];
    uint32_t n, n_read; /* n_read: by the draft */
    uint32_t window, count[N_VOCAB];
    int32_t recent[DRAW_RECENT];
    uint64_t n_changes;
};

static void change(struct talk *t, int32_t id, uint32_t by)
{
    t->count[id] += by;
    t->recent[t->n_changes++ % DRAW_RECENT] = id;
}

static void say(struct talk *t, int32_t id)
{
    t->ids[t->n++] = id;
    if (t->window == 0) return;
    change(t, id, 1);
    if (t->n > t->window) change(t, t->ids[t->n - 1 - t->window], -1u);
}

/* Another reply, of whose counts nothing is known. */
static void begin(struct talk *t, const struct request *r)
{
    static const int32_t before[N_BEFORE] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    const uint64_t n_changes = t->n_changes;
    *t = (struct talk){.n_read = N_BEFORE - 2, .window = r->window};
    for (int i = 0; i < N_BEFORE; i++)
        say(t, before[i]);
    t->n_changes = n_changes + 2 * (DRAW_RECENT + 1);
}

struct side {
    struct row_buffer rows;
    struct op ops[3];
    struct program p;
    struct exec *x;
};

static bool open_side(struct side *s, struct backend *be, const float *table, uint32_t n_vocab,
                      struct err *err)
{
    const struct ref all = {0, 0, n_vocab};
    s->rows = (struct row_buffer){"trial", ROW_F32, n_vocab};
    struct weight *w = backend_matrix(be, QTYPE_F32, 1, n_vocab, n_vocab, table, NULL, err);
    s->ops[0] = (struct op){.kind = OP_EMBED, .embed = {.table = w, .out = all, .scale = 1}};
    s->ops[1] = (struct op){.kind = OP_HEAD_ROWS};
    s->ops[2] = (struct op){.kind = OP_LOGITS, .logits = {all, 1, 0}};
    s->p = (struct program){.buffers = &s->rows,
                            .n_buffers = 1,
                            .ops = s->ops,
                            .n_ops = sizeof s->ops / sizeof *s->ops,
                            .n_vocab = n_vocab};
    s->x = w ? exec_new(be, &s->p, MOST_DRAFTS + 1, err) : NULL;
    return s->x != NULL;
}

static struct draw ask(const struct request *r, uint32_t n_vocab)
{
    return (struct draw){
        .n_vocab = n_vocab,
        .seed = 0xfedcba987654321ull + r->window,
        .inverse_temp = r->inverse_temp,
        .top_p = DRAW_WHOLE,
        .min_x = -INFINITY,
        .repeat = 2,
        .inverse_repeat = 0.5f,
        .frequency = 0.5f,
        .presence = 0.5f,
    };
}

/* What comes of a block: the first n_right drafts are right; drawn has them and the next. */
struct outcome {
    int32_t drawn[MOST_DRAFTS + 1];
    uint32_t n_right;
};

/* ---- what the host makes of it ---- */

/* The token after ids[0..n). */
static bool draw_after(const struct request *r, const float *table, uint32_t n_vocab,
                       const int32_t *ids, uint32_t n, struct draw_scratch *scratch,
                       int32_t *id, struct err *err)
{
    uint32_t count[N_VOCAB] = {0};
    int32_t distinct[N_VOCAB];
    struct draw d = ask(r, n_vocab);
    for (uint32_t i = n > r->window ? n - r->window : 0; i < n; i++)
        count[ids[i]]++;
    for (int32_t i = 0; (uint32_t)i < n_vocab; i++)
        if (count[i] > 0) distinct[d.n_distinct++] = i;
    d.distinct = distinct;
    if (r->window > 0) d.count = count;
    return draw_host(scratch, &d, table + (size_t)ids[n - 1] * n_vocab, n, id, err);
}

/* Of n drafts, step by step. */
static bool want_of(const struct request *r, const struct tables *tables, const struct talk *t,
                    uint32_t n, struct draw_scratch *scratch, struct outcome *out,
                    struct err *err)
{
    int32_t ids[MOST_IDS + MOST_DRAFTS], draft = -1;
    memcpy(ids, t->ids, t->n * sizeof *ids);
    for (out->n_right = 0;; out->n_right++) {
        const uint32_t at = t->n + out->n_right;
        int32_t *id = &out->drawn[out->n_right];
        if (!draw_after(r, tables->model, N_VOCAB, ids, at, scratch, id, err)) return false;
        if (out->n_right == n) return true;
        if (!draw_after(r, tables->draft, N_DRAFT_VOCAB, ids, at, scratch, &draft, err))
            return false;
        if (draft != *id) return true;
        ids[at] = draft;
    }
}

/* ---- what the backend does ---- */

/* A device takes no block before it knows what a step takes. */
static bool take_step(const struct side *s, struct err *err)
{
    static const int32_t first;
    float logits[N_VOCAB];
    const struct step step = {.n_rows = 1, .tokens = &first, .n_logits = 1, .logits = logits};
    return exec_run(s->x, &step, err);
}

/* What each of n drafts drives out of the window. */
static void find_leaves(const struct talk *t, uint32_t n, int32_t *leaves)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t left = (int32_t)(t->n + i) - (int32_t)t->window, size = (int32_t)t->n;
        leaves[i] = left < 0 ? -1 : left < size ? t->ids[left] : -2 - (left - size);
    }
}

/* A block of n drafts. */
static bool got_of(const struct request *r, const struct side *draft, const struct side *model,
                   const struct talk *t, uint32_t n, struct outcome *out, struct err *err)
{
    int32_t leaves[MOST_DRAFTS], tokens[MOST_DRAFTS + 1] = {t->ids[t->n - 1]};
    struct draw d = ask(r, N_VOCAB);
    d.n_changes = t->n_changes;
    d.recent = t->recent;
    if (r->window > 0) d.count = t->count, d.leaves = leaves;
    find_leaves(t, n, leaves);
    struct draw shared = d;
    shared.n_vocab = N_DRAFT_VOCAB;
    const struct step read = {.n_rows = t->n - t->n_read,
                              .pos = t->n_read,
                              .tokens = t->ids + t->n_read,
                              .n_logits = 1,
                              .draw = &shared};
    const struct step check = {.n_rows = n + 1,
                               .pos = t->n - 1,
                               .tokens = tokens,
                               .n_logits = n + 1,
                               .draw = &d,
                               .drawn = out->drawn};
    struct draft_block b = {
        .draft = draft->x, .model = model->x, .read = &read, .check = &check};
    if (!exec_block(&b, err)) return false;
    out->n_right = b.n_right;
    return true;
}

/* What came true is said, and the draft has read of it all but its last guess. A token that it
 * does not know becomes another: it must read it. */
static void go_on(struct talk *t, uint32_t n_drafts, const struct outcome *o)
{
    t->n_read = t->n + (o->n_right < n_drafts ? o->n_right : n_drafts - 1);
    for (uint32_t i = 0; i <= o->n_right; i++)
        say(t, o->drawn[i] % N_DRAFT_VOCAB);
}

static bool try_request(const struct request *r, const struct tables *tables,
                        const struct side *draft, const struct side *model, struct talk *t,
                        struct draw_scratch *scratch, struct err *err)
{
    struct outcome want = {0}, got = {0};
    begin(t, r);
    for (int i = 0; i < N_BLOCKS; i++) {
        const uint32_t n = drafts_of[i];
        if (!want_of(r, tables, t, n, scratch, &want, err) ||
            !got_of(r, draft, model, t, n, &got, err))
            return false;
        if (got.n_right != want.n_right ||
            memcmp(got.drawn, want.drawn, (got.n_right + 1) * sizeof *got.drawn) != 0)
            return err_set(err, ERR_DEVICE,
                           "%s: draws other tokens in a block of drafts than the CPU: it "
                           "cannot give the same text",
                           backend_name(model->x->be));
        go_on(t, n, &got);
    }
    return true;
}

static bool try_all(struct backend *be, const struct tables *tables, struct err *err)
{
    struct side draft = {0}, model = {0};
    struct talk t = {0};
    struct draw_scratch *scratch = draw_scratch_new(N_VOCAB);
    bool ok = open_side(&draft, be, tables->draft, N_DRAFT_VOCAB, err) &&
              open_side(&model, be, tables->model, N_VOCAB, err) && take_step(&draft, err) &&
              take_step(&model, err);
    const bool takes = ok && exec_takes_blocks(model.x, draft.x);
    for (size_t i = 0; ok && takes && i < N_REQUESTS; i++)
        ok = try_request(&requests[i], tables, &draft, &model, &t, scratch, err);
    exec_free(draft.x);
    exec_free(model.x);
    draw_scratch_free(scratch);
    return ok;
}

/* Logits from a fixed seed; the draft's are more or less like the model's. Some tokens are
 * likely everywhere: they come again and again, so that penalties decide. */
static void fill_tables(struct tables *t)
{
    struct random_blocks r = random_blocks_new(QTYPE_F32, 1, 1);
    float likely[N_VOCAB];
    for (size_t i = 0; i < N_VOCAB; i++)
        likely[i] = random_blocks_normal(&r);
    for (size_t k = 0; k < N_VOCAB * N_VOCAB; k++) {
        const size_t row = k / N_VOCAB, col = k % N_VOCAB;
        t->model[k] = likely[col] + random_blocks_normal(&r);
        const float other = random_blocks_normal(&r);
        if (row < N_DRAFT_VOCAB && col < N_DRAFT_VOCAB)
            t->draft[row * N_DRAFT_VOCAB + col] = t->model[k] + 0.3f * other;
    }
}

bool trial_blocks(struct backend *be, struct err *err)
{
    struct tables t = {mem_zalloc(N_DRAFT_VOCAB * N_DRAFT_VOCAB, sizeof *t.draft),
                       mem_zalloc(N_VOCAB * N_VOCAB, sizeof *t.model)};
    fill_tables(&t);
    const bool ok = try_all(be, &t, err);
    backend_reset(be);
    free(t.draft);
    free(t.model);
    return ok;
}
