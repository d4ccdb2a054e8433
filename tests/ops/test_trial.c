/* The self-test of a device: it passes backends that give the same bits, whatever the family of
 * the model, and names the op whose result is off by one bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cut.h"
#include "backend/draw.h"
#include "backend/impl.h"
#include "backend/trial.h"
#include "cpu/cpu.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "vulkan/backend.h"

/* Of every family of ops, and of many types of weights. */
static const struct {
    const char *name;
    enum kv_type type;
} models[] = {
    {"llama-Q4_0", KV_F16}, {"llama-Q3_K_M", KV_Q8_0},  {"qwen3-IQ4_XS", KV_Q4_0},
    {"gemma3", KV_F32},     {"gemma4-moe", KV_F16},     {"gpt-oss-MXFP4", KV_F16},
    {"mistral3", KV_F16},   {"qwen35-Q4_K_M", KV_F16},  {"falcon-h1", KV_F16},
    {"lfm2moe", KV_F16},    {"qwen3moe-MXFP4", KV_F16}, {"granitehybrid-moe", KV_F16},
};
enum { N_MODELS = sizeof models / sizeof *models };

static struct backend *open_cpu(enum cpu_isa isa)
{
    struct err err;
    struct backend *be = cpu_open(&(struct cpu_options){2, isa}, &err);
    if (!be) fail_msg("%s", err.msg);
    return be;
}

struct pair {
    struct backend *be, *reference;
    size_t n_ops;
    bool is_cut; /* the last layer alone is tried, with rows that come from elsewhere */
};

static bool compare(void *user, const struct program *p, struct err *err)
{
    struct pair *pair = user;
    if (!pair->is_cut)
        return trial_program(pair->be, pair->reference, p, NULL, &pair->n_ops, err);
    struct program_cut cut;
    program_cut(p, program_cut_at(p, program_n_layers(p) - 1), &cut);
    const bool ok =
        trial_program(pair->be, pair->reference, &cut.side[CUT_BACK], NULL, &pair->n_ops, err);
    program_cut_free(&cut);
    return ok;
}

static bool try_model(const char *name, enum kv_type type, struct pair *pair, struct err *err)
{
    char path[128];
    snprintf(path, sizeof path, "tests/data/models/%s.gguf", name);
    struct gguf *g = gguf_open(path, err);
    if (!g) fail_msg("%s", err->msg);
    bool ok = model_outline(g, &(struct model_params){.kv_type = type}, compare, pair, err);
    gguf_close(g);
    return ok;
}

static void passes(struct backend *be, struct backend *reference)
{
    struct err err;
    size_t n = 0;
    for (int i = 0; i < N_MODELS; i++) {
        struct pair pair = {.be = be, .reference = reference};
        if (!try_model(models[i].name, models[i].type, &pair, &err))
            fail_msg("%s: %s", models[i].name, err.msg);
        assert_true(pair.n_ops >= 6);
        n += pair.n_ops;
    }
    print_message("# %s: %zu ops compared\n", backend_name(be), n);
}

static void cpus_pass(void **state)
{
    (void)state;
    struct backend *scalar = open_cpu(CPU_SCALAR), *best = open_cpu(CPU_AUTO);
    passes(best, scalar);
    backend_close(best);
    backend_close(scalar);
}

static void vulkan_passes(void **state)
{
    (void)state;
    struct err err;
    if (vulkan_count() == 0) skip();
    struct backend *cpu = open_cpu(CPU_AUTO);
    struct backend *be = vulkan_backend_open(&(struct vulkan_choice){0}, &err);
    if (!be) fail_msg("%s", err.msg);
    passes(be, cpu);
    struct pair back = {.be = be, .reference = cpu, .is_cut = true};
    if (!try_model("llama-Q4_0", KV_F16, &back, &err)) fail_msg("%s", err.msg);
    backend_close(be);
    backend_close(cpu);
}

/* ---- a backend that is off by one bit where a program has an op of one kind ---- */

static enum op_kind wrong_kind;
static const struct backend_impl *right;
static struct backend_impl wrong;
static const struct program *running;

static struct exec *note_program(struct backend *be, const struct program *p, uint32_t max_rows,
                                 struct err *err)
{
    running = p;
    return right->exec_new(be, p, max_rows, err);
}

static bool run_wrongly(struct exec *x, const struct step *step, struct err *err)
{
    if (!right->exec_run(x, step, err)) return false;
    const size_t last = (size_t)step->n_logits * running->n_vocab - 1;
    bool has_kind = false;
    for (size_t i = 0; i < running->n_ops; i++)
        has_kind = has_kind || running->ops[i].kind == wrong_kind;
    if (has_kind && step->n_rows == 2) ((uint32_t *)step->logits)[last] ^= 1;
    return true;
}

