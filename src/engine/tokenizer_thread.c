#include "engine/tokenizer_thread.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "text/tokenizer.h"

struct tokenizer_thread {
    const struct gguf *gguf;
    const atomic_bool *cancel;
    bool has_thread;
    pthread_t thread;
    struct tokenizer *tok; /* NULL: err says why */
    struct err err;
};

static void *open_it(void *arg)
{
    struct tokenizer_thread *t = arg;
    t->tok = tokenizer_open(t->gguf, t->cancel, &t->err);
    return NULL;
}

struct tokenizer_thread *tokenizer_thread_start(const struct gguf *g, const atomic_bool *cancel)
{
    struct tokenizer_thread *t = mem_zalloc(1, sizeof *t);
    t->gguf = g;
    t->cancel = cancel;
    t->has_thread = pthread_create(&t->thread, NULL, open_it, t) == 0;
    return t;
}

struct tokenizer *tokenizer_thread_join(struct tokenizer_thread *t, struct err *err)
{
    if (t->has_thread)
        pthread_join(t->thread, NULL);
    else
        open_it(t);
    struct tokenizer *tok = t->tok;
    if (!tok) *err = t->err;
    free(t);
    return tok;
}
