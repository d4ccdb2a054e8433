#include "text/turn_template.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "template/builtin_templates.h"
#include "text/tokenizer.h"

static bool holds_all(const struct tokenizer *tok, const struct builtin_template *t)
{
    if (!t->tokens[0]) return false;
    for (size_t i = 0; i < BUILTIN_MAX_TOKENS && t->tokens[i]; i++)
        if (tokenizer_find(tok, t->tokens[i], strlen(t->tokens[i])) < 0) return false;
    return true;
}

const struct builtin_template *turn_template(const struct tokenizer *tok)
{
    const struct builtin_template *t;
    for (size_t i = 0; (t = builtin_template_at(i)); i++)
        if (holds_all(tok, t)) return t;
    return NULL;
}
