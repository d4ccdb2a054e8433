/* What loading checks of a file besides the model itself; engine_check (engine.h) checks all of
 * it. Engine's thread or the owner's. */
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct tokenizer;

/* Whether the output of the model in the file has a row for each token. */
bool check_vocab(const struct tokenizer *tok, const char *path, size_t n_vocab,
                 struct err *err);

#endif
