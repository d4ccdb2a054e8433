/* The session of a chat: which file it has, when it is written, what it brings back. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/readable.h"
#include "chat/archive.h"
#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/sessions.h"
#include "config/options.h"
#include "engine/engine.h"

enum { MAX_ATTEMPTS = 1000 };

/* ---- what a session remembers ---- */

/* Sampling as it is now, a line for each setting; of an empty list, too, for a configuration
 * may say otherwise. */
static void put_settings(const struct options *o, struct buf *out)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option_row *row = option_row((enum option_id)i);
        if (row->group != GROUP_SAMPLING || !(row->flags & OPTION_SET) || i == OPT_SEED)
            continue;
        struct buf value = {0};
        option_value(o, (enum option_id)i, &value);
        if (!strchr(buf_str(&value), '\n'))
            buf_printf(out, "%s %s\n", row->name, buf_str(&value));
        buf_free(&value);
    }
}

/* Whether a value was given for this run: by a flag, a variable, a profile that one of these
 * names, or /set. */
static bool is_of_this_run(const struct options *o, enum option_id id)
{
    const enum option_from from = o->source[id].from;
    return from >= FROM_ENV ||
           (from == FROM_PROFILE && o->source[OPT_PROFILE].from >= FROM_ENV);
}

/* A setting of the session counts unless it was given for this run. */
static void take_setting(struct chat *c, const char *line, size_t n)
{
    struct err ignored; /* a setting that this hearth has not */
    const char *space = memchr(line, ' ', n);
    if (!space) return;
    char *key = mem_strndup(line, (size_t)(space - line));
    char *value = mem_strndup(space + 1, n - (size_t)(space + 1 - line));
    const struct option_row *row = option_find(key);
    if (row && row->group == GROUP_SAMPLING && (row->flags & OPTION_SET) &&
        !is_of_this_run(c->options, option_id(row)))
        options_give(c->options, option_id(row), FROM_SESSION, 0, value, &ignored);
    free(key);
    free(value);
}

void session_choose_seed(struct chat *c)
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

/* The session's seed, which no such line holds, counts unless one was given for this run. */
static void take_seed(struct chat *c, uint64_t seed)
{
    struct err ignored;
    char text[24];
    if (is_of_this_run(c->options, OPT_SEED)) return;
    c->session.seed = seed;
    snprintf(text, sizeof text, "%" PRIu64, seed);
    options_give(c->options, OPT_SEED, FROM_SESSION, 0, text, &ignored);
}

/* What the session before brought with it is not the next one's. */
static void forget_settings(struct chat *c)
{
    const bool had_seed = c->options->source[OPT_SEED].from == FROM_SESSION;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (c->options->source[i].from == FROM_SESSION)
            options_revert(c->options, (enum option_id)i, c->given);
    if (had_seed) session_choose_seed(c);
    if (c->engine) model_take_settings(c, false); /* it may be another by now */
}

/* Whether the session's state frame was damaged, and what it held is lost. */
static bool lacks_state(const struct archive_state *state)
{
    return state->clock_ms == 0;
}

static void take_state(struct chat *c)
{
    const struct archive_state *state = archive_state(c->session.archive);
    if (is_of_this_run(c->options, OPT_SYSTEM))
        conversation_set_system(c->conversation, c->options->system);
    forget_settings(c);
    if (lacks_state(state)) return;
    take_seed(c, state->seed);
    c->session.clock_s = (int64_t)(state->clock_ms / 1000);
    const char *line = state->settings ? state->settings : "";
    while (*line) {
        size_t n = strcspn(line, "\n");
        take_setting(c, line, n);
        line += n + (line[n] == '\n');
    }
}

/* ---- beginning ---- */

static bool refuse(struct err *err)
{
    err->code = ERR_SESSION;
    return false;
}

static void tell_notes(struct chat *c, const char *name)
{
    char *lines = buf_take(&c->session.notes), *rest = lines;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line) chat_tell(c, FACE_WARNING, "session %s: %s", name, line);
    free(lines);
}

