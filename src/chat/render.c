#include "chat/render.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ascii.h"
#include "base/buf.h"
#include "base/mem.h"
#include "chat/conversation.h"
#include "config/options.h"
#include "template/template.h"

struct renderer {
    struct template *template;
    char *bos_text, *eos_text;
    struct tm now;
    bool has_think_switch;
    const char *reasoning_key; /* where the template looks for reasoning, NULL: nowhere */
    bool takes_parts;          /* contents are lists of parts: texts, images; no plain texts */
};

/* Names under which templates take the switch, and the reasoning of an earlier reply. */
static const char *const think_switches[] = {"enable_thinking", "thinking"};
static const char *const reasoning_keys[] = {"reasoning_content", "thinking", "reasoning"};

#define N_OF(a) (sizeof(a) / sizeof *(a))

enum render_think render_think_of(int think)
{
    return think == THINK_ON    ? RENDER_THINK_ON
           : think == THINK_OFF ? RENDER_THINK_OFF
                                : RENDER_THINK_DEFAULT;
}

static bool shows_user(struct renderer *r);

struct renderer *renderer_new(const struct render_config *config, struct err *err)
{
    struct template *t = template_parse(config->source, config->len, config->name, err);
    if (!t) return NULL;
    struct renderer *r = mem_zalloc(1, sizeof *r);
    r->template = t;
    r->bos_text = mem_strdup(config->bos_text);
    r->eos_text = mem_strdup(config->eos_text);
    const time_t now = (time_t)config->now_s;
    localtime_r(&now, &r->now);
    for (size_t i = 0; i < N_OF(think_switches); i++)
        r->has_think_switch |= template_has_variable(t, think_switches[i]);
    for (size_t i = N_OF(reasoning_keys); i-- > 0;)
        if (template_mentions(t, reasoning_keys[i])) r->reasoning_key = reasoning_keys[i];
    if (!shows_user(r)) {
        r->takes_parts = true;
        r->takes_parts = shows_user(r);
    }
    return r;
}

void renderer_free(struct renderer *r)
{
    if (!r) return;
    template_free(r->template);
    free(r->bos_text);
    free(r->eos_text);
    free(r);
}

bool render_knows_think(const struct renderer *r)
{
    return r->has_think_switch;
}

/* ---- values ---- */

/* A text as the only part of a content. */
static struct value *part_value(struct value_pool *pool, struct value *text)
{
    struct value *list = value_list(pool), *part = value_dict(pool);
    value_dict_set(pool, part, "type", value_markup(pool, "text", 4));
    value_dict_set(pool, part, "text", text);
    value_list_add(pool, list, part);
    return list;
}

static struct value *message_value(const struct renderer *r, struct value_pool *pool,
                                   const char *role, struct value *text)
{
    struct value *m = value_dict(pool);
    value_dict_set(pool, m, "role", value_markup(pool, role, strlen(role)));
    value_dict_set(pool, m, "content", r->takes_parts ? part_value(pool, text) : text);
    return m;
}

/* Reply number i. A template that knows where reasoning goes gets it apart from the answer; one
 * that looks for tags, or knows no reasoning, gets the text as it was said. whole: so does
 * every template where there is no answer. */
static struct value *reply_value(const struct renderer *r, struct value_pool *pool,
                                 const struct message *m, size_t i, bool whole)
{
    uint32_t number = (uint32_t)i;
    if (!r->reasoning_key || m->content_at == 0 || (whole && m->content_at == m->len))
        return message_value(r, pool, "assistant",
                             value_reply(pool, m->text, m->len, number, 0));
    struct value *v = message_value(r, pool, "assistant",
                                    value_reply(pool, m->text + m->content_at,
                                                m->len - m->content_at, number, m->content_at));
    if (m->reasoning_len > 0)
        value_dict_set(pool, v, r->reasoning_key,
                       value_reply(pool, m->text + m->reasoning_at, m->reasoning_len, number,
                                   m->reasoning_at));
    return v;
}

/* The text of the user's message, with the system message in front of it. */
static struct value *folded_value(struct value_pool *pool, const char *system,
                                  const struct message *m)
{
    struct buf text = {0};
    buf_printf(&text, "%s\n\n", system);
    buf_append(&text, m->text, m->len);
    struct value *v = value_text(pool, text.data, text.len);
    buf_free(&text);
    return v;
}

/* The number that the system message's bytes have instead of a reply's: what the template made
 * of it is told apart from all else, which may hold the same words. */
#define SYSTEM_NUMBER UINT32_MAX

/* What is rendered. */
struct job {
    const char *system; /* NULL: none */
    const struct message *const *path;
    size_t n;
    enum render_think think;
    bool whole; /* replies that are reasoning alone are given as they were said */
    bool fold;  /* the system message stands before the first of the user */
    bool begun; /* the last message is not written to its end: its bytes are told apart from
                 * those of others like a reply's */
};

