/* Golden cases: tiny models with the exact logits of fixed prompts, and what it takes to run
 * them: reading the manifest, opening a model on a CPU backend, running ids in chunks of any
 * size. tests/data/golden carries a selection; ../shared/conformance, where it exists, all.
 * Whatever goes wrong in here fails the cmocka test that called. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "backend/backend.h"
#include "backend/cut.h"
#include "backend/split.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "vulkan/backend.h"

enum { GOLDEN_GREEDY = 48 };

struct golden_case {
    char name[64];
    char model[256];
    uint32_t n_ctx, n_tokens, n_vocab;
    int32_t *tokens;
    float *logits; /* [n_tokens][n_vocab], exact */
    float *native; /* the same of a reference with 8-bit activations, or NULL */
    int32_t greedy[GOLDEN_GREEDY];
    double greedy_margin[GOLDEN_GREEDY];
    bool experts; /* their greedy steps may differ where the router's choice is close */
    double tolerance;
};

struct golden_set {
    struct golden_case *cases;
    size_t n;
};

static inline const char *golden_kit(void)
{
    return access("../shared/conformance/golden/manifest.json", R_OK) == 0
               ? "../shared/conformance"
               : NULL;
}

static inline float *golden_floats(const char *folder, const char *file, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    float *out = mem_zalloc(n + 1, sizeof *out);
    FILE *f = fopen(path, "rb");
    if (!f || fread(out, sizeof *out, n + 1, f) != n)
        fail_msg("%s does not hold %zu floats", path, n);
    fclose(f);
    return out;
}

static inline void golden_case_read(struct golden_case *c, const char *folder, json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "name"));
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->model, sizeof c->model, "%s/%s", folder,
             json_string_value(json_object_get(j, "model")));
    c->n_ctx = (uint32_t)json_integer_value(json_object_get(j, "n_ctx"));
    c->n_vocab = (uint32_t)json_integer_value(json_object_get(j, "n_vocab"));
    json_t *tokens = json_object_get(j, "tokens");
    c->n_tokens = (uint32_t)json_array_size(tokens);
    c->tokens = mem_zalloc(c->n_tokens, sizeof *c->tokens);
    for (uint32_t i = 0; i < c->n_tokens; i++)
        c->tokens[i] = (int32_t)json_integer_value(json_array_get(tokens, i));
    const size_t n = (size_t)c->n_tokens * c->n_vocab;
    c->logits = golden_floats(folder, json_string_value(json_object_get(j, "logits")), n);
    json_t *native = json_object_get(j, "logits_native");
    if (native) c->native = golden_floats(folder, json_string_value(native), n);
    json_t *greedy = json_object_get(j, "greedy"),
           *margin = json_object_get(j, "greedy_margins");
    assert_int_equal(json_array_size(greedy), GOLDEN_GREEDY);
    for (size_t i = 0; i < GOLDEN_GREEDY; i++) {
        c->greedy[i] = (int32_t)json_integer_value(json_array_get(greedy, i));
        c->greedy_margin[i] = json_number_value(json_array_get(margin, i));
    }
    c->experts = json_object_get(j, "router_margin_greedy") != NULL;
    c->tolerance = json_number_value(
        json_object_get(json_object_get(j, "tolerance"), "nmse_low_precision"));
    assert_true(c->n_ctx > 0 && c->n_tokens > 0 && c->n_vocab > 0 && c->tolerance > 0);
}

/* The cases of folder/golden/manifest.json whose name begins with one of the prefixes; a prefix
 * that ends in '$' must be the whole name. */
static inline struct golden_set golden_read(const char *folder, const char *const *prefixes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/golden/manifest.json", folder);
    json_error_t e;
    json_t *root = json_load_file(path, 0, &e);
    if (!root) fail_msg("%s:%d: %s", path, e.line, e.text);
    json_t *list = json_object_get(root, "cases");
    struct golden_set set = {mem_zalloc(json_array_size(list) + 1, sizeof *set.cases), 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *j = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(j, "name"));
        for (const char *const *p = prefixes; *p; p++) {
            size_t n = strlen(*p);
            bool whole = (*p)[n - 1] == '$';
            if (whole ? strlen(name) != n - 1 || strncmp(name, *p, n - 1) != 0
                      : strncmp(name, *p, n) != 0)
                continue;
            golden_case_read(&set.cases[set.n++], folder, j);
            break;
        }
    }
    json_decref(root);
    assert_true(set.n > 0);
    return set;
}

