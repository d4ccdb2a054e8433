/* A conversation as a prompt: template -> values -> rendering -> spans.
 *
 * The template's own bytes become MARKUP, the user's TEXT. The bytes of a reply become IDS
 * again where they cover whole sampled tokens, so that what the engine has computed for them
 * stays valid whatever the tokenizer would make of the text; the rest of them is TEXT.
 *
 * The chat owns a renderer. The clock that a template may read stands still: a prompt that
 * changed with the minute would never be warm. Owner's thread only; knows no engine and no
 * face. */
#ifndef CHAT_RENDER_H
#define CHAT_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/spans.h"

struct conversation;
struct message;
struct renderer;

struct render_config {
    const char *source; /* the template's text */
    size_t len;
    const char *name; /* what errors call it */
    const char *bos_text, *eos_text;
    int64_t now_s; /* since 1970: what a template takes for the time */
};

/* What the template is asked about thinking. */
enum render_think { RENDER_THINK_DEFAULT, RENDER_THINK_ON, RENDER_THINK_OFF };
/* What --think (enum option_think) asks. */
enum render_think render_think_of(int option_think);

/* NULL and err if the template cannot be parsed. */
struct renderer *renderer_new(const struct render_config *config, struct err *err);
void renderer_free(struct renderer *r); /* NULL is fine */

/* Appends the prompt for a reply to the current branch, whose last message is the user's, to
 * out. A template that refuses a system message, or leaves it out, gets it in front of the
 * first message of the user: *folded says so. err is the template's complaint; out is then as
 * before. */
bool render_prompt(struct renderer *r, struct conversation *c, enum render_think think,
                   struct spans *out, bool *folded, struct err *err);
/* The same for the reply that stands at the end: its prompt, and what was sampled of it, to be
 * gone on with. */
bool render_continued(struct renderer *r, struct conversation *c, enum render_think think,
                      struct spans *out, bool *folded, struct err *err);

/* Appends the beginning of the prompt that will come when a message of the user is sent that
 * begins with the first n_known bytes of begun: up to there. The rest of begun, not nothing,
 * stands for what is not written yet. False if that beginning cannot be told. */
bool render_begun(struct renderer *r, struct conversation *c, enum render_think think,
                  const struct message *begun, size_t n_known, struct spans *out);

/* Appends bytes at..at+n of a reply's text: ids for whole tokens, text for the rest. */
void render_reply(const struct message *reply, size_t at, size_t n, struct spans *out);

/* Whether the template can be asked to think or not to. */
bool render_knows_think(const struct renderer *r);

#endif