static void names_what_differs(void **state)
{
    (void)state;
    static const struct {
        enum op_kind kind;
        const char *model, *says;
    } cases[] = {
        {OP_NORM, "llama-Q4_0", ": computes a norm otherwise than the CPU (value "},
        {OP_QUANTISE, "llama-Q4_0", ": computes a norm otherwise"},       /* and its codes */
        {OP_ADD, "llama-Q4_0", ": computes a product of Q4_0 otherwise"}, /* and its sum */
        {OP_ATTEND, "llama-Q4_0", ": computes attention of f16 otherwise"},
        {OP_MATMUL_EXPERTS, "qwen3moe-MXFP4", ": computes experts of MXFP4 otherwise"},
        {OP_RECUR, "qwen35-Q4_K_M", ": computes a recurrence otherwise"},
        {OP_INPUT, "llama-Q4_0", ": computes rows of another device otherwise"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err;
        struct pair pair = {open_cpu(CPU_SCALAR), open_cpu(CPU_SCALAR), 0,
                            cases[i].kind == OP_INPUT};
        right = pair.be->impl;
        wrong = *right;
        wrong.exec_new = note_program;
        wrong.exec_run = run_wrongly;
        wrong_kind = cases[i].kind;
        pair.be->impl = &wrong;
        assert_false(try_model(cases[i].model, KV_F16, &pair, &err));
        assert_int_equal(err.code, ERR_DEVICE);
        if (!strstr(err.msg, cases[i].says)) fail_msg("%s: not '%s'", err.msg, cases[i].says);
        backend_close(pair.be);
        backend_close(pair.reference);
    }
}

/* ---- a device that draws another token ---- */

static bool draw_wrongly(struct exec *x, const struct step *step, struct err *err)
{
    if (!right->exec_run(x, step, err)) return false;
    if (step->draw && step->draw->top_k > 0) step->drawn[step->n_logits - 1] ^= 1;
    return true;
}

/* The block with another draw of the verified rows. */
static bool block_with(struct draft_block *b, const struct draw *draw, struct err *err)
{
    struct step check = *b->check;
    check.draw = draw;
    struct draft_block other = *b;
    other.check = &check;
    if (!right->exec_block(&other, err)) return false;
    b->n_right = other.n_right;
    return true;
}

/* What drafts drive out of the window of the penalties counts on. */
static bool block_wrongly(struct draft_block *b, struct err *err)
{
    static const int32_t nothing[DRAW_ROWS] = {-1, -1, -1, -1, -1, -1, -1, -1, -1,
                                               -1, -1, -1, -1, -1, -1, -1, -1};
    struct draw draw = *b->check->draw;
    if (draw.leaves) draw.leaves = nothing;
    return block_with(b, &draw, err);
}

/* The counts of the block before are those of the next. */
static bool block_forgets(struct draft_block *b, struct err *err)
{
    struct draw draw = *b->check->draw;
    draw.n_changes = DRAW_RECENT + 1;
    return block_with(b, &draw, err);
}

/* A draft that has one row to read reads the one before. */
static bool block_skips(struct draft_block *b, struct err *err)
{
    struct step read = *b->read;
    if (read.n_rows == 1) read.tokens = b->read->tokens - 1;
    struct draft_block other = *b;
    other.read = &read;
    if (!right->exec_block(&other, err)) return false;
    b->n_right = other.n_right;
    return true;
}

static void names_wrong(const struct backend_impl *how, const char *says)
{
    struct err err;
    struct pair pair = {vulkan_backend_open(&(struct vulkan_choice){0}, &err),
                        open_cpu(CPU_SCALAR), 0, false};
    if (!pair.be) fail_msg("%s", err.msg);
    right = pair.be->impl;
    wrong = *right;
    if (how->exec_run) wrong.exec_run = how->exec_run;
    if (how->exec_block) wrong.exec_block = how->exec_block;
    pair.be->impl = &wrong;
    assert_false(try_model("llama-Q4_0", KV_F16, &pair, &err));
    assert_int_equal(err.code, ERR_DEVICE);
    if (!strstr(err.msg, says)) fail_msg("%s", err.msg);
    backend_close(pair.be);
    backend_close(pair.reference);
}

static void names_a_wrong_draw(void **state)
{
    (void)state;
    if (vulkan_count() == 0) skip();
    names_wrong(&(struct backend_impl){.exec_run = draw_wrongly}, ": draws token ");
    bool (*const wrongly[])(struct draft_block *, struct err *) = {block_wrongly, block_forgets,
                                                                   block_skips};
    for (size_t i = 0; i < sizeof wrongly / sizeof *wrongly; i++)
        names_wrong(&(struct backend_impl){.exec_block = wrongly[i]},
                    ": draws other tokens in a block of drafts ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_pass),
        cmocka_unit_test(vulkan_passes),
        cmocka_unit_test(names_what_differs),
        cmocka_unit_test(names_a_wrong_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
