/* A tokenizer that is opened on a thread of its own while weights are read: a large vocabulary
 * takes as long as the weights of a small model. Whoever starts it joins it, once, before the
 * file is closed; one thread. It must not know what else is read meanwhile. */
#ifndef ENGINE_TOKENIZER_THREAD_H
#define ENGINE_TOKENIZER_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

struct gguf;
struct tokenizer;
struct tokenizer_thread;

/* Begins to open the tokenizer of g. g and *cancel are borrowed until the join. */
struct tokenizer_thread *tokenizer_thread_start(const struct gguf *g,
                                                const atomic_bool *cancel);
/* Waits for it and frees it; the result and the errors are those of tokenizer_open. Who no
 * longer wants it waits as well: a tenth of a second, once the file has been read. */
struct tokenizer *tokenizer_thread_join(struct tokenizer_thread *t, struct err *err);

#endif
