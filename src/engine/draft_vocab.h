/* Whether a model can draft for another: both must mean the same by a token id.
 *
 * Pure: it reads the metadata of two open files. Any thread. */
#ifndef ENGINE_DRAFT_VOCAB_H
#define ENGINE_DRAFT_VOCAB_H

#include <stdbool.h>

#include "base/err.h"

struct gguf;

/* The tokens that both have must have the same texts. One may have more if the rest is padding:
 * unused tokens or [PAD…]. ERR_USER names the first difference. */
bool draft_vocab_check(const struct gguf *target, const struct gguf *draft, struct err *err);

#endif
