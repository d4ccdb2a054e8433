/* Opening a model: check everything, then bind everything. */
#include "model/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/impl.h"
#include "backend/kv.h"
#include "backend/op_parts.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "model/families.h"

struct model {
    const struct family *family;
    struct hparams hp;
    struct program program;
    uint64_t token_bytes;
};

/* Learned positions are added to the embedding. */
static void add_places(struct builder *b, struct ref x)
{
    const struct hparams *hp = b->hp;
    if (!hp->places) return;
    struct ref place = build_rows(b, "h", hp->n_embd);
    build_places(b, weights_table(b->ws, "position_embd.weight", hp->n_ctx_train, hp->n_embd),
                 place);
    build_add(b, x, place, 1, x);
}

/* The whole network: embedding, layers, head. */
static void build_network(struct builder *b, const struct family *family)
{
    const struct hparams *hp = b->hp;
    struct ref x = build_rows(b, "x", hp->n_embd);
    build_embed(b, weights_table(b->ws, hp->embed_table, hp->n_vocab, hp->n_embd),
                hp->embed_scale, x);
    add_places(b, x);
    for (uint32_t i = 0; i < hp->n_layer && !b->ws->failed; i++) {
        b->layer = (int)i;
        family->layer(b, i, x);
    }
    b->layer = -1;
    if (!b->head_rows) build_head_rows(b);
    struct ref h = build_rows(b, "h", hp->n_embd);
    struct ref logits = build_rows(b, "logits", hp->n_vocab);
    build_row_norm(b, x, hp->output_norm, h);
    const bool tied = !weights_has(b->ws, "output.weight");
    struct linear head = {
        .w = weights_matrix(b->ws, tied ? hp->embed_table : "output.weight", hp->n_vocab,
                            hp->n_embd),
        .bias = weights_vector_if(b->ws, "output.bias", hp->n_vocab),
        .out = logits,
    };
    if (!tied) head.factor = weights_factors_if(b->ws, "output.scale", head.w, 1);
    build_matmul(b, h, &head, 1);
    build_logits(b, logits, hp->logit_scale, hp->logit_softcap);
    weights_all_used(b->ws, hp->n_layer, family->name);
}

/* Types of codes need heads that they fit. */
static bool kv_fits(const struct hparams *hp, enum kv_type type, struct err *err)
{
    if (!kv_type_codes(type) || hp->headless) return true;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        const struct layer_hparams *l = &hp->layers[i];
        const bool keys_fit = kv_codes_fit(l->head_dim_k);
        if (keys_fit && kv_codes_fit(l->head_dim_v)) continue;
        return err_set(err, ERR_USER,
                       "%s: %s have a head size of %u; KV type %s needs a multiple of %d, at "
                       "most %d; use f16 or f32",
                       gguf_path(hp->g), keys_fit ? "values" : "keys",
                       keys_fit ? l->head_dim_v : l->head_dim_k, kv_type_name(type), KV_BLOCK,
                       KV_MAX_DIM);
    }
    return true;
}

/* The rows of the embedding, if there is one or it is required. */
static bool read_n_vocab(struct hparams *hp, bool required, struct err *err)
{
    const struct gguf_tensor *table = gguf_tensor_find(hp->g, hp->embed_table);
    if (!table)
        return !required ||
               err_set(err, ERR_FORMAT,
                       "%s: tensor %s: expected [%u, vocabulary], but it is missing",
                       gguf_path(hp->g), hp->embed_table, hp->n_embd);
    if (table->ne[1] < 1 || table->ne[1] > MAX_WIDTH)
        return err_set(err, ERR_FORMAT, "%s: tensor %s: expected at most %d rows, found %zu",
                       gguf_path(hp->g), hp->embed_table, MAX_WIDTH, table->ne[1]);
    hp->n_vocab = (uint32_t)table->ne[1];
    return true;
}

/* Beyond what hearth can do for the model a context ends by itself, but not one that was asked
 * for. */
static bool limit_context(struct hparams *hp, const struct model_params *params,
                          struct err *err)
{
    const uint32_t n = hp->reach.n;
    if (n == 0 || hp->n_ctx <= n) return true;
    if (params->n_ctx > 0)
        return err_set(err, ERR_USER,
                       "%s: beyond %u tokens this model %s (%s.%s), which hearth cannot, but "
                       "the context is %u: use --ctx %u or less",
                       gguf_path(hp->g), n, hp->reach.beyond, hp->arch, hp->reach.key,
                       hp->n_ctx, n);
    hp->n_ctx = n;
    return true;
}

