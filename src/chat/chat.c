#include "chat/chat.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "config/paths.h"
#include "engine/engine.h"

/* ---- opening ---- */

struct chat *chat_open(const struct options *o, const struct engine_config *engine,
                       const struct face *face, struct err *err)
{
    struct chat *c = mem_zalloc(1, sizeof *c);
    c->options = options_clone(o);
    c->given = options_clone(o);
    c->face = face;
    c->conversation = conversation_new();
    c->state = CHAT_LOADING;
    c->reply_seed_waits = option_given(o, OPT_REPLY_SEED);
    conversation_set_system(c->conversation, o->system);
    c->session.clock_s = time(NULL);
    session_choose_seed(c);
    c->config = *engine;
    draft_configure(c);
    if (session_begin(c, err) && template_read(c, err) && schema_read(c, err)) {
        c->config.resumes = conversation_n(c->conversation) > 0;
        c->engine = engine_open(&c->config, err);
    }
    if (c->engine) return c;
    chat_close(c);
    return NULL;
}

static void show_nothing(void *user, enum face_part part, const char *s, size_t n)
{
    (void)user, (void)part, (void)s, (void)n;
}

static void tell_no_progress(void *user, enum face_phase phase, uint64_t done, uint64_t total,
                             uint64_t cached)
{
    (void)user, (void)phase, (void)done, (void)total, (void)cached;
}

static void offer_nothing(void *user, const char *text, size_t n)
{
    (void)user, (void)text, (void)n;
}

static void report_nothing(void *user, const struct face_report *report)
{
    (void)user, (void)report;
}

/* What was said of a reply that is being written is kept; where it would be seen, nobody looks
 * any more. */
static void stop_turn(struct chat *c)
{
    const struct face *face = c->face;
    struct face mute = *face;
    if (c->state != CHAT_BUSY || c->work != WORK_TURN) return;
    mute.text = show_nothing;
    mute.progress = tell_no_progress;
    mute.offer = offer_nothing;
    mute.turn_end = report_nothing;
    c->face = &mute;
    c->turn.is_last = true;
    chat_cancel(c);
    while (c->state == CHAT_BUSY)
        chat_step(c, -1);
    c->face = face;
}

bool chat_close(struct chat *c)
{
    if (!c) return true;
    stop_turn(c);
    edit_give_up(c);
    session_end(c);
    const bool saved = chat_saves(c);
    model_end(c);
    turn_forget(c);
    conversation_free(c->conversation);
    renderer_free(c->renderer);
    options_free(c->options);
    options_free(c->given);
    free(c->template.text);
    engine_grammar_release(c->grammar);
    schemas_free(&c->bond.schemas);
    free(c->model_line);
    free(c->before.model);
    free(c->before.adapter);
    option_listed_free(&c->before.listed);
    free(c->draft_path);
    free(c->before.draft);
    free(c->last.diverged_old);
    free(c->last.diverged_new);
    idle_free(c);
    buf_free(&c->attached.text);
    buf_free(&c->filtered);
    buf_free(&c->session.notes);
    free(c);
    return saved;
}

/* ---- loading ---- */

static void make_model_line(struct chat *c)
{
    const struct engine_info *info = engine_info(c->engine);
    struct buf line = {0}, clean = {0};
    buf_printf(&line, "%s (%s) on %s, context %u", info->name, info->family, info->device,
               (unsigned)info->n_ctx);
    if (info->n_ctx < info->n_ctx_model)
        buf_printf(&line, " of %u", (unsigned)info->n_ctx_model);
    buf_printf(&line, ", KV %s", info->kv_type);
    sanitise_all(line.data, line.len, &clean);
    free(c->model_line);
    c->model_line = buf_take(&clean);
    buf_free(&line);
}

/* What is more than its file: by the path of that it would be another model. */
static bool is_more_than_file(const struct option_listed *listed)
{
    return listed->name && (listed->adapter || listed->settings || listed->system);
}

/* A model that was named and that opened is the one for next time. The error is not the
 * conversation's: next time the user names it again. */
static void remember_model(const struct chat *c)
{
    const struct options *o = c->options;
    const char *own = o->listed.adapter, *adapter = c->config.adapter_path;
    const enum option_from from = o->source[OPT_MODEL].from;
    struct err ignored;
    /* After a failed /model the one before is there again, whoever named it. */
    if (c->before.is_switching && !c->before.model) return;
    /* Without an adapter that the user named, it is another model. */
    if (strcmp(own ? own : "", adapter ? adapter : "") != 0) return;
    if (!c->face->has_prompt || o->private_mode || (from != FROM_FLAG && from != FROM_SET))
        return;
    if (is_more_than_file(&o->listed))
        paths_remember_listed(o->listed.name, &ignored);
    else
        paths_remember_model(o->model, &ignored);
}

/* The disk is full or may not be written, that the engine tells; that there is no place, nobody
 * else does. */
