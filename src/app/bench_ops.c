/* What each kind of op of a model takes, by the device's own clock, and what steps of them take
 * by this machine's: what it does beside the ops, and waits. */
#include "app/bench_modes.h"

#include <stdlib.h>
#include <string.h>

#include "app/bench_tools.h"
#include "app/command_line.h"
#include "backend/backend.h"
#include "backend/impl.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/philox.h"
#include "engine/machine.h"
#include "model/program.h"

enum { N_PROMPT = 512, N_TOKENS = 8, MOST_PAGES = (N_PROMPT + N_TOKENS) / PAGE_LEN + 1 };

struct ops_bench {
    struct machine m;
    const struct program *p;
    struct exec *exec;
    void *pages[PAGE_PARTS][MOST_PAGES], *states[2];
    int32_t tokens[N_PROMPT + N_TOKENS];
    uint32_t n_prompt;
    float *logits;
    double *prefill_ms, *decode_ms; /* per op of the program */
    double prefill_wall_ms, decode_wall_ms;
};

static bool prepare(struct ops_bench *b, struct err *err)
{
    b->p = model_program(b->m.model);
    if (b->m.n_ctx <= N_TOKENS)
        return err_set(err, ERR_USAGE, "a context of more than %d tokens is needed", N_TOKENS);
    b->n_prompt = b->m.n_ctx - N_TOKENS < N_PROMPT ? b->m.n_ctx - N_TOKENS : N_PROMPT;
    b->logits = mem_zalloc(b->p->n_vocab, sizeof *b->logits);
    b->prefill_ms = mem_zalloc(b->p->n_ops, sizeof *b->prefill_ms);
    b->decode_ms = mem_zalloc(b->p->n_ops, sizeof *b->decode_ms);
    for (uint32_t i = 0; i < N_PROMPT + N_TOKENS; i++)
        b->tokens[i] = (int32_t)(philox(0, i, 0, 0, PHILOX_BENCH).word[0] % b->p->n_vocab);
    bool ok = true;
    for (int part = 0; part < PAGE_PARTS; part++)
        for (int i = 0; b->p->page_bytes[part] && i < MOST_PAGES; i++) {
            b->pages[part][i] =
                backend_page_new(b->m.be, b->p->page_bytes[part], b->p->page_unit[part]);
            ok = ok && b->pages[part][i];
        }
    for (int i = 0; b->p->state_bytes && i < 2; i++) {
        b->states[i] = backend_state_new(b->m.be, b->p->state_bytes);
        ok = ok && b->states[i];
    }
    if (!ok)
        return err_set(err, ERR_MEMORY, "no memory for the pages of %u tokens", b->n_prompt);
    b->exec = exec_new(b->m.be, b->p, N_PROMPT, err);
    return b->exec != NULL;
}

static void release(struct ops_bench *b)
{
    exec_free(b->exec);
    for (int part = 0; part < PAGE_PARTS; part++)
        for (int i = 0; i < MOST_PAGES; i++)
            if (b->p) backend_page_free(b->m.be, b->pages[part][i], b->p->page_bytes[part]);
    for (int i = 0; i < 2; i++)
        if (b->p) backend_state_free(b->m.be, b->states[i], b->p->state_bytes);
    free(b->logits);
    free(b->prefill_ms);
    free(b->decode_ms);
    machine_close(&b->m);
}

/* Adds what a step takes; it has run before, for what it needs was compiled then. */
static bool time_step(struct ops_bench *b, const struct step *step, double *wall_ms,
                      struct err *err)
{
    const double start = clock_ms();
    if (!exec_run(b->exec, step, err)) return false;
    *wall_ms += clock_ms() - start;
    return true;
}

static bool measure(struct ops_bench *b, struct err *err)
{
    struct step step = {.n_rows = b->n_prompt,
                        .tokens = b->tokens,
                        .pages = {b->pages[PAGE_FULL], b->pages[PAGE_WINDOW]},
                        .n_logits = 1,
                        .logits = b->logits,
                        .state_in = b->states[0],
                        .state_out = b->states[1]};
    if (!exec_time(b->exec, &step, b->prefill_ms, err) ||
        !time_step(b, &step, &b->prefill_wall_ms, err))
        return false;
    step.n_rows = 1;
    for (int i = 0; i < N_TOKENS; i++) {
        step.pos = b->n_prompt + (uint32_t)i;
        step.tokens = b->tokens + step.pos;
        step.state_in = b->states[(i + 1) % 2];
        step.state_out = b->states[i % 2];
        if (!exec_time(b->exec, &step, b->decode_ms, err) ||
            !time_step(b, &step, &b->decode_wall_ms, err))
            return false;
    }
    for (size_t i = 0; i < b->p->n_ops; i++)
        b->decode_ms[i] /= N_TOKENS;
    b->decode_wall_ms /= N_TOKENS;
    return true;
}

