/* Runs the small programs on two backends and compares what comes out. */
#include "backend/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/impl.h"
#include "backend/kv.h"
#include "backend/trial_block.h"
#include "backend/trial_build.h"
#include "backend/trial_draw.h"
#include "base/cancel.h"
#include "base/mem.h"

static void name_of(const struct program *p, const struct op *op, uint32_t i, char out[64])
{
    static const char *const names[] = {
        [OP_EMBED] = "an embedding",
        [OP_CENTRE] = "a mean",
        [OP_SIZE] = "a size",
        [OP_CUT] = "a cut",
        [OP_NORM] = "a norm",
        [OP_QUANTISE] = "codes",
        [OP_MATMUL] = "a product",
        [OP_ROPE] = "a rotation",
        [OP_ROW_SCALE] = "a scale by position",
        [OP_SCALE] = "a scale",
        [OP_FACTORS] = "factors",
        [OP_LIMIT] = "a limit",
        [OP_KV_STORE] = "stored keys",
        [OP_ATTEND] = "attention",
        [OP_GLU] = "a gated unit",
        [OP_XIELU] = "an xIELU",
        [OP_ADD] = "a sum",
        [OP_ROUTE] = "routing",
        [OP_COMBINE] = "experts' sum",
        [OP_MATMUL_EXPERTS] = "experts",
        [OP_CONV] = "a convolution",
        [OP_DECAY] = "a decay",
        [OP_RECUR] = "a recurrence",
        [OP_RUNS] = "runs of values",
        [OP_ROW_GATE] = "a gate",
        [OP_HEAD_ROWS] = "rows",
        [OP_LOGITS] = "logits",
        [OP_INPUT] = "rows of another device",
        [OP_OUTPUT] = "rows for another device",
    };
    const char *with = NULL;
    if (op->kind == OP_EMBED) with = qtype_info(op->embed.table->type)->name;
    const bool is_product = op->kind == OP_MATMUL,
               is_joint = is_product && i == op->matmul.n_mats;
    if (is_product) with = qtype_info(op->matmul.mat[is_joint ? 0 : i].w->type)->name;
    if (op->kind == OP_MATMUL_EXPERTS) with = qtype_info(op->experts.w->type)->name;
    if (op->kind == OP_ATTEND) with = kv_type_name(p->kv[op->attend.kv].type);
    snprintf(out, 64, "%s%s%s", is_joint ? "joint products" : names[op->kind],
             with ? " of " : "", with ? with : "");
}

/* A block of drafts of which two are accepted: the states after these. */
static bool run_drafts(struct trial *t, struct exec *x, const struct step *last,
                       void *states[2], float *out)
{
    struct step step = *last;
    step.n_rows = step.n_logits = 4;
    step.logits = mem_zalloc(4 * t->p.n_vocab, sizeof *step.logits);
    step.keeps_trail = true;
    step.state_in = states[0];
    step.state_out = states[1];
    bool ok = exec_run(x, &step, t->err) && exec_advance(x, states[0], states[1], 2, t->err);
    free(step.logits);
    if (ok) backend_state_read(t->be, states[1], t->p.state_bytes, out);
    return ok;
}

/* All rows of all steps on one backend: their results, then the states after these and after
 * two of a block of drafts; NULL: it failed. */
static float *run(struct trial *t, struct ref result, void *const *pages, void *states[2],
                  size_t *n_values)
{
    const uint32_t rows[TRIAL_STEPS] = {t->first_rows, 4, 2, 1};
    int32_t tokens[TRIAL_ROWS];
    /* None is its position. */
    for (int i = 0; i < TRIAL_ROWS; i++)
        tokens[i] = (i + 1) % TRIAL_ROWS;
    const size_t n_state = t->p.state_bytes / sizeof(float);
    *n_values = (t->first_rows + 7) * result.n + 2 * n_state;
    float *out = mem_zalloc(*n_values, sizeof *out);
    struct exec *x = exec_new(t->be, &t->p, t->first_rows, t->err);
    bool ok = x != NULL;
    float *input = mem_zalloc(TRIAL_ROWS * t->p.n_input + 1, sizeof *input);
    for (size_t i = 0; i < TRIAL_ROWS * t->p.n_input; i++)
        input[i] = (float)i;
    struct step step = {.tokens = tokens, .input = input, .pages = {pages, NULL}};
    for (int i = 0; ok && i < TRIAL_STEPS; i++) {
        step.n_rows = step.n_logits = rows[i];
        step.logits = out + step.pos * result.n;
        step.state_in = states[i % 2];
        step.state_out = states[(i + 1) % 2];
        ok = exec_run(x, &step, t->err);
        step.pos += rows[i];
        step.tokens += rows[i];
        step.input += rows[i] * t->p.n_input;
    }
    if (ok && n_state) { /* an even number of steps: the last state is the first object */
        float *after = out + *n_values - 2 * n_state;
        backend_state_read(t->be, states[0], t->p.state_bytes, after);
        ok = run_drafts(t, x, &step, states, after + n_state);
    }
    exec_free(x);
    free(input);
    if (ok) return out;
    free(out);
    return NULL;
}

