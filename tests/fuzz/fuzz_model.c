/* Any bytes as a model: what hyperparameters, weights and the program's own checker let through
 * must run, whatever numbers the weights hold. What does not begin as a GGUF file does is a
 * list of changes to one of tests/data/models (../changed_model.h), behind a byte that chooses
 * it. */
#include "../changed_model.h"
#include "base/file.h"

static struct model_params params_of(size_t choice)
{
    return (struct model_params){.kv_type = choice % 2 ? KV_F32 : KV_F16,
                                 .n_ctx = choice % 3 ? 0 : 64};
}

static const char *const names[] = {
    "gemma3",    "gemma4",     "gemma4-moe",     "gpt-oss-MXFP4",
    "lfm2moe",   "falcon-h1",  "qwen3next",      "granitehybrid-moe",
    "qwen35moe", "qwen35-mtp", "llama-ropefreqs"};
enum { N_MODELS = sizeof names / sizeof *names };

static const struct model_file *file_at(unsigned i)
{
    static struct model_file open[N_MODELS];
    struct model_file *b = &open[i];
    struct buf file = {0};
    struct err err;
    char path[100];
    if (b->gguf) return b;
    snprintf(path, sizeof path, "tests/data/models/%s.gguf", names[i]);
    must(file_read(path, 64 << 20, &file, &err));
    const struct gguf *g = gguf_from_memory((uint8_t *)file.data, file.len, "fuzz", &err);
    must(g);
    *b = (struct model_file){file.data, file.len, g};
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct model_params params;
    if (n_bytes == 0 || data[0] == 'G') {
        params = params_of(n_bytes);
        model_survives(data, n_bytes, &params, CPU_SCALAR);
    } else {
        params = params_of(data[0] / N_MODELS);
        changes_survive(file_at(data[0] % N_MODELS), data + 1, n_bytes - 1, &params);
    }
    return 0;
}