/* Ops of one kind, products by the type of their weights. */
struct line {
    const char *name, *type;
    size_t n;
    double prefill_ms, decode_ms;
};

static struct line *gather(const struct ops_bench *b, size_t *n)
{
    struct line *lines = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t i = 0; i < b->p->n_ops; i++) {
        const struct op *op = &b->p->ops[i];
        if (b->prefill_ms[i] == 0 && b->decode_ms[i] == 0) continue;
        const struct weight *w = op->kind == OP_MATMUL           ? op->matmul.mat[0].w
                                 : op->kind == OP_MATMUL_EXPERTS ? op->experts.w
                                                                 : NULL;
        const char *name = op_kind_name(op->kind), *type = w ? qtype_info(w->type)->name : "";
        size_t k = 0;
        while (k < *n && (lines[k].name != name || strcmp(lines[k].type, type) != 0))
            k++;
        if (k == *n) {
            MEM_GROW(lines, *n, cap);
            lines[(*n)++] = (struct line){.name = name, .type = type};
        }
        lines[k].n++;
        lines[k].prefill_ms += b->prefill_ms[i];
        lines[k].decode_ms += b->decode_ms[i];
    }
    return lines;
}

static void print(const struct ops_bench *b, bool json, struct buf *out)
{
    size_t n;
    struct line *lines = gather(b, &n), all = {.name = "all"};
    for (size_t i = 0; i < n; i++) {
        all.n += lines[i].n;
        all.prefill_ms += lines[i].prefill_ms;
        all.decode_ms += lines[i].decode_ms;
    }
    if (json) {
        buf_printf(out,
                   "{\"prompt\": %u, \"decode_ms\": %.4f, \"prefill_ms\": %.4f, "
                   "\"decode_wall_ms\": %.4f, \"prefill_wall_ms\": %.4f, \"ops\": [",
                   b->n_prompt, all.decode_ms, all.prefill_ms, b->decode_wall_ms,
                   b->prefill_wall_ms);
        for (size_t i = 0; i < n; i++)
            buf_printf(out,
                       "%s{\"op\": \"%s\", \"type\": \"%s\", \"n\": %zu, \"decode_ms\": %.4f, "
                       "\"prefill_ms\": %.4f}",
                       i ? ", " : "", lines[i].name, lines[i].type, lines[i].n,
                       lines[i].decode_ms, lines[i].prefill_ms);
        buf_puts(out, "]}\n");
    } else {
        buf_printf(out, "%s\n%-18s %5s %15s  share %11u tokens  share\n", backend_name(b->m.be),
                   "op", "count", "a token", b->n_prompt);
        for (size_t i = 0; i <= n; i++) {
            const struct line *l = i < n ? &lines[i] : &all;
            buf_printf(out, "%-9s %-8s %5zu %12.3f ms %5.1f%% %15.3f ms %5.1f%%\n", l->name,
                       l->type ? l->type : "", l->n, l->decode_ms,
                       l->decode_ms / all.decode_ms * 100, l->prefill_ms,
                       l->prefill_ms / all.prefill_ms * 100);
        }
        buf_printf(out, "%-24s %12.3f ms %22.3f ms\n", "this machine's clock",
                   b->decode_wall_ms, b->prefill_wall_ms);
    }
    free(lines);
}

int bench_ops(const struct options *o, const struct bench_args *a)
{
    const struct engine_config config = command_line_engine(o);
    struct ops_bench b = {0};
    struct buf out = {0};
    struct err err;
    bool ok = machine_open(&b.m, &config, NULL, &err) && prepare(&b, &err) && measure(&b, &err);
    if (ok) print(&b, a->json, &out);
    release(&b);
    return ok ? print_text(&out) : bench_failed(&err);
}