/* Reads the session at path in place of the conversation there is. */
static bool load(struct chat *c, const char *path, struct err *err)
{
    struct session *now = &c->session;
    struct conversation *conversation = conversation_new();
    struct buf notes = {0};
    struct archive *a = archive_open(path, conversation, &notes, err);
    char *name = sessions_name(path);
    bool ok = a != NULL;
    if (ok && archive_is_read_only(a) && !c->face->has_prompt)
        ok = err_set(err, ERR_USER,
                     archive_is_taken(a) ? "session %s: another hearth has it open"
                                         : "session %s: its file may not be written",
                     name);
    if (ok) {
        archive_close(now->archive);
        conversation_free(c->conversation);
        buf_free(&now->notes);
        now->archive = a;
        c->conversation = conversation;
        now->n_read++;
        now->save_failed = now->told_loss = false;
        c->said.thinned = false;
        now->notes = notes;
        notes = (struct buf){0};
        take_state(c);
    } else {
        archive_close(a);
        conversation_free(conversation);
    }
    buf_free(&notes);
    free(name);
    return ok || refuse(err);
}

/* The session that was used last; NULL: there is none, or err is set. */
static char *newest(struct err *err)
{
    struct session_list list;
    char *path = NULL;
    err->code = ERR_NONE;
    if (sessions_list(&list, err) && list.n > 0) path = mem_strdup(list.items[0].path);
    session_list_free(&list);
    return path;
}

static bool begin_named(struct chat *c, char *path, struct err *err)
{
    if (!path) return refuse(err);
    bool ok = true;
    /* A session that is there and cannot be reached is not a new one: load says why. */
    if (access(path, F_OK) == 0 || !file_is_missing(errno))
        ok = load(c, path, err);
    else
        c->session.archive = archive_new(path);
    free(path);
    return ok;
}

static void begin_unnamed(struct chat *c, unsigned attempt)
{
    struct err err;
    char *name = sessions_new_name(attempt), *path = sessions_path(name, &err);
    archive_close(c->session.archive);
    c->session.archive = path ? archive_new(path) : NULL;
    c->session.attempt = attempt;
    free(path);
    free(name);
}

bool session_begin(struct chat *c, struct err *err)
{
    const struct options *o = c->options;
    if (o->private_mode) return true;
    if (o->session) return begin_named(c, sessions_path(o->session, err), err);
    if (o->continue_last) {
        char *path = newest(err);
        if (path) return begin_named(c, path, err);
        /* What a configuration or the environment always asks for begins with the first one. */
        if (err->code != ERR_NONE || o->source[OPT_CONTINUE].from == FROM_FLAG) {
            if (err->code == ERR_NONE)
                err_set(err, ERR_USER, "--continue: there is no session yet");
            return refuse(err);
        }
    }
    if (!c->face->has_prompt) return true; /* an answer in a pipe is no conversation to keep */
    c->session.tells_saving = !sessions_any();
    begin_unnamed(c, 1);
    return true;
}

/* ---- the model is there ---- */

/* "session work: 4 messages, the last of yours "and now?"". */
static void tell_resumed(struct chat *c, const char *name)
{
    const struct message *m = NULL;
    char words[CHAT_QUOTE_BYTES], messages[READABLE_BYTES];
    size_t n = conversation_n(c->conversation);
    for (size_t i = n; i-- > 0 && !m;)
        if (conversation_at(c->conversation, i)->role == ROLE_USER)
            m = conversation_at(c->conversation, i);
    if (m)
        chat_hint(c, "session %s: %s, the last of yours \"%s\"%s", name,
                  readable_count(messages, n, "message"),
                  printable(words, CHAT_QUOTE_BYTES, m->text, m->len),
                  m == conversation_at(c->conversation, n - 1)
                      ? ", which has no reply; /continue asks for one"
                      : "");
    else if (!conversation_is_empty(c->conversation))
        chat_hint(c, "session %s: no messages here; /branches lists where there are", name);
    else
        chat_hint(c, "session %s: no messages", name);
}

