/* Token ids as a person writes them for hearth inspect: "1 2 3". Pure; any thread. */
#ifndef APP_TOKEN_IDS_H
#define APP_TOKEN_IDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/ids.h"

/* Appends the ids of s, which blanks, line breaks and commas separate; none at all is fine.
 * ERR_USER on a word that is no number below n_vocab; out has the ids before it then. */
bool token_ids_parse(const char *s, size_t n_vocab, struct ids *out, struct err *err);

#endif