static inline void golden_free(struct golden_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        free(set->cases[i].tokens);
        free(set->cases[i].logits);
        free(set->cases[i].native);
    }
    free(set->cases);
}

/* The families that hearth runs. */
static const char *const golden_known[] = {"falcon-h1", "gemma",   "gpt-oss",  "granitehybrid",
                                           "lfm2",      "llama",   "mistral3", "phi3",
                                           "qwen",      "smollm3", NULL};

/* Whether a model can have KV types of codes; its refusal is tested elsewhere. */
static inline bool golden_has_blocks(const struct golden_case *c)
{
    struct err err = {0};
    struct gguf *g = gguf_open(c->model, &err);
    if (!g) fail_msg("%s", err.msg);
    const struct model_params params = {.kv_type = KV_Q8_0};
    struct model_sizes sizes;
    const bool ok = model_estimate(g, NULL, &params, 1, &sizes, &err);
    gguf_close(g);
    return ok;
}

/* Sum of squared differences over the sum of squares of want; NaN if got has one. */
static inline double golden_nmse(const float *want, const float *got, size_t n)
{
    double diff = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)want[i] - (double)got[i];
        diff += d * d;
        all += (double)want[i] * (double)want[i];
    }
    return diff / all;
}

struct runner_options {
    enum cpu_isa isa;
    int n_threads;
    enum kv_type kv_type;
    uint32_t n_ctx, batch;
    bool poison;         /* pages begin full of NaN */
    bool vulkan;         /* on the first Vulkan device instead, software ones included */
    size_t piece_tiles;  /* of vulkan_choice */
    bool least, wide;    /* too */
    const char *adapter; /* NULL: none */
    float strength;      /* of it */
    /* The layers before this one on the CPU, only the others as above (0: the embedding alone).
     * The next that can be cut is taken. */
    bool is_split;
    uint32_t split_at;
};

enum { RUNNER_PAGES = 256 }; /* 16,384 positions */

/* A model ready to run, and the pages of one sequence. */
struct runner {
    struct runner_options o;
    struct gguf *g;
    struct backend *be;
    struct model *m;
    struct exec *x;
    void *pages[PAGE_PARTS][RUNNER_PAGES];
    size_t n_pages;
    void *state[2]; /* after what was run last, and room for the next; NULL without any */
};

static inline bool runner_split(void *user, const struct program *p, struct err *err)
{
    struct runner *r = user;
    struct backend *cpu = cpu_open(&(struct cpu_options){.n_threads = 1}, err);
    if (!cpu) fail_msg("%s", err->msg);
    r->o.split_at = program_cut_at(p, r->o.split_at);
    r->be = split_open(cpu, r->be, p, r->o.split_at);
    return true;
}

static inline void runner_open(struct runner *r, const char *path, struct runner_options o)
{
    struct err err = {0};
    *r = (struct runner){.o = o};
    struct model_params params = {.kv_type = o.kv_type, .n_ctx = o.n_ctx};
    r->g = adapter_open(path, o.adapter, o.strength, &params.adapter, &err);
    if (!r->g) fail_msg("%s", err.msg);
    r->be = o.vulkan
                ? vulkan_backend_open(&(struct vulkan_choice){.piece_tiles = o.piece_tiles,
                                                              .least = o.least,
                                                              .always_wide = o.wide},
                                      &err)
                : cpu_open(&(struct cpu_options){.n_threads = o.n_threads, .isa = o.isa}, &err);
    if (!r->be) fail_msg("%s", err.msg);
    if (o.is_split && !model_outline(r->g, &params, runner_split, r, &err))
        fail_msg("%s", err.msg);
    r->m = model_open(r->g, r->be, &params, NULL, NULL, &err);
    if (!r->m) fail_msg("%s", err.msg);
    r->x = exec_new(r->be, model_program(r->m), o.batch, &err);
    if (!r->x) fail_msg("%s", err.msg);
}