/* What the session brings and would be another without it; of its seed each reply tells. */
static void tell_brought(struct chat *c, const char *name)
{
    const char *system = conversation_system(c->conversation), *given = c->given->system;
    struct buf all = {0}, now = {0}, before = {0};
    if (strcmp(system ? system : "", given ? given : "") != 0)
        buf_puts(&all, ", its system message");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const enum option_id id = (enum option_id)i;
        char shown[CHAT_QUOTE_BYTES];
        if (c->options->source[id].from != FROM_SESSION || id == OPT_SEED) continue;
        buf_clear(&now);
        buf_clear(&before);
        option_value(c->options, id, &now);
        option_value(c->given, id, &before);
        if (strcmp(buf_str(&now), buf_str(&before)) != 0)
            buf_printf(&all, ", %s %s", option_row(id)->name,
                       now.len ? printable(shown, CHAT_QUOTE_BYTES, now.data, now.len) : "-");
    }
    if (all.len > 0)
        chat_hint(c, "session %s brings %s; /set and /system change that", name, all.data + 2);
    buf_free(&all);
    buf_free(&now);
    buf_free(&before);
}

/* Whether what was computed for the session still holds; says why not. all_foreign: its replies
 * have the tokens of another vocabulary. */
static bool still_holds(struct chat *c, const char *name, bool all_foreign)
{
    const struct engine_info *info = engine_info(c->engine);
    const struct archive_state *state = archive_state(c->session.archive);
    const bool same_name = state->model && strcmp(state->model, info->name) == 0;
    if (lacks_state(state))
        chat_tell(c, FACE_WARNING,
                  "session %s: its system message and settings cannot be read; it goes on "
                  "without them",
                  name);
    else if (all_foreign || (state->model && !same_name))
        chat_tell(c, FACE_WARNING,
                  "session %s was held with %s: its text is loaded, and computed anew with %s",
                  name, state->model && !same_name ? state->model : "another model",
                  info->name);
    else if (state->kv_type && strcmp(state->kv_type, info->kv_type) != 0)
        chat_tell(c, FACE_WARNING,
                  "session %s was held with a KV cache of type %s: what was not kept with %s, "
                  "too, is computed anew",
                  name, state->kv_type, info->kv_type);
    else if (state->numerics != info->numerics)
        chat_tell(c, FACE_WARNING,
                  "session %s was held with another version of the arithmetic: it is computed "
                  "anew",
                  name);
    else
        return true;
    return false;
}

void session_ready(struct chat *c)
{
    struct session *s = &c->session;
    const bool has_messages = conversation_n(c->conversation) > 0;
    if (!s->archive && s->attempt > 0)
        chat_tell(c, FACE_WARNING,
                  "the conversation is not saved: neither XDG_STATE_HOME nor HOME names a "
                  "folder");
    if (!s->archive) return;
    if (s->n_read == 0) {
        if (c->options->session && !has_messages)
            chat_hint(c, "session %s is new", c->options->session);
        return;
    }
    char *name = sessions_name(archive_path(s->archive));
    const bool all_foreign =
        conversation_forget_ids(c->conversation, engine_info(c->engine)->vocabulary);
    tell_notes(c, name);
    if (archive_is_read_only(s->archive))
        chat_tell(c, FACE_WARNING,
                  "session %s: %s: what you say here is not saved; /save NAME keeps it under "
                  "another name",
                  name,
                  archive_is_taken(s->archive) ? "another hearth has it open"
                                               : "its file may not be written");
    s->expects_pages =
        has_messages && still_holds(c, name, all_foreign) && c->options->cache_disk_bytes > 0;
    tell_resumed(c, name);
    tell_brought(c, name);
    if (all_foreign && c->options->source[OPT_LOGIT_BIAS].from == FROM_SESSION)
        model_explain_bias(c);
    model_explain_lost_bias(c);
    free(name);
}

