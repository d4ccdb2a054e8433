/* What a model changes of the options: its own settings count, and a bias names tokens of its
 * vocabulary. */
#include <string.h>

#include "base/printable.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "engine/engine.h"

static void take_listed(struct chat *c, bool is_new)
{
    struct buf notes = {0};
    options_apply_listed(c->options, &notes);
    if (is_new) chat_tell_lines(c, &notes);
    buf_free(&notes);
}

void model_take_settings(struct chat *c, bool is_new)
{
    struct err err;
    options_forget_model(c->options);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *key = option_row((enum option_id)i)->model_key;
        double value;
        if (key && engine_number(c->engine, key, &value) &&
            !options_apply_model(c->options, key, value, &err) && is_new)
            chat_tell(c, FACE_WARNING, "%s", err.msg);
    }
    take_listed(c, is_new);
}

bool model_has_system(const struct chat *c)
{
    const char *now = conversation_system(c->conversation), *own = c->options->system;
    return c->options->source[OPT_SYSTEM].from <= FROM_MODEL &&
           strcmp(now ? now : "", own ? own : "") == 0;
}

void model_tell_system(struct chat *c)
{
    const char *own = c->options->system;
    char words[CHAT_QUOTE_BYTES];
    if (!own || !model_has_system(c)) return;
    chat_hint(c, "the model brings a system message: \"%s\"; /system shows it",
              printable(words, sizeof words, own, strlen(own)));
}

bool model_takes_bias(const struct chat *c, int32_t id)
{
    return c->options->source[OPT_LOGIT_BIAS].from != FROM_SESSION ||
           (uint32_t)id < engine_info(c->engine)->n_vocab;
}

void model_explain_lost_bias(struct chat *c)
{
    const struct option_biases *biases = &c->options->logit_bias;
    int32_t first = 0;
    size_t n = 0;
    for (size_t i = 0; i < biases->n; i++)
        if (!model_takes_bias(c, biases->items[i].id) && n++ == 0) first = biases->items[i].id;
    if (n == 0) return;
    chat_tell(c, FACE_WARNING,
              "logit-bias of token %d%s is left out: the session brings it, and the vocabulary "
              "has %u tokens",
              (int)first, n > 1 ? " and others" : "",
              (unsigned)engine_info(c->engine)->n_vocab);
}

bool model_has_biases(const struct chat *c, struct err *err)
{
    const struct option_biases *biases = &c->options->logit_bias;
    bool all = true;
    for (size_t i = 0; i < biases->n && all; i++)
        all = !model_takes_bias(c, biases->items[i].id) ||
              engine_has_biased(c->engine, biases->items[i].id, err);
    return all;
}

void model_explain_wrong_bias(struct chat *c)
{
    struct err err;
    if (c->face->has_prompt && !model_has_biases(c, &err))
        chat_tell(c, FACE_WARNING,
                  "%s: no message is answered until /set logit-bias= takes it back", err.msg);
}

void model_explain_bias(struct chat *c)
{
    if (c->options->logit_bias.n == 0) return;
    chat_tell(c, FACE_WARNING,
              "logit-bias names tokens by their numbers, and with this model these are other "
              "tokens; %slogit-bias= takes them back",
              c->face->has_prompt ? "/set " : "--");
}
