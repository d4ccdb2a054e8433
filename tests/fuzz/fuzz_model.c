/* Any bytes as a model: what hyperparameters, weights and the program's own checker let through
 * must run, whatever numbers the weights hold. What does not begin as a GGUF file does is a
 * list of changes to one of tests/data/models, eight bytes each, behind a byte that chooses it:
 * of a key's value or name, of a tensor's shape, type or name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cpu/cpu.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "target.h"

/* A model that passes all checks can still ask for more than a fuzzer has. */
enum { MAX_BYTES = 8 << 20, MAX_OPS = 2000, ROWS = 3 };

static void run(struct backend *be, const struct model *m)
{
    struct err err;
    const struct program *p = model_program(m);
    struct exec *x = exec_new(be, p, ROWS, &err);
    void *page = backend_page_new(be, p->page_bytes[PAGE_FULL] + 1);
    void *window = backend_page_new(be, p->page_bytes[PAGE_WINDOW] + 1);
    void *state[2] = {NULL, NULL};
    for (int i = 0; i < 2 && p->state_bytes; i++)
        state[i] = backend_state_new(be, p->state_bytes);
    float *logits = mem_zalloc(ROWS * p->n_vocab, sizeof *logits);
    if (x && page && window && (!p->state_bytes || (state[0] && state[1]))) {
        int32_t ids[2 * ROWS];
        for (int i = 0; i < 2 * ROWS; i++)
            ids[i] = (int32_t)((size_t)i % p->n_vocab);
        for (uint32_t pos = 0; pos < 2 * ROWS; pos += ROWS) {
            const struct step step = {.n_rows = ROWS,
                                      .pos = pos,
                                      .tokens = ids + pos,
                                      .pages = {&page, &window},
                                      .n_logits = pos ? 1 : ROWS,
                                      .logits = logits,
                                      .state_in = state[pos > 0],
                                      .state_out = state[pos == 0]};
            if (!exec_run(x, &step, &err)) abort();
        }
    }
    free(logits);
    for (int i = 0; i < 2; i++)
        backend_state_free(be, state[i], p->state_bytes);
    backend_page_free(be, page, p->page_bytes[PAGE_FULL] + 1);
    backend_page_free(be, window, p->page_bytes[PAGE_WINDOW] + 1);
    exec_free(x);
}

static void try_file(const uint8_t *data, size_t n_bytes, size_t choice, enum cpu_isa isa)
{
    struct err err;
    struct gguf *g = gguf_from_memory(data, n_bytes, "fuzz", &err);
    if (!g) {
        must_be_refusal(&err);
        return;
    }
    struct model_params params = {.kv_type = choice % 2 ? KV_F32 : KV_F16,
                                  .n_ctx = choice % 3 ? 0 : 64};
    struct model_sizes sizes;
    struct backend *be = NULL;
    if (model_estimate(g, NULL, &params, ROWS, &sizes, &err))
        be = cpu_open(&(struct cpu_options){.n_threads = 1, .isa = isa}, &err);
    if (be && model_estimate(g, be, &params, ROWS, &sizes, &err) &&
        model_bytes(&sizes, PAGE_LEN) - sizes.weights_bytes < MAX_BYTES) {
        struct model *m = model_open(g, be, &params, NULL, NULL, &err);
        /* What the estimate accepts opens. */
        if (!m) abort();
        if (model_program(m)->n_ops < MAX_OPS) run(be, m);
        model_close(m);
    }
    if (!be) must_be_refusal(&err);
    backend_close(be);
    gguf_close(g);
}

/* ---- changed models ---- */

static const char *const names[] = {
    "gemma3",    "gemma4",     "gemma4-moe",     "gpt-oss-MXFP4",
    "lfm2moe",   "falcon-h1",  "qwen3next",      "granitehybrid-moe",
    "qwen35moe", "qwen35-mtp", "llama-ropefreqs"};
enum { N_MODELS = sizeof names / sizeof *names, MOST_CHANGES = 8, CHANGE_BYTES = 8 };

struct base {
    struct buf file;
    struct gguf *gguf; /* as it was, to find the places in it */
};

static struct base *base_at(unsigned i)
{
    static struct base open[N_MODELS];
    struct base *b = &open[i];
    struct err err;
    char path[100];
    if (b->gguf) return b;
    snprintf(path, sizeof path, "tests/data/models/%s.gguf", names[i]);
    if (!file_read(path, 64 << 20, &b->file, &err)) abort();
    b->gguf = gguf_from_memory((uint8_t *)b->file.data, b->file.len, "fuzz", &err);
    if (!b->gguf) abort();
    return b;
}

/* Where the name of a tensor ends in the list of them, before the number of its dimensions. */
static size_t behind_name(const struct base *b, const char *name)
{
    const size_t n = strlen(name);
    struct buf key = {0};
    const uint64_t len = n;
    buf_append(&key, &len, sizeof len);
    buf_append(&key, name, n);
    const char *found = memmem(b->file.data, b->file.len, key.data, key.len);
    if (!found) abort();
    buf_free(&key);
    return (size_t)(found - b->file.data) + sizeof len + n;
}

/* Bytes of the file that a change writes over. */
struct place {
    size_t at, n;
    uint8_t old[8];
};

static struct place place_of(const struct base *b, const uint8_t *change)
{
    const size_t i = change[1] | (size_t)change[2] << 8;
    const struct gguf_kv *kv = gguf_kv_at(b->gguf, i % gguf_n_kv(b->gguf));
    const struct gguf_tensor *t = gguf_tensor_at(b->gguf, i % gguf_n_tensors(b->gguf));
    const char *file = b->file.data;
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

static void try_changes(const uint8_t *data, size_t n_bytes)
{
    struct base *b = base_at(data[0] % N_MODELS);
    struct place places[MOST_CHANGES];
    size_t n = 0;
    for (size_t at = 1; n < MOST_CHANGES && at + CHANGE_BYTES <= n_bytes; at += CHANGE_BYTES)
        places[n++] = place_of(b, data + at);
    for (size_t i = 0; i < n; i++) {
        memcpy(places[i].old, b->file.data + places[i].at, places[i].n);
        memcpy(b->file.data + places[i].at, data + 1 + i * CHANGE_BYTES + 4, places[i].n);
    }
    /* These are larger: with the fastest kernels, which have the same bits. */
    try_file((uint8_t *)b->file.data, b->file.len, data[0] / N_MODELS, CPU_AUTO);
    while (n-- > 0)
        memcpy(b->file.data + places[n].at, places[n].old, places[n].n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0 || data[0] == 'G')
        try_file(data, n_bytes, n_bytes, CPU_SCALAR);
    else
        try_changes(data, n_bytes);
    return 0;
}
