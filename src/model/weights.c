/* From a tensor's name to a bound weight. */
#include "model/weights.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/impl.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "base/printable.h"
#include "gguf/gguf.h"
#include "model/other_names.h"

void weights_init(struct weights *ws, const struct gguf *g, struct backend *be, struct err *err)
{
    memset(ws, 0, sizeof *ws);
    ws->g = g;
    ws->be = be;
    ws->err = err;
    ws->used = mem_zalloc(gguf_n_tensors(g) + 1, sizeof *ws->used);
    ws->read = mem_zalloc(gguf_n_tensors(g) + 1, sizeof *ws->read);
    ws->of_tensor = mem_zalloc(gguf_n_tensors(g) + 1, sizeof *ws->of_tensor);
}

void weights_free(struct weights *ws)
{
    for (size_t i = 0; i < ws->n_stand_ins; i++)
        free(ws->stand_ins[i]);
    free(ws->stand_ins);
    free(ws->used);
    free(ws->read);
    free(ws->of_tensor);
    memset(ws, 0, sizeof *ws);
}

bool weights_fail(struct weights *ws, enum err_code code, const char *fmt, ...)
{
    if (ws->failed) return false;
    ws->failed = true;
    char msg[sizeof ws->err->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return err_set(ws->err, code, "%s: %s", gguf_path(ws->g), msg);
}

bool weights_has(const struct weights *ws, const char *name)
{
    return tensor_named(ws->g, name) != NULL;
}

size_t weights_dim(const struct weights *ws, const char *name, unsigned i)
{
    const struct gguf_tensor *t = tensor_named(ws->g, name);
    assert(i < 4);
    return t ? t->ne[i] : 0;
}

/* "[256, 512]", trailing ones left out as far as n_dims allows. */
static const char *shape_text(const size_t ne[4], uint32_t n_dims, char out[96])
{
    size_t at = 0;
    at += (size_t)snprintf(out, 96, "[");
    for (uint32_t i = 0; i < n_dims && i < 4; i++)
        at += (size_t)snprintf(out + at, 96 - at, i ? ", %zu" : "%zu", ne[i]);
    snprintf(out + at, 96 - at, "]");
    return out;
}

/* The tensor, if it is there with the wanted shape. */
static const struct gguf_tensor *fetch(struct weights *ws, const char *name,
                                       const size_t want[4])
{
    if (ws->failed) return NULL;
    uint32_t n_dims = 4;
    while (n_dims > 1 && want[n_dims - 1] == 1)
        n_dims--;
    char expected[96], found[96];
    shape_text(want, n_dims, expected);
    const struct gguf_tensor *t = tensor_named(ws->g, name);
    if (!t) {
        weights_fail(ws, ERR_FORMAT, "tensor %s: expected %s, but it is missing", name,
                     expected);
        return NULL;
    }
    if (memcmp(t->ne, want, sizeof t->ne) != 0) {
        weights_fail(ws, ERR_FORMAT, "tensor %s: expected %s, found %s", name, expected,
                     shape_text(t->ne, t->n_dims, found));
        return NULL;
    }
    return t;
}

static bool cancelled(struct weights *ws)
{
    if (cancel_is_set(ws->cancel)) weights_fail(ws, ERR_CANCELLED, "loading was cancelled");
    return ws->failed;
}

static size_t tensor_index(const struct weights *ws, const struct gguf_tensor *t)
{
    return (size_t)(t - gguf_tensor_at(ws->g, 0));
}

/* A token reads n_bytes of the tensor. Whoever asks for it again reads the same bytes, or these
 * among others, as the head those of the embedding it is tied to. */
static void count_read(struct weights *ws, const struct gguf_tensor *t, size_t n_bytes)
{
    size_t *counted = &ws->read[tensor_index(ws, t)];
    if (n_bytes <= *counted) return;
    ws->token_bytes += n_bytes - *counted;
    *counted = n_bytes;
}

static const struct weight *stand_in(struct weights *ws, struct weight shape)
{
    struct weight *w = mem_alloc(sizeof *w);
    *w = shape;
    MEM_GROW(ws->stand_ins, ws->n_stand_ins, ws->cap_stand_ins);
    ws->stand_ins[ws->n_stand_ins++] = w;
    return w;
}

/* The tensor counts as bound, as w; without a backend w is NULL and a stand-in takes its place.
 */
static const struct weight *enter(struct weights *ws, const struct gguf_tensor *t,
                                  const struct weight *w, struct weight shape)
{
    if (!w) w = stand_in(ws, shape);
    ws->of_tensor[tensor_index(ws, t)] = w;
    ws->used[tensor_index(ws, t)] = true;
    ws->file_bytes += t->n_bytes;
    if (ws->report) ws->report(ws->user, ws->file_bytes, ws->total_bytes);
    return w;
}

static const struct weight *not_bound(struct weights *ws, const struct gguf_tensor *t)
{
    ws->failed = true;
    err_prefix(ws->err, "%s: tensor %s", gguf_path(ws->g), t->name);
    return NULL;
}

/* The tensor of n_mats matrices, of which token_share of token_of is what one token reads. It
 * has n_mats / n_parts of n_parts matrices each, one over the other. */
static const struct weight *matrix(struct weights *ws, const char *name, struct weight shape,
                                   size_t n_parts, size_t token_share, size_t token_of)
{
    const size_t want[4] = {shape.n_cols, n_parts * shape.n_rows, shape.n_mats / n_parts, 1};
    const struct gguf_tensor *t = fetch(ws, name, want);
    if (!t || cancelled(ws)) return NULL;
    count_read(ws, t, t->n_bytes / token_of * token_share);
    const struct weight *w = ws->of_tensor[tensor_index(ws, t)];
    if (w) return w;
    shape.type = t->type;
    shape.file = t->data;
    if (ws->be) {
        w = backend_matrix(ws->be, t->type, shape.n_mats, shape.n_rows, shape.n_cols, t->data,
                           ws->cancel, ws->err);
        if (!w) return cancelled(ws) ? NULL : not_bound(ws, t);
        if (backend_matrix_bytes(ws->be, t->type, shape.n_mats, shape.n_rows, shape.n_cols) > 0)
            gguf_tensor_release(ws->g, t);
    }
    return enter(ws, t, w, shape);
}

const struct weight *weights_matrix(struct weights *ws, const char *name, size_t n_rows,
                                    size_t n_cols)
{
    return matrix(ws, name, (struct weight){.n_mats = 1, .n_rows = n_rows, .n_cols = n_cols}, 1,
                  1, 1);
}

const struct weight *weights_table(struct weights *ws, const char *name, size_t n_rows,
                                   size_t n_cols)
{
    return matrix(ws, name, (struct weight){.n_mats = 1, .n_rows = n_rows, .n_cols = n_cols}, 1,
                  1, n_rows);
}

const struct weight *weights_experts(struct weights *ws, const char *name, size_t n_experts,
                                     size_t n_used, size_t n_parts, size_t n_rows,
                                     size_t n_cols)
{
    const struct weight shape = {
        .n_mats = n_experts * n_parts, .n_rows = n_rows, .n_cols = n_cols};
    return matrix(ws, name, shape, n_parts, n_used, n_experts);
}

/* A tensor of n_rows rows that must hold plain floats. Some files have one or two dims of 1
 * between. */
static const struct gguf_tensor *fetch_f32(struct weights *ws, const char *name, size_t n_rows,
                                           size_t n_cols)
{
    unsigned at = 1;
    while (at < 3 && weights_dim(ws, name, at) == 1 && n_rows > 1)
        at++;
    size_t want[4] = {n_cols, 1, 1, 1};
    if (weights_dim(ws, name, at) == 1) at = 1; /* it has one row */
    want[at] = n_rows;
    const struct gguf_tensor *t = fetch(ws, name, want);
    if (!t) return NULL;
    if (t->type == QTYPE_F32) return t;
    weights_fail(ws, ERR_FORMAT, "tensor %s: expected type F32, found %s", name,
                 qtype_info(t->type)->name);
    return NULL;
}

bool weights_values(struct weights *ws, const char *name, size_t n, float *out)
{
    const struct gguf_tensor *t = fetch_f32(ws, name, 1, n);
    if (!t) return false;
    memcpy(out, t->data, n * sizeof *out);
    ws->used[tensor_index(ws, t)] = true;
    return true;
}

/* Binds the values, row after row or column after column, each `times` times. */
static const struct weight *bind_floats(struct weights *ws, const struct gguf_tensor *t,
                                        bool transposed, size_t times, size_t token_bytes)
{
    if (!t || cancelled(ws)) return NULL;
    count_read(ws, t, token_bytes);
    const struct weight *w = ws->of_tensor[tensor_index(ws, t)];
    if (w) return w;
    const size_t n_cols = t->ne[0], n_rows = t->ne[1] * t->ne[2] * t->ne[3];
    const size_t n = n_rows * n_cols * times;
    if (ws->be) {
        /* The file promises no alignment. */
        float *values = mem_alloc(n * sizeof *values);
        for (size_t i = 0; i < n; i++) {
            const size_t at = i / times;
            const size_t from = transposed ? at % n_rows * n_cols + at / n_rows : at;
            memcpy(&values[i], t->data + from * sizeof *values, sizeof *values);
        }
        w = backend_vector(ws->be, values, n, ws->err);
        free(values);
        if (!w) return not_bound(ws, t);
    }
    return enter(ws, t, w, (struct weight){.type = QTYPE_F32, 1, 1, n});
}

const struct weight *weights_flat(struct weights *ws, const char *name, size_t n_rows,
                                  size_t n_cols, bool transposed)
{
    return bind_floats(ws, fetch_f32(ws, name, n_rows, n_cols), transposed, 1,
                       n_rows * n_cols * sizeof(float));
}

const struct weight *weights_repeated(struct weights *ws, const char *name, size_t n,
                                      size_t times)
{
    return bind_floats(ws, fetch_f32(ws, name, n, 1), false, times, n * sizeof(float));
}

const struct weight *weights_vector(struct weights *ws, const char *name, size_t n)
{
    return weights_flat(ws, name, 1, n, false);
}

const struct weight *weights_expert_vectors(struct weights *ws, const char *name,
                                            size_t n_experts, size_t n_used, size_t n)
{
    return bind_floats(ws, fetch_f32(ws, name, n_experts, n), false, 1,
                       n_used * n * sizeof(float));
}

const struct weight *weights_given(struct weights *ws, size_t n, const float *values)
{
    if (ws->failed) return NULL;
    if (!ws->be) return stand_in(ws, (struct weight){.type = QTYPE_F32, 1, 1, n});
    const struct weight *w = backend_vector(ws->be, values, n, ws->err);
    if (!w) ws->failed = true;
    return w;
}

const struct weight *weights_constant(struct weights *ws, size_t n, float value)
{
    float *values = mem_alloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[i] = value;
    const struct weight *w = weights_given(ws, n, values);
    free(values);
    return w;
}

const struct weight *weights_vector_if(struct weights *ws, const char *name, size_t n)
{
    return weights_has(ws, name) ? weights_vector(ws, name, n) : NULL;
}

const struct weight *weights_factors_if(struct weights *ws, const char *name,
                                        const struct weight *w, size_t n)
{
    return weight_quantised(w) ? weights_vector_if(ws, name, n) : NULL;
}

size_t weights_adapter(struct weights *ws, const struct weight *w, const struct weight **a,
                       const struct weight **b)
{
    char name[2][160];
    const size_t n = gguf_n_tensors(ws->g);
    size_t i = 0;
    while (i < n && ws->of_tensor[i] != w)
        i++;
    if (!w || i == n) return 0;
    const struct gguf_tensor *t = gguf_tensor_at(ws->g, i);
    for (int k = 0; k < 2; k++)
        snprintf(name[k], sizeof name[k], "%s.lora_%c", t->name, "ab"[k]);
    if (!weights_has(ws, name[0])) return 0;
    const size_t rank = weights_dim(ws, name[0], 1);
    *a = weights_matrix(ws, name[0], rank, w->n_cols);
    *b = weights_matrix(ws, name[1], w->n_rows, rank);
    return *a && *b ? rank : 0;
}

bool weight_quantised(const struct weight *w)
{
    return w && qtype_info(w->type)->block_len > 1;
}

void weights_ignore(struct weights *ws, const char *name)
{
    const struct gguf_tensor *t = tensor_named(ws->g, name);
    if (t) ws->used[tensor_index(ws, t)] = true;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static bool is_of_adapter(const char *name)
{
    return ends_with(name, ".lora_a") || ends_with(name, ".lora_b");
}

static bool changes_result(const char *name, uint32_t n_layer)
{
    if (is_of_adapter(name)) return true;
    if (strncmp(name, "blk.", 4) == 0) {
        char *end;
        unsigned long layer = strtoul(name + 4, &end, 10);
        /* Old converters left the rotation's frequencies, which follow from the keys. Input
         * scales are for devices whose activations have four bits. */
        return *end == '.' && layer < n_layer && !ends_with(name, "rot_embd.weight") &&
               !ends_with(name, "rotary_emb.inv_freq") && !ends_with(name, ".input_scale");
    }
    static const char *const outside[] = {
        "token_embd.bias",
        "token_embd_norm.weight",
        "token_embd.scale",
        "token_embd_norm.bias",
        "position_embd.weight",
        "token_types.weight",
        "output_norm.bias",
        "output.bias",
        "output.scale",
        "rope_freqs.weight",
        "per_layer_token_embd.weight",
    };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        if (strcmp(name, outside[i]) == 0) return true;
    return false;
}

bool weights_all_used(struct weights *ws, uint32_t n_layer, const char *family)
{
    if (ws->failed) return false;
    for (size_t i = 0; i < gguf_n_tensors(ws->g); i++) {
        const char *name = gguf_tensor_at(ws->g, i)->name;
        if (ws->used[i] || !changes_result(name, n_layer)) continue;
        char shown[160];
        printable(shown, sizeof shown, name, strlen(name));
        if (is_of_adapter(name))
            return weights_fail(ws, ERR_USER,
                                "the adapter's tensor %s belongs to what hearth's %s has no "
                                "adapter for",
                                shown, family);
        return weights_fail(
            ws, ERR_FORMAT,
            "tensor %s: hearth's %s has no such tensor, and leaving it out would "
            "change the answers",
            shown, family);
    }
    return true;
}
