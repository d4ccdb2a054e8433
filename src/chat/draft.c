/* /draft: another draft model, look-ups, both or nothing, while the conversation stays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat/commands.h"
#include "chat/impl.h"
#include "config/options.h"
#include "engine/engine.h"

void draft_configure(struct chat *c)
{
    free(c->draft_path);
    options_draft(c->options, &c->draft_path, &c->config.draft_lookup);
    c->config.draft_path = c->draft_path;
}

static bool give(struct chat *c, const char *value, struct err *err)
{
    return options_give(c->options, OPT_DRAFT, FROM_SET, 0, value, err);
}

void draft_forget(struct chat *c)
{
    struct err err;
    if (!c->draft_path || !option_given(c->options, OPT_DRAFT)) return;
    chat_hint(c, "the draft %s was for the model before; /draft names another", c->draft_path);
    give(c, c->config.draft_lookup ? "lookup" : "off", &err);
}

const char *draft_file(const struct chat *c)
{
    const char *slash = c->draft_path ? strrchr(c->draft_path, '/') : NULL;
    return slash ? slash + 1 : c->draft_path;
}

void draft_name(const struct chat *c, struct buf *out)
{
    const char *file = draft_file(c);
    if (file) buf_puts(out, file);
    if (file && c->config.draft_lookup) buf_puts(out, " and ");
    if (c->config.draft_lookup) buf_puts(out, "lookup");
    if (!file && !c->config.draft_lookup) buf_puts(out, "nothing");
}

static void tell(struct chat *c)
{
    struct buf name = {0};
    draft_name(c, &name);
    chat_tell(c, FACE_INFO, "tokens are guessed by %s", buf_str(&name));
    buf_free(&name);
}

void draft_remember(struct chat *c)
{
    struct buf value = {0};
    option_value(c->options, OPT_DRAFT, &value);
    free(c->before.draft);
    c->before.draft = option_given(c->options, OPT_DRAFT) ? mem_strdup(buf_str(&value)) : NULL;
    buf_free(&value);
}

void draft_restore(struct chat *c)
{
    struct err err;
    if (c->before.draft)
        give(c, c->before.draft, &err);
    else
        options_forget(c->options, OPT_DRAFT);
    draft_configure(c);
}

bool command_draft(struct chat *c, const char *args)
{
    struct err err;
    if (!*args) {
        tell(c);
        return true;
    }
    draft_remember(c);
    if (!give(c, args, &err)) {
        chat_tell(c, FACE_ERROR, "/draft: %s", err.msg);
        return false;
    }
    draft_configure(c);
    atomic_store(&c->cancelled, false);
    c->state = CHAT_BUSY;
    c->work = WORK_DRAFT;
    idle_stop(c);
    engine_draft(c->engine, c->draft_path, c->config.draft_lookup);
    chat_cancel_late(c);
    return true;
}

void draft_event(struct chat *c, const struct engine_event *event)
{
    if (event->kind == EVENT_WARNING) chat_tell(c, FACE_WARNING, "%s", event->text);
    if (event->kind != EVENT_DRAFT && event->kind != EVENT_FAILED) return;
    c->state = CHAT_IDLE;
    if (event->kind == EVENT_FAILED) {
        draft_restore(c);
        chat_tell(c, FACE_ERROR, "/draft: %s", event->err.msg);
    } else if (!c->options->quiet) {
        tell(c);
    }
}
