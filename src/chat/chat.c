#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/ascii.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/readable.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "config/paths.h"
#include "engine/engine.h"
#include "template/template.h"

#define MAX_TEMPLATE_BYTES ((size_t)16 << 20)

/* ---- saying ---- */

static const char *filtered(struct chat *c, const char *s, size_t n)
{
    buf_clear(&c->filtered);
    sanitise_all(s, n, &c->filtered);
    return buf_str(&c->filtered);
}

static void tell(struct chat *c, enum face_level level, const char *fmt, va_list ap)
{
    struct buf text = {0};
    buf_vprintf(&text, fmt, ap);
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    c->face->say(c->face->user, level, filtered(c, buf_str(&text), text.len));
    buf_free(&text);
}

void chat_tell(struct chat *c, enum face_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tell(c, level, fmt, ap);
    va_end(ap);
}

void chat_hint(struct chat *c, const char *fmt, ...)
{
    if (c->options->quiet) return;
    va_list ap;
    va_start(ap, fmt);
    tell(c, FACE_INFO, fmt, ap);
    va_end(ap);
}

void chat_offer(struct chat *c, const char *text, size_t n)
{
    if (c->face->is_terminal) {
        text = filtered(c, text, n);
        n = c->filtered.len;
    }
    c->face->offer(c->face->user, text, n);
}

void chat_tell_thinned(struct chat *c)
{
    if (c->said.thinned || conversation_n_thinned(c->conversation) == 0) return;
    c->said.thinned = true;
    chat_tell(
        c, FACE_WARNING,
        "%d branches were left behind, and no more are kept: the oldest goes for each new "
        "one",
        CONVERSATION_MAX_LOOSE);
}

/* ---- opening ---- */

void chat_choose_seed(struct chat *c)
{
    if (option_given(c->options, OPT_SEED)) {
        c->session.seed = c->options->seed;
        return;
    }
    if (getrandom(&c->session.seed, sizeof c->session.seed, 0) == sizeof c->session.seed)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    c->session.seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
}

static bool set_renderer(struct chat *c, const char *source, size_t len, const char *name,
                         struct err *err)
{
    const struct engine_info *info = c->engine ? engine_info(c->engine) : NULL;
    const struct render_config config = {
        .source = source,
        .len = len,
        .name = name,
        .bos_text = info && info->bos_text ? info->bos_text : "",
        .eos_text = info && info->eos_text ? info->eos_text : "",
        .now_s = c->session.clock_s,
    };
    struct renderer *r = renderer_new(&config, err);
    if (!r) return false;
    renderer_free(c->renderer);
    c->renderer = r;
    return true;
}

/* The file of --template is read and parsed before the model: an error in it comes at once. */
static bool read_template(struct chat *c, struct err *err)
{
    const char *path = c->options->template_path;
    if (!path) return true;
    struct buf text = {0};
    bool ok =
        file_read(path, MAX_TEMPLATE_BYTES, &text, err) || err_prefix(err, "the template");
    ok = ok && set_renderer(c, buf_str(&text), text.len, path, err);
    if (ok) c->template.text = buf_take(&text);
    buf_free(&text);
    return ok;
}

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
    chat_choose_seed(c);
    c->config = *engine;
    draft_configure(c);
    if (session_begin(c, err) && read_template(c, err)) {
        c->config.resumes = conversation_n(c->conversation) > 0;
        c->engine = engine_open(&c->config, err);
    }
    if (c->engine) return c;
    chat_close(c);
    return NULL;
}