static struct value *messages_value(const struct renderer *r, struct value_pool *pool,
                                    const struct job *job)
{
    const char *system = job->system;
    bool fold = job->fold;
    struct value *list = value_list(pool);
    if (system && !fold)
        value_list_add(
            pool, list,
            message_value(r, pool, "system",
                          value_reply(pool, system, strlen(system), SYSTEM_NUMBER, 0)));
    bool folded = !system || !fold;
    for (size_t i = 0; i < job->n; i++) {
        const struct message *m = job->path[i];
        struct value *v;
        if (m->role == ROLE_REPLY)
            v = reply_value(r, pool, m, i, job->whole);
        else if (job->begun && i + 1 == job->n)
            v = message_value(r, pool, "user",
                              value_reply(pool, m->text, m->len, (uint32_t)i, 0));
        else if (folded)
            v = message_value(r, pool, "user", value_text(pool, m->text, m->len));
        else
            v = message_value(r, pool, "user", folded_value(pool, system, m));
        folded |= m->role == ROLE_USER;
        value_list_add(pool, list, v);
    }
    return list;
}

static struct value *globals(const struct renderer *r, struct value_pool *pool,
                             struct value *messages, enum render_think think)
{
    struct value *g = value_dict(pool);
    value_dict_set(pool, g, "messages", messages);
    value_dict_set(pool, g, "add_generation_prompt", value_bool(pool, true));
    value_dict_set(pool, g, "bos_token", value_markup(pool, r->bos_text, strlen(r->bos_text)));
    value_dict_set(pool, g, "eos_token", value_markup(pool, r->eos_text, strlen(r->eos_text)));
    for (size_t i = 0; i < N_OF(think_switches) && think != RENDER_THINK_DEFAULT; i++)
        value_dict_set(pool, g, think_switches[i], value_bool(pool, think == RENDER_THINK_ON));
    return g;
}

/* ---- spans ---- */