static bool has_memory(const struct trial *t, void *pages[2], void *states[2])
{
    for (int i = 0; i < 2; i++) {
        if (t->p.n_kv)
            pages[i] =
                backend_page_new(t->be, t->p.page_bytes[PAGE_FULL], t->p.page_unit[PAGE_FULL]);
        if (t->p.n_states) states[i] = backend_state_new(t->be, t->p.state_bytes);
        if ((t->p.n_kv && !pages[i]) || (t->p.n_states && !states[i]))
            return err_set(t->err, ERR_MEMORY, "%s: no memory for its self-test",
                           backend_name(t->be));
    }
    return true;
}

/* One kernel of one op on one backend. *width: values of a row. */
static float *try_one(struct backend *be, const struct program *p, const struct op *op,
                      uint32_t i, size_t *width, size_t *n_values, struct err *err)
{
    struct trial t = {.be = be, .of = p, .seed = 1, .first_rows = TRIAL_FEW, .err = err};
    const struct ref result = trial_build(&t, op, i);
    *width = result.n;
    void *pages[2] = {0}, *states[2] = {0};
    float *out = NULL;
    if (!t.failed && has_memory(&t, pages, states))
        out = run(&t, result, pages, states, n_values);
    for (int k = 0; k < 2; k++) {
        backend_page_free(be, pages[k], t.p.page_bytes[PAGE_FULL]);
        backend_state_free(be, states[k], t.p.state_bytes);
    }
    backend_reset(be);
    trial_free(&t);
    return out;
}

static bool same(const float *got, const float *want, size_t n, size_t width,
                 const struct backend *be, const char *name, struct err *err)
{
    if (memcmp(got, want, n * sizeof *got) == 0) return true;
    size_t i = 0;
    while (memcmp(&got[i], &want[i], sizeof *got) == 0)
        i++;
    return err_set(err, ERR_DEVICE,
                   "%s: computes %s otherwise than the CPU (value %zu of row %zu is %a instead "
                   "of %a): it cannot give the same bits",
                   backend_name(be), name, i % width, i / width, (double)got[i],
                   (double)want[i]);
}

static bool compare(struct backend *be, struct backend *reference, const struct program *p,
                    const struct op *op, uint32_t i, struct err *err)
{
    size_t width, n_got, n_want;
    char name[64];
    name_of(p, op, i, name);
    float *want = try_one(reference, p, op, i, &width, &n_want, err);
    float *got = want ? try_one(be, p, op, i, &width, &n_got, err) : NULL;
    const bool ok = got && same(got, want, n_want, width, be, name, err);
    free(got);
    free(want);
    return ok;
}

bool trial_program(struct backend *be, struct backend *reference, const struct program *p,
                   const atomic_bool *cancel, size_t *n_ops, struct err *err)
{
    struct trial_key *done = NULL;
    size_t n = 0, cap = 0;
    bool ok = true;
    for (size_t at = 0; ok && at < p->n_ops; at++) {
        const struct op *op = &p->ops[at];
        const uint32_t n_kernels = trial_kernels(op);
        for (uint32_t i = 0; ok && i < n_kernels; i++) {
            const struct trial_key key = trial_key(p, op, i);
            size_t k = 0;
            while (k < n && memcmp(&done[k], &key, sizeof key) != 0)
                k++;
            if (k < n) continue;
            MEM_GROW(done, n, cap);
            done[n++] = key;
            ok = cancel_is_set(cancel) ? err_set(err, ERR_CANCELLED, "cancelled")
                                       : compare(be, reference, p, op, i, err);
        }
    }
    free(done);
    if (n_ops) *n_ops = n;
    return ok && trial_draws(be, err) && trial_blocks(be, err);
}