void chat_end_engine(struct chat *c)
{
    struct engine *before = c->engine;
    struct err err;
    c->engine = NULL; /* a signal handler may cancel at any moment */
    if (before && !engine_finish(before, &err)) chat_tell(c, FACE_WARNING, "%s", err.msg);
    engine_close(before);
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
    session_end(c);
    const bool saved = chat_saves(c);
    chat_end_engine(c);
    turn_forget(c);
    conversation_free(c->conversation);
    renderer_free(c->renderer);
    options_free(c->options);
    options_free(c->given);
    free(c->template.text);
    free(c->model_line);
    free(c->before.model);
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

bool chat_choose_template(struct chat *c, struct err *err)
{
    const struct engine_info *info = engine_info(c->engine);
    if (c->template.text) {
        c->template.from = "--template";
        return set_renderer(c, c->template.text, strlen(c->template.text),
                            c->options->template_path, err);
    }
    if (!info->chat_template) {
        c->template.from = "ChatML, since the model has none";
        chat_tell(
            c, FACE_WARNING,
            "the model has no chat template; using ChatML (--template FILE gives another)");
        return set_renderer(c, template_chatml, strlen(template_chatml), "ChatML", err);
    }
    c->template.from = "the model's own";
    if (set_renderer(c, info->chat_template, strlen(info->chat_template), "chat template", err))
        return true;
    err_write_prefix(err,
                     "the model's template cannot be used (--template FILE gives another)");
    return false;
}

/* A model that was named and that opened is the one for next time. The error is not the
 * conversation's: next time the user names it again. */
static void remember_model(const struct chat *c)
{
    enum option_from from = c->options->source[OPT_MODEL].from;
    struct err ignored;
    /* After a failed /model the one before is there again, whoever named it. */
    if (c->before.is_switching && !c->before.model) return;
    if (c->face->has_prompt && !c->options->private_mode &&
        (from == FROM_FLAG || from == FROM_SET))
        paths_remember_model(c->options->model, &ignored);
}

static void loaded(struct chat *c)
{
    c->state = CHAT_IDLE;
    remember_model(c);
    if (c->before.is_switching)
        model_ready(c);
    else
        session_ready(c);
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
        if (chat_choose_template(c, &c->err))
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

void chat_cancel_late(struct chat *c)
{
    if (atomic_load(&c->cancelled)) engine_cancel(c->engine);
}

/* ---- lines ---- */

void chat_put_before(struct chat *c, const char *text, size_t n)
{
    buf_append(&c->attached.text, text, n);
    buf_puts(&c->attached.text, "\n\n");
    c->attached.has_paste = true;
    idle_forget(c);
}

void chat_put_size(struct chat *c, size_t n_bytes, const char *text, size_t n, struct buf *out)
{
    const long n_tokens = c->engine ? engine_count_tokens(c->engine, text, n) : -1;
    char count[READABLE_BYTES];
    buf_puts(out, readable_count(count, n_bytes, "byte"));
    if (n_tokens >= 0)
        buf_printf(out, ", %s", readable_count(count, (uint64_t)n_tokens, "token"));
}

void chat_attach(struct chat *c, const char *text, size_t n)
{
    struct buf size = {0};
    n = ascii_without_ends(text, n);
    chat_put_size(c, n, text, n, &size);
    chat_put_before(c, text, n);
    chat_tell(c, FACE_INFO,
              "pasted %s; they go before your next message, Return alone sends them, Ctrl-C "
              "drops them",
              size.data);
    buf_free(&size);
}

void chat_drop_attached(struct chat *c)
{
    buf_clear(&c->attached.text);
    c->attached.has_paste = false;
}

bool chat_detach(struct chat *c)
{
    if (c->attached.text.len == 0) return false;
    chat_drop_attached(c);
    idle_forget(c);
    chat_hint(c, "what was read or pasted is dropped");
    return true;
}

bool chat_has_paste(const struct chat *c)
{
    return c->attached.has_paste && c->attached.text.len > 0;
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

bool chat_wants_slash(const char *text, size_t n)
{
    return n > 0 && text[0] == '/' && !memchr(text, '\n', n);
}

bool chat_line(struct chat *c, const char *line, size_t n)
{
    if (ascii_is_blank(line, n)) return true;
    if (!chat_wants_slash(line, n)) return chat_say(c, line, n);
    if (n > 1 && line[1] == '/') return chat_say(c, line + 1, n - 1);
    return command_run(c, line, n);
}

char *chat_path(const char *typed)
{
    const char *home = getenv("HOME");
    struct buf out = {0};
    if (typed[0] == '~' && typed[1] == '/' && home)
        buf_printf(&out, "%s%s", home, typed + 1);
    else
        buf_puts(&out, typed);
    return buf_take(&out);
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