static bool read_params(struct hparams *hp, const struct family *family, const struct gguf *g,
                        const struct model_params *params, struct err *err)
{
    if (params->n_ctx > MAX_CONTEXT)
        return err_set(err, ERR_USER, "a context of %u tokens is too large; the limit is %d",
                       params->n_ctx, MAX_CONTEXT);
    *hp = (struct hparams){.g = g,
                           .arch = family->name,
                           .headless = family_is_headless(family),
                           .adapter = params->adapter};
    if (!hparams_read(hp, params->n_ctx, err)) return false;
    /* What a family reads may depend on the vocabulary, and where that is on the family. */
    if (read_n_vocab(hp, false, err) && (!family->read || family->read(hp, err)) &&
        limit_context(hp, params, err) && read_n_vocab(hp, true, err) &&
        hparams_agree(hp, err) && kv_fits(hp, params->kv_type, err)) {
        hparams_limit_windows(hp);
        return true;
    }
    hparams_free(hp);
    return false;
}

/* Builds the program with the given weights, which tell whether anything is bound. */
static bool build(struct program *p, const struct hparams *hp, const struct family *family,
                  enum kv_type kv_type, struct weights *ws)
{
    struct builder b;
    build_init(&b, hp, ws, kv_type);
    build_network(&b, family);
    if (ws->failed) {
        build_free(&b);
        return false;
    }
    build_finish(&b, p);
    struct err bug;
    if (!program_check(p, &bug)) {
        weights_fail(ws, ERR_FORMAT, "family %s: %s", family->name, bug.msg);
        program_free(p);
        return false;
    }
    return true;
}

struct model *model_open(const struct gguf *g, struct backend *be,
                         const struct model_params *params,
                         const struct model_progress *progress, const atomic_bool *cancel,
                         struct err *err)
{
    assert(be);
    const struct family *family = family_find(g, err);
    if (!family) return NULL;
    struct model *m = mem_zalloc(1, sizeof *m);
    m->family = family;
    if (!read_params(&m->hp, family, g, params, err)) {
        free(m);
        return NULL;
    }
    /* Once without a backend: errors come before the first byte is loaded, and the total is
     * known. */
    struct weights ws;
    weights_init(&ws, g, NULL, err);
    bool ok = build(&m->program, &m->hp, family, params->kv_type, &ws);
    const uint64_t total = ws.file_bytes;
    weights_free(&ws);
    if (ok) {
        program_free(&m->program);
        weights_init(&ws, g, be, err);
        ws.cancel = cancel;
        if (progress) {
            ws.report = progress->report;
            ws.user = progress->user;
        }
        ws.total_bytes = total;
        ok = build(&m->program, &m->hp, family, params->kv_type, &ws);
        m->token_bytes = ws.token_bytes;
        weights_free(&ws);
    }
    if (ok) return m;
    hparams_free(&m->hp);
    free(m);
    return NULL;
}

void model_close(struct model *m)
{
    if (!m) return;
    program_free(&m->program);
    hparams_free(&m->hp);
    free(m);
}

/* A program for which nothing is bound, and what it points into. */
struct outline {
    struct hparams hp;
    struct weights ws;
    struct program p;
};

/* err lasts as long as *o. */
static bool outline_open(struct outline *o, const struct gguf *g,
                         const struct model_params *params, struct err *err)
{
    const struct family *family = family_find(g, err);
    if (!family || !read_params(&o->hp, family, g, params, err)) return false;
    weights_init(&o->ws, g, NULL, err);
    if (build(&o->p, &o->hp, family, params->kv_type, &o->ws)) return true;
    weights_free(&o->ws);
    hparams_free(&o->hp);
    return false;
}

static void outline_close(struct outline *o)
{
    program_free(&o->p);
    weights_free(&o->ws);
    hparams_free(&o->hp);
}

bool model_estimate(const struct gguf *g, const struct backend *be,
                    const struct model_params *params, uint32_t max_rows,
                    struct model_sizes *out, struct err *err)
{
    struct outline o;
    if (!outline_open(&o, g, params, err)) return false;
    model_program_sizes(&o.p, be, max_rows, out);
    outline_close(&o);
    return true;
}

bool model_context(const struct gguf *g, const struct model_params *params,
                   struct model_context *out, struct err *err)
{
    struct hparams hp;
    const struct family *family = family_find(g, err);
    if (!family || !read_params(&hp, family, g, params, err)) return false;
    const uint32_t n = hp.reach.n;
    *out = (struct model_context){hp.n_ctx, hp.n_ctx_train,
                                  n > 0 && n < hp.n_ctx_train ? hp.reach.beyond : NULL};
    hparams_free(&hp);
    return true;
}

