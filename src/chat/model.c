/* /model: the conversation goes on with another model. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "chat/commands.h"
#include "chat/conversation.h"
#include "chat/discover.h"
#include "chat/impl.h"
#include "chat/modelfile.h"
#include "chat/render.h"
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
    context_forget(c);
    c->said.folded = c->said.no_think = c->said.no_text = false;
    return c->engine != NULL;
}

static bool is_same_file(const struct chat *c, const struct found_model *m)
{
    return c->options->model && strcmp(m->parts[FOUND_WEIGHTS], c->options->model) == 0;
}

/* The adapter of the model to come, NULL: none; of the same file again the one that it has. */
static const char *adapter_to_come(const struct chat *c, const struct found_model *m)
{
    const char *own = m->parts[FOUND_ADAPTER];
    return own || m->name || !is_same_file(c, m) ? own : c->config.adapter_path;
}

/* What the model to come is listed with; the same file by its path is what it was. */
static void change_listed(struct chat *c, const struct found_model *m)
{
    struct buf notes = {0};
    option_listed_copy(&c->before.listed, &c->options->listed);
    if (m->name || !is_same_file(c, m)) modelfile_read(m, &c->options->listed, &notes);
    chat_tell_lines(c, &notes);
    buf_free(&notes);
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

/* Closes the model and begins to load m: LOADING. False: an error was said; one that cannot be
 * opened, as far as its file tells, leaves everything as it is. */
static bool switch_to(struct chat *c, const struct found_model *m)
{
    struct err err;
    char *before = mem_strdup(c->options->model);
    const char *path = m->parts[FOUND_WEIGHTS], *adapter = adapter_to_come(c, m);
    if (!can_open(c, path, adapter, &err)) {
        chat_tell(c, FACE_ERROR, "/model: %s", err.msg);
        free(before);
        return false;
    }
    change_listed(c, m);
    if (!name_model(c, path, &err) || !change_adapter(c, adapter, &err)) {
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

/* The settings of the model that is there now, and its system message in place of the one's
 * before; one that the user or the session gave stays. */
static void take_over(struct chat *c)
{
    const bool had_system = model_has_system(c);
    const char *before = conversation_system(c->conversation);
    const enum option_from *seed_from = &c->options->source[OPT_SEED].from;
    const bool had_seed = *seed_from == FROM_MODEL;
    model_take_settings(c, true);
    if (had_seed || *seed_from == FROM_MODEL) session_choose_seed(c);
    if (!had_system || (!before && !c->options->system)) return;
    if (before && !c->options->system)
        chat_hint(c, "the system message was of the model before, and is left out");
    conversation_set_system(c->conversation, c->options->system);
    c->said.folded = false;
    model_tell_system(c);
}

void model_ready(struct chat *c)
{
    const uint64_t vocabulary = engine_info(c->engine)->vocabulary;
    free(c->before.model);
    c->before.model = NULL;
    c->before.is_switching = false;
    take_over(c);
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
    option_listed_copy(&c->options->listed, &c->before.listed);
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
    struct found_model m = {.parts = {[FOUND_WEIGHTS] = paths_found(args)}};
    struct err err;
    if (access(m.parts[FOUND_WEIGHTS], F_OK) != 0) {
        found_model_free(&m);
        if (!discover_named(args, &m, &err)) { /* the model there is stays loaded */
            chat_tell(c, FACE_ERROR, "/model: %s", err.msg);
            return false;
        }
    }
    const bool ok = switch_to(c, &m);
    found_model_free(&m);
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
