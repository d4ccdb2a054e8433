/* What an adapter's file says of itself, and whether it belongs to the model. */
#include "model/adapter.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "gguf/gguf.h"

enum { NAME_CAP = 128 };

/* The value of a string key, "" if it is not there, made printable. */
static const char *shown_string(const struct gguf *g, const char *key, char *out, size_t cap)
{
    struct gguf_str s = {"", 0};
    gguf_string(g, key, &s);
    return printable(out, cap, s.data, s.len);
}

static bool check_keys(const struct gguf *model, const struct gguf *a, struct err *err)
{
    char kind[64], type[64], of[64], wanted[64];
    const char *path = gguf_path(a);
    shown_string(a, "general.type", kind, sizeof kind);
    shown_string(a, "adapter.type", type, sizeof type);
    shown_string(a, "general.architecture", of, sizeof of);
    shown_string(model, "general.architecture", wanted, sizeof wanted);
    if (strcmp(kind, "adapter") != 0)
        return err_set(err, ERR_USER,
                       "%s: expected an adapter (general.type \"adapter\"), found \"%s\"", path,
                       kind);
    if (strcmp(type, "lora") != 0)
        return err_set(err, ERR_USER, "%s: expected adapter.type \"lora\", found \"%s\"", path,
                       type);
    if (strcmp(of, wanted) != 0)
        return err_set(err, ERR_USER, "%s: is an adapter of a model of \"%s\", not of \"%s\"",
                       path, of, wanted);
    if (gguf_find(a, "adapter.alora.invocation_tokens"))
        return err_set(err, ERR_USER,
                       "%s: adapter.alora.invocation_tokens: an adapter that counts from some "
                       "tokens on is not supported",
                       path);
    return true;
}

/* The tensor of the model that a tensor of the adapter belongs to, and its other half: of "w",
 * "w.lora_a" and "w.lora_b". */
struct halves {
    const struct gguf_tensor *of, *a, *b;
};

static bool find_halves(const struct gguf *model, const struct gguf *adapter,
                        const struct gguf_tensor *t, struct halves *h, struct err *err)
{
    char base[NAME_CAP], other[NAME_CAP + 8], shown[NAME_CAP];
    const size_t n = strlen(t->name);
    printable(shown, sizeof shown, t->name, n);
    const bool is_a = n > 7 && strcmp(t->name + n - 7, ".lora_a") == 0;
    const bool is_b = n > 7 && strcmp(t->name + n - 7, ".lora_b") == 0;
    if ((!is_a && !is_b) || n - 7 >= sizeof base)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor %s: expected a name that ends with .lora_a or .lora_b",
                       gguf_path(adapter), shown);
    snprintf(base, sizeof base, "%.*s", (int)(n - 7), t->name);
    snprintf(other, sizeof other, "%s.lora_%c", base, is_a ? 'b' : 'a');
    const struct gguf_tensor *half = gguf_tensor_find(adapter, other);
    *h = (struct halves){gguf_tensor_find(model, base), is_a ? t : half, is_a ? half : t};
    if (!half)
        return err_set(err, ERR_FORMAT, "%s: tensor %s: there is no %s to it",
                       gguf_path(adapter), shown, is_a ? ".lora_b" : ".lora_a");
    return h->of || err_set(err, ERR_USER, "%s: tensor %s: the model has no such matrix",
                            gguf_path(adapter), shown);
}

static bool check_shapes(const struct gguf *adapter, const struct halves *h, struct err *err)
{
    const size_t *w = h->of->ne, *a = h->a->ne, *b = h->b->ne;
    char shown[NAME_CAP];
    printable(shown, sizeof shown, h->of->name, strlen(h->of->name));
    /* A row of the embedding is looked up, not made by a product. */
    if (strcmp(h->of->name, "token_embd.weight") == 0 || w[2] > 1 || w[3] > 1)
        return err_set(err, ERR_USER, "%s: an adapter of %s is not supported",
                       gguf_path(adapter), shown);
    if (a[0] == w[0] && b[1] == w[1] && a[1] == b[0] && a[2] == 1 && b[2] == 1) return true;
    return err_set(err, ERR_USER,
                   "%s: %s: expected .lora_a of [%zu, rank] and .lora_b of [rank, %zu], found "
                   "[%zu, %zu] and [%zu, %zu]",
                   gguf_path(adapter), shown, w[0], w[1], a[0], a[1], b[0], b[1]);
}

static bool check_tensors(const struct gguf *model, const struct gguf *adapter, struct err *err)
{
    struct halves h;
    for (size_t i = 0; i < gguf_n_tensors(adapter); i++)
        if (!find_halves(model, adapter, gguf_tensor_at(adapter, i), &h, err) ||
            !check_shapes(adapter, &h, err))
            return false;
    return gguf_n_tensors(adapter) > 0 ||
           err_set(err, ERR_FORMAT, "%s: has no tensors", gguf_path(adapter));
}

/* Without alpha what A and B make counts as it is. */
static bool read_scale(const struct gguf *adapter, float strength, struct adapter *out,
                       struct err *err)
{
    double alpha = 0;
    if (gguf_find(adapter, "adapter.lora.alpha") &&
        (!gguf_f64(adapter, "adapter.lora.alpha", &alpha) || !isfinite(alpha)))
        return err_set(err, ERR_FORMAT, "%s: adapter.lora.alpha: expected a number",
                       gguf_path(adapter));
    out->by_rank = alpha != 0;
    out->scale = strength;
    if (out->by_rank) out->scale *= fabs(alpha) <= FLT_MAX ? (float)alpha : INFINITY;
    /* What counts for nothing in F32 would leave the adapter out without a word. */
    if (isfinite(out->scale) && (out->scale != 0) == (strength != 0)) return true;
    return err_set(err, ERR_FORMAT,
                   "%s: adapter.lora.alpha: %g, of which %g counts, is beyond F32",
                   gguf_path(adapter), alpha, (double)strength);
}

struct gguf *adapter_open(const char *model, const char *path, float strength,
                          struct adapter *out, struct err *err)
{
    *out = (struct adapter){0};
    struct gguf *g = gguf_open(model, err);
    struct gguf *a = g && path ? gguf_open(path, err) : NULL;
    bool ok = g && (!path || (a && check_keys(g, a, err) && check_tensors(g, a, err) &&
                              read_scale(a, strength, out, err)));
    gguf_close(a);
    if (ok && path && strength != 0) ok = gguf_join(g, path, err);
    if (ok) return g;
    gguf_close(g);
    return NULL;
}
