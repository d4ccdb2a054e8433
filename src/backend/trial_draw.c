/* Draws from rows that are looked up in a table. */
#include "backend/trial_draw.h"

#include <math.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/draw.h"
#include "backend/impl.h"
#include "base/mem.h"
#include "gguf/random_blocks.h"

/* Several chunks of a vocabulary, and an end that is none. */
enum { N_VOCAB = 5003, N_ROWS = 3 };

struct request {
    float inverse_temp, top_p, min_x;
    uint32_t top_k;
    bool has_counts, has_bias;
};

static const struct request requests[] = {
    {.top_p = 1, .min_x = -INFINITY},
    {.top_p = 1, .min_x = -INFINITY, .has_counts = true, .has_bias = true},
    {.inverse_temp = 1.25f, .top_p = 1, .min_x = -3, .has_bias = true},
    {.inverse_temp = 1, .top_p = 0.9f, .min_x = -INFINITY},
    {.inverse_temp = 0.7f, .top_k = 40, .top_p = 0.95f, .min_x = -3, .has_counts = true},
};
enum { N_REQUESTS = sizeof requests / sizeof *requests };

static const struct draw_bias biases[] = {{7, 2.5f}, {2048, -INFINITY}};
static const int32_t distinct[] = {3, 2047, 5002};

/* The request of one row, or of all of them: every row has seen its own number once more. */
static struct draw draw_of(const struct request *r, uint32_t *count, const int32_t *recent)
{
    struct draw d = {
        .n_vocab = N_VOCAB,
        .seed = 0x123456789abcdefull,
        .inverse_temp = r->inverse_temp,
        .top_k = r->top_k,
        .top_p = (uint32_t)(r->top_p * (float)DRAW_WHOLE),
        .min_x = r->min_x,
        .repeat = 1.25f,
        .inverse_repeat = 0.8f,
        .frequency = 0.25f,
        .presence = 0.5f,
        .n_changes = DRAW_RECENT + 1,
        .recent = recent,
    };
    if (r->has_bias) d.bias = biases, d.n_bias = sizeof biases / sizeof *biases;
    if (!r->has_counts) return d;
    d.count = count;
    d.distinct = distinct;
    d.n_distinct = sizeof distinct / sizeof *distinct;
    return d;
}

/* All rows by the device, then each by the host from the logits that the device has. */
static bool try_request(struct exec *x, const struct request *r, struct draw_scratch *scratch,
                        float *logits, struct err *err)
{
    static const struct draw_count ahead[N_ROWS - 1] = {{3, 2}, {5002, 2}};
    static const uint32_t n_ahead[N_ROWS] = {0, 1, 2};
    static const int32_t tokens[N_ROWS] = {0, 1, 2}, recent[DRAW_RECENT];
    uint32_t *count = mem_zalloc(N_VOCAB, sizeof *count);
    for (size_t i = 0; i < sizeof distinct / sizeof *distinct; i++)
        count[distinct[i]] = 1;
    struct draw d = draw_of(r, count, recent);
    if (d.count) d.ahead = ahead, d.n_ahead = n_ahead;
    int32_t got[N_ROWS], want = -1;
    const struct step step = {
        .n_rows = N_ROWS, .tokens = tokens, .n_logits = N_ROWS, .draw = &d, .drawn = got};
    bool ok = exec_run(x, &step, err);
    for (uint32_t i = 0; ok && i < N_ROWS; i++) {
        if (i > 0) count[ahead[i - 1].id] = ahead[i - 1].n;
        ok =
            exec_logits(x, i, logits, err) && draw_host(scratch, &d, logits, i + 1, &want, err);
        if (ok && got[i] != want)
            ok = err_set(
                err, ERR_DEVICE,
                "%s: draws token %d where the CPU draws %d: it cannot give the same text",
                backend_name(x->be), (int)got[i], (int)want);
    }
    free(count);
    return ok;
}

static bool try_all(struct backend *be, const float *table, struct err *err)
{
    struct row_buffer rows = {"trial", ROW_F32, N_VOCAB};
    const struct ref all = {0, 0, N_VOCAB};
    struct op ops[] = {{.kind = OP_EMBED}, {.kind = OP_HEAD_ROWS}, {.kind = OP_LOGITS}};
    struct program p = {.buffers = &rows,
                        .n_buffers = 1,
                        .ops = ops,
                        .n_ops = sizeof ops / sizeof *ops,
                        .n_vocab = N_VOCAB};
    struct weight *w = backend_matrix(be, QTYPE_F32, 1, N_ROWS, N_VOCAB, table, NULL, err);
    if (!w) return false;
    ops[0].embed = (struct op_embed){.table = w, .out = all, .scale = 1};
    ops[2].logits = (struct op_logits){all, 1, 0};
    struct exec *x = exec_new(be, &p, N_ROWS, err);
    if (!x) return false;
    struct draw_scratch *scratch = draw_scratch_new(N_VOCAB);
    float *logits = mem_zalloc(N_VOCAB, sizeof *logits);
    bool ok = true;
    for (size_t i = 0; ok && exec_draws(x) && i < N_REQUESTS; i++)
        ok = try_request(x, &requests[i], scratch, logits, err);
    free(logits);
    draw_scratch_free(scratch);
    exec_free(x);
    return ok;
}

bool trial_draws(struct backend *be, struct err *err)
{
    float *table = mem_zalloc(N_ROWS * N_VOCAB, sizeof *table);
    struct random_blocks r = random_blocks_new(QTYPE_F32, 1, 1);
    for (size_t i = 0; i < N_ROWS * N_VOCAB; i++)
        table[i] = random_blocks_normal(&r) * 3;
    const bool ok = try_all(be, table, err);
    backend_reset(be);
    free(table);
    return ok;
}
