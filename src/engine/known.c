/* What is read from the model's file, its tokenizer and the machine. */
#include "engine/known.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/numeric_c.h"
#include "engine/machine.h"
#include "engine/machine_memory.h"
#include "gguf/gguf.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"
#include "text/turn_template.h"

static char *copy_piece(struct piece p)
{
    return p.data ? mem_strndup(p.data, p.len) : NULL;
}

static char *copy_token(const struct tokenizer *tok, int32_t id)
{
    return id < 0 ? mem_strdup("") : copy_piece(tokenizer_piece(tok, id));
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *name_of(const struct gguf *g, const struct engine_config *config)
{
    struct gguf_str name;
    struct buf out = {0};
    const float scale = config->adapter_path ? config->adapter_scale : 0;
    if (gguf_string(g, "general.name", &name) && name.len > 0)
        buf_append(&out, name.data, name.len);
    else
        buf_puts(&out, file_name(config->model_path));
    if (scale != 0) buf_printf(&out, " with %s", file_name(config->adapter_path));
    if (scale != 0 && scale != 1) buf_printf(&out, " (%g)", (double)scale);
    return buf_take(&out);
}

/* The array of tokens as it lies in the file. */
static uint64_t vocabulary_of(const struct gguf *g)
{
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.ggml.tokens");
    if (!kv || kv->type != GGUF_STRING || kv->n == 0) return 0;
    struct gguf_str last = gguf_item_str(kv, kv->n - 1);
    return XXH3_64bits(kv->data, (size_t)((const uint8_t *)last.data + last.len - kv->data));
}

void known_bytes(const struct machine *m, struct engine_info *info)
{
    const struct model_sizes sizes = machine_sizes(m);
    info->weights_bytes = sizes.weights_bytes;
    info->kv_bytes_per_token = sizes.kv_bytes_per_token;
    info->scratch_bytes = model_scratch_bytes(&sizes, m->n_ctx);
    info->is_inexact = m->is_inexact;
}

void known_fill(struct known *k, const struct machine *m, const struct tokenizer *tok,
                const struct engine_config *config)
{
    size_t n_ends = 0;
    const int32_t *ends = tokenizer_ends(tok, &n_ends);
    k->end_tokens = mem_zalloc(n_ends + 1, sizeof *k->end_tokens);
    for (size_t i = 0; i < n_ends; i++)
        k->end_tokens[i] = copy_token(tok, ends[i]);
    const struct reasoning_marker *marker = reasoning_of(tok);
    if (marker) k->markers[0] = marker->open, k->markers[1] = marker->close;
    k->name = name_of(m->gguf, config);
    k->chat_template = copy_piece(tokenizer_template(tok, NULL));
    k->bos_text = copy_token(tok, tokenizer_bos(tok));
    k->eos_text = copy_token(tok, tokenizer_eos(tok));
    k->info = (struct engine_info){
        .name = k->name,
        .family = model_family(m->model),
        .chat_template = k->chat_template,
        .turn_template = turn_template(tok),
        .bos_text = k->bos_text,
        .eos_text = k->eos_text,
        .kv_type = m->kv_type,
        .vocabulary = vocabulary_of(m->gguf),
        .numerics = NUMERICS_VERSION,
        .n_ctx = m->n_ctx,
        .n_ctx_model = model_n_ctx_train(m->model),
        .n_vocab = model_n_vocab(m->model),
        .load_ms = m->load_ms,
        .end_tokens = (const char *const *)k->end_tokens,
        .n_end_tokens = n_ends,
        .reasoning_markers = k->markers,
        .n_reasoning_markers = marker ? 2 : 0,
    };
    known_bytes(m, &k->info);
}

void known_free(struct known *k)
{
    for (size_t i = 0; i < k->info.n_end_tokens; i++)
        free(k->end_tokens[i]);
    free(k->end_tokens);
    free(k->name);
    free(k->chat_template);
    free(k->bos_text);
    free(k->eos_text);
    *k = (struct known){0};
}
