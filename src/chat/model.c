/* /model: the conversation goes on with another model. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/discover.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "config/paths.h"
#include "engine/engine.h"

/* Opens the model that the options name. */
static bool open_model(struct chat *c, struct err *err)
{
    idle_stop(c);
    model_end(c);
    c->config.model_path = c->options->model;
    draft_configure(c);
    c->config.resumes = conversation_n(c->conversation) > 0;
    c->engine = engine_open(&c->config, err);
    c->state = CHAT_LOADING;
    c->last.there = false;
    c->said.folded = c->said.no_think = c->said.no_text = false;
    return c->engine != NULL;
}

/* The adapter of the model to come, NULL: none; of the same model again the one that it has. */
static const char *adapter_to_come(const struct chat *c, const char *path, const char *adapter)
{
    const bool is_same = c->options->model && strcmp(path, c->options->model) == 0;
    return adapter || !is_same ? adapter : c->config.adapter_path;
}

static bool give_adapter(struct chat *c, const char *adapter, struct err *err)
{
    if (!adapter) options_forget(c->options, OPT_LORA);
    const bool ok = !adapter || options_give(c->options, OPT_LORA, FROM_SET, 0, adapter, err);
    c->config.adapter_path = c->options->lora;
    return ok;
}

/* An adapter stays with its model. */
static bool change_adapter(struct chat *c, const char *adapter, struct err *err)
{
    const char *now = c->config.adapter_path;
    char *next = adapter ? mem_strdup(adapter) : NULL;
    free(c->before.adapter);
    c->before.adapter = now ? mem_strdup(now) : NULL;
    if (now && (!next || strcmp(now, next) != 0))
        chat_tell(c, FACE_WARNING, "the adapter %s was for the model before, and is left out",
                  now);
    const bool ok = give_adapter(c, next, err);
    free(next);
    return ok;
}

/* Whether the file at path would open, its template too unless --template gives another: what
 * cannot must not cost the model that is loaded. */
static bool can_open(const struct chat *c, const char *path, const char *adapter,
                     struct err *err)
{
    struct engine_config config = c->config;
    char *source;
    config.model_path = path;
    config.adapter_path = adapter;
    if (!engine_check(&config, &source, err)) return false;
    bool ok = true;
    if (source && !c->template.text) {
        const struct render_config render = {.source = source,
                                             .len = strlen(source),
                                             .name = "chat template",
                                             .bos_text = "",
                                             .eos_text = "",
                                             .now_s = c->session.clock_s};
        struct renderer *r = renderer_new(&render, err);
        ok = r || err_prefix(err, "%s", path);
        renderer_free(r);
    }
    free(source);
    return ok;
}

static bool name_model(struct chat *c, const char *path, struct err *err)
{
    return options_give(c->options, OPT_MODEL, FROM_SET, 0, path, err);
}

/* Closes the model and begins to load the one at path: LOADING. False: an error was said; one
 * that cannot be opened, as far as its file tells, leaves everything as it is. */
static bool switch_to(struct chat *c, const char *path, const char *adapter)
{
    struct err err;
    char *before = mem_strdup(c->options->model);
    adapter = adapter_to_come(c, path, adapter);
    if (!can_open(c, path, adapter, &err) || !name_model(c, path, &err) ||
        !change_adapter(c, adapter, &err)) {
        chat_tell(c, FACE_ERROR, "/model: %s", err.msg);
        free(before);
        return false;
    }
    session_save(c, true);
    draft_remember(c);
    draft_forget(c);
    free(c->before.model);
    c->before.model = before;
    c->before.is_switching = true;
    c->before.vocabulary = engine_info(c->engine)->vocabulary;
    if (open_model(c, &err)) return true;
    c->err = err;
    if (!model_failed(c, &err)) c->state = CHAT_FAILED;
    return false;
}

void model_ready(struct chat *c)
{
    const uint64_t vocabulary = engine_info(c->engine)->vocabulary;
    free(c->before.model);
    c->before.model = NULL;
    c->before.is_switching = false;
    model_take_sampling(c, true);
    conversation_forget_ids(c->conversation, vocabulary);
    chat_hint(c, "%s", c->model_line);
    if (vocabulary == c->before.vocabulary) return;
    model_explain_bias(c);
    model_explain_lost_bias(c);
}

bool model_failed(struct chat *c, const struct err *err)
{
    struct err why = *err, again;
    if (!c->before.model) return false;
    char *before = c->before.model;
    c->before.model = NULL;
    chat_tell(c, FACE_ERROR, "%s; going on with %s", why.msg, before);
    draft_restore(c);
    bool ok = give_adapter(c, c->before.adapter, &again) && name_model(c, before, &again) &&
              open_model(c, &again);
    if (!ok) c->err = again;
    free(before);
    return ok;
}

bool command_model(struct chat *c, const char *args)
{
    if (!*args) {
        chat_tell(c, FACE_INFO, "%s", c->model_line);
        return true;
    }
    char *path = paths_found(args);
    bool is_file = access(path, F_OK) == 0;
    struct err err;
    char *adapter = NULL, *named = is_file ? NULL : discover_named(args, &adapter, &err);
    /* The model there is stays loaded. */
    if (!is_file && !named) chat_tell(c, FACE_ERROR, "/model: %s", err.msg);
    bool ok = (is_file || named) && switch_to(c, named ? named : path, adapter);
    free(adapter);
    free(named);
    free(path);
    return ok;
}

void model_end(struct chat *c)
{
    struct engine *before = c->engine;
    struct err err;
    c->engine = NULL; /* a signal handler may cancel at any moment */
    if (before && !engine_finish(before, &err)) chat_tell(c, FACE_WARNING, "%s", err.msg);
    engine_close(before);
}
