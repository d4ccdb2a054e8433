/* Two arrays of tokens, side by side. */
#include "engine/draft_vocab.h"

#include <string.h>

#include "base/printable.h"
#include "gguf/gguf.h"

/* tokenizer.ggml.token_type of a token that a padded vocabulary ends with. */
enum { TYPE_UNUSED = 5 };

struct vocab {
    const struct gguf_kv *tokens, *types; /* types may be NULL */
};

static bool find_tokens(const struct gguf *g, const char *who, struct vocab *out,
                        struct err *err)
{
    out->tokens = gguf_find(g, "tokenizer.ggml.tokens");
    out->types = gguf_find(g, "tokenizer.ggml.token_type");
    if (out->tokens && out->tokens->type == GGUF_STRING && out->tokens->is_array) return true;
    return err_set(err, ERR_USER, "%s has no vocabulary (tokenizer.ggml.tokens)", who);
}

static bool is_padding(const struct vocab *v, size_t i)
{
    const struct gguf_str text = gguf_item_str(v->tokens, i);
    if (text.len >= 4 && memcmp(text.data, "[PAD", 4) == 0) return true;
    return v->types && gguf_is_int(v->types->type) && i < v->types->n &&
           gguf_item_int(v->types, i) == TYPE_UNUSED;
}

/* Whether all tokens from n on are padding. */
static bool check_rest(const struct vocab *v, size_t n, const char *who, const char *other,
                       struct err *err)
{
    char shown[80];
    for (size_t i = n; i < v->tokens->n; i++) {
        if (is_padding(v, i)) continue;
        const struct gguf_str text = gguf_item_str(v->tokens, i);
        return err_set(err, ERR_USER,
                       "another vocabulary: token %zu is \"%s\" in %s, and %s has only %zu", i,
                       printable(shown, sizeof shown, text.data, text.len), who, other, n);
    }
    return true;
}

bool draft_vocab_check(const struct gguf *target, const struct gguf *draft, struct err *err)
{
    struct vocab t, d;
    char in_target[80], in_draft[80];
    if (!find_tokens(target, "the model", &t, err) || !find_tokens(draft, "it", &d, err))
        return false;
    const size_t n = t.tokens->n < d.tokens->n ? t.tokens->n : d.tokens->n;
    for (size_t i = 0; i < n; i++) {
        const struct gguf_str a = gguf_item_str(t.tokens, i), b = gguf_item_str(d.tokens, i);
        if (a.len == b.len && memcmp(a.data, b.data, a.len) == 0) continue;
        if (is_padding(&t, i) || is_padding(&d, i)) continue;
        return err_set(err, ERR_USER,
                       "another vocabulary: token %zu is \"%s\" in the model and \"%s\" in it",
                       i, printable(in_target, sizeof in_target, a.data, a.len),
                       printable(in_draft, sizeof in_draft, b.data, b.len));
    }
    return check_rest(&t, n, "the model", "it", err) &&
           check_rest(&d, n, "it", "the model", err);
}