/* States as before the first token. */
static inline void runner_reset_states(struct runner *r)
{
    const size_t n_bytes = model_program(r->m)->state_bytes;
    for (int i = 0; n_bytes && i < 2; i++) {
        backend_state_free(r->be, r->state[i], n_bytes);
        r->state[i] = backend_state_new(r->be, n_bytes);
        assert_non_null(r->state[i]);
    }
}

/* Drops all pages: the next run begins at position 0. */
static inline void runner_reset(struct runner *r)
{
    for (int part = 0; part < PAGE_PARTS; part++)
        for (size_t i = 0; i < r->n_pages; i++)
            backend_page_free(r->be, r->pages[part][i], model_program(r->m)->page_bytes[part]);
    r->n_pages = 0;
    for (int i = 0; i < 2; i++) {
        backend_state_free(r->be, r->state[i], model_program(r->m)->state_bytes);
        r->state[i] = NULL;
    }
}

static inline void runner_close(struct runner *r)
{
    runner_reset(r);
    exec_free(r->x);
    model_close(r->m);
    backend_close(r->be);
    gguf_close(r->g);
}

/* NaN in every format of K and V. */
static inline void runner_poison(struct runner *r, size_t from_page)
{
    for (int part = 0; part < PAGE_PARTS; part++) {
        const size_t n_bytes = model_program(r->m)->page_bytes[part];
        void *rubbish = mem_alloc(n_bytes);
        memset(rubbish, 0xff, n_bytes);
        for (size_t i = from_page; i < r->n_pages; i++)
            if (r->pages[part][i])
                backend_page_write(r->be, r->pages[part][i], n_bytes, rubbish);
        free(rubbish);
    }
}

/* Runs ids[0..n) at positions pos.. in chunks of batch rows; logits[n][n_vocab], or NULL for
 * none; with draw instead of these the tokens drawn[n]. Of a recurrent model pos is 0 or where
 * the last run ended. */
static inline void runner_draw(struct runner *r, const int32_t *ids, uint32_t n, uint32_t pos,
                               float *logits, const struct draw *draw, int32_t *drawn)
{
    struct err err = {0};
    const size_t need = pages_for(pos + n);
    assert_true(need <= sizeof r->pages[0] / sizeof *r->pages[0]);
    while (r->n_pages < need) {
        for (int part = 0; part < PAGE_PARTS; part++) {
            const size_t n_bytes = model_program(r->m)->page_bytes[part];
            const size_t unit = model_program(r->m)->page_unit[part];
            void **page = &r->pages[part][r->n_pages];
            *page = n_bytes > 0 ? backend_page_new(r->be, n_bytes, unit) : NULL;
            assert_true(*page || n_bytes == 0);
        }
        r->n_pages++;
        if (r->o.poison) runner_poison(r, r->n_pages - 1);
    }
    if (pos == 0) runner_reset_states(r);
    for (uint32_t i = 0; i < n;) {
        const uint32_t rows = n - i < r->o.batch ? n - i : r->o.batch;
        const struct step step = {
            .n_rows = rows,
            .pos = pos + i,
            .tokens = ids + i,
            .pages = {r->pages[PAGE_FULL], r->pages[PAGE_WINDOW]},
            .n_logits = logits || draw ? rows : 0,
            .logits = logits && !draw ? logits + (size_t)i * model_n_vocab(r->m) : NULL,
            .draw = draw,
            .drawn = draw ? drawn + i : NULL,
            .state_in = r->state[0],
            .state_out = r->state[1],
        };
        if (!exec_run(r->x, &step, &err)) fail_msg("%s", err.msg);
        void *after = r->state[1];
        r->state[1] = r->state[0];
        r->state[0] = after;
        i += rows;
    }
}

static inline void runner_run(struct runner *r, const int32_t *ids, uint32_t n, uint32_t pos,
                              float *logits)
{
    runner_draw(r, ids, n, pos, logits, NULL, NULL);
}

#endif
