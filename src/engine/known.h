/* What the owner may know of a loaded model: its engine_info, and the strings that points to.
 *
 * Filled by the engine's thread before the owner may look, constant after. Knows no timeline.
 */
#ifndef ENGINE_KNOWN_H
#define ENGINE_KNOWN_H

#include "engine/engine.h"

struct machine;
struct tokenizer;

struct known {
    struct engine_info info; /* device is the caller's to set */
    char *name, *chat_template, *bos_text, *eos_text;
    char **end_tokens;
    const char *markers[2];
};

/* Fills *k, which is empty. config says where the model and its adapter come from. */
void known_fill(struct known *k, const struct machine *m, const struct tokenizer *tok,
                const struct engine_config *config);
/* The bytes that the model and its draft take together, and whether its device is inexact. */
void known_bytes(const struct machine *m, struct engine_info *info);
/* May be empty. */
void known_free(struct known *k);

#endif
