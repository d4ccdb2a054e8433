/* Any bytes as a model: what hyperparameters, weights and the program's own checker let through
 * must run, whatever numbers the weights hold. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cpu/cpu.h"
#include "gguf/gguf.h"
#include "model/model.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct err err;
    struct gguf *g = gguf_from_memory(data, n_bytes, "fuzz", &err);
    if (!g) return 0;
    struct model_params params = {.kv_type = n_bytes % 2 ? KV_F32 : KV_F16,
                                  .n_ctx = n_bytes % 3 ? 0 : 64};
    struct model_sizes sizes;
    struct backend *be = NULL;
    if (model_estimate(g, NULL, &params, ROWS, &sizes, &err))
        be = cpu_open(&(struct cpu_options){.n_threads = 1, .isa = CPU_SCALAR}, &err);
    if (be && model_estimate(g, be, &params, ROWS, &sizes, &err) &&
        sizes.scratch_bytes + sizes.kv_bytes_per_token * PAGE_LEN < MAX_BYTES) {
        struct model *m = model_open(g, be, &params, NULL, NULL, &err);
        /* What the estimate accepts opens. */
        if (!m) abort();
        if (model_program(m)->n_ops < MAX_OPS) run(be, m);
        model_close(m);
    }
    backend_close(be);
    gguf_close(g);
    return 0;
}