/* The first id whose text begins at or after `at`. */
static size_t first_id(const struct message *m, size_t at)
{
    size_t low = 0, high = m->n_ids;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->id_at[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The ids first..last, with text where there is none. */
static void put_ids(const struct message *m, size_t first, size_t last, struct spans *out)
{
    for (size_t i = first; i < last; i++)
        if (m->ids[i] >= 0)
            spans_ids(out, &m->ids[i], 1);
        else
            spans_text(out, m->text + m->id_at[i], m->id_at[i + 1] - m->id_at[i]);
}

void render_reply(const struct message *m, size_t at, size_t n, struct spans *out)
{
    assert(at + n <= m->len);
    const size_t end = at + n;
    size_t first = first_id(m, at), last = end == m->len ? m->n_ids : first_id(m, end);
    /* id_at[n_ids] is where the last id ends; inside, an id that begins before end may go on
     * beyond it. */
    if (last > first && m->id_at[last] > end) last--;
    while (last > first && last < m->n_ids && m->id_at[last] == m->id_at[last - 1])
        last--; /* only began a character that is not in */
    if (last <= first) {
        spans_text(out, m->text + at, n);
        return;
    }
    spans_text(out, m->text + at, m->id_at[first] - at);
    put_ids(m, first, last, out);
    spans_text(out, m->text + m->id_at[last], end - m->id_at[last]);
}

static void put_runs(const struct rendering *text, const struct message *const *path,
                     struct spans *out)
{
    for (size_t i = 0; i < text->n_runs; i++) {
        const struct origin_run *run = &text->runs[i];
        const char *s = text->text + run->start;
        switch (run->origin) {
        case ORIGIN_LITERAL: spans_markup(out, s, run->len); break;
        case ORIGIN_USER: spans_text(out, s, run->len); break;
        case ORIGIN_REPLY:
            if (run->reply == SYSTEM_NUMBER)
                spans_text(out, s, run->len);
            else
                render_reply(path[run->reply], run->source, run->len, out);
            break;
        }
    }
}

/* ---- rendering ---- */

/* Whether the rendering has something of the system message but white space: a template may
 * trim it, or take a switch out of it. */
static bool has_system(const struct rendering *text)
{
    for (size_t i = 0; i < text->n_runs; i++) {
        const struct origin_run *run = &text->runs[i];
        if (run->origin == ORIGIN_REPLY && run->reply == SYSTEM_NUMBER &&
            !ascii_is_blank(text->text + run->start, run->len))
            return true;
    }
    return false;
}

/* has_none: tools and documents are there, and none. */
static bool render_as(struct renderer *r, const struct job *job, bool has_none,
                      struct rendering *text, struct err *err)
{
    struct value_pool *pool = value_pool_new();
    const struct template_options options = {.now = &r->now};
    struct value *g = globals(r, pool, messages_value(r, pool, job), job->think);
    if (has_none) {
        value_dict_set(pool, g, "tools", value_null(pool));
        value_dict_set(pool, g, "documents", value_null(pool));
    }
    bool ok = template_render(r->template, g, &options, text, err);
    value_pool_free(pool);
    return ok;
}

/* Where these templates come from tools are always there, and none: some take them for given if
 * they are "not none". Others, made for tools only, take no none but that they are absent; and
 * some refuse an answer of nothing, which a reply has that was stopped while it thought. */
static bool render_once(struct renderer *r, const struct job *job, struct rendering *text,
                        struct err *err)
{
    struct err ignored;
    struct job whole = *job;
    whole.whole = true;
    return render_as(r, job, true, text, err) || render_as(r, job, false, text, &ignored) ||
           render_as(r, &whole, true, text, &ignored);
}

/* Whether text would be another one with another system message: a template may make text of
 * its own of it, as by tojson, or take a switch such as "/no_think" out of it and leave
 * nothing. */
static bool depends_on_system(struct renderer *r, const struct job *job,
                              const struct rendering *text)
{
    struct job changed = *job;
    struct rendering other;
    struct err ignored;
    changed.system = strcmp(job->system, "One.") == 0 ? "Two." : "One.";
    if (!render_once(r, &changed, &other, &ignored)) return false;
    const bool is_other =
        other.len != text->len || memcmp(other.text, text->text, text->len) != 0;
    rendering_free(&other);
    return is_other;
}

static bool takes_system(struct renderer *r, const struct job *job,
                         const struct rendering *text)
{
    return ascii_is_blank(job->system, strlen(job->system)) || has_system(text) ||
           depends_on_system(r, job, text);
}

/* Renders the job, folded if it must be. */
static bool render_job(struct renderer *r, struct job *job, struct rendering *text,
                       struct err *err)
{
    bool ok = render_once(r, job, text, err);
    bool refused = !ok && err->code == ERR_USER;
    if (!job->system || !(refused || (ok && !takes_system(r, job, text)))) return ok;
    struct rendering folded;
    struct err ignored;
    job->fold = true;
    if (render_once(r, job, &folded, &ignored)) {
        rendering_free(text);
        *text = folded;
        return true;
    }
    job->fold = false;
    return ok;
}

/* Whether the template shows what a user says, as contents are given now: templates of models
 * that see images may look for parts alone, and find none in a plain text. */
static bool shows_user(struct renderer *r)
{
    static const char said[] = "Is this shown?";
    struct message *m = message_new(ROLE_USER, said, sizeof said - 1);
    const struct message *const path[] = {m};
    const struct job job = {.path = path, .n = 1};
    struct rendering text;
    struct err ignored;
    bool ok = render_once(r, &job, &text, &ignored);
    if (ok) {
        ok = memmem(text.text, text.len, said, sizeof said - 1) != NULL;
        rendering_free(&text);
    }
    message_release(m);
    return ok;
}

static bool render_path(struct renderer *r, struct conversation *c, size_t n,
                        enum render_think think, struct spans *out, bool *folded,
                        struct err *err)
{
    struct job job = {
        .system = conversation_system(c), .path = conversation_path(c), .n = n, .think = think};
    struct rendering text;
    bool ok = render_job(r, &job, &text, err);
    *folded = job.fold;
    if (!ok) return false;
    put_runs(&text, job.path, out);
    rendering_free(&text);
    return true;
}

bool render_prompt(struct renderer *r, struct conversation *c, enum render_think think,
                   struct spans *out, bool *folded, struct err *err)
{
    return render_path(r, c, conversation_n(c), think, out, folded, err);
}

bool render_continued(struct renderer *r, struct conversation *c, enum render_think think,
                      struct spans *out, bool *folded, struct err *err)
{
    size_t n = conversation_n(c) - 1;
    const struct message *reply = conversation_at(c, n);
    assert(reply->role == ROLE_REPLY);
    if (!render_path(r, c, n, think, out, folded, err)) return false;
    render_reply(reply, 0, reply->len, out);
    return true;
}

/* The runs up to where the known part of the last message ends; false if it is not there. */
static bool put_begun(struct rendering *text, const struct job *job, size_t n_known,
                      struct spans *out)
{
    size_t i = 0;
    const uint32_t last = (uint32_t)(job->n - 1);
    while (i < text->n_runs &&
           !(text->runs[i].origin == ORIGIN_REPLY && text->runs[i].reply == last))
        i++;
    if (i == text->n_runs) return false;
    const struct origin_run run = text->runs[i];
    text->n_runs = i;
    put_runs(text, job->path, out);
    if (run.source >= n_known) return true;
    size_t n = n_known - run.source;
    spans_text(out, text->text + run.start, n < run.len ? n : run.len);
    return true;
}

bool render_begun(struct renderer *r, struct conversation *c, enum render_think think,
                  const struct message *begun, size_t n_known, struct spans *out)
{
    const struct message *const *path = conversation_path(c);
    size_t n = conversation_n(c);
    const struct message **longer = mem_alloc((n + 1) * sizeof *longer);
    for (size_t i = 0; i < n; i++)
        longer[i] = path[i];
    longer[n] = begun;
    struct job job = {.system = conversation_system(c),
                      .path = longer,
                      .n = n + 1,
                      .think = think,
                      .begun = true};
    struct rendering text;
    struct err ignored;
    /* What the system message is folded into is not told apart. */
    bool ok = render_job(r, &job, &text, &ignored);
    if (ok) {
        ok = !(job.fold && n == 0) && put_begun(&text, &job, n_known, out);
        rendering_free(&text);
    }
    free((void *)longer);
    return ok;
}
