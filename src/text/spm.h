/* SentencePiece with scores (tokenizer model "llama"): neighbours join where their text is a
 * token, best score first; characters that are no token become bytes. Pure. */
#ifndef TEXT_SPM_H
#define TEXT_SPM_H

#include <stddef.h>

#include "base/ids.h"

struct vocab;
struct merger;

/* Appends the ids of text[0..len), spaces already spelled as U+2581: fewer than 2^31 characters
 * and 2^32 bytes. */
void spm_encode(const struct vocab *v, const char *text, size_t len, struct merger *scratch,
                struct ids *out);

#endif
