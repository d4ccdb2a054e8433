/* The chat templates that are built in, one per manner of marking turns.
 *
 * They are for models whose files bring none, and for --template NAME. Each is written after
 * what the model's makers train it on, less what is theirs alone: tools, images, a system
 * message that nobody asked for. Every one but "raw" takes an answer apart from the thoughts
 * before it (reasoning_content) and shows earlier thoughts only where the makers do.
 *
 * Static data, any thread. Knows no vocabulary: whoever has one looks for the tokens. */
#ifndef TEMPLATE_BUILTIN_TEMPLATES_H
#define TEMPLATE_BUILTIN_TEMPLATES_H

#include <stddef.h>

struct buf;

enum { BUILTIN_MAX_TOKENS = 4 };

struct builtin_template {
    const char *name;  /* "gemma": what --template takes */
    const char *whose; /* "Gemma's"; NULL where no vocabulary tells */
    /* The tokens that a vocabulary of such a model holds, all of them, NULL after the last. */
    const char *tokens[BUILTIN_MAX_TOKENS];
    const char *source; /* Jinja */
};

/* The i-th, the most telling tokens first; NULL past the end. */
const struct builtin_template *builtin_template_at(size_t i);
/* The one whose name is these n bytes; NULL: there is none. */
const struct builtin_template *builtin_template_find(const char *name, size_t n);
/* What stands in for the template that a model lacks: told, which its vocabulary tells, or
 * ChatML, the commonest, if that is NULL. */
const struct builtin_template *builtin_template_stand_in(const struct builtin_template *told);
/* Appends why, to be read after "the model has no chat template". */
void builtin_template_why(const struct builtin_template *told, struct buf *out);
/* The source of the one of a name, NUL-terminated; NULL: there is none. */
const char *template_builtin(const char *name);

#endif
