/* Work while the user reads and types: the engine computes what the next prompt will begin
 * with.
 *
 * What a template drops from the history, say earlier reasoning, and the line that is being
 * typed are computed before they are asked for. Each rest of the line posts a prompt without a
 * reply; the next request of any kind cancels it and waits for it, which takes milliseconds. */
#include <string.h>

#include "chat/conversation.h"
#include "chat/impl.h"
#include "chat/render.h"
#include "config/options.h"
#include "engine/engine.h"
#include "text/spans.h"

/* Longer lines than this are pasted, and sent before they are computed anyway. */
enum { MAX_LINE_BYTES = 64 << 10 };

/* The message as it would be if the line were sent now; "x" stands for what is not typed. */
static struct message *begin_message(struct chat *c, size_t *n_known)
{
    struct buf text = {0};
    buf_append(&text, c->attached.text.data, c->attached.text.len);
    buf_append(&text, c->idle.wanted.data, c->idle.wanted.len);
    *n_known = text.len;
    buf_putc(&text, 'x');
    struct message *m = message_new(ROLE_USER, text.data, text.len);
    buf_free(&text);
    return m;
}

static void start(struct chat *c)
{
    struct idle *idle = &c->idle;
    idle->is_wanted = false;
    bool same = idle->done.len == idle->wanted.len &&
                strcmp(buf_str(&idle->done), buf_str(&idle->wanted)) == 0;
    if (idle->is_done && same) return;
    idle->is_done = true;
    buf_clear(&idle->done);
    buf_append(&idle->done, idle->wanted.data, idle->wanted.len);

    /* A message without a reply would make way for this one. */
    const size_t n = conversation_n(c->conversation);
    if (n > 0 && conversation_at(c->conversation, n - 1)->role == ROLE_USER) return;

    /* A long paste that fits no context is not made tokens of at each rest of the line. */
    idle->n_begun = c->attached.text.len + idle->wanted.len;
    if (idle->n_failed > 0 && idle->n_begun >= idle->n_failed) return;

    size_t n_known;
    struct spans prompt = {0};
    struct message *m = begin_message(c, &n_known);
    if (render_begun(c->renderer, c->conversation, render_think_of(c->options->think), m,
                     n_known, &prompt) &&
        prompt.n > 0) {
        const struct engine_sampling none = chat_no_reply();
        idle->runs = true;
        engine_turn(c->engine, &prompt, &none);
    }
    spans_free(&prompt);
    message_release(m);
}

void chat_warm(struct chat *c, const char *line, size_t n)
{
    struct idle *idle = &c->idle;
    if (c->state != CHAT_IDLE || !c->options->warm_typing) return;
    bool is_command = chat_wants_slash(line, n);
    if (is_command && n > 1 && line[1] == '/') {
        line++, n--;
        is_command = false;
    }
    buf_clear(&idle->wanted);
    if (!is_command && n <= MAX_LINE_BYTES) buf_append(&idle->wanted, line, n);
    idle->is_wanted = true;
    if (!idle->runs) start(c);
}

void idle_event(struct chat *c, const struct engine_event *event)
{
    if (event->kind == EVENT_WARNING) chat_tell(c, FACE_WARNING, "%s", event->text);
    if (event->kind != EVENT_END && event->kind != EVENT_FAILED) return;
    c->idle.runs = false;
    /* Unless a command came in between: it may have been another conversation's. */
    const bool counts = c->idle.is_done;
    if (counts && event->kind == EVENT_FAILED && event->err.code != ERR_CANCELLED)
        c->idle.n_failed = c->idle.n_begun;
    if (counts && event->kind == EVENT_END && event->reply->stop != STOP_CANCELLED)
        context_set(c, event->reply->n_ctx_used, event->reply->n_ctx_used);
    if (c->idle.is_wanted && c->state == CHAT_IDLE) start(c);
}

void idle_stop(struct chat *c)
{
    struct engine_event event;
    c->idle.is_wanted = false;
    if (c->idle.runs) engine_cancel(c->engine);
    while (c->idle.runs && engine_next(c->engine, -1, &event))
        idle_event(c, &event);
}

void idle_forget(struct chat *c)
{
    c->idle.is_done = false;
    c->idle.n_failed = 0;
}

void idle_free(struct chat *c)
{
    buf_free(&c->idle.wanted);
    buf_free(&c->idle.done);
}
