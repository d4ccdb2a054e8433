#include "chat/schemas.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

static const struct grammar *compile(const char *text, struct err *err)
{
    const size_t n = strlen(text);
    const bool is_any = strcmp(text, "json") == 0;
    if (n > SCHEMA_MAX_BYTES) {
        err_set(err, ERR_USER, "expected at most %d bytes, found %zu", SCHEMA_MAX_BYTES, n);
        return NULL;
    }
    return engine_grammar(is_any ? NULL : text, is_any ? 0 : n, err);
}

const struct grammar *schemas_find(struct schemas *s, const char *text, struct err *err)
{
    size_t oldest = 0;
    for (size_t i = 0; i < SCHEMAS_KEPT; i++) {
        if (s->kept[i].text && strcmp(s->kept[i].text, text) == 0) {
            s->kept[i].used = ++s->asked;
            return s->kept[i].grammar;
        }
        if (s->kept[i].used < s->kept[oldest].used) oldest = i;
    }
    const struct grammar *g = compile(text, err);
    if (!g) return NULL;
    free(s->kept[oldest].text);
    engine_grammar_release(s->kept[oldest].grammar);
    s->kept[oldest].text = mem_strdup(text);
    s->kept[oldest].grammar = g;
    s->kept[oldest].used = ++s->asked;
    return g;
}

void schemas_free(struct schemas *s)
{
    for (size_t i = 0; i < SCHEMAS_KEPT; i++) {
        free(s->kept[i].text);
        engine_grammar_release(s->kept[i].grammar);
    }
    *s = (struct schemas){0};
}