static void tell_unkept(struct chat *c)
{
    if (c->config.cache_dir || c->config.cache_disk_bytes == 0 || c->options->private_mode ||
        c->options->quiet)
        return;
    chat_tell(c, FACE_WARNING,
              "what is computed is not kept on disk: neither XDG_CACHE_HOME nor HOME names a "
              "folder");
}

static void loaded(struct chat *c)
{
    c->state = CHAT_IDLE;
    remember_model(c);
    if (c->before.is_switching) {
        model_ready(c);
    } else {
        tell_unkept(c);
        model_tell_system(c);
        session_ready(c);
    }
    model_explain_wrong_bias(c);
}

static void load_failed(struct chat *c)
{
    if (!model_failed(c, &c->err)) c->state = CHAT_FAILED;
}

static void loading(struct chat *c, const struct engine_event *event)
{
    const struct face *f = c->face;
    switch (event->kind) {
    case EVENT_LOAD:
        if (event->text_len > 0) chat_hint(c, "%s", event->text);
        f->progress(f->user, FACE_LOAD, event->done, event->total, 0);
        break;
    case EVENT_WARNING: chat_tell(c, FACE_WARNING, "%s", event->text); break;
    case EVENT_READY:
        make_model_line(c);
        if (template_choose(c, &c->err))
            loaded(c);
        else
            load_failed(c);
        break;
    case EVENT_FAILED:
        c->err = event->err;
        load_failed(c);
        break;
    case EVENT_PREFILL:
    case EVENT_REASONING:
    case EVENT_TEXT:
    case EVENT_END:
    case EVENT_VERIFIED:
    case EVENT_DRAFT: break;
    }
}

/* ---- the crank ---- */

static void working(struct chat *c, const struct engine_event *event)
{
    switch (c->work) {
    case WORK_TURN: turn_event(c, event); break;
    case WORK_VERIFY_SYNC:
    case WORK_VERIFY: verify_event(c, event); break;
    case WORK_DRAFT: draft_event(c, event); break;
    }
}

enum chat_state chat_step(struct chat *c, int timeout_ms)
{
    struct engine_event event;
    while (c->state == CHAT_IDLE && engine_next(c->engine, 0, &event))
        idle_event(c, &event);
    while ((c->state == CHAT_LOADING || c->state == CHAT_BUSY) &&
           engine_next(c->engine, timeout_ms, &event)) {
        if (c->state == CHAT_LOADING)
            loading(c, &event);
        else
            working(c, &event);
        timeout_ms = 0;
    }
    return c->state;
}

int chat_fd(const struct chat *c)
{
    return engine_event_fd(c->engine);
}

enum chat_state chat_state(const struct chat *c)
{
    return c->state;
}

const struct err *chat_error(const struct chat *c)
{
    return &c->err;
}

bool chat_may_leave(struct chat *c)
{
    struct err err;
    if (session_may_go(c, "Ctrl-D", &err)) return true;
    chat_tell(c, FACE_WARNING, "%s", err.msg);
    return false;
}

bool chat_saves(const struct chat *c)
{
    return !c->session.save_failed;
}

void chat_cancel(struct chat *c)
{
    struct engine *e = c->engine;
    atomic_store(&c->cancelled, true);
    if (e) engine_cancel(e);
}

void chat_stood_still(struct chat *c, double ms)
{
    if (c->state == CHAT_BUSY && c->work == WORK_TURN) turn_stood_still(c, ms);
}

/* ---- lines ---- */

bool chat_bind(struct chat *c, const char *schema, struct err *err)
{
    const struct grammar *g = NULL;
    const bool is_free = !schema || strcmp(schema, "off") == 0;
    if (!is_free && !(g = schemas_find(&c->bond.schemas, schema, err))) return false;
    c->bond.counts = schema != NULL;
    c->bond.grammar = g;
    return true;
}

bool chat_say(struct chat *c, const char *text, size_t n)
{
    if (ascii_is_blank(text, n) && chat_has_paste(c)) {
        c->attached.text.len -= 2; /* the empty line behind it */
        return turn_say(c, "", 0);
    }
    if (ascii_is_blank(text, n)) {
        chat_tell(c, FACE_ERROR, "the message is empty");
        return false;
    }
    return turn_say(c, text, n);
}

bool chat_line(struct chat *c, const char *line, size_t n)
{
    if (ascii_is_blank(line, n)) return true;
    if (!chat_wants_slash(line, n)) return chat_say(c, line, n);
    if (n > 1 && line[1] == '/') return chat_say(c, line + 1, n - 1);
    return command_run(c, line, n);
}

/* ---- asking ---- */

const struct options *chat_options(const struct chat *c)
{
    return c->options;
}

const char *chat_model_line(const struct chat *c)
{
    return c->model_line ? c->model_line : "";
}

size_t chat_n_messages(const struct chat *c)
{
    return conversation_n(c->conversation);
}