bool session_explain_limit(struct chat *c)
{
    const struct options *o = c->options;
    if (o->source[OPT_MAX_TOKENS].from != FROM_SESSION || c->session.told_limit) return false;
    c->session.told_limit = true;
    chat_tell(c, FACE_WARNING,
              "the reply is cut off: the session brings max-tokens %d; --max-tokens gives "
              "another",
              o->max_tokens);
    return true;
}

/* The first turn says whether anything was found. */
void session_explain(struct chat *c, const struct engine_reply *r)
{
    enum { FEW = 256 }; /* tokens that are computed in no time */
    if (!c->session.expects_pages) return;
    c->session.expects_pages = false;
    if (r->n_read > 0 || r->n_cached > 0 || r->n_prefilled < FEW) return;
    chat_tell(
        c, FACE_WARNING,
        "nothing of the session was found on disk (the pages are gone, or the model's file "
        "has changed): it was computed anew");
}

/* ---- saving ---- */

void session_save(struct chat *c, bool durable)
{
    struct session *s = &c->session;
    if (!s->archive || !c->engine || c->state == CHAT_LOADING || c->state == CHAT_FAILED)
        return;
    const struct engine_info *info = engine_info(c->engine);
    struct buf settings = {0};
    struct err err;
    put_settings(c->options, &settings);
    const struct archive_state state = {.model = info->name,
                                        .draft = draft_file(c),
                                        .settings = buf_str(&settings),
                                        .kv_type = info->kv_type,
                                        .seed = s->seed,
                                        .numerics = info->numerics,
                                        .clock_ms = (uint64_t)s->clock_s * 1000};
    bool was_there = archive_has_file(s->archive);
    bool ok = archive_sync(s->archive, c->conversation, &state, durable, &err);
    /* Two hearths that began in the same minute. */
    while (!ok && err.code == ERR_USER && s->attempt > 0 && s->attempt < MAX_ATTEMPTS) {
        begin_unnamed(c, s->attempt + 1);
        ok = archive_sync(s->archive, c->conversation, &state, durable, &err);
    }
    buf_free(&settings);
    if (!ok) {
        s->save_failed = true;
        s->told_loss = false;
        err_write_prefix(&err, was_there ? "the session is no longer saved"
                                         : "the session is not saved");
        /* A person sees it and goes on; a script named the session to have it. */
        chat_tell(c, c->face->has_prompt ? FACE_WARNING : FACE_ERROR, "%s", err.msg);
    } else if (s->tells_saving && !was_there && archive_has_file(s->archive)) {
        char *name = sessions_name(archive_path(s->archive));
        chat_hint(c,
                  "the conversation is saved as %s; hearth --continue goes on with it, "
                  "--private saves nothing",
                  name);
        s->tells_saving = false;
        free(name);
    }
}

/* Whether it has a file that nobody named and in which nothing is said: what was said first was
 * taken back. --continue would go on with it. */
static bool is_empty(const struct chat *c)
{
    const struct session *s = &c->session;
    return s->attempt > 0 && archive_has_file(s->archive) &&
           conversation_is_empty(c->conversation);
}

/* Whether a message stands on some branch that was neither read from the file nor written. Only
 * where nothing is written: a write that fails counts as one here. */
static bool has_new(const struct conversation *c)
{
    for (size_t i = 0; i < conversation_n_branches(c); i++)
        for (const struct node *n = conversation_branch(c, i)->leaf; node_parent(n);
             n = node_parent(n))
            if (!node_message(n)->kept_as) return true;
    return false;
}

/* Whether what is said is not in its file, or not all of it: once hearth ends it is lost. */
static bool is_unsaved(const struct chat *c)
{
    const struct session *s = &c->session;
    if (!s->archive) return false; /* said at the beginning, or asked for */
    if (archive_is_read_only(s->archive)) return has_new(c->conversation);
    return s->save_failed && !conversation_is_empty(c->conversation);
}

