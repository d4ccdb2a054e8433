/* Whether a model would open: all that is checked before its weights are read, and no more. */
#include "engine/check.h"

#include "backend/ops.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/machine.h"
#include "gguf/gguf.h"
#include "model/adapter.h"
#include "text/tokenizer.h"

bool check_vocab(const struct tokenizer *tok, const char *path, size_t n_vocab, struct err *err)
{
    const size_t n_tokens = tokenizer_n_vocab(tok);
    return n_tokens <= n_vocab ||
           err_set(err, ERR_FORMAT, "%s: the vocabulary has %zu tokens, the model's output %zu",
                   path, n_tokens, n_vocab);
}

static bool take_vocab(void *user, const struct program *p, struct err *err)
{
    (void)err;
    *(size_t *)user = p->n_vocab;
    return true;
}

bool engine_check(const struct engine_config *config, char **chat_template, struct err *err)
{
    struct model_params params = {.n_ctx = config->n_ctx};
    struct tokenizer *tok = NULL;
    size_t n_vocab = 0;
    const char *kept;
    struct gguf *g = adapter_open(config->model_path, config->adapter_path,
                                  config->adapter_scale, &params.adapter, err);
    bool ok = g && machine_kv_type(config->kv_type, &params.kv_type, &kept, err) &&
              model_outline(g, &params, take_vocab, &n_vocab, err) &&
              (tok = tokenizer_open(g, NULL, err)) &&
              check_vocab(tok, gguf_path(g), n_vocab, err);
    const struct piece text = ok ? tokenizer_template(tok, NULL) : (struct piece){0};
    *chat_template = text.data ? mem_strndup(text.data, text.len) : NULL;
    tokenizer_close(tok);
    gguf_close(g);
    return ok;
}
