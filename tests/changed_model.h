/* What must hold of a model file whatever its bytes are: it is refused in words, or what the
 * estimate lets through opens and runs. And small changes of a good file, for it to hold of.
 * For the fuzzer and for tests; what does not hold aborts. */
#ifndef TESTS_CHANGED_MODEL_H
#define TESTS_CHANGED_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "fuzz/target.h"
#include "gguf/gguf.h"
#include "model/model.h"

/* A model that passes all checks can still ask for more than a test has. */
enum { MAX_TRIAL_BYTES = 8 << 20, MAX_TRIAL_OPS = 2000, TRIAL_ROWS = 3 };

static inline void run_a_little(struct backend *be, const struct model *m)
{
    struct err err;
    const struct program *p = model_program(m);
    struct exec *x = exec_new(be, p, TRIAL_ROWS, &err);
    void *part[PAGE_PARTS] = {NULL, NULL};
    bool is_there = true;
    for (int i = 0; i < PAGE_PARTS; i++) {
        if (p->page_bytes[i] == 0) continue;
        part[i] = backend_page_new(be, p->page_bytes[i], p->page_unit[i]);
        is_there = is_there && part[i];
    }
    void *state[2] = {NULL, NULL};
    for (int i = 0; i < 2 && p->state_bytes; i++)
        state[i] = backend_state_new(be, p->state_bytes);
    float *logits = mem_zalloc(TRIAL_ROWS * p->n_vocab, sizeof *logits);
    if (x && is_there && (!p->state_bytes || (state[0] && state[1]))) {
        int32_t ids[2 * TRIAL_ROWS];
        for (int i = 0; i < 2 * TRIAL_ROWS; i++)
            ids[i] = (int32_t)((size_t)i % p->n_vocab);
        for (uint32_t pos = 0; pos < 2 * TRIAL_ROWS; pos += TRIAL_ROWS) {
            const struct step step = {.n_rows = TRIAL_ROWS,
                                      .pos = pos,
                                      .tokens = ids + pos,
                                      .pages = {&part[PAGE_FULL], &part[PAGE_WINDOW]},
                                      .n_logits = pos ? 1 : TRIAL_ROWS,
                                      .logits = logits,
                                      .state_in = state[pos > 0],
                                      .state_out = state[pos == 0]};
            if (!exec_run(x, &step, &err)) abort();
        }
    }
    free(logits);
    for (int i = 0; i < 2; i++)
        backend_state_free(be, state[i], p->state_bytes);
    for (int i = 0; i < PAGE_PARTS; i++)
        backend_page_free(be, part[i], p->page_bytes[i]);
    exec_free(x);
}

/* A file that is refused, or runs. */
static inline void model_survives(const void *data, size_t n_bytes,
                                  const struct model_params *params, enum cpu_isa isa)
{
    struct err err;
    struct model_sizes sizes;
    struct backend *be = NULL;
    struct gguf *g = gguf_from_memory(data, n_bytes, "changed", &err);
    bool ok = g && model_estimate(g, NULL, params, TRIAL_ROWS, &sizes, &err);
    if (ok) {
        be = cpu_open(&(struct cpu_options){.n_threads = 1, .isa = isa}, &err);
        ok = be && model_estimate(g, be, params, TRIAL_ROWS, &sizes, &err);
    }
    if (!ok) must_be_refusal(&err);
    if (ok && model_bytes(&sizes, PAGE_LEN) - sizes.weights_bytes < MAX_TRIAL_BYTES) {
        struct model *m = model_open(g, be, params, NULL, NULL, &err);
        must(m);
        if (model_program(m)->n_ops < MAX_TRIAL_OPS) run_a_little(be, m);
        model_close(m);
    }
    backend_close(be);
    gguf_close(g);
}

/* ---- changes ---- */

/* A good file, and its keys and tensors as they were, to find the places in it. Both are the
 * caller's; the bytes are changed for a while. */
struct model_file {
    char *data;
    size_t n_bytes;
    const struct gguf *gguf;
};

enum { MOST_CHANGES = 8, CHANGE_BYTES = 8 };

/* Where the name of a tensor ends in the list of them, before the number of its dimensions. */
static inline size_t behind_name(const struct model_file *b, const char *name)
{
    const size_t n = strlen(name);
    struct buf key = {0};
    const uint64_t len = n;
    buf_append(&key, &len, sizeof len);
    buf_append(&key, name, n);
    const char *found = memmem(b->data, b->n_bytes, key.data, key.len);
    if (!found) abort();
    buf_free(&key);
    return (size_t)(found - b->data) + sizeof len + n;
}

/* Bytes of the file that a change writes over. */
struct place {
    size_t at, n;
    uint8_t old[8];
};

static inline struct place place_of(const struct model_file *b, const uint8_t *change)
{
    const size_t i = change[1] | (size_t)change[2] << 8;
    const struct gguf_kv *kv = gguf_kv_at(b->gguf, i % gguf_n_kv(b->gguf));
    const struct gguf_tensor *t = gguf_tensor_at(b->gguf, i % gguf_n_tensors(b->gguf));
    const char *file = b->data;
    const size_t n = gguf_type_bytes(kv->type), item = kv->n ? change[3] % kv->n : 0;
    switch (change[0] % 6) {
    case 0: /* a value */
        if (kv->n == 0) break;
        if (n == 0) { /* of a string the first letter */
            const struct gguf_str s = gguf_item_str(kv, item);
            return (struct place){(size_t)(s.data - file), s.len > 0, {0}};
        }
        return (struct place){
            (size_t)((const char *)kv->data - file) + item * n, n < 4 ? n : 4, {0}};
    case 1: /* a key is another one, and missing */
        return (struct place){(size_t)(kv->key.data - file) + kv->key.len - 1, 1, {0}};
    case 2: return (struct place){behind_name(b, t->name), 1, {0}};
    case 3:
        return (struct place){behind_name(b, t->name) + 4 + change[3] % t->n_dims * 8, 4, {0}};
    case 4: return (struct place){behind_name(b, t->name) + 4 + t->n_dims * 8, 1, {0}};
    default: return (struct place){behind_name(b, t->name) - 1, 1, {0}};
    }
    return (struct place){0, 0, {0}};
}

/* Changes the file in up to MOST_CHANGES places, each chosen by CHANGE_BYTES of which the last
 * four are written there; it survives, and is as it was. */
static inline void changes_survive(const struct model_file *b, const uint8_t *changes,
                                   size_t n_bytes, const struct model_params *params)
{
    struct place places[MOST_CHANGES];
    size_t n = 0;
    for (; n < MOST_CHANGES && (n + 1) * CHANGE_BYTES <= n_bytes; n++)
        places[n] = place_of(b, changes + n * CHANGE_BYTES);
    for (size_t i = 0; i < n; i++) {
        memcpy(places[i].old, b->data + places[i].at, places[i].n);
        memcpy(b->data + places[i].at, changes + i * CHANGE_BYTES + 4, places[i].n);
    }
    /* With the fastest kernels, which have the same bits. */
    model_survives(b->data, b->n_bytes, params, CPU_AUTO);
    while (n-- > 0)
        memcpy(b->data + places[n].at, places[n].old, places[n].n);
}

#endif