/* What "is not saved" goes on with: of some a part is. */
static const char *how_far(const struct session *s)
{
    return archive_has_file(s->archive) ? " to its end" : "";
}

void session_end(struct chat *c)
{
    struct session *s = &c->session;
    const bool was_unsaved = is_unsaved(c);
    session_save(c, true);
    /* A script was told by the status and has read the error. */
    if (was_unsaved && c->face->has_prompt)
        chat_tell(c, FACE_WARNING, "the conversation is not saved%s: %s", how_far(s),
                  archive_is_taken(s->archive) ? "another hearth had its session open"
                                               : "its session could not be written");
    if (s->archive && is_empty(c)) unlink(archive_path(s->archive));
    archive_close(s->archive);
    s->archive = NULL;
}

/* ---- the commands ---- */

bool session_may_go(struct chat *c, const char *again, struct err *err)
{
    struct session *s = &c->session;
    if (!is_unsaved(c) || s->told_loss) return true;
    s->told_loss = true;
    return err_set(err, ERR_USER,
                   "the conversation here is not saved%s: /save NAME or /export FILE keeps "
                   "it, %s again lets it go",
                   how_far(s), again);
}

/* What has no file, or can no longer be written to its file, goes into a new one, whole. */
static bool begin_copy(struct chat *c, const char *path, struct err *err)
{
    struct session *s = &c->session;
    struct archive *copy;
    if (s->archive && archive_owns(s->archive, path)) {
        copy = archive_anew(s->archive);
        s->archive = NULL;
    } else {
        copy = archive_new(path);
        if (!archive_rename(copy, path, err)) {
            archive_close(copy);
            return false;
        }
    }
    archive_close(s->archive);
    s->archive = copy;
    conversation_forget_kept(c->conversation);
    s->save_failed = false;
    return true;
}

/* What an earlier /save could not finish is no reason to refuse the name. */
static void clear_name(struct chat *c, const char *path)
{
    char *aside = session_set_aside(path, c->conversation);
    if (aside) chat_tell(c, FACE_INFO, "what was left half written there is %s now", aside);
    free(aside);
}

bool session_is_stuck(const struct chat *c)
{
    const struct session *s = &c->session;
    return s->archive &&
           (s->save_failed || archive_is_read_only(s->archive) || archive_is_lost(s->archive));
}

bool session_rename(struct chat *c, const char *name, struct err *err)
{
    struct session *s = &c->session;
    char *path = sessions_path(name, err);
    bool ok = path != NULL;
    const bool is_stuck = !s->archive || session_is_stuck(c);
    if (ok && (is_stuck || strcmp(path, archive_path(s->archive)) != 0)) {
        if (!s->archive || !archive_owns(s->archive, path)) clear_name(c, path);
        ok = is_stuck ? begin_copy(c, path, err) : archive_rename(s->archive, path, err);
    }
    if (ok) s->attempt = 0;
    free(path);
    return ok;
}

bool session_load(struct chat *c, const char *name, struct err *err)
{
    char *path = sessions_path(name, err);
    bool ok = path != NULL;
    if (ok && c->session.archive && strcmp(path, archive_path(c->session.archive)) == 0)
        ok = err_set(err, ERR_USER, "the session %s is the one you are in", name);
    if (ok && access(path, F_OK) != 0 && file_is_missing(errno))
        ok = err_set(err, ERR_USER, "there is no session %s; /sessions lists them", name);
    if (ok) session_save(c, true);
    ok = ok && session_may_go(c, "/load", err) && load(c, path, err) && template_choose(c, err);
    if (ok) {
        c->session.attempt = 0;
        context_forget(c);
        chat_detach(c);
        if (c->engine) engine_resumes(c->engine, conversation_n(c->conversation) > 0);
        session_ready(c);
    }
    free(path);
    return ok;
}