static int by_pointer(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Bytes of memory of all weights, each counted once; what the backend does not copy is read in
 * the mapped file. */
static uint64_t weights_bytes(const struct program *p, const struct backend *be)
{
    const struct weight **all = mem_zalloc(p->n_ops * OP_MOST_WEIGHTS, sizeof *all);
    size_t n = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        struct op op = p->ops[i];
        const struct weight **slots[OP_MOST_WEIGHTS];
        const size_t n_slots = op_weights(&op, slots);
        for (size_t k = 0; k < n_slots; k++)
            all[n++] = *slots[k];
    }
    qsort(all, n, sizeof *all, by_pointer);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct weight *w = all[i];
        if (i > 0 && w == all[i - 1]) continue;
        const size_t copied =
            be ? backend_matrix_bytes(be, w->type, w->n_mats, w->n_rows, w->n_cols) : 0;
        bytes += w->file && copied ? copied : w->n_mats * weight_file_bytes(w);
    }
    free(all);
    return bytes;
}

struct model_sizes model_sizes_sum(struct model_sizes a, const struct model_sizes *b)
{
    a.weights_bytes += b->weights_bytes;
    a.kv_bytes_per_token += b->kv_bytes_per_token;
    a.window_bytes_per_token += b->window_bytes_per_token;
    if (b->window_rows > a.window_rows) a.window_rows = b->window_rows;
    a.state_bytes += b->state_bytes;
    a.exec_bytes += b->exec_bytes;
    return a;
}

uint64_t model_scratch_bytes(const struct model_sizes *s, uint32_t n_ctx)
{
    const uint64_t most = mem_round_up(n_ctx, PAGE_LEN);
    const uint64_t n_rows = s->window_rows < most ? s->window_rows : most;
    return s->exec_bytes + n_rows * s->window_bytes_per_token;
}

uint64_t model_bytes(const struct model_sizes *s, uint32_t n_ctx)
{
    return s->weights_bytes + model_scratch_bytes(s, n_ctx) + n_ctx * s->kv_bytes_per_token;
}

/* Those that are seen, a few to take back, those of a step; in whole pages. */
static uint64_t window_rows(const struct program *p, uint32_t max_rows)
{
    if (p->window == 0) return 0;
    const uint64_t n_rows = (uint64_t)p->window + 3 * PAGE_LEN + max_rows;
    return n_rows - n_rows % PAGE_LEN;
}

void model_program_sizes(const struct program *p, const struct backend *be, uint32_t max_rows,
                         struct model_sizes *out)
{
    *out = (struct model_sizes){
        .n_vocab = p->n_vocab,
        .weights_bytes = weights_bytes(p, be),
        .kv_bytes_per_token = p->page_bytes[PAGE_FULL] / PAGE_LEN,
        .window_bytes_per_token = p->page_bytes[PAGE_WINDOW] / PAGE_LEN,
        .window = p->window,
        .window_rows = window_rows(p, max_rows),
        .state_bytes = p->state_bytes,
        /* States held, those of the step under way, a copy for a snapshot. */
        .exec_bytes = (be ? exec_bytes(be, p, max_rows) : 0) + 3 * p->state_bytes,
    };
}

bool model_outline(const struct gguf *g, const struct model_params *params, model_look_fn *look,
                   void *user, struct err *err)
{
    struct outline o;
    if (!outline_open(&o, g, params, err)) return false;
    const bool ok = look(user, &o.p, err);
    outline_close(&o);
    return ok;
}

const struct program *model_program(const struct model *m)
{
    return &m->program;
}

const char *model_family(const struct model *m)
{
    return m->family->name;
}

uint32_t model_n_vocab(const struct model *m)
{
    return m->hp.n_vocab;
}

uint32_t model_n_layer(const struct model *m)
{
    return m->hp.n_layer;
}

uint32_t model_n_ctx_train(const struct model *m)
{
    return m->hp.n_ctx_train;
}

uint32_t model_n_ctx(const struct model *m)
{
    return m->hp.n_ctx;
}

uint64_t model_token_bytes(const struct model *m)
{
    return m->token_bytes;
}

uint64_t model_kv_read_bytes(const struct model *m, uint32_t pos)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->program.n_ops; i++) {
        const struct op *op = &m->program.ops[i];
        if (op->kind != OP_ATTEND) continue;
        const struct kv_layer *kv = &m->program.kv[op->attend.kv];
        uint64_t keys = (uint64_t)pos + 1;
        if (op->attend.window && keys > op->attend.window) keys = op->attend.window;
        bytes += keys * kv_layer_bytes(kv) / PAGE_LEN;
    }
    return bytes;
}
