/* The lines that hearth inspect reads of scripts and golden files: a text or a prompt, one JSON
 * object each. Any bytes are refused in one line of words or taken. Pure; any thread. */
#ifndef APP_JSON_LINES_H
#define APP_JSON_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"

struct tokenizer;

/* {"text": string, "special": bool, "add_special": bool}, the last two false if they are not
 * there. */
struct json_line_text {
    struct buf text;
    bool special, add_special;
};
/* Appends to out->text, which the caller frees, and sets the flags. ERR_USER. */
bool json_line_text(const char *line, size_t n, struct json_line_text *out, struct err *err);

/* {"prompt": P, "reply": R}, each a text or a list of token ids; the reply may be missing.
 * Appends their ids: a text as the prompt is a rendered one (json_line_encode), as the reply it
 * gets no BOS. ERR_USER, also for an id that the vocabulary does not have; the lists hold what
 * was read until then. */
bool json_line_prompt(const struct tokenizer *tok, const char *line, size_t n,
                      struct ids *prompt, struct ids *reply, struct err *err);

/* Appends the ids of a rendered prompt: its control tokens count, and the BOS is the
 * vocabulary's affair. */
bool json_line_encode(const struct tokenizer *tok, const char *text, size_t n, struct ids *ids,
                      struct err *err);

#endif
