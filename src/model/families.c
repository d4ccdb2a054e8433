/* All families: the groups of families_*.c, one after another. */
#include "model/families.h"

#include <string.h>

#include "base/printable.h"
#include "gguf/gguf.h"
#include "model/model.h"

static const struct family *const groups[] = {
    families_plain, families_delta,     families_experts,   families_latent,  families_parallel,
    families_post,  families_gemma4,    families_gpt_oss,   families_granite, families_hybrid,
    families_hyper, families_layernorm, families_recurrent,
};
enum { N_GROUPS = sizeof groups / sizeof *groups };

/* How many families have names before this one. */
static size_t rank_of(const char *name)
{
    size_t n = 0;
    for (size_t g = 0; g < N_GROUPS; g++)
        for (const struct family *f = groups[g]; f->name; f++)
            n += strcmp(f->name, name) < 0;
    return n;
}

/* The i-th of all by name; NULL past the last. */
static const struct family *family_at(size_t i)
{
    for (size_t g = 0; g < N_GROUPS; g++)
        for (const struct family *f = groups[g]; f->name; f++)
            if (rank_of(f->name) == i) return f;
    return NULL;
}

static const struct family *family_named(const struct gguf_str *name)
{
    for (size_t g = 0; g < N_GROUPS; g++)
        for (const struct family *f = groups[g]; f->name; f++)
            if (name->len == strlen(f->name) && memcmp(name->data, f->name, name->len) == 0)
                return f;
    return NULL;
}

const char *model_family_at(size_t i)
{
    const struct family *f = family_at(i);
    return f ? f->name : NULL;
}

bool family_is_headless(const struct family *f)
{
    for (const struct family *r = families_recurrent; r->name; r++)
        if (r == f) return true;
    return false;
}

const struct family *family_find(const struct gguf *g, struct err *err)
{
    struct gguf_str arch;
    if (!gguf_string(g, "general.architecture", &arch)) {
        err_set(err, ERR_FORMAT,
                "%s: key general.architecture is missing or no string: no model", gguf_path(g));
        return NULL;
    }
    struct gguf_str type;
    if (gguf_string(g, "general.type", &type) && type.len == 7 &&
        memcmp(type.data, "adapter", 7) == 0) {
        err_set(err, ERR_USER, "%s: is an adapter: -m names the model, and --lora the adapter",
                gguf_path(g));
        return NULL;
    }
    const struct family *f = family_named(&arch);
    if (f) return f;
    char shown[80];
    size_t n = 0;
    while (family_at(n))
        n++;
    err_set(err, ERR_USER,
            "%s: hearth does not know the model family \"%s\"; hearth inspect families lists "
            "the %zu that it runs",
            gguf_path(g), printable(shown, sizeof shown, arch.data, arch.len), n);
    return NULL;
}
